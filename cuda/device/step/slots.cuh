// SPDX-License-Identifier: Apache-2.0
// The decode kernel's slots: one block's share of a kv head, updated and read.
#pragma once

#include "cuda/device/step/exchange.cuh"
#include "cuda/device/step/products.cuh"

namespace runnel::cuda {

/// A slot's decay and 1 - decay from its gate: log_decay of math.cuh, in fewer instructions and to
/// 4e-6 of their values.
__device__ __forceinline__ float2 gate_of(float f, float tau, float floor) {
  const float e = __expf(-fabsf(f));
  const float small = e * (1.0F - e * (0.5F - e * (0.33333333F - e * (0.25F - e * 0.2F))));
  const float ls = fminf(f, 0.0F) - (e < 0.1F ? small : __logf(1.0F + e));
  float g = __fdividef(ls, tau);
  if (floor < 0.0F) g = fmaxf(g, floor);
  const float decay = __expf(g);
  const float near = -g * (1.0F + g * (0.5F + g * (0.16666667F + g * 0.041666667F)));
  return make_float2(decay, g > -0.06F ? near : 1.0F - decay);
}

/// Integers in the order of floats, and back.
__device__ __forceinline__ int ordered_int(float v) {
  const int i = __float_as_int(v);
  return i ^ ((i >> 31) & 0x7FFFFFFF);
}
__device__ __forceinline__ float ordered_float(int i) {
  return __int_as_float(i ^ ((i >> 31) & 0x7FFFFFFF));
}

/// The first slot of which a thread has keys, and its lane among those of one slot.
struct KeyLane {
  int slot, lane;
};

/// Logits of this thread's keys with kG queries, from query `first`.
template <int kItems, int kGroups, int kG>
__device__ __forceinline__ void slot_logits(const Decode& p, const DecodeToken& token,
                                            const DecodeLayer& w, float* scratch,
                                            const float4 (&k)[kItems], int first, KeyLane at) {
  const int key_groups = kGroups >= 0 ? kGroups : p.key_groups, key_shift = p.key_shift,
            positional = p.sinks + p.window;
  const int key_step = kDecodeThreads >> key_shift, count = token.count, k_dim = p.k_dim;
  const float* queries = scratch + p.slots.queries;
  float own[kG], acc[kG];
#pragma unroll
  for (int g = 0; g < kG; ++g) {
    own[g] = 0.0F, acc[g] = 0.0F;
    if (w.head_read_bias != nullptr) own[g] = w.head_read_bias[token.head * p.group + first + g];
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int local = at.slot + (i >> key_groups) * key_step, slot = token.first + local;
    const int column = (((i & ((1 << key_groups) - 1)) << key_shift) + at.lane) * 4;
    const int variant = slot >= positional ? 0 : slot >= p.sinks ? 1 : 2;
    const float* query = queries + (variant * p.group + first) * k_dim + column;
#pragma unroll
    for (int g = 0; g < kG; ++g)
      acc[g] = dot_vectors(k[i], *reinterpret_cast<const float4*>(query + g * k_dim), acc[g]);
    if (((i + 1) & ((1 << key_groups) - 1)) == 0) {  // the slot is complete
      add_lanes(acc, key_shift);
      if (at.lane == 0 && local < count) {
        const float bias = scratch[p.slots.bias + local];
#pragma unroll
        for (int g = 0; g < kG; ++g) {
          const float logit = slot >= positional     ? fmaf(acc[g], p.scale, own[g] + bias)
                              : slot < token.written ? acc[g] * p.scale
                                                     : -1e30F;  // not written yet
          scratch[p.slots.weight + (first + g) * p.slots_per_split + local] = logit;
        }
      }
#pragma unroll
      for (int g = 0; g < kG; ++g) acc[g] = 0.0F;
    }
  }
}

/// Sums of this thread's values under the weights of kG queries, from query `first`.
template <int kItems, int kG>
__device__ __forceinline__ void slot_read(const Decode& p, float* scratch,
                                          const float4 (&v)[kItems], int first, int tid,
                                          int count) {
  const int value_shift = p.value_shift;
  const int value_slot = tid >> value_shift, value_step = kDecodeThreads >> value_shift;
  const int column = (tid & ((1 << value_shift) - 1)) * 4, lane = tid & 31;
  float4 acc[kG];
#pragma unroll
  for (int g = 0; g < kG; ++g) acc[g] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int local = value_slot + i * value_step;
    if (local < count) {
      const float* weight = scratch + p.slots.weight + first * p.slots_per_split + local;
#pragma unroll
      for (int g = 0; g < kG; ++g)
        acc[g] = plus_scaled(acc[g], v[i], weight[g * p.slots_per_split]);
    }
  }
#pragma unroll 1
  for (int o = 1 << value_shift; o < 32; o <<= 1) {
#pragma unroll
    for (int g = 0; g < kG; ++g) {
      acc[g].x += __shfl_xor_sync(~0U, acc[g].x, o), acc[g].y += __shfl_xor_sync(~0U, acc[g].y, o);
      acc[g].z += __shfl_xor_sync(~0U, acc[g].z, o), acc[g].w += __shfl_xor_sync(~0U, acc[g].w, o);
    }
  }
  const int row = value_shift < 5 ? tid >> 5 : value_slot;
  if (value_shift >= 5 || lane < 1 << value_shift) {
#pragma unroll
    for (int g = 0; g < kG; ++g)
      *reinterpret_cast<float4*>(scratch + p.slots.reduce + (row * p.group + first + g) * p.v_dim +
                                 column) = acc[g];
  }
}

/// A layer's slots, as a thread works on them.
struct SlotStep {
  const Decode& p;
  const DecodeToken& token;
  const DecodeLayer& w;
  float* scratch;  // in shared memory
  float* set;      // of the exchange
  Waiter wait;
  int tid, group, positional;
  int head, count, first_slot;  // of the token
};

/// A thread's keys or values, from float `at` of the state on: vector i is of local slot slot_of(i), columns column_of(i) …
/// of `width`.
template <int kItems, class SlotOf, class ColumnOf>
__device__ __forceinline__ void load_slots(const SlotStep& s, float4 (&v)[kItems], std::size_t at,
                                           const std::int32_t& width, const SlotOf& slot_of,
                                           const ColumnOf& column_of) {
  const float* from = s.token.segment.state_in + at;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    v[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    const int local = slot_of(i);
    if (local < s.count)
      v[i] = *reinterpret_cast<const float4*>(from + local * width + column_of(i));
  }
}

/// A slot's decay, write and bias, to `scratch`; f: gates of the head.
__device__ __forceinline__ void slot_gate(const SlotStep& s, const float* f, int local) {
  const Decode& p = s.p;
  const int slot = s.first_slot + local;
  // Decay 1 and write 0 keep a slot; 0 and 1 replace it.
  float2 gate = slot == s.token.target ? make_float2(0.0F, 1.0F) : make_float2(1.0F, 0.0F);
  float bias = 0.0F;
  if (slot >= s.positional) {
    const int m = slot - s.positional;
    const float own = s.w.f_bias != nullptr ? s.w.f_bias[s.head * p.memory + m] : 0.0F;
    if (s.w.read_bias != nullptr) bias = s.w.read_bias[s.head * p.memory + m];
    gate = gate_of(s.wait.read_word(f + m, 1) + own, p.gate_normalizer, p.gate_log_min);
  }
  s.scratch[p.slots.decay + local] = gate.x, s.scratch[p.slots.write + local] = gate.y;
  s.scratch[p.slots.bias + local] = bias;
}

/// K~ with the token in it, also to the state.
template <int kItems, class SlotOf, class ColumnOf>
__device__ __forceinline__ void update_keys(const SlotStep& s, float4 (&k)[kItems],
                                            const SlotOf& slot_of, const ColumnOf& column_of,
                                            std::size_t keys_at) {
  const Decode& p = s.p;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int local = slot_of(i), column = column_of(i);
    if (local < s.count) {
      const float* key = s.scratch +
                         (s.first_slot + local < s.positional ? p.slots.key_turned : p.slots.key) +
                         column;
      k[i] = plus_scaled(scaled(k[i], s.scratch[p.slots.decay + local]),
                         *reinterpret_cast<const float4*>(key), s.scratch[p.slots.write + local]);
      *reinterpret_cast<float4*>(s.token.segment.state_out + keys_at + local * p.k_dim + column) =
          k[i];
    }
  }
}

/// V~ likewise.
template <int kItems>
__device__ __forceinline__ void update_values(const SlotStep& s, float4 (&v)[kItems],
                                              int value_slot, int value_step, int value_column,
                                              std::size_t values_at) {
  const Decode& p = s.p;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int local = value_slot + i * value_step;
    if (local < s.count) {
      v[i] = plus_scaled(scaled(v[i], s.scratch[p.slots.decay + local]),
                         *reinterpret_cast<const float4*>(s.scratch + p.slots.value + value_column),
                         s.scratch[p.slots.write + local]);
      *reinterpret_cast<float4*>(s.token.segment.state_out + values_at + local * p.v_dim +
                                 value_column) = v[i];
    }
  }
}

/// Weights of a query's slots, from their logits, by a warp; their peak and sum to `parts`.
__device__ __forceinline__ void slot_weights(const SlotStep& s, int warp, int lane, float* parts,
                                             int stride) {
  const Decode& p = s.p;
  float* weight = s.scratch + p.slots.weight + warp * p.slots_per_split;
  float peak = -1e30F;
#pragma unroll 1
  for (int i = lane; i < s.count; i += 32) peak = fmaxf(peak, weight[i]);
  peak = ordered_float(__reduce_max_sync(~0U, ordered_int(peak)));
  float sum = 0.0F;
#pragma unroll 1
  for (int i = lane; i < s.count; i += 32) {
    const float e = weight[i] > -1e29F ? __expf(weight[i] - peak) : 0.0F;
    weight[i] = e;
    sum += e;
  }
  sum = warp_sum(sum);
  if (lane < 4)
    s.wait.write(parts + (s.head * s.group + warp) * stride + lane, lane == 0   ? peak
                                                                    : lane == 1 ? sum
                                                                                : 0.0F);
}

/// The read's sums over all rows of threads, to `parts`.
__device__ __forceinline__ void put_slot_reads(const SlotStep& s, int value_shift, float* parts,
                                               int stride) {
  const Decode& p = s.p;
  const int rows = value_shift < 5 ? kDecodeWarps : kDecodeThreads >> value_shift;
#pragma unroll 1
  for (int i = s.tid; i < s.group * p.v_dim; i += kDecodeThreads) {
    const int of = i >> (value_shift + 2), c = i & (p.v_dim - 1);
    const float* from = s.scratch + p.slots.reduce + of * p.v_dim + c;
    float sum = 0.0F;
#pragma unroll 1
    for (int r = 0; r < rows; r += 4) {
      float part[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) part[j] = r + j < rows ? from[(r + j) * s.group * p.v_dim] : 0.0F;
      sum += part[0], sum += part[1], sum += part[2], sum += part[3];
    }
    s.wait.write(parts + (s.head * s.group + of) * stride + 4 + c, sum);
  }
}

/// This block's slots of one layer: see the top. kGroups: key_groups, or -1: any.
template <int kItems, int kGroups>
__device__ __forceinline__ void step_slots(int phase) {
  const Decode& p = program<4>(phase);
  const int layer = phase >> 2;
  const auto& token = *shared_at<const DecodeToken>(p.shared.token);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  float* const scratch = shared_at<float>(p.shared.slots);
  const unsigned use = p.use + unsigned(layer);
  float* const set = p.exchange + std::size_t(use & 1U) * unsigned(p.at.total);
  Waiter wait{p, ((use >> 1) & 1U) ^ 1U};

  const int tid = thread_index() + hidden_zero<4>(phase), lane = tid & 31, warp = tid >> 5;
  const int group = p.group, positional = p.sinks + p.window, slots = positional + p.memory;
  const int head = token.head, count = token.count, first_slot = token.first;
  const std::size_t keys_at = std::size_t(layer) * p.layer_floats +
                              std::size_t(head) * p.head_floats + unsigned(first_slot * p.k_dim);
  const std::size_t values_at = std::size_t(layer) * p.layer_floats +
                                std::size_t(head) * p.head_floats + unsigned(slots * p.k_dim) +
                                unsigned(first_slot * p.v_dim);
  const SlotStep step{p,   token, w,          scratch, set,   wait,
                      tid, group, positional, head,    count, first_slot};
  // Which vectors a thread has.
  const int key_shift = p.key_shift, key_groups = kGroups >= 0 ? kGroups : p.key_groups,
            value_shift = p.value_shift;
  const int key_slot = tid >> key_shift, key_step = kDecodeThreads >> key_shift;
  const int key_lane = tid & ((1 << key_shift) - 1);
  const int value_slot = tid >> value_shift, value_step = kDecodeThreads >> value_shift;
  const int value_column = (tid & ((1 << value_shift) - 1)) * 4;
  const auto slot_of = [&](int i) { return key_slot + (i >> key_groups) * key_step; };
  const auto column_of = [&](int i) {
    return (((i & ((1 << key_groups) - 1)) << key_shift) + key_lane) * 4;
  };
  float4 k[kItems];
  load_slots(step, k, keys_at, p.k_dim, slot_of, column_of);
  {  // The token's q, k, v and gates.
    const auto* rotation = shared_at<const float4>(p.shared.rotation);
    const int half = p.k_dim / 2, quad_shift = key_shift + key_groups - 1;  // vectors of pairs
    const int pair_work = (group + 1) << quad_shift, value_work = p.v_dim / 4;
    const float* inputs = set + own_copy(p) + p.at.inputs;
    const float* q = inputs + head * group * p.k_dim;
    const float* key = inputs + (p.heads + head) * p.k_dim;
    const float* value = inputs + (p.heads + p.kv_heads) * p.k_dim + head * p.v_dim;
    const float* f =
        inputs + (p.heads + p.kv_heads) * p.k_dim + p.kv_heads * p.v_dim + head * p.memory;
    // The last threads begin with the gates, which take longest.
    const int work = pair_work + value_work + count;
#pragma unroll 1
    for (int i = tid; i < work; i += kDecodeThreads) {
      if (i < pair_work) {
        const int r = i >> quad_shift, c = (i - (r << quad_shift)) * 4;  // row 0 is the key
        const float* from = r == 0 ? key : q + (r - 1) * p.k_dim;
        const float4 first = load_exchanged(from + c), second = load_exchanged(from + half + c);
        const float4 a = activate4(p.qk_act, wait.finish(from + c, first, 1));
        const float4 b = activate4(p.qk_act, wait.finish(from + half + c, second, 1));
        float* to = scratch + (r == 0 ? p.slots.key : p.slots.queries + (r - 1) * p.k_dim);
        *reinterpret_cast<float4*>(to + c) = a;
        *reinterpret_cast<float4*>(to + half + c) = b;
        if (positional > 0) {
          const float x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
          float* turned = r == 0 ? scratch + p.slots.key_turned : to + group * p.k_dim;
          float* near = to + 2 * group * p.k_dim;
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float4 r4 = rotation[c + e];
            turned[c + e] = x[e] * r4.x - y[e] * r4.y;
            turned[half + c + e] = y[e] * r4.x + x[e] * r4.y;
            if (r > 0) {
              near[c + e] = x[e] * r4.z - y[e] * r4.w;
              near[half + c + e] = y[e] * r4.z + x[e] * r4.w;
            }
          }
        }
      } else if (i < pair_work + value_work) {
        const int c = (i - pair_work) * 4;
        *reinterpret_cast<float4*>(scratch + p.slots.value + c) =
            activate4(p.v_act, wait.read(value + c, 1));
      } else {
        slot_gate(step, f, i - pair_work - value_work);
      }
    }
  }
  sync_first<kDecodeThreads>();

  update_keys(step, k, slot_of, column_of, keys_at);
  int g = 0;
#pragma unroll 1
  for (; g + 3 <= group; g += 3)
    slot_logits<kItems, kGroups, 3>(p, token, w, scratch, k, g, {key_slot, key_lane});
#pragma unroll 1
  for (; g < group; ++g)
    slot_logits<kItems, kGroups, 1>(p, token, w, scratch, k, g, {key_slot, key_lane});
  float4 v[kItems];
  load_slots(
      step, v, values_at, p.v_dim, [&](int i) { return value_slot + i * value_step; },
      [&](int) { return value_column; });
  sync_first<kDecodeThreads>();
  float* const parts = set + p.at.parts + token.split * (p.v_dim + 4);
  const int stride = p.splits * (p.v_dim + 4);
  if (warp < group) slot_weights(step, warp, lane, parts, stride);
  sync_first<kDecodeThreads>();

  // The read: threads of one column add up their slots, then lanes, then rows of threads.
  update_values(step, v, value_slot, value_step, value_column, values_at);
  g = 0;
#pragma unroll 1
  for (; g + 3 <= group; g += 3) slot_read<kItems, 3>(p, scratch, v, g, tid, count);
#pragma unroll 1
  for (; g < group; ++g) slot_read<kItems, 1>(p, scratch, v, g, tid, count);
  sync_first<kDecodeThreads>();
  put_slot_reads(step, value_shift, parts, stride);
  sync_first<kDecodeThreads>();  // the scratch becomes an input again
}

}  // namespace runnel::cuda
