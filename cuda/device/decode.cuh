// SPDX-License-Identifier: Apache-2.0
// The decode kernel of cuda/decode.h. Phases of a layer, each a round of exchange between blocks:
//   0  q, k, v, f   every block: RMSNorm x, round, its rows of W
//   -  slots        `splits` blocks a kv head, each some of its slots: update, softmax over its own
//                   slots, read; what the splits found is joined by whoever reads it
//   1  output       join, activation, norm, round, its rows of W_o, residual
//   2  gate, up     RMSNorm, round, its rows, SwiGLU
//   3  down         round, its rows, residual
// and 4, the logits. All blocks of the grid must be on the device at once.
//
// A place of the exchange is written once a layer. Sets alternate between layers; a set is written
// again only by a block that has read the next layer's values of everybody, who by then have read
// everything of the layer before. So one bit tells this use of a place from the last.
#pragma once

#include "cuda/device/decode_inputs.cuh"
#include "cuda/device/decode_products.cuh"
#include "cuda/device/decode_slots.cuh"
#include "cuda/device/decode_token.cuh"

namespace runnel::cuda {

/// This block's rows, to whoever needs them.
__device__ __forceinline__ void publish(int phase, float factor) {
  const Decode& p = program<3>(phase);
  const int tid = thread_index() + hidden_zero<3>(phase), layer = phase >> 2;
  const int kind = layer == p.num_layers ? 4 : phase & 3;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  // The inputs' matrices are shared out among the warps.
  constexpr int kPart = kDecodeThreads / kDecodeInputs;
  const int part = kind == 0 ? kPart : kDecodeThreads, mine = tid & (part - 1);
  const DecodeMatrix& m = w.matrices[kind == 0 ? tid / kPart : kDecodeInputs - 1 + kind];
  if (m.shape < 0) return;
  const DecodeShape& s = p.shapes[m.shape];
  const int2 range = shared_at<const int2>(p.shared.ranges)[m.shape];
  const unsigned char* const owners = shared_at<const unsigned char>(p.shared.owners) + s.owners_at;
  const float* const sums = shared_at<const float>(p.shared.partial) + m.partial;
  const int first = range.x << s.row_shift;
  const int rows = min(s.rows, range.y << s.row_shift) - first;
  const unsigned use = p.use + unsigned(layer);
  float* const set = p.exchange + std::size_t(use & 1U) * unsigned(p.at.total);
  const Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  if (kind == 2) {
#pragma unroll 1
    for (int c = mine; c < rows / 2; c += part) {
      const float g = row_sum(s, owners, sums, 2 * c) * factor,
                  u = row_sum(s, owners, sums, 2 * c + 1) * factor;
      wait.write(set + p.at.h + first / 2 + c, swish(g) * u);
    }
    return;
  }
  const float* x = shared_at<const float>(p.shared.x);
  float* const to = set + (kind == 0 ? p.at.inputs + m.column : kind == 1 ? p.at.x1 : p.at.x2);
#pragma unroll 1
  for (int r = mine; r < rows; r += part) {
    const int row = first + r;
    const float before = (kind & 1) != 0 ? x[row] : 0.0F;
    const float v = fmaf(row_sum(s, owners, sums, r), factor, before);
    if (kind == 4) {
      p.logits[row] = v;
    } else {
      wait.write(to + row, v);
      // What follows the last layer has a place of its own too: blocks that only take part in the
      // head wait for it from the beginning, and must not take an earlier layer for the last.
      if (kind == 3 && layer + 1 == p.num_layers)
        Waiter{p, p.final_bit}.write(p.exchange + p.in_at[4] + row, v);
    }
  }
}

/// What can be done before the first layer: the embedding, rotations.
__device__ __forceinline__ void begin_token() {
  const Decode& p = program<0>(0);
  const auto& about = *shared_at<const DecodeToken>(p.shared.token);
  const int tid = thread_index(), token = *p.token;
  float* x = shared_at<float>(p.shared.x);
#pragma unroll 1
  for (int i = tid; i < p.d / 8; i += kDecodeThreads) {
    float v[8];
    unpack8(p.embeddings, token, 8 * i, v);
#pragma unroll
    for (int c = 0; c < 8; ++c) x[8 * i + c] = v[c];
  }
  if (about.head >= 0 && p.sinks + p.window > 0) {
    auto* rotation = shared_at<float4>(p.shared.rotation);
    make_rotation<kDecodeThreads>(p.turns, p.k_dim / 2, about.segment.position, p.sink_distance,
                                  tid, [rotation](int i, float4 r) { rotation[i] = r; });
  }
}

/// A thread of the warps that multiply.
template <unsigned kTypes, int kItems>
__device__ __forceinline__ void consume(int cta) {
  const Decode& p = program<0>(0);
  const bool in_layers = cta < p.blocks;
  const bool has_slots = shared_at<const DecodeToken>(p.shared.token)->head >= 0;
  Trace trace{p.trace != nullptr && thread_index() == 0 && cta < 2 ? p.trace + cta * kDecodeTrace
                                                                   : nullptr};
  trace.mark();
  if (in_layers) {
    begin_token();
    sync_first<kDecodeThreads>();
  }
  trace.mark();
  Ring ring;
  const int phases = 4 * p.num_layers;
#pragma unroll 1
  for (int phase = in_layers ? 0 : phases; phase <= phases; ++phase) {
    const int kind = phase == phases ? 4 : phase & 3;
    const Job job = take_job(phase, kind, 0);  // while there is nothing else to do
    if (phase < phases && (phase & 3) == 1) {
      join_input(phase);
    } else {
      const int vectors = (phase < phases && (phase & 3) == 3 ? p.inner : p.d) / 4;
      if (vectors <= kDecodeThreads) {
        take_input<1>(phase, in_layers);
      } else if (vectors <= 2 * kDecodeThreads) {
        take_input<2>(phase, in_layers);
      } else {
        take_input<kDecodeRounds>(phase, in_layers);
      }
    }
    trace.mark();
    sync_first<kDecodeThreads>();
    trace.mark();
    const float factor = norm_factor(phase);
    multiply<kTypes>(ring, phase, kind, job);
    trace.mark();
    sync_first<kDecodeThreads>();
    publish(phase, factor);
    trace.mark();
    if (has_slots && phase < phases && (phase & 3) == 0) {
      if constexpr (kItems == 1) {
        step_slots<1, 0>(phase);
      } else if (program<0>(phase).key_groups == 2) {
        step_slots<kItems, 2>(phase);
      } else {
        step_slots<kItems, -1>(phase);
      }
      trace.mark();
    }
  }
}

/// A block's tiles of the matrices of one shape.
__device__ __forceinline__ int2 tiles_of(const Decode& p, const DecodeShape& s, int cta) {
  const int blocks = s.everybody != 0 ? p.grid : p.blocks, units = s.tiles / s.unit;
  if (cta >= blocks) return make_int2(0, 0);
  return make_int2(int((long long)(units)*cta / blocks) * s.unit,
                   int((long long)(units) * (cta + 1) / blocks) * s.unit);
}

/// Everything a thread of the kernel does.
template <unsigned kTypes, int kItems>
__device__ __forceinline__ void decode_thread(const Decode& given) {
  const int tid = thread_index(), cta = block_index();
  constexpr int kThreads = kDecodeAllThreads;
  {
    const auto* from = reinterpret_cast<const std::uint32_t*>(&given);
    auto* to = shared_at<std::uint32_t>(0);
#pragma unroll 1
    for (int i = tid; i < int(sizeof(Decode) / 4); i += kThreads) to[i] = from[i];
    const auto* layers = reinterpret_cast<const std::uint64_t*>(given.layers);
    auto* table = shared_at<std::uint64_t>(given.shared.layers);
    const int words = (given.num_layers + 1) * int(sizeof(DecodeLayer) / 8);
#pragma unroll 1
    for (int i = tid; i < words; i += kThreads) table[i] = layers[i];
  }
  // The table of runs: a warp a shape, for as long as there are warps.
#pragma unroll 1
  for (int i = tid; i < given.num_shapes * 32; i += kThreads) {
    const int shape = i >> 5, lane = i & 31;
    const DecodeShape& s = given.shapes[shape];
    const int2 range = tiles_of(given, s, cta);
    const int tiles = range.y - range.x, total = tiles * s.steps;
    if (lane == 0) shared_at<int2>(given.shared.ranges)[shape] = range;
    unsigned char* const owners = shared_at<unsigned char>(given.shared.owners) + s.owners_at;
#pragma unroll 1
    for (int t = lane; t < tiles; t += 32)
      owners[t] = static_cast<unsigned char>(tile_owners(s.steps, t, total));
    if (lane >= kDecodeWarps) continue;
    const int begin = first_step(lane, total);
    DecodeRun run;
    run.count = first_step(lane + 1, total) - begin;
    if (run.count > 0) {
      const int tile = begin / s.steps;
      run.at = begin - tile * s.steps;
      const int before = total < kDecodeWarps ? run.at : lane - step_owner(tile * s.steps, total);
      run.next = (tile + 1) * s.ways_rows;
      run.partial = tile * s.ways_rows + (before << s.row_shift);
      run.first = range.x * s.steps + begin;
    }
    shared_at<DecodeRun>(given.shared.runs)[shape * kDecodeWarps + lane] = run;
  }
  if (tid == 32) {
    DecodeToken t;
    t.segment = *given.segment;
    take_slots(given, cta, t);
    const std::uint64_t position = t.segment.position;
    t.target = positional_target(position, given.sinks, given.window);
    t.written = position < kDecodeSlots ? int(position) + 1 : kDecodeSlots;
    *shared_at<DecodeToken>(given.shared.token) = t;
  }
  if (tid == 0) {
    auto* barriers = shared_at<std::uint64_t>(given.shared.barriers);
#pragma unroll 1
    for (int i = 0; i < given.ring_slots * kDecodeWarps; ++i) barrier_init(barriers + i, 1);
#pragma unroll 1
    for (int i = 0; i < kDecodeWarps; ++i) shared_at<std::uint32_t>(given.shared.emptied)[i] = 0;
    barrier_publish();
  }
  sync_block();
  if (tid < kDecodeThreads) {
    more_registers<kDecodeRegisters>();
    consume<kTypes, kItems>(cta);
  } else {
    fewer_registers<kDecodeFillRegisters>();
    // A few lanes of each warp: one lane's copies wait for another's.
    constexpr int kLanes = kDecodeWarps / (kDecodeFillThreads / 32);
    const int lane = tid & 31, warp = (tid - kDecodeThreads) >> 5;
    if (lane < kLanes) fill_rings(cta, warp * kLanes + lane);
  }
}

}  // namespace runnel::cuda
