// SPDX-License-Identifier: Apache-2.0
// Small models of every kind of layer, for parity with the reference.
#pragma once

#include <ostream>
#include <vector>

#include "tests/support/random_model.h"

namespace runnel::test {

struct MixerCase {
  const char* name;
  ModelConfig config;
  RandomParts parts;
  // For a device that needs long for it: a software driver, a slower instruction set.
  bool large = false;
};

inline void PrintTo(const MixerCase& c, std::ostream* out) { *out << c.name; }

std::vector<MixerCase> mixer_cases();

/// 7 query heads a kv head, 4 + 252 + 128 slots, biases on q, k and v.
ModelConfig biased_config();

}  // namespace runnel::test
