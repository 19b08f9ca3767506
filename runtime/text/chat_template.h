// SPDX-License-Identifier: Apache-2.0
// Chat formats: found in a model's file, and applied to messages as text and as token ids.
//
// A format makes one text of a whole conversation (lay_out_chat). Everything else follows from that text: its tokens,
// and what a session that has read a part of it must read next.
#pragma once

#include <ctime>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/io/gguf.h"
#include "runtime/text/jinja/template.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tool_format.h"

namespace runnel {

/// A model's own template, ready to run.
struct ChatTemplate {
  jinja::Template parsed;
  std::string source;
  std::string begin;  // what it sees as bos_token and eos_token
  std::string end;
  AnswerForm answer;               // of a model that does as it was trained
  std::optional<std::string> off;  // AnswerForm::opening for the other kinds of thinking, if the
  std::optional<std::string> on;   // template makes a difference
  // For strftime_now: when the model was loaded, so that no turn sees another day.
  std::tm now = {};
  ToolFormat tools = {};
  std::string closing = {};  // with tools: what follows an answer, "<|im_end|>\n"
};

/// A format that runs `source`, or none with the reason.
ChatFormat chat_format_of(std::string_view source, std::string begin = {}, std::string end = {});

/// The style chatml with its default prompt, or rwkv, if `format` lays out sample conversations just so, else `format`.
ChatFormat simplified(const ChatFormat& format);

/// The format of a model file: `gsa.chat.style` ("plain", "chatml", "rwkv", "none") and `gsa.chat.default_system_prompt`
/// if there; else rwkv for the World tokenizer without a template and for the word "rwkv-world" in its place; else the
/// template in `tokenizer.chat_template`, simplified(); else plain.
/// @return malformed for keys of another type, unsupported for an unknown style.
Result<ChatFormat> chat_format_from_gguf(const GgufFile& file);

/// The built-in format called `name` ("chatml", "plain", "rwkv"), or that of the template in the file `name`, with the begin
/// and end texts of `own`, the model's.
/// @return not_found or io (the file); unsupported or malformed if the template cannot be run.
Result<ChatFormat> chat_format_named(const std::string& name, const GgufFile& own);

/// "plain", "chatml", "rwkv", "none", "jinja".
const char* to_string(ChatStyle style);

/// Gives the two `gsa.chat.*` keys and their values to `set`.
void chat_format_to_gguf(const ChatFormat& format,
                         const std::function<void(std::string, std::string)>& set);

/// Whether a vocabulary has the special tokens that `format` marks turns with.
/// @param has_special  whether this is the text of one of its special tokens
/// @return unsupported, naming the style and the token that is missing
Status check_markers(const ChatFormat& format,
                     const std::function<bool(std::string_view)>& has_special);

/// Where the tokens of messages go.
struct ChatPlace {
  bool generation_prompt = true;  // append what makes the model answer as the assistant
  /// see runnel/chat.h; anything but `start` closes the earlier answer and adds no system prompt
  ChatContinuation continuation = ChatContinuation::start;
  std::string_view unread = {};  // the end of the earlier answer; the tokens begin with it
};

/// How calls are written in `format`.
ToolFormat tool_format(const ChatFormat& format);

/// The text of `talk` in `format`; what the messages say is marked as given (marked_text.h).
/// @return invalid_argument for a role that is not system, user, assistant or tool, for a call that is none, or what the
///         template refuses; malformed for text that is not UTF-8; unsupported if the style is none, and for tools where
///         tool_format() is none.
Result<MarkedText> lay_out_chat(const ChatFormat& format, const ChatTalk& talk,
                                bool add_generation_prompt);

/// Tokens of `talk` in `format`. Markers are the tokenizer's special tokens; the text of messages never becomes
/// one, whatever it contains. The prompt for an answer has none of AnswerForm::opening.
/// @return as lay_out_chat(); unsupported for chatml without its markers in the vocabulary, and for a continuation of
///         a template that lays out a message in a way that depends on earlier ones: read_chat() can.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                                         const ChatTalk& talk, const ChatPlace& place);

/// How answers begin and end in `format`.
/// @return unsupported for thoughts where there are none, and for none where the template cannot say so
Result<AnswerForm> answer_form(const ChatFormat& format, Thinking thinking);

/// What of the earlier messages a session has read.
struct ChatRead {
  std::size_t messages = 0;      // the first so many
  bool closed = false;           // they end with an answer and its end-of-message
  std::string_view unread = {};  // but not this end of the answer
};

/// See Model::read_chat().
Result<ChatReading> read_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                              const ChatTalk& talk, const ChatRead& read);

}  // namespace runnel
