// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/session_generation.h"

#include <utility>

#include "runtime/base/try.h"
#include "runtime/generate/session_source.h"
#include "runtime/model/session_impl.h"

namespace runnel {

static_assert(SamplingOptions::kMaxPenaltyWindow <= Session::kHistoryWindow,
              "penalties see tokens that a session remembers");

Result<SessionGeneration> SessionGeneration::create(Session& session,
                                                    const GenerationOptions& options,
                                                    const TextCallback& on_text) {
  RUNNEL_CHECK_OK(check_for_model(session.model(), options));
  const GenerationCarry carry = session.impl().carry();
  RUNNEL_TRY(AnswerSettler settler, AnswerSettler::begin(session, options.answer));
  RUNNEL_TRY(TokenLoop loop,
             TokenLoop::create(options, session.logits().size(), carry, on_text,
                               [tokenizer = session.model().tokenizer()](TokenId token) {
                                 return piece_of(tokenizer, token);
                               }));
  return SessionGeneration(session, options, std::move(loop), std::move(settler));
}

Result<std::optional<TokenId>> SessionGeneration::choose(bool stop_requested) {
  RUNNEL_TRY(const std::optional<TokenId> token,
             loop_.choose(session_->logits(), session_->impl().generated_tokens(),
                          session_->position(), stop_requested));
  if (!token || !loop_.settles()) return token;
  const SessionSource source(*session_);
  if (source.is_end(*token) && !options_->ignore_end) {  // a reading of the transcript has none
    took(*token);
    return std::optional<TokenId>();
  }
  if (loop_.wants_mark(source.piece(*token)))
    RUNNEL_CHECK_OK(settler_.mark(*session_, loop_.taken()));
  return token;
}

void SessionGeneration::took(TokenId token) {
  const SessionSource source(*session_);
  loop_.took(token, source.is_end(token), source.piece(token));
}

GenerationResult SessionGeneration::finish() {
  GenerationCarry carry;
  GenerationResult result = loop_.finish(carry);
  keep_after_generation(*session_, *options_, std::move(carry));
  return result;
}

std::function<Status(Session&, GenerationResult&)> SessionGeneration::take_settling() {
  if (!loop_.settles()) return {};
  // Shared, because a function is copied.
  auto left = std::make_shared<std::pair<AnswerSettler, AnswerRecord>>(std::move(settler_),
                                                                       loop_.take_record());
  return [left, options = options_](Session& session, GenerationResult& result) -> Status {
    RUNNEL_TRY(TranscriptEnd end, left->first.settle(session, left->second));
    result.kept = std::move(end.tokens);
    keep_after_generation(session, *options,
                          {.utf8 = {}, .stop = {}, .unread = std::move(end.unread)});
    return {};
  };
}

Status SessionBatch::run(std::span<const SessionFeed> feeds) {
  items_.clear();
  if (feeds.empty()) return {};
  for (const SessionFeed& feed : feeds) RUNNEL_CHECK_OK(feed.session->impl().check(feed.tokens));
  for (const SessionFeed& feed : feeds)
    items_.push_back(feed.session->impl().begin_pass(feed.tokens));
  const Session::Impl& first = feeds[0].session->impl();
  Status ran = first.engine().run(items_, {}, first.generation());
  for (const SessionFeed& feed : feeds)
    feed.session->impl().end_pass(ran, feed.tokens, feed.decodes);
  return ran;
}

}  // namespace runnel
