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

  struct Loss {
    TokenId token;
    float loss;  // of its logit
  };

  /// Tokens that would extend a repetition at the end of `generated` (oldest first; the last dry_range of them count),
  /// each once, and what their logits lose. Linear in the range. Valid until the next call.
  std::span<const Loss> losses(std::span<const TokenId> generated);

  /// Subtracts the losses from the logits [vocab_size].
  void apply(std::span<const TokenId> generated, std::span<float> logits);

  // What a device needs to go on by itself. After a further token, lengths[i] is one more if that token is no breaker and
  // the one i places before it is the same, else 0. The token i places before the next one would extend a repetition of
  // min(lengths[i], tokens in range - i).

  /// [dry_range] For each distance i: how many tokens at the end, none of them a breaker, stand i tokens before as well;
  /// [0] is 0. Valid until the next call.
  std::span<const std::uint16_t> lengths(std::span<const TokenId> generated);

  /// [dry_range] What a token loses that would extend a repetition of so many; 0 below the allowed length.
  std::span<const float> losses_by_length() const { return by_length_; }

  /// A bit for each token: whether a repetition ends at it and it loses nothing; bit id % 32 of word id / 32. Looks at
  /// every token's text.
  std::vector<std::uint32_t> breaker_bits();

 private:
  bool is_breaker(TokenId token);

  float multiplier_ = 0.0F;
  std::size_t allowed_ = 1;
  std::size_t range_ = 0;
  std::vector<std::string> breakers_;
  PieceOf piece_;

  enum class Known : std::uint8_t { unknown, text, breaker };
  std::vector<Known> known_;  // [vocab] whether a token contains a breaker, once it was asked for
  // [vocab] the repetition that a token would extend; zero between calls
  std::vector<std::uint16_t> longest_;
  std::vector<std::uint16_t> lengths_;  // [range]
  std::vector<float> by_length_;        // [range]
  std::vector<Loss> losses_;
};

}  // namespace runnel
