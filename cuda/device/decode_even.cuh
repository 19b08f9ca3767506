// SPDX-License-Identifier: Apache-2.0
// The decode kernel of cuda/device/decode.cuh for one shape, whose widths the compiler knows and
// whose rows divide evenly over the blocks, with matrices of one type (the gates' may be f16).
//
// Warps wait for each other once a phase. Two warps share 256 columns of an input: each takes half
// of them from the exchange, and they meet alone; a row's sums are joined by the thread that shows
// it. The residual stays in the block, which has the same rows of both matrices that add to it.
#pragma once

#include "cuda/device/decode.cuh"
#include "cuda/device/decode_even_products.cuh"

namespace runnel::cuda {

/// The row of a phase (of gate and up: the pair) that a thread shows, and where.
struct EvenRow {
  float* to = nullptr;  // null: none
  int column = 0;       // of the exchanged inputs
};
template <EvenShape kShape, int kKind>
__device__ __forceinline__ EvenRow even_row(const Decode& p, const DecodeLayer& w, float* set,
                                            int tid) {
  EvenRow of;
  if constexpr (kKind == 0) {
    int row = tid;
#pragma unroll 1
    for (int i = 0; i < w.num_inputs; ++i) {
      const DecodeMatrix& m = w.matrices[i];
      const int2 range = shared_at<const int2>(p.shared.ranges)[m.shape];
      const int shift = p.shapes[m.shape].row_shift, rows = (range.y - range.x) << shift;
      if (row >= 0 && row < rows) {
        of.column = m.column + (range.x << shift) + row;
        of.to = set + p.at.inputs + of.column;
      }
      row -= rows;
    }
  } else {
    constexpr int kRows = (kKind == 2 ? kShape.inner : kShape.wide) / kShape.blocks;
    float* const to = set + (kKind == 1 ? p.at.x1 : kKind == 2 ? p.at.h : p.at.x2);
    if (tid < kRows) of.to = to + block_index() * kRows + tid;
  }
  return of;
}

/// A lane's vectors of the exchange, 32 apart.
template <int kN>
__device__ __forceinline__ void wait_for_vectors(const Waiter& wait, const float* from,
                                                 float4 (&v)[kN], bool all_ask, bool one_by_one,
                                                 int lane, int where) {
  unsigned asked = 0;
  if (!all_ask) {
    if (lane == 0) wait.read(from, where);
    sync_warp();
  }
  if (kN > 1 && one_by_one) wait.read(from, where);
#pragma unroll 1
  for (;;) {
    unsigned missing = 0;
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = load_exchanged(from + 128 * i);
#pragma unroll
    for (int i = 0; i < kN; ++i) missing |= wait.missing(v[i]);
    if (!wait.some_missing(missing) || wait.hopeless(asked, where)) break;
  }
  sync_warp();
#pragma unroll
  for (int i = 0; i < kN; ++i) v[i] = wait.values(v[i]);
}

/// This warp's part of a phase's input: of down 512 columns, of the others half of 256.
template <EvenShape kShape, BlockType kType, int kKind>
__device__ __forceinline__ void take_even(const Decode& p, int phase, int tid, bool plain) {
  constexpr int kVectors = kKind == 3 ? 4 : 1;
  constexpr bool kBlocks = Streamed<kType>::kBlocks;
  const int layer = phase >> 2, lane = tid & 31, warp = tid >> 5;
  const int first = kKind == 3 ? warp * 128 + lane : tid;
  const float* const norm = shared_at<const DecodeLayer>(p.shared.layers)[layer].norms[kKind];
  const unsigned use = p.use + unsigned(layer) - (kKind == 0 ? 1U : 0U);
  const float* const from = p.exchange + p.in_at[kKind] +
                            std::size_t(use & 1U) * unsigned(p.at.total) + own_copy(p) + 4 * first;
  const Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  float4 v[kVectors], weight = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
  if (kKind < 3 && norm != nullptr) weight = reinterpret_cast<const float4*>(norm)[first];
  if (kKind == 0 && layer == 0) {
    v[0] = shared_at<const float4>(p.shared.x)[first];
  } else {
    wait_for_vectors(wait, from, v, ((p.poll >> kKind) & 1) != 0, ((p.poll >> 4) & 1) != 0, lane,
                     16 + kKind);
  }
  const SharedInput to = input_places(p, kKind == 3 ? kShape.inner : kShape.wide);
  if constexpr (kKind == 3) {
    keep_input<4, 32>(to, kBlocks, !kBlocks, first, kShape.inner / 4, v);
  } else {
    float squared = sum_squares(v[0], 0.0F);
    v[0] = times(v[0], weight);
    keep_input<1>(to, kBlocks, !kBlocks || plain, first, kShape.wide / 4, v, &squared);
    if (lane == 0) squares_of(p, phase)[warp] = squared;
  }
}

/// This thread's row, from the sums of all columns.
template <EvenShape kShape, int kKind>
__device__ __forceinline__ void show_row(const Decode& p, int phase, const EvenRow& row,
                                         const float* partial, int tid) {
  constexpr int kWays = kKind == 3 ? kShape.inner / 512 : kShape.wide / 256;
  constexpr int kStride = even_stride(kShape, kKind);
  const unsigned use = p.use + unsigned(phase >> 2);
  const Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  float* const x =
      shared_at<float>(p.shared.x) + block_index() * (kShape.wide / kShape.blocks) + tid;
  const float before = (kKind & 1) != 0 ? *x : 0.0F;
  const float factor = norm_factor(p, phase, kKind);
  if constexpr (kKind == 2) {
    const float2 v =
        sum_of_ways<kWays>(reinterpret_cast<const float2*>(partial) + tid, kStride / 2);
    wait.write(row.to, swish(v.x * factor) * (v.y * factor));
    return;
  }
  const float v = fmaf(sum_of_ways<kWays>(partial + tid, kStride), factor, before);
  if constexpr (kKind == 0) {
    show_input(p, wait, phase >> 2, row.column, v, row.to);
  } else {
    wait.write(row.to, v);
    *x = v;
    // As in publish().
    if (kKind == 3 && (phase >> 2) + 1 == p.num_layers)
      Waiter{p, p.final_bit}.write_once(
          p.exchange + p.in_at[4] + block_index() * (kShape.wide / kShape.blocks) + tid, v);
  }
}

template <EvenShape kShape, BlockType kType, int kKind>
__device__ __forceinline__ void even_phase(Ring& ring, int phase, int tid, const Marks& marks) {
  using Walk = EvenWalk<kShape, kType, kKind>;
  using S = typename Walk::S;
  tid = opaque(tid);
  const Decode& p = program<kKind>(phase);
  const int layer = phase >> 2, lane = tid & 31, warp = tid >> 5;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  const auto units_of = [&p, &w](int i) {
    const int2 range = shared_at<const int2>(p.shared.ranges)[w.matrices[i].shape];
    return range.y - range.x;
  };
  const int units = units_of(kKind == 0 ? 0 : kDecodeInputs - 1 + kKind);
  const EvenRing in = EvenRing::of(p);
  const unsigned use = p.use + unsigned(layer);
  const EvenRow row =
      even_row<kShape, kKind>(p, w, p.exchange + std::size_t(use & 1U) * unsigned(p.at.total), tid);
  float* const partial = shared_at<float>(p.shared.partial) + (phase & 1) * even_partial(kShape);
  if (Walk::works(warp)) {
    EvenWeights<Walk> weights;
    weights.take(p, ring, in, units, warp, lane);
    marks.mark();
    const bool two = kKind == 0 && S::kBlocks && w.num_inputs > 1;
    take_even<kShape, kType, kKind>(p, phase, tid, two);
    if constexpr (kKind == 3) {
      sync_warp();
    } else {
      sync_pair(Walk::way(warp));
    }
    const SharedInput x = input_places(p, kKind == 3 ? kShape.inner : kShape.wide);
    typename S::Input input[Walk::kOwn];
#pragma unroll
    for (int s = 0; s < Walk::kOwn; ++s)
      input[s] = load_input<kType>(x, Walk::way(warp) * Walk::kOwn + s, 3, lane & 7, lane, 32);
    marks.mark();
    float* const to = partial + Walk::way(warp) * Walk::kStride;
    multiply_even<Walk>(p, ring, in, weights, input, units, to, warp, lane);
    if constexpr (kKind == 0 && S::kBlocks) {
      using Gates = EvenWalk<kShape, BlockType::f16, 0>;
      const int gates = two ? units_of(1) : 0;
      if (gates > 0) {
        EvenWeights<Gates> of_gates;
        of_gates.take(p, ring, in, gates, warp, lane);
        const typename Gates::S::Input plain[1] = {
            load_input<BlockType::f16>(x, Gates::way(warp), 5, lane, lane, 32)};
        multiply_even<Gates>(p, ring, in, of_gates, plain, gates, to + units * Walk::kUnitRows,
                             warp, lane);
      }
    }
    marks.mark();
  } else {
    pass_even<Walk>(p, ring, in, units, lane);
  }
  sync_first<kDecodeThreads>();
  if (row.to != nullptr) show_row<kShape, kKind>(p, phase, row, partial, tid);
  marks.mark();
}

/// A thread of the warps that multiply. kTypes: of the head.
template <EvenShape kShape, BlockType kType, unsigned kTypes>
__device__ __forceinline__ void consume_even(int cta) {
  const Decode& p = program<0>(0);
  const bool in_layers = cta < kShape.blocks;
  const Marks marks = Marks::of(p, cta);
  begin_layers(in_layers, marks);
  Ring ring;
  const int tid = thread_index(), phases = 4 * p.num_layers;
  if (in_layers) {
    const bool has_slots = shared_at<const DecodeToken>(p.shared.token)->head >= 0;
#pragma unroll 1
    for (int phase = 0; phase < phases; phase += 4) {
      even_phase<kShape, kType, 0>(ring, phase, tid, marks);
      if (has_slots) {
        step_thin_slots<kShape.head>(phase, opaque(tid));
        marks.mark();
      }
      even_phase<kShape, kType, 1>(ring, phase + 1, tid, marks);
      even_phase<kShape, kType, 2>(ring, phase + 2, tid, marks);
      even_phase<kShape, kType, 3>(ring, phase + 3, tid, marks);
    }
  }
  do_phase<kTypes, 0, kShape.wide, kShape.wide>(ring, phases, 4, opaque(tid), in_layers, marks);
}

}  // namespace runnel::cuda
