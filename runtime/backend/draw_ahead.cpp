// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/draw_ahead.h"

#include <algorithm>
#include <string>
#include <utility>

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
  RUNNEL_CHECK_OK(last_has_mask());
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
  Result<TokenId> token = next_drawn();
  // Another thread may wait for the pass behind it with what the caller needs now.
  if (!token) forgo_mask();
  return token;
}

Result<TokenId> DrawAhead::next_drawn() {
  if (drawn_ == queued_) return fail(ErrorCode::invalid_argument, "steps: nothing is queued");
  const std::uint32_t pass = drawn_ + 1;
  RUNNEL_CHECK_OK(await_mask(pass));
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
  forgo_mask();
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
    static_cast<void>(await_mask(queued_));  // without one the token is missing, not the logits
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

// ---- masks ----

Error DrawAhead::mask_is_late() const {
  return {ErrorCode::internal, "steps: the mask of a token did not come within " +
                                   std::to_string(mask_timeout_.count()) + " ms"};
}

Status DrawAhead::last_has_mask() {
  const std::lock_guard lock(mask_mutex_);
  if (forgone_) return *forgone_;
  if (!masked() || masks_ == queued_) return {};
  return fail(ErrorCode::invalid_argument, "steps: pass ", queued_, " has no mask yet");
}

Status DrawAhead::mask(const TokenMask& mask) {
  const std::lock_guard lock(mask_mutex_);
  if (forgone_) return *forgone_;
  if (!masked() || masks_ == queued_)
    return fail(ErrorCode::invalid_argument, "steps: no pass waits for a mask");
  if (mask.vocab() != static_cast<std::size_t>(vocab_)) {
    return fail(ErrorCode::invalid_argument, "steps: a mask is of ", mask.vocab(),
                " tokens, expected ", vocab_);
  }
  Status put = put_mask(masks_ + 1, mask);
  if (!put) forgone_ = put.error();
  ++masks_;
  mask_came_.notify_all();
  return put;
}

void DrawAhead::forgo_mask() {
  const std::lock_guard lock(mask_mutex_);
  if (masked() && masks_ < queued_)
    give_up_mask({ErrorCode::invalid_argument, "steps: the mask of the last pass was given up"});
}

void DrawAhead::give_up_mask(Error why) {
  const Status put = put_mask(masks_ + 1, TokenMask(static_cast<std::size_t>(vocab_)));
  if (put) {
    forgone_ = std::move(why);
  } else {
    forgone_ = put.error();
  }
  masks_ = queued_;
  mask_came_.notify_all();
}

Status DrawAhead::await_mask(std::uint32_t pass) {
  if (!masked()) return {};
  std::unique_lock lock(mask_mutex_);
  if (!mask_came_.wait_for(lock, mask_timeout_, [&] { return masks_ >= pass; }))
    give_up_mask(mask_is_late());
  if (forgone_ && pass == queued_) return *forgone_;
  return {};
}

bool DrawAhead::leave() {
  if (active_.steps != this) return false;
  active_.steps = nullptr;
  return true;
}

}  // namespace runnel
