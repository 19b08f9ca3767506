// SPDX-License-Identifier: Apache-2.0
// What a Session holds, for the parts of the library that work on it (generation, snapshots).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runnel/session.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/engine.h"

namespace runnel {

/// The history hash after one more token; 0 before the first.
inline std::uint64_t extend_history(std::uint64_t hash, TokenId token) {
  // splitmix64 of the running value and the token: order matters, every token matters.
  std::uint64_t z = hash + 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(token);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Whence tokens come: penalties look back on generated ones.
enum class Origin { prompt, generated };

struct Session::Impl {
  std::shared_ptr<const Model> model;
  std::unique_ptr<RecurrentState> state;
  std::uint64_t generation = 0;  // of the engine's devices, to which the state belongs
  std::vector<float> logits;     // [vocab] after the last token; empty before the first; catch_up()
  std::vector<TokenId> recent;  // last tokens, oldest first; up to 2 * kHistoryWindow between trims
  std::size_t generated =
      0;  // how many at the end of `recent` were generated since the last prompt
  std::uint64_t history_hash = 0;  // of all tokens consumed, in order
  std::string utf8_carry;          // bytes of a character begun by the last generated token
  std::string stop_carry;          // generated text held back because a stop string may have begun
  std::optional<SamplerState> sampler;  // options of the last generation
  bool broken = false;  // a device failed: the state is undefined until reset or restore
  std::unique_ptr<SampledSteps> steps;  // during a generation whose tokens the device draws
  bool logits_behind = false;           // `steps` has newer ones

  Engine& engine() const { return model->engine(); }

  /// A copy of everything but the state.
  std::unique_ptr<Impl> copy_without_state() const;

  /// Feeds at most Engine::max_tokens() tokens in one pass; `wanted` logits go to `out`.
  Status feed(std::span<const TokenId> tokens, LogitsWanted wanted, std::span<float> out,
              std::stop_token stop, Origin origin);

  /// Feeds one token and keeps its logits: a step of generation.
  Status step(TokenId token);

  /// Whether the state is lost: its device failed, for this session or for another.
  bool lost() const { return broken || generation != engine().generation(); }
  /// A new state, if that is so.
  Status replace_lost_state();

  /// Brings `logits` up to date with the last step.
  Status catch_up();

  /// Drops `steps`: the state continues without them.
  void stop_drawing();

  /// Refuses ids outside the vocabulary and a session whose device failed.
  Status check(std::span<const TokenId> tokens) const;

  /// Updates position, history and recent tokens for tokens that the state has consumed.
  void consumed(std::span<const TokenId> tokens, Origin origin);

  /// The tokens generated since the last prompt, oldest first, at most kHistoryWindow: what penalties look back on.
  std::span<const TokenId> generated_tokens() const;
};

}  // namespace runnel
