// SPDX-License-Identifier: Apache-2.0
// What the broad chunkwise slot kernels share: values as sums of two bf16, the online softmax of 16 rows per warp, and how
// outputs are stored.
#pragma once

#include "cuda/device/ops/slot_read.cuh"

namespace runnel::cuda {

// broad_slot_whole.cu
cudaError_t prepare_broad_slot_whole();
bool has_broad_slot_whole();  // the current device, which has wgmma and the shared memory
cudaError_t broad_slot_whole(const Launch&, const SlotMixer&, const ChunkPass&,
                             const ChunkOperands&);

constexpr int kBefore = kBroadWindow / kTile;  // tiles of the window before the chunk
constexpr float kLog2E = 1.4426950408889634F;

enum class Turn { none, near, full };  // near: by min(position, sink_distance)

/// Outputs of two adjacent channels, from place `to` on.
__device__ __forceinline__ void put_output(const ChunkArgs& a, std::size_t to, float one,
                                           float two) {
  if (a.o.out_bf16 != nullptr) {
    *reinterpret_cast<std::uint32_t*>(a.o.out_bf16 + to) = pack_bf16(one, two);
  } else {
    *reinterpret_cast<float2*>(a.m.out + to) = make_float2(one, two);
  }
}

__device__ __forceinline__ float of_bf16(std::uint16_t v) {
  return __uint_as_float(std::uint32_t(v) << 16);
}

/// sum [16, 8 kBlocks] += A B^T for the 16-wide blocks n of B's rows for which `wanted(n)`, each of A and B the sum of
/// a `high` and a `low` tile of bf16; what is left out, low times low, is 2^-18 of a product.
template <int kBlocks, class Wanted>
__device__ __forceinline__ void multiply_split(
    float (&sum)[kBlocks][4], const std::uint16_t* a_high, const std::uint16_t* a_low,
    const std::uint16_t* b_high, const std::uint16_t* b_low, int row0, const Wanted& wanted) {
#pragma unroll
  for (int k = 0; k < kTile; k += 16) {
    std::uint32_t high[4], low[4], right_of[4];
    left<kPad>(high, a_high, row0, k);
    left<kPad>(low, a_low, row0, k);
#pragma unroll
    for (int n = 0; n < kBlocks / 2; ++n) {
      if (!wanted(n)) continue;
      right<kPad>(right_of, b_low, n * 16, k);
      mma_bf16(sum[2 * n], high, right_of[0], right_of[1]);
      mma_bf16(sum[2 * n + 1], high, right_of[2], right_of[3]);
      right<kPad>(right_of, b_high, n * 16, k);
      mma_bf16(sum[2 * n], low, right_of[0], right_of[1]);
      mma_bf16(sum[2 * n + 1], low, right_of[2], right_of[3]);
      mma_bf16(sum[2 * n], high, right_of[0], right_of[1]);
      mma_bf16(sum[2 * n + 1], high, right_of[2], right_of[3]);
    }
  }
}

/// 2^x in one instruction; below 2^-126 zero.
__device__ __forceinline__ float power_of_two(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/// One softmax over scores that come a tile at a time, and the values it weighs. Lane t has rows t/4 and t/4 + 8.
struct OnlineRows {
  float peak[2] = {-INFINITY, -INFINITY};  // of all scores so far
  // Sums of this lane's columns of 2^(score - peak), to be added up over four lanes.
  float total[2] = {};
  float out[8][4] = {};  // [16, V]

  /// Scores, in bits, -inf where there is none, to 2^(score - peak); what is there already is scaled to the new peak.
  /// The first tile must have a finite score in every row.
  template <int kBlocks>
  __device__ __forceinline__ void weigh(float (&s)[kBlocks][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = -INFINITY;
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      top = fmaxf(peak[half], row_max(top));
      const float keep = power_of_two(peak[half] - top);
      peak[half] = top;
      total[half] *= keep;
#pragma unroll
      for (int n = 0; n < 8; ++n) out[n][2 * half] *= keep, out[n][2 * half + 1] *= keep;
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e)
          total[half] += s[n][e] = power_of_two(s[n][e] - top);
      }
    }
  }
  /// out += weights [16, 16] values [16, V], rows k0 … k0+15 of a tile [key][V].
  __device__ __forceinline__ void read(const std::uint32_t (&weights)[4],
                                       const std::uint16_t* values, int k0) {
    std::uint32_t right_of[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      right_transposed<kPad>(right_of, values, n * 16, k0);
      mma_bf16(out[2 * n], weights, right_of[0], right_of[1]);
      mma_bf16(out[2 * n + 1], weights, right_of[2], right_of[3]);
    }
  }
};

}  // namespace runnel::cuda
