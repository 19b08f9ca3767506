// SPDX-License-Identifier: Apache-2.0
// Tokens that may not come whatever the chain says: those that would repeat an n-gram or complete a banned text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/sampling.h"
#include "runnel/types.h"
#include "runtime/sampling/dry.h"
#include "runtime/sampling/token_mask.h"

namespace runnel {

/// Forbids tokens after which the last n tokens would stand among the generated ones a second time. n = 1: every token
/// that was generated. Linear in the tokens that it sees; the last SamplingOptions::kMaxPenaltyWindow of `generated`.
/// @param logits  [vocab]; those of forbidden tokens become -inf
void forbid_repeated_ngrams(std::size_t n, std::span<const TokenId> generated,
                            std::span<float> logits);

/// @param logits  [vocab]; those of tokens that are not in `mask` become -inf
void forbid_others(const TokenMask& mask, std::span<float> logits);

/// Texts that must never come, across any boundaries of tokens. A token allocates nothing. One thread at a time.
class BannedTexts {
 public:
  /// None.
  BannedTexts() = default;
  /// Looks at the text of every token.
  /// @param texts  none empty
  BannedTexts(const std::vector<std::string>& texts, std::int32_t vocab_size, const PieceOf& piece);

  bool on() const { return !patterns_.empty(); }

  /// The logits [vocab] of tokens that would complete a text after `generated` (oldest first) become -inf.
  void apply(std::span<const TokenId> generated, std::span<float> logits);

 private:
  struct Pattern {
    std::string text;
    // [n] longest proper prefix of text[0, n) that is also its suffix
    std::vector<std::size_t> border;
  };

  void read_tail(std::span<const TokenId> generated);
  void forbid_beginnings(std::string_view rest, std::span<float> logits) const;

  std::vector<Pattern> patterns_;
  std::size_t longest_ = 0;  // bytes of a text
  PieceOf piece_;
  std::vector<TokenId> containing_;  // tokens with a whole text in them
  std::vector<TokenId> sorted_;      // tokens that may complete one, by their text
  std::string tail_;                 // the last bytes generated, fewer than longest_
};

}  // namespace runnel
