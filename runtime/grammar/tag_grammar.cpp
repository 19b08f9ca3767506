// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/tag_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <variant>

#include "runtime/base/try.h"
#include "runtime/grammar/checkpoint.h"
#include "runtime/grammar/schema_rewrite.h"
#include "runtime/grammar/source_check.h"

namespace runnel {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kIdMark = '\x1f';  // ToolFormat::kIdMark
constexpr const char* kAnyObject = R"({"type": "object"})";

Json constant(std::string_view text) { return {{"type", "const_string"}, {"value", text}}; }
Json sequence(Json elements) { return {{"type", "sequence"}, {"elements", std::move(elements)}}; }
Json grammar(std::string text) { return {{"type", "grammar"}, {"grammar", std::move(text)}}; }

/// Adds `text` to the elements of a sequence.
void add_text(Json& elements, std::string_view text) {
  while (!text.empty()) {
    const std::size_t mark = text.find(kIdMark);
    if (mark > 0) elements.push_back(constant(text.substr(0, mark)));
    if (mark == text.npos) return;
    elements.push_back({{"type", "regex"}, {"pattern", "[a-zA-Z0-9]{9}"}});
    text.remove_prefix(mark + 1);
  }
}

/// A character class of all characters but `c`, which is ASCII.
std::string all_but(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return std::string("[^\\x") + kDigits[byte >> 4U] + kDigits[byte & 15U] + "]";
}

/// A grammar of the texts that do not begin with `start`, which is ASCII.
std::string not_beginning_with(std::string_view start) {
  const auto quoted = [](std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '\n') {
        out += "\\n";
        continue;
      }
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + "\"";
  };
  std::string rules = "root ::= \"\"";
  for (std::size_t n = 0; n < start.size(); ++n) {
    const std::string head = n == 0 ? "" : quoted(start.substr(0, n)) + " ";
    if (n > 0) rules += " | " + head;
    rules += " | " + head + all_but(start[n]) + " rest";
  }
  return rules + "\nrest ::= [^\\x00]*\n";
}

bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= 0x20 && c < 0x7f); });
}

bool has_text(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_string();
}

Result<std::string> checked_schema(const Json& tag) {
  if (!has_text(tag, "begin") || !tag.contains("strict") || !tag["strict"].is_boolean())
    return fail(ErrorCode::invalid_argument, "has no text \"begin\" or no \"strict\"");
  const bool given =
      tag.contains("schema") && (tag["schema"].is_object() || tag["schema"].is_boolean());
  if (!given) return fail(ErrorCode::invalid_argument, "has no JSON schema");
  const std::string schema = tag["schema"].dump();
  const bool strict = tag["strict"].get<bool>();
  Result<std::string> rewritten = rewrite_schema(schema, strict);
  if (!rewritten && !strict) return std::string(kAnyObject);
  return rewritten;
}

Status check_shape(const Json& source) {
  const auto wrong = [](const char* what) {
    return fail(ErrorCode::invalid_argument, "tags: ", what);
  };
  if (!source.is_object()) return wrong("is no JSON object");
  for (const char* name : {"free", "trigger", "begin", "between", "end"}) {
    if (!has_text(source, name))
      return fail(ErrorCode::invalid_argument, "tags: has no text \"", name, "\"");
  }
  const auto& free = source["free"].get_ref<const std::string&>();
  const auto& trigger = source["trigger"].get_ref<const std::string&>();
  const auto& begin = source["begin"].get_ref<const std::string&>();
  if (free != "none" && free != "before" && free != "only")
    return wrong("free is none of \"none\", \"before\" and \"only\"");
  if (free != "none" && trigger.empty() && (begin.empty() || !is_ascii(begin)))
    return wrong("has neither a trigger nor an ASCII \"begin\"");
  if (free == "before" && !begin.starts_with(trigger))
    return wrong("\"begin\" does not begin with the trigger");
  if (!source.contains("tags") || !source["tags"].is_array()) return wrong("has no list \"tags\"");
  if (source["tags"].empty() && free != "only") return wrong("has no tag");
  return {};
}

}  // namespace

Result<std::string> check_tags(std::string_view text) {
  int most = 0;
  const auto watch = [&most](int depth, Json::parse_event_t, Json&) {
    most = std::max(most, depth);
    return most <= kMostSourceDepth + 2;
  };
  Json source = Json::parse(text, watch, false);
  if (most > kMostSourceDepth + 2)
    return fail(ErrorCode::invalid_argument, "tags: is nested too deeply");
  RUNNEL_CHECK_OK(check_shape(source));
  for (std::size_t i = 0; i < source["tags"].size(); ++i) {
    Json& tag = source["tags"][i];
    const std::string name = tag.is_object() && has_text(tag, "name")
                                 ? tag["name"].get<std::string>()
                                 : std::to_string(i);
    Result<std::string> schema = tag.is_object()
                                     ? checked_schema(tag)
                                     : fail(ErrorCode::invalid_argument, "is no JSON object");
    if (!schema) return with_context(std::move(schema).error(), name + ": ");
    tag["schema"] = *std::move(schema);  // as text
  }
  return source.dump();
}

xgrammar::Grammar tag_grammar(const std::string& checked) {
  const Json source = Json::parse(checked);
  const std::string free = source["free"], trigger = source["trigger"], begin = source["begin"],
                    between = source["between"], end = source["end"];
  Json tags = Json::array();
  for (const Json& tag : source["tags"]) {
    const std::string schema = tag["schema"];
    Json elements = Json::array();
    add_text(elements, tag["begin"].get<std::string>());
    elements.push_back(grammar(
        xgrammar::Grammar::FromJSONSchema(schema, false, std::nullopt, std::nullopt, tag["strict"])
            .ToString()));
    tags.push_back(sequence(std::move(elements)));
    runnel_xgrammar_checkpoint(schema.size());
  }
  const Json any_tag = {{"type", "or"}, {"elements", std::move(tags)}};
  const auto calls = [&](std::string_view opening) {
    Json elements = Json::array();
    add_text(elements, opening);
    elements.push_back(any_tag);
    if (!between.empty()) {
      Json again = Json::array();
      add_text(again, between);
      again.push_back(any_tag);
      elements.push_back({{"type", "star"}, {"content", sequence(std::move(again))}});
    }
    add_text(elements, end);
    return sequence(std::move(elements));
  };
  const auto other = [&] {
    return trigger.empty() ? grammar(not_beginning_with(begin))
                           : Json{{"type", "any_text"}, {"excludes", {trigger}}};
  };
  Json format;
  if (free == "none") {
    format = calls(begin);
  } else if (free == "only") {
    format = other();
  } else if (trigger.empty()) {
    format = {{"type", "or"}, {"elements", {other(), calls(begin)}}};
  } else {
    format = {{"type", "dispatch"},
              {"rules", Json::array({Json::array({trigger, calls(begin.substr(trigger.size()))})})},
              {"loop", false}};
  }
  auto made = xgrammar::Grammar::FromStructuralTag(Json{{"format", std::move(format)}}.dump());
  if (const auto* wrong = std::get_if<xgrammar::StructuralTagError>(&made))
    throw std::runtime_error(
        std::visit([](const auto& e) { return std::string(e.what()); }, *wrong));
  return std::get<xgrammar::Grammar>(std::move(made));
}

}  // namespace runnel
