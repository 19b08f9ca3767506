// SPDX-License-Identifier: Apache-2.0
#include "app/serve/request_tools.h"

#include <span>
#include <utility>

#include "runtime/base/hash.h"

namespace runnel::serve {
namespace {

constexpr std::size_t kMostCalls = 128;  // of a message

// "auto", "none", "required", or {"type": "function", "function": {"name": …}}.
void read_choice(Fields& fields, AskedTools& asked) {
  const nlohmann::json* given = fields.value("tool_choice");
  if (given == nullptr) return;
  using Kind = ToolChoice::Kind;
  if (*given == "auto" || *given == "none" || *given == "required") {
    asked.choice.kind = *given == "auto"   ? Kind::automatic
                        : *given == "none" ? Kind::none
                                           : Kind::required;
  } else {
    const bool function = given->is_object() && given->size() == 2 &&
                          given->value("type", nlohmann::json()) == "function" &&
                          given->contains("function") && (*given)["function"].is_object();
    const auto name = function ? (*given)["function"].value("name", nlohmann::json()) : nullptr;
    if (!name.is_string() || (*given)["function"].size() != 1) {
      return fields.refuse(
          "tool_choice: expected \"auto\", \"none\", \"required\" or {\"type\": \"function\", "
          "\"function\": {\"name\": \"…\"}}",
          "tool_choice");
    }
    asked.choice.kind = Kind::named;
    asked.choice.name = name.get<std::string>();
  }
  const bool calls = asked.choice.kind == Kind::required || asked.choice.kind == Kind::named;
  if (calls && asked.tools.empty()) {
    return fields.refuse("tool_choice asks for a call, and there are no tools", "tool_choice");
  }
  if (asked.choice.kind != Kind::named) return;
  for (const Tool& tool : asked.tools) {
    if (tool.name == asked.choice.name) return;
  }
  fields.refuse("tool_choice: there is no tool \"" + asked.choice.name.substr(0, 64) + "\"",
                "tool_choice");
}

}  // namespace

AskedTools read_asked_tools(Fields& fields, std::string_view body) {
  AskedTools asked;
  if (const nlohmann::json* given = fields.value("tools"); given != nullptr) {
    const auto whole = nlohmann::ordered_json::parse(body, nullptr, false);
    const std::string text =
        whole.is_object() && whole.contains("tools") ? dump(whole["tools"]) : "";
    Result<std::vector<Tool>> tools = read_tools(text);
    if (!tools) {
      fields.refuse(tools.error().message, "tools");
    } else if (!tools->empty()) {
      asked.tools = *std::move(tools);
      asked.hash = hash64(std::as_bytes(std::span(text)));
    }
  }
  read_choice(fields, asked);
  asked.choice.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  return asked;
}

void read_calls(const nlohmann::json& entry, ChatMessage& message, Fields& fields) {
  const auto wrong = [&fields](const std::string& what) {
    fields.refuse("messages: " + what, "messages");
  };
  const auto text = [](const nlohmann::json& object, const char* name) -> const std::string* {
    if (!object.is_object() || !object.contains(name) || !object[name].is_string()) return nullptr;
    return &object[name].get_ref<const std::string&>();
  };
  if (message.role == "tool") {
    const std::string* id = text(entry, "tool_call_id");
    if (id == nullptr || id->empty()) return wrong("one of the role tool has no tool_call_id");
    message.tool_call_id = *id;
  }
  if (message.role != "assistant" || !entry.contains("tool_calls")) return;
  const nlohmann::json& list = entry["tool_calls"];
  if (list.is_null()) return;
  if (!list.is_array() || list.size() > kMostCalls)
    return wrong("tool_calls is no list of at most " + std::to_string(kMostCalls) + " calls");
  for (const nlohmann::json& call : list) {
    const std::string *id = text(call, "id"), *type = text(call, "type");
    const nlohmann::json* function =
        call.is_object() && call.contains("function") ? &call["function"] : nullptr;
    const std::string* name = function == nullptr ? nullptr : text(*function, "name");
    const std::string* arguments = function == nullptr ? nullptr : text(*function, "arguments");
    if (id == nullptr || name == nullptr || arguments == nullptr || name->empty() ||
        (type != nullptr && *type != "function")) {
      return wrong(
          "a tool call is not {\"id\": …, \"type\": \"function\", \"function\": {\"name\": …, "
          "\"arguments\": \"{…}\"}}");
    }
    message.tool_calls.push_back(
        {.id = *id, .name = *name, .arguments = arguments->empty() ? "{}" : *arguments});
  }
}

ChatMessage CallAnswer::message() const {
  ChatMessage out{.role = "assistant", .content = content};
  for (const std::size_t call : whole) out.tool_calls.push_back(calls[call]);
  return out;
}

}  // namespace runnel::serve
