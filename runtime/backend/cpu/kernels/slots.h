// SPDX-License-Identifier: Apache-2.0
// The slot recurrence of one kv head, fused with its read: state lines are loaded once, updated,
// read by all query heads of the group and stored once. Equations in kernels.h. Prefill runs the
// same code token after token over lanes few enough to stay in the first cache, so it is the recurrence bit for bit.
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

constexpr int kMaxHeads = 4;  // query heads that one pass over the state serves
// registers of lanes side by side: kMaxHeads chains each
constexpr int kTogether = kLanes == 16 ? 4 : 2;

/// The slot that position p overwrites, or -1.
inline int positional_slot(uint64_t p, int sinks, int window) {
  if (p < static_cast<uint64_t>(sinks)) return static_cast<int>(p);
  if (window == 0) return -1;
  return sinks +
         static_cast<int>((p - static_cast<uint64_t>(sinks)) % static_cast<uint64_t>(window));
}

constexpr int kRowsAhead = 8;  // of a state that is read once

/// Prefetches `count` floats `ahead` of a row: one token takes a row in parts, each a line of every row, which no
/// hardware takes for a stream.
inline void prefetch_row(const float* row, ptrdiff_t ahead, int count) {
  for (int i = 0; i < count; i += 16) __builtin_prefetch(row + ahead + i, 1);
}

/// N registers of slots, one token: K~ <- alpha K~ + write k (kUpdate); out[h] = q_h . K~ for G heads.
template <int N, int G, bool kUpdate>
inline void keys_step(const SlotKeysArgs& s, int lane, int token, int head) {
  float* keys = s.keys + lane;
  const float* q = s.q + token * s.q_stride + head * s.q_head;
  const float* k = kUpdate ? s.k + token * s.k_stride : nullptr;
  F alpha[N], write[N], acc[G][N];
  for (int i = 0; i < N; ++i) {
    if (kUpdate) {
      alpha[i] = load(s.alpha + token * s.gate_stride + lane + i * kLanes);
      write[i] = load(s.write + token * s.gate_stride + lane + i * kLanes);
    }
    for (int h = 0; h < G; ++h) acc[h][i] = splat(0);
  }
  const bool ahead = s.tokens == 1 && head == 0 && lane == s.lane_begin;
  for (int c = 0; c < s.dim; ++c, keys += s.lanes) {
    if (ahead) prefetch_row(keys, kRowsAhead * static_cast<ptrdiff_t>(s.lanes), s.lane_end - lane);
    for (int i = 0; i < N; ++i) {
      F v = load(keys + i * kLanes);
      if (kUpdate) {
        v = fma(write[i], splat(k[c]), mul(alpha[i], v));
        store(keys + i * kLanes, v);
      }
      for (int h = 0; h < G; ++h) acc[h][i] = fma(v, splat(q[h * s.q_head + c]), acc[h][i]);
    }
  }
  for (int h = 0; h < G; ++h) {
    float* out = s.out + token * s.out_stride + (head + h) * s.out_head;
    for (int i = 0; i < N; ++i) {
      const int at = lane + i * kLanes;
      if (at + kLanes <= s.out_lanes) {
        store(out + at, acc[h][i]);
      } else {
        float lanes[kLanes];
        store(lanes, acc[h][i]);
        for (int j = 0; at + j < s.out_lanes && j < kLanes; ++j) out[at + j] = lanes[j];
      }
    }
  }
}

template <int N, bool kUpdate>
inline void keys_some(const SlotKeysArgs& s, int lane, int token, int head, int heads) {
  switch (heads) {
    case 1:
      keys_step<N, 1, kUpdate>(s, lane, token, head);
      break;
    case 2:
      keys_step<N, 2, kUpdate>(s, lane, token, head);
      break;
    case 3:
      keys_step<N, 3, kUpdate>(s, lane, token, head);
      break;
    default:
      keys_step<N, 4, kUpdate>(s, lane, token, head);
      break;
  }
}

/// All query heads; the first pass updates.
template <int N>
inline void keys_heads(const SlotKeysArgs& s, int lane, int token) {
  const int first = s.heads < kMaxHeads ? s.heads : kMaxHeads;
  if (s.k != nullptr && s.alpha != nullptr) {
    keys_some<N, true>(s, lane, token, 0, first);
  } else {
    keys_some<N, false>(s, lane, token, 0, first);
  }
  for (int head = first; head < s.heads; head += kMaxHeads) {
    const int left = s.heads - head;
    keys_some<N, false>(s, lane, token, head, left < kMaxHeads ? left : kMaxHeads);
  }
}

void slot_keys(const SlotKeysArgs& s) {
  for (int t = 0; t < s.tokens; ++t) {
    if (s.k != nullptr && s.alpha == nullptr) {
      const int slot = positional_slot(s.position + static_cast<uint64_t>(t), s.sinks, s.window);
      if (slot >= s.lane_begin && slot < s.lane_end) {
        for (int c = 0; c < s.dim; ++c) {
          s.keys[static_cast<ptrdiff_t>(c) * s.lanes + slot] = s.k[t * s.k_stride + c];
        }
      }
    }
    int lane = s.lane_begin;
    for (; lane + kTogether * kLanes <= s.lane_end; lane += kTogether * kLanes) {
      keys_heads<kTogether>(s, lane, t);
    }
    for (; lane < s.lane_end; lane += kLanes) keys_heads<1>(s, lane, t);
  }
}

void slot_softmax(const SlotSoftmaxArgs& s) {
  const float nothing = -__builtin_inff();
  float* const memory = s.logits + s.positional_lanes;
  for (int i = s.valid; i < s.positional_lanes; ++i) s.logits[i] = nothing;
  for (int i = s.memory; i < s.memory_lanes; ++i) memory[i] = nothing;
  const F scale = splat(s.scale), bias = splat(s.head_bias);
  F largest = splat(nothing);
  for (int i = 0; i < s.positional_lanes; i += kLanes) {
    const F v = mul(load(s.logits + i), scale);
    store(s.logits + i, v);
    largest = max(largest, v);
  }
  for (int i = 0; i < s.memory_lanes; i += kLanes) {
    F v = mul(load(memory + i), scale);
    if (s.read_bias != nullptr) v = add(v, load(s.read_bias + i));
    v = add(v, bias);
    store(memory + i, v);
    largest = max(largest, v);
  }
  const F top = splat(max_lane(largest));
  F total = splat(0);
  const int lanes = s.positional_lanes + s.memory_lanes;
  for (int i = 0; i < lanes; i += kLanes) {
    const F e = exp(sub(load(s.logits + i), top));
    store(s.logits + i, e);
    total = add(total, e);
  }
  const F inverse = splat(1.0F / sum(total));
  for (int i = 0; i < lanes; i += kLanes) store(s.logits + i, mul(load(s.logits + i), inverse));
}

/// N registers of channels, one token, G heads: V~ <- alpha V~ + write v (kUpdate); out[h] = p_h . V~.
template <int N, int G, bool kUpdate>
inline void values_step(const SlotValuesArgs& s, int channel, int token, int head, int valid) {
  const float* p = s.p + token * s.p_stride + head * s.p_head;
  F v[N], acc[G][N];
  for (int i = 0; i < N; ++i) {
    if (kUpdate) v[i] = load(s.v + token * s.v_stride + channel + i * kLanes);
    for (int h = 0; h < G; ++h) acc[h][i] = splat(0);
  }
  const float* row = s.positional + channel;
  const bool ahead = s.tokens == 1 && head == 0 && channel == s.begin;
  for (int m = 0; m < valid; ++m, row += s.dim) {
    if (ahead) prefetch_row(row, kRowsAhead * static_cast<ptrdiff_t>(s.dim), s.end - channel);
    for (int i = 0; i < N; ++i) {
      const F x = load(row + i * kLanes);
      for (int h = 0; h < G; ++h) acc[h][i] = fma(x, splat(p[h * s.p_head + m]), acc[h][i]);
    }
  }
  p += s.p_memory;
  float* memory = s.memory + channel;
  for (int m = 0; m < s.memory_slots; ++m, memory += s.dim) {
    const ptrdiff_t gate = token * s.gate_stride + m;
    if (ahead) prefetch_row(memory, kRowsAhead * static_cast<ptrdiff_t>(s.dim), s.end - channel);
    for (int i = 0; i < N; ++i) {
      F x = load(memory + i * kLanes);
      if (kUpdate) {
        x = fma(splat(s.write[gate]), v[i], mul(splat(s.alpha[gate]), x));
        store(memory + i * kLanes, x);
      }
      for (int h = 0; h < G; ++h) acc[h][i] = fma(x, splat(p[h * s.p_head + m]), acc[h][i]);
    }
  }
  for (int h = 0; h < G; ++h) {
    float* out = s.out + token * s.out_stride + (head + h) * s.out_head + channel;
    for (int i = 0; i < N; ++i) store(out + i * kLanes, acc[h][i]);
  }
}

template <int N>
inline void values_heads(const SlotValuesArgs& s, int channel, int token, int valid) {
  switch (s.heads) {
    case 1:
      values_step<N, 1, true>(s, channel, token, 0, valid);
      return;
    case 2:
      values_step<N, 2, true>(s, channel, token, 0, valid);
      return;
    case 3:
      values_step<N, 3, true>(s, channel, token, 0, valid);
      return;
    default:
      values_step<N, 4, true>(s, channel, token, 0, valid);
      break;
  }
  int head = 4;
  for (; head + 4 <= s.heads; head += 4) values_step<N, 4, false>(s, channel, token, head, valid);
  for (; head < s.heads; ++head) values_step<N, 1, false>(s, channel, token, head, valid);
}

void slot_values(const SlotValuesArgs& s) {
  const uint64_t positional = static_cast<uint64_t>(s.sinks) + static_cast<uint64_t>(s.window);
  for (int t = 0; t < s.tokens; ++t) {
    const uint64_t position = s.position + static_cast<uint64_t>(t);
    const int slot = positional_slot(position, s.sinks, s.window);
    if (slot >= 0) {
      float* row = s.positional + static_cast<ptrdiff_t>(slot) * s.dim;
      const float* v = s.v + t * s.v_stride;
      for (int c = s.begin; c < s.end; ++c) row[c] = v[c];
    }
    const int valid = static_cast<int>(position < positional ? position + 1 : positional);
    int channel = s.begin;
    for (; channel + kTogether * kLanes <= s.end; channel += kTogether * kLanes) {
      values_heads<kTogether>(s, channel, t, valid);
    }
    for (; channel < s.end; channel += kLanes) values_heads<1>(s, channel, t, valid);
  }
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
