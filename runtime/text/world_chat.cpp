// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/world_chat.h"

#include <utility>

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
  return chat_template == "rwkv-world" || (tokenizer == "rwkv" && chat_template.empty());
}

MarkedText lay_out_world_chat(const std::string& default_prompt,
                              std::span<const ChatMessage> messages, bool add_generation_prompt) {
  MarkedText text;
  const auto add_turn = [&](std::string_view role, const std::string& said) {
    if (!text.empty()) text += marked_text(kTurn);
    text += marked_text(role);
    if (!said.empty()) text += U' ' + marked_text(said, true);
  };
  if (!default_prompt.empty() && !messages.empty() && messages[0].role != "system")
    add_turn("System:", one_break_each(default_prompt));
  for (const ChatMessage& message : messages) {
    if (message.role == "assistant") {
      add_turn("Assistant:", std::string(without_thought(message.content)));
    } else {
      add_turn(message.role == "user" ? "User:" : "System:", one_break_each(message.content));
    }
  }
  if (add_generation_prompt) add_turn("Assistant:", {});
  return text;
}

AnswerForm world_answer_form(Thinking thinking) {
  AnswerForm form{.opening = {},
                  .stop = {"\n\nUser:", "\n\nSystem:"},
                  .follows = std::string(kTurn) + "User:",
                  .lead = " ",
                  .trims = true,
                  .thinks = true};
  if (thinking == Thinking::on) form.opening = " <think";
  if (thinking == Thinking::off) form.opening = " <think>\n</think";
  return form;
}

}  // namespace runnel
