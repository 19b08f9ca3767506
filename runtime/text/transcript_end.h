// SPDX-License-Identifier: Apache-2.0
// Where a reading of a transcript ends: before a token that would reach into what follows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/text/tokenizer.h"

namespace runnel {

/// Tokens of `lead`, an answer, which has no special ones, and `follows`.
Result<std::vector<TokenId>> tokens_around(const Tokenizer& tokenizer, std::string_view lead,
                                           std::string_view answer, std::string_view follows);

/// What a reading of a transcript makes of its end: tokens that lie in the text, and the bytes after them.
struct TranscriptEnd {
  std::vector<TokenId> tokens;
  std::string unread;
};

/// Tokens of `answer` behind the prompt for it, with its lead; those that would reach into what follows are left to the
/// next reading.
Result<TranscriptEnd> read_transcript_end(const Tokenizer& tokenizer, std::string_view answer,
                                          const AnswerForm& form);

}  // namespace runnel
