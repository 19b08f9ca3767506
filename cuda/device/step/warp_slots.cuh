// SPDX-License-Identifier: Apache-2.0
// The decode kernel's slots where all of them are memory and each query head has its own: spread so
// thinly over the blocks that a warp does a share without another's help.
//
//   logits   a warp a slot: all columns of its key
//   read     a warp 16 columns of its block's: those of all slots' values
//
// Between them only the logits are exchanged, and what comes of it is the mixer's output itself.
// Since (a h + w k) q = a (h q) + w (k q), nothing waits for the new state, which is stored last.
#pragma once

#include "cuda/device/step/slots.cuh"

namespace runnel::cuda {

inline constexpr int kThinVectors = 4;  // of a lane in one key
inline constexpr int kThinSlots = 64;   // of a head, at most
inline constexpr int kThinColumns = 16;

/// Values of the token in the exchange, as show_input() leaves them there.
struct ThinInputs {
  const float *q, *k, *v, *decay, *write;
};
template <int kHead>
__device__ __forceinline__ ThinInputs warp_slot_inputs(const Decode& p, const float* set,
                                                       int head) {
  const int k_dim = kHead > 0 ? kHead : p.k_dim, v_dim = kHead > 0 ? kHead : p.v_dim;
  const float* q = set + own_copy(p) + p.at.inputs;
  const float* k = q + p.heads * k_dim;
  const float* v = k + p.heads * k_dim;
  const float* decay = v + p.heads * v_dim + head * p.memory;
  return {q + head * k_dim, k + head * k_dim, v + head * v_dim, decay, decay + p.heads * p.memory};
}

/// A layer's slots, as a lane works on them.
struct ThinStep {
  const Decode& p;
  const DecodeToken& token;
  const DecodeLayer& w;
  float* set;  // of the exchange
  Waiter wait;
  int layer, lane;
  unsigned since;  // clock of the products' end

  /// Where this block's head begins in the state.
  __device__ __forceinline__ std::size_t head() const {
    return std::size_t(layer) * p.layer_floats + std::size_t(token.head) * p.head_floats;
  }
};

/// The logit of slot `local` of this block, and its key. kHead: columns of a head's keys and of its
/// values, 0: known at run time.
template <int kHead>
__device__ __forceinline__ void warp_slot_logit(const ThinStep& s, int local) {
  const Decode& p = s.p;
  const DecodeToken& token = s.token;
  const int lane = s.lane;
  const int k_dim = kHead > 0 ? kHead : p.k_dim, vectors = k_dim / 4, slot = token.first + local;
  const std::size_t at = s.head() + unsigned(slot * k_dim + 4 * lane);
  const float* const keys = token.segment.state_in + at;
  const float4 none = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  float4 h[kThinVectors], q[kThinVectors], k[kThinVectors];
#pragma unroll
  for (int i = 0; i < kThinVectors; ++i)
    h[i] = i * 32 + lane < vectors ? load_vector(keys + 128 * i) : none;
  const int of_head = token.head * p.memory + slot;
  float bias = s.w.read_bias != nullptr ? s.w.read_bias[of_head] : 0.0F;
  if (s.w.head_read_bias != nullptr) bias += s.w.head_read_bias[token.head];
  const ThinInputs in = warp_slot_inputs<kHead>(p, s.set, token.head);
  float2 gate;
  pause_until(s.since, p.pauses[4]);
  unsigned polls = 0;
#pragma unroll 1
  for (;;) {
    gate = make_float2(load_exchanged_word(in.decay + slot), load_exchanged_word(in.write + slot));
#pragma unroll
    for (int i = 0; i < kThinVectors; ++i) {
      const int column = i * 32 + lane < vectors ? 4 * (i * 32 + lane) : 0;
      q[i] = load_exchanged(in.q + column), k[i] = load_exchanged(in.k + column);
    }
    unsigned missing = s.wait.missing(gate.x) | s.wait.missing(gate.y);
#pragma unroll
    for (int i = 0; i < kThinVectors; ++i) missing |= s.wait.missing(q[i]) | s.wait.missing(k[i]);
    if (!s.wait.some_missing(missing) || s.wait.given_up(polls, 1)) break;
  }
  sync_warp();
  gate = make_float2(unmarked(gate.x), unmarked(gate.y));
  float sums[2] = {};  // h q and k q
#pragma unroll
  for (int i = 0; i < kThinVectors; ++i) {
    q[i] = i * 32 + lane < vectors ? unmarked(q[i]) : none;
    k[i] = unmarked(k[i]);
    sums[0] = dot_vectors(h[i], q[i], sums[0]);
    sums[1] = dot_vectors(k[i], q[i], sums[1]);
  }
  // Only the weighted sum is needed.
  const float logit = warp_sum(fmaf(gate.x, sums[0], gate.y * sums[1]));
  if (lane == 0) s.wait.write(s.set + p.at.logits + of_head, fmaf(p.scale, logit, bias));
  float* const to = token.segment.state_out + at;
#pragma unroll
  for (int i = 0; i < kThinVectors; ++i) {
    if (i * 32 + lane < vectors)
      store_vector(to + 128 * i, plus_scaled(scaled(h[i], gate.x), k[i], gate.y));
  }
}

/// Sums of v[i] over lanes that differ in bits 2 to 4; lane 4 r + c has v[r]'s of column c.
__device__ __forceinline__ float add_rows_apart(const float (&v)[8], int lane) {
  float a[4], b[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool odd = (lane & 4) != 0;
    a[i] = (odd ? v[2 * i + 1] : v[2 * i]) + __shfl_xor_sync(~0U, odd ? v[2 * i] : v[2 * i + 1], 4);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool odd = (lane & 8) != 0;
    b[i] = (odd ? a[2 * i + 1] : a[2 * i]) + __shfl_xor_sync(~0U, odd ? a[2 * i] : a[2 * i + 1], 8);
  }
  const bool odd = (lane & 16) != 0;
  return (odd ? b[1] : b[0]) + __shfl_xor_sync(~0U, odd ? b[0] : b[1], 16);
}

/// The mixer's output in 16 columns, and the values there. Eight rows of four lanes have eight slots each.
template <int kHead>
__device__ __forceinline__ void warp_slot_read(const ThinStep& s, int column, int columns) {
  const Decode& p = s.p;
  const DecodeToken& token = s.token;
  const int lane = s.lane;
  constexpr int kSlots = kThinSlots / 8;  // of a row
  const int k_dim = kHead > 0 ? kHead : p.k_dim, v_dim = kHead > 0 ? kHead : p.v_dim;
  const int row = lane >> 2, first = row * kSlots;
  const bool wanted = (lane & 3) * 4 < columns;
  column += wanted ? (lane & 3) * 4 : 0;
  const std::size_t at = s.head() + unsigned(p.memory * k_dim + first * v_dim + column);
  const float* const values = token.segment.state_in + at;
  float4 v[kSlots];
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    v[j] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (first + j < p.memory) v[j] = load_vector(values + j * v_dim);
  }
  // Each lane has two of a row's slots: their gates, their shares.
  const ThinInputs in = warp_slot_inputs<kHead>(p, s.set, token.head);
  const int own[2] = {first + (lane & 3), first + 4 + (lane & 3)};
  const int asked_for[2] = {min(own[0], p.memory - 1), min(own[1], p.memory - 1)};
  float2 gates[2];
  float4 of_token;
  pause_until(s.since, p.pauses[4]);
  unsigned polls = 0;
#pragma unroll 1
  for (;;) {
    of_token = load_exchanged(in.v + column);
    unsigned missing = 0;
#pragma unroll
    for (int j = 0; j < 2; ++j)
      gates[j] = make_float2(load_exchanged_word(in.decay + asked_for[j]),
                             load_exchanged_word(in.write + asked_for[j]));
#pragma unroll
    for (int j = 0; j < 2; ++j) missing |= s.wait.missing(gates[j].x) | s.wait.missing(gates[j].y);
    missing |= s.wait.missing(of_token);
    if (!s.wait.some_missing(missing) || s.wait.given_up(polls, 1)) break;
  }
  of_token = unmarked(of_token);
#pragma unroll
  for (int j = 0; j < 2; ++j) gates[j] = make_float2(unmarked(gates[j].x), unmarked(gates[j].y));
  const float* const logits = s.set + own_copy(p) + p.at.logits + token.head * p.memory;
  float logit[2];
#pragma unroll 1
  for (;;) {
    unsigned missing = 0;
#pragma unroll
    for (int j = 0; j < 2; ++j) logit[j] = load_exchanged_word(logits + asked_for[j]);
#pragma unroll
    for (int j = 0; j < 2; ++j) missing |= s.wait.missing(logit[j]);
    if (!s.wait.some_missing(missing) || s.wait.given_up(polls, 2)) break;
  }
  sync_warp();
#pragma unroll
  for (int j = 0; j < 2; ++j) logit[j] = own[j] < p.memory ? unmarked(logit[j]) : -1e30F;
  const float peak = ordered_float(__reduce_max_sync(~0U, ordered_int(fmaxf(logit[0], logit[1]))));
  const float share[2] = {own[0] < p.memory ? __expf(logit[0] - peak) : 0.0F,
                          own[1] < p.memory ? __expf(logit[1] - peak) : 0.0F};
  const float kept[2] = {share[0] * gates[0].x, share[1] * gates[1].x};
  float sums[8] = {};  // the read, the sum of shares, what the token's value counts
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    const float of_slot = __shfl_sync(~0U, kept[j / 4], (lane & 28) + (j & 3));
    sums[0] = fmaf(of_slot, v[j].x, sums[0]), sums[1] = fmaf(of_slot, v[j].y, sums[1]);
    sums[2] = fmaf(of_slot, v[j].z, sums[2]), sums[3] = fmaf(of_slot, v[j].w, sums[3]);
  }
  sums[4] = share[0] + share[1];
  sums[5] = fmaf(share[0], gates[0].y, share[1] * gates[1].y);
#pragma unroll
  for (int o = 1; o < 4; o <<= 1) {
    sums[4] += __shfl_xor_sync(~0U, sums[4], o);
    sums[5] += __shfl_xor_sync(~0U, sums[5], o);
  }
  const float sum = add_rows_apart(sums, lane);
  const float total = __shfl_sync(~0U, sum, 16), written = __shfl_sync(~0U, sum, 20);
  const float value = (row & 2) != 0 ? ((row & 1) != 0 ? of_token.w : of_token.z)
                                     : ((row & 1) != 0 ? of_token.y : of_token.x);
  if (row < 4 && wanted)
    s.wait.write(s.set + p.at.parts + token.head * v_dim + column + row,
                 activate(p.o_act, __fdividef(fmaf(written, value, sum), total)));
  float* const to = token.segment.state_out + at;
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    const int from = (lane & 28) + (j & 3);
    const float decay = __shfl_sync(~0U, gates[j / 4].x, from),
                write = __shfl_sync(~0U, gates[j / 4].y, from);
    if (wanted && first + j < p.memory)
      store_vector(to + j * v_dim, plus_scaled(scaled(v[j], decay), of_token, write));
  }
}

/// This block's share of one layer's slots. No warp waits for another one of the block. `since`:
/// clock of the products' end.
template <int kHead>
__device__ __forceinline__ void step_warp_slots(int phase, int tid, unsigned since) {
  const Decode& p = program<4>(phase);
  const int lane = tid & 31, warp = tid >> 5;
  const int layer = phase >> 2;
  const auto& token = *shared_at<const DecodeToken>(p.shared.token);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  const unsigned use = p.use + unsigned(layer);
  float* const set = p.exchange + std::size_t(use & 1U) * unsigned(p.at.total);
  const ThinStep step{p, token, w, set, Waiter{p, ((use >> 1) & 1U) ^ 1U}, layer, lane, since};
#pragma unroll 1
  for (int local = warp; local < token.count; local += kDecodeWarps)
    warp_slot_logit<kHead>(step, local);
  // The last warps have no logits, if there are enough.
  const int columns = p.columns;
#pragma unroll 1
  for (int c = (kDecodeWarps - 1 - warp) * kThinColumns; c < columns;
       c += kThinColumns * kDecodeWarps)
    warp_slot_read<kHead>(step, token.split * columns + c, min(kThinColumns, columns - c));
}

}  // namespace runnel::cuda
