// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/world_chat.h"

#include "runtime/base/try.h"
#include "runtime/text/utf8.h"

namespace runnel {
namespace {

constexpr std::string_view kTurn = "\n\n";
constexpr std::string_view kThoughtEnd = "</think>";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

/// Without blank lines.
std::string one_break_each(std::string_view text) {
  std::string out;
  for (const char c : trimmed(text)) {
    if (c == '\r' || (c == '\n' && out.ends_with('\n'))) continue;
    out += c;
  }
  return out;
}

std::string_view without_thought(std::string_view text) {
  const std::size_t end = text.rfind(kThoughtEnd);
  return trimmed(end == text.npos ? text : text.substr(end + kThoughtEnd.size()));
}

}  // namespace

bool is_world_chat(std::string_view tokenizer, std::string_view chat_template) {
  if (chat_template == "rwkv-world") return true;
  const auto has = [&](std::string_view text) {
    return chat_template.find(text) != chat_template.npos;
  };
  return tokenizer == "rwkv" && (chat_template.empty() || (has("User:") && has("Assistant:")));
}

Result<std::vector<TokenId>> encode_world_chat(const Tokenizer& tokenizer,
                                               const std::string& default_prompt,
                                               std::span<const ChatMessage> messages,
                                               const ChatPlace& place) {
  std::string text(place.unread);
  bool first = place.continuation == ChatContinuation::start;
  const auto begin_turn = [&](std::string_view role) {
    if (!first) text += kTurn;
    first = false;
    text += role;
  };
  if (first && !default_prompt.empty() && !messages.empty() && messages[0].role != "system") {
    begin_turn("System: ");
    text += one_break_each(default_prompt);
  }
  for (const ChatMessage& message : messages) {
    if (const std::size_t at = first_invalid_utf8(message.content); at != std::string::npos)
      return fail(ErrorCode::malformed, "chat message: is not UTF-8 at byte ", at);
    const bool assistant = message.role == "assistant";
    begin_turn(assistant ? "Assistant: " : message.role == "user" ? "User: " : "System: ");
    text +=
        assistant ? std::string(without_thought(message.content)) : one_break_each(message.content);
  }
  if (place.generation_prompt) begin_turn("Assistant:");
  return tokenizer.encode(text, false);
}

AnswerForm world_answer_form(Thinking thinking) {
  AnswerForm form{.opening = {},
                  .stop = {"\n\nUser:", "\n\nSystem:"},
                  .follows = std::string(kTurn) + "User:",
                  .thinks = true};
  if (thinking == Thinking::on) form.opening = " <think";
  if (thinking == Thinking::off) form.opening = " <think>\n</think";
  return form;
}

}  // namespace runnel
