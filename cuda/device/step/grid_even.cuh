// SPDX-License-Identifier: Apache-2.0
// The decode kernel of cuda/device/step/grid.cuh for one shape, whose widths the compiler knows and
// whose rows divide evenly over the blocks, with matrices of one type (the gates' may be f16).
//
// Warps wait for each other once a phase. Two warps share 256 columns of an input: each takes half
// of them from the exchange, and they meet alone; a row's sums are joined by the thread that shows
// it. The residual stays in the block, which has the same rows of both matrices that add to it.
#pragma once

#include "cuda/device/step/grid.cuh"
#include "cuda/device/step/grid_even_products.cuh"

namespace runnel::cuda {

/// The row of a phase (of gate and up: the pair) that a thread shows, and where.
struct EvenRow {
  float* to = nullptr;  // null: none
  Act act = Act::identity;
  int gate = -1;  // its number, if it is one
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
        const int column = m.column + (range.x << shift) + row;
        of.to = set + p.at.inputs + column;
        of.act = column < 2 * kShape.wide ? p.qk_act : p.v_act;
        of.gate = column - 3 * kShape.wide;
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
                                                 float4 (&v)[kN], int where) {
  unsigned asked = 0;
#pragma unroll 1
  for (;;) {
    unsigned missing = 0;
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = load_exchanged(from + 128 * i);
#pragma unroll
    for (int i = 0; i < kN; ++i) missing |= wait.missing(v[i]);
    if (!wait.some_missing(missing) || wait.given_up(asked, where)) break;
  }
  sync_warp();
#pragma unroll
  for (int i = 0; i < kN; ++i) v[i] = wait.values(v[i]);
}

/// An input in shared memory, of which a thread has its places before the input is there.
template <EvenShape kShape, BlockType kType, int kKind>
struct EvenInput {
  using Walk = EvenWalk<kShape, kType, kKind>;
  using S = typename Walk::S;
  static constexpr int kWidth = kKind == 3 ? kShape.inner : kShape.wide;
  static constexpr int kVectors = kKind == 3 ? 4 : 1;  // that a lane takes, 32 apart

  unsigned char* rounded;  // [2][kWidth / 32][16] int8: columns 0-15, 16-31; f32 [kWidth / 32]
  float4* plain;           // [2][kWidth / 8]: columns 0-3, 4-7
  int first;               // vector of this lane

  static __device__ __forceinline__ EvenInput of(const Decode& p, int tid) {
    const int first = kKind == 3 ? (tid >> 5) * 128 + (tid & 31) : tid;
    return {shared_at<unsigned char>(p.shared.rounded), shared_at<float4>(p.shared.plain), first};
  }

  __device__ __forceinline__ void keep_plain(const float4 (&v)[kVectors]) const {
    float4* const to = plain + (first & 1) * (kWidth / 8) + (first >> 1);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) to[16 * i] = v[i];
  }
  __device__ __forceinline__ void keep_rounded(const float4 (&v)[kVectors]) const {
    float peak[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      peak[i] = fmaxf(fmaxf(fabsf(v[i].x), fabsf(v[i].y)), fmaxf(fabsf(v[i].z), fabsf(v[i].w)));
#pragma unroll
    for (int o = 1; o < 8; o <<= 1) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) peak[i] = fmaxf(peak[i], __shfl_xor_sync(~0U, peak[i], o));
    }
    // Added to what is rounded, it leaves the integer in the lowest bits.
    constexpr float kRound = 12582912.0F;
    unsigned char* const to =
        rounded + (first >> 2 & 1) * (kWidth / 2) + (first >> 3) * 16 + (first & 3) * 4;
    float* const scales = reinterpret_cast<float*>(rounded + kWidth) + (first >> 3);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const float inverse = peak[i] > 1e-36F ? 127.0F * reciprocal(peak[i]) : 0.0F;
      const unsigned a = __float_as_uint(fmaf(v[i].x, inverse, kRound)),
                     b = __float_as_uint(fmaf(v[i].y, inverse, kRound)),
                     c = __float_as_uint(fmaf(v[i].z, inverse, kRound)),
                     d = __float_as_uint(fmaf(v[i].w, inverse, kRound));
      *reinterpret_cast<unsigned*>(to + 64 * i) =
          (a & 255U) | (b & 255U) << 8 | (c & 255U) << 16 | d << 24;
      if ((first & 7) == 0) scales[4 * i] = peak[i] * (1.0F / 127.0F);
    }
  }
  /// Of step `step`, 256 columns.
  __device__ __forceinline__ typename S::Input load(int step, int lane) const {
    if constexpr (S::kBlocks) {
      constexpr int kOnes = 0x01010101;
      const int block = step * 8 + (lane & 7);
      RoundedInput in;
      in.low = *reinterpret_cast<const int4*>(rounded + block * 16);
      in.high = *reinterpret_cast<const int4*>(rounded + kWidth / 2 + block * 16);
      in.scale = reinterpret_cast<const float*>(rounded + kWidth)[block];
      const int4 ones = make_int4(kOnes, kOnes, kOnes, kOnes);
      in.sums = (dot16(in.low, ones, 0) & 0xFFFF) | dot16(in.high, ones, 0) << 16;
      return in;
    } else {
      return load_plain(step, lane);
    }
  }
  __device__ __forceinline__ PlainInput load_plain(int step, int lane) const {
    return {plain[step * 32 + lane], plain[kWidth / 8 + step * 32 + lane]};
  }
};

/// This warp's part of a phase's input: of down 512 columns, of the others half of 256. With it, its squares.
template <EvenShape kShape, BlockType kType, int kKind>
__device__ __forceinline__ float take_even(const Decode& p, int phase,
                                           const EvenInput<kShape, kType, kKind>& to, bool plain,
                                           unsigned since) {
  constexpr int kVectors = EvenInput<kShape, kType, kKind>::kVectors;
  constexpr bool kBlocks = Streamed<kType>::kBlocks;
  const int layer = phase >> 2, first = to.first;
  const float* const norm = shared_at<const DecodeLayer>(p.shared.layers)[layer].norms[kKind];
  const unsigned use = p.use + unsigned(layer) - (kKind == 0 ? 1U : 0U);
  const float* const from =
      p.exchange + p.in_at[kKind] + std::size_t(use & 1U) * unsigned(p.at.total) + 4 * first;
  const Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  float4 v[kVectors], weight = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
  if (kKind < 3 && norm != nullptr) weight = reinterpret_cast<const float4*>(norm)[first];
  if (kKind == 0 && layer == 0) {
    v[0] = shared_at<const float4>(p.shared.x)[first];
  } else {
    pause_until(since, p.pauses[kKind]);
    wait_for_vectors(wait, from, v, 16 + kKind);
  }
  float squared = 0.0F;
  if constexpr (kKind < 3) {
    squared = sum_squares(v[0], 0.0F);
    v[0] = times(v[0], weight);
  }
  if constexpr (kBlocks) to.keep_rounded(v);
  if (!kBlocks || plain) to.keep_plain(v);
  return squared;
}

/// This thread's row, from the sums of all columns.
template <EvenShape kShape, int kKind>
__device__ __forceinline__ void show_row(const Decode& p, int phase, const EvenRow& row,
                                         const float* partial, int tid) {
  constexpr int kWays = kKind == 3 ? kShape.inner / 512 : kShape.wide / 256;
  constexpr int kStride = even_stride(kShape, kKind);
  const int layer = phase >> 2;
  const unsigned use = p.use + unsigned(layer);
  const Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  float* const x =
      shared_at<float>(p.shared.x) + block_index() * (kShape.wide / kShape.blocks) + tid;
  const float before = (kKind & 1) != 0 ? *x : 0.0F;
  const float factor = norm_factor(p, phase, kKind);
  if constexpr (kKind == 2) {
    float2 v = sum_of_ways<kWays>(reinterpret_cast<const float2*>(partial) + tid, kStride / 2);
    v.x *= factor, v.y *= factor;
    wait.write_once(row.to, v.x * v.y * reciprocal(1.0F + __expf(-v.x)));
    return;
  }
  const float v = fmaf(sum_of_ways<kWays>(partial + tid, kStride), factor, before);
  if constexpr (kKind != 0) {
    wait.write_once(row.to, v);
    *x = v;
    // As in publish().
    if (kKind == 3 && layer + 1 == p.num_layers)
      Waiter{p, p.final_bit}.write_once(
          p.exchange + p.in_at[4] + block_index() * (kShape.wide / kShape.blocks) + tid, v);
  } else if (row.gate < 0) {
    wait.write_once(row.to, activate(row.act, v));
  } else {
    show_gate(p, wait, layer, row.gate, v, row.to);
  }
}

template <EvenShape kShape, BlockType kType, int kKind>
__device__ __forceinline__ void even_phase(Ring& ring, int phase, int tid, unsigned& since,
                                           const Marks& marks) {
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
    // Gates that are stored as f16 come behind q, k, v in the ring.
    using Gates = EvenWalk<kShape, BlockType::f16, 0>;
    EvenWeights<Gates> of_gates;
    const bool two = kKind == 0 && S::kBlocks && w.num_inputs > 1;
    const int gates = two ? units_of(1) : 0;
    const bool gates_next = gates > 0 && units <= Walk::kBatch * Walk::kApart;
    if (gates_next) of_gates.take(p, ring, in, gates, warp, lane);
    marks.mark();
    const auto x = EvenInput<kShape, kType, kKind>::of(p, tid);
    float* const squares = squares_of(p, phase) + warp;
    const float squared = take_even(p, phase, x, two, since);
    if constexpr (kKind == 3) {
      sync_warp();
    } else {
      sync_pair(Walk::way(warp));
    }
    typename S::Input input[Walk::kWarpSteps];
#pragma unroll
    for (int s = 0; s < Walk::kWarpSteps; ++s)
      input[s] = x.load(Walk::way(warp) * Walk::kWarpSteps + s, lane);
    if constexpr (kKind < 3) {
      const float sum = warp_sum(squared);
      if (lane == 0) *squares = sum;
    }
    marks.mark();
    float* const to = partial + Walk::way(warp) * Walk::kStride;
    multiply_even<Walk>(p, ring, in, weights, input, units, to, warp, lane);
    if (kKind == 0 && gates > 0) {
      if (!gates_next) of_gates.take(p, ring, in, gates, warp, lane);
      const PlainInput plain[1] = {x.load_plain(Gates::way(warp), lane)};
      multiply_even<Gates>(p, ring, in, of_gates, plain, gates, to + units * Walk::kUnitRows, warp,
                           lane);
    }
    marks.mark();
  } else {
    pass_even<Walk>(p, ring, in, units, lane);
  }
  sync_first<kDecodeThreads>();
  since = clock_low();
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
    unsigned since = 0;
#pragma unroll 1
    for (int phase = 0; phase < phases; phase += 4) {
      even_phase<kShape, kType, 0>(ring, phase, tid, since, marks);
      if (shared_at<const DecodeToken>(program<0>(phase).shared.token)->head >= 0) {
        step_warp_slots<kShape.head>(phase, opaque(tid), since);
        marks.mark();
      }
      even_phase<kShape, kType, 1>(ring, phase + 1, tid, since, marks);
      even_phase<kShape, kType, 2>(ring, phase + 2, tid, since, marks);
      even_phase<kShape, kType, 3>(ring, phase + 3, tid, since, marks);
    }
  }
  do_phase<kTypes, 0, kShape.wide, kShape.wide>(ring, phases, 4, opaque(tid), in_layers, marks);
}

}  // namespace runnel::cuda
