// SPDX-License-Identifier: Apache-2.0
// Models whose tensors have several formats, as the files that llama.cpp writes have them.
#pragma once

#include <vector>

#include "quant/formats.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// One of llama.cpp's file types. Its first layers, or half of them, have better types in some places; here layer 0.
struct Mix {
  const char* name;
  quant::BlockType base;                      // of most matrices
  quant::BlockType value, first_value;        // v_proj
  quant::BlockType output, down, first_down;  // o_proj, down_proj
  quant::BlockType table, head;               // the head's, if it is not tied
};

/// All that are in use.
const std::vector<Mix>& llama_mixes();

/// The type of rows that blocks of `type` do not divide, as llama.cpp chooses it.
quant::BlockType llama_fallback(quant::BlockType type, std::int64_t cols);

/// A random model with the types of `mix`.
RandomModel make_mixed_model(const ModelConfig& config, const Mix& mix, bool tied,
                             std::uint64_t seed);

/// The same weights as f32.
RandomModel as_floats(const RandomModel& model);

}  // namespace runnel::test
