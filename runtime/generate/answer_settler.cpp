// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/answer_settler.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/model/model_impl.h"

namespace runnel {
namespace {

// Bytes before the end of the text in which a token may be cut otherwise with what follows: no token is longer.
constexpr std::size_t kReach = 128;

Status read_all(Session& session, std::span<const TokenId> tokens) {
  RUNNEL_TRY(const PrefillResult read, session.prefill(tokens));
  static_cast<void>(read);  // nothing stops it
  return {};
}

}  // namespace

std::size_t common_tokens(const Tokenizer& tokenizer, const AnswerRecord& record,
                          std::string_view follows) {
  const std::string_view visible = record.visible;
  std::size_t kept = record.tokens.size();
  while (kept > 0 && (record.ends[kept - 1] > visible.size() || !record.whole[kept - 1])) --kept;
  for (std::size_t i = kept; i-- > 0;) {
    const std::size_t begin = i == 0 ? 0 : record.ends[i - 1];
    if (visible.size() - begin > kReach) break;
    if (i > 0 && !record.whole[i - 1]) continue;  // no place to begin a reading
    const auto read = tokens_around(tokenizer, {}, visible.substr(begin), follows);
    if (!read || read->empty() || read->front() != record.tokens[i]) kept = i;
  }
  return kept;
}

Result<AnswerSettler> AnswerSettler::begin(Session& session, const AnswerForm& form) {
  AnswerSettler settler(form);
  if (!form.follows.empty()) {
    RUNNEL_TRY(settler.before_, session.fork());
  }
  if (!form.opening.empty()) {
    RUNNEL_TRY(const std::vector<TokenId> opening, session.model().encode(form.opening, true));
    RUNNEL_CHECK_OK(read_all(session, opening));
  }
  settler.start_ = session.position();
  return settler;
}

Status AnswerSettler::mark(Session& session, std::size_t taken) {
  if (!before_) return {};
  mark_.reset();  // its memory is taken again
  RUNNEL_TRY(mark_, session.fork());
  marked_ = taken;
  return {};
}

Result<TranscriptEnd> AnswerSettler::settle(Session& session, const AnswerRecord& record) {
  TranscriptEnd end;
  if (!before_) return end;
  const Tokenizer& tokenizer = *tokenizer_of(session.model());
  if (record.rewritten) {
    RUNNEL_TRY(end, read_transcript_end(tokenizer, *record.rewritten, *form_));
    session = *std::exchange(before_, {});
    RUNNEL_CHECK_OK(read_all(session, end.tokens));
    return end;
  }
  const std::size_t kept = common_tokens(tokenizer, record, form_->follows);
  end.tokens.assign(record.tokens.begin(),
                    record.tokens.begin() + static_cast<std::ptrdiff_t>(kept));
  const std::size_t read = kept == 0 ? 0 : std::min(record.ends[kept - 1], record.visible.size());
  end.unread = record.visible.substr(read);
  if (session.position() == start_ + kept) return end;
  if (mark_ && marked_ == kept) {
    session = *std::exchange(mark_, {});
    return end;
  }
  session = *std::exchange(before_, {});
  RUNNEL_CHECK_OK(read_all(session, end.tokens));
  return end;
}

}  // namespace runnel
