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

#include "cuda/device/step/dot.cuh"
#include "cuda/device/step/inputs.cuh"
#include "cuda/step_shift.h"

namespace runnel::cuda {

static_assert(kShiftThreads == kDecodeThreads);  // keep_input() is of so many threads

__device__ __forceinline__ const ShiftStep& shift_program() {
  return *reinterpret_cast<const ShiftStep*>(shared_memory());
}
__device__ __forceinline__ float logistic(float x) { return 1.0F / (1.0F + expf(-x)); }

/// A wait for exchanged values of one use.
struct ShiftWait {
  unsigned bit;

  static __device__ __forceinline__ ShiftWait of(unsigned use) { return {((use >> 1) & 1U) ^ 1U}; }
  __device__ __forceinline__ bool missing(float v) const {
    return ((__float_as_uint(v) ^ bit) & 1U) != 0;
  }
  __device__ __forceinline__ bool missing(float4 v) const {
    const unsigned all = (__float_as_uint(v.x) ^ bit) | (__float_as_uint(v.y) ^ bit) |
                         (__float_as_uint(v.z) ^ bit) | (__float_as_uint(v.w) ^ bit);
    return (all & 1U) != 0;
  }
  static __device__ __forceinline__ float value(float v) {
    return __uint_as_float(__float_as_uint(v) & ~1U);
  }
  static __device__ __forceinline__ float4 value(float4 v) {
    return make_float4(value(v.x), value(v.y), value(v.z), value(v.w));
  }
  static __device__ __forceinline__ bool given_up(const ShiftStep& p, unsigned& asked, int where) {
    if ((++asked & 1023U) != 0) return false;
    if (load_flag(p.timed_out) != 0) return true;
    if (asked < p.poll_limit) return false;
    store_flag(p.timed_out, unsigned(where) | 0x80000000U);
    return true;
  }
  /// v[i] from from[i], where from[i] is not null.
  template <int kN>
  __device__ __forceinline__ void take(const float* const (&from)[kN], float4 (&v)[kN],
                                       int where) const {
    const ShiftStep& p = shift_program();
    unsigned asked = 0;
#pragma unroll 1
    for (;;) {
      bool some = false;
#pragma unroll
      for (int i = 0; i < kN; ++i) {
        if (from[i] != nullptr) v[i] = load_exchanged(from[i]);
      }
#pragma unroll
      for (int i = 0; i < kN; ++i) some = some || (from[i] != nullptr && missing(v[i]));
      if (!some || given_up(p, asked, where)) break;
    }
    sync_warp();
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = value(v[i]);
  }
  template <int kN>
  __device__ __forceinline__ void take(const float* const (&from)[kN], float (&v)[kN],
                                       int where) const {
    const ShiftStep& p = shift_program();
    unsigned asked = 0;
#pragma unroll 1
    for (;;) {
      bool some = false;
#pragma unroll
      for (int i = 0; i < kN; ++i) v[i] = load_exchanged_word(from[i]);
#pragma unroll
      for (int i = 0; i < kN; ++i) some = some || missing(v[i]);
      if (!some || given_up(p, asked, where)) break;
    }
    sync_warp();
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] = value(v[i]);
  }
  __device__ __forceinline__ void show(float* to, float v) const {
    store_exchanged(to, marked(v, bit));
  }
};

/// The set of exchanged values of a use.
__device__ __forceinline__ float* exchange_set(const ShiftStep& p, unsigned use) {
  return p.exchange + std::size_t(use & 1U) * unsigned(p.at.total);
}
/// The same of what the mix of values exchanges, which the first layer does not: a place is written in every use.
__device__ __forceinline__ unsigned mix_use(const ShiftStep& p, int layer) {
  return p.mix_use + unsigned(layer) - 1U;
}
__device__ __forceinline__ const ShiftLayer& shift_layer(const ShiftStep& p, int layer) {
  return shared_at<const ShiftLayer>(p.shared.layers)[layer];
}
/// The table of phase `phase` of the token: layers * kShiftPhases is the head's.
__device__ __forceinline__ const ShiftTable& table_of(const ShiftStep& p, int phase) {
  return shift_layer(p, phase / kShiftPhases).tables[phase % kShiftPhases];
}
__device__ __forceinline__ ShiftItem load_item(const ShiftTable& t, int cta, int round, int warp) {
  return shift_program().items[t.items + (cta * t.rounds + round) * kShiftWarps + warp];
}

__device__ __forceinline__ const ShiftShape& shape_of(const ShiftStep& p, const ShiftMatrix& m) {
  return p.shapes[m.shape];
}

/// Where a warp is in its list of pieces.
struct ShiftCursor {
  int phase = 0, round = -1;
  ShiftItem item;
  int tile = 0, step = 0, begin = 0, end = 0;

  /// The next item that is not empty; false: there is none.
  __device__ __forceinline__ bool next_item(const ShiftStep& p, int cta, int warp) {
    const int phases = kShiftPhases * p.num_layers;
    for (;;) {
      ++round;
#pragma unroll 1
      while (phase <= phases && round >= table_of(p, phase).rounds) round = 0, ++phase;
      if (phase > phases) return false;
      item = load_item(table_of(p, phase), cta, round, warp);
      if (item.matrix < 0) continue;
      const ShiftShape& m = shape_of(p, shift_layer(p, phase / kShiftPhases).matrices[item.matrix]);
      begin = m.steps * item.part / item.parts, end = m.steps * (item.part + 1) / item.parts;
      tile = item.first_tile, step = begin;
      return true;
    }
  }
};

/// A warp's ring.
struct ShiftRing {
  ShiftCursor ahead;  // what is asked for next
  bool more = true;
  int asked = 0, done = 0;  // slots
  unsigned parity = 0;

  /// Asks for the next piece. All lanes of the warp; the slot is free.
  __device__ __forceinline__ void ask(const ShiftStep& p, int cta, int warp, int lane) {
    if (!more) return;
    const ShiftMatrix& matrix =
        shift_layer(p, ahead.phase / kShiftPhases).matrices[ahead.item.matrix];
    const ShiftShape& m = shape_of(p, matrix);
    const int n = min(m.piece_steps, ahead.end - ahead.step);
    if (lane == 0) {
      std::uint64_t* const barrier =
          shared_at<std::uint64_t>(p.shared.barriers) + warp * p.slots + asked;
      unsigned char* const to =
          shared_at<unsigned char>(p.shared.ring) + (warp * p.slots + asked) * kShiftSlotBytes;
      const std::size_t tile = std::size_t(unsigned(ahead.tile));
      const unsigned first = unsigned(ahead.step * m.step_bytes);
      const unsigned data = min(unsigned(n * m.step_bytes), unsigned(m.tile_bytes) - first);
      const unsigned scales = unsigned(n * m.scale_bytes), high = unsigned(n * m.high_bytes);
      const std::uint64_t policy = policy_leave_first();
      barrier_expect(barrier, data + scales + high);
      bulk_copy(to, static_cast<const char*>(matrix.data) + tile * unsigned(m.tile_bytes) + first,
                data, barrier, policy);
      const std::size_t before = tile * unsigned(m.steps) + unsigned(ahead.step);
      if (scales != 0)
        bulk_copy(to + n * m.step_bytes,
                  static_cast<const char*>(matrix.scales) + before * unsigned(m.scale_bytes),
                  scales, barrier, policy);
      if (high != 0)
        bulk_copy(to + n * (m.step_bytes + m.scale_bytes),
                  static_cast<const char*>(matrix.high) + before * unsigned(m.high_bytes), high,
                  barrier, policy);
    }
    if (++asked == p.slots) asked = 0;
    ahead.step += n;
    if (ahead.step < ahead.end) return;
    ahead.step = ahead.begin;
    if (++ahead.tile < ahead.item.first_tile + ahead.item.tiles) return;
    more = ahead.next_item(p, cta, warp);
  }
};

/// False: given up.
__device__ __forceinline__ bool wait_piece(const ShiftStep& p, std::uint64_t* barrier,
                                           unsigned parity) {
  unsigned asked = 0;
#pragma unroll 1
  while (!barrier_passed(barrier, parity)) {
    if ((++asked & 4095U) != 0) continue;
    if (load_flag(p.timed_out) != 0) return false;
    if (asked >= p.poll_limit) store_flag(p.timed_out, 0xC0000000U);
  }
  return true;
}

/// The most steps of a piece of that type.
template <BlockType kType>
constexpr int kPieceSteps = kShiftSlotBytes /
                            (Streamed<kType>::kStepBytes + Streamed<kType>::kScaleBytes +
                             Streamed<kType>::kHighBytes);

template <BlockType kType>
__device__ __forceinline__ float multiply_piece(const ShiftShape& m, const SharedInput& x,
                                                const unsigned char* piece, int step, int n,
                                                int lane, float acc) {
  using S = Streamed<kType>;
  constexpr int kN = kPieceSteps<kType>, kHigh = S::kHighBytes;
  const unsigned char* const scales = piece + n * S::kStepBytes;
  const unsigned char* const high = scales + n * S::kScaleBytes;
  const int in_row = lane & ((1 << m.lane_shift) - 1);
  typename S::Weights w[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    const int s = min(j, n - 1);
    if constexpr (S::kBlocks) {
      w[j] = S::load({piece + s * S::kStepBytes + lane * 16,
                      scales + s * S::kScaleBytes + lane * (S::kScaleBytes / 32),
                      high + s * kHigh + lane * (kHigh / 32)});
    } else {
      const int chunks = step + s == m.steps - 1 ? m.tail_chunks : 32;
      w[j] = {
          *reinterpret_cast<const uint4*>(piece + s * S::kStepBytes + min(lane, chunks - 1) * 16)};
    }
  }
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    if (j >= n) break;
    if constexpr (S::kBlocks) {
      typename S::Input in;
      in.load(x, ((step + j) << m.lane_shift) + in_row);
      acc = S::dot(w[j], in, acc);
    } else {
      const int chunks = step + j == m.steps - 1 ? m.tail_chunks : 32;
      acc = S::dot(w[j], S::input(x, (step + j) * 32 + lane, lane < chunks), acc);
    }
  }
  return acc;
}

/// The products of an item: the sums of its rows to `partial`.
template <BlockType kType>
__device__ __forceinline__ void multiply_item(const ShiftStep& p, ShiftRing& ring,
                                              const ShiftShape& m, const ShiftItem& item,
                                              const SharedInput& x, float* partial, int cta,
                                              int warp, int lane) {
  const int begin = m.steps * item.part / item.parts, end = m.steps * (item.part + 1) / item.parts;
#pragma unroll 1
  for (int t = 0; t < item.tiles; ++t) {
    float acc = 0.0F;
#pragma unroll 1
    for (int step = begin; step < end; step += kPieceSteps<kType>) {
      const int slot = warp * p.slots + ring.done;
      wait_piece(p, shared_at<std::uint64_t>(p.shared.barriers) + slot, ring.parity);
      acc = multiply_piece<kType>(
          m, x, shared_at<const unsigned char>(p.shared.ring) + slot * kShiftSlotBytes, step,
          min(kPieceSteps<kType>, end - step), lane, acc);
      if (++ring.done == p.slots) ring.done = 0, ring.parity ^= 1U;
      sync_warp();  // the slot is read
      ring.ask(p, cta, warp, lane);
    }
    const int shift = Streamed<kType>::kBlocks ? m.lane_shift : 5;
    for (int o = (1 << shift) >> 1; o > 0; o >>= 1) acc += __shfl_xor_sync(~0U, acc, o);
    if ((lane & ((1 << shift) - 1)) == 0) partial[t + (lane >> shift)] = acc;
  }
}

template <unsigned kTypes>
__device__ __forceinline__ void multiply_any(const ShiftStep& p, ShiftRing& ring,
                                             const ShiftShape& m, const ShiftItem& item,
                                             const SharedInput& x, float* partial, int cta,
                                             int warp, int lane) {
  const auto with = [&]<BlockType kType>() {
    if constexpr ((kTypes & kTypeBit<kType>) != 0) {
      if (m.type == kType) multiply_item<kType>(p, ring, m, item, x, partial, cta, warp, lane);
    }
  };
  with.template operator()<BlockType::q4_0>();
  with.template operator()<BlockType::q8_0>();
  with.template operator()<BlockType::q4_k>();
  with.template operator()<BlockType::q5_0>();
  with.template operator()<BlockType::q5_k>();
  with.template operator()<BlockType::q6_k>();
  with.template operator()<BlockType::bf16>();
  with.template operator()<BlockType::f16>();
  with.template operator()<BlockType::f32>();
}

/// The places of input `index` of a phase, of n values.
__device__ __forceinline__ SharedInput shift_input(const ShiftStep& p, int kind, int index, int n) {
  const int at = p.shared.inputs + index * p.input_bytes[kind];
  SharedInput x;
  x.q_low = shared_at<int4>(at);
  x.q_high = x.q_low + n / 32;
  x.meta = reinterpret_cast<int2*>(x.q_high + n / 32);
  x.f_low = shared_at<float4>(at + p.plain_at[kind]);
  x.f_high = x.f_low + n / 8;
  return x;
}

__device__ __forceinline__ float4 vector_at(const float* p, int i, float otherwise) {
  return p != nullptr ? reinterpret_cast<const float4*>(p)[i]
                      : make_float4(otherwise, otherwise, otherwise, otherwise);
}

/// x <- norm(x) of D channels, vectors i = r * threads + tid of a thread; all threads of the block. `which` alternates.
template <int kRounds>
__device__ __forceinline__ void norm_vectors(const ShiftStep& p, float4 (&x)[kRounds],
                                             const float4 (&weight)[kRounds],
                                             const float4 (&bias)[kRounds], bool centred, float eps,
                                             int tid, int which) {
  // A warp's own mean and sum of squares around it, then those of all.
  const int vectors = p.d / 4;
  float sum = 0.0F, count = 0.0F;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    if (r * kShiftThreads + tid < vectors) sum += (x[r].x + x[r].y) + (x[r].z + x[r].w);
    const int first = r * kShiftThreads + (tid & ~31);
    count += static_cast<float>(4 * max(0, min(32, vectors - first)));
  }
  float mean = 0.0F;
  if (centred && count > 0.0F) mean = warp_sum(sum) / count;
  float squares = 0.0F;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    if (r * kShiftThreads + tid >= vectors) continue;
    const float4 v = make_float4(x[r].x - mean, x[r].y - mean, x[r].z - mean, x[r].w - mean);
    squares = sum_squares(v, squares);
  }
  squares = warp_sum(squares);
  auto* const sums = shared_at<float2>(p.shared.sums) + which * kShiftWarps;
  if ((tid & 31) == 0) sums[tid >> 5] = make_float2(mean, squares);
  sync_block();
  float total = 0.0F, all = 0.0F;
  const auto count_of = [vectors](int w) {
    int n = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) n += max(0, min(32, vectors - r * kShiftThreads - 32 * w));
    return static_cast<float>(4 * n);
  };
#pragma unroll
  for (int w = 0; w < kShiftWarps; ++w) total = fmaf(sums[w].x, count_of(w), total);
  const float by = 1.0F / static_cast<float>(p.d), centre = total * by;
#pragma unroll
  for (int w = 0; w < kShiftWarps; ++w) {
    const float away = sums[w].x - centre;
    all += fmaf(away * away, count_of(w), sums[w].y);
  }
  const float factor = rsqrtf(fmaf(all, by, eps));
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    x[r] = make_float4(fmaf((x[r].x - centre) * factor, weight[r].x, bias[r].x),
                       fmaf((x[r].y - centre) * factor, weight[r].y, bias[r].y),
                       fmaf((x[r].z - centre) * factor, weight[r].z, bias[r].z),
                       fmaf((x[r].w - centre) * factor, weight[r].w, bias[r].w));
  }
}

/// The residual stream of a phase's beginning: of the layer or of its channel mix, or the embedding.
template <int kRounds>
__device__ __forceinline__ void take_stream(const ShiftStep& p, const float* from, ShiftWait wait,
                                            float4 (&x)[kRounds], int half, int tid, int where) {
  const float* places[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    x[r] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    places[r] = i < p.d / 4 ? from + 4 * i : nullptr;
  }
  wait.take(places, x, where);
  float4* const kept = shared_at<float4>(p.shared.x) + half * (p.d / 4);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    if (r * kShiftThreads + tid < p.d / 4) kept[r * kShiftThreads + tid] = x[r];
  }
}

__device__ __forceinline__ ShiftSources load_sources(const ShiftTable& t, int cta) {
  return shift_program().sources[t.sources + cta];
}

/// Norm, shift and lerps: `project` and `up`.
template <int kRounds>
__device__ __forceinline__ void shift_inputs(const ShiftStep& p, int phase, int cta, int tid) {
  const int layer = phase / kShiftPhases, kind = phase % kShiftPhases;
  const bool mixer = kind == int(ShiftPhase::project);
  const ShiftLayer& w = shift_layer(p, layer);
  const ShiftSources sources = load_sources(w.tables[kind], cta);
  const Segment& segment = *shared_at<const Segment>(p.shared.segment);
  const float* before_at = segment.state_in + (mixer ? w.mixer_shift : w.channel_shift);
  const unsigned use = p.use + unsigned(layer);
  const int vectors = p.d / 4;
  float4 x[kRounds], weight[kRounds], bias[kRounds], before[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = min(r * kShiftThreads + tid, vectors - 1);
    weight[r] = vector_at(mixer ? w.norm : w.channel_norm, i, 1.0F);
    bias[r] = vector_at(mixer ? w.norm_bias : w.channel_bias, i, 0.0F);
    before[r] = load_vector(before_at + 4 * i);
  }
  if (mixer && layer == 0) {
    const float4* const kept = shared_at<const float4>(p.shared.x);
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = r * kShiftThreads + tid;
      x[r] = i < vectors ? kept[i] : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
  } else {
    const unsigned own = mixer ? use - 1U : use;
    take_stream(p, exchange_set(p, own) + (mixer ? p.at.x2 : p.at.x1), ShiftWait::of(own), x,
                mixer ? 0 : 1, tid, kind);
  }
  norm_vectors(p, x, weight, bias, p.centred != 0, p.eps, tid, mixer ? 0 : 1);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    // What the next token finds, put where it belongs when no block reads the old one any more.
    if (cta == 0 && i < vectors) store_vector(p.shifted + (mixer ? 0 : p.d) + 4 * i, x[r]);
    before[r] = make_float4(before[r].x - x[r].x, before[r].y - x[r].y, before[r].z - x[r].z,
                            before[r].w - x[r].w);
  }
#pragma unroll 1
  for (int j = 0; j < sources.count; ++j) {
    const float* lerps =
        mixer ? w.lerp + std::size_t(sources.in[j].source) * unsigned(p.d) : w.channel_lerp;
    float4 v[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = r * kShiftThreads + tid;
      const float4 lerp = vector_at(lerps, min(i, vectors - 1), 0.0F);
      v[r] = make_float4(fmaf(lerp.x, before[r].x, x[r].x), fmaf(lerp.y, before[r].y, x[r].y),
                         fmaf(lerp.z, before[r].z, x[r].z), fmaf(lerp.w, before[r].w, x[r].w));
    }
    const int forms = sources.in[j].forms;
    keep_input<kRounds>(shift_input(p, kind, j, p.d), (forms & kFormRounded) != 0,
                        (forms & kFormPlain) != 0, tid, vectors, v);
  }
}

/// What went down: `raise`.
__device__ __forceinline__ void raise_inputs(const ShiftStep& p, int phase, int cta, int tid) {
  const int layer = phase / kShiftPhases;
  const ShiftSources sources =
      load_sources(shift_layer(p, layer).tables[int(ShiftPhase::raise)], cta);
#pragma unroll 1
  for (int j = 0; j < sources.count; ++j) {
    const int which = sources.in[j].source, forms = sources.in[j].forms, n = p.ranks[which];
    const unsigned use = which == 3 ? mix_use(p, layer) : p.use + unsigned(layer);
    if ((tid & ~31) >= n / 4) continue;  // a whole warp
    const float* const from[1] = {tid < n / 4 ? exchange_set(p, use) + p.at.low[which] + 4 * tid
                                              : nullptr};
    float4 v[1] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F)};
    ShiftWait::of(use).take(from, v, 8);
    keep_input<1>(shift_input(p, int(ShiftPhase::raise), j, n), (forms & kFormRounded) != 0,
                  (forms & kFormPlain) != 0, tid, n / 4, v);
  }
}

/// What the states read, with norm, bonus and gate: `output`.
template <int kRounds>
__device__ __forceinline__ void output_inputs(const ShiftStep& p, int phase, int cta, int tid) {
  const int layer = phase / kShiftPhases, kind = int(ShiftPhase::output), vectors = p.d / 4;
  const ShiftLayer& w = shift_layer(p, layer);
  const ShiftSources sources = load_sources(w.tables[kind], cta);
  if (sources.count == 0) return;
  const unsigned use = p.use + unsigned(layer);
  const float* const set = exchange_set(p, use);
  float4 v[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    const bool there = i < vectors;
    const float4 weight = vector_at(w.group_norm, min(i, vectors - 1), 1.0F);
    const float4 bias = vector_at(w.group_bias, min(i, vectors - 1), 0.0F);
    const float* const from[3] = {there ? set + p.at.o + 4 * i : nullptr,
                                  there ? set + p.at.bonus + 4 * i : nullptr,
                                  there && p.gated != 0 ? set + p.at.gate + 4 * i : nullptr};
    float4 in[3] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F), make_float4(0.0F, 0.0F, 0.0F, 0.0F),
                    make_float4(1.0F, 1.0F, 1.0F, 1.0F)};
    ShiftWait::of(use).take(from, in, 9);
    float4 o = in[0];
    if (p.groups != 0) {  // sixteen lanes have a head
      float sum = (o.x + o.y) + (o.z + o.w);
#pragma unroll
      for (int s = 1; s < 16; s <<= 1) sum += __shfl_xor_sync(~0U, sum, s);
      const float mean = sum / kShiftHead;
      o = make_float4(o.x - mean, o.y - mean, o.z - mean, o.w - mean);
      float squares = sum_squares(o, 0.0F);
#pragma unroll
      for (int s = 1; s < 16; s <<= 1) squares += __shfl_xor_sync(~0U, squares, s);
      const float factor = 1.0F / sqrtf(squares / kShiftHead + p.group_eps);
      o = make_float4(fmaf(o.x * factor, weight.x, bias.x), fmaf(o.y * factor, weight.y, bias.y),
                      fmaf(o.z * factor, weight.z, bias.z), fmaf(o.w * factor, weight.w, bias.w));
    }
    v[r] = make_float4((o.x + in[1].x) * in[2].x, (o.y + in[1].y) * in[2].y,
                       (o.z + in[1].z) * in[2].z, (o.w + in[1].w) * in[2].w);
  }
  keep_input<kRounds>(shift_input(p, kind, 0, p.d), (sources.in[0].forms & kFormRounded) != 0,
                      (sources.in[0].forms & kFormPlain) != 0, tid, vectors, v);
}

/// The hidden layer: `down`. All blocks are through with the old shifts then.
__device__ __forceinline__ void down_inputs(const ShiftStep& p, int phase, int cta, int tid) {
  constexpr int kRounds = 4;
  const int layer = phase / kShiftPhases, kind = int(ShiftPhase::down), vectors = p.inner / 4;
  const ShiftLayer& w = shift_layer(p, layer);
  const ShiftSources sources = load_sources(w.tables[kind], cta);
  if (sources.count == 0 && cta != 0) return;
  const unsigned use = p.use + unsigned(layer);
  const float* const h = exchange_set(p, use) + p.at.h;
#pragma unroll 1
  for (int first = 0; first < vectors; first += kRounds * kShiftThreads) {
    const float* from[kRounds];
    float4 v[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = first + r * kShiftThreads + tid;
      from[r] = i < vectors ? h + 4 * i : nullptr;
      v[r] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
    ShiftWait::of(use).take(from, v, 10);
    SharedInput to = shift_input(p, kind, 0, p.inner);
    // keep_input() counts from 0.
    to.q_low += first / 8, to.q_high += first / 8, to.meta += first / 8;
    to.f_low += first / 2, to.f_high += first / 2;
    if (sources.count > 0) {
      keep_input<kRounds>(to, (sources.in[0].forms & kFormRounded) != 0,
                          (sources.in[0].forms & kFormPlain) != 0, tid, vectors - first, v);
    }
  }
  sync_block();  // every thread has read its part: all of h was there
  if (cta != 0) return;
  const Segment& segment = *shared_at<const Segment>(p.shared.segment);
#pragma unroll 1
  for (int i = tid; i < p.d / 4; i += kShiftThreads) {
    store_vector(segment.state_out + w.mixer_shift + 4 * i, load_vector(p.shifted + 4 * i));
    store_vector(segment.state_out + w.channel_shift + 4 * i, load_vector(p.shifted + p.d + 4 * i));
  }
}

/// The last norm: `head`.
template <int kRounds>
__device__ __forceinline__ void head_inputs(const ShiftStep& p, int cta, int tid) {
  const int vectors = p.d / 4, kind = int(ShiftPhase::head);
  const ShiftLayer& w = shift_layer(p, p.num_layers);
  const ShiftSources sources = load_sources(w.tables[0], cta);
  float4 x[kRounds], weight[kRounds], bias[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = min(r * kShiftThreads + tid, vectors - 1);
    weight[r] = vector_at(w.norm, i, 1.0F), bias[r] = vector_at(w.norm_bias, i, 0.0F);
  }
  const unsigned use = p.use + unsigned(p.num_layers) - 1U;
  take_stream(p, exchange_set(p, use) + p.at.x2, ShiftWait::of(use), x, 0, tid, kind);
  norm_vectors(p, x, weight, bias, p.centred != 0, p.final_eps, tid, 0);
  if (sources.count == 0) return;
  keep_input<kRounds>(shift_input(p, kind, 0, p.d), (sources.in[0].forms & kFormRounded) != 0,
                      (sources.in[0].forms & kFormPlain) != 0, tid, vectors, x);
}

/// This block's share of a state: sixteen columns or more of one head. Four warps or more, each by itself.
__device__ __forceinline__ void advance_state(const ShiftStep& p, int layer, int cta, int tid) {
  const int head = cta / p.splits;
  if (head >= p.heads || tid >= 8 * p.columns) return;
  const ShiftLayer& w = shift_layer(p, layer);
  const Segment& segment = *shared_at<const Segment>(p.shared.segment);
  const int lane = tid & 31, warp = tid >> 5, g = tid & 7, own = tid >> 3;
  const int column = cta % p.splits * p.columns + own, channel = head * kShiftHead + column;
  const std::size_t at =
      w.state + std::size_t(unsigned(head)) * kShiftHead * kShiftHead + unsigned(column);
  const auto row_of = [g](int i) { return 32 * (i >> 2) + 4 * g + (i & 3); };
  float x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = segment.state_in[at + unsigned(row_of(i) * kShiftHead)];
  const int mine[2] = {head * kShiftHead + lane, head * kShiftHead + 32 + lane};
  float f_bias[2], r_bias[2], removal_key[2], key_rate[2], bonus_weight[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    f_bias[j] = w.f_bias[mine[j]], r_bias[j] = w.r_bias[mine[j]];
    removal_key[j] = w.removal_key[mine[j]], key_rate[j] = w.key_rate[mine[j]];
    bonus_weight[j] = w.bonus != nullptr ? w.bonus[mine[j]] : 0.0F;
  }
  const float mix_bias = w.mixes_values != 0 ? w.mix_bias[channel] : 0.0F;
  const unsigned use = p.use + unsigned(layer);
  float* const set = exchange_set(p, use);
  const ShiftWait wait = ShiftWait::of(use);
  const float* const from[9] = {
      set + p.at.q + mine[0], set + p.at.q + mine[1], set + p.at.k + mine[0],
      set + p.at.k + mine[1], set + p.at.f + mine[0], set + p.at.f + mine[1],
      set + p.at.r + mine[0], set + p.at.r + mine[1], set + p.at.v + channel};
  float in[9];
  wait.take(from, in, 11);
  float mix[1] = {0.0F};
  if (w.mixes_values != 0) {
    const unsigned own_use = mix_use(p, layer);
    const float* const mix_at[1] = {exchange_set(p, own_use) + p.at.mix + channel};
    ShiftWait::of(own_use).take(mix_at, mix, 12);
  }
  float* const vectors = shared_at<float>(p.shared.vectors) + warp * 5 * kShiftHead;
  float squares = 0.0F, bonus = 0.0F;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float key = in[2 + j] * removal_key[j];
    squares = fmaf(key, key, squares);
  }
  const float by = 1.0F / fmaxf(sqrtf(warp_sum(squares)), 1e-12F);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float q = in[j], k = in[2 + j], rate = logistic(in[6 + j] + r_bias[j]);
    const float c = -k * removal_key[j] * by, key = k * (1.0F + (rate - 1.0F) * key_rate[j]);
    bonus = fmaf(q * key, bonus_weight[j], bonus);
    const int i = 32 * j + lane;
    vectors[i] = c, vectors[kShiftHead + i] = -rate * c;
    vectors[2 * kShiftHead + i] = expf(-0.60653066F * logistic(in[4 + j] + f_bias[j]));
    vectors[3 * kShiftHead + i] = key, vectors[4 * kShiftHead + i] = q * p.scale;
  }
  bonus = warp_sum(bonus);
  float v = in[8];
  float* const first = shared_at<float>(p.shared.first_v) + own;
  if (w.mixes_values != 0) {
    v = fmaf(*first - v, logistic(mix[0] + mix_bias), v);
  } else if (layer == 0 && g == 0) {
    *first = v;
  }
  sync_warp();
  float removed = 0.0F, sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 8; ++i) removed = fmaf(x[i], vectors[row_of(i)], removed);
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) removed += __shfl_xor_sync(~0U, removed, o);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int r = row_of(i);
    x[i] = fmaf(vectors[kShiftHead + r], removed,
                fmaf(vectors[3 * kShiftHead + r], v, x[i] * vectors[2 * kShiftHead + r]));
    sum = fmaf(x[i], vectors[4 * kShiftHead + r], sum);
  }
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) sum += __shfl_xor_sync(~0U, sum, o);
  if (g == 0) wait.show(set + p.at.o + channel, sum);
  if (g == 1) wait.show(set + p.at.bonus + channel, bonus * v);
#pragma unroll
  for (int i = 0; i < 8; ++i) segment.state_out[at + unsigned(row_of(i) * kShiftHead)] = x[i];
  sync_warp();  // the vectors are read
}

/// One row of a phase's product, for those that need it.
__device__ __forceinline__ void show_row(const ShiftStep& p, int phase, const ShiftItem& item,
                                         int column, int row, float v) {
  const int layer = phase / kShiftPhases;
  if (layer == p.num_layers) {
    p.logits[row] = v;
    return;
  }
  const bool mixes = (item.matrix == kShiftDown + 3) | (item.matrix == kShiftUp + 3);
  const unsigned use = mixes ? mix_use(p, layer) : p.use + unsigned(layer);
  const float* const x = shared_at<const float>(p.shared.x);
  switch (static_cast<ShiftPhase>(phase % kShiftPhases)) {
    case ShiftPhase::project:
      if (item.matrix == kShiftDown) v = tanhf(v);
      if (item.matrix == kShiftDown + 2) v = logistic(v);
      break;
    case ShiftPhase::output:
      v += x[row];
      break;
    case ShiftPhase::up:
      v = fmaxf(v, 0.0F), v *= v;
      break;
    case ShiftPhase::down:
      v += x[p.d + row];
      break;
    case ShiftPhase::raise:
    case ShiftPhase::head:
      break;
  }
  ShiftWait::of(use).show(exchange_set(p, use) + column + row, v);
}

/// Products of a phase, round by round, and their rows.
template <unsigned kTypes>
__device__ __forceinline__ void multiply_phase(const ShiftStep& p, ShiftRing& ring, int phase,
                                               ShiftItem first_item, int cta, int tid) {
  const int layer = phase / kShiftPhases, lane = tid & 31, warp = tid >> 5;
  const int kind = layer == p.num_layers ? int(ShiftPhase::head) : phase % kShiftPhases;
  const ShiftLayer& w = shift_layer(p, layer);
  const ShiftTable& table = table_of(p, phase);
  float* const partial = shared_at<float>(p.shared.partial) + warp * p.item_rows;
  const int of_round = kShiftWarps * p.item_rows;
#pragma unroll 1
  for (int first = 0; first < table.rounds; first += kShiftRounds) {
    const int rounds = min(kShiftRounds, table.rounds - first);
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
      const ShiftItem item = first + r == 0 ? first_item : load_item(table, cta, first + r, warp);
      if (item.matrix < 0) continue;
      const ShiftShape& m = shape_of(p, w.matrices[item.matrix]);
      const int n = kind == int(ShiftPhase::raise)  ? p.ranks[item.matrix - kShiftUp]
                    : kind == int(ShiftPhase::down) ? p.inner
                                                    : p.d;
      multiply_any<kTypes>(p, ring, m, item, shift_input(p, kind, item.input, n),
                           partial + r * of_round, cta, warp, lane);
    }
    sync_block();
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
      const ShiftItem item = first + r == 0 ? first_item : load_item(table, cta, first + r, warp);
      if (item.matrix < 0 || item.part != 0) continue;
      const ShiftShape& m = shape_of(p, w.matrices[item.matrix]);
      const int row = (item.first_tile << m.row_shift) + lane;
      if (lane >= item.tiles << m.row_shift || row >= m.rows) continue;
      float v = 0.0F;
#pragma unroll 1
      for (int part = 0; part < item.parts; ++part)
        v += partial[r * of_round + part * p.item_rows + lane];
      show_row(p, phase, item, w.matrices[item.matrix].column, row, v);
    }
    if (first + kShiftRounds < table.rounds) sync_block();
  }
}

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
  sync_block();
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
  norm_vectors(p, x, weight, bias, p.centred != 0, p.embedding_eps, tid, 1);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    if (i < vectors) reinterpret_cast<float4*>(kept)[i] = x[r];
  }
}

/// Everything a thread of the kernel does. kRounds: vectors of four of the residual stream a thread takes.
template <unsigned kTypes, int kRounds>
__device__ __forceinline__ void shift_thread(const ShiftStep& given) {
  const int tid = thread_index(), cta = block_index(), lane = tid & 31, warp = tid >> 5;
  {
    const auto* from = reinterpret_cast<const std::uint32_t*>(&given);
    auto* to = shared_at<std::uint32_t>(0);
#pragma unroll 1
    for (int i = tid; i < int(sizeof(ShiftStep) / 4); i += kShiftThreads) to[i] = from[i];
    const auto* layers = reinterpret_cast<const uint4*>(given.layers);
    auto* table = shared_at<uint4>(given.shared.layers);
    const int words = (given.num_layers + 1) * int(sizeof(ShiftLayer) / 16);
#pragma unroll 1
    for (int i = tid; i < words; i += kShiftThreads) table[i] = layers[i];
  }
  if (tid == 0) *shared_at<Segment>(given.shared.segment) = *given.segment;
  if (lane == 0) {
#pragma unroll 1
    for (int i = 0; i < given.slots; ++i)
      barrier_init(shared_at<std::uint64_t>(given.shared.barriers) + warp * given.slots + i, 1);
    barrier_publish();
  }
  sync_block();
  const ShiftStep& p = shift_program();
  ShiftRing ring;
  ring.more = ring.ahead.next_item(p, cta, warp);
#pragma unroll 1
  for (int i = 0; i < p.slots; ++i) ring.ask(p, cta, warp, lane);
  begin_stream<kRounds>(p, tid);
  const int phases = kShiftPhases * p.num_layers;
#pragma unroll 1
  for (int phase = 0; phase <= phases; ++phase) {
    const int kind = phase == phases ? kShiftPhases : phase % kShiftPhases;
    const ShiftItem first_item =
        load_item(table_of(p, phase), cta, 0, warp);  // on its way meanwhile
    switch (static_cast<ShiftPhase>(kind)) {
      case ShiftPhase::project:
      case ShiftPhase::up:
        shift_inputs<kRounds>(p, phase, cta, tid);
        break;
      case ShiftPhase::raise:
        raise_inputs(p, phase, cta, tid);
        break;
      case ShiftPhase::output:
        output_inputs<kRounds>(p, phase, cta, tid);
        break;
      case ShiftPhase::down:
        down_inputs(p, phase, cta, tid);
        break;
      case ShiftPhase::head:
        head_inputs<kRounds>(p, cta, tid);
        break;
    }
    sync_block();
    multiply_phase<kTypes>(p, ring, phase, first_item, cta, tid);
    if (kind == int(ShiftPhase::raise)) advance_state(p, phase / kShiftPhases, cta, tid);
  }
}

}  // namespace runnel::cuda
