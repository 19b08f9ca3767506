// SPDX-License-Identifier: Apache-2.0
// Models of real shapes with random weights, made in seconds: a few rows are drawn and repeated.
#pragma once

#include <memory>
#include <string>

#include "runtime/model/config.h"
#include "runtime/model/weights.h"

namespace runnel::bench {

struct BenchModel {
  ModelConfig config;
  Weights weights;
  std::shared_ptr<const void> storage;
};

/// Their shapes alone.
ModelConfig config_135m();
ModelConfig config_500m();
ModelConfig config_1500m();
ModelConfig config_1380m();

/// The 135M's shape: 30 layers, D 576, 9/3 heads of 64, 4 + 60 + 64 slots; Q4_0, Q8_0 table, F16 gates.
BenchModel model_135m();

/// 24 layers, D 896, FFN 4,864, 14/2 heads of 64, 4 + 252 + 128 slots, biases on q, k and v; Q4_0, tied, F16 gates.
BenchModel model_500m();

/// 28 layers, D 1,536, FFN 8,960, 12/2 heads of 128; slots, biases and types as in model_500m().
BenchModel model_1500m();

/// fla-hub gsa-1.3B: 24 layers, D 2048, 4 heads of 512, 64 slots, all of one type. `stored`: gates,
/// embedding and head are of the types that `runnel quantize` gives them.
BenchModel model_1380m(quant::BlockType type, bool stored = false);

/// What command lines call them: 135m, 500m, 1500m; q4_0, q4_k, q8_0, else bf16, of 1.38B; `stored` as in q4_0-stored.
BenchModel model_named(const std::string& name);

}  // namespace runnel::bench
