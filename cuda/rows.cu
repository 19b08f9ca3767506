// SPDX-License-Identifier: Apache-2.0
// Row-wise glue of a prefill pass: norms and SwiGLU that turn f32 rows into the operands of a
// matrix product. One block per row. Bound: bytes in and out.
#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/ops/fast_activation.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;

template <bool kBf16>
__device__ __forceinline__ void put(void* out, std::size_t i, float v) {
  if constexpr (kBf16) {
    static_cast<__nv_bfloat16*>(out)[i] = __float2bfloat16_rn(v);
  } else {
    static_cast<float*>(out)[i] = v;
  }
}

template <bool kBf16>
__global__ void __launch_bounds__(kThreads) norm_rows_kernel(const __grid_constant__ Rows a) {
  __shared__ float squares[kThreads / 32];
  chain_trigger();
  chain_wait();
  const int tid = int(threadIdx.x);
  const int from = a.gather != nullptr ? a.gather[blockIdx.x] : int(blockIdx.x);
  const float* x = a.x + std::size_t(from) * a.x_stride;
  const std::size_t to = std::size_t(blockIdx.x) * a.out_stride;
  float factor = 1.0F;
  if (a.normalise) {
    float sum = 0.0F;
    for (int i = tid; i < a.n; i += kThreads) {
      const float v = activate(a.act, x[i]);
      sum = fmaf(v, v, sum);
    }
    sum = warp_sum(sum);
    if ((tid & 31) == 0) squares[tid >> 5] = sum;
    __syncthreads();
    sum = 0.0F;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) sum += squares[w];
    factor = rsqrtf(sum / static_cast<float>(a.n) + a.eps);
  }
  for (int i = tid; i < a.out_stride; i += kThreads) {
    float v = 0.0F;
    if (i < a.n) {
      v = activate(a.act, x[i]) * factor;
      if (a.weight != nullptr) v *= a.weight[i];
    }
    put<kBf16>(a.out, to + i, v);
  }
}

/// Rows of whole vectors of eight bf16 results, read once and kept in registers, kVectors a thread:
/// no more than a row needs, for the registers decide how many rows are on their way.
constexpr int kMostVectors = 4;

template <bool kFromBf16, int kVectors>
__global__ void __launch_bounds__(kThreads) norm_vectors_kernel(const __grid_constant__ Rows a) {
  __shared__ float squares[kThreads / 32];
  chain_trigger();
  chain_wait();
  const int tid = int(threadIdx.x);
  const int from = a.gather != nullptr ? a.gather[blockIdx.x] : int(blockIdx.x);
  float x[kVectors][8];
  float sum = 0.0F;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = (v * kThreads + tid) * 8;
    if (i >= a.n) continue;
    if constexpr (kFromBf16) {
      const uint4 w =
          *reinterpret_cast<const uint4*>(a.x_bf16 + std::size_t(from) * a.x_stride + i);
      const std::uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int j = 0; j < 4; ++j)
        x[v][2 * j] = bf16_low(words[j]), x[v][2 * j + 1] = bf16_high(words[j]);
    } else {
      const auto* p = reinterpret_cast<const float4*>(a.x + std::size_t(from) * a.x_stride + i);
      const float4 low = p[0], high = p[1];
      x[v][0] = low.x, x[v][1] = low.y, x[v][2] = low.z, x[v][3] = low.w;
      x[v][4] = high.x, x[v][5] = high.y, x[v][6] = high.z, x[v][7] = high.w;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      x[v][j] = fast_activate(a.act, x[v][j]);
      sum = fmaf(x[v][j], x[v][j], sum);
    }
  }
  float factor = 1.0F;
  if (a.normalise) {
    sum = warp_sum(sum);
    if ((tid & 31) == 0) squares[tid >> 5] = sum;
    __syncthreads();
    sum = 0.0F;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) sum += squares[w];
    factor = rsqrtf(sum / static_cast<float>(a.n) + a.eps);
  }
  auto* out = static_cast<__nv_bfloat16*>(a.out) + std::size_t(blockIdx.x) * a.out_stride;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = (v * kThreads + tid) * 8;
    if (i >= a.out_stride) continue;
    std::uint32_t words[4] = {};
    if (i < a.n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float2 y = make_float2(x[v][2 * j] * factor, x[v][2 * j + 1] * factor);
        if (a.weight != nullptr) {
          const float2 w = *reinterpret_cast<const float2*>(a.weight + i + 2 * j);
          y.x *= w.x, y.y *= w.y;
        }
        const __nv_bfloat162 b = __floats2bfloat162_rn(y.x, y.y);
        words[j] = *reinterpret_cast<const std::uint32_t*>(&b);
      }
    }
    *reinterpret_cast<uint4*>(out + i) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

bool whole_vectors(const Rows& a) {
  return a.out_bf16 && a.n % 8 == 0 && a.x_stride % 8 == 0 && a.out_stride % 8 == 0 &&
         a.out_stride <= kMostVectors * kThreads * 8;
}

template <bool kFromBf16>
auto norm_vectors(const Rows& a) -> void (*)(Rows) {
  const int vectors = (a.out_stride + kThreads * 8 - 1) / (kThreads * 8);
  return vectors == 1   ? norm_vectors_kernel<kFromBf16, 1>
         : vectors == 2 ? norm_vectors_kernel<kFromBf16, 2>
                        : norm_vectors_kernel<kFromBf16, kMostVectors>;
}

__device__ __forceinline__ float get(const void* p, bool bf16, std::size_t i) {
  return bf16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i])
              : static_cast<const float*>(p)[i];
}

template <bool kBf16>
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(const void* gu, bool gu_bf16, int gu_stride, bool split, int n, void* h,
                  int h_stride) {
  chain_trigger();
  chain_wait();
  const std::size_t from = std::size_t(blockIdx.x) * gu_stride,
                    to = std::size_t(blockIdx.x) * h_stride;
  if (gu_bf16 && !split && n % 4 == 0 && gu_stride % 8 == 0 && h_stride % 4 == 0 && kBf16) {
    const auto* in = reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(gu) + from);
    auto* out = reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(h) + to);
    constexpr int kAhead = 3;  // loads of a thread in flight
    for (int i0 = int(threadIdx.x); i0 < h_stride / 4; i0 += kAhead * kThreads) {
      uint4 w[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int i = i0 + j * kThreads;
        if (4 * i < n) w[j] = load_stream(in + i);
      }
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int i = i0 + j * kThreads;
        if (i >= h_stride / 4) continue;
        uint2 r = make_uint2(0, 0);
        if (4 * i < n) {
          const __nv_bfloat162 a =
              __floats2bfloat162_rn(fast_swish(bf16_low(w[j].x)) * bf16_high(w[j].x),
                                    fast_swish(bf16_low(w[j].y)) * bf16_high(w[j].y));
          const __nv_bfloat162 b =
              __floats2bfloat162_rn(fast_swish(bf16_low(w[j].z)) * bf16_high(w[j].z),
                                    fast_swish(bf16_low(w[j].w)) * bf16_high(w[j].w));
          r.x = *reinterpret_cast<const unsigned*>(&a);
          r.y = *reinterpret_cast<const unsigned*>(&b);
        }
        out[i] = r;
      }
    }
    return;
  }
  for (int i = int(threadIdx.x); i < h_stride; i += kThreads) {
    float v = 0.0F;
    if (i < n) {
      const float g = get(gu, gu_bf16, from + (split ? i : 2 * i));
      const float u = get(gu, gu_bf16, from + (split ? n + i : 2 * i + 1));
      v = swish(g) * u;
    }
    put<kBf16>(h, to + i, v);
  }
}

}  // namespace

cudaError_t norm_rows(const Launch& l, const Rows& a, int count) {
  const dim3 grid(static_cast<unsigned>(count));
  if (a.x_bf16 != nullptr) {
    if (!whole_vectors(a)) return cudaErrorInvalidValue;
    return launch(l, norm_vectors<true>(a), grid, kThreads, 0, 1, a);
  }
  if (whole_vectors(a)) return launch(l, norm_vectors<false>(a), grid, kThreads, 0, 1, a);
  if (a.out_bf16) return launch(l, norm_rows_kernel<true>, grid, kThreads, 0, 1, a);
  return launch(l, norm_rows_kernel<false>, grid, kThreads, 0, 1, a);
}

cudaError_t swiglu_rows(const Launch& l, const SwigluRows& a, int count) {
  return launch(l, a.h_bf16 ? swiglu_kernel<true> : swiglu_kernel<false>,
                dim3(static_cast<unsigned>(count)), kThreads, 0, 1, a.gu, a.gu_bf16, a.gu_stride,
                a.split, a.n, a.h, a.h_stride);
}

}  // namespace runnel::cuda
