// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/draw_ahead.h"

#include <algorithm>

#include "runtime/base/try.h"

namespace runnel {

Status ActiveSteps::give_way() { return steps != nullptr ? steps->give_way() : Status(); }

Status check_recent(std::span<const TokenId> recent) {
  if (!recent.empty()) return {};
  return fail(ErrorCode::invalid_argument, "steps: no token to begin with");
}

Status DrawAhead::queue() {
  if (queued_ - drawn_ >= places_ - 1) {
    return fail(ErrorCode::invalid_argument, "steps: ", queued_ - drawn_,
                " tokens were queued and not read");
  }
  std::optional<TokenId> token;
  if (active_.steps != this) {
    RUNNEL_CHECK_OK(active_.give_way());
    token = next_after(queued_);  // nothing is queued, so the last token has been drawn
  }
  RUNNEL_CHECK_OK(launch(queued_ + 1, token));
  active_.steps = this;
  ++queued_;
  return {};
}

Result<TokenId> DrawAhead::drawn() {
  if (drawn_ == queued_) return fail(ErrorCode::invalid_argument, "steps: nothing is queued");
  const std::uint32_t pass = drawn_ + 1;
  RUNNEL_CHECK_OK(wait_for(pass));
  drawn_ = pass;
  const std::optional<TokenId> token = token_of(pass);
  if (!token) {
    return fail(ErrorCode::invalid_argument, "no token can be chosen: all ", vocab_,
                " logits are -inf or not a number");
  }
  return *token;
}

Status DrawAhead::logits(std::span<float> out) {
  if (out.size() != static_cast<std::size_t>(vocab_)) {
    return fail(ErrorCode::invalid_argument, "steps: buffer has ", out.size(), " floats, expected ",
                vocab_);
  }
  if (active_.steps == this) {
    RUNNEL_CHECK_OK(read_logits(out));
    return check_end(queued_);
  }
  if (queued_ == 0) return fail(ErrorCode::invalid_argument, "steps: nothing was queued");
  RUNNEL_TRY(const std::span<const float> copied, logits_on_host());
  std::copy(copied.begin(), copied.end(), out.begin());
  return {};
}

Result<std::span<const float>> DrawAhead::logits_on_host() {
  if (active_.steps != this) {
    RUNNEL_CHECK_OK(copied_);
  } else if (copied_pass_ != queued_) {
    logits_.resize(static_cast<std::size_t>(vocab_));
    RUNNEL_CHECK_OK(read_logits(logits_));
    copied_pass_ = queued_;
  }
  return std::span<const float>(logits_);
}

Status DrawAhead::give_way() {
  const Result<std::span<const float>> copied = logits_on_host();
  active_.steps = nullptr;
  copied_ = copied ? check_end(queued_) : Status(copied.error());
  return copied ? Status() : Status(copied.error());
}

bool DrawAhead::leave() {
  if (active_.steps != this) return false;
  active_.steps = nullptr;
  return true;
}

}  // namespace runnel
