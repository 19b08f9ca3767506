// SPDX-License-Identifier: Apache-2.0
// What the layouts of both decode kernels share.
#pragma once

#include <bit>

#include "cuda/decode.h"
#include "runtime/backend/cuda/device_weights.h"

namespace runnel::cuda {

inline int divide_up(int n, int by) { return (n + by - 1) / by; }
inline int round_up(int n, int to) { return divide_up(n, to) * to; }
inline int log2_of(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
inline bool is_power(int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); }
inline bool is_plain(BlockType t) {
  return t == BlockType::f32 || t == BlockType::f16 || t == BlockType::bf16;
}
Act act_of(Activation a);
Act act_of(FeatureMap f);  // those that are activations

DecodeShape shape_of(const Matrix& m, bool pairs, bool everybody);

/// Why neither kernel computes such a model, or "".
const char* refuse_slot_model(const ModelConfig& c, const DeviceWeights& w);

}  // namespace runnel::cuda
