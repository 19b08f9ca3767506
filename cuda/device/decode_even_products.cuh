// SPDX-License-Identifier: Apache-2.0
// The decode kernel's products where a shape is known and its rows divide evenly over the blocks.
//
// A warp has the same 256 columns of all its tiles, or 512 of down's, and holds the weights of
// several tiles in registers before its columns of the input are there. Then nothing is in the way
// of all their products, and their sums are traded among the lanes of a row together.
#pragma once

#include "cuda/decode_even.h"
#include "cuda/device/decode_products.cuh"

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
  static constexpr int kPieces = (kBatch * kApart + kPiece - 1) / kPiece,
                       kOfPiece = kPiece / kApart;
  static constexpr int kStepHigh = kType == BlockType::q6_k ? 256 : 0;
  static constexpr int kData = kUnitSteps * S::kStepBytes, kScales = kUnitSteps * S::kScaleBytes,
                       kHigh = kUnitSteps * kStepHigh;
  static constexpr int kStride = even_stride(kShape, kKind);
  static_assert(kUnitSteps % kWarpSteps == 0 && kWays <= kDecodeWarps);
  static_assert(kKind == 3 || kApart == 2);
  // Pieces end where batches do, or there is one batch.
  static constexpr int kUnits = kKind == 2 ? 2 * kShape.inner / kUnitRows / kShape.blocks : 1 << 20;
  static_assert(kPieces * kPiece == kBatch * kApart || kUnits <= kBatch * kApart);
  static_assert(kOfPiece * kApart == kPiece);

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

  /// Of `left` units, at least one, that the block has not walked yet.
  __device__ __forceinline__ void take(const Decode& p, Ring& ring, const EvenRing& in, int left,
                                       int warp, int lane) {
    int2 last = make_int2(0, 1);
    take_pieces<0>(p, ring, in, left, warp, lane, last);
  }
  /// Those of piece kIndex of the batch, if `left` units of the block begin with it; else others,
  /// of the piece before. It is given back at once, since memory waits for room. `last`: where the
  /// piece begins, and its units.
  template <int kIndex>
  __device__ __forceinline__ void take_piece(const Decode& p, Ring& ring, const EvenRing& in,
                                             int left, int warp, int lane, int2& last) {
    std::uint64_t* const barriers = shared_at<std::uint64_t>(in.barriers);
    const int slot = ring.slot;
    const bool exists = left > 0;
    if (exists) {
      last.y = min(Walk::kPiece, left);
      last.x = ring.place(piece_bytes(last.y, Walk::kData, Walk::kScales + Walk::kHigh), in.bytes);
      wait_barrier(p, barriers + slot, ring.parity);
      ring.advance();
    }
    const int step = Walk::way(warp) * Walk::kWarpSteps, own = Walk::own(warp);
    const unsigned char* const piece = shared_at<const unsigned char>(in.pieces) + last.x;
    const unsigned char* const data = piece + step * S::kStepBytes + lane * 16;
    const unsigned char* const scales =
        piece + last.y * Walk::kData + step * S::kScaleBytes + lane * (S::kScaleBytes / 32);
    const unsigned char* const high =
        piece + last.y * (Walk::kData + Walk::kScales) + step * Walk::kStepHigh + lane * 8;
#pragma unroll
    for (int j = 0; j < Walk::kOfPiece && kIndex * Walk::kOfPiece + j < Walk::kBatch; ++j) {
      const int unit = min(own + j * Walk::kApart, last.y - 1);
#pragma unroll
      for (int s = 0; s < Walk::kWarpSteps; ++s)
        w[kIndex * Walk::kOfPiece + j][s] =
            load_weights<Walk::kType>({data + unit * Walk::kData + s * S::kStepBytes,
                                       scales + unit * Walk::kScales + s * S::kScaleBytes,
                                       high + unit * Walk::kHigh + s * Walk::kStepHigh});
    }
    if (exists) {
      sync_warp();
      if (lane == 0) barrier_arrive(barriers + kDecodePieces + slot);
    }
  }

 private:
  // Not a loop: only then does the compiler keep the weights in registers.
  template <int kIndex>
  __device__ __forceinline__ void take_pieces(const Decode& p, Ring& ring, const EvenRing& in,
                                              int left, int warp, int lane, int2& last) {
    take_piece<kIndex>(p, ring, in, left, warp, lane, last);
    if constexpr (kIndex + 1 < Walk::kPieces)
      take_pieces<kIndex + 1>(p, ring, in, left - Walk::kPiece, warp, lane, last);
  }
};

/// What a warp without columns does of a matrix: others wait for it to say that it has done with
/// the pieces.
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

/// A batch's sums over lanes, from the kFirst-th on, to their rows if they exist.
template <class Walk, int kFirst>
__device__ __forceinline__ void store_sums(const float (&sums)[Walk::kBatch], int left, float* to,
                                           int own, int lane) {
  constexpr int kN = Walk::kBatch - kFirst < 8 ? Walk::kBatch - kFirst : 8;
  float eight[kN];
#pragma unroll
  for (int i = 0; i < kN; ++i) eight[i] = sums[kFirst + i];
  float sum = add_eight_apart(eight, lane);
  if constexpr (!Walk::S::kBlocks) {
    sum += __shfl_xor_sync(~0U, sum, 8);
    sum += __shfl_xor_sync(~0U, sum, 16);
  }
  const int i = lane & 7, unit = own + (kFirst + i) * Walk::kApart;
  if (i < kN && unit < left && (Walk::S::kBlocks || lane < 8)) to[unit * Walk::kUnitRows] = sum;
  if constexpr (kFirst + kN < Walk::kBatch)
    store_sums<Walk, kFirst + kN>(sums, left, to, own, lane);
}

/// The products of a batch, from piece kIndex on; each piece's weights then make room for those of
/// the next batch. `left`: units of the block from this batch on.
template <class Walk, int kIndex>
__device__ __forceinline__ void multiply_pieces(
    const Decode& p, Ring& ring, const EvenRing& in, EvenWeights<Walk>& weights,
    const typename Walk::S::Input (&input)[Walk::kWarpSteps], int left, float (&sums)[Walk::kBatch],
    int warp, int lane, int2& last) {
#pragma unroll
  for (int i = 0; i < Walk::kOfPiece && kIndex * Walk::kOfPiece + i < Walk::kBatch; ++i) {
    const int j = kIndex * Walk::kOfPiece + i;
    sums[j] = 0.0F;
    if (j >= Walk::kPlan.sure && Walk::own(warp) + j * Walk::kApart >= left) continue;
#pragma unroll
    for (int s = 0; s < Walk::kWarpSteps; ++s)
      sums[j] = Walk::S::dot(weights.w[j][s], input[s], sums[j]);
  }
  const int more = left - Walk::kBatch * Walk::kApart - kIndex * Walk::kPiece;
  if (more > 0) weights.template take_piece<kIndex>(p, ring, in, more, warp, lane, last);
  if constexpr (kIndex + 1 < Walk::kPieces)
    multiply_pieces<Walk, kIndex + 1>(p, ring, in, weights, input, left, sums, warp, lane, last);
}

/// The products of the block's units of a matrix, of which the first weights are there. `input`: of
/// the warp's steps; `to`: the sums of its columns.
template <class Walk>
__device__ __forceinline__ void multiply_even(
    const Decode& p, Ring& ring, const EvenRing& in, EvenWeights<Walk>& weights,
    const typename Walk::S::Input (&input)[Walk::kWarpSteps], int units, float* to, int warp,
    int lane) {
  constexpr int kUnits = Walk::kBatch * Walk::kApart;
  const int own = Walk::own(warp);
  to += Walk::S::kBlocks ? lane >> 3 : 0;
#pragma unroll 1
  for (int left = units; left > 0; left -= kUnits) {
    float sums[Walk::kBatch];
    int2 last = make_int2(0, 1);
    multiply_pieces<Walk, 0>(p, ring, in, weights, input, left, sums, warp, lane, last);
    store_sums<Walk, 0>(sums, left, to, own, lane);
    to += kUnits * Walk::kUnitRows;
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
