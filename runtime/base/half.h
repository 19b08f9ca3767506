// SPDX-License-Identifier: Apache-2.0
// 16-bit floats as bit patterns: f16 (IEEE binary16) and bf16, to and from f32, rounded to nearest even.
//
// Plain integer and float operations that compilers vectorise; no input is subnormal when a float
// operation sees it, so that flush-to-zero modes do not change results.
#pragma once

#include <bit>
#include <cstdint>

namespace runnel {

/// The exact value of an f16, subnormals, infinities and NaN payloads included.
constexpr float f16_to_f32(std::uint16_t h) {
  constexpr std::uint32_t kExponent = 0x7c00U << 13;
  constexpr std::uint32_t kRebias = (127U - 15U) << 23;
  const std::uint32_t magnitude = (h & 0x7fffU) << 13;
  const std::uint32_t exponent = magnitude & kExponent;
  const std::uint32_t sign = (h & 0x8000U) << 16;
  const std::uint32_t normal = magnitude + kRebias + (exponent == kExponent ? kRebias : 0U);
  // A subnormal is mantissa * 2^-24: put it under the exponent of 2^-14 and take 2^-14 away again.
  constexpr std::uint32_t kSmallest = 113U << 23;
  const float subnormal =
      std::bit_cast<float>(magnitude + kSmallest) - std::bit_cast<float>(kSmallest);
  const std::uint32_t bits = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(bits | sign);
}

/// The nearest f16, ties to even. Too large becomes infinity; a NaN stays one, quiet, with its upper payload.
constexpr std::uint16_t f32_to_f16(float f) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = (all >> 16) & 0x8000U;
  const std::uint32_t bits = all & 0x7fffffffU;
  constexpr std::uint32_t kInfinity = 255U << 23;
  // 65536: rounds to infinity from 65520 on.
  constexpr std::uint32_t kTooLarge = (127U + 16U) << 23;
  constexpr std::uint32_t kNormal = 113U << 23;  // 2^-14, the smallest normal f16
  std::uint32_t out = 0;
  if (bits >= kTooLarge) {
    out = bits > kInfinity ? 0x7e00U | ((bits >> 13) & 0x3ffU) : 0x7c00U;
  } else if (bits < kNormal) {
    // Adding 1/2 moves the mantissa to where its last bit is 2^-24; the addition itself rounds to nearest even.
    constexpr std::uint32_t kHalf = 126U << 23;
    out = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(kHalf)) -
          kHalf;
  } else {
    const std::uint32_t odd = (bits >> 13) & 1U;
    out = (bits - ((127U - 15U) << 23) + 0xfffU + odd) >> 13;
  }
  return static_cast<std::uint16_t>(out | sign);
}

/// The exact value of a bf16.
constexpr float bf16_to_f32(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

/// The nearest bf16, ties to even; a NaN stays one, quiet.
constexpr std::uint16_t f32_to_bf16(float f) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40U : rounded);
}

}  // namespace runnel
