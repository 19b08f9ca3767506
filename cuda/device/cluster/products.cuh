// SPDX-License-Identifier: Apache-2.0
// The cluster kernel's products: units of rows out of shared memory. What does not depend on the
// input is made before it is there.
#pragma once

#include "cuda/device/cluster/exchange.cuh"
#include "cuda/device/step/dot.cuh"

namespace runnel::cuda {

/// A warp's units of a matrix of block type, for one lane.
template <BlockType kType>
struct ClusterUnits {
  using S = Streamed<kType>;
  static constexpr int kBatch = 3;  // steps under way together

  ClusterShare s;
  int unit, row;            // this lane's row of it, in the block's share
  int group, groups_shift;  // of the lanes that share the row
  int in_row, sums;         // within the group; lanes that differ in the bits of `sums` share a row
  int next;                 // step of the tile whose weights come next
  typename S::Weights w[kBatch];  // the first steps

  __device__ __forceinline__ bool valid() const { return unit < s.units; }
  /// One lane of those that share a row.
  __device__ __forceinline__ bool shows() const { return (thread_index() & 31 & sums) == 0; }
  /// This lane's step after `step`; behind the tile's end the last one, to no use.
  __device__ __forceinline__ int after(int step) const {
    return min(step + (1 << groups_shift), s.steps - 1);
  }

  /// The next kBatch steps' weights.
  __device__ __forceinline__ void load(typename S::Weights (&to)[kBatch]) {
    const int tile = unit >> groups_shift, sub = unit & ((1 << groups_shift) - 1);
    const int unit_shift = s.lane_shift + s.sub_shift, lane = thread_index() & 31;
    const int in_tile = (sub << unit_shift) + (lane & ((1 << unit_shift) - 1));
    const int first = tile * s.steps;
    const unsigned char* const shared = shared_memory();
    const unsigned char* const data = shared + s.at[0] + first * S::kStepBytes + in_tile * 16;
    const unsigned char* const scales =
        shared + s.at[1] + first * S::kScaleBytes + in_tile * (S::kScaleBytes / 32);
    const unsigned char* const high = shared + s.at[2] + first * 256 + in_tile * 8;
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      to[j] =
          S::load({data + next * S::kStepBytes, scales + next * S::kScaleBytes, high + next * 256});
      next = after(next);
    }
  }
  __device__ __forceinline__ void take(int which) {
    unit = which;
    const int lane = thread_index() & 31;
    row = (unit << s.sub_shift) + ((lane >> s.lane_shift) & ((1 << s.sub_shift) - 1));
    next = min(group, s.steps - 1);
    if (valid()) load(w);
  }
  /// The warp's first unit; the first `warps` warps take some.
  __device__ __forceinline__ void begin(const ClusterShare& share, int warps) {
    s = share;
    const int lane = thread_index() & 31, unit_shift = s.lane_shift + s.sub_shift;
    groups_shift = 5 - unit_shift, group = lane >> unit_shift;
    in_row = lane & ((1 << s.lane_shift) - 1);
    sums = 31 & ~(((1 << s.sub_shift) - 1) << s.lane_shift);
    const int warp = thread_index() >> 5;
    take(warp < warps ? warp : s.units);
  }

  /// The sum of this lane's row, in every lane that has a part of it.
  __device__ __forceinline__ float multiply(const SharedInput& x) {
    const SharedInput own{x.q_low + in_row, x.q_high + in_row, x.meta + in_row};
    float acc = 0.0F;
    int step = min(group, s.steps - 1), left = s.steps - group;  // of this lane, times the groups
#pragma unroll 1
    for (int rounds = s.rounds;;) {
      typename S::Input in[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        in[j].load(own, step << s.lane_shift);
        step = after(step);
      }
      rounds -= kBatch;
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const float sum = S::dot(w[j], in[j], acc);
        acc = left > 0 ? sum : acc;
        left -= 1 << groups_shift;
      }
      if (rounds <= 0) break;
      load(w);
    }
#pragma unroll 1
    for (int bits = sums; bits != 0; bits &= bits - 1)
      acc += __shfl_xor_sync(~0U, acc, bits & -bits);
    return acc;
  }
};

/// The sum of row `row` of a block's share of a matrix of plain type: half a warp a row.
template <BlockType kType>
__device__ __forceinline__ float plain_row(const ClusterShare& s, int row_bytes,
                                           const SharedInput& x, int row) {
  using S = Streamed<kType>;
  const int chunks = row_bytes / 16;
  const auto* from = reinterpret_cast<const uint4*>(shared_memory() + s.at[0] + row * row_bytes);
  float acc = 0.0F;
#pragma unroll 5
  for (int chunk = thread_index() & 15; chunk < chunks + 15; chunk += 16) {
    const PlainWeights w{from[min(chunk, chunks - 1)]};
    acc = S::dot(w, S::input(x, chunk, chunk < chunks), acc);
  }
#pragma unroll
  for (int o = 1; o < 16; o <<= 1) acc += __shfl_xor_sync(~0U, acc, o);
  return acc;
}

}  // namespace runnel::cuda
