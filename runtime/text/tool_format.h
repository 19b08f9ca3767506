// SPDX-License-Identifier: Apache-2.0
// How a chat format lays out tools, calls and results.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/result.h"
#include "runnel/tools.h"
#include "runtime/text/jinja/value.h"

namespace runnel {

/// A conversation to lay out.
struct ChatTalk {
  std::span<const ChatMessage> messages;
  std::span<const Tool> tools;

  ChatTalk(std::span<const ChatMessage> of, std::span<const Tool> with = {})
      : messages(of), tools(with) {}
  ChatTalk(const std::vector<ChatMessage>& of, std::span<const Tool> with = {})
      : messages(of), tools(with) {}

  /// Whether there is more than words in it.
  bool has_tools() const;
};

/// Lays out sample conversations; an error is an empty text.
using LayOut =
    std::function<std::string(std::span<const ChatMessage>, std::span<const Tool>, bool prompt)>;

/// The format of a template, from what it makes of samples.
/// @param opening  AnswerForm::opening, which the prompt ends with
/// @param closing  <- what follows an answer: "<|im_end|>\n"
ToolFormat find_tool_format(const LayOut& lay_out, std::string_view opening, std::string& closing);

/// The format of calls in <tool_call> tags, which ChatML and RWKV models were taught (Hermes).
ToolFormat tagged_tool_format();

/// `talk` in words alone, with tools, calls and results as tagged_tool_format() has them. Messages of neighbouring results
/// become one of the user.
/// @param default_system_prompt  where there is no system message
std::vector<ChatMessage> in_words(const ChatTalk& talk, const std::string& default_system_prompt);

/// What a template sees as `tools`.
jinja::Value tools_value(std::span<const Tool> tools);
/// What it sees as `tool_calls` of a message. @param nine  ids have nine letters or digits, others are hashed
jinja::Value calls_value(std::span<const ToolCall> calls, bool nine);
std::string call_id(const std::string& id, bool nine);

/// @return invalid_argument for a call whose arguments are no JSON object or whose name is empty; malformed for text
///         that is not UTF-8
Status check_calls(const ChatMessage& message);
Status check_tools(std::span<const Tool> tools);

}  // namespace runnel
