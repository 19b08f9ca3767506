// SPDX-License-Identifier: Apache-2.0
// The chat of RWKV's World models: turns of "User:" and "Assistant:" apart by blank lines, thoughts in <think>.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/result.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

/// Whether a model file means this chat: by the template "rwkv-world", or by its World tokenizer with no template or
/// with one of User and Assistant turns, as llama.cpp writes it and as newer files have it with thoughts.
/// @param tokenizer  `tokenizer.ggml.model`
bool is_world_chat(std::string_view tokenizer, std::string_view chat_template);

/// "System: …\n\nUser: …\n\nAssistant: …\n\nUser: …\n\nAssistant:". Line breaks in a row become one in what users and
/// systems say, because a blank line ends a turn; thoughts are taken out of what assistants said.
Result<std::vector<TokenId>> encode_world_chat(const Tokenizer& tokenizer,
                                               const std::string& default_prompt,
                                               std::span<const ChatMessage> messages,
                                               const ChatPlace& place);

/// An answer ends at "\n\nUser:", "\n\nSystem:" and token 0. A thought is opened without its ">", as in training: that
/// is one token with what follows.
AnswerForm world_answer_form(Thinking thinking);

}  // namespace runnel
