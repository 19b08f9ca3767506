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

/// Where the keys of a lane begin: lanes lie in blocks of 16, a line for each channel.
inline ptrdiff_t key_offset(int lane, int dim) {
  return static_cast<ptrdiff_t>(lane / kKeyLanes) * kKeyLanes * dim + lane % kKeyLanes;
}

/// Lines that are prefetched while one token passes over a state once.
constexpr int kLinesAhead = 64;

/// N registers of slots, one token: K~ <- alpha K~ + write k (kUpdate); out[h] = q_h . K~ for G heads.
template <int N, int G, bool kUpdate>
inline void keys_step(const SlotKeysArgs& s, int lane, int token, int head) {
  constexpr int kBlocks = N * kLanes > kKeyLanes ? N * kLanes / kKeyLanes : 1;
  constexpr int kAhead = kLinesAhead / kBlocks;  // channels
  const ptrdiff_t block = static_cast<ptrdiff_t>(s.dim) * kKeyLanes;
  const float* q = s.q + token * s.q_stride + head * s.q_head;
  const float* k = kUpdate ? s.k + token * s.k_stride : nullptr;
  float* keys = s.keys + key_offset(lane, s.dim);
  F alpha[N], write[N], acc[G * N];
  unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
    if constexpr (kUpdate) {
      alpha[i] = load(s.alpha + token * s.gate_stride + lane + i * kLanes);
      write[i] = load(s.write + token * s.gate_stride + lane + i * kLanes);
    }
  });
  unroll<G * N>([&](auto j) RUNNEL_INLINE_LAMBDA { acc[j] = splat(0); });
  const auto row = [&](int c) RUNNEL_INLINE_LAMBDA {
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
      float* const at = keys + i * kLanes / kKeyLanes * block + i * kLanes % kKeyLanes;
      F v = load(at);
      if constexpr (kUpdate) {
        v = fma(write[i], splat(k[c]), mul(alpha[i], v));
        store(at, v);
      }
      unroll<G>([&](auto h) RUNNEL_INLINE_LAMBDA {
        acc[h * N + i] = fma(v, splat(q[h * s.q_head + c]), acc[h * N + i]);
      });
    });
    keys += kKeyLanes;
  };
  if (s.tokens == 1 && head == 0 && lane % kKeyLanes == 0) {
    for (int c = 0; c < s.dim; ++c) {
      // Behind the last channel come those of the next blocks.
      const ptrdiff_t next = c + kAhead < s.dim ? 0 : (kBlocks - 1) * block;
      unroll<kBlocks>([&](auto i) RUNNEL_INLINE_LAMBDA {
        __builtin_prefetch(keys + i * block + next + kAhead * kKeyLanes, kUpdate ? 1 : 0);
      });
      row(c);
    }
  } else {
    for (int c = 0; c < s.dim; ++c) row(c);
  }
  float* const out = s.out + token * s.out_stride + head * s.out_head + lane;
  const int left = s.out_lanes - lane;
  unroll<G * N>([&](auto j) RUNNEL_INLINE_LAMBDA {
    constexpr int kFirst = decltype(j)::value % N * kLanes;
    float* const at = out + j / N * s.out_head + kFirst;
    if (kFirst + kLanes <= left) {
      store(at, acc[j]);
    } else {
      float lanes[kLanes];
      store(lanes, acc[j]);
      for (int l = 0; kFirst + l < left && l < kLanes; ++l) at[l] = lanes[l];
    }
  });
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
        float* const own = s.keys + key_offset(slot, s.dim);
        for (int c = 0; c < s.dim; ++c)
          own[static_cast<ptrdiff_t>(c) * kKeyLanes] = s.k[t * s.k_stride + c];
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

/// Rows of V~, of one kind of slots, that one token after the other takes, and all query heads: they stay in a cache.
struct ValueRows {
  float* state;    // [end][dim], of the kind
  int begin, end;  // rows
  bool memory;
  bool first;  // outputs begin with them: else they are added
};

/// N registers of channels, one token, rows [begin, end), G heads:
///   V~ <- alpha V~ + write v (kUpdate), out[h] (+)= p_h . V~
template <int N, int G, bool kUpdate>
inline void values_step(const SlotValuesArgs& s, const ValueRows& rows, int end, int channel,
                        int token, int head) {
  const float* p =
      s.p + token * s.p_stride + head * s.p_head + (rows.memory ? s.p_memory : ptrdiff_t{0});
  float* const out = s.out + token * s.out_stride + head * s.out_head + channel;
  const ptrdiff_t gates = token * s.gate_stride;
  F v[N], acc[G * N];
  unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
    if constexpr (kUpdate) v[i] = load(s.v + token * s.v_stride + channel + i * kLanes);
  });
  if (rows.first) {
    unroll<G * N>([&](auto j) RUNNEL_INLINE_LAMBDA { acc[j] = splat(0); });
  } else {
    unroll<G * N>([&](auto j) RUNNEL_INLINE_LAMBDA {
      acc[j] = load(out + j / N * s.out_head + j % N * kLanes);
    });
  }
  float* row = rows.state + static_cast<ptrdiff_t>(rows.begin) * s.dim + channel;
  const auto take = [&](int m) RUNNEL_INLINE_LAMBDA {
    unroll<N>([&](auto i) RUNNEL_INLINE_LAMBDA {
      F x = load(row + i * kLanes);
      if constexpr (kUpdate) {
        x = fma(splat(s.write[gates + m]), v[i], mul(splat(s.alpha[gates + m]), x));
        store(row + i * kLanes, x);
      }
      unroll<G>([&](auto h) RUNNEL_INLINE_LAMBDA {
        acc[h * N + i] = fma(x, splat(p[h * s.p_head + m]), acc[h * N + i]);
      });
    });
    row += s.dim;
  };
  if (s.tokens == 1 && s.begin == 0 && s.end == s.dim && head == 0 && channel % 16 == 0) {
    // As many lines as this pass takes, in their order, of the rows behind these.
    constexpr int kStep = N * kLanes > 16 ? N * kLanes : 16;
    const ptrdiff_t count = rows.end - rows.begin;
    const float* next = row + count * s.dim + channel * (count - 1);
    for (int m = rows.begin; m < end; ++m, next += kStep) {
      unroll<kStep / 16>(
          [&](auto i) RUNNEL_INLINE_LAMBDA { __builtin_prefetch(next + 16 * i, kUpdate ? 1 : 0); });
      take(m);
    }
  } else {
    for (int m = rows.begin; m < end; ++m) take(m);
  }
  unroll<G * N>([&](auto j) RUNNEL_INLINE_LAMBDA {
    store(out + j / N * s.out_head + j % N * kLanes, acc[j]);
  });
}

template <int N, bool kUpdate>
inline void values_some(const SlotValuesArgs& s, const ValueRows& rows, int end, int channel,
                        int token, int head, int heads) {
  switch (heads) {
    case 1:
      values_step<N, 1, kUpdate>(s, rows, end, channel, token, head);
      break;
    case 2:
      values_step<N, 2, kUpdate>(s, rows, end, channel, token, head);
      break;
    case 3:
      values_step<N, 3, kUpdate>(s, rows, end, channel, token, head);
      break;
    default:
      values_step<N, 4, kUpdate>(s, rows, end, channel, token, head);
      break;
  }
}

/// All query heads; of memory slots the first pass updates.
template <int N>
inline void values_heads(const SlotValuesArgs& s, const ValueRows& rows, int end, int channel,
                         int token) {
  int head = 0;
  if (rows.memory) {
    head = s.heads < kMaxHeads ? s.heads : kMaxHeads;
    values_some<N, true>(s, rows, end, channel, token, 0, head);
  }
  for (; head < s.heads; head += kMaxHeads) {
    const int left = s.heads - head;
    values_some<N, false>(s, rows, end, channel, token, head, left < kMaxHeads ? left : kMaxHeads);
  }
}

/// All tokens, one after the other.
void values_rows(const SlotValuesArgs& s, const ValueRows& rows) {
  const int positional = s.sinks + s.window;
  for (int t = 0; t < s.tokens; ++t) {
    int end = rows.end;
    if (!rows.memory) {
      const uint64_t position = s.position + static_cast<uint64_t>(t);
      const int slot = positional_slot(position, s.sinks, s.window);
      if (slot >= rows.begin && slot < rows.end) {
        float* const row = rows.state + static_cast<ptrdiff_t>(slot) * s.dim;
        const float* const v = s.v + t * s.v_stride;
        for (int c = s.begin; c < s.end; ++c) row[c] = v[c];
      }
      const int valid = position < static_cast<uint64_t>(positional)
                            ? static_cast<int>(position) + 1
                            : positional;
      end = valid < end ? valid : end;
      if (end <= rows.begin) continue;
    }
    int channel = s.begin;
    for (; channel + kTogether * kLanes <= s.end; channel += kTogether * kLanes)
      values_heads<kTogether>(s, rows, end, channel, t);
    for (; channel < s.end; channel += kLanes) values_heads<1>(s, rows, end, channel, t);
  }
}

void slot_values(const SlotValuesArgs& s) {
  constexpr int kFloats = 4096, kFewestRows = 32;
  const int fitting = kFloats / (s.end - s.begin);
  const int together = fitting > kFewestRows ? fitting : kFewestRows;
  const int counts[2] = {s.sinks + s.window, s.memory_slots};
  bool first = true;
  for (int kind = 0; kind < 2; ++kind) {
    for (int begin = 0; begin < counts[kind]; begin += together) {
      const int end = begin + together < counts[kind] ? begin + together : counts[kind];
      values_rows(s, {kind == 0 ? s.positional : s.memory, begin, end, kind == 1, first});
      first = false;
    }
  }
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
