// SPDX-License-Identifier: Apache-2.0
// Chat messages and the format in which a model was taught to read them.
//
// Example, in a function that returns a Result:
//   std::vector<runnel::ChatMessage> messages{{"system", "Answer briefly."}, {"user", "What is a lighthouse?"}};
//   auto tokens = model->encode_chat(messages);
//   if (!tokens) return tokens.error();
//   if (auto read = session.prefill(*tokens); !read) return read.error();    // generate() now answers
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runnel/types.h"

namespace runnel {

struct ChatTemplate;

/// A call of a tool by the model; see tools.h.
struct ToolCall {
  std::string id;         ///< by which its result names it; may be empty
  std::string name;       ///< of the tool
  std::string arguments;  ///< a JSON object, as text

  bool operator==(const ToolCall&) const = default;
};

/// A tool that a model may call: see tools.h, which reads them from JSON.
struct Tool {
  std::string name;         ///< 1 to 64 of A-Z a-z 0-9 _ . -
  std::string description;  ///< may be empty
  /// A JSON schema of its arguments, an object's, as text; empty: it has none.
  std::string parameters;
  bool strict = false;  ///< arguments are kept to all of the schema, or the schema is refused

  bool operator==(const Tool&) const = default;
};

/// One message of a conversation.
struct ChatMessage {
  std::string role;     ///< "system", "user", "assistant", or "tool": the result of a call
  std::string content;  ///< UTF-8; never parsed for special tokens
  std::vector<ToolCall> tool_calls = {};  ///< of the assistant, behind `content`
  std::string tool_call_id = {};          ///< of a result: the call it answers; may be empty

  bool operator==(const ChatMessage&) const = default;
};

/// How messages are laid out for a model.
enum class ChatStyle {
  plain,   ///< "User: …\nAssistant: …": for models whose file names no template
  chatml,  ///< <|im_start|>role\n…<|im_end|>\n
  rwkv,    ///< "User: …\n\nAssistant: …", turns apart by a blank line: RWKV's World models
  none,  ///< the file names a template that this library does not run: no chat without a given style
  jinja,  ///< as a Jinja template says, which is run for every conversation
};

/// The chat format of one model.
struct ChatFormat {
  ChatStyle style = ChatStyle::plain;
  /// used when the first message is not a system message; may be empty. Not of jinja.
  std::string default_system_prompt;
  std::string reason;  ///< with ChatStyle::none: what in the template is not run
  std::shared_ptr<const ChatTemplate> jinja = {};  ///< with ChatStyle::jinja
  /// with ChatStyle::chatml: the model's template, which lays out conversations with tools; may be null
  std::shared_ptr<const ChatTemplate> tools = {};
};

/// Where the messages to encode stand in the conversation.
enum class ChatContinuation {
  start,                ///< the session is empty
  after_closed_answer,  ///< the session's last token was the answer's end-of-message
  after_cut_answer,     ///< the answer was stopped before its end-of-message; it is closed first
};

/// What a session must read so that it answers a conversation of which it has read the first messages.
struct ChatReading {
  /// How many of the first messages the session must stand after before it reads `tokens`: those that it has read, or
  /// fewer if the format lays them out anew because of what follows (0: it must be empty).
  std::size_t kept = 0;
  std::vector<TokenId> tokens;
};

/// Whether a model is made to think before it answers. Earlier thinking is never part of what it reads later.
enum class Thinking {
  as_trained,  ///< nothing is said: the model does what it was trained to do
  off,         ///< it is told not to: its answer begins behind an empty thought
  on,          ///< it is told to: its answer begins with a thought
};

/// How an answer begins and ends in a chat format; see Model::answer_form() and GenerationOptions::answer. What
/// Model::encode_chat() makes the model answer with is the same for all kinds of thinking; the form says the rest.
struct AnswerForm {
  std::string opening;  ///< text that the model reads before its first token, as " <think"
  std::vector<std::string> stop;  ///< the answer ends before any of these texts
  /// what follows an answer in a transcript; not empty: the answer leaves the session where a reading of the transcript
  /// would have
  std::string follows;
  /// With `follows`: what stands before an answer that is not empty in a transcript, as " ".
  std::string lead;
  /// With `follows`: a transcript has answers without the white space at their ends.
  bool trims = false;
  bool thinks = false;  ///< <think> … </think> at the beginning is a thought, no part of the answer

  bool operator==(const AnswerForm&) const = default;
};

}  // namespace runnel
