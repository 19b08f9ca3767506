// SPDX-License-Identifier: Apache-2.0
// Inputs between a token and the one before, what lies between products of low rank, and values mixed with those of an
// earlier layer. Bound: bytes in and out.
#include "cuda/device/ops/mma.cuh"
#include "cuda/device/ops/recurrence.cuh"
#include "cuda/removal.h"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRowThreads = 256;  // of a row of the residual stream

__device__ __forceinline__ float between_products(Between between, float v) {
  switch (between) {
    case Between::tanh:
      return tanhf(v);
    case Between::sigmoid:
      return sigmoid(v);
    case Between::nothing:
      break;
  }
  return v;
}

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
    out[std::size_t(blockIdx.x) * n + i] =
        between_products(between, x[std::size_t(blockIdx.x) * stride + i]);
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

/// Blocks (token). A thread has vectors of four channels: kVectors, in registers. The block of a segment's first token
/// norms its last row, too: it alone may write the state that it reads.
template <int kVectors>
__global__ void __launch_bounds__(kRowThreads)
    shifted_rows_kernel(const __grid_constant__ ShiftedRows a, const Segment* segments,
                        int num_segments) {
  __shared__ float scratch[2 * kRowThreads / 32];
  chain_trigger();
  chain_wait();
  const int tid = int(threadIdx.x), t = int(blockIdx.x);
  const Segment s = segments[segment_of(segments, num_segments, t)];
  const bool first = t == s.first;
  float4 rows[2][kVectors];  // this token's; the one before's, or of the first token the last one's
  const int others[2] = {t, first ? s.first + s.count - 1 : t - 1};
  const auto place = [&](int j) { return 4 * (j * kRowThreads + tid); };
#pragma unroll
  for (int w = 0; w < 2; ++w) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const float* from = a.x + std::size_t(others[w]) * a.n + place(j);
      rows[w][j] = place(j) < a.n ? *reinterpret_cast<const float4*>(from)
                                  : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
  }
  /// Both sums over the block.
  const auto sums = [&](float2 v) {
    v.x = warp_sum(v.x), v.y = warp_sum(v.y);
    __syncthreads();
    if ((tid & 31) == 0) scratch[tid >> 5] = v.x, scratch[kRowThreads / 32 + (tid >> 5)] = v.y;
    __syncthreads();
    v = make_float2(0.0F, 0.0F);
#pragma unroll
    for (int w = 0; w < kRowThreads / 32; ++w)
      v.x += scratch[w], v.y += scratch[kRowThreads / 32 + w];
    return v;
  };
  const float by = 1.0F / static_cast<float>(a.n);
  float2 mean = make_float2(0.0F, 0.0F), squares = make_float2(0.0F, 0.0F);
  if (a.centred) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const float4 v = rows[0][j], w = rows[1][j];
      mean.x += (v.x + v.y) + (v.z + v.w), mean.y += (w.x + w.y) + (w.z + w.w);
    }
    mean = sums(mean);
    mean.x *= by, mean.y *= by;
  }
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    if (place(j) >= a.n) continue;
#pragma unroll
    for (int w = 0; w < 2; ++w) {
      float4& v = rows[w][j];
      const float m = w == 0 ? mean.x : mean.y;
      v.x -= m, v.y -= m, v.z -= m, v.w -= m;
      (w == 0 ? squares.x : squares.y) += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
  }
  squares = sums(squares);
  const float factors[2] = {rsqrtf(squares.x * by + a.eps), rsqrtf(squares.y * by + a.eps)};
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    const int i = place(j);
    if (i >= a.n) continue;
    const auto vector = [i](const float* p, float otherwise) {
      return p != nullptr ? *reinterpret_cast<const float4*>(p + i)
                          : make_float4(otherwise, otherwise, otherwise, otherwise);
    };
    const float4 weight = vector(a.weight, 1.0F), bias = vector(a.bias, 0.0F);
#pragma unroll
    for (int w = 0; w < 2; ++w) {
      float4& v = rows[w][j];
      v = make_float4(
          fmaf(v.x * factors[w], weight.x, bias.x), fmaf(v.y * factors[w], weight.y, bias.y),
          fmaf(v.z * factors[w], weight.z, bias.z), fmaf(v.w * factors[w], weight.w, bias.w));
    }
    const float4 h = rows[0][j];
    float4 before = rows[1][j];
    if (first) {
      const float4 last = before;
      before = *reinterpret_cast<const float4*>(s.state_in + a.offset + i);
      *reinterpret_cast<float4*>(s.state_out + a.offset + i) = last;
    }
    const float4 d = make_float4(before.x - h.x, before.y - h.y, before.z - h.z, before.w - h.w);
    for (int k = 0; k < a.inputs; ++k) {
      const float4 lerp = vector(a.lerp + std::size_t(k) * a.n, 0.0F);
      const uint2 packed = make_uint2(pack_bf16(fmaf(lerp.x, d.x, h.x), fmaf(lerp.y, d.y, h.y)),
                                      pack_bf16(fmaf(lerp.z, d.z, h.z), fmaf(lerp.w, d.w, h.w)));
      *reinterpret_cast<uint2*>(a.out + k * a.input_values + std::size_t(t) * a.n + i) = packed;
    }
  }
}

/// Blocks (token).
__global__ void __launch_bounds__(kThreads)
    low_ranks_kernel(const __grid_constant__ LowRanks a, const float* x, int stride) {
  chain_trigger();
  chain_wait();
  const std::size_t t = blockIdx.x;
#pragma unroll 1
  for (int j = 0; j < a.count; ++j) {
    const LowRank& r = a.all[j];
    for (int i = int(threadIdx.x); i < r.padded; i += kThreads) {
      float v = i < r.rank ? x[t * stride + r.at + i] : 0.0F;
      if (i < r.rank) v = between_products(r.between, v);
      reinterpret_cast<__nv_bfloat16*>(r.out)[t * r.padded + i] = __float2bfloat16_rn(v);
    }
  }
}

}  // namespace

bool shifted_rows_fit(int n) { return n % 4 == 0 && n <= 16 * kRowThreads; }

cudaError_t shifted_rows(const Launch& l, const ShiftedRows& a, const Segment* segments,
                         int num_segments, int tokens) {
  const auto start = [&](auto kernel) {
    return launch(l, kernel, dim3(unsigned(tokens)), kRowThreads, 0, 1, a, segments, num_segments);
  };
  const int vectors = (a.n + 4 * kRowThreads - 1) / (4 * kRowThreads);
  if (vectors == 1) return start(shifted_rows_kernel<1>);
  if (vectors == 2) return start(shifted_rows_kernel<2>);
  return start(shifted_rows_kernel<4>);
}

cudaError_t low_ranks(const Launch& l, const LowRanks& a, const float* x, int stride, int tokens) {
  return launch(l, low_ranks_kernel, dim3(unsigned(tokens)), kThreads, 0, 1, a, x, stride);
}

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

cudaError_t mix_values(const Launch& l, const ValueMix& a, int count) {
  return launch(l, values_kernel, dim3(unsigned(count)), kThreads, 0, 1, a.v, a.mix, a.stride,
                a.bias, a.first, a.n);
}

}  // namespace runnel::cuda
