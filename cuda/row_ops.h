// SPDX-License-Identifier: Apache-2.0
// Host-callable launchers of row-wise steps that stand alone between products (row_ops.cu), f32 but where said.
// Pointers are device pointers; shapes as in launch.h.
#pragma once

#include "cuda/launch.h"

namespace runnel::cuda {

/// out[t] = (x[t] - mean) * rsqrt(var + eps) * weight + bias;  x, out [T, n]. A null weight is 1, a null bias 0.
struct LayerNormRows {
  const float* x = nullptr;
  std::int32_t n = 0;
  float eps = 0.0F;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
};
cudaError_t layer_norm_rows(const Launch&, const LayerNormRows&, int count);

/// x[t, i] += bias[i], i < n;  x [T, stride].
cudaError_t bias_rows(const Launch&, float* x, int stride, const float* bias, int n, int count);

/// h[t, i] = relu(x[t, i])^2, i < n, and zeros behind;  x [T, n] f32, h [T, h_stride] bf16 or f32.
cudaError_t squared_relu_rows(const Launch&, const float* x, int n, void* h, bool h_bf16,
                              int h_stride, int count);

/// The same from and to bf16, both [T, n]; n a multiple of 1,024.
cudaError_t squared_relu_bf16(const Launch&, const std::uint16_t* x, std::uint16_t* h, int n,
                              int count);

}  // namespace runnel::cuda
