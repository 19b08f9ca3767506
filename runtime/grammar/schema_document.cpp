// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/schema_document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <vector>

#include "runtime/base/number.h"
#include "runtime/grammar/source_check.h"

namespace runnel {
namespace {

using Json = SchemaJson;

constexpr int kMostSteps = 128;  // of references, when a value is looked at

/// Both, where each may be unknown.
std::optional<bool> both(std::optional<bool> a, std::optional<bool> b) {
  if (a == false || b == false) return false;
  if (!a || !b) return std::nullopt;
  return true;
}

std::optional<bool> opposite(std::optional<bool> a) {
  if (!a) return std::nullopt;
  return !*a;
}

/// Its characters, as JSON Schema counts a text.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

bool is_whole(const Json& value) {
  return value.is_number() &&
         (value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>());
}

bool is_of_type(const Json& value, const Json& type) {
  if (type.is_array())
    return std::ranges::any_of(type, [&](const Json& one) { return is_of_type(value, one); });
  return type == "integer" ? is_whole(value) : type == json_type(value);
}

std::optional<bool> holds_bound(double value, const std::string& name, double bound) {
  if (name == "minimum") return value >= bound;
  if (name == "maximum") return value <= bound;
  if (name == "exclusiveMinimum") return value > bound;
  if (name == "exclusiveMaximum") return value < bound;
  if (std::floor(value) != value || std::floor(bound) != bound || bound <= 0) return std::nullopt;
  return std::fmod(value, bound) == 0;  // multipleOf
}

std::optional<bool> holds_count(std::size_t count, const std::string& name, const Json& bound) {
  if (!bound.is_number()) return std::nullopt;
  const auto have = static_cast<double>(count);
  return name.starts_with("min") ? have >= bound.get<double>() : have <= bound.get<double>();
}

bool is_any_of(const std::string& name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// "%41~1" of a reference is "A/".
std::optional<std::string> unescaped(std::string_view part) {
  std::string plain;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '%') {
      int byte = 0;
      const char* const digits = part.data() + i + 1;
      if (part.size() - i < 3 || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2)
        return std::nullopt;
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += part[i];
    }
  }
  for (std::size_t at = 0; (at = plain.find('~', at)) != std::string::npos; ++at) {
    const char next = at + 1 < plain.size() ? plain[at + 1] : ' ';
    if (next != '0' && next != '1') return std::nullopt;
    plain.replace(at, 2, next == '0' ? "~" : "/");
  }
  return plain;
}

const Json* child(const Json& of, const std::string& name) {
  if (of.is_object()) {
    const auto at = of.find(name);
    return at == of.end() ? nullptr : &*at;
  }
  const auto index = number_in<std::size_t>(name);
  return of.is_array() && index && *index < of.size() ? &of[*index] : nullptr;
}

}  // namespace

std::string_view json_type(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "boolean";
    case Json::value_t::string:
      return "string";
    case Json::value_t::array:
      return "array";
    case Json::value_t::object:
      return "object";
    default:
      return "number";
  }
}

bool same_value(const Json& a, const Json& b) {
  if (json_type(a) != json_type(b) || a.size() != b.size()) return false;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), same_value);
  if (!a.is_object()) return a == b;
  return std::ranges::all_of(a.items(), [&](const auto& one) {
    return b.contains(one.key()) && same_value(one.value(), b[one.key()]);
  });
}

Json plainly_written(const Json& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::floor(number) == number && std::abs(number) <= kExact)
      return static_cast<std::int64_t>(number);
    return value;
  }
  if (!value.is_structured()) return value;
  Json plain = value;
  for (Json& one : plain) one = plainly_written(one);
  return plain;
}

Result<SchemaDocument> SchemaDocument::parse(std::string_view text) {
  int most = 0;
  std::string twice;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    most = std::max(most, depth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() &&
        !keys.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return most <= kMostSourceDepth;  // else what is deeper is left out
  };
  Json root = Json::parse(text, watch, false);
  if (most > kMostSourceDepth) {
    return fail(ErrorCode::invalid_argument, "schema: is nested more than ", kMostSourceDepth,
                " deep");
  }
  if (root.is_discarded()) return fail(ErrorCode::invalid_argument, "schema: is no JSON");
  if (!twice.empty()) {
    return fail(ErrorCode::invalid_argument, "schema: has the key \"", twice.substr(0, 40),
                "\" twice in one object");
  }
  SchemaDocument document;
  document.root_ = std::make_unique<const Json>(std::move(root));
  document.note_anchors(document.root());
  return document;
}

void SchemaDocument::note_anchors(const Json& part) {
  if (!part.is_structured()) return;
  if (part.is_object() && part.contains("$anchor") && part["$anchor"].is_string())
    anchors_.emplace(part["$anchor"].get<std::string>(), &part);
  for (const Json& one : part) note_anchors(one);
}

Result<const Json*> SchemaDocument::find(std::string_view reference, std::string_view path) const {
  std::string_view rest = reference;
  if (root().is_object() && root().contains("$id") && root()["$id"].is_string()) {
    std::string_view base = root()["$id"].get_ref<const std::string&>();
    base = base.substr(0, base.find('#'));
    if (!base.empty() && rest.starts_with(base) &&
        (rest.size() == base.size() || rest[base.size()] == '#'))
      rest.remove_prefix(base.size());
  }
  if (rest.empty() && rest.size() != reference.size()) return &root();
  if (!rest.starts_with('#')) {
    return schema_error(path, "$ref is \"", reference.substr(0, 80),
                        "\", expected a part of this schema such as \"#/$defs/name\"");
  }
  rest.remove_prefix(1);
  if (const auto at = anchors_.find(rest); at != anchors_.end()) return at->second;
  const Json* at = &root();
  while (at != nullptr && !rest.empty()) {
    if (rest[0] != '/') at = nullptr;
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::optional<std::string> part = unescaped(rest.substr(0, end));
    rest.remove_prefix(end);
    if (at != nullptr) at = part ? child(*at, *part) : nullptr;
  }
  if (at == nullptr)
    return schema_error(path, "$ref \"", reference.substr(0, 80), "\" leads nowhere");
  return at;
}

std::optional<bool> SchemaDocument::holds(const Json& value, const Json& schema, int depth) const {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object() || depth > kMostSteps) return std::nullopt;
  std::optional<bool> all = true;
  for (const auto& [name, part] : schema.items()) {
    static_cast<void>(part);
    all = both(all, holds_keyword(value, schema, name, depth));
    if (all == false) break;
  }
  return all;
}

std::optional<bool> SchemaDocument::holds_keyword(const Json& value, const Json& schema,
                                                  const std::string& name, int depth) const {
  constexpr std::array<std::string_view, 5> kBounds = {"minimum", "maximum", "exclusiveMinimum",
                                                       "exclusiveMaximum", "multipleOf"};
  constexpr std::array<std::string_view, 6> kUnknown = {
      "contains", "uniqueItems", "if", "$dynamicRef", "$recursiveRef", "unevaluatedItems"};
  const Json& part = schema[name];
  if (name == "type") return is_of_type(value, part);
  if (name == "const") return same_value(value, part);
  if (name == "enum") {
    return part.is_array() &&
           std::ranges::any_of(part, [&](const Json& one) { return same_value(value, one); });
  }
  if (name == "not") return opposite(holds(value, part, depth + 1));
  if (name == "allOf" || name == "anyOf" || name == "oneOf" || name == kEveryOf)
    return holds_lists(value, part, name, depth);
  if (name == "$ref") {
    if (!part.is_string()) return std::nullopt;
    const auto target = find(part.get_ref<const std::string&>(), "");
    return target ? holds(value, **target, depth + 1) : std::nullopt;
  }
  if (is_any_of(name, kUnknown)) return std::nullopt;
  if (value.is_number() && is_any_of(name, kBounds)) {
    return part.is_number() ? holds_bound(value.get<double>(), name, part.get<double>())
                            : std::nullopt;
  }
  if (value.is_string() && (name == "minLength" || name == "maxLength"))
    return holds_count(characters(value.get_ref<const std::string&>()), name, part);
  if (value.is_string() && name == "pattern") return std::nullopt;
  if (value.is_array()) return holds_array(value, schema, name, depth);
  if (value.is_object()) return holds_object(value, schema, name, depth);
  return true;
}

std::optional<bool> SchemaDocument::holds_lists(const Json& value, const Json& list,
                                                const std::string& name, int depth) const {
  if (!list.is_array()) return std::nullopt;
  int met = 0, unknown = 0, failed = 0;
  for (const Json& one : list) {
    const std::optional<bool> holds_one = holds(value, one, depth + 1);
    met += holds_one == true ? 1 : 0;
    unknown += holds_one ? 0 : 1;
    failed += holds_one == false ? 1 : 0;
  }
  if (name == "anyOf") {
    if (met > 0) return true;
    return unknown > 0 ? std::nullopt : std::optional(false);
  }
  if (name == "oneOf") {
    if (met > 1) return false;
    return unknown > 0 ? std::nullopt : std::optional(met == 1);
  }
  if (failed > 0) return false;
  return unknown > 0 ? std::nullopt : std::optional(true);
}

std::optional<bool> SchemaDocument::holds_array(const Json& value, const Json& schema,
                                                const std::string& name, int depth) const {
  const Json& part = schema[name];
  if (name == "minItems" || name == "maxItems") return holds_count(value.size(), name, part);
  if (name != "items" && name != "prefixItems") return true;
  const Json* prefix = schema.contains("prefixItems") ? &schema["prefixItems"] : nullptr;
  if (part.is_array() != (name == "prefixItems") || (prefix != nullptr && !prefix->is_array()))
    return std::nullopt;
  std::optional<bool> all = true;
  const std::size_t first = name == "items" && prefix != nullptr ? prefix->size() : 0;
  for (std::size_t i = first; i < value.size(); ++i) {
    if (name == "items") {
      all = both(all, holds(value[i], part, depth + 1));
    } else if (i < part.size()) {
      all = both(all, holds(value[i], part[i], depth + 1));
    }
  }
  return all;
}

std::optional<bool> SchemaDocument::holds_object(const Json& value, const Json& schema,
                                                 const std::string& name, int depth) const {
  constexpr std::array<std::string_view, 7> kUnknown = {
      "patternProperties", "dependentRequired",     "dependentSchemas", "dependencies",
      "propertyNames",     "unevaluatedProperties", "extends"};
  const Json& part = schema[name];
  if (is_any_of(name, kUnknown)) return std::nullopt;
  if (name == "minProperties" || name == "maxProperties")
    return holds_count(value.size(), name, part);
  std::optional<bool> all = true;
  if (name == "required") {
    return part.is_array() && std::ranges::all_of(part, [&](const Json& one) {
             return one.is_string() && value.contains(one.get_ref<const std::string&>());
           });
  }
  if (name != "properties" && name != "additionalProperties") return true;
  const Json none = Json::object();
  const Json& named = schema.contains("properties") ? schema["properties"] : none;
  if (!named.is_object() || schema.contains("patternProperties")) return std::nullopt;
  for (const auto& [key, one] : value.items()) {
    const bool is_named = named.contains(key);
    if (name == "properties" && is_named) all = both(all, holds(one, named[key], depth + 1));
    if (name == "additionalProperties" && !is_named) all = both(all, holds(one, part, depth + 1));
  }
  return all;
}

}  // namespace runnel
