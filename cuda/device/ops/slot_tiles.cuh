// SPDX-License-Identifier: Apache-2.0
// What the chunkwise slot kernels share: tiles of bf16 values in shared memory and their fragments,
// rotations, rows of the input.
#pragma once

#include "cuda/device/math.cuh"
#include "cuda/device/ops/mma.cuh"
#include "cuda/prefill.h"

namespace runnel::cuda {

constexpr int kTile = kChunk;  // rows and columns of a tile
constexpr int kPad = 72;  // bf16 values of a row of 64: 144 bytes, no bank conflicts for ldmatrix
constexpr int kTileBytes = kTile * kPad * 2;
constexpr int kMostHeadDim = 4096;

struct ChunkArgs {
  SlotMixer m;
  const Segment* segment;
  ChunkOperands o;
  std::int32_t tokens, chunks;
  __device__ int positional() const { return m.sinks + m.window; }
  __device__ int slots() const { return m.sinks + m.window + m.memory; }
  /// Tiles of 64 slots that the memory of a kv head takes; the narrow kernels have one.
  __host__ __device__ int slot_blocks() const { return (m.memory + kTile - 1) / kTile; }
};

inline ChunkArgs chunk_args(const SlotMixer& m, const ChunkPass& pass, const ChunkOperands& o) {
  return {.m = m,
          .segment = pass.segment,
          .o = o,
          .tokens = pass.tokens,
          .chunks = (pass.tokens + kChunk - 1) / kChunk};
}

__device__ __forceinline__ const float* row_of(const ChunkArgs& a, int t) {
  return a.m.inputs + std::size_t(a.segment->first + t) * a.m.input_stride;
}

__device__ __forceinline__ std::uint16_t to_bf16(float v) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(v));
}

/// cos, sin of `position` turns for every pair, in shared memory.
__device__ inline void fill_rotation(const SlotMixer& m, std::uint64_t position, float2* table) {
  for (int i = int(threadIdx.x); i < m.k_dim / 2; i += int(blockDim.x)) {
    const double a = double(position) * m.turns[i];
    sincospif(2.0F * float(a - floor(a)), &table[i].y, &table[i].x);
  }
}

/// A value of the input as the slots take it.
__device__ __forceinline__ float mapped(const SlotMixer& m, Act act, float x) {
  return m.prepared ? x : activate(act, x);
}

/// Channel c of one head's query or key, mapped and rotated.
/// @param bias  of the head, still to be added, or null
__device__ __forceinline__ float rotated(const SlotMixer& m, const float* x, const float* bias,
                                         int c, const float2* table) {
  const int half = m.k_dim / 2, partner = c < half ? c + half : c - half;
  const float2 r = table[c < half ? c : partner];
  float own = x[c], other = x[partner];
  if (bias != nullptr) own += bias[c], other += bias[partner];
  own = mapped(m, m.qk_act, own), other = mapped(m, m.qk_act, other);
  return own * r.x + (c < half ? -other : other) * r.y;
}

/// kRows rows of kColumns bf16 values into a tile of kStride a row; rows and columns outside are zero.
template <int kThreads, int kRows, int kColumns, int kStride>
__device__ __forceinline__ void load_tile(std::uint16_t* tile, const std::uint16_t* from,
                                          std::size_t stride, int rows, int columns) {
#pragma unroll
  for (int i = int(threadIdx.x); i < kRows * (kColumns / 8); i += kThreads) {
    const int r = i / (kColumns / 8), c = i % (kColumns / 8) * 8;
    const bool valid = r < rows && c < columns;
    copy16(shared_address(tile + r * kStride + c),
           valid ? from + std::size_t(r) * stride + c : from, valid);
  }
}

/// Rows row0 … row0+15, columns k0 … k0+15 of a tile as the left operand.
template <int kStride>
__device__ __forceinline__ void left(std::uint32_t (&r)[4], const std::uint16_t* tile, int row0,
                                     int k0) {
  const int lane = int(threadIdx.x) & 31;
  load_tiles(r, shared_address(tile + (row0 + (lane & 15)) * kStride + k0 + (lane >> 4) * 8));
}
/// The left operand from a tile stored transposed, [k][row].
template <int kStride>
__device__ __forceinline__ void left_transposed(std::uint32_t (&r)[4], const std::uint16_t* tile,
                                                int row0, int k0) {
  const int lane = int(threadIdx.x) & 31;
  load_tiles_transposed(r, shared_address(tile + (k0 + (lane & 7) + (lane >> 4) * 8) * kStride +
                                          row0 + ((lane >> 3) & 1) * 8));
}
/// The right operand for columns n0 … n0+15 from a tile stored [n][k]: r[0], r[1] for the first
/// eight, r[2], r[3] after.
template <int kStride>
__device__ __forceinline__ void right(std::uint32_t (&r)[4], const std::uint16_t* tile, int n0,
                                      int k0) {
  const int lane = int(threadIdx.x) & 31;
  load_tiles(r, shared_address(tile + (n0 + ((lane >> 4) << 3) + (lane & 7)) * kStride + k0 +
                               ((lane >> 3) & 1) * 8));
}
/// The same from a tile stored [k][n].
template <int kStride>
__device__ __forceinline__ void right_transposed(std::uint32_t (&r)[4], const std::uint16_t* tile,
                                                 int n0, int k0) {
  const int lane = int(threadIdx.x) & 31;
  load_tiles_transposed(r,
                        shared_address(tile + (k0 + (lane & 15)) * kStride + n0 + (lane >> 4) * 8));
}

}  // namespace runnel::cuda
