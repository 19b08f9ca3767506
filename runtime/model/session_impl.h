// SPDX-License-Identifier: Apache-2.0
// What a Session holds, for the parts of the library that work on it (generation, snapshots).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runnel/session.h"
#include "runtime/base/access.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/engine.h"
#include "runtime/model/generation_carry.h"
#include "runtime/model/model_impl.h"

namespace runnel {

/// The history hash after one more token; 0 before the first.
inline std::uint64_t extend_history(std::uint64_t hash, TokenId token) {
  // splitmix64 of the running value and the token: order matters, every token matters.
  std::uint64_t z = hash + 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(token);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Whether a session of `engine` can be restored to `data`: all that Session::restore() checks before it needs a state.
/// @return mismatch for a snapshot of another model, window or size; malformed for tokens that the model does not have
Status check_fits(const Engine& engine, const SnapshotData& data);

/// Between calls:
///  * recent tokens, history hash and position are those of the tokens known to be consumed; while the device draws
///    ahead, the state may be one token further;
///  * logits() are those after the last of them, once catch_up() was called;
///  * a carry is of generated text: tokens of any other origin clear it;
///  * a state whose device failed is not used again before reset() or restore() has replaced it.
class Session::Impl {
 public:
  /// @return out_of_memory or device if the state cannot be made.
  static Result<std::unique_ptr<Impl>> create(std::shared_ptr<const Model> model);

  const std::shared_ptr<const Model>& model() const { return model_; }
  Engine& engine() const { return engine_of(*model_); }
  const RecurrentState& state() const { return *state_; }

  /// [vocab] after the last token; empty before the first.
  std::span<const float> logits() const { return memory_.logits; }
  std::span<const TokenId> recent_tokens() const;
  /// Those of them that were generated since the last prompt: what penalties look back on.
  std::span<const TokenId> generated_tokens() const;
  /// A hash of all tokens consumed, in order.
  std::uint64_t history_hash() const { return memory_.history_hash; }
  const GenerationCarry& carry() const { return memory_.carry; }
  /// Options of the last generation.
  const std::optional<SamplerState>& sampler() const { return memory_.sampler; }

  /// Refuses ids outside the vocabulary and a session whose device failed.
  Status check(std::span<const TokenId> tokens) const;

  // Feeding. Tokens were checked.

  /// Feeds at most Engine::max_tokens() tokens in one pass. Its logits go through `after` [vocab]: those of the session
  /// change only with its state.
  /// @return cancelled, if `stop` was requested: nothing has changed
  Status prefill(std::span<const TokenId> tokens, std::vector<float>& after, std::stop_token stop);

  /// The same, with the logits after every token in `out` [tokens, vocab].
  Status score(std::span<const TokenId> tokens, std::span<float> out);

  /// Feeds at most Engine::kHiddenTokens tokens, with the hidden states [tokens, D] of all and no logits: of a session
  /// that is thrown away, since it cannot generate.
  Status hidden(std::span<const TokenId> tokens, std::span<float> out, std::stop_token stop);

  /// Checks and feeds a few tokens that were generated, in one pass.
  Status step(std::span<const TokenId> tokens);

  // A pass shared with other sessions: begin_pass(), Engine::run() with the items of all, end_pass().

  /// The logits after the last of `tokens` go to the session.
  PlanItem begin_pass(std::span<const TokenId> tokens);
  /// The same with the logits after each in `all` [tokens, vocab], and none in the session, which is thrown away.
  PlanItem begin_pass(std::span<const TokenId> tokens, std::span<float> all);

  /// @param ran        what Engine::run() returned
  /// @param generated  the tokens were
  void end_pass(const Status& ran, std::span<const TokenId> tokens, bool generated);

  /// The generation of the engine's devices to which the state belongs.
  std::uint64_t generation() const { return generation_; }

  // A generation whose tokens the device draws: draw_ahead(), then queue_step() and drawn_token() in turns, then
  // settle(). With masks mask_step() after the first queue_step() and after each drawn_token().

  /// @param first   drawn by the host; the first queue_step() consumes it
  /// @param masked  each draw waits for its mask
  /// @return false if the device does not draw with these options
  Result<bool> draw_ahead(TokenId first, const SamplingOptions& sampling, PieceOf piece,
                          bool masked);

  /// Begins to consume the token drawn last.
  /// @return invalid_argument if the session was fed, restored or reset since draw_ahead()
  Status queue_step();

  /// Which tokens the step queued last may draw; as SampledSteps::mask().
  Status mask_step(const TokenMask& mask);

  /// The earliest token not read yet; it counts as consumed.
  Result<TokenId> drawn_token();

  /// Ends it: logits are those after the last token.
  Status settle();

  /// Brings logits() up to date with the last step that was queued.
  Status catch_up();

  /// Keeps what the next generation begins with.
  void keep_generation(SamplerState sampler, GenerationCarry carry);

  /// Text of the last answer that was not consumed.
  void keep_unread(std::string text) { memory_.carry.unread = std::move(text); }

  // The whole session.

  Status reset();
  /// Everything but where it came from.
  Status copy_to(SnapshotData& data) const;
  /// On any error nothing has changed.
  Status restore(const SnapshotData& data);
  Result<std::unique_ptr<Impl>> fork() const;

 private:
  /// What follows from the tokens consumed, beside the state.
  struct Memory {
    std::vector<float> logits;
    std::vector<TokenId> recent;  // oldest first; up to 2 * kHistoryWindow between trims
    // How many at the end of `recent` were generated since the last prompt.
    std::size_t generated = 0;
    std::uint64_t history_hash = 0;
    GenerationCarry carry;
    std::optional<SamplerState> sampler;
  };

  Impl(std::shared_ptr<const Model> model, Memory memory)
      : model_(std::move(model)), memory_(std::move(memory)) {}

  std::size_t vocab() const { return static_cast<std::size_t>(engine().config().vocab_size); }
  static Memory with_room(Memory memory);

  /// Whether the state is lost: its device failed, for this session or for another.
  bool lost() const { return broken_ || generation_ != engine().generation(); }
  /// A new state on the engine's current device, if this one is of another.
  Status replace_lost_state();

  Status feed(const PlanItem& item, bool generated, std::stop_token stop);
  /// Drops `steps_`: the state continues without them.
  void stop_drawing();
  /// Updates history and recent tokens for tokens that the state has consumed.
  void consumed(std::span<const TokenId> tokens, bool generated);

  std::shared_ptr<const Model> model_;
  std::unique_ptr<RecurrentState> state_;
  std::uint64_t generation_ = 0;
  Memory memory_;
  bool broken_ = false;  // a device failed: the state is undefined until reset or restore

  std::unique_ptr<SampledSteps> steps_;  // during a generation whose tokens the device draws
  std::optional<TokenId> first_drawn_;   // of draw_ahead(), not queued yet
  bool logits_behind_ = false;           // `steps_` has newer ones
};

using SessionImpl = Access::Inside<Session>::Impl;

inline SessionImpl& impl_of(Session& session) { return Access::impl(session); }
inline const SessionImpl& impl_of(const Session& session) { return Access::impl(session); }

}  // namespace runnel
