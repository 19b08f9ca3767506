// SPDX-License-Identifier: Apache-2.0
// The decode kernel's products where a shape is known and its rows divide evenly over the blocks.
//
// A warp has the same 256 columns of all its tiles, or 512 of down's, and holds the weights of
// several tiles in registers before its columns of the input are there. Then nothing is in the way
// of all their products, and their sums are traded among the lanes of a row together.
#pragma once

#include "cuda/device/step/products.cuh"
#include "cuda/step_grid_even.h"

namespace runnel::cuda {

__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ float2 plus(float2 a, float2 b) {
  return make_float2(a.x + b.x, a.y + b.y);
}

/// The matrices of a phase. A unit is a tile of four or eight rows; of a plain type a row, or two in narrow layers.
template <EvenShape kShape, BlockType kOf, int kPhaseKind>
struct EvenWalk {
  using S = Streamed<kOf>;
  static constexpr BlockType kType = kOf;
  static constexpr int kKind = kPhaseKind;
  static constexpr EvenPlan kPlan = even_plan(kShape, kType, kKind);
  static constexpr int kColumns = even_columns(kShape, kKind);              // of a step
  static constexpr int kLanes = S::kBlocks ? kColumns / 32 : kColumns / 8;  // that share a row
  static constexpr int kUnitRows = 32 / kLanes;
  static constexpr int kUnitTiles = S::kBlocks ? 1 : kUnitRows;  // of the ring
  static constexpr int kUnitSteps = even_steps(kShape, kKind);
  // Steps of a unit that are a warp's.
  static constexpr int kWarpSteps = even_warp_steps(kShape, kKind);
  static constexpr int kWays = even_ways(kShape, kKind);  // warps with other columns
  static constexpr bool kPadded = kWays * kWarpSteps != kUnitSteps;
  static constexpr int kApart = even_apart(kKind);
  static constexpr int kBatch = kPlan.batch, kPiece = kPlan.piece;
  static constexpr int kOfPiece = kPiece / (kApart * kUnitTiles), kPieces = kBatch / kOfPiece;
  static constexpr int kStepBytes = S::kBlocks ? S::kStepBytes : kLanes * 16;
  static constexpr int kData = kUnitSteps * kStepBytes, kScales = kUnitSteps * S::kScaleBytes,
                       kHigh = kUnitSteps * S::kHighBytes;  // of a tile
  static constexpr int kStride = even_stride(kShape, kKind);
  static_assert(kWays * kApart <= kDecodeWarps && kBatch <= 8 &&
                kUnitSteps * kColumns == even_width(kShape, kKind));
  static_assert(kPieces * kOfPiece == kBatch && kOfPiece * kApart * kUnitTiles == kPiece);

  /// There are columns for some warps only.
  static __device__ __forceinline__ bool works(int warp) {
    return kWays * kApart == kDecodeWarps || warp < kWays * kApart;
  }
  static __device__ __forceinline__ int way(int warp) { return kApart == 1 ? warp : warp >> 1; }
  static __device__ __forceinline__ int own(int warp) { return kApart == 1 ? 0 : warp & 1; }
  /// A step of a warp; one that does not exist is the last, whose input is zero.
  static __device__ __forceinline__ int step(int warp, int s) {
    const int step = way(warp) * kWarpSteps + s;
    return kPadded ? min(step, kUnitSteps - 1) : step;
  }
};

/// Where a block's part of a matrix passes through.
struct EvenRing {
  int pieces, bytes, barriers;  // in shared memory
  static __device__ __forceinline__ EvenRing of(const Decode& p) {
    return {p.shared.ring, p.ring_bytes, p.shared.barriers};
  }
};

/// A lane of a warp that walks the ring.
struct EvenLane {
  const Decode& p;
  Ring& ring;
  const EvenRing& in;
  int warp, lane;
};

/// The weights of a warp's next units.
template <class Walk>
struct EvenWeights {
  using S = typename Walk::S;
  typename S::Weights w[Walk::kBatch][Walk::kWarpSteps];

  /// From the `left` tiles, at least one, that the block has not walked yet. A tile that does not exist is another.
  __device__ __forceinline__ void take(const EvenLane& of, int left) {
    take_piece<0>(of, left, 0, 1);
  }

 private:
  // Not a loop: only then does the compiler keep the weights in registers.
  template <int kIndex>
  __device__ __forceinline__ void take_piece(const EvenLane& of, int left, int at, int count) {
    const auto& [p, ring, in, warp, lane] = of;
    std::uint64_t* const barriers = shared_at<std::uint64_t>(in.barriers);
    const int slot = ring.slot;
    const bool exists = kIndex == 0 || left > 0;
    if (exists) {
      count = min(Walk::kPiece, left);
      at = ring.place(piece_bytes(count, Walk::kData, Walk::kScales + Walk::kHigh), in.bytes);
      wait_barrier(p, barriers + slot, ring.parity);
      ring.advance();
    }
    const int own = Walk::own(warp), in_step = S::kBlocks ? lane : lane & (Walk::kLanes - 1);
    const unsigned char* const data = shared_at<const unsigned char>(in.pieces) + at +
                                      Walk::step(warp, 0) * Walk::kStepBytes + in_step * 16;
    const unsigned char* const scales = shared_at<const unsigned char>(in.pieces) + at +
                                        count * Walk::kData + Walk::step(warp, 0) * S::kScaleBytes +
                                        lane * (S::kScaleBytes / 32);
    const unsigned char* const high =
        shared_at<const unsigned char>(in.pieces) + at + count * (Walk::kData + Walk::kScales) +
        Walk::step(warp, 0) * S::kHighBytes + lane * (S::kHighBytes / 32);
#pragma unroll
    for (int j = 0; j < Walk::kOfPiece; ++j) {
      int tile = own + j * Walk::kApart;
      if constexpr (Walk::kUnitTiles > 1) tile = tile * Walk::kUnitTiles + lane / Walk::kLanes;
      tile = min(tile, count - 1);
#pragma unroll
      for (int s = 0; s < Walk::kWarpSteps; ++s) {
        const int later = Walk::kPadded ? Walk::step(warp, s) - Walk::step(warp, 0) : s;
        w[kIndex * Walk::kOfPiece + j][s] =
            load_weights<Walk::kType>({data + tile * Walk::kData + later * Walk::kStepBytes,
                                       scales + tile * Walk::kScales + later * S::kScaleBytes,
                                       high + tile * Walk::kHigh + later * S::kHighBytes});
      }
    }
    if (exists) {
      sync_warp();
      if (lane == 0) barrier_arrive(barriers + kDecodePieces + slot);
    }
    if constexpr (kIndex + 1 < Walk::kPieces)
      take_piece<kIndex + 1>(of, left - Walk::kPiece, at, count);
  }
};

/// What a warp without columns does of a matrix: others wait for it to say that it has done with the pieces.
template <class Walk>
__device__ __forceinline__ void pass_even(const Decode& p, Ring& ring, const EvenRing& in,
                                          int units, int lane) {
  std::uint64_t* const barriers = shared_at<std::uint64_t>(in.barriers);
#pragma unroll 1
  for (int left = units; left > 0; left -= Walk::kPiece) {
    ring.place(piece_bytes(min(Walk::kPiece, left), Walk::kData, Walk::kScales + Walk::kHigh),
               in.bytes);
    wait_barrier(p, barriers + ring.slot, ring.parity);
    if (lane == 0) barrier_arrive(barriers + kDecodePieces + ring.slot);
    ring.advance();
  }
}

/// Sums over lanes that differ in bits kBit to kLast; with kBit 1 lane i of 2 kLast has v[i]'s, if there is one.
template <int kLast, int kN, int kBit = 1>
__device__ __forceinline__ float add_apart(const float (&v)[kN], int lane) {
  const bool odd = (lane & kBit) != 0;
  float half[(kN + 1) / 2];
#pragma unroll
  for (int i = 0; i < kN; i += 2) {
    const int next = min(i + 1, kN - 1);
    half[i / 2] = (odd ? v[next] : v[i]) + __shfl_xor_sync(~0U, odd ? v[i] : v[next], kBit);
  }
  if constexpr (kBit < kLast) {
    return add_apart<kLast, (kN + 1) / 2, 2 * kBit>(half, lane);
  } else {
    return half[0];
  }
}

/// The products of the block's `units` tiles of a matrix, of which the first weights are there. `input`: of
/// the warp's steps; `to`: the sums of its columns.
template <class Walk>
__device__ __forceinline__ void multiply_even(
    const EvenLane& of, EvenWeights<Walk>& weights,
    const typename Walk::S::Input (&input)[Walk::kWarpSteps], int units, float* to) {
  const int warp = of.warp, lane = of.lane;
  using S = typename Walk::S;
  constexpr int kTiles = Walk::kBatch * Walk::kApart * Walk::kUnitTiles;
  // Lanes that have a batch's sums of one row, and sums of each.
  constexpr int kTrading = Walk::kLanes < 8 ? Walk::kLanes : 8,
                kSums = (Walk::kBatch + kTrading - 1) / kTrading;
  const int row = lane / Walk::kLanes, in_row = lane & (Walk::kLanes - 1);
  const int own = Walk::own(warp) + (in_row & (kTrading - 1)) * Walk::kApart;
  to += Walk::kUnitRows > 1 ? row : 0;
#pragma unroll 1
  for (int left = units;; left -= kTiles) {
    float sums[kSums][kSums > 1 ? kTrading : Walk::kBatch];
#pragma unroll
    for (int j = 0; j < kSums * kTrading && j < (kSums > 1 ? kSums * kTrading : Walk::kBatch);
         ++j) {
      float& sum = sums[j / kTrading][j % kTrading];
      sum = 0.0F;
      if (j >= Walk::kBatch) continue;
      if (j >= Walk::kPlan.sure && (Walk::own(warp) + j * Walk::kApart) * Walk::kUnitTiles >= left)
        continue;
#pragma unroll
      for (int s = 0; s < Walk::kWarpSteps; ++s) sum = S::dot(weights.w[j][s], input[s], sum);
    }
    if (left > kTiles) weights.take(of, left - kTiles);
#pragma unroll
    for (int r = 0; r < kSums; ++r) {
      float sum = add_apart<kTrading / 2>(sums[r], lane);
#pragma unroll
      for (int o = 8; o < Walk::kLanes; o <<= 1) sum += __shfl_xor_sync(~0U, sum, o);
      const int unit = own + r * kTrading * Walk::kApart;
      const int tile = Walk::kUnitTiles > 1 ? unit * Walk::kUnitTiles + row : unit;
      if (in_row < kTrading && r * kTrading + in_row < Walk::kBatch && tile < left)
        to[unit * Walk::kUnitRows] = sum;
    }
    to += Walk::kBatch * Walk::kApart * Walk::kUnitRows;
    if (left <= kTiles) break;
  }
}

/// The sum of a row's parts.
template <int kWays, class T>
__device__ __forceinline__ T sum_of_ways(const T* parts, int stride) {
  T part[kWays];
#pragma unroll
  for (int i = 0; i < kWays; ++i) part[i] = parts[i * stride];
#pragma unroll
  for (int apart = 1; apart < kWays; apart *= 2) {
#pragma unroll
    for (int i = 0; i + apart < kWays; i += 2 * apart) part[i] = plus(part[i], part[i + apart]);
  }
  return part[0];
}

}  // namespace runnel::cuda
