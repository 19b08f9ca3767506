// SPDX-License-Identifier: Apache-2.0
// The slots of fixed shapes whose query heads share them: `splits` blocks per kv head, 64 slots each, all positional
// or all memory. Every block updates its slots, takes the softmax over them alone and reads them for all query heads
// of the group; the blocks that need the output join the splits.
//
// Lanes of a row, 16 (heads of 64) or 32 (of 128), hold a slot's key and value. A lane's vector of the key meets all
// queries at once, whose sums are traded among the lanes; its vector of the value is weighted for all queries at
// once, and warps meet in shared memory. What others wait for is sent before the state is stored.
#pragma once

#include "cuda/device/step/grid_even_products.cuh"
#include "cuda/device/step/slots.cuh"

namespace runnel::cuda {

/// The read of vector `i` of the mixer's output, from the splits that begin at `parts`: [heads, splits, 4 + head]:
/// peak and sum of exponentials, then the read. kTaking 16: both halves of the warp ask for the same vector and join
/// half of the splits each.
template <EvenShape kShape, int kTaking>
__device__ __forceinline__ float4 join_even(const Waiter& wait, const float* parts, int i) {
  constexpr int kHalves = 32 / kTaking, kN = kShape.splits / kHalves;
  constexpr int kStride = kShape.head + 4, kVectors = kShape.head / 4;
  static_assert(kN * kHalves == kShape.splits);
  const int half = kHalves > 1 ? (thread_index() & 31) / kTaking : 0;
  const float* const from = parts + ((i / kVectors) * kShape.splits + half * kN) * kStride;
  const int column = 4 + 4 * (i & (kVectors - 1));
  float4 v[kN];
  float2 about[kN];
  unsigned asked = 0;
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
    if (!wait.some_missing(missing) || wait.given_up(asked, 17)) break;
  }
  sync_warp();
  float peak = -1e30F, total = 0.0F;
#pragma unroll
  for (int s = 0; s < kN; ++s) peak = fmaxf(peak, wait.value(about[s].x));
  if constexpr (kHalves > 1) peak = fmaxf(peak, __shfl_xor_sync(~0U, peak, kTaking));
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll
  for (int s = 0; s < kN; ++s) {
    const float share = __expf(wait.value(about[s].x) - peak);
    sum = plus_scaled(sum, wait.values(v[s]), share);
    total = fmaf(wait.value(about[s].y), share, total);
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
  static constexpr int kRows = kDecodeThreads / kVectors;  // slots that all threads hold at once
  static constexpr int kOwn = kEvenSlots / kRows;          // of a thread
  static constexpr int kStaged =
      (kGroup + 2) * kVectors;  // threads that stage a vector: of q, k or v
  static_assert(kGroup <= 8 && kOwn * kRows == kEvenSlots);
  static_assert((kStaged + 31) / 32 * 32 + kEvenSlots <= kDecodeThreads);

  const Decode& p;
  const DecodeToken& token;
  const Waiter wait;
  float* const set;
  float* const scratch;
  const int lane, warp, row, column;
  const int
      memory;  // number of the block's first slot among the memory slots; negative: positional

  __device__ __forceinline__ bool positional() const { return memory < 0; }
  __device__ __forceinline__ float4* vectors(int at) const {
    return reinterpret_cast<float4*>(scratch + at);
  }
  __device__ __forceinline__ float2 gate(int slot) const {
    return reinterpret_cast<const float2*>(scratch + kAt.gates)[slot];
  }

  /// A vector of q, k or v; q and k turned by the token's position if the slots are positional. All lanes of a warp.
  __device__ __forceinline__ void stage_vector(int tid) const {
    constexpr int kQueries = kShape.wide, kKeys = kQueries / kGroup;
    const int r = min(tid / kVectors, kGroup + 1);  // kGroup: the key, kGroup + 1: the value
    const int from = r < kGroup    ? (token.head * kGroup + r) * kHead
                     : r == kGroup ? kQueries + token.head * kHead
                                   : kQueries + kKeys + token.head * kHead;
    float4 v = wait.read(set + p.at.inputs + from + 4 * column, 1);
    sync_warp();
    float4 near = v;
    if (positional()) {
      constexpr int kHalf = kVectors / 2;
      const auto* const rotation =
          shared_at<const float4>(p.shared.rotation) + 4 * (column & (kHalf - 1));
      const float sign = column < kHalf ? -1.0F : 1.0F;
      const float x[4] = {v.x, v.y, v.z, v.w};
      float turned[4], nearer[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float other = sign * __shfl_xor_sync(~0U, x[e], kHalf);
        const float4 r4 = rotation[e];
        turned[e] = fmaf(other, r4.y, x[e] * r4.x);
        nearer[e] = fmaf(other, r4.w, x[e] * r4.z);
      }
      if (r <= kGroup) v = make_float4(turned[0], turned[1], turned[2], turned[3]);
      near = make_float4(nearer[0], nearer[1], nearer[2], nearer[3]);
    }
    if (r < kGroup) {
      vectors(0)[r * kVectors + column] = v;
      vectors(kAt.near)[r * kVectors + column] = near;
    } else {
      vectors(r == kGroup ? kAt.key : kAt.value)[column] = v;
    }
  }

  /// Decay 1 and write 0 keep a slot; 0 and 1 replace it.
  __device__ __forceinline__ void stage_gate(int slot) const {
    float2 gate =
        token.first + slot == token.target ? make_float2(0.0F, 1.0F) : make_float2(1.0F, 0.0F);
    if (!positional()) {
      const float* const decay = set + p.at.inputs + kShape.wide + 2 * (kShape.wide / kGroup) +
                                 token.head * p.memory + memory + slot;
      const float* const write = decay + p.kv_heads * p.memory;
      unsigned asked = 0;
#pragma unroll 1
      for (;;) {
        gate = make_float2(load_exchanged_word(decay), load_exchanged_word(write));
        if (!wait.some_missing(wait.missing(gate.x) | wait.missing(gate.y)) ||
            wait.given_up(asked, 1))
          break;
      }
      gate = make_float2(wait.value(gate.x), wait.value(gate.y));
    }
    reinterpret_cast<float2*>(scratch + kAt.gates)[slot] = gate;
  }

  /// Products of a thread's key vectors with those of all queries that lie at `queries`.
  template <int kN>
  __device__ __forceinline__ void multiply(const float4 (&k)[kN], int queries,
                                           float (&sums)[kN][kGroup]) const {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      const float4 q = vectors(queries)[g * kVectors + column];
#pragma unroll
      for (int i = 0; i < kN; ++i) sums[i][g] = dot_vectors(k[i], q, 0.0F);
    }
  }

  /// The logits of slots row, row + kRows…: lane g of a row has query g's.
  __device__ __forceinline__ void show_logits(const float (&sums)[kOwn][kGroup],
                                              const float (&bias)[kOwn]) const {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      float sum = add_apart<4>(sums[i], lane);
#pragma unroll
      for (int o = 8; o < kVectors; o <<= 1) sum += __shfl_xor_sync(~0U, sum, o);
      const int slot = row + i * kRows;
      float logit = fmaf(sum, p.scale, bias[i]);
      if (positional() && token.first + slot >= token.written) logit = -1e30F;  // not written yet
      if (column < kGroup) scratch[kAt.logits + column * kEvenSlots + slot] = logit;
    }
  }

  /// Query g's softmax over the block's slots; `to`: its peak and the sum of its exponentials.
  __device__ __forceinline__ void take_softmax(int g, float* to) const {
    const float* const logits = scratch + kAt.logits + g * kEvenSlots;
    float* const shares = scratch + kAt.shares + g;
    const float a = logits[lane], b = logits[lane + 32];
    const float peak = ordered_float(__reduce_max_sync(~0U, ordered_int(fmaxf(a, b))));
    const float of_a = a > -1e29F ? __expf(a - peak) : 0.0F,
                of_b = b > -1e29F ? __expf(b - peak) : 0.0F;
    shares[8 * lane] = of_a, shares[8 * (lane + 32)] = of_b;
    const float sum = warp_sum(of_a + of_b);
    if (lane < 2) wait.write_once(to + lane, lane == 0 ? peak : sum);
  }

  /// A warp's sums of its values under all queries' shares.
  __device__ __forceinline__ void add_values(const float4 (&v)[kOwn]) const {
    float4 read[8];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const float4* const of_slot = vectors(kAt.shares) + 2 * (row + i * kRows);
      const float4 low = of_slot[0], high = of_slot[1];
      const float share[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int g = 0; g < kGroup; ++g)
        read[g] = i == 0 ? scaled(v[i], share[g]) : plus_scaled(read[g], v[i], share[g]);
    }
    float4* const to = vectors(kAt.reads) + warp * kGroup * kVectors + column;
    if constexpr (kVectors == 32) {
#pragma unroll
      for (int g = 0; g < kGroup; ++g) to[g * kVectors] = read[g];
    } else {  // two rows: the upper lanes get the sums of queries 4 and up
      static_assert(kVectors == 16);
      const bool upper = lane >= 16;
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const float4 low = read[g], high = g + 4 < kGroup ? read[g + 4] : read[g];
        float4 mine = upper ? high : low;
        const float4 other = upper ? low : high;
        mine.x += __shfl_xor_sync(~0U, other.x, 16), mine.y += __shfl_xor_sync(~0U, other.y, 16);
        mine.z += __shfl_xor_sync(~0U, other.z, 16), mine.w += __shfl_xor_sync(~0U, other.w, 16);
        const int query = upper ? g + 4 : g;
        if (query < kGroup) to[query * kVectors] = mine;
      }
    }
  }

  /// The sums of all warps, for the blocks that join them.
  __device__ __forceinline__ void show_reads(int tid, float* parts) const {
    constexpr int kApart = kShape.splits * (kHead + 4);  // of two query heads' parts
    constexpr int kFloats = kGroup * kHead;
#pragma unroll
    for (int i = tid; i < kFloats; i += kDecodeThreads) {
      float part[kDecodeWarps];
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) part[w] = scratch[kAt.reads + w * kFloats + i];
      float sum[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) sum[w] = (part[w] + part[w + 4]) + (part[w + 8] + part[w + 12]);
      wait.write_once(parts + (i / kHead) * kApart + 4 + i % kHead,
                      (sum[0] + sum[1]) + (sum[2] + sum[3]));
    }
  }
};

/// This block's share of one layer's slots. `since`: clock of the products' end.
template <EvenShape kShape>
__device__ __forceinline__ void step_even_slots(int phase, int tid, unsigned since) {
  using Step = EvenSlotStep<kShape>;
  constexpr EvenSlots kAt = Step::kAt;
  constexpr int kHead = Step::kHead, kGroup = Step::kGroup, kVectors = Step::kVectors;
  constexpr int kRows = Step::kRows, kOwn = Step::kOwn;
  const Decode& p = program<4>(phase);
  const int layer = phase >> 2;
  const auto& token = *shared_at<const DecodeToken>(p.shared.token);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  const unsigned use = p.use + unsigned(layer);
  const Step step{p,
                  token,
                  {p, ((use >> 1) & 1U) ^ 1U},
                  p.exchange + std::size_t(use & 1U) * unsigned(p.at.total),
                  shared_at<float>(p.shared.slots),
                  tid & 31,
                  tid >> 5,
                  tid / kVectors,
                  tid & (kVectors - 1),
                  token.first - p.sinks - p.window};
  const int warp = step.warp;

  // The state, while the token is on its way.
  const std::size_t keys_at = std::size_t(layer) * p.layer_floats +
                              std::size_t(token.head) * p.head_floats +
                              unsigned((token.first + step.row) * kHead + 4 * step.column);
  constexpr int kValues = kShape.splits * kEvenSlots * kHead;  // behind a head's keys
  const float* const state = token.segment.state_in + keys_at;
  float4 k[kOwn], v[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) k[i] = load_vector(state + i * kRows * kHead);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) v[i] = load_vector(state + kValues + i * kRows * kHead);
  float of_head = 0.0F, bias[kOwn];
  if (!step.positional() && w.head_read_bias != nullptr && step.column < kGroup)
    of_head = w.head_read_bias[token.head * kGroup + step.column];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    bias[i] = of_head;
    if (!step.positional() && w.read_bias != nullptr)
      bias[i] += w.read_bias[token.head * p.memory + step.memory + step.row + i * kRows];
  }
  pause_until(since, p.pauses[4]);
  if (warp < (Step::kStaged + 31) / 32) {
    step.stage_vector(tid);
  } else if (tid >= kDecodeThreads - kEvenSlots) {
    step.stage_gate(tid - (kDecodeThreads - kEvenSlots));
  }
  sync_first<kDecodeThreads>();

  {
    const float4 key = step.vectors(kAt.key)[step.column];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const float2 gate = step.gate(step.row + i * kRows);
      k[i] = plus_scaled(scaled(k[i], gate.x), key, gate.y);
    }
    float sums[kOwn][kGroup];
    step.multiply(k, 0, sums);
    if (token.first + warp * (32 / kVectors) <
        p.sinks) {  // a sink never seems farther than its distance
      const float4 first[1] = {k[0]};
      float near[1][kGroup];
      step.multiply(first, kAt.near, near);
#pragma unroll
      for (int g = 0; g < kGroup; ++g)
        sums[0][g] = token.first + step.row < p.sinks ? near[0][g] : sums[0][g];
    }
    step.show_logits(sums, bias);
  }
  sync_first<kDecodeThreads>();
  float* const parts =
      step.set + p.at.parts + (token.head * kGroup * kShape.splits + token.split) * (kHead + 4);
  if (warp < kGroup) step.take_softmax(warp, parts + warp * kShape.splits * (kHead + 4));
  {
    const float4 value = step.vectors(kAt.value)[step.column];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const float2 gate = step.gate(step.row + i * kRows);
      v[i] = plus_scaled(scaled(v[i], gate.x), value, gate.y);
    }
  }
  sync_first<kDecodeThreads>();
  step.add_values(v);
  sync_first<kDecodeThreads>();
  step.show_reads(tid, parts);
  float* const kept = token.segment.state_out + keys_at;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    store_vector(kept + i * kRows * kHead, k[i]);
    store_vector(kept + kValues + i * kRows * kHead, v[i]);
  }
}

}  // namespace runnel::cuda
