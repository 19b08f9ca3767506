// SPDX-License-Identifier: Apache-2.0
// The cluster kernel's products: units of rows out of shared memory. What does not depend on the
// input is made before it is there.
#pragma once

#include "cuda/device/cluster_exchange.cuh"
#include "cuda/device/decode_dot.cuh"

namespace runnel::cuda {

/// A warp's units of a matrix of block type, for one lane.
template <BlockType kType>
struct ClusterUnits {
  using S = Streamed<kType>;
  static constexpr int kBatch = 3;  // steps under way together

  ClusterShare s;
  int unit, row;                  // this lane's row of it, in the block's share
  int group, groups_shift;        // of the lanes that share the row; in_row: within the group
  int in_row, sums;               // lanes whose numbers differ in the bits of `sums` share a row
  typename S::Weights w[kBatch];  // the first steps

  /// Step `round` of this lane; behind the tile's end the last one, to no use.
  __device__ __forceinline__ int step(int round) const {
    return min(group + (round << groups_shift), s.steps - 1);
  }
  /// Weights of kBatch rounds.
  __device__ __forceinline__ void load(int round) {
    const int tile = unit >> groups_shift, sub = unit & ((1 << groups_shift) - 1);
    const int unit_shift = s.lane_shift + s.sub_shift, lane = thread_index() & 31;
    const int in_tile = (sub << unit_shift) + (lane & ((1 << unit_shift) - 1));
    const unsigned char* const shared = shared_memory();
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int at = tile * s.steps + step(round + j);
      w[j] = S::load({shared + s.at[0] + at * S::kStepBytes + in_tile * 16,
                      shared + s.at[1] + at * S::kScaleBytes + in_tile * (S::kScaleBytes / 32),
                      shared + s.at[2] + at * 256 + in_tile * 8});
    }
  }
  __device__ __forceinline__ void take(int next) {
    unit = next;
    const int lane = thread_index() & 31;
    row = (unit << s.sub_shift) + ((lane >> s.lane_shift) & ((1 << s.sub_shift) - 1));
    if (valid()) load(0);
  }
  /// The warp's first unit.
  __device__ __forceinline__ void begin(const ClusterShare& share) {
    s = share;
    const int lane = thread_index() & 31, unit_shift = s.lane_shift + s.sub_shift;
    groups_shift = 5 - unit_shift, group = lane >> unit_shift;
    in_row = lane & ((1 << s.lane_shift) - 1);
    sums = 31 & ~(((1 << s.sub_shift) - 1) << s.lane_shift);
    take(thread_index() >> 5);
  }
  __device__ __forceinline__ bool valid() const { return unit < s.units; }
  /// One lane of those that share a row.
  __device__ __forceinline__ bool shows() const { return (thread_index() & 31 & sums) == 0; }

  /// The sum of this lane's row, in every lane that has a part of it.
  __device__ __forceinline__ float multiply(const SharedInput& x) {
    float acc = 0.0F;
#pragma unroll 1
    for (int round = 0;;) {
      typename S::Input in[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) in[j].load(x, (step(round + j) << s.lane_shift) + in_row);
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const float sum = S::dot(w[j], in[j], acc);
        acc = group + ((round + j) << groups_shift) < s.steps ? sum : acc;
      }
      round += kBatch;
      if (round >= s.rounds) break;
      load(round);
    }
#pragma unroll
    for (int o = 1; o < 32; o <<= 1) {
      const float other = __shfl_xor_sync(~0U, acc, o);
      acc += (sums & o) != 0 ? other : 0.0F;
    }
    return acc;
  }
};

/// The sum of row `row` of a block's share of a matrix of plain type, a row a warp.
template <BlockType kType>
__device__ __forceinline__ float plain_row(const ClusterShare& s, int row_bytes, int tail,
                                           const SharedInput& x, int row) {
  using S = Streamed<kType>;
  const int lane = thread_index() & 31;
  const auto* from = reinterpret_cast<const uint4*>(shared_memory() + s.at[0] + row * row_bytes);
  float acc = 0.0F;
#pragma unroll 3
  for (int it = 0; it < s.steps; ++it) {
    const int some = it == s.steps - 1 ? tail : 32;
    const PlainWeights w{from[it * 32 + min(lane, some - 1)]};
    acc = S::dot(w, S::input(x, it * 32 + lane, lane < some), acc);
  }
  return warp_sum(acc);
}

}  // namespace runnel::cuda
