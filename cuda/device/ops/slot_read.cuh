// SPDX-License-Identifier: Apache-2.0
// What the reading kernel of the chunkwise slots does with fragments: sums as operands, reductions
// over rows, gates one by one, outputs.
#pragma once

#include "cuda/device/ops/slot_tiles.cuh"

namespace runnel::cuda {

constexpr int kReadThreads = 256;
constexpr int kReadStages = 3;
constexpr int kExact = 65;                     // floats of a row of the exact path
constexpr int kTrade = kReadThreads * 32 * 4;  // bytes of 32 floats a thread

template <bool kPositional>
struct ReadShared {
  static constexpr int kStage = 3 * kTileBytes + (kPositional ? kMostSinks * kPad * 2 : 0);
  static constexpr int kBytes = kReadStages * kStage + kTileBytes;
  static_assert(2 * kTrade + kTile * kExact * 4 <= kReadStages * kStage);
};

/// Two blocks of eight columns of sums as a left operand, 16 wide.
__device__ __forceinline__ void as_left(std::uint32_t (&r)[4], const float (&low)[4],
                                        const float (&high)[4]) {
  r[0] = pack_bf16(low[0], low[1]);
  r[1] = pack_bf16(low[2], low[3]);
  r[2] = pack_bf16(high[0], high[1]);
  r[3] = pack_bf16(high[2], high[3]);
}

/// Over the four lanes that share rows.
__device__ __forceinline__ float row_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(~0U, v, 1));
  return fmaxf(v, __shfl_xor_sync(~0U, v, 2));
}
__device__ __forceinline__ float row_sum(float v) {
  v += __shfl_xor_sync(~0U, v, 1);
  return v + __shfl_xor_sync(~0U, v, 2);
}

/// The gates of a chunk whose powers would overflow, one at a time.
struct Exact {
  const float* g;     // [64, 64] running sums of log2 alpha
  const float* gate;  // log alpha of the chunk's first token and slot 0
  std::size_t stride;
  int rows, memory;
  __device__ float running(int t, int slot) const { return g[t * kTile + slot]; }
  __device__ float written(int t, int slot) const {
    return t < rows && slot < memory ? -expm1f(gate[std::size_t(t) * stride + slot]) : 0.0F;
  }
};

/// Columns [column0, column0 + 32) of one row of a warp's outputs, to `to` + column.
__device__ __forceinline__ void write_row(const ChunkArgs& a, const float (&acc)[4][4], int e,
                                          std::size_t to, int column0, int columns, bool inside) {
  const int lane = int(threadIdx.x) & 31, quad = (lane & 3) * 2;
  if (a.o.out_bf16 != nullptr) {
#pragma unroll
    for (int n = 0; n < 4; n += 2) {
      // Lanes trade halves so that each stores eight bytes.
      const std::uint32_t one = pack_bf16(acc[n][e], acc[n][e + 1]),
                          two = pack_bf16(acc[n + 1][e], acc[n + 1][e + 1]);
      const bool odd = (lane & 1) != 0;
      const std::uint32_t got = __shfl_xor_sync(~0U, odd ? one : two, 1);
      const int c = column0 + n * 8 + (odd ? 6 + quad : quad);
      if (inside && c < columns) {
        *reinterpret_cast<uint2*>(a.o.out_bf16 + to + c) =
            odd ? make_uint2(got, two) : make_uint2(one, got);
      }
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const int c = column0 + n * 8 + quad;
    if (inside && c < columns)
      *reinterpret_cast<float2*>(a.m.out + to + c) = make_float2(acc[n][e], acc[n][e + 1]);
  }
}

}  // namespace runnel::cuda
