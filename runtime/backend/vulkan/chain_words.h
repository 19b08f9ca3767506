// SPDX-License-Identifier: Apache-2.0
// Sampling options, and what differs from token to token, as shaders/draw.comp reads them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runnel/sampling.h"
#include "runtime/sampling/dry.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {

/// The words of one chain of steps; the layout is kDraw…, kTurn… and kChange… of interface.h. One thread at a time.
class ChainWords {
 public:
  static constexpr std::size_t kWords =
      kDrawHeader + kMostTurns * kTurnWords + kMostChanges * kChangeWords;

  /// @param options  is_device_chain(), with ids of biases in [0, vocab), at most kMostDrawnBiases
  /// @param piece    as Sampler's
  ChainWords(const SamplingOptions& options, std::int32_t vocab, PieceOf piece);

  /// Whether logits change by what was generated, so that a token must be known before the one after it is drawn.
  bool looks_back() const { return window_ > 0 || dry_.on(); }

  /// What stays the same.
  void put_options(std::span<std::uint32_t, kWords> words);

  /// What the token at `place` needs; if looks_back(), no other place is in use.
  /// @param position  tokens consumed when it is drawn
  /// @param recent    generated tokens, oldest first, the last of them consumed
  void put_turn(std::span<std::uint32_t, kWords> words, std::uint32_t place, std::uint64_t position,
                std::span<const TokenId> recent);

 private:
  struct Change {
    TokenId token = 0;
    float bias = 0.0F;
    std::uint32_t count = 0;  // occurrences that penalties see
    float loss = 0.0F;        // by DRY
  };

  Change& change_of(TokenId token);
  void put_changes(std::span<std::uint32_t, kWords> words, std::span<const TokenId> recent);

  SamplingOptions options_;
  std::int32_t vocab_;
  std::size_t window_ = 0;  // tokens that penalties see; 0: none
  Dry dry_;
  std::vector<Change> changes_;
  std::vector<std::uint32_t> place_of_;  // [vocab] of a token in changes_, from 1; zero between calls
};

}  // namespace runnel::vulkan
