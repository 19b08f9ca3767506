// SPDX-License-Identifier: Apache-2.0
// The decode kernel of cuda/device/step/grid.cuh for a shape of the list, whose widths the compiler knows and whose rows
// divide evenly over the blocks (those of gate and up nearly), with matrices of one type (the gates' may be f16).
//
// Warps wait for each other once per phase. Two warps share 256 columns of an input, or 128: each takes half of them from
// the exchange, and they meet alone; a row's sums are joined by the thread that shows it, of a warp without columns if
// the shape leaves any. The residual stays in the block, which has the same rows of both matrices that add to it.
#pragma once

#include "cuda/device/step/even_slots.cuh"
#include "cuda/device/step/grid.cuh"
#include "cuda/device/step/grid_even_products.cuh"

namespace runnel::cuda {

/// Whether a phase's input is exchanged as f16: down's, of types whose inputs are rounded to eight bits. Shapes whose
/// warps share the slots gain nothing by it.
template <EvenShape kShape, BlockType kType, int kKind>
constexpr bool kExchangesHalves = kKind == 3 && kShape.splits > 0 && Streamed<kType>::kBlocks;

/// The row of a phase (of gate and up: the pair) that a thread shows, and where.
struct EvenRow {
  float* to = nullptr;  // null: none
  int at = 0;           // its number among the block's
  Act act = Act::identity;
  int gate = -1;        // its number, if it is one
  float bias = 0.0F;    // of shapes whose slots are split
  float before = 0.0F;  // what the sum is added to, of shapes with warps that only show
};
/// `tid`: the thread's number from the first that shows rows on; negative: it shows none.
template <EvenShape kShape, BlockType kType, int kKind>
__device__ __forceinline__ EvenRow even_row(const Decode& p, const DecodeLayer& w, float* set,
                                            int tid) {
  EvenRow of;
  if constexpr (kKind == 0) {
    constexpr int kQueries = kShape.wide, kKeys = kQueries / kShape.group;
    // Few rows: those of the next matrix are another warp's, since gates take longer than q, k and v.
    constexpr int kApart = kShape.splits > 0 ? 32 : 0;
    int row = tid, before = 0;
#pragma unroll 1
    for (int i = 0; i < w.num_inputs; ++i) {
      const DecodeMatrix& m = w.matrices[i];
      const int2 range = shared_at<const int2>(p.shared.ranges)[m.shape];
      const int shift = p.shapes[m.shape].row_shift, rows = (range.y - range.x) << shift;
      if (row >= 0 && row < rows) {
        const int column = m.column + (range.x << shift) + row;
        of.to = set + p.at.inputs + column;
        of.act = column < kQueries + kKeys ? p.qk_act : p.v_act;
        of.gate = column - kQueries - 2 * kKeys;
        of.at = before + row;
        if constexpr (kShape.splits > 0) {
          const float* const biases = of.gate < 0 ? w.norms[kQkvBias] : w.f_bias;
          if (biases != nullptr) of.bias = biases[of.gate < 0 ? column : of.gate];
        }
      }
      row -= kApart > 0 ? kApart : rows, before += rows;
    }
  } else {
    int first = block_index() * (kShape.wide / kShape.blocks), rows = kShape.wide / kShape.blocks;
    if constexpr (kKind == 2) {
      if constexpr (kShape.inner % kShape.blocks == 0) {
        rows = kShape.inner / kShape.blocks, first = block_index() * rows;
      } else {
        const int shape = w.matrices[kDecodeInputs + 1].shape;
        const int2 range = shared_at<const int2>(p.shared.ranges)[shape];
        const int shift = p.shapes[shape].row_shift;
        first = (range.x << shift) >> 1, rows = ((range.y - range.x) << shift) >> 1;
      }
    }
    float* const to = set + (kKind == 1 ? p.at.x1 : kKind == 2 ? p.at.h : p.at.x2);
    if (tid >= 0 && tid < rows) {
      of.to = to + first + tid, of.at = tid;
      if constexpr (kKind == 2 && kExchangesHalves<kShape, kType, 3>)
        of.to = reinterpret_cast<float*>(reinterpret_cast<std::uint16_t*>(to) + first + tid);
      if constexpr (even_first_showing(kShape) > 0 && (kKind & 1) != 0)
        of.before = shared_at<const float>(p.shared.x)[first + tid];
    }
  }
  return of;
}

/// A lane's vectors of the exchange, as they lie there, 32 apart; zeros where exists(i) is false. kHalves: f16.
template <bool kHalves, int kN, class Exists>
__device__ __forceinline__ void wait_for_vectors(const Waiter& wait, const float* from,
                                                 float4 (&v)[kN], int where, Exists&& exists) {
  unsigned polls = 0;
#pragma unroll
  for (int i = 0; i < kN; ++i) v[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 1
  for (;;) {
    unsigned missing = 0;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      if (exists(i)) v[i] = load_exchanged(from + 128 * i);
    }
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      if (exists(i)) missing |= kHalves ? wait.missing_halves(v[i]) : wait.missing(v[i]);
    }
    const bool some = kHalves ? wait.some_half_missing(missing) : wait.some_missing(missing);
    if (!some || wait.given_up(polls, where)) break;
  }
  sync_warp();
}

/// What values of at most `peak` are multiplied by before they are rounded to int8.
__device__ __forceinline__ float rounding_factor(float peak) {
  return peak > 1e-36F ? 127.0F * reciprocal(peak) : 0.0F;
}
/// Four values as int8.
__device__ __forceinline__ unsigned rounded_four(float x, float y, float z, float w,
                                                 float inverse) {
  // Added to what is rounded, it leaves the integer in the lowest bits.
  constexpr float kRound = 12582912.0F;
  const unsigned a = __float_as_uint(fmaf(x, inverse, kRound)),
                 b = __float_as_uint(fmaf(y, inverse, kRound)),
                 c = __float_as_uint(fmaf(z, inverse, kRound)),
                 d = __float_as_uint(fmaf(w, inverse, kRound));
  return (a & 255U) | (b & 255U) << 8 | (c & 255U) << 16 | d << 24;
}

/// An input in shared memory, of which a thread has its places before the input is there.
template <EvenShape kShape, BlockType kType, int kKind>
struct EvenInput {
  using Walk = EvenWalk<kShape, kType, kKind>;
  using S = typename Walk::S;
  static constexpr int kWidth = even_width(kShape, kKind), kPadded = even_padded(kShape, kKind);
  static_assert(kKind < 3 || Walk::kColumns == 256);
  // Added up beside the rounding, not behind the input.
  static constexpr bool kEarlySquares = kShape.splits > 0 && S::kBlocks;
  static constexpr bool kHalves = kExchangesHalves<kShape, kType, kKind>;
  // Vectors of 16 bytes that a lane takes, 32 apart, and lanes of a warp that take others than those before them.
  static constexpr int kVectors = kKind == 3 ? (kHalves ? 1 : 2) * Walk::kWarpSteps : 1;
  static constexpr int kTaking = kKind == 3 || Walk::kColumns == 256 ? 32 : 16;

  unsigned char* rounded;  // [2][kPadded / 32][16] int8: columns 0-15, 16-31; f32 [kPadded / 32]
  float4* plain;           // [2][kPadded / 8]: columns 0-3, 4-7
  int first;               // vector of this lane

  static __device__ __forceinline__ EvenInput of(const Decode& p, int tid) {
    const int first = kKind == 3      ? (tid >> 5) * (32 * kVectors) + (tid & 31)
                      : kTaking == 32 ? tid
                                      : (tid >> 5) * kTaking + (tid & (kTaking - 1));
    return {shared_at<unsigned char>(p.shared.rounded), shared_at<float4>(p.shared.plain), first};
  }

  /// Whether the lane's vector i is not behind the last.
  __device__ __forceinline__ bool exists(int i) const {
    return kPadded == kWidth || first + 32 * i < kWidth / (kHalves ? 8 : 4);
  }
  __device__ __forceinline__ void keep_plain(const float4 (&v)[kVectors]) const {
    float4* const to = plain + (first & 1) * (kPadded / 8) + (first >> 1);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) to[16 * i] = v[i];
  }
  /// `squared` becomes its sum over eight lanes, if kEarlySquares.
  __device__ __forceinline__ void keep_rounded(const float4 (&v)[kVectors], float& squared) const {
    float peak[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      peak[i] = fmaxf(fmaxf(fabsf(v[i].x), fabsf(v[i].y)), fmaxf(fabsf(v[i].z), fabsf(v[i].w)));
#pragma unroll
    for (int o = 1; o < 8; o <<= 1) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) peak[i] = fmaxf(peak[i], __shfl_xor_sync(~0U, peak[i], o));
      if constexpr (kKind < 3 && kEarlySquares) squared += __shfl_xor_sync(~0U, squared, o);
    }
    unsigned char* const to =
        rounded + (first >> 2 & 1) * (kPadded / 2) + (first >> 3) * 16 + (first & 3) * 4;
    float* const scales = reinterpret_cast<float*>(rounded + kPadded) + (first >> 3);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const float inverse = rounding_factor(peak[i]);
      *reinterpret_cast<unsigned*>(to + 64 * i) =
          rounded_four(v[i].x, v[i].y, v[i].z, v[i].w, inverse);
      if ((first & 7) == 0) scales[4 * i] = peak[i] * (1.0F / 127.0F);
    }
  }
  /// The same of what is exchanged as halves: eight columns a vector.
  __device__ __forceinline__ void keep_rounded_halves(const float4 (&raw)[kVectors]) const {
    float v[kVectors][8], peak[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const float word[4] = {raw[i].x, raw[i].y, raw[i].z, raw[i].w};
      peak[i] = 0.0F;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float2 two = unmarked_halves(word[w]);
        v[i][2 * w] = two.x, v[i][2 * w + 1] = two.y;
        peak[i] = fmaxf(peak[i], fmaxf(fabsf(two.x), fabsf(two.y)));
      }
    }
#pragma unroll
    for (int o = 1; o < 4; o <<= 1) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) peak[i] = fmaxf(peak[i], __shfl_xor_sync(~0U, peak[i], o));
    }
    unsigned char* const to =
        rounded + (first >> 1 & 1) * (kPadded / 2) + (first >> 2) * 16 + (first & 1) * 8;
    float* const scales = reinterpret_cast<float*>(rounded + kPadded) + (first >> 2);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const float inverse = rounding_factor(peak[i]);
      *reinterpret_cast<uint2*>(to + 128 * i) =
          make_uint2(rounded_four(v[i][0], v[i][1], v[i][2], v[i][3], inverse),
                     rounded_four(v[i][4], v[i][5], v[i][6], v[i][7], inverse));
      if ((first & 3) == 0) scales[8 * i] = peak[i] * (1.0F / (127.0F * kExchangedPart));
    }
  }
  /// The input of step `step`.
  __device__ __forceinline__ typename S::Input load(int step, int lane) const {
    if constexpr (S::kBlocks) {
      constexpr int kOnes = 0x01010101;
      const int block = step * Walk::kLanes + (lane & (Walk::kLanes - 1));
      RoundedInput in;
      in.low = *reinterpret_cast<const int4*>(rounded + block * 16);
      in.high = *reinterpret_cast<const int4*>(rounded + kPadded / 2 + block * 16);
      in.scale = reinterpret_cast<const float*>(rounded + kPadded)[block];
      const int4 ones = make_int4(kOnes, kOnes, kOnes, kOnes);
      in.sums = (dot16(in.low, ones, 0) & 0xFFFF) | dot16(in.high, ones, 0) << 16;
      return in;
    } else {
      return load_plain(step, lane);
    }
  }
  __device__ __forceinline__ PlainInput load_plain(int step, int lane) const {
    constexpr int kChunks = Walk::kColumns / 8;
    const int chunk = step * kChunks + (lane & (kChunks - 1));
    return {plain[chunk], plain[kPadded / 8 + chunk]};
  }
};

/// This warp's part of a phase's input: of the others than down half of its pair's columns. With it, its squares; of
/// kEarlySquares their sum, in the first lane.
template <EvenShape kShape, BlockType kType, int kKind>
__device__ __forceinline__ float take_even(const Decode& p, int phase,
                                           const EvenInput<kShape, kType, kKind>& to, bool plain,
                                           unsigned since) {
  using Input = EvenInput<kShape, kType, kKind>;
  constexpr int kVectors = Input::kVectors;
  constexpr bool kBlocks = Streamed<kType>::kBlocks, kJoined = kKind == 1 && kShape.splits > 0;
  const int layer = phase >> 2, first = to.first;
  const float* const norm = shared_at<const DecodeLayer>(p.shared.layers)[layer].norms[kKind];
  const unsigned use = p.use + unsigned(layer) - (kKind == 0 ? 1U : 0U);
  const float* const from =
      p.exchange + p.in_at[kKind] + std::size_t(use & 1U) * unsigned(p.at.total);
  const Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  float4 v[kVectors], weight = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
  if (kKind < 3 && norm != nullptr) weight = reinterpret_cast<const float4*>(norm)[first];
  if (kKind == 0 && layer == 0) {
    v[0] = shared_at<const float4>(p.shared.x)[first];
  } else {
    pause_until(since, p.pauses[kKind]);
    if constexpr (kJoined) {
      v[0] = activate4(p.o_act, join_even<kShape, Input::kTaking>(wait, from, first));
    } else {
      wait_for_vectors<Input::kHalves>(wait, from + 4 * first, v, 16 + kKind,
                                       [&to](int i) { return to.exists(i); });
      if constexpr (Input::kHalves) {
        to.keep_rounded_halves(v);
        return 0.0F;
      } else {
#pragma unroll
        for (int i = 0; i < kVectors; ++i) v[i] = unmarked(v[i]);
      }
    }
  }
  float squared = 0.0F;
  if constexpr (kKind < 3) {
    squared = sum_squares(v[0], 0.0F);
    if constexpr (Input::kTaking < 32)
      squared *= (thread_index() & Input::kTaking) == 0 ? 1.0F : 0.0F;
    v[0] = times(v[0], weight);
  }
  if constexpr (kBlocks) to.keep_rounded(v, squared);
  if (!kBlocks || plain) to.keep_plain(v);
  if constexpr (kKind < 3 && Input::kEarlySquares) {
#pragma unroll
    for (int o = 8; o < Input::kTaking; o <<= 1) squared += __shfl_xor_sync(~0U, squared, o);
  }
  return squared;
}

/// This thread's row, from the sums of all columns. `tid`: as of even_row(). kType: of the matrix.
template <EvenShape kShape, BlockType kType, int kKind>
__device__ __forceinline__ void show_row(const Decode& p, int phase, const EvenRow& row,
                                         const float* partial, int tid) {
  constexpr int kWays = even_ways(kShape, kKind);
  constexpr int kStride = even_stride(kShape, kKind);
  const int layer = phase >> 2;
  const unsigned use = p.use + unsigned(layer);
  const Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  float* const x =
      shared_at<float>(p.shared.x) + block_index() * (kShape.wide / kShape.blocks) + tid;
  const float before = even_first_showing(kShape) > 0 ? row.before : (kKind & 1) != 0 ? *x : 0.0F;
  const float factor = norm_factor(p, phase, kKind);
  if constexpr (kKind == 2) {
    float2 v = sum_of_ways<kWays>(reinterpret_cast<const float2*>(partial) + row.at, kStride / 2);
    v.x *= factor, v.y *= factor;
    const float h = v.x * v.y * reciprocal(1.0F + __expf(-v.x));
    if constexpr (kExchangesHalves<kShape, kType, 3>) {
      wait.write_half(reinterpret_cast<std::uint16_t*>(row.to), h);
    } else {
      wait.write_once(row.to, h);
    }
    return;
  }
  const float v = fmaf(sum_of_ways<kWays>(partial + row.at, kStride), factor, before);
  if constexpr (kKind != 0) {
    wait.write_once(row.to, v);
    *x = v;
    // As in publish().
    if (kKind == 3 && layer + 1 == p.num_layers)
      Waiter{p, p.final_bit}.write_once(
          p.exchange + p.in_at[4] + block_index() * (kShape.wide / kShape.blocks) + tid, v);
  } else if (row.gate < 0) {
    wait.write_once(row.to, activate(row.act, kShape.splits > 0 ? v + row.bias : v));
  } else if constexpr (kShape.splits > 0) {
    const float2 gate = gate_of(v + row.bias, p.gate_normalizer, p.gate_log_min);
    wait.write_once(row.to, gate.x);
    wait.write_once(row.to + p.kv_heads * p.memory, gate.y);
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
  const EvenLane walks{p, ring, in, warp, lane};
  const unsigned use = p.use + unsigned(layer);
  constexpr int kFirstShowing = even_first_showing(kShape);
  float* const set = p.exchange + std::size_t(use & 1U) * unsigned(p.at.total);
  EvenRow row;
  if constexpr (kFirstShowing == 0) row = even_row<kShape, kType, kKind>(p, w, set, tid);
  float* const partial = shared_at<float>(p.shared.partial) + (phase & 1) * even_partial(kShape);
  // Gates that are stored as f16 come behind q, k, v in the ring.
  using Gates = EvenWalk<kShape, BlockType::f16, 0>;
  const bool two = kKind == 0 && S::kBlocks && w.num_inputs > 1;
  const int gates = two ? units_of(1) : 0;
  if (Walk::works(warp)) {
    EvenWeights<Walk> weights;
    weights.take(walks, units);
    EvenWeights<Gates> of_gates;
    const bool gates_next = gates > 0 && units <= Walk::kBatch * Walk::kApart;
    if (gates_next) of_gates.take(walks, gates);
    marks.mark();
    const auto x = EvenInput<kShape, kType, kKind>::of(p, tid);
    float* const squares = squares_of(p, phase) + warp;
    const float squared = take_even(p, phase, x, two, since);
    if constexpr (Walk::kApart == 1) {
      sync_warp();
    } else {
      sync_pair(Walk::way(warp));
    }
    typename S::Input input[Walk::kWarpSteps];
#pragma unroll
    for (int s = 0; s < Walk::kWarpSteps; ++s)
      input[s] = x.load(Walk::way(warp) * Walk::kWarpSteps + s, lane);
    if constexpr (kKind < 3) {
      const float sum =
          EvenInput<kShape, kType, kKind>::kEarlySquares ? squared : warp_sum(squared);
      if (lane == 0) *squares = sum;
    }
    marks.mark();
    float* const to = partial + Walk::way(warp) * Walk::kStride;
    multiply_even<Walk>(walks, weights, input, units, to);
    if (kKind == 0 && gates > 0) {
      if (!gates_next) of_gates.take(walks, gates);
      const PlainInput plain[1] = {x.load_plain(Gates::way(warp), lane)};
      multiply_even<Gates>(walks, of_gates, plain, gates, to + units * Walk::kUnitRows);
    }
    marks.mark();
  } else {
    if constexpr (kFirstShowing > 0)
      row = even_row<kShape, kType, kKind>(p, w, set, tid - kFirstShowing);
    pass_even<Walk>(p, ring, in, units, lane);
    if constexpr (kKind == 0) pass_even<Gates>(p, ring, in, gates, lane);
    if (kKind < 3 && lane == 0) squares_of(p, phase)[warp] = 0.0F;
  }
  sync_first<kDecodeThreads>();
  since = clock_low();
  if (row.to != nullptr)
    show_row<kShape, kType, kKind>(p, phase, row, partial, tid - kFirstShowing);
  marks.mark();
}

/// Keeps this block's choice, behind the head; with a place for the token the last block chooses it. `best`: of this
/// thread's rows.
__device__ __forceinline__ void choose_token(std::uint64_t best, int tid) {
  const Decode& p = program<0>(0);
  const DecodeChoice& choice = p.choice;
  const int lane = tid & 31, warp = tid >> 5;
  auto* const of_warps = shared_at<std::uint64_t>(p.shared.rounded);  // all inputs are used up
  best = warp_choice(best);
  if (lane == 0) of_warps[warp] = best;
  sync_first<kDecodeThreads>();
  if (warp != 0) return;
  best = warp_choice(lane < kDecodeWarps ? of_warps[lane] : 0);
  std::uint32_t before = 0;
  if (lane == 0) {
    store_choice(choice.best + block_index(), best);
    if (choice.next.token != nullptr) before = count_block(choice.counted);
  }
  if (choice.next.token == nullptr || __shfl_sync(~0U, before, 0) + 1 != unsigned(p.grid)) return;
  sync_warp();  // what the first lane acquired is there for all
  best = 0;
#pragma unroll 1
  for (int i = lane; i < p.grid; i += 32) {
    const std::uint64_t other = load_choice(choice.best + i);
    best = other > best ? other : best;
  }
  best = warp_choice(best);
  if (lane != 0) return;
  const std::uint32_t token = best == 0 ? kNoToken : chosen_token(best);
  // With a time-out that a block has reported, which no end of a kernel orders here.
  release_to_host(choice.next.drawn, drawn_word(choice.next, token));
  *choice.counted = 0;
  hand_on(choice.next, token);
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
      const bool has_slots =
          shared_at<const DecodeToken>(program<0>(phase).shared.token)->head >= 0;
      if (has_slots) {
        if constexpr (kShape.splits > 0) {
          step_even_slots<kShape>(phase, opaque(tid), since);
        } else {
          step_warp_slots<kShape.head>(phase, opaque(tid), since);
        }
        marks.mark();
      }
      even_phase<kShape, kType, 1>(ring, phase + 1, tid, since, marks);
      even_phase<kShape, kType, 2>(ring, phase + 2, tid, since, marks);
      if constexpr (kShape.splits > 0) {  // now, since down's input is waited for the longest
        if (has_slots) store_even_slots<kShape>(phase, opaque(tid));
      }
      even_phase<kShape, kType, 3>(ring, phase + 3, tid, since, marks);
    }
  }
  constexpr int kWholeSteps = kShape.splits == 0 ? kShape.wide : 0;
  const std::uint64_t best =
      do_phase<kTypes, 0, kWholeSteps, kWholeSteps>(ring, phases, 4, opaque(tid), in_layers, marks);
  if (program<0>(0).choice.best != nullptr) choose_token(best, thread_index());
}

}  // namespace runnel::cuda
