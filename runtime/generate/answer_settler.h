// SPDX-License-Identifier: Apache-2.0
// Where an answer leaves the session: where a reading of the transcript would have left it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/generation.h"
#include "runnel/result.h"
#include "runnel/session.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/transcript_end.h"

namespace runnel {

/// What a generation knows of its text when it is over.
struct AnswerRecord {
  std::vector<TokenId> tokens;    // generated, an end token left out
  std::vector<std::size_t> ends;  // of each: the bytes of whole characters up to it
  std::vector<bool> whole;        // whether it ends a character
  std::string visible;            // text before an end token or a stop text
  // What the transcript has instead of it, behind AnswerForm::lead: the answer without its thought.
  std::optional<std::string> rewritten;
};

/// How many of the record's tokens a reading of the transcript has in common with it: all of them, but for those that
/// reach beyond the visible text, into a character or, in one token, into `follows`.
std::size_t common_tokens(const Tokenizer& tokenizer, const AnswerRecord& record,
                          std::string_view follows);

/// One answer of a session. A copy of the session's state is kept from before the answer, so that it can be read again.
class AnswerSettler {
 public:
  /// Reads `form.opening`. The session and the form must outlive this.
  static Result<AnswerSettler> begin(Session& session, const AnswerForm& form);

  /// The session is about to consume its token number `taken`, from 0, which may begin a stop text.
  Status mark(Session& session, std::size_t taken);

  /// Leaves the session after the transcript's last whole token. Does nothing if the form has no `follows`.
  /// @return the tokens that it stands further than at begin(), and the text that it has not consumed.
  Result<TranscriptEnd> settle(Session& session, const AnswerRecord& record);

 private:
  explicit AnswerSettler(const AnswerForm& form) : form_(&form) {}

  const AnswerForm* form_;
  std::optional<Session> before_;
  std::optional<Session> mark_;
  std::size_t marked_ = 0;   // tokens of the answer that mark_ has consumed
  std::uint64_t start_ = 0;  // where the answer's first token goes
};

}  // namespace runnel
