// SPDX-License-Identifier: Apache-2.0
// Checkpoints of RWKV-7 in flash-linear-attention's layout: sizes from the tensors' shapes, and the tensors under our
// names. Configurations of published ones have nulls and two spellings, so what they state is only checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/safetensors.h"
#include "runtime/model/config.h"

namespace runnel {

struct MappedTensors;  // runtime/model/hf_checkpoint.h

/// What config.json states of such a model.
struct HfShifted {
  struct Stated {
    std::string key;
    std::int64_t value;
  };
  std::vector<Stated> sizes;  // of the keys that are there and not null
  double norm_eps = 1e-5;
  bool norm_first = true;  // a norm behind the embedding
};

/// The model that the tensors' shapes describe.
/// @return malformed for a tensor that is missing, or a shape that config.json contradicts; as shifted_config()
Result<ModelConfig> shifted_config_of(const HfShifted& stated,
                                      const SafetensorsCheckpoint& checkpoint);

/// As map_hf_tensors(), of such a model: under the names of its files.
Result<MappedTensors> map_shifted_tensors(const ModelConfig& config,
                                          const SafetensorsCheckpoint& checkpoint);

}  // namespace runnel
