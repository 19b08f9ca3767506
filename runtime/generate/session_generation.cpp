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
  RUNNEL_CHECK_OK(check_stop_strings(session.model(), options));
  RUNNEL_TRY(TokenLoop loop,
             TokenLoop::create(options, session.logits().size(), session.impl().carry(), on_text,
                               [tokenizer = session.model().tokenizer()](TokenId token) {
                                 return piece_of(tokenizer, token);
                               }));
  return SessionGeneration(session, options, std::move(loop));
}

Result<std::optional<TokenId>> SessionGeneration::choose(bool stop_requested) {
  return loop_.choose(session_->logits(), session_->impl().generated_tokens(), session_->position(),
                      stop_requested);
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
