// SPDX-License-Identifier: Apache-2.0
// Drawing ahead on a session: the device draws, and the session's position and history follow token by token.
#include "runtime/generate/session_source.h"

#include "runtime/base/try.h"

namespace runnel {

SessionSource::~SessionSource() {
  if (ahead_) static_cast<void>(settle());
}

Result<bool> SessionSource::draw_ahead(TokenId first, const SamplingOptions& sampling) {
  // Devices draw without DRY: the loop then draws as it does on the CPU.
  if (sampling.dry_multiplier > 0.0F) return false;
  Session::Impl& impl = session_.impl();
  RUNNEL_CHECK_OK(impl.check(std::span(&first, 1)));
  const std::span<const TokenId> generated = impl.generated_tokens();
  std::vector<TokenId> recent(generated.begin(), generated.end());
  recent.push_back(first);
  RUNNEL_TRY(impl.steps,
             impl.engine().sampled_steps(*impl.state, recent, sampling, impl.generation));
  ahead_ = impl.steps != nullptr;
  if (ahead_) first_ = first;
  return ahead_;
}

Status SessionSource::queue() {
  Session::Impl& impl = session_.impl();
  if (impl.steps == nullptr) {
    return fail(ErrorCode::invalid_argument,
                "generate: the session was fed, restored or reset while it generates");
  }
  if (Status queued = impl.steps->queue(); !queued) {
    impl.broken = true;
    return queued;
  }
  impl.logits_behind = true;
  if (first_) impl.consumed(std::span(&*first_, 1), Origin::generated);
  first_.reset();
  return {};
}

Result<TokenId> SessionSource::drawn() {
  Session::Impl& impl = session_.impl();
  Result<TokenId> token = impl.steps->drawn();
  if (token) {
    impl.consumed(std::span(&*token, 1), Origin::generated);
  } else {
    impl.broken = true;  // the device has gone on with another token
  }
  return token;
}

Status SessionSource::settle() {
  if (!ahead_) return {};
  ahead_ = false;
  Session::Impl& impl = session_.impl();
  Status status = impl.broken ? Status() : impl.catch_up();
  impl.stop_drawing();
  return status;
}

}  // namespace runnel
