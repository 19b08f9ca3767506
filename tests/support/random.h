// SPDX-License-Identifier: Apache-2.0
// Seeded random data, the same on every platform but for the last bits of normals.
#pragma once

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

  /// Standard normal, by Box and Muller; in floats, since models of millions of weights are made of it.
  float normal() {
    const float radius = std::sqrt(-2.0F * std::log(static_cast<float>(1.0 - uniform())));
    return radius * std::cos(6.2831853F * static_cast<float>(uniform()));
  }

  std::vector<float> normals(std::size_t n, float scale = 1.0F) {
    std::vector<float> values(n);
    for (float& v : values) v = scale * normal();
    return values;
  }

  std::vector<TokenId> tokens(std::size_t n, std::int32_t vocab) {
    std::vector<TokenId> ids(n);
    for (TokenId& id : ids) id = static_cast<TokenId>(below(static_cast<std::uint64_t>(vocab)));
    return ids;
  }

 private:
  std::uint64_t state_;
};

}  // namespace runnel::test
