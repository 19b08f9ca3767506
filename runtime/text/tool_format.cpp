// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tool_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/base/byte_reader.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/json_scanner.h"
#include "runtime/text/utf8.h"

namespace runnel {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Value;

constexpr std::size_t kIdBytes = 9;

// A call that no template has of its own.
constexpr std::string_view kName = "probe_the_name";
constexpr std::string_view kArguments = R"({"probe_key": "probe_value"})";
constexpr std::string_view kId = "Probe1234";

bool letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Values of texts are given: no special token is looked for in them.
Value value_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() <= INT64_MAX) return json.get<std::int64_t>();
      return json.get<double>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return marked_text(json.get<std::string>(), true);
    case Json::value_t::array: {
      jinja::List list;
      for (const Json& item : json) list.items.push_back(value_of(item));
      return list;
    }
    case Json::value_t::object: {
      jinja::Dict dict;
      for (const auto& [name, item] : json.items())
        dict.items.emplace_back(marked_text(name, true), value_of(item));
      return dict;
    }
    default:
      return nullptr;
  }
}

Json parsed(const std::string& text) {
  return is_json_container(text) ? Json::parse(text, nullptr, false)
                                 : Json(Json::value_t::discarded);
}

Json definition(const Tool& tool) {
  Json function = {{"name", tool.name}};
  if (!tool.description.empty()) function["description"] = tool.description;
  function["parameters"] = tool.parameters.empty()
                               ? Json{{"type", "object"}, {"properties", Json::object()}}
                               : parsed(tool.parameters);
  return {{"type", "function"}, {"function", std::move(function)}};
}

/// As Python's json.dumps() writes it.
std::string dumps(const Json& json) {
  const std::optional<MarkedText> text = jinja::write(value_of(json), {.json = true});
  return text ? bytes_of(*text) : std::string();
}

std::string with_id_mark(std::string text) {
  for (std::size_t at = 0; (at = text.find(kId, at)) != text.npos; ++at)
    text.replace(at, kId.size(), 1, ToolFormat::kIdMark);
  return text;
}

/// The style of calls written so, and what opens and closes them.
void classify(ToolFormat& format) {
  const auto tag = [](std::string_view text, char first, char last) {
    const std::size_t end = text.starts_with(first) ? text.find(last) : text.npos;
    return std::string(end == text.npos ? std::string_view() : text.substr(0, end + 1));
  };
  const auto ends_as_object = [&format](std::string_view from) {
    std::string packed(from);
    std::erase_if(packed, [](char c) { return c == ' ' || c == '\n'; });
    std::string middle = format.middle;
    std::erase_if(middle, [](char c) { return c == ' ' || c == '\n'; });
    return packed == R"({"name":")" &&
           (middle == R"(","arguments":)" || middle == R"(","parameters":)");
  };
  const std::string_view begin = format.begin;
  const std::string angle = tag(begin, '<', '>'), square = tag(begin, '[', ']');
  if (!angle.empty() && ends_as_object(begin.substr(angle.size()))) {
    std::string_view end = format.end;
    end.remove_prefix(std::min(end.find_first_not_of("} \n"), end.size()));
    const std::string close = tag(end, '<', '>');
    if (close != "</" + angle.substr(1)) return;
    format.style = ToolStyle::tagged;
    format.open = angle;
    format.close = close;
  } else if (ends_as_object(begin)) {
    format.style = ToolStyle::bare;
  } else if (square == "[TOOL_CALLS]") {
    const std::string_view rest = begin.substr(square.size());
    if (rest.starts_with('[') && ends_as_object(rest.substr(1))) {
      format.style = ToolStyle::list;
      format.open = square;
    } else if (rest.empty() && format.middle.ends_with("[ARGS]")) {
      format.style = ToolStyle::named;
      format.open = square;
    }
  }
}

}  // namespace

bool ChatTalk::has_tools() const {
  return !tools.empty() || std::ranges::any_of(messages, [](const ChatMessage& message) {
    return message.role == "tool" || !message.tool_calls.empty();
  });
}

ToolFormat find_tool_format(const LayOut& lay_out, std::string_view opening, std::string& closing) {
  ToolFormat format;
  format.reason = "the chat template does not lay out tools";
  const Tool tool{.name = std::string(kName),
                  .description = "Probes.",
                  .parameters = R"({"type": "object", "properties": {}})"};
  const std::span<const Tool> tools(&tool, 1);
  const ToolCall call{
      .id = std::string(kId), .name = tool.name, .arguments = std::string(kArguments)};
  const ChatMessage question{.role = "user", .content = "Question 1?"};
  const std::string plain = lay_out(std::span(&question, 1), {}, true);
  std::string prompt = lay_out(std::span(&question, 1), tools, true);
  if (prompt.find(kName) == prompt.npos || prompt == plain) return format;
  if (prompt.ends_with(opening)) prompt.resize(prompt.size() - opening.size());
  const std::vector<ChatMessage> answered = {question,
                                             {.role = "assistant", .content = "Answer 1."}};
  const std::string said = lay_out(answered, tools, false);
  const std::size_t answer = said.rfind("Answer 1.");
  closing = answer == said.npos ? "" : said.substr(answer + std::string_view("Answer 1.").size());
  if (closing.empty()) return format;
  const auto laid_out = [&](std::size_t n) {
    const std::vector<ChatMessage> talk = {
        question,
        {.role = "assistant", .content = {}, .tool_calls = std::vector<ToolCall>(n, call)},
        {.role = "tool", .content = "Result 1.", .tool_call_id = call.id}};
    std::string all = lay_out(talk, tools, false);
    if (!all.starts_with(prompt)) return std::string();
    all.erase(0, prompt.size());
    const std::size_t end = all.find(closing);
    all.resize(end == all.npos ? 0 : end);
    return with_id_mark(std::move(all));
  };
  const std::string one = laid_out(1), two = laid_out(2);
  const std::size_t name = one.find(kName), arguments = one.find(kArguments);
  if (name == one.npos || arguments == one.npos || arguments < name) {
    format.reason = "the chat template lays out calls in a way that is not read";
    return format;
  }
  format.begin = one.substr(0, name);
  format.middle = one.substr(name + kName.size(), arguments - name - kName.size());
  format.end = one.substr(arguments + kArguments.size());
  const std::string first = one.substr(0, arguments + kArguments.size());
  const std::size_t second = two.starts_with(first) ? two.find(kName, first.size()) : two.npos;
  if (second != two.npos && two.substr(second) == std::string(kName) + format.middle +
                                                      std::string(kArguments) + format.end)
    format.between = two.substr(first.size(), second - first.size());
  classify(format);
  format.reason =
      format.style == ToolStyle::none
          ? "the chat template writes calls as " + in_quotes(format.begin) + ", which is not read"
          : "";
  return format;
}

ToolFormat tagged_tool_format() {
  return {.style = ToolStyle::tagged,
          .open = "<tool_call>",
          .close = "</tool_call>",
          .begin = "<tool_call>\n{\"name\": \"",
          .middle = "\", \"arguments\": ",
          .between = "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
          .end = "}\n</tool_call>"};
}

std::vector<ChatMessage> in_words(const ChatTalk& talk, const std::string& default_system_prompt) {
  std::vector<ChatMessage> words;
  std::span<const ChatMessage> rest = talk.messages;
  if (!talk.tools.empty()) {
    std::string system = default_system_prompt;
    if (!rest.empty() && rest.front().role == "system") {
      system = rest.front().content;
      rest = rest.subspan(1);
    }
    if (!system.empty()) system += "\n\n";
    system +=
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
        "provided with "
        "function signatures within <tools></tools> XML tags:\n<tools>";
    for (const Tool& tool : talk.tools) system += "\n" + dumps(definition(tool));
    system +=
        "\n</tools>\n\nFor each function call, return a json object with function name and "
        "arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
        "\"arguments\": "
        "<args-json-object>}\n</tool_call>";
    words.push_back({.role = "system", .content = std::move(system)});
  }
  const ToolFormat format = tagged_tool_format();
  bool in_results = false;
  for (const ChatMessage& message : rest) {
    if (message.role == "tool") {
      const std::string result = "<tool_response>\n" + message.content + "\n</tool_response>";
      if (in_results) {
        words.back().content += "\n" + result;
      } else {
        words.push_back({.role = "user", .content = result});
      }
      in_results = true;
      continue;
    }
    in_results = false;
    ChatMessage word{.role = message.role, .content = message.content};
    const char* before = word.content.empty() ? "" : "\n";
    for (const ToolCall& call : message.tool_calls) {
      word.content += before + format.begin + call.name + format.middle +
                      dumps(parsed(call.arguments)) + format.end;
      before = "\n";
    }
    words.push_back(std::move(word));
  }
  return words;
}

Value tools_value(std::span<const Tool> tools) {
  if (tools.empty()) return nullptr;
  jinja::List list;
  for (const Tool& tool : tools) list.items.push_back(value_of(definition(tool)));
  return list;
}

std::string call_id(const std::string& id, bool nine) {
  if (!nine || (id.size() == kIdBytes && std::ranges::all_of(id, letter_or_digit))) return id;
  std::string out = hexadecimal(hash64(as_bytes(id)));
  out.insert(0, std::max(out.size(), kIdBytes) - out.size(), '0');
  return out.substr(out.size() - kIdBytes);
}

Value calls_value(std::span<const ToolCall> calls, bool nine) {
  jinja::List list;
  for (const ToolCall& call : calls) {
    jinja::Dict function;
    function.set(Value("name"), Value(marked_text(call.name, true)));
    function.set(Value("arguments"), value_of(parsed(call.arguments)));
    jinja::Dict entry;
    entry.set(Value("id"), Value(marked_text(call_id(call.id, nine), true)));
    entry.set(Value("type"), Value("function"));
    entry.set(Value("function"), Value(std::move(function)));
    list.items.emplace_back(std::move(entry));
  }
  return list;
}

Status check_calls(const ChatMessage& message) {
  if (!message.tool_calls.empty() && message.role != "assistant")
    return fail(ErrorCode::invalid_argument, "chat message: tool calls of the role ",
                in_quotes(message.role), ", expected assistant");
  for (const ToolCall& call : message.tool_calls) {
    for (const std::string* text : {&call.id, &call.name, &call.arguments}) {
      if (first_invalid_utf8(*text) != std::string_view::npos)
        return fail(ErrorCode::malformed, "chat message: a tool call is not UTF-8");
    }
    if (call.name.empty())
      return fail(ErrorCode::invalid_argument, "chat message: a tool call has no name");
    if (const Json json = parsed(call.arguments); !json.is_object())
      return fail(ErrorCode::invalid_argument, "chat message: the arguments of the call of ",
                  in_quotes(call.name), " are no JSON object");
  }
  if (first_invalid_utf8(message.tool_call_id) != std::string_view::npos)
    return fail(ErrorCode::malformed, "chat message: the id of a tool call is not UTF-8");
  return {};
}

Status check_tools(std::span<const Tool> tools) {
  if (tools.size() > kMostTools)
    return fail(ErrorCode::invalid_argument, "tools: ", tools.size(),
                " are given, expected at most ", std::size_t{kMostTools});
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Tool& tool = tools[i];
    const bool fits =
        !tool.name.empty() && tool.name.size() <= 64 && std::ranges::all_of(tool.name, [](char c) {
          return letter_or_digit(c) || c == '_' || c == '-' || c == '.';
        });
    if (!fits)
      return fail(ErrorCode::invalid_argument, "tools: the name of tool ", i, " is ",
                  in_quotes(tool.name), ", expected 1 to 64 of A-Z a-z 0-9 _ . -");
    if (!names.insert(tool.name).second)
      return fail(ErrorCode::invalid_argument, "tools: there are two of the name ", tool.name);
    if (first_invalid_utf8(tool.description) != std::string_view::npos)
      return fail(ErrorCode::malformed, "tools: the description of ", tool.name, " is not UTF-8");
    if (!tool.parameters.empty() && !parsed(tool.parameters).is_object())
      return fail(ErrorCode::invalid_argument, "tools: the parameters of ", tool.name,
                  " are no JSON object, nested at most ", std::size_t{JsonScanner::kMostDepth},
                  " deep");
  }
  return {};
}

namespace {

/// @param where  "tools: tool 3"
Result<Tool> read_tool(const Json& entry, const std::string& where) {
  const auto wrong = [&where](const auto&... parts) {
    return fail(ErrorCode::invalid_argument, where, ": ", parts...);
  };
  if (!entry.is_object()) return wrong("is no object");
  const Json* function = &entry;
  if (entry.contains("type") || entry.contains("function")) {
    if (!entry.contains("type") || entry["type"] != "function")
      return wrong("its type is not \"function\", the only one that is supported");
    if (!entry.contains("function") || !entry["function"].is_object())
      return wrong("has no object \"function\"");
    for (const auto& [name, value] : entry.items()) {
      if (name != "type" && name != "function" && !value.is_null())
        return wrong("the field ", in_quotes(name), " is not supported");
    }
    function = &entry["function"];
  }
  Tool tool;
  for (const auto& [name, value] : function->items()) {
    if (value.is_null()) continue;
    const bool text = name == "name" || name == "description";
    if (text && !value.is_string()) return wrong(name, " is no text");
    if (name == "name") {
      tool.name = value.get<std::string>();
    } else if (name == "description") {
      tool.description = value.get<std::string>();
    } else if (name == "parameters") {
      if (!value.is_object()) return wrong("parameters is no JSON schema of an object");
      if (!value.empty()) tool.parameters = value.dump();
    } else if (name == "strict") {
      if (!value.is_boolean()) return wrong("strict is neither true nor false");
      tool.strict = value.get<bool>();
    } else {
      return wrong("the field ", in_quotes(name), " is not supported");
    }
  }
  return tool;
}

}  // namespace

Result<std::vector<Tool>> read_tools(std::string_view json) {
  if (first_invalid_utf8(json) != std::string_view::npos)
    return fail(ErrorCode::invalid_argument, "tools: is not UTF-8");
  const Json list = parsed(std::string(json));
  if (!list.is_array())
    return fail(ErrorCode::invalid_argument, "tools: is no JSON list, nested at most ",
                std::size_t{JsonScanner::kMostDepth}, " deep");
  if (list.size() > kMostTools)
    return fail(ErrorCode::invalid_argument, "tools: ", list.size(),
                " are given, expected at most ", std::size_t{kMostTools});
  std::vector<Tool> tools;
  for (std::size_t i = 0; i < list.size(); ++i) {
    RUNNEL_TRY(Tool tool, read_tool(list[i], "tools: tool " + std::to_string(i)));
    tools.push_back(std::move(tool));
  }
  RUNNEL_CHECK_OK(check_tools(tools));
  return tools;
}

}  // namespace runnel
