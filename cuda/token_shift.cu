// SPDX-License-Identifier: Apache-2.0
// Inputs between a token and the one before, what lies between products of low rank, and values mixed with those of an
// earlier layer. Bound: bytes in and out.
#include "cuda/device/ops/recurrence.cuh"
#include "cuda/removal.h"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 128;

/// Blocks (128 channels, segment). A thread walks one channel through the tokens of a segment.
__global__ void __launch_bounds__(kThreads)
    shift_kernel(const __grid_constant__ TokenShift a, const Segment* segments) {
  chain_trigger();
  chain_wait();
  const int i = int(blockIdx.x * kThreads + threadIdx.x);
  if (i >= a.n) return;
  const Segment s = segments[blockIdx.y];
  float before = s.state_in[a.offset + i];
  for (int t = s.first; t < s.first + s.count; ++t) {
    const std::size_t at = std::size_t(t) * a.n + i;
    const float h = a.rows[at];
    for (int j = 0; j < a.inputs; ++j)
      a.out[j * a.input_floats + at] = fmaf(a.lerp[std::size_t(j) * a.n + i], before - h, h);
    before = h;
  }
  s.state_out[a.offset + i] = before;
}

__global__ void __launch_bounds__(kThreads)
    between_kernel(Between between, const float* x, int stride, int n, float* out) {
  chain_trigger();
  chain_wait();
  for (int i = int(threadIdx.x); i < n; i += kThreads) {
    float v = x[std::size_t(blockIdx.x) * stride + i];
    if (between == Between::tanh) v = tanhf(v);
    if (between == Between::sigmoid) v = sigmoid(v);
    out[std::size_t(blockIdx.x) * n + i] = v;
  }
}

__global__ void __launch_bounds__(kThreads)
    values_kernel(float* v, const float* mix, int stride, const float* bias, const float* first,
                  int n) {
  chain_trigger();
  chain_wait();
  const std::size_t row = std::size_t(blockIdx.x) * stride, kept = std::size_t(blockIdx.x) * n;
  for (int i = int(threadIdx.x); i < n; i += kThreads) {
    const float own = v[row + i];
    v[row + i] = fmaf(first[kept + i] - own, sigmoid(mix[row + i] + bias[i]), own);
  }
}

}  // namespace

cudaError_t token_shift(const Launch& l, const TokenShift& a, const Segment* segments,
                        int num_segments) {
  const unsigned blocks = unsigned((a.n + kThreads - 1) / kThreads);
  return launch(l, shift_kernel, dim3(blocks, unsigned(num_segments)), kThreads, 0, 1, a, segments);
}

cudaError_t between_rows(const Launch& l, Between between, const float* x, int stride, int n,
                         float* out, int count) {
  return launch(l, between_kernel, dim3(unsigned(count)), kThreads, 0, 1, between, x, stride, n,
                out);
}

cudaError_t mix_values(const Launch& l, float* v, const float* mix, int stride, const float* bias,
                       const float* first, int n, int count) {
  return launch(l, values_kernel, dim3(unsigned(count)), kThreads, 0, 1, v, mix, stride, bias,
                first, n);
}

}  // namespace runnel::cuda
