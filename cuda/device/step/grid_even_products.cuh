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

/// The matrices of a phase. A unit is a tile of four rows, or a row of a plain type.
template <EvenShape kShape, BlockType kOf, int kPhaseKind>
struct EvenWalk {
  using S = Streamed<kOf>;
  static constexpr BlockType kType = kOf;
  static constexpr int kKind = kPhaseKind;
  static constexpr EvenPlan kPlan = even_plan(kType, kKind);
  static constexpr int kUnitRows = S::kBlocks ? 4 : 1;
  static constexpr int kUnitSteps = (kKind == 3 ? kShape.inner : kShape.wide) / 256;
  static constexpr int kWarpSteps = kKind == 3 ? 2 : 1;  // steps of a unit that are a warp's
  static constexpr int kWays = kUnitSteps / kWarpSteps;  // warps with other columns
  static constexpr int kApart = kKind == 3 ? 1 : kDecodeWarps / kWays;
  static constexpr int kBatch = kPlan.batch, kPiece = kPlan.piece;
  static constexpr int kPieces = kBatch * kApart / kPiece, kOfPiece = kPiece / kApart;
  static constexpr int kData = kUnitSteps * S::kStepBytes, kScales = kUnitSteps * S::kScaleBytes;
  static constexpr int kStride = even_stride(kShape, kKind);
  static_assert(kUnitSteps % kWarpSteps == 0 && kWays <= kDecodeWarps && kBatch <= 8);
  static_assert(kKind == 3 || kApart == 2);
  static_assert(kPieces * kPiece == kBatch * kApart && kOfPiece * kApart == kPiece);

  /// Of down there are columns for some warps only.
  static __device__ __forceinline__ bool works(int warp) {
    return kWays * kApart == kDecodeWarps || warp < kWays * kApart;
  }
  static __device__ __forceinline__ int way(int warp) { return kKind == 3 ? warp : warp >> 1; }
  static __device__ __forceinline__ int own(int warp) { return kKind == 3 ? 0 : warp & 1; }
};

/// Where a block's part of a matrix passes through.
struct EvenRing {
  int pieces, bytes, barriers;  // in shared memory
  static __device__ __forceinline__ EvenRing of(const Decode& p) {
    return {p.shared.ring, p.ring_bytes, p.shared.barriers};
  }
};

/// The weights of a warp's next units.
template <class Walk>
struct EvenWeights {
  using S = typename Walk::S;
  typename S::Weights w[Walk::kBatch][Walk::kWarpSteps];

  /// Of `left` units, at least one, that the block has not walked yet. A unit that does not exist is another.
  __device__ __forceinline__ void take(const Decode& p, Ring& ring, const EvenRing& in, int left,
                                       int warp, int lane) {
    take_piece<0>(p, ring, in, left, warp, lane, 0, 1);
  }

 private:
  // Not a loop: only then does the compiler keep the weights in registers.
  template <int kIndex>
  __device__ __forceinline__ void take_piece(const Decode& p, Ring& ring, const EvenRing& in,
                                             int left, int warp, int lane, int at, int count) {
    std::uint64_t* const barriers = shared_at<std::uint64_t>(in.barriers);
    const int slot = ring.slot;
    const bool exists = kIndex == 0 || left > 0;
    if (exists) {
      count = min(Walk::kPiece, left);
      at = ring.place(piece_bytes(count, Walk::kData, Walk::kScales), in.bytes);
      wait_barrier(p, barriers + slot, ring.parity);
      ring.advance();
    }
    const int step = Walk::way(warp) * Walk::kWarpSteps, own = Walk::own(warp);
    const unsigned char* const data =
        shared_at<const unsigned char>(in.pieces) + at + step * S::kStepBytes + lane * 16;
    const unsigned char* const scales = shared_at<const unsigned char>(in.pieces) + at +
                                        count * Walk::kData + step * S::kScaleBytes +
                                        lane * (S::kScaleBytes / 32);
#pragma unroll
    for (int j = 0; j < Walk::kOfPiece; ++j) {
      const int unit = min(own + j * Walk::kApart, count - 1);
#pragma unroll
      for (int s = 0; s < Walk::kWarpSteps; ++s)
        w[kIndex * Walk::kOfPiece + j][s] = load_weights<Walk::kType>(
            {data + unit * Walk::kData + s * S::kStepBytes,
             scales + unit * Walk::kScales + s * S::kScaleBytes, nullptr});
    }
    if (exists) {
      sync_warp();
      if (lane == 0) barrier_arrive(barriers + kDecodePieces + slot);
    }
    if constexpr (kIndex + 1 < Walk::kPieces)
      take_piece<kIndex + 1>(p, ring, in, left - Walk::kPiece, warp, lane, at, count);
  }
};

/// What a warp without columns does of a matrix: others wait for it to say that it has done with the pieces.
template <class Walk>
__device__ __forceinline__ void pass_even(const Decode& p, Ring& ring, const EvenRing& in,
                                          int units, int lane) {
  std::uint64_t* const barriers = shared_at<std::uint64_t>(in.barriers);
#pragma unroll 1
  for (int left = units; left > 0; left -= Walk::kPiece) {
    ring.place(piece_bytes(min(Walk::kPiece, left), Walk::kData, Walk::kScales), in.bytes);
    wait_barrier(p, barriers + ring.slot, ring.parity);
    if (lane == 0) barrier_arrive(barriers + kDecodePieces + ring.slot);
    ring.advance();
  }
}

/// Sums over lanes that differ in bits kBit to 4; lane i of eight has v[i]'s, if there is one.
template <int kN, int kBit = 1>
__device__ __forceinline__ float add_eight_apart(const float (&v)[kN], int lane) {
  const bool odd = (lane & kBit) != 0;
  float half[(kN + 1) / 2];
#pragma unroll
  for (int i = 0; i < kN; i += 2) {
    const int next = min(i + 1, kN - 1);
    half[i / 2] = (odd ? v[next] : v[i]) + __shfl_xor_sync(~0U, odd ? v[i] : v[next], kBit);
  }
  if constexpr (kBit < 4) {
    return add_eight_apart<(kN + 1) / 2, 2 * kBit>(half, lane);
  } else {
    return half[0];
  }
}

/// The products of the block's units of a matrix, of which the first weights are there. `input`: of
/// the warp's steps; `to`: the sums of its columns.
template <class Walk>
__device__ __forceinline__ void multiply_even(
    const Decode& p, Ring& ring, const EvenRing& in, EvenWeights<Walk>& weights,
    const typename Walk::S::Input (&input)[Walk::kWarpSteps], int units, float* to, int warp,
    int lane) {
  using S = typename Walk::S;
  constexpr int kUnits = Walk::kBatch * Walk::kApart;
  const int own = Walk::own(warp) + (lane & 7) * Walk::kApart;
  to += S::kBlocks ? lane >> 3 : 0;
#pragma unroll 1
  for (int left = units;; left -= kUnits) {
    float sums[Walk::kBatch];
#pragma unroll
    for (int j = 0; j < Walk::kBatch; ++j) {
      sums[j] = 0.0F;
      if (j >= Walk::kPlan.sure && Walk::own(warp) + j * Walk::kApart >= left) continue;
#pragma unroll
      for (int s = 0; s < Walk::kWarpSteps; ++s)
        sums[j] = S::dot(weights.w[j][s], input[s], sums[j]);
    }
    if (left > kUnits) weights.take(p, ring, in, left - kUnits, warp, lane);
    float sum = add_eight_apart(sums, lane);
    if constexpr (!S::kBlocks) {
      sum += __shfl_xor_sync(~0U, sum, 8);
      sum += __shfl_xor_sync(~0U, sum, 16);
    }
    if ((lane & 7) < Walk::kBatch && own < left && (S::kBlocks || lane < 8))
      to[own * Walk::kUnitRows] = sum;
    to += kUnits * Walk::kUnitRows;
    if (left <= kUnits) break;
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
