// SPDX-License-Identifier: Apache-2.0
// What follows a gated recurrence: its normaliser, the norm of a head or of all, the output gate.
// Bound: bytes in and out.
#include "cuda/device/ops/recurrence.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;

/// Blocks (token, head), or (token, 0) of all heads.
__global__ void __launch_bounds__(kThreads)
    output_kernel(const __grid_constant__ RecurrenceOutput a) {
  __shared__ float scratch[32];
  chain_trigger();
  chain_wait();
  const int tid = int(threadIdx.x), n = a.heads * a.v_dim;
  const std::size_t t = blockIdx.x;
  const float* o = a.o + t * a.heads * a.columns;
  const auto value = [&](int i) {
    const int h = i / a.v_dim;
    const float v = o[h * a.columns + i % a.v_dim];
    return a.normalizer ? v / (o[h * a.columns + a.v_dim] + 1e-10F) : v;
  };
  const int width = a.per_head ? a.v_dim : n, start = int(blockIdx.y) * width;
  float factor = 1.0F;
  if (a.normalise) {
    float sum = 0.0F;
    for (int i = tid; i < width; i += kThreads) {
      const float v = value(start + i);
      sum = fmaf(v, v, sum);
    }
    factor = rsqrtf(block_sum(sum, scratch) / static_cast<float>(width) + a.eps);
  }
  for (int i = tid; i < width; i += kThreads) {
    float v = value(start + i) * factor;
    if (a.normalise && a.weight != nullptr) v *= a.weight[i];
    if (a.gate != nullptr) v *= swish(a.gate[t * a.gate_stride + start + i]);
    if (a.y_bf16 != nullptr) {
      a.y_bf16[t * a.y_stride + start + i] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
    } else {
      a.y[t * n + start + i] = v;
    }
  }
}

}  // namespace

cudaError_t recurrence_output(const Launch& l, const RecurrenceOutput& a, int tokens) {
  const unsigned parts = a.per_head ? unsigned(a.heads) : 1;
  return launch(l, output_kernel, dim3(unsigned(tokens), parts), kThreads, 0, 1, a);
}

}  // namespace runnel::cuda
