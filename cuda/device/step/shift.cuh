// SPDX-License-Identifier: Apache-2.0
// The kernel of cuda/step_shift.h. Phases of a layer, each a round of exchange between blocks:
//   project  norm, shift, a lerp for each input that the block needs, rows of q, k, v and of what goes down
//   raise    rows of what comes up from low ranks
//   (state)  `splits` blocks a head: what a token feeds it, the recurrence, its columns of o
//   output   norm of heads, bonus, gate, rows of W_o, residual
//   up       norm, shift, lerp, rows, squared ReLU
//   down     rows, residual
// and the logits. All blocks of the grid must be on the device at once, and each has rows of `up`: so one that writes a
// set of the exchange again has read of all others that they are through with it.
#pragma once

#include "cuda/device/step/shift_products.cuh"
#include "cuda/device/step/shift_state.cuh"

namespace runnel::cuda {

/// The embedding with its norm, all threads.
template <int kRounds>
__device__ __forceinline__ void begin_stream(const ShiftStep& p, int tid) {
  const int token = *p.token, vectors = p.d / 4;
  float* const kept = shared_at<float>(p.shared.x);
#pragma unroll 1
  for (int i = tid; i < p.d / 8; i += kShiftThreads) {
    float v[8];
    unpack8(p.embeddings, token, 8 * i, v);
#pragma unroll
    for (int c = 0; c < 8; ++c) kept[8 * i + c] = v[c];
  }
  sync_first<kShiftThreads>();
  if (p.embedding_norm == nullptr) return;
  float4 x[kRounds], weight[kRounds], bias[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    x[r] = i < vectors ? reinterpret_cast<const float4*>(kept)[i]
                       : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    weight[r] = vector_at(p.embedding_norm, min(i, vectors - 1), 1.0F);
    bias[r] = vector_at(p.embedding_bias, min(i, vectors - 1), 0.0F);
  }
  norm_vectors(x, weight, bias, p.centred != 0, p.embedding_eps, tid, 1);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    if (i < vectors) reinterpret_cast<float4*>(kept)[i] = x[r];
  }
}

/// Everything a thread of the kernel does. kRounds: vectors of four of the residual stream a thread takes.
template <unsigned kTypes, int kRounds>
__device__ __forceinline__ void shift_thread(const ShiftStep& given) {
  const int tid = thread_index(), cta = block_index(), warp = tid >> 5;
  {
    const auto* from = reinterpret_cast<const std::uint32_t*>(&given);
    auto* to = shared_at<std::uint32_t>(0);
#pragma unroll 1
    for (int i = tid; i < int(sizeof(ShiftStep) / 4); i += kShiftAllThreads) to[i] = from[i];
    const auto* layers = reinterpret_cast<const uint4*>(given.layers);
    auto* table = shared_at<uint4>(given.shared.layers);
    const int words = (given.num_layers + 1) * int(sizeof(ShiftLayer) / 16);
#pragma unroll 1
    for (int i = tid; i < words; i += kShiftAllThreads) table[i] = layers[i];
    auto* sources = shared_at<ShiftSources>(given.shared.sources);
    auto* items = shared_at<ShiftItem>(given.shared.items);
#pragma unroll 1
    for (int i = tid; i < given.block_sources; i += kShiftAllThreads)
      sources[i] = given.sources[cta * given.block_sources + i];
#pragma unroll 1
    for (int i = tid; given.shared.items != 0 && i < given.block_items; i += kShiftAllThreads)
      items[i] = given.items[cta * given.block_items + i];
  }
  if (tid == 0) *shared_at<Segment>(given.shared.segment) = *given.segment;
  if (tid < 2 * kShiftWarps * kShiftSlots) {
    barrier_init(shared_at<std::uint64_t>(given.shared.barriers) + tid, 1);
    barrier_publish();
  }
  sync_block();
  if (warp == kShiftWarps) return fill_shift_rings();
  const ShiftStep& p = shift_program();
  ShiftRing ring;
  begin_stream<kRounds>(p, tid);
  const int phases = kShiftPhases * p.num_layers;
#pragma unroll 1
  for (int phase = 0; phase <= phases; ++phase) {
    const int kind = phase == phases ? kShiftPhases : phase % kShiftPhases;
    const ShiftItem first_item = load_item(table_of(p, phase), 0, warp);
    switch (static_cast<ShiftPhase>(kind)) {
      case ShiftPhase::project:
      case ShiftPhase::up:
        shift_inputs<kRounds>(p, phase, cta, tid);
        break;
      case ShiftPhase::raise:
        raise_inputs(p, phase, tid);
        break;
      case ShiftPhase::output:
        output_inputs<kRounds>(p, phase, tid);
        break;
      case ShiftPhase::down:
        down_inputs(p, phase, cta, tid);
        break;
      case ShiftPhase::head:
        head_inputs<kRounds>(p, tid);
        break;
    }
    sync_first<kShiftThreads>();
    multiply_phase<kTypes>(p, ring, phase, first_item, tid);
    if (kind == int(ShiftPhase::raise)) advance_state(p, phase / kShiftPhases, cta, tid);
  }
}

}  // namespace runnel::cuda
