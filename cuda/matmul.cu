// SPDX-License-Identifier: Apache-2.0
// C = A B^T for many tokens: bf16 operands on tensor cores (mma.sync, so that every GPU since sm_80
// runs it), f32 sums; and a plain f32 version for f32 weights, where bf16 would cost three digits.
//
// bf16: a block computes a kM x kN tile of C in steps of 32, four steps in flight through shared
// memory (cp.async); 64-byte rows are swizzled by their 16-byte columns, so that ldmatrix reads
// without bank conflicts. Bound: 2 T rows K operations.
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/mma.cuh"

namespace runnel::cuda {
namespace {

constexpr int kStep = 32;   // inner values of one step
constexpr int kStages = 4;  // steps in flight

template <int kM, int kN, int kWarpM, int kWarpN>
struct Tile {
  static constexpr int kWarps = (kM / kWarpM) * (kN / kWarpN);
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kStageBytes = (kM + kN) * kStep * 2;
  static constexpr int kSharedBytes = kStages * kStageBytes;
};

/// Byte offset of the 16-byte column c (0-3) of a row in a swizzled tile.
__device__ __forceinline__ int swizzled(int row, int c) {
  return row * 64 + ((c ^ ((row >> 1) & 3)) << 4);
}

template <int kM, int kN, int kWarpM, int kWarpN>
__global__ void __launch_bounds__(Tile<kM, kN, kWarpM, kWarpN>::kThreads)
    matmul_kernel(const __grid_constant__ Matmul p) {
  using T = Tile<kM, kN, kWarpM, kWarpN>;
  extern __shared__ __align__(128) unsigned char shared[];
  chain_trigger();
  const int tid = int(threadIdx.x), lane = tid & 31, warp = tid >> 5;
  const int token0 = int(blockIdx.x) * kM, row0 = int(blockIdx.y) * kN;
  const int warp_m = warp % (kM / kWarpM) * kWarpM, warp_n = warp / (kM / kWarpM) * kWarpN;
  const auto* a = static_cast<const __nv_bfloat16*>(p.a);
  const auto* b = static_cast<const __nv_bfloat16*>(p.b);
  const std::uint32_t base = shared_address(shared);
  const int steps = (p.inner + kStep - 1) / kStep;
  chain_wait();

  const auto fetch = [&](int step) {
    const std::uint32_t stage = base + unsigned(step % kStages) * T::kStageBytes;
#pragma unroll
    for (int i = tid; i < (kM + kN) * 4; i += T::kThreads) {
      const int r = i >> 2, c = i & 3, k = step * kStep + c * 8;
      const bool in_a = r < kM;
      const int row = in_a ? token0 + r : row0 + r - kM;
      const bool valid = k < p.inner && row < (in_a ? p.tokens : p.rows);
      const __nv_bfloat16* from = in_a ? a : b;
      if (valid) from += std::size_t(row) * (in_a ? p.lda : p.ldb) + k;
      copy16(stage + unsigned(swizzled(r, c)), from, valid);
    }
  };
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < steps) fetch(s);
    copy_commit();
  }

  float acc[kWarpM / 16][kWarpN / 8][4] = {};
  for (int s = 0; s < steps; ++s) {
    copy_wait<kStages - 2>();
    __syncthreads();
    if (s + kStages - 1 < steps) fetch(s + kStages - 1);
    copy_commit();
    const std::uint32_t stage_a = base + unsigned(s % kStages) * T::kStageBytes;
    const std::uint32_t stage_b = stage_a + kM * kStep * 2;
#pragma unroll
    for (int kk = 0; kk < kStep / 16; ++kk) {
      std::uint32_t fa[kWarpM / 16][4], fb[kWarpN / 16][4];
#pragma unroll
      for (int i = 0; i < kWarpM / 16; ++i) {
        load_tiles(fa[i], stage_a + unsigned(swizzled(warp_m + i * 16 + (lane & 15),
                                                      kk * 2 + (lane >> 4))));
      }
#pragma unroll
      for (int j = 0; j < kWarpN / 16; ++j) {
        const int r = warp_n + j * 16 + ((lane >> 4) << 3) + (lane & 7);
        load_tiles(fb[j], stage_b + unsigned(swizzled(r, kk * 2 + ((lane >> 3) & 1))));
      }
#pragma unroll
      for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < kWarpN / 8; ++j)
          mma_bf16(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
    for (int j = 0; j < kWarpN / 8; ++j) {
      const int row = row0 + warp_n + j * 8 + (lane & 3) * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int token = token0 + warp_m + i * 16 + half * 8 + (lane >> 2);
        if (token >= p.tokens) continue;
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          if (row + c >= p.rows) continue;
          const std::size_t at = std::size_t(token) * p.ldc + row + c;
          const float v = acc[i][j][half * 2 + c];
          if (p.c_bf16) {
            static_cast<__nv_bfloat16*>(p.c)[at] = __float2bfloat16_rn(v);
          } else {
            float* out = static_cast<float*>(p.c) + at;
            *out = p.add ? *out + v : v;
          }
        }
      }
    }
  }
}

/// 64 x 64 of C per block, 4 x 4 per thread, steps of 16.
__global__ void __launch_bounds__(256) matmul_f32_kernel(const __grid_constant__ Matmul p) {
  __shared__ float sa[16][65], sb[16][65];
  chain_trigger();
  chain_wait();
  const auto* a = static_cast<const float*>(p.a);
  const auto* b = static_cast<const float*>(p.b);
  const int tid = int(threadIdx.x), token0 = int(blockIdx.x) * 64, row0 = int(blockIdx.y) * 64;
  const int tx = tid % 16, ty = tid / 16;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < p.inner; k0 += 16) {
    for (int i = tid; i < 64 * 16; i += 256) {
      const int r = i / 16, k = i % 16;
      sa[k][r] = token0 + r < p.tokens && k0 + k < p.inner
                     ? a[std::size_t(token0 + r) * p.lda + k0 + k]
                     : 0.0F;
      sb[k][r] =
          row0 + r < p.rows && k0 + k < p.inner ? b[std::size_t(row0 + r) * p.ldb + k0 + k] : 0.0F;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          acc[i][j] = fmaf(sa[k][ty + 16 * i], sb[k][tx + 16 * j], acc[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int token = token0 + ty + 16 * i, row = row0 + tx + 16 * j;
      if (token >= p.tokens || row >= p.rows) continue;
      float* out = static_cast<float*>(p.c) + std::size_t(token) * p.ldc + row;
      *out = p.add ? *out + acc[i][j] : acc[i][j];
    }
  }
}

template <int kM, int kN, int kWarpM, int kWarpN>
cudaError_t start(const Launch& l, const Matmul& p) {
  using T = Tile<kM, kN, kWarpM, kWarpN>;
  const dim3 grid(unsigned((p.tokens + kM - 1) / kM), unsigned((p.rows + kN - 1) / kN));
  return launch(l, matmul_kernel<kM, kN, kWarpM, kWarpN>, grid, T::kThreads, T::kSharedBytes, 1, p);
}

}  // namespace

cudaError_t prepare_matmul() {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&matmul_kernel<128, 128, 64, 32>),
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Tile<128, 128, 64, 32>::kSharedBytes);
}

cudaError_t matmul_bf16(const Launch& l, const Matmul& p) {
  const long big = long((p.tokens + 127) / 128) * ((p.rows + 127) / 128);
  if (big >= l.multiprocessors) return start<128, 128, 64, 32>(l, p);
  return start<64, 64, 32, 32>(l, p);
}

cudaError_t matmul_f32(const Launch& l, const Matmul& p) {
  const dim3 grid(unsigned((p.tokens + 63) / 64), unsigned((p.rows + 63) / 64));
  return launch(l, matmul_f32_kernel, grid, 256, 0, 1, p);
}

}  // namespace runnel::cuda
