// SPDX-License-Identifier: Apache-2.0
// Row-wise steps that stand alone between products: LayerNorm, biases, squared ReLU. One block per row. Bound: bytes in
// and out.
#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"
#include "cuda/row_ops.h"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;

/// The sum of v over the block's threads, for all of them.
__device__ __forceinline__ float block_sum(float v, float* sums) {
  v = warp_sum(v);
  __syncthreads();  // the sums before are read
  if ((threadIdx.x & 31U) == 0) sums[threadIdx.x >> 5] = v;
  __syncthreads();
  float sum = 0.0F;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) sum += sums[w];
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    layer_norm_kernel(const float* all, int n, float eps, const float* weight, const float* bias,
                      float* out) {
  __shared__ float sums[kThreads / 32];
  chain_trigger();
  chain_wait();
  const std::size_t row = std::size_t(blockIdx.x) * n;
  const float* x = all + row;
  float sum = 0.0F;
  for (int i = int(threadIdx.x); i < n; i += kThreads) sum += x[i];
  const float mean = block_sum(sum, sums) / static_cast<float>(n);
  float squares = 0.0F;
  for (int i = int(threadIdx.x); i < n; i += kThreads) {
    const float v = x[i] - mean;
    squares = fmaf(v, v, squares);
  }
  const float factor = rsqrtf(block_sum(squares, sums) / static_cast<float>(n) + eps);
  for (int i = int(threadIdx.x); i < n; i += kThreads) {
    float v = (x[i] - mean) * factor;
    if (weight != nullptr) v *= weight[i];
    if (bias != nullptr) v += bias[i];
    out[row + i] = v;
  }
}

__global__ void __launch_bounds__(kThreads)
    bias_kernel(float* x, int stride, const float* bias, int n) {
  chain_trigger();
  chain_wait();
  float* row = x + std::size_t(blockIdx.x) * stride;
  for (int i = int(threadIdx.x); i < n; i += kThreads) row[i] += bias[i];
}

template <bool kBf16>
__global__ void __launch_bounds__(kThreads)
    squared_relu_kernel(const float* x, int n, void* h, int h_stride) {
  chain_trigger();
  chain_wait();
  const std::size_t from = std::size_t(blockIdx.x) * n, to = std::size_t(blockIdx.x) * h_stride;
  for (int i = int(threadIdx.x); i < h_stride; i += kThreads) {
    const float r = i < n ? fmaxf(x[from + i], 0.0F) : 0.0F;
    if constexpr (kBf16) {
      static_cast<__nv_bfloat16*>(h)[to + i] = __float2bfloat16_rn(r * r);
    } else {
      static_cast<float*>(h)[to + i] = r * r;
    }
  }
}

/// Four values of a row a thread.
__global__ void __launch_bounds__(kThreads) squared_relu_bf16_kernel(const uint2* x, uint2* h) {
  chain_trigger();
  chain_wait();
  const std::size_t i = std::size_t(blockIdx.x) * kThreads + threadIdx.x;
  const uint2 v = x[i];
  const auto squares = [](std::uint32_t w) {
    const float low = fmaxf(bf16_low(w), 0.0F), high = fmaxf(bf16_high(w), 0.0F);
    const __nv_bfloat162 both = __floats2bfloat162_rn(low * low, high * high);
    return *reinterpret_cast<const std::uint32_t*>(&both);
  };
  h[i] = make_uint2(squares(v.x), squares(v.y));
}

}  // namespace

cudaError_t squared_relu_bf16(const Launch& l, const std::uint16_t* x, std::uint16_t* h, int n,
                              int count) {
  const std::size_t vectors = std::size_t(n) * std::size_t(count) / 4;
  if (n % (4 * kThreads) != 0) return cudaErrorInvalidValue;
  return launch(l, squared_relu_bf16_kernel, dim3(unsigned(vectors / kThreads)), kThreads, 0, 1,
                reinterpret_cast<const uint2*>(x), reinterpret_cast<uint2*>(h));
}

cudaError_t layer_norm_rows(const Launch& l, const LayerNormRows& a, int count) {
  return launch(l, layer_norm_kernel, dim3(static_cast<unsigned>(count)), kThreads, 0, 1, a.x, a.n,
                a.eps, a.weight, a.bias, a.out);
}

cudaError_t bias_rows(const Launch& l, float* x, int stride, const float* bias, int n, int count) {
  return launch(l, bias_kernel, dim3(static_cast<unsigned>(count)), kThreads, 0, 1, x, stride, bias,
                n);
}

cudaError_t squared_relu_rows(const Launch& l, const float* x, int n, void* h, bool h_bf16,
                              int h_stride, int count) {
  const dim3 grid(static_cast<unsigned>(count));
  if (h_bf16) return launch(l, squared_relu_kernel<true>, grid, kThreads, 0, 1, x, n, h, h_stride);
  return launch(l, squared_relu_kernel<false>, grid, kThreads, 0, 1, x, n, h, h_stride);
}

}  // namespace runnel::cuda
