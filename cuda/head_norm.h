// SPDX-License-Identifier: Apache-2.0
// Norms of heads and an output gate as a part of a product's input.
#pragma once

#include "cuda/launch.h"

namespace runnel::cuda {

/// With head_dim, each head of the input is divided by its own RMS, and norm_weight is of one head.
struct HeadNorm {
  std::int32_t head_dim = 0;    // 0: one norm of all; else a multiple of 128 that divides n
  const float* gate = nullptr;  // [T, gate_stride]: the normed input times swish(gate), or null
  std::int32_t gate_stride = 0;
};
inline constexpr int kMostNormed = 16384;  // inputs with norms of heads

/// The matvec of launch.h with such an input.
cudaError_t matvec(const Launch&, MatvecOutput, Matvec, const HeadNorm&, int tokens, float* h,
                   QuantisedVector hq);

}  // namespace runnel::cuda
