// SPDX-License-Identifier: Apache-2.0
// What the parts of the kernel of cuda/step_shift.h share: its parameters in shared memory, values exchanged between blocks.
#pragma once

#include "cuda/device/step/exchange.cuh"
#include "cuda/step_shift.h"

namespace runnel::cuda {

__device__ __forceinline__ const ShiftStep& shift_program() {
  return *reinterpret_cast<const ShiftStep*>(shared_memory());
}
/// To some 1e-6.
__device__ __forceinline__ float logistic(float x) { return reciprocal(1.0F + __expf(-x)); }

/// A wait for exchanged values of one use.
struct ShiftWait {
  unsigned bit;

  static __device__ __forceinline__ ShiftWait of(unsigned use) { return {((use >> 1) & 1U) ^ 1U}; }
  __device__ __forceinline__ bool missing(float v) const {
    return ((__float_as_uint(v) ^ bit) & 1U) != 0;
  }
  __device__ __forceinline__ bool missing(float4 v) const {
    const unsigned all = (__float_as_uint(v.x) ^ bit) | (__float_as_uint(v.y) ^ bit) |
                         (__float_as_uint(v.z) ^ bit) | (__float_as_uint(v.w) ^ bit);
    return (all & 1U) != 0;
  }
  /// v[i] from from[i], where from[i] is not null.
  template <int kN>
  __device__ __forceinline__ void take(const float* const (&from)[kN], float4 (&v)[kN],
                                       int where) const {
    const ShiftStep& p = shift_program();
    unsigned polls = 0;
#pragma unroll 1
    for (;;) {
      bool some = false;
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        if (from[i] != nullptr) v[i] = load_exchanged(from[i]);
      }
#pragma unroll
      for (int i = 0; i < kN; ++i) some = some || (from[i] != nullptr && missing(v[i]));
      if (!some || give_up(p, polls, where)) break;
    }
    sync_warp();
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = unmarked(v[i]);
  }
  template <int kN>
  __device__ __forceinline__ void take(const float* const (&from)[kN], float (&v)[kN],
                                       int where) const {
    const ShiftStep& p = shift_program();
    unsigned polls = 0;
#pragma unroll 1
    for (;;) {
      bool some = false;
#pragma unroll
      for (int i = 0; i < kN; ++i) v[i] = load_exchanged_word(from[i]);
#pragma unroll
      for (int i = 0; i < kN; ++i) some = some || missing(v[i]);
      if (!some || give_up(p, polls, where)) break;
    }
    sync_warp();
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = unmarked(v[i]);
  }
  __device__ __forceinline__ void show(float* to, float v) const {
    store_exchanged(to, marked(v, bit));
  }
};

/// The set of exchanged values of a use.
__device__ __forceinline__ float* exchange_set(const ShiftStep& p, unsigned use) {
  return p.exchange + std::size_t(use & 1U) * unsigned(p.at.total);
}
/// The same of what the mix of values exchanges, which the first layer does not: a place is written in every use.
__device__ __forceinline__ unsigned mix_use(const ShiftStep& p, int layer) {
  return p.mix_use + unsigned(layer) - 1U;
}
__device__ __forceinline__ const ShiftLayer& shift_layer(const ShiftStep& p, int layer) {
  return shared_at<const ShiftLayer>(p.shared.layers)[layer];
}
/// The table of phase `phase` of the token: layers * kShiftPhases is the head's.
__device__ __forceinline__ const ShiftTable& table_of(const ShiftStep& p, int phase) {
  return shift_layer(p, phase / kShiftPhases).tables[phase % kShiftPhases];
}
__device__ __forceinline__ ShiftItem load_item(const ShiftTable& t, int round, int warp) {
  const ShiftStep& p = shift_program();
  const ShiftItem* const items = p.shared.items != 0 ? shared_at<const ShiftItem>(p.shared.items)
                                                     : p.items + block_index() * p.block_items;
  return items[t.items + round * kShiftWarps + warp];
}
__device__ __forceinline__ const ShiftSources& sources_of(const ShiftTable& t) {
  return shared_at<const ShiftSources>(shift_program().shared.sources)[t.sources];
}

__device__ __forceinline__ const ShiftShape& shape_of(const ShiftStep& p, const ShiftMatrix& m) {
  return p.shapes[m.shape];
}

}  // namespace runnel::cuda
