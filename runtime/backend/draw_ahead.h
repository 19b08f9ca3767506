// SPDX-License-Identifier: Apache-2.0
// What the GPU backends share of steps whose tokens the device draws: the next pass is queued before the token of the
// last one is read, and a plan's buffers change hands between the steps of several states and Plan::run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/sampling/token_mask.h"

namespace runnel {

class DrawAhead;

/// Whose logits and next token are in a plan's buffers; a member of every plan that has sampled steps.
struct ActiveSteps {
  DrawAhead* steps = nullptr;

  /// Frees the buffers for another use; nothing is queued on them then.
  Status give_way();
};

/// Counts passes and hands out tokens; a backend supplies the device's operations below. Passes are numbered from 1.
/// queue(), logits() and ActiveSteps::give_way() take turns, as all use of a plan does; drawn() and mask() may run beside
/// them. Whatever waits for a pass on the host waits for its mask first, and gives that up after a time.
class DrawAhead : public SampledSteps {
 public:
  Status queue() override;
  Result<TokenId> drawn() final;
  Status logits(std::span<float> out) override;
  Status mask(const TokenMask& mask) final;
  void forgo_mask() final;

 protected:
  /// @param first   what the first pass consumes
  /// @param places  a pass uses place (number % places) of what the host reads, so fewer passes than places are ever
  ///                queued and not read
  /// @param mask_timeout  as Plan::sampled_steps
  DrawAhead(ActiveSteps& active, std::int32_t vocab, TokenId first, std::uint32_t places,
            std::chrono::milliseconds mask_timeout)
      : active_(active),
        vocab_(vocab),
        first_(first),
        places_(places),
        mask_timeout_(mask_timeout) {}

  /// Queues a pass that consumes `token` and draws the next; does not wait. Advances the state.
  /// @param token  none: the one that the pass before drew, which is where this pass reads it
  virtual Status launch(std::uint32_t pass, std::optional<TokenId> token) = 0;

  /// Lets the draw of a queued pass, which waits for it, go on. For each pass once, in order; beside any other function.
  virtual Status put_mask(std::uint32_t pass, const TokenMask& mask) = 0;

  /// Waits for a queued pass, and for no later one. May run beside launch().
  /// @return device if the pass did not finish
  virtual Status wait_for(std::uint32_t pass) = 0;

  /// The token that a pass drew, which is over; none if no token could be chosen.
  virtual std::optional<TokenId> token_of(std::uint32_t pass) const = 0;

  /// Waits for all that is queued and copies the logits [vocab] of the last pass out of the plan's buffers.
  virtual Status read_logits(std::span<float> out) = 0;

  /// After read_logits(): whether the last pass finished. It fails the owner of these steps, not another
  /// use of the buffers.
  virtual Status check_end(std::uint32_t pass) = 0;

  std::uint32_t queued() const { return queued_; }
  std::int32_t vocab() const { return vocab_; }
  bool masked() const { return mask_timeout_.count() > 0; }
  std::chrono::milliseconds mask_timeout() const { return mask_timeout_; }
  /// @return invalid_argument if the pass queued last has no mask yet, or whatever it says of one that has none
  Status last_has_mask();
  /// What drawn() says of a pass whose mask came too late.
  Error mask_is_late() const;

  /// What a pass consumes behind `pass`: its token, or 0 if it drew none.
  TokenId next_after(std::uint32_t pass) const {
    return pass == 0 ? first_ : token_of(pass).value_or(0);
  }

  /// The logits [vocab] of the last pass, copied to the host; empty before the first.
  Result<std::span<const float>> logits_on_host();

  /// Leaves the plan's buffers, if they are this object's. For destructors.
  /// @return whether they were
  bool leave();

 private:
  friend struct ActiveSteps;

  Result<TokenId> next_drawn();

  /// Takes the logits out of the plan's buffers.
  Status give_way();

  /// Waits until a queued pass has its mask. If that does not come in time it is given up.
  /// @return why the pass has none
  Status await_mask(std::uint32_t pass);
  /// The pass queued last draws nothing. With the mutex held.
  void give_up_mask(Error why);

  ActiveSteps& active_;
  std::int32_t vocab_;
  TokenId first_;
  std::uint32_t places_;
  std::uint32_t queued_ = 0, drawn_ = 0;  // passes
  const std::chrono::milliseconds mask_timeout_;
  std::mutex mask_mutex_;  // of these:
  std::condition_variable mask_came_;
  std::uint32_t masks_ = 0;       // passes that have a mask
  std::optional<Error> forgone_;  // why the last pass has none

  std::vector<float> logits_;  // [vocab] of copied_pass_, after it left the plan's buffers
  std::uint32_t copied_pass_ = 0;
  Status copied_;  // after give_way(): whether logits_ are the last pass's
};

/// @return invalid_argument if `recent`, of Plan::sampled_steps, has no token to begin with
Status check_recent(std::span<const TokenId> recent);

}  // namespace runnel
