// SPDX-License-Identifier: Apache-2.0
// The chat of RWKV's World models: turns of "User:" and "Assistant:" apart by blank lines, thoughts in <think>.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runnel/chat.h"
#include "runtime/text/marked_text.h"

namespace runnel {

/// Whether a model file means this chat without a template to run: by the template "rwkv-world", or by its World
/// tokenizer without any.
/// @param tokenizer  `tokenizer.ggml.model`
bool is_world_chat(std::string_view tokenizer, std::string_view chat_template);

/// "System: …\n\nUser: …\n\nAssistant: …\n\nUser: …\n\nAssistant:". Line breaks in a row become one in what users and
/// systems say, because a blank line ends a turn; thoughts are taken out of what assistants said.
MarkedText lay_out_world_chat(const std::string& default_prompt,
                              std::span<const ChatMessage> messages, bool add_generation_prompt);

/// An answer ends at "\n\nUser:", "\n\nSystem:" and token 0. A thought is opened without its ">", as in training: that
/// is one token with what follows.
AnswerForm world_answer_form(Thinking thinking);

}  // namespace runnel
