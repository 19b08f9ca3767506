// SPDX-License-Identifier: Apache-2.0
// Products of a width known at compile time: some rows a warp, its first weights in registers
// before the input is there.
#pragma once

#include "cuda/device/async.cuh"
#include "cuda/device/step/dot.cuh"
#include "cuda/device/step/exchange.cuh"
#include "cuda/step_cluster.h"

namespace runnel::cuda {

/// An input of kColumns values, rounded: where its parts lie, in bytes.
template <int kColumns>
struct RoundedPlace {
  static constexpr int kHigh = kColumns / 32 * 16, kMeta = 2 * kHigh;
};

constexpr int log2_known(int n) { return n <= 1 ? 0 : 1 + log2_known(n / 2); }
/// As pack.cpp shares a row of `blocks` blocks out among lanes.
constexpr int lanes_fixed(int blocks) {
  return blocks % 8 == 0 ? 8 : blocks % 4 == 0 ? 4 : blocks % 2 == 0 ? 2 : 1;
}

/// A step's weights as the products take them: made before the input is there.
template <BlockType kType>
struct Unpacked {  // q8_0
  typename Streamed<kType>::Weights w;
  float d;
  static __device__ __forceinline__ Unpacked of(const typename Streamed<kType>::Weights& w) {
    return {w, f16(w.d)};
  }
  __device__ __forceinline__ float dot(const RoundedInput& x, float acc) const {
    const uint4 u = w.u, v = w.v;
    const int a = dot16(make_int4(int(u.x), int(u.y), int(u.z), int(u.w)), x.low, 0);
    const int b = dot16(make_int4(int(v.x), int(v.y), int(v.z), int(v.w)), x.high, 0);
    return fmaf(d * x.scale, static_cast<float>(a + b), acc);
  }
};
template <>
struct Unpacked<BlockType::q4_0> {
  int low[4], high[4];  // the upper nibbles are times 16
  float d;
  static __device__ __forceinline__ Unpacked of(const Streamed<BlockType::q4_0>::Weights& w) {
    constexpr int kLower = 0x0F0F0F0F, kUpper = ~kLower;
    const int q[4] = {int(w.q.x), int(w.q.y), int(w.q.z), int(w.q.w)};
    Unpacked u;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Opaque: else they are made when they are needed.
      u.low[i] = opaque(q[i] & kLower), u.high[i] = opaque(q[i] & kUpper);
    }
    u.d = __int_as_float(opaque(__float_as_int(f16(w.d))));
    return u;
  }
  __device__ __forceinline__ float dot(const RoundedInput& x, float acc) const {
    const int a = dot16(make_int4(low[0], low[1], low[2], low[3]), x.low, 0);
    int b = dot4_unsigned(unsigned(high[0]), x.high.x, scaled_sums<-128>(x.sums));
    b = dot4_unsigned(unsigned(high[1]), x.high.y, b);
    b = dot4_unsigned(unsigned(high[2]), x.high.z, b);
    b = dot4_unsigned(unsigned(high[3]), x.high.w, b);
    return fmaf(d * x.scale, static_cast<float>(a + (b >> 4)), acc);
  }
};

/// kRows rows of a tile of a matrix of kColumns columns, for one lane of the warp that multiplies
/// them. Groups of lanes that have the same rows take turns with the steps. The weights of the
/// first kMostReady rounds are unpacked before the input is there.
template <BlockType kType, int kColumns, int kRows, int kMostReady>
struct FixedUnit {
  using S = Streamed<kType>;
  static constexpr int kLanes = lanes_fixed(kColumns / 32), kSteps = kColumns / 32 / kLanes;
  static constexpr int kLaneShift = log2_known(kLanes);
  static constexpr int kShare = kRows * kLanes, kGroups = 32 / kShare;
  static constexpr int kRounds = (kSteps + kGroups - 1) / kGroups;
  static constexpr bool kRagged = kSteps % kGroups != 0;  // some groups have a step less
  static constexpr int kReady = kRounds < kMostReady ? kRounds : kMostReady;
  static constexpr int kBatch = 3;  // rounds whose loads are under way together
  static constexpr int kLater = kRounds - kReady;
  static_assert(kLater == 0 || (!kRagged && kLater % kBatch == 0));
  using Place = RoundedPlace<kColumns>;

  const int lane;
  const unsigned char *data, *scales;
  int at, last;  // of the input's blocks: this lane's first, its last round's from there
  bool has_last;
  Unpacked<kType> ready[kReady];
  typename S::Weights later[kBatch];

  /// This lane's, in the unit.
  __device__ __forceinline__ int row() const { return (lane >> kLaneShift) & (kRows - 1); }
  /// One lane of those that share a row.
  __device__ __forceinline__ bool shows() const {
    return (lane & ~((kRows - 1) << kLaneShift)) == 0;
  }

  __device__ __forceinline__ typename S::Weights weights(int round) const {
    const bool ragged = kRagged && round == kRounds - 1;
    const int step = ragged && !has_last ? 0 : round * kGroups;
    auto v = S::load({data + step * S::kStepBytes, scales + step * S::kScaleBytes, nullptr});
    if (ragged && !has_last) v.d = 0;
    return v;
  }
  __device__ __forceinline__ void begin(const ClusterMatrix& m, int unit) {
    begin(shared_memory() + m.at[0], shared_memory() + m.at[1], unit);
  }
  __device__ __forceinline__ void begin(const unsigned char* matrix,
                                        const unsigned char* matrix_scales, int unit) {
    const int group = lane / kShare;
    const int first = unit / kGroups * kSteps + group,
              in_tile = unit % kGroups * kShare + lane % kShare;
    data = matrix + first * S::kStepBytes + in_tile * 16;
    scales = matrix_scales + first * S::kScaleBytes + in_tile * (S::kScaleBytes / 32);
    has_last = group < kSteps - (kRounds - 1) * kGroups;
    at = group * kLanes + (lane & (kLanes - 1));
    last = has_last ? (kRounds - 1) * kGroups * kLanes : 0;
    typename S::Weights first_ones[kReady];
#pragma unroll
    for (int i = 0; i < kReady; ++i) first_ones[i] = weights(i);
    if constexpr (kLater > 0) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) later[i] = weights(kReady + i);
    }
#pragma unroll
    for (int i = 0; i < kReady; ++i) ready[i] = Unpacked<kType>::of(first_ones[i]);
  }
  static __device__ __forceinline__ void load(RoundedInput& in, const unsigned char* q,
                                              const unsigned char* meta, int block) {
    in.low = *reinterpret_cast<const int4*>(q + block * 16);
    in.high = *reinterpret_cast<const int4*>(q + Place::kHigh + block * 16);
    const int2 about = *reinterpret_cast<const int2*>(meta + block * 8);
    in.scale = __int_as_float(about.x), in.sums = about.y;
  }
  /// The sum of this lane's row, in every lane that has a part of it.
  __device__ __forceinline__ float multiply(const unsigned char* x) {
    const unsigned char *q = x + at * 16, *meta = x + Place::kMeta + at * 8;
    float acc = 0.0F;
#pragma unroll
    for (int first = 0; first < kReady; first += kBatch) {
      RoundedInput in[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch && first + j < kReady; ++j) {
        const int i = first + j;
        load(in[j], q, meta, kRagged && i == kRounds - 1 ? last : i * kGroups * kLanes);
      }
#pragma unroll
      for (int j = 0; j < kBatch && first + j < kReady; ++j) acc = ready[first + j].dot(in[j], acc);
    }
    if constexpr (kLater > 0) {
      constexpr int kApart = kGroups * kLanes;  // blocks of the input from round to round
#pragma unroll
      for (int first = kReady; first < kRounds; first += kBatch) {
        RoundedInput in[kBatch];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) load(in[j], q, meta, (first + j) * kApart);
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          acc = S::dot(later[j], in[j], acc);
          if (first + kBatch < kRounds) later[j] = weights(first + kBatch + j);
        }
      }
    }
#pragma unroll
    for (int bit = 1; bit < 32; bit <<= 1) {
      if (((kRows - 1) << kLaneShift & bit) == 0) acc += __shfl_xor_sync(~0U, acc, bit);
    }
    return acc;
  }
};

}  // namespace runnel::cuda
