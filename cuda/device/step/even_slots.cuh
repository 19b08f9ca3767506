// SPDX-License-Identifier: Apache-2.0
// The slots of fixed shapes whose query heads share them: `splits` blocks per query head, `share` slots each, all
// positional or all memory. A block advances its slots and reads them for its query head under a softmax over them
// alone; the blocks that need the output join the splits.
//
// A warp has some of the slots, 16 lanes (heads of 64) or 32 (of 128) each, takes their softmax by itself and weighs
// their values; warps meet once before, for q, k and v, and once behind, where their reads are joined. The slots
// themselves advance when the read is on its way.
//
// The blocks of a group's query heads read the same slots, and each stores some of them when it has the input of
// the output projection: by then all have read.
#pragma once

#include "cuda/device/step/grid_even_products.cuh"
#include "cuda/device/step/slots.cuh"

namespace runnel::cuda {

/// The read of vector `i` of the mixer's output, from the splits that begin at `parts`: [heads, splits, 4 + head]:
/// peak and sum of exponentials, then the read. kTaking 16: both halves of the warp ask for the same vector and join
/// half of the splits each, if their number is even.
template <EvenShape kShape, int kTaking>
__device__ __forceinline__ float4 join_even(const Waiter& wait, const float* parts, int i) {
  constexpr int kHalves = kShape.splits % 2 == 0 ? 32 / kTaking : 1, kN = kShape.splits / kHalves;
  constexpr int kStride = kShape.head + 4, kVectors = kShape.head / 4;
  const int half = kHalves > 1 ? (thread_index() & 31) / kTaking : 0;
  const float* const from = parts + ((i / kVectors) * kShape.splits + half * kN) * kStride;
  const int column = 4 + 4 * (i & (kVectors - 1));
  float4 v[kN];
  float2 about[kN];
  unsigned polls = 0;
#pragma unroll 1
  for (;;) {
    unsigned missing = 0;
#pragma unroll
    for (int s = 0; s < kN; ++s) {
      about[s] = load_exchanged_pair(from + s * kStride);
      v[s] = load_exchanged(from + s * kStride + column);
    }
#pragma unroll
    for (int s = 0; s < kN; ++s)
      missing |= wait.missing(v[s]) | wait.missing(about[s].x) | wait.missing(about[s].y);
    if (!wait.some_missing(missing) || wait.given_up(polls, 17)) break;
  }
  sync_warp();
  float peak = -1e30F, total = 0.0F;
#pragma unroll
  for (int s = 0; s < kN; ++s) peak = fmaxf(peak, unmarked(about[s].x));
  if constexpr (kHalves > 1) peak = fmaxf(peak, __shfl_xor_sync(~0U, peak, kTaking));
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll
  for (int s = 0; s < kN; ++s) {
    const float share = __expf(unmarked(about[s].x) - peak);
    sum = plus_scaled(sum, unmarked(v[s]), share);
    total = fmaf(unmarked(about[s].y), share, total);
  }
  if constexpr (kHalves > 1) {
    total += __shfl_xor_sync(~0U, total, kTaking);
    sum.x += __shfl_xor_sync(~0U, sum.x, kTaking), sum.y += __shfl_xor_sync(~0U, sum.y, kTaking);
    sum.z += __shfl_xor_sync(~0U, sum.z, kTaking), sum.w += __shfl_xor_sync(~0U, sum.w, kTaking);
  }
  return scaled(sum, __fdividef(1.0F, total));
}

/// What one token is to the slots of a block, and where its values lie.
template <EvenShape kShape>
struct EvenSlotStep {
  static constexpr EvenSlots kAt = EvenSlots::of(kShape);
  static constexpr int kHead = kShape.head, kGroup = kShape.group, kVectors = kHead / 4;
  static constexpr int kRows = 32 / kVectors;  // slots that a warp's lanes hold at once
  static constexpr int kPerWarp = kShape.share / kDecodeWarps;  // slots
  static constexpr int kOwn = kPerWarp / kRows;                 // of a lane
  // Threads that stage a vector of q, k or v.
  static constexpr int kStaged = (3 * kVectors + 31) / 32 * 32;
  static_assert((kVectors == 16 || kVectors == 32) && kPerWarp * kDecodeWarps == kShape.share);
  static_assert((kOwn == 2 || kOwn == 4 || kOwn == 8) && kOwn <= kGroup);

  const Decode& p;
  const DecodeToken& token;
  const Waiter wait;
  float* const set;
  float* const scratch;
  const int lane, warp, column;
  const int row;  // the lane's first slot in the block; the next are kRows apart
  // Number of the block's first slot among the memory slots; negative: positional.
  const int memory;

  static __device__ __forceinline__ EvenSlotStep of(const Decode& p, int layer, int tid) {
    const auto& token = *shared_at<const DecodeToken>(p.shared.token);
    const unsigned use = p.use + unsigned(layer);
    const int lane = tid & 31, warp = tid >> 5;
    return {p,
            token,
            {p, ((use >> 1) & 1U) ^ 1U},
            p.exchange + std::size_t(use & 1U) * unsigned(p.at.total),
            shared_at<float>(p.shared.slots),
            lane,
            warp,
            lane & (kVectors - 1),
            warp * kPerWarp + lane / kVectors,
            token.first - p.sinks - p.window};
  }
  __device__ __forceinline__ bool positional() const { return memory < 0; }
  __device__ __forceinline__ float4* vectors(int at) const {
    return reinterpret_cast<float4*>(scratch + at);
  }
  /// Where the state has the lane's part of slot row + i * kRows; its value lies kValues behind the key.
  static constexpr int kValues = kShape.splits * kShape.share * kHead;
  __device__ __forceinline__ std::size_t state_at(int layer, int i) const {
    return std::size_t(layer) * p.layer_floats + std::size_t(token.head) * p.head_floats +
           unsigned((token.first + row + i * kRows) * kHead + 4 * column);
  }
  /// The same of a value of slot i that lane i of the row has.
  __device__ __forceinline__ float of_slot(float v, int i) const {
    return __shfl_sync(~0U, v, (lane & ~(kVectors - 1)) | i);
  }

  /// A vector of q, k or v; q and k turned by the token's position if the slots are positional. All lanes of a warp.
  __device__ __forceinline__ void stage_vector(int tid) const {
    constexpr int kQueries = kShape.wide, kKeys = kQueries / kGroup;
    const int r = min(tid / kVectors, 2);
    const int from = r == 0   ? (token.head * kGroup + token.query) * kHead
                     : r == 1 ? kQueries + token.head * kHead
                              : kQueries + kKeys + token.head * kHead;
    float4 v = wait.read(set + p.at.inputs + from + 4 * column, 1);
    sync_warp();
    if (positional()) {
      constexpr int kHalf = kVectors / 2;
      const auto* const rotation =
          shared_at<const float4>(p.shared.rotation) + 4 * (column & (kHalf - 1));
      const float sign = column < kHalf ? -1.0F : 1.0F;
      const float x[4] = {v.x, v.y, v.z, v.w};
      float turned[4], near[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float other = sign * __shfl_xor_sync(~0U, x[e], kHalf);
        const float4 r4 = rotation[e];
        turned[e] = fmaf(other, r4.y, x[e] * r4.x);
        near[e] = fmaf(other, r4.w, x[e] * r4.z);
      }
      if (r < 2) v = make_float4(turned[0], turned[1], turned[2], turned[3]);
      if (r == 0) vectors(kAt.near)[column] = make_float4(near[0], near[1], near[2], near[3]);
    }
    vectors(r == 0 ? 0 : r == 1 ? kAt.key : kAt.value)[column] = v;
  }

  /// Slot i has lane i of a row and every kOwn lanes further. Decay 1 and write 0 keep a slot; 0 and 1 replace it.
  struct Gate {
    float2 v;
    const float* decay;  // where it is exchanged, of memory slots
  };
  __device__ __forceinline__ float2 load_gate(const float* decay) const {
    return {load_exchanged_word(decay), load_exchanged_word(decay + p.kv_heads * p.memory)};
  }
  /// Asks for it: it is on its way while the slots' products are made.
  __device__ __forceinline__ Gate ask_for_gate() const {
    const int slot = row + (column & (kOwn - 1)) * kRows;
    if (positional()) {
      return {
          token.first + slot == token.target ? make_float2(0.0F, 1.0F) : make_float2(1.0F, 0.0F),
          nullptr};
    }
    const float* const decay = set + p.at.inputs + kShape.wide + 2 * (kShape.wide / kGroup) +
                               token.head * p.memory + memory + slot;
    return {load_gate(decay), decay};
  }
  __device__ __forceinline__ float2 take_gate(Gate gate) const {
    if (positional()) return gate.v;
    unsigned polls = 0;
#pragma unroll 1
    while (wait.some_missing(wait.missing(gate.v.x) | wait.missing(gate.v.y)) &&
           !wait.given_up(polls, 1)) {
      gate.v = load_gate(gate.decay);
    }
    sync_warp();
    return make_float2(unmarked(gate.v.x), unmarked(gate.v.y));
  }

  /// The products of the lane's keys with the query at `query`: lane i of a row has that of slot i.
  __device__ __forceinline__ float multiply(const float4 (&k)[kOwn], float4 query) const {
    float sums[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) sums[i] = dot_vectors(k[i], query, 0.0F);
    float sum = add_apart<kOwn / 2>(sums, lane);
#pragma unroll
    for (int o = kOwn; o < kVectors; o <<= 1) sum += __shfl_xor_sync(~0U, sum, o);
    return sum;
  }

  /// The product of the token's key with a query, in every lane of a row.
  static __device__ __forceinline__ float multiply_key(float4 key, float4 query) {
    float sum = dot_vectors(key, query, 0.0F);
#pragma unroll
    for (int o = 1; o < kVectors; o <<= 1) sum += __shfl_xor_sync(~0U, sum, o);
    return sum;
  }

  /// What the model adds to the logit of slot i, in lane i of a row.
  __device__ __forceinline__ float slot_bias(int layer) const {
    if (positional()) return 0.0F;
    const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
    float bias = 0.0F;
    if (w.head_read_bias != nullptr) bias = w.head_read_bias[token.head * kGroup + token.query];
    if (w.read_bias != nullptr)
      bias += w.read_bias[token.head * p.memory + memory + row + (column & (kOwn - 1)) * kRows];
    return bias;
  }

  /// The warp's slots with the token under a softmax over them, for join_warps(). A slot (k, v) with decay a and write w
  /// becomes (a k + w key, a v + w value); here only the products with them do: its logit from a (k q) + w (key q), and
  /// of the read sum(p a v) + sum(p w) value. `bias`: of slot i in lane i of a row.
  /// @return its gate
  __device__ __forceinline__ float2 read(const float4 (&k)[kOwn], const float4 (&v)[kOwn],
                                         float bias) const {
    const Gate asked = ask_for_gate();
    const float4 query = vectors(0)[column], key = vectors(kAt.key)[column];
    float sum = multiply(k, query), written = multiply_key(key, query);
    const int slot = token.first + row + (column & (kOwn - 1)) * kRows;
    if (token.first + warp * kPerWarp < p.sinks) {  // a sink never seems farther than its distance
      const float4 query_near = vectors(kAt.near)[column];
      const float near = multiply(k, query_near);
      sum = slot < p.sinks ? near : sum;
      if (token.target >= 0 && token.target < p.sinks) written = multiply_key(key, query_near);
    }
    const float2 gate = take_gate(asked);
    float logit = fmaf(fmaf(sum, gate.x, written * gate.y), p.scale, bias);
    if (positional() && slot >= token.written) logit = -1e30F;  // not written yet
    const float peak = ordered_float(__reduce_max_sync(~0U, ordered_int(logit)));
    const float share = logit > -1e29F ? __expf(logit - peak) : 0.0F, kept = share * gate.x;
    float4 sums = scaled(v[0], of_slot(kept, 0));
#pragma unroll
    for (int i = 1; i < kOwn; ++i) sums = plus_scaled(sums, v[i], of_slot(kept, i));
    float total = share, added = share * gate.y;
#pragma unroll
    for (int o = 1; o < kOwn; o <<= 1) {
      total += __shfl_xor_sync(~0U, total, o);
      added += __shfl_xor_sync(~0U, added, o);
    }
    sums = plus_scaled(sums, vectors(kAt.value)[column], added);
    if constexpr (kRows == 2) {
      total += __shfl_xor_sync(~0U, total, 16);
      sums.x += __shfl_xor_sync(~0U, sums.x, 16), sums.y += __shfl_xor_sync(~0U, sums.y, 16);
      sums.z += __shfl_xor_sync(~0U, sums.z, 16), sums.w += __shfl_xor_sync(~0U, sums.w, 16);
    }
    if (lane < kVectors)
      vectors(kAt.reads)[warp * (EvenSlots::read_stride(kShape) / 4) + lane] = sums;
    if (lane == 0) scratch[kAt.peaks + warp] = peak, scratch[kAt.sums + warp] = total;
    return gate;
  }

  /// The reads of all warps, for the blocks that join the splits. Four threads have a column, a quarter of the warps
  /// each.
  __device__ __forceinline__ void join_warps(int tid) const {
    constexpr int kEach = kDecodeWarps / 4;
    static_assert(4 * kHead <= kDecodeThreads);
    if (tid >= 4 * kHead) return;
    const int at = tid >> 2, quarter = tid & 3;
    float peaks[kEach], peak = -1e30F, sum = 0.0F, total = 0.0F;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      peaks[i] = scratch[kAt.peaks + quarter + 4 * i];
      peak = fmaxf(peak, peaks[i]);
    }
    peak = fmaxf(peak, __shfl_xor_sync(~0U, peak, 1));
    peak = fmaxf(peak, __shfl_xor_sync(~0U, peak, 2));
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int of = quarter + 4 * i;
      const float factor = __expf(peaks[i] - peak);
      sum = fmaf(scratch[kAt.reads + of * EvenSlots::read_stride(kShape) + at], factor, sum);
      total = fmaf(scratch[kAt.sums + of], factor, total);
    }
#pragma unroll
    for (int o = 1; o < 4; o <<= 1) {
      sum += __shfl_xor_sync(~0U, sum, o);
      total += __shfl_xor_sync(~0U, total, o);
    }
    if (quarter != 0) return;
    float* const part =
        set + p.at.parts +
        ((token.head * kGroup + token.query) * kShape.splits + token.split) * (kHead + 4);
    wait.write_once(part + 4 + at, sum);
    if (at == 0) wait.write_once(part, peak);
    if (at == 1) wait.write_once(part + 1, total);
  }

  /// The slots that this block has to store, with the token.
  __device__ __forceinline__ void keep(const float4 (&k)[kOwn], const float4 (&v)[kOwn],
                                       float2 gate, int tid) const {
    const float4 key = vectors(kAt.key)[column], value = vectors(kAt.value)[column];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (i != token.query) continue;
      const float decay = of_slot(gate.x, i), write = of_slot(gate.y, i);
      vectors(kAt.kept)[tid] = plus_scaled(scaled(k[i], decay), key, write);
      vectors(kAt.kept)[kDecodeThreads + tid] = plus_scaled(scaled(v[i], decay), value, write);
    }
  }
};

/// This block's share of one layer's slots. `since`: clock of the products' end.
template <EvenShape kShape>
__device__ __forceinline__ void step_even_slots(int phase, int tid, unsigned since) {
  using Step = EvenSlotStep<kShape>;
  constexpr int kOwn = Step::kOwn, kApart = Step::kRows * kShape.head;
  const Decode& p = program<4>(phase);
  const int layer = phase >> 2;
  const Step step = Step::of(p, layer, tid);

  // The state, while the token is on its way.
  const float* const state = step.token.segment.state_in + step.state_at(layer, 0);
  float4 k[kOwn], v[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) k[i] = load_vector(state + i * kApart);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) v[i] = load_vector(state + Step::kValues + i * kApart);
  const float bias = step.slot_bias(layer);
  pause_until(since, p.pauses[4]);
  if (tid < Step::kStaged) step.stage_vector(tid);
  sync_first<kDecodeThreads>();

  const float2 gate = step.read(k, v, bias);
  sync_first<kDecodeThreads>();
  step.join_warps(tid);
  step.keep(k, v, gate, tid);
}

/// Stores what step_even_slots() has left to this block. Every block's part of the layer's output has been seen.
template <EvenShape kShape>
__device__ __forceinline__ void store_even_slots(int phase, int tid) {
  using Step = EvenSlotStep<kShape>;
  const Decode& p = program<4>(phase);
  const int layer = phase >> 2;
  const Step step = Step::of(p, layer, tid);
  if (step.token.query >= Step::kOwn) return;
  float* const to = step.token.segment.state_out + step.state_at(layer, step.token.query);
  store_vector(to, step.vectors(Step::kAt.kept)[tid]);
  store_vector(to + Step::kValues, step.vectors(Step::kAt.kept)[kDecodeThreads + tid]);
}

}  // namespace runnel::cuda
