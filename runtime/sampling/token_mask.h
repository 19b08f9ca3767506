// SPDX-License-Identifier: Apache-2.0
// Which tokens may come next: a bit for each, in words as a device will read them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runnel/types.h"

namespace runnel {

/// Bit t % 32 of word t / 32 is 1: token t may come. Bits past the vocabulary are 0.
class TokenMask {
 public:
  static constexpr std::size_t kWordBits = 32;

  TokenMask() = default;
  /// No token may come.
  explicit TokenMask(std::size_t vocab)
      : vocab_(vocab), words_((vocab + kWordBits - 1) / kWordBits) {}

  std::size_t vocab() const { return vocab_; }
  std::span<const std::uint32_t> words() const { return words_; }
  std::span<std::uint32_t> words() { return words_; }

  bool has(TokenId token) const {
    const auto t = static_cast<std::size_t>(token);
    return t < vocab_ && ((words_[t / kWordBits] >> (t % kWordBits)) & 1U) != 0;
  }
  void set(TokenId token, bool may = true) {
    const auto t = static_cast<std::size_t>(token);
    if (t >= vocab_) return;
    const std::uint32_t bit = 1U << (t % kWordBits);
    words_[t / kWordBits] = may ? words_[t / kWordBits] | bit : words_[t / kWordBits] & ~bit;
  }
  void set_all() {
    std::fill(words_.begin(), words_.end(), ~0U);
    trim();
  }
  void clear() { std::fill(words_.begin(), words_.end(), 0U); }
  /// Bits past the vocabulary become 0 again.
  void trim() {
    if (vocab_ % kWordBits != 0) words_.back() &= (1U << (vocab_ % kWordBits)) - 1U;
  }

  std::size_t count() const {
    std::size_t n = 0;
    for (const std::uint32_t word : words_) n += static_cast<std::size_t>(std::popcount(word));
    return n;
  }
  /// The only token that may come, or -1 if there are more or none.
  TokenId only() const {
    TokenId found = -1;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] == 0) continue;
      if (found >= 0 || !std::has_single_bit(words_[i])) return -1;
      found = static_cast<TokenId>(i * kWordBits +
                                   static_cast<std::size_t>(std::countr_zero(words_[i])));
    }
    return found;
  }

 private:
  std::size_t vocab_ = 0;
  std::vector<std::uint32_t> words_;
};

}  // namespace runnel
