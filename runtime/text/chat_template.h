// SPDX-License-Identifier: Apache-2.0
// Chat formats: recognised from a model's template text, and applied to messages as token ids.
//
// Templates are never executed. A Jinja template is read statement by statement and accepted only
// if it is, token for token, a format that encode_chat() reproduces; anything else is refused with
// the first thing that does not fit.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/io/gguf.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

/// The format that a Jinja chat template writes: chatml with its default system prompt, or none with the reason.
ChatFormat recognise_chat_template(std::string_view jinja);

/// The format of a model file: `gsa.chat.style` ("plain", "chatml", "rwkv", "none") and
/// `gsa.chat.default_system_prompt` if there, else `tokenizer.chat_template` as recognised, else rwkv with the World
/// tokenizer, else plain.
/// @return malformed for keys of another type, unsupported for an unknown style.
Result<ChatFormat> chat_format_from_gguf(const GgufFile& file);

/// "plain", "chatml", "rwkv", "none".
const char* to_string(ChatStyle style);

/// Gives the two `gsa.chat.*` keys and their values to `set`.
void chat_format_to_gguf(const ChatFormat& format,
                         const std::function<void(std::string, std::string)>& set);

/// Where the tokens of messages go.
struct ChatPlace {
  bool generation_prompt = true;  // append what makes the model answer as the assistant
  /// see runnel/chat.h; anything but `start` closes the earlier answer and adds no system prompt
  ChatContinuation continuation = ChatContinuation::start;
  std::string_view unread = {};  // the end of the earlier answer; the tokens begin with it
};

/// Tokens of `messages` in `format`. Markers are the tokenizer's special tokens; the text of messages never becomes
/// one, whatever it contains.
/// @return invalid_argument for a role that is not system, user or assistant; malformed for text that is not UTF-8;
///         unsupported if the style is none, or chatml without its markers in the vocabulary.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                                         std::span<const ChatMessage> messages,
                                         const ChatPlace& place);

/// How answers begin and end in `format`. @return unsupported for thoughts where there are none
Result<AnswerForm> answer_form(const ChatFormat& format, Thinking thinking);

}  // namespace runnel
