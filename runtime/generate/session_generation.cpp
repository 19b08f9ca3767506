// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/session_generation.h"

#include <new>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/generate/session_source.h"
#include "runtime/model/session_impl.h"

namespace runnel {

static_assert(SamplingOptions::kMaxPenaltyWindow <= Session::kHistoryWindow,
              "penalties see tokens that a session remembers");

SessionGeneration::SessionGeneration(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SessionGeneration::SessionGeneration(SessionGeneration&&) noexcept = default;
SessionGeneration& SessionGeneration::operator=(SessionGeneration&&) noexcept = default;
SessionGeneration::~SessionGeneration() = default;

bool SessionGeneration::over() const { return impl_->loop->over(); }
std::string_view SessionGeneration::text() const { return impl_->shown; }

Result<SessionGeneration> SessionGeneration::create(Session& session, GenerationOptions options,
                                                    TextCallback on_text) try {
  RUNNEL_CHECK_OK(check_for_model(session.model(), options));
  RUNNEL_CHECK_OK(impl_of(session).check({}));
  const GenerationCarry carry = impl_of(session).carry();
  auto impl = std::make_unique<Impl>(session, std::move(options), std::move(on_text));
  impl->collect = [made = impl.get()](std::string_view text) {
    made->shown += text;
    return !made->on_text || made->on_text(text);
  };
  RUNNEL_TRY(impl->settler, AnswerSettler::begin(session, impl->options.answer));
  RUNNEL_TRY(const std::span<const float> logits, session.logits());
  RUNNEL_TRY(impl->loop,
             TokenLoop::create(impl->options, logits.size(), carry, impl->collect,
                               [tokenizer = tokenizer_of(session.model())](TokenId token) {
                                 return piece_of(tokenizer, token);
                               }));
  return SessionGeneration(std::move(impl));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "generate: not enough memory");
}

Result<std::optional<TokenId>> SessionGeneration::choose(bool stop_requested) {
  Session& session = *impl_->session;
  TokenLoop& loop = *impl_->loop;
  if (std::exchange(impl_->shown_is_old, false)) impl_->shown.clear();
  RUNNEL_CHECK_OK(impl_of(session).check({}));
  RUNNEL_TRY(const std::span<const float> logits, session.logits());
  if (logits.empty()) {
    return fail(ErrorCode::invalid_argument,
                "generate: the session was emptied while it generates, expected it as it was left");
  }
  RUNNEL_TRY(
      const std::optional<TokenId> token,
      loop.choose(logits, impl_of(session).generated_tokens(), session.position(), stop_requested));
  if (!token || !loop.settles()) return token;
  const SessionSource source(session);
  // A reading of the transcript has no end token.
  if (source.is_end(*token) && !impl_->options.ignore_end) {
    took(*token);
    return std::optional<TokenId>();
  }
  if (loop.wants_mark(source.piece(*token)))
    RUNNEL_CHECK_OK(impl_->settler->mark(session, loop.taken()));
  return token;
}

void SessionGeneration::took(TokenId token) {
  const SessionSource source(*impl_->session);
  impl_->shown_is_old = true;
  impl_->loop->took(token, source.is_end(token), source.piece(token));
}

Result<std::optional<TokenId>> SessionGeneration::step(const std::stop_token& stop) {
  RUNNEL_TRY(const std::optional<TokenId> token, choose(stop.stop_requested()));
  if (!token) return token;
  RUNNEL_CHECK_OK(impl_of(*impl_->session).step(std::span(&*token, 1)));
  took(*token);
  return token;
}

GenerationResult GenerationImpl::end() {
  shown.clear();
  GenerationCarry carry;
  GenerationResult result = loop->finish(carry);
  keep_after_generation(*session, options, std::move(carry));
  record = loop->take_record();
  return result;
}

Status GenerationImpl::settle(Session& where, GenerationResult& result) {
  RUNNEL_TRY(TranscriptEnd end, settler->settle(where, record));
  result.kept = std::move(end.tokens);
  keep_after_generation(where, options, {.utf8 = {}, .stop = {}, .unread = std::move(end.unread)});
  return {};
}

Result<GenerationResult> SessionGeneration::finish() try {
  if (!over()) impl_->loop->leave();
  GenerationResult result = impl_->end();
  if (impl_->loop->settles()) RUNNEL_CHECK_OK(impl_->settle(*impl_->session, result));
  return result;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "generate: not enough memory");
}

GenerationResult finish_unsettled(SessionGeneration& generation, Settling& left) {
  GenerationResult result = Access::impl(generation).end();
  left = {};
  if (Access::impl(generation).loop->settles()) {
    // Shared, because a function is copied.
    const std::shared_ptr<GenerationImpl> impl(std::move(Access::owner(generation)));
    left = [impl](Session& session, GenerationResult& of) { return impl->settle(session, of); };
  }
  return result;
}

}  // namespace runnel
