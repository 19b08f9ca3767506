// SPDX-License-Identifier: Apache-2.0
// Sampling options, what was generated, and what differs from token to token, as shaders/draw.comp reads them: the words
// kDraw… and kTurn… of interface.h.
#pragma once

#include <cstdint>
#include <span>

#include "runnel/sampling.h"
#include "runtime/sampling/dry.h"
#include "runtime/sampling/token_mask.h"

namespace runnel::vulkan {

/// Words for a vocabulary of this size.
std::size_t chain_words(std::int32_t vocab);

/// Writes what stays the same for a chain of steps.
/// @param words           [chain_words(vocab)]
/// @param options         is_device_chain(), with ids of biases in [0, vocab), at most kMostDrawnBiases
/// @param recent          tokens consumed when the first token is drawn, oldest first
/// @param piece           as Sampler's
/// @param known_breakers  `words` has those of these options
void put_chain(std::span<std::uint32_t> words, const SamplingOptions& options, std::int32_t vocab,
               std::span<const TokenId> recent, PieceOf piece, bool known_breakers);

/// What differs from token to token.
struct Turn {
  std::uint32_t place = 0;
  std::uint64_t position = 0;  // tokens consumed when it is drawn
  bool begins = false;         // it is the first of its chain of steps
  bool masked = false;         // put_mask() says what may come, before it is drawn
};
void put_turn(std::span<std::uint32_t> words, const SamplingOptions& options, const Turn& turn);

/// Writes which tokens the one at `place` may be.
void put_mask(std::span<std::uint32_t> words, std::uint32_t place, const TokenMask& mask);

}  // namespace runnel::vulkan
