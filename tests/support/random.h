// SPDX-License-Identifier: Apache-2.0
// Seeded random data, the same on every platform.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "runnel/types.h"

namespace runnel::test {

/// splitmix64: small, seeded, and unlike std distributions the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  /// In [0, bound).
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// Standard normal, by Box and Muller.
  float normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return static_cast<float>(radius * std::cos(6.283185307179586 * uniform()));
  }

  /// Drawn from kSample normals: a logarithm and a cosine for each of a model's weights would take longer than most tests.
  std::vector<float> normals(std::size_t n, float scale = 1.0F) {
    const std::array<float, kSample>& sample = normal_sample();
    std::vector<float> values(n);
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < n; ++i, bits >>= kSampleBits) {
      if (i % (64 / kSampleBits) == 0) bits = next();
      values[i] = scale * sample[bits % kSample];
    }
    return values;
  }

  std::vector<TokenId> tokens(std::size_t n, std::int32_t vocab) {
    std::vector<TokenId> ids(n);
    for (TokenId& id : ids) id = static_cast<TokenId>(below(static_cast<std::uint64_t>(vocab)));
    return ids;
  }

 private:
  static constexpr std::size_t kSampleBits = 14, kSample = std::size_t{1} << kSampleBits;

  static const std::array<float, kSample>& normal_sample() {
    static const std::array<float, kSample> sample = [] {
      Random random(0x5EED);
      std::array<float, kSample> values;
      for (float& v : values) v = random.normal();
      return values;
    }();
    return sample;
  }

  std::uint64_t state_;
};

}  // namespace runnel::test
