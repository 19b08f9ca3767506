// SPDX-License-Identifier: Apache-2.0
// Configurations of the models with shifted projections (rwkv7 and arwkv7): sizes and ranks come from the shapes of
// their tensors, keys are only checked. From GGUF files with llama.cpp's keys, and for converters.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/gguf.h"
#include "runtime/model/config.h"

namespace runnel {

/// What the shapes of one layer's tensors say.
struct ShiftedLayerSizes {
  std::int64_t decay_rank = 0;         // of w1 [rank, D]
  std::int64_t rate_rank = 0;          // of a1
  std::int64_t value_rank = 0;         // of v1; not read in layer 0
  std::int64_t gate_rank = 0;          // of g1; 0: no gate
  std::int64_t intermediate_size = 0;  // I
  bool group_norm = true;              // whether there is a norm of the mixer's output
};

/// What the shapes of all tensors say.
struct ShiftedSizes {
  std::string architecture;  // "rwkv7" or "arwkv7"
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;  // D
  std::int64_t head_size = 64;   // N
  double norm_eps = 1e-5;
  bool embedding_norm = true;
  std::vector<ShiftedLayerSizes> layers;
};

/// The model of these sizes. @return malformed or unsupported, naming the size and what was expected
Result<ModelConfig> shifted_config(const ShiftedSizes& sizes);

/// The configuration of a file whose architecture has llama.cpp's names.
/// @return malformed, naming a tensor that is missing, its shape, or a key that does not agree with the shapes
Result<ModelConfig> shifted_config_from_gguf(const GgufFile& file);

/// The keys of such a file in the order in which they are written.
std::vector<std::pair<std::string, GgufValue>> shifted_config_keys(const ModelConfig& config);

}  // namespace runnel
