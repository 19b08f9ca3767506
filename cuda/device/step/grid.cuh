// SPDX-License-Identifier: Apache-2.0
// The decode kernel of cuda/step_grid.h. Phases of a layer, each a round of exchange between blocks:
//   0  q, k, v, f   every block: RMSNorm x, round, its rows of W
//   -  slots        `splits` blocks a kv head, each some of its slots: update, softmax over its own
//                   slots, read; the reading blocks join what the splits found
//                   (slots that warps share are exchanged twice: step/warp_slots.cuh)
//   1  output       join, activation, norm, round, its rows of W_o, residual
//   2  gate, up     RMSNorm, round, its rows, SwiGLU
//   3  down         round, its rows, residual
// and 4, the logits. All blocks of the grid must be on the device at once.
//
// A place of the exchange is written once a layer. Sets alternate between layers; a set is written
// again only by a block that has read the next layer's values of all blocks, which by then have read
// everything of the layer before. So one bit tells this use of a place from the last.
#pragma once

#include "cuda/device/sample/choice.cuh"
#include "cuda/device/step/inputs.cuh"
#include "cuda/device/step/products.cuh"
#include "cuda/device/step/slots.cuh"
#include "cuda/device/step/token.cuh"
#include "cuda/device/step/warp_slots.cuh"

namespace runnel::cuda {

/// What a thread shows of a phase's rows, and where. Made before the input is there.
struct Shown {
  int left = 0, step = 0;          // rows (of gate, up: pairs) from the thread's first on
  int row = 0, sums = 0;           // the first; where the parts of its sum are in shared memory
  int ways_shift = 0, column = 0;  // column: of the exchanged inputs
  float* to = nullptr;
  unsigned bit = 0;
  float before = 0.0F;  // of the first row: what the sum is added to
};
__device__ __forceinline__ Shown prepare_rows(int phase, int kind, int tid) {
  const Decode& p = program<3>(phase);
  const int layer = phase >> 2;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  // The inputs' matrices are shared out among the warps.
  constexpr int kPart = kDecodeThreads / kDecodeInputs;
  const int part = kind == 0 ? kPart : kDecodeThreads, mine = tid & (part - 1);
  const DecodeMatrix& m = w.matrices[kind == 0 ? tid / kPart : kDecodeInputs - 1 + kind];
  Shown s;
  if (m.shape < 0) return s;
  const DecodeShape& shape = p.shapes[m.shape];
  const int2 range = shared_at<const int2>(p.shared.ranges)[m.shape];
  const int pairs = kind == 2 ? 1 : 0, first = (range.x << shape.row_shift) >> pairs;
  const unsigned use = p.use + unsigned(layer);
  s.left = (min(shape.rows, range.y << shape.row_shift) >> pairs) - first - mine;
  s.step = part, s.row = first + mine, s.ways_shift = shape.ways_shift;
  s.sums = p.shared.partial + 4 * (m.partial + (mine << (s.ways_shift + pairs)));
  s.column = m.column + s.row;
  s.bit = ((use >> 1) & 1U) ^ 1U;
  // Now, since other warps may come to the next input while this one still shows.
  if ((kind & 1) != 0 && s.left > 0) s.before = shared_at<const float>(p.shared.x)[s.row];
  s.to = kind == 4 ? p.logits + s.row
                   : p.exchange + std::size_t(use & 1U) * unsigned(p.at.total) +
                         (kind == 0   ? p.at.inputs + s.column
                          : kind == 1 ? p.at.x1 + s.row
                          : kind == 2 ? p.at.h + s.row
                                      : p.at.x2 + s.row);
  return s;
}

/// What the slots need of the row of gate `index`, if warps share the slots.
__device__ __forceinline__ void show_gate(const Decode& p, const Waiter& wait, int layer, int index,
                                          float v, float* to) {
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  if (w.f_bias != nullptr) v += w.f_bias[index];
  const float2 gate = gate_of(v, p.gate_normalizer, p.gate_log_min);
  wait.write(to, gate.x);
  wait.write(to + p.kv_heads * p.memory, gate.y);
}
/// The same of any input's row: its activation, or its gate.
__device__ __forceinline__ void show_input(const Decode& p, const Waiter& wait, int layer,
                                           int column, float v, float* to) {
  const int values = (p.heads + p.kv_heads) * p.k_dim, gates = values + p.kv_heads * p.v_dim;
  if (column < gates) {
    wait.write(to, activate(column < values ? p.qk_act : p.v_act, v));
  } else {
    show_gate(p, wait, layer, column - gates, v, to);
  }
}

/// A row of q, k or v with its bias.
__device__ __forceinline__ float with_bias(const Decode& p, int layer, int column, float v) {
  const float* bias = shared_at<const DecodeLayer>(p.shared.layers)[layer].norms[kQkvBias];
  const int gates = (p.heads + p.kv_heads) * p.k_dim + p.kv_heads * p.v_dim;
  return column < gates ? v + bias[column] : v;
}

/// This block's rows, for the blocks that need them.
/// @return of the head, the thread's choice among its rows
template <bool kThin, bool kBiased>
__device__ __forceinline__ std::uint64_t publish(int phase, int kind, Shown s) {
  std::uint64_t best = 0;
  if (s.left <= 0) return best;
  const Decode& p = program<3>(phase);
  const float factor = norm_factor(p, phase, kind);
  const Waiter wait{p, s.bit};
#pragma unroll 1
  for (; s.left > 0; s.left -= s.step) {
    const float* const sums = shared_at<const float>(s.sums);
    float v = row_sum(sums, s.ways_shift) * factor;
    if (kind == 2) {
      v = swish(v) * (row_sum(sums + (1 << s.ways_shift), s.ways_shift) * factor);
      s.sums += 4 * (s.step << s.ways_shift);
    } else if ((kind & 1) != 0) {
      v += s.before;
    }
    s.sums += 4 * (s.step << s.ways_shift);
    if constexpr (kBiased) {
      if (kind == 0) {
        v = with_bias(p, phase >> 2, s.column, v);
        s.column += s.step;
      }
    }
    if (kind == 4) {
      *s.to = v;
      const std::uint64_t choice = choice_of(v, std::uint32_t(s.row));
      best = choice > best ? choice : best;
    } else if (kThin && kind == 0) {
      show_input(p, wait, phase >> 2, s.column, v, s.to);
      s.column += s.step;
    } else {
      wait.write(s.to, v);
      // What follows the last layer has a place of its own too: blocks that only take part in the
      // head wait for it from the beginning, and must not take an earlier layer for the last.
      if (kind == 3 && (phase >> 2) + 1 == p.num_layers)
        Waiter{p, p.final_bit}.write_once(p.exchange + p.in_at[4] + s.row, v);
    }
    s.row += s.step, s.to += s.step;
    if ((kind & 1) != 0 && s.left > s.step) s.before = shared_at<const float>(p.shared.x)[s.row];
  }
  return best;
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

/// The input of a phase, all threads of the block.
template <int kColumns>
__device__ __forceinline__ void take_columns(int phase, int kind, int tid, bool in_layers) {
  constexpr int kRounds = (kColumns / 4 + kDecodeThreads - 1) / kDecodeThreads;
  if constexpr (kColumns > 0) {
    take_input<kRounds, kColumns>(phase, tid, in_layers);
  } else {
    const int vectors = program<0>(phase).widths[kind] / 4;
    if (vectors <= kDecodeThreads) {
      take_input<1, 0>(phase, tid, in_layers);
    } else if (vectors <= 2 * kDecodeThreads) {
      take_input<2, 0>(phase, tid, in_layers);
    } else {
      take_input<kDecodeRounds, 0>(phase, tid, in_layers);
    }
  }
}

/// Clocks of the first thread, if they are wanted.
struct Marks {
  bool wanted;

  static __device__ __forceinline__ Marks of(const Decode& p, int cta) {
    const bool wanted = p.trace != nullptr && thread_index() == 0;
    if (wanted) *shared_at<std::uint64_t*>(p.shared.marks) = p.trace + cta * kDecodeTrace;
    return {wanted};
  }
  __device__ __forceinline__ void mark() const {
    if (!wanted) return;
    auto* const next = shared_at<std::uint64_t*>(program<0>(0).shared.marks);
    *(*next)++ = clock_now();
  }
};

/// One phase of any shape: its input, its products, its rows. kItems 0: warps share the slots. kWide,
/// kInner: the inputs of all matrices but down and of down; 0: any. kBiased: not with slots that warps share.
/// @return as publish()
template <unsigned kTypes, int kItems, int kWide, int kInner, bool kBiased = false>
__device__ __forceinline__ std::uint64_t do_phase(Ring& ring, int phase, int kind, int tid,
                                                  bool in_layers, const Marks& marks) {
  // While there is nothing else to do.
  const Job job = take_job(phase, kind, 0);
  const Shown shown = prepare_rows(phase, kind, tid);
  if (kItems > 0 && kind == 1) {
    join_input(phase);
  } else if (kInner != kWide && kind == 3) {
    take_columns<kInner>(phase, kind, tid, in_layers);
  } else {
    take_columns<kWide>(phase, kind, tid, in_layers);
  }
  marks.mark();
  sync_first<kDecodeThreads>();
  marks.mark();
  tid = opaque(tid);
  if (kInner != kWide && kind == 3) {
    multiply<kTypes, kInner>(ring, phase, kind, tid, job);
  } else {
    multiply<kTypes, kWide>(ring, phase, kind, tid, job);
  }
  marks.mark();
  sync_first<kDecodeThreads>();
  const std::uint64_t best = publish<kItems == 0, kBiased>(phase, kind, shown);
  marks.mark();
  return best;
}

/// What the warps that multiply do before the first layer.
__device__ __forceinline__ void begin_layers(bool in_layers, const Marks& marks) {
  marks.mark();
  if (in_layers) {
    begin_token();
    sync_first<kDecodeThreads>();
  }
  marks.mark();
}

/// A thread of the warps that multiply. kHead: columns of a head's keys and of its values; 0: any.
template <unsigned kTypes, int kItems, int kWide, int kInner, int kHead, bool kBiased = false>
__device__ __forceinline__ void consume(int cta) {
  const Decode& p = program<0>(0);
  const bool in_layers = cta < p.blocks;
  const bool has_slots = shared_at<const DecodeToken>(p.shared.token)->head >= 0;
  const Marks marks = Marks::of(p, cta);
  begin_layers(in_layers, marks);
  Ring ring;
  const int phases = 4 * p.num_layers;
  int tid = thread_index();
#pragma unroll 1
  for (int phase = in_layers ? 0 : phases; phase <= phases; ++phase) {
    tid = opaque(tid);
    const int kind = phase == phases ? 4 : phase & 3;
    do_phase<kTypes, kItems, kWide, kInner, kBiased>(ring, phase, kind, tid, in_layers, marks);
    if (has_slots && kind == 0) {
      tid = opaque(tid);
      if constexpr (kItems == 0) {
        step_warp_slots<kHead>(phase, tid, 0);
      } else if constexpr (kItems == 1) {
        step_slots<1, 0>(phase);
      } else if (program<0>(phase).key_groups == 2) {
        step_slots<kItems, 2>(phase);
      } else {
        step_slots<kItems, -1>(phase);
      }
      marks.mark();
    }
  }
}

/// A block's tiles of the matrices of one shape.
__device__ __forceinline__ int2 tiles_of(const Decode& p, const DecodeShape& s, int cta) {
  const int blocks = s.whole_grid != 0 ? p.grid : p.blocks, units = s.tiles / s.unit;
  if (cta >= blocks) return make_int2(0, 0);
  return make_int2(first_unit(units, cta, blocks) * s.unit,
                   first_unit(units, cta + 1, blocks) * s.unit);
}

/// Everything a thread of the kernel does; consume(block): what one that multiplies does.
template <class Consume>
__device__ __forceinline__ void decode_thread(const Decode& given, Consume&& consume) {
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
  if (tid >= 64 && tid - 64 < given.num_shapes)
    shared_at<int2>(given.shared.ranges)[tid - 64] = tiles_of(given, given.shapes[tid - 64], cta);
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
    for (int i = 0; i < kDecodePieces; ++i) {
      barrier_init(barriers + i, 1);
      barrier_init(barriers + kDecodePieces + i, kDecodeWarps);
    }
    barrier_publish();
  }
  sync_block();
  if (tid < kDecodeThreads) {
    more_registers<kDecodeRegisters>();
    consume(cta);
  } else {
    fewer_registers<kDecodeFillRegisters>();
    if (tid == kDecodeThreads) fill_ring(cta);
  }
}

}  // namespace runnel::cuda
