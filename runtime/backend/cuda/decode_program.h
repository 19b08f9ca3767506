// SPDX-License-Identifier: Apache-2.0
// Lays a model out for the decode kernel of cuda/decode.h: which block takes which rows, how a
// block divides its shared memory. Knows nothing of the driver.
#pragma once

#include <vector>

#include "cuda/decode_even.h"
#include "runtime/backend/cuda/device_weights.h"

namespace runnel::cuda {

struct DecodeLimits {
  int multiprocessors = 1;
  int shared_bytes = 0;         // of a block
  bool head_only = false;       // another kernel computes the layers
  EvenShape even = kEvenShape;  // for which there is a kernel
};

struct DecodeProgram {
  Decode decode;  // without `layers`, exchange and what changes from token to token
  std::vector<DecodeLayer> layers;  // to be put where `decode.layers` points
  bool fits = false;
  const char* why_not = "";
};

DecodeProgram make_decode_program(const ModelConfig& config, const DeviceWeights& weights,
                                  const DecodeLimits& limits, const DecodeTuning& tuning);

}  // namespace runnel::cuda
