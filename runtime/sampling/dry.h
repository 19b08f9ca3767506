// SPDX-License-Identifier: Apache-2.0
// DRY, "do not repeat yourself": makes what would go on with a repetition less likely, the longer it is the more.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/sampling.h"
#include "runnel/types.h"

namespace runnel {

/// The text of a token, empty for special tokens and ids without one; lives as long as the tokenizer.
using PieceOf = std::function<std::string_view(TokenId)>;

/// The options of DRY and the memory it needs, so that a token allocates nothing. One thread at a time.
class Dry {
 public:
  /// Off: apply() does nothing.
  Dry() = default;
  /// @param options  valid
  /// @param piece    may be empty: then there are no breakers
  Dry(const SamplingOptions& options, std::int32_t vocab_size, PieceOf piece);

  bool on() const { return multiplier_ > 0.0F && range_ > 0; }

  /// Subtracts from the logits [vocab_size] of tokens that would extend a repetition at the end of `generated` (oldest
  /// first; the last dry_range of them count). Linear in the range.
  void apply(std::span<const TokenId> generated, std::span<float> logits);

 private:
  bool is_breaker(TokenId token);
  void match_ends(std::span<const TokenId> tokens);

  float multiplier_ = 0.0F;
  float base_ = 1.0F;
  std::size_t allowed_ = 1;
  std::size_t range_ = 0;
  std::vector<std::string> breakers_;
  PieceOf piece_;

  enum class Known : std::uint8_t { unknown, text, breaker };
  std::vector<Known> known_;  // [vocab] whether a token contains a breaker, once it was asked for
  std::vector<std::uint16_t>
      longest_;  // [vocab] the repetition that a token would extend; zero between calls
  std::vector<std::uint16_t> matches_;  // [range] see match_ends
};

}  // namespace runnel
