// SPDX-License-Identifier: Apache-2.0
// Where samplers cut, in integers: shares of a sum of weights, and the standard deviation of logits. Sums of integers have
// no order and nothing is rounded by a processor's own rules, so C++, CUDA and GLSL cut alike. Nor do they divide floats:
// GLSL need not round a quotient correctly.
#pragma once

#include <cstdint>

namespace runnel {

/// A share as a whole number of 2^-32, rounded up; 1 and what would round to it are one such unit less.
/// @param share  in [0, 1]
constexpr std::uint32_t share_units(float share) {
  const double exact = static_cast<double>(share) * 4294967296.0;
  if (exact > 4294967295.0) return 0xFFFFFFFFU;
  const auto units = static_cast<std::uint32_t>(exact);
  return static_cast<double>(units) < exact ? units + 1 : units;
}

/// ceil(total * units / 2^32), exactly.
/// @param total  below 2^63
constexpr std::uint64_t share_of(std::uint64_t total, std::uint32_t units) {
  const std::uint64_t low = (total & 0xFFFFFFFFU) * units;
  const std::uint64_t high = (total >> 32) * units;
  return high + (low >> 32) + ((low & 0xFFFFFFFFU) != 0 ? 1 : 0);
}

/// What top-n-sigma adds up of logits: u = floor(4096 logit) of each, those beyond kFarthest counting as that far.
/// 2^19 logits fit.
struct LogitSpread {
  static constexpr float kFarthest = 1024.0F, kUnit = 4096.0F;

  std::uint32_t count = 0;
  std::int64_t sum = 0;       // of u
  std::uint64_t squares = 0;  // of u * u
};

/// The standard deviation in 2^-14, rounded down; at most 2^24, so exact as a float:
///   m = sum / count, cut off;  v = floor((squares - 2 m sum + count m^2) / count);  floor(4 sqrt(v))
/// @param spread  of at least one logit
constexpr std::uint32_t deviation(const LogitSpread& spread) {
  const std::int64_t mean = spread.sum / static_cast<std::int64_t>(spread.count);
  // Modulo 2^64, which the result is below.
  const auto m = static_cast<std::uint64_t>(mean), sum = static_cast<std::uint64_t>(spread.sum);
  const std::uint64_t around = spread.squares + spread.count * m * m - 2 * m * sum;
  const std::uint64_t square = (around / spread.count) << 4;
  std::uint64_t root = 0;
  for (int bit = 24; bit >= 0; --bit) {
    const std::uint64_t larger = root | (std::uint64_t{1} << bit);
    if (larger * larger <= square) root = larger;
  }
  return static_cast<std::uint32_t>(root);
}
inline constexpr float kDeviationUnit = 0x1p-14F;

/// What a logit above 0 of a repeated token is multiplied by, which others are divided by.
/// @param penalty  above 0
constexpr float inverse_penalty(float penalty) {
  constexpr float kLeast = 0x1p-126F;  // the inverse of what is below may be infinite
  return 1.0F / (penalty < kLeast ? kLeast : penalty);
}

/// What XTC takes away, see SamplingOptions::xtc_probability: what weighs at least this, at least 1.
constexpr std::uint64_t top_choice_weight(std::uint64_t total, std::uint32_t threshold_units) {
  const std::uint64_t least = share_of(total, threshold_units);
  return least > 1 ? least : 1;
}

}  // namespace runnel
