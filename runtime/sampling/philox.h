// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10: counter-based random numbers that every backend can draw alike.
//
// Source: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Only 32-bit
// multiplications, xor and addition, so C++, CUDA and GLSL (umulExtended) give the same words.
#pragma once

#include <array>
#include <cstdint>

namespace runnel {

/// Four random words: philox4x32 with 10 rounds of `counter` under `key`.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53U;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57U;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;  // golden ratio
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;  // sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

/// The random words of the token after `position` consumed ones:
///   key = (low, high word of seed), counter = (low, high word of position, 0, 0), all four output words
/// The first chooses the token, the second whether XTC comes into play.
constexpr std::array<std::uint32_t, 4> sampling_words(std::uint64_t seed, std::uint64_t position) {
  return philox4x32(
      {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

/// The word that chooses the token. It stands for the number word / 2^32 in [0, 1). As an integer it is used without
/// rounding, see draw_below.
constexpr std::uint32_t sampling_word(std::uint64_t seed, std::uint64_t position) {
  return sampling_words(seed, position)[0];
}

/// Whether what is to happen with `probability` in [0, 1] happens.
constexpr bool happens(float probability, std::uint32_t word) {
  return static_cast<double>(word) < static_cast<double>(probability) * 4294967296.0;
}

/// floor(total * word / 2^32), a number in [0, total): the total's share that `word` points at.
/// Exact for total < 2^63.
constexpr std::uint64_t draw_below(std::uint64_t total, std::uint32_t word) {
  return (total >> 32) * word + (((total & 0xFFFFFFFFU) * word) >> 32);
}

/// The same number as a float in [0, 1): the word's upper 24 bits times 2^-24, exact in float32.
constexpr float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

}  // namespace runnel
