// SPDX-License-Identifier: Apache-2.0
// Passes over the vocabulary, written in lanes so that the compiler vectorises them without reordering any float sum.
#include "runtime/sampling/token_weights.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "runtime/base/integers.h"

namespace runnel {
namespace {

// Vectors of the compiler (GCC and Clang), not of one instruction set: each is an SSE or NEON register.
constexpr std::size_t kLanes = 4;
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = std::int32_t __attribute__((vector_size(4 * kLanes)));
constexpr std::size_t kStep = 4 * kLanes;  // four registers hide each other's latency
constexpr std::size_t kBlock = 32 * kLanes;

template <class Vector, class T>
Vector load(const T* from) {
  static_assert(sizeof(T) == 4);
  Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

// Sum of the weights >= cut of one block of kBlock. Weights are below 2^31: signed comparisons are right.
std::uint64_t block_sum(const std::uint32_t* weights, std::uint32_t cut) {
  Ints a{}, b{}, c{}, d{};  // 8 weights of 2^28 per lane stay below 2^32
  const Ints below = Ints{} + (static_cast<std::int32_t>(cut) - 1);
  const auto kept = [&](std::size_t i) {
    const Ints w = load<Ints>(weights + i);
    return w & (w > below);
  };
  for (std::size_t i = 0; i < kBlock; i += kStep) {
    a += kept(i);
    b += kept(i + kLanes);
    c += kept(i + 2 * kLanes);
    d += kept(i + 3 * kLanes);
  }
  std::uint64_t sum = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sum += std::uint64_t{static_cast<std::uint32_t>(a[lane])} +
           static_cast<std::uint32_t>(b[lane]) + static_cast<std::uint32_t>(c[lane]) +
           static_cast<std::uint32_t>(d[lane]);
  }
  return sum;
}

// exp(x) = 2^n exp(r), |r| <= ln(2)/2, exp(r) by its Taylor series to r^7 (remainder 5e-9).
Floats exp_lanes(Floats x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // 10 bits, so n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const Floats n = (x * kLog2E + kRound) - kRound;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  Floats p = r * (1.0F / 5040.0F) + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const Ints exponent = (__builtin_convertvector(n, Ints) + 127) << 23;
  return p * std::bit_cast<Floats>(exponent);
}

constexpr float kNothing = -20.5F;  // exp(-20.5) * 2^28 rounds to 0

std::uint64_t tail_sum(std::span<const std::uint32_t> weights, std::uint32_t cut) {
  std::uint64_t sum = 0;
  for (const std::uint32_t w : weights) sum += w >= cut ? w : 0U;
  return sum;
}

}  // namespace

float max_logit(std::span<const float> logits) {
  float max = -std::numeric_limits<float>::infinity();
  Floats a = Floats{} + max, b = a, c = a, d = a;
  const auto raise = [&](Floats& best, std::size_t i) {
    const Floats x = load<Floats>(logits.data() + i);
    best = x > best ? x : best;  // false for NaN
  };
  const std::size_t whole = logits.size() / kStep * kStep;
  for (std::size_t i = 0; i < whole; i += kStep) {
    raise(a, i);
    raise(b, i + kLanes);
    raise(c, i + 2 * kLanes);
    raise(d, i + 3 * kLanes);
  }
  for (const Floats& best : {a, b, c, d}) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) max = best[lane] > max ? best[lane] : max;
  }
  for (const float x : logits.subspan(whole)) max = x > max ? x : max;
  return max;
}

float portable_exp(float x) { return exp_lanes(Floats{} + x)[0]; }

void token_weights(std::span<const float> logits, float max, float inverse_temperature,
                   std::span<std::uint32_t> weights) {
  const auto weigh = [max, inverse_temperature](Floats logit) {
    const Floats scaled = (logit - max) * inverse_temperature;
    const Floats x = scaled > kNothing ? scaled : Floats{} + kNothing;  // NaN and -inf as well
    return __builtin_convertvector(exp_lanes(x) * static_cast<float>(kWeightOne) + 0.5F, Ints);
  };
  const std::size_t whole = logits.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    const Floats logit = load<Floats>(logits.data() + i);
    // Most of a real vocabulary is far below the likeliest token and weighs nothing.
    const Ints some = (logit - max) * inverse_temperature > kNothing;
    const bool any = (some[0] | some[1] | some[2] | some[3]) != 0;
    const Ints w = any ? weigh(logit) : Ints{};
    std::memcpy(weights.data() + i, &w, sizeof(w));
  }
  for (std::size_t i = whole; i < logits.size(); ++i) {
    weights[i] = static_cast<std::uint32_t>(weigh(Floats{} + logits[i])[0]);
  }
}

std::uint64_t sum_at_least(std::span<const std::uint32_t> weights, std::uint32_t cut) {
  const std::size_t whole = weights.size() / kBlock * kBlock;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < whole; i += kBlock) sum += block_sum(weights.data() + i, cut);
  return sum + tail_sum(weights.subspan(whole), cut);
}

NucleusCut nucleus_cut(std::span<const std::uint32_t> weights, std::uint64_t wanted,
                       std::span<std::uint32_t> scratch) {
  // The set mostly lies among the few likely tokens: search only those if they suffice.
  constexpr std::uint32_t kLikely = kWeightOne >> 10;
  std::size_t kept = 0;
  for (const std::uint32_t w : weights) {
    scratch[kept] = w;
    kept += w >= kLikely ? 1U : 0U;
  }
  const std::span<const std::uint32_t> likely(scratch.data(), kept);
  const bool suffices = sum_at_least(likely, kLikely) >= wanted;
  const std::span<const std::uint32_t> pool = suffices ? likely : weights;

  // The largest cut whose tokens reach `wanted`.
  std::uint32_t low = suffices ? kLikely : 1;  // reaches it
  std::uint32_t high = kWeightOne + 1;         // does not
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (sum_at_least(pool, middle) >= wanted ? low : high) = middle;
  }
  const std::uint64_t missing = wanted - sum_at_least(pool, low + 1);
  return {.weight = low, .ties = divide_up(missing, low)};
}

std::size_t index_at(std::span<const std::uint32_t> weights, std::uint32_t cut,
                     std::uint64_t target) {
  const std::size_t whole = weights.size() / kBlock * kBlock;
  std::size_t i = 0;
  for (; i < whole; i += kBlock) {
    const std::uint64_t sum = block_sum(weights.data() + i, cut);
    if (target < sum) break;
    target -= sum;
  }
  for (; i < weights.size(); ++i) {
    const std::uint64_t w = weights[i] >= cut ? weights[i] : 0U;
    if (target < w) return i;
    target -= w;
  }
  return weights.size();
}

}  // namespace runnel
