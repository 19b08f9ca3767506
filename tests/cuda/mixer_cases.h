// SPDX-License-Identifier: Apache-2.0
// Small models of every kind of layer, for the tests on a GPU.
#pragma once

#include <ostream>
#include <vector>

#include "tests/support/random_model.h"

namespace runnel::test {

struct MixerCase {
  const char* name;
  ModelConfig config;
  RandomParts parts;
};

inline void PrintTo(const MixerCase& c, std::ostream* out) { *out << c.name; }

std::vector<MixerCase> mixer_cases();

/// 7 query heads a kv head, 4 + 252 + 128 slots, biases on q, k and v.
ModelConfig biased_config();

}  // namespace runnel::test
