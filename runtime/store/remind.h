// SPDX-License-Identifier: Apache-2.0
// What a question refers to and the model's window no longer holds: sentences of the chat, found by their words, to be
// read again before the question.
//
// Example, in a function that returns a Result:
//   std::vector<Said> before = {{1, "user", "My sister's name is Maeve."}, ...};
//   RUNNEL_TRY(auto found, remind(before, "What is my sister's name?", count, {.window = 252}));
//   read(with_quotations(found, "What is my sister's name?"));
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/store.h"

namespace runnel {

/// A message of the way from the first one to the question.
struct Said {
  MessageId id = 0;
  std::string_view role;
  std::string_view text;
  std::span<const Quotation> quotations = {};  // that were read before its text
};

/// Tokens of a text, as the model reads them.
using CountTokens = std::function<Result<std::size_t>(std::string_view)>;

struct RemindLimits {
  std::size_t window = 256;  // tokens before the answer that the model still has word for word
  std::size_t tokens = 512;  // of what is read again, at most
  std::size_t around = 0;    // tokens that the chat format puts around each message
};

/// The window of a model: its window slots, or, of a model without, what it keeps best.
std::size_t window_of(const ModelInfo& info);

/// Sentences of `before` that `question` refers to, with those beside them, in the order of the chat; none if it refers to
/// nothing. The same input gives the same sentences.
///
/// They are ranked by BM25 over the stems of the question's words, numbers and names as they are. A sentence counts if the
/// question's words in it weigh enough: little for a question about "my" or "our" things or about what was said, answered
/// by a sentence of who asks; nearly all of them for any other question. In a document
/// (a long system prompt) about half of them are enough.
/// @return what `count` fails with
Result<std::vector<Quotation>> remind(std::span<const Said> before, std::string_view question,
                                      const CountTokens& count, const RemindLimits& limits);

/// The same for messages of a store and a model.
Result<std::vector<Quotation>> remind(std::span<const MessageInfo> before,
                                      std::string_view question, const Model& model);

/// What the model reads of a message: its quotations, then its text.
std::string with_quotations(std::span<const Quotation> quotations, std::string_view text);

inline std::string text_read(const MessageInfo& message) {
  return with_quotations(message.quotations, message.text);
}

}  // namespace runnel
