// SPDX-License-Identifier: Apache-2.0
// The tools of a request, and calls and results among its messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/serve/json_fields.h"
#include "runnel/tools.h"

namespace runnel::serve {

/// What a request says of tools.
struct AskedTools {
  std::vector<Tool> tools;
  ToolChoice choice;
  std::uint64_t hash = 0;  // of the tools, 0 for none

  /// Whether answers may have calls.
  bool may_call() const { return !tools.empty() && choice.kind != ToolChoice::Kind::none; }
};

/// The fields tools, tool_choice and parallel_tool_calls.
/// @param body  the same object as text, since the order of a schema's properties is that of the arguments
AskedTools read_asked_tools(Fields& fields, std::string_view body);

/// The fields tool_calls and tool_call_id of a message.
void read_calls(const nlohmann::json& entry, ChatMessage& message, Fields& fields);

/// A choice's answer, put together from what a reader of calls gives.
struct CallAnswer {
  std::string content;          // text, and the texts of calls that are none
  std::vector<ToolCall> calls;  // begun ones; in order, with ids
  std::vector<BrokenCall> broken;
  bool half_call = false;          // one that was begun is none
  std::vector<std::size_t> whole;  // of `calls`, those that are

  /// @param name  of a call, by its place: its id
  template <class Name>
  void take(const ToolEvent& event, const Name& name) {
    using Kind = ToolEvent::Kind;
    if (event.kind == Kind::begin)
      calls.push_back({.id = name(event.call), .name = event.text, .arguments = {}});
    if (event.kind == Kind::arguments) calls.back().arguments += event.text;
    if (event.kind == Kind::end) whole.push_back(event.call);
    if (event.kind == Kind::text || event.kind == Kind::broken) content += event.text;
    if (event.kind != Kind::broken) return;
    broken.push_back({event.text, event.reason});
    half_call = half_call || event.begun;
  }

  /// The message of the assistant: what a client sends back.
  ChatMessage message() const;
};

/// All of an answer's text.
template <class Name>
CallAnswer answer_of(const ToolFormat& format, std::string_view text, bool cut, const Name& name) {
  ToolCallReader reader(format);
  CallAnswer answer;
  for (const ToolEvent& event : reader.push(text)) answer.take(event, name);
  for (const ToolEvent& event : reader.finish(cut)) answer.take(event, name);
  return answer;
}

}  // namespace runnel::serve
