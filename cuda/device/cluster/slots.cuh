// SPDX-License-Identifier: Apache-2.0
// The cluster kernel's slots: a block a query head. Blocks whose query heads share a kv head update
// its slots each for itself, and each stores a part of them, when all have read them.
#pragma once

#include "cuda/device/cluster/exchange.cuh"
#include "cuda/device/step/slots.cuh"

namespace runnel::cuda {

/// A thread's vectors of keys and values: one column of slots slot(0), slot(1)… A row is shared by 2^kShift lanes.
template <int kShift>
struct ClusterSlots {
  static constexpr int kLanes = 1 << kShift, kStep = kClusterThreads >> kShift;
  static constexpr int kWidth = 4 * kLanes;  // of keys and values
  static constexpr int kItems = kClusterItems;

  const ClusterDecode& p;
  const ClusterToken& token;
  float4 k[kItems], v[kItems];
  float bias[kItems], own;

  __device__ __forceinline__ int slots() const { return p.sinks + p.window + p.memory; }
  static __device__ __forceinline__ int slot(int i) {
    return (thread_index() >> kShift) + i * kStep;
  }
  static __device__ __forceinline__ int column() { return (thread_index() & (kLanes - 1)) * 4; }
  __device__ __forceinline__ std::size_t place(int layer) const {
    return std::size_t(layer) * p.layer_floats + std::size_t(token.kv_head) * p.head_floats +
           unsigned(column());
  }

  /// What does not depend on the token's q, k, v.
  __device__ __forceinline__ void load(const ClusterLayer& w, int layer) {
    const int positional = p.sinks + p.window;
    const float* keys = token.segment.state_in + place(layer);
    const float* values = keys + slots() * kWidth;
    own = w.head_read_bias != nullptr ? w.head_read_bias[token.query] : 0.0F;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int s = slot(i);
      k[i] = v[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      bias[i] = 0.0F;
      if (s < slots()) {
        k[i] = load_vector(keys + s * kWidth);
        v[i] = load_vector(values + s * kWidth);
        if (w.read_bias != nullptr && s >= positional)
          bias[i] = w.read_bias[token.kv_head * p.memory + s - positional];
      }
    }
  }

  /// Updated slots: this block's share of those of its kv head.
  __device__ __forceinline__ void store(int layer) const {
    float* keys = token.segment.state_out + place(layer);
    float* values = keys + slots() * kWidth;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int s = slot(i);
      if (s < slots() && (token.stores >> i & 1) != 0) {
        store_vector(keys + s * kWidth, k[i]);
        store_vector(values + s * kWidth, v[i]);
      }
    }
  }

  /// x, this thread's channels, turned; y: those that are turned with them.
  static __device__ __forceinline__ float4 turned(float4 x, float4 y, float4 cos, float4 sin) {
    const float s = column() < kWidth / 2 ? -1.0F : 1.0F;
    return make_float4(fmaf(x.x, cos.x, y.x * (s * sin.x)), fmaf(x.y, cos.y, y.y * (s * sin.y)),
                       fmaf(x.z, cos.z, y.z * (s * sin.z)), fmaf(x.w, cos.w, y.w * (s * sin.w)));
  }

  /// K~ and V~ of the token, and this warp's read of its slots, to shared memory.
  __device__ __forceinline__ void read() {
    const int positional = p.sinks + p.window, lane = thread_index() & 31,
              warp = thread_index() >> 5;
    const float* inputs = exchanged(p, kInputs);
    const float *q = inputs, *key = inputs + kWidth, *value = inputs + 2 * kWidth;
    const auto vector = [](const float* from, int c) {
      return *reinterpret_cast<const float4*>(from + c);
    };
    const float4 q0 = vector(q, column()), k0 = vector(key, column()), v0 = vector(value, column());
    float4 q_window = q0, q_sink = q0, k_turned = k0;
    if (positional > 0) {
      const int other = column() ^ (kWidth / 2);
      const float4 q1 = vector(q, other), k1 = vector(key, other);
      const float* rotation =
          shared_at<const float>(p.shared.rotation) + (column() & (kWidth / 2 - 1));
      const float4 cos = vector(rotation, 0), sin = vector(rotation, kWidth / 2);
      q_window = turned(q0, q1, cos, sin), k_turned = turned(k0, k1, cos, sin);
      q_sink = turned(q0, q1, vector(rotation, kWidth), vector(rotation, 3 * kWidth / 2));
    }
    const auto* gates = reinterpret_cast<const float2*>(inputs + 3 * kWidth) - positional;
    float2 gate[kItems];
    float logit[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int s = slot(i);
      const bool gated = s >= positional;
      // Decay 1 and write 0 keep a slot; 0 and 1 replace it.
      gate[i] = s == token.target ? make_float2(0.0F, 1.0F) : make_float2(1.0F, 0.0F);
      if (gated && s < slots()) gate[i] = gates[s];
      k[i] = plus_scaled(scaled(k[i], gate[i].x), gated ? k0 : k_turned, gate[i].y);
      logit[i] = dot_vectors(k[i], gated ? q0 : s >= p.sinks ? q_window : q_sink, 0.0F);
    }
#pragma unroll
    for (int o = 1; o < kLanes; o <<= 1) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) logit[i] += __shfl_xor_sync(~0U, logit[i], o);
    }
    float peak = -1e30F;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int s = slot(i);
      logit[i] = s >= slots()        ? -1e30F
                 : s >= positional   ? fmaf(logit[i], p.scale, bias[i] + own)
                 : s < token.written ? logit[i] * p.scale
                                     : -1e30F;  // not written yet
      peak = fmaxf(peak, logit[i]);
    }
#pragma unroll
    for (int o = kLanes; o < 32; o <<= 1) peak = fmaxf(peak, __shfl_xor_sync(~0U, peak, o));
    float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const float e = logit[i] > -1e29F ? __expf(logit[i] - peak) : 0.0F;
      v[i] = plus_scaled(scaled(v[i], gate[i].x), v0, gate[i].y);
      sum = plus_scaled(sum, v[i], e);
      total += e;
    }
#pragma unroll
    for (int o = kLanes; o < 32; o <<= 1) {
      sum.x += __shfl_xor_sync(~0U, sum.x, o), sum.y += __shfl_xor_sync(~0U, sum.y, o);
      sum.z += __shfl_xor_sync(~0U, sum.z, o), sum.w += __shfl_xor_sync(~0U, sum.w, o);
      total += __shfl_xor_sync(~0U, total, o);
    }
    if (lane < kLanes)
      *reinterpret_cast<float4*>(shared_at<float>(p.shared.parts) + warp * kWidth + column()) = sum;
    if (lane == 0) shared_at<float2>(p.shared.about)[warp] = make_float2(peak, total);
  }

  /// Joins what the warps have read: 8 channels a warp, four of the other warps a lane.
  __device__ __forceinline__ void join(const ClusterGroup& all_blocks) const {
    const int lane = thread_index() & 31, warp = thread_index() >> 5;
    if (warp >= kWidth / 8) return;
    const int channel = warp * 8 + (lane & 7), first = lane >> 3 << 2;
    const float* part = shared_at<const float>(p.shared.parts) + first * kWidth + channel;
    const float2 about = shared_at<const float2>(p.shared.about)[lane & (kDecodeWarps - 1)];
    const float peak = ordered_float(__reduce_max_sync(~0U, ordered_int(about.x)));
    const float mine = __expf(about.x - peak);
    float total = mine * about.y, sum = 0.0F;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sum = fmaf(__shfl_sync(~0U, mine, first + i), part[i * kWidth], sum);
#pragma unroll
    for (int o = 1; o < kDecodeWarps; o <<= 1) total += __shfl_xor_sync(~0U, total, o);
    sum += __shfl_xor_sync(~0U, sum, 8), sum += __shfl_xor_sync(~0U, sum, 16);
    send_values(p, all_blocks, kRead, token.query * kWidth + warp * 8, 8,
                activate(p.o_act, __fdividef(sum, total)), 0);
  }
};
static_assert(kDecodeWarps == 16);

}  // namespace runnel::cuda
