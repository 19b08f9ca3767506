// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/transcript_end.h"

#include <span>
#include <utility>

#include "runtime/base/try.h"

namespace runnel {

Result<std::vector<TokenId>> tokens_around(const Tokenizer& tokenizer, std::string_view lead,
                                           std::string_view answer, std::string_view follows) {
  const ByteRange plain{lead.size(), lead.size() + answer.size()};
  return tokenizer.encode_marked(std::string(lead).append(answer).append(follows),
                                 std::span(&plain, answer.empty() ? 0U : 1U));
}

Result<TranscriptEnd> read_transcript_end(const Tokenizer& tokenizer, std::string_view answer,
                                          const AnswerForm& form) {
  const std::string_view lead = answer.empty() ? std::string_view() : form.lead;
  const std::string text = std::string(lead).append(answer);
  RUNNEL_TRY(std::vector<TokenId> tokens, tokens_around(tokenizer, lead, answer, form.follows));
  std::size_t read = 0;
  std::size_t kept = 0;
  for (; kept < tokens.size(); ++kept) {
    // It belongs to what follows; the text may have been read in a normal form of another length.
    if (read >= lead.size() && tokenizer.is_special(tokens[kept])) {
      read = text.size();
      break;
    }
    const std::size_t end = read + tokenizer.piece(tokens[kept], false, true).size();
    if (end > text.size()) break;
    read = end;
  }
  tokens.resize(kept);
  return TranscriptEnd{std::move(tokens), text.substr(read)};
}

}  // namespace runnel
