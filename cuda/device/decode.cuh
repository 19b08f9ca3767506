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
//
// Every part of a phase finds what it needs in shared memory, at places that seem to depend on the
// phase: else the compiler computes ahead of the loop what all parts need, and spills it. With so
// much shared memory there is hardly an L1 left to spill to.
#pragma once

#include "cuda/device/async.cuh"
#include "cuda/device/decode_dot.cuh"

namespace runnel::cuda {

/// 0, which no compiler knows; see the top.
template <int kPart>
__device__ __forceinline__ int hidden_zero(int phase) {
  return phase >> (24 + kPart);
}
/// The block's copy of the parameters.
template <int kPart>
__device__ __forceinline__ const Decode& program(int phase) {
  return *reinterpret_cast<const Decode*>(shared_memory() + hidden_zero<kPart>(phase));
}
template <class T>
__device__ __forceinline__ T* shared_at(int offset) {
  return reinterpret_cast<T*>(shared_memory() + offset);
}

/// The weight types that a kernel multiplies, as bits; one for each type would be many registers.
template <BlockType kType>
constexpr unsigned kTypeBit = 1U << (unsigned(kType) & 31U);

/// Asks for exchanged values until they are there, or gives up. The loops are as short as they can
/// be: half of one is what an answer is late by.
struct Waiter {
  const Decode& p;
  unsigned bit;  // of this use

  __device__ __forceinline__ bool other(float v) const {
    return ((__float_as_uint(v) ^ bit) & 1U) != 0;
  }
  __device__ __forceinline__ bool here(float4 v) const {
    const unsigned other = (__float_as_uint(v.x) ^ bit) | (__float_as_uint(v.y) ^ bit) |
                           (__float_as_uint(v.z) ^ bit) | (__float_as_uint(v.w) ^ bit);
    return (other & 1U) == 0;
  }
  /// The value without the bit.
  static __device__ __forceinline__ float value(float v) {
    return __uint_as_float(__float_as_uint(v) & ~1U);
  }
  /// Counts questions; now and then, whether there is hope.
  __device__ __forceinline__ bool hopeless(unsigned& asked, int where) const {
    if ((++asked & 1023U) != 0) return false;
    if (load_flag(p.trouble) != 0) return true;
    if (asked < p.patience) return false;
    store_flag(p.trouble, unsigned(where) | 0x80000000U);
    return true;
  }
  __device__ __forceinline__ float4 finish(const float* from, float4 v, int where) const {
    unsigned asked = 0;
#pragma unroll 1
    while (!here(v) && !hopeless(asked, where)) v = load_exchanged(from);
    return make_float4(value(v.x), value(v.y), value(v.z), value(v.w));
  }
  __device__ __forceinline__ float2 finish_pair(const float* from, float2 v, int where) const {
    unsigned asked = 0;
#pragma unroll 1
    while ((other(v.x) || other(v.y)) && !hopeless(asked, where)) v = load_exchanged_pair(from);
    return make_float2(value(v.x), value(v.y));
  }
  __device__ __forceinline__ float4 read(const float* from, int where) const {
    return finish(from, load_exchanged(from), where);
  }
  __device__ __forceinline__ float read_word(const float* from, int where) const {
    float v = load_exchanged_word(from);
    unsigned asked = 0;
#pragma unroll 1
    while (other(v) && !hopeless(asked, where)) v = load_exchanged_word(from);
    return value(v);
  }
  __device__ __forceinline__ void write(float* to, float v) const {
    store_exchanged(to, __uint_as_float((__float_as_uint(v) & ~1U) | bit));
  }
};

/// A warp's ring as it walks it.
struct Ring {
  int slot = 0;
  unsigned parity = 0, done = 0;  // slots so far
};
__device__ __forceinline__ void wait_barrier(const Decode& p, std::uint64_t* barrier,
                                             unsigned parity) {
  unsigned asked = 0;
#pragma unroll 1
  while (!barrier_passed(barrier, parity)) {
    if ((++asked & 4095U) != 0) continue;
    if (load_flag(p.trouble) != 0) return;
    if (asked >= p.patience) store_flag(p.trouble, 0xC0000000U);
  }
}

/// This block's share of the slots: `splits` blocks a kv head, spread.
__device__ __forceinline__ void take_slots(const Decode& p, int cta, DecodeToken& t) {
  const int shares = p.kv_heads * p.splits;
  // Share j is at block j * blocks / shares.
  const int j = (cta * shares + p.blocks - 1) / p.blocks;
  t.head = -1, t.split = 0, t.first = 0, t.count = 0;
  if (cta >= p.blocks || j >= shares || j * p.blocks / shares != cta) return;
  t.head = j / p.splits, t.split = j % p.splits;
  t.first = t.split * p.slots_per_split;
  t.count = max(0, min(p.slots_per_split, p.sinks + p.window + p.memory - t.first));
}

__device__ __forceinline__ void prefetch_vector(const float* v, int floats) {
  if (v != nullptr && floats >= 4) bulk_prefetch(v, unsigned(floats / 4 * 16));
}

/// What one warp multiplies, in order, cut into pieces that fit a slot of its ring.
struct Pieces {
  int layer, matrix = -1, left = 0, first = 0;
  unsigned count = 0;  // pieces so far
  bool done = false;

  /// Moves to a matrix of which the warp has something.
  __device__ __forceinline__ void settle(const Decode& p, const DecodeLayer* layers, int warp) {
#pragma unroll 1
    while (left == 0 && !done) {
      if (++matrix == kDecodeInputs + 4) {
        matrix = -1;
        done = ++layer > p.num_layers;
        continue;
      }
      const int shape = layers[layer].matrices[matrix].shape;
      if (shape < 0) continue;
      const DecodeRun& run = shared_at<const DecodeRun>(p.shared.runs)[shape * kDecodeWarps + warp];
      left = run.count, first = run.first;
    }
  }
  /// The piece; its data are `bytes` from `from`.
  __device__ __forceinline__ int piece(const DecodeShape& s, std::size_t& from,
                                       unsigned& bytes) const {
    const int n = min(left, s.piece_steps), tile = first / s.steps, end = (first + n) / s.steps;
    from = std::size_t(tile) * unsigned(s.tile_bytes) +
           unsigned((first - tile * s.steps) * s.step_bytes);
    bytes = unsigned(std::size_t(end) * unsigned(s.tile_bytes) +
                     unsigned((first + n - end * s.steps) * s.step_bytes) - from);
    return n;
  }
  __device__ __forceinline__ void advance(int n) { left -= n, first += n, ++count; }
};

/// What the slots of a layer will need, and its vectors, to L2.
__device__ __forceinline__ void ask_for_layer(const Decode& p, int cta, int l) {
  const auto& token = *shared_at<const DecodeToken>(p.shared.token);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[l];
  if (token.head >= 0 && token.count > 0) {
    const float* keys = token.segment.state_in + std::size_t(l) * p.layer_floats +
                        std::size_t(token.head) * p.head_floats;
    const float* values = keys + std::size_t(p.sinks + p.window + p.memory) * unsigned(p.k_dim);
    bulk_prefetch(keys + token.first * p.k_dim, unsigned(token.count * p.k_dim) * 4);
    bulk_prefetch(values + token.first * p.v_dim, unsigned(token.count * p.v_dim) * 4);
  }
  if (l % p.blocks != cta) return;
#pragma unroll 1
  for (int i = 0; i < 3; ++i) prefetch_vector(w.norms[i], p.widths[i]);
  prefetch_vector(w.f_bias, p.kv_heads * p.memory);
  prefetch_vector(w.read_bias, p.kv_heads * p.memory);
  prefetch_vector(w.head_read_bias, p.heads);
}

/// One lane a warp that multiplies.
__device__ __forceinline__ void fill_rings(int cta, int warp) {
  const Decode& p = program<0>(0);
  const auto* layers = shared_at<const DecodeLayer>(p.shared.layers);
  const std::uint64_t policy = p.keep != 0 ? policy_normal() : policy_leave_first();
  const std::uint32_t* const emptied = shared_at<const std::uint32_t>(p.shared.emptied) + warp;
  std::uint64_t* const barriers = shared_at<std::uint64_t>(p.shared.barriers) + warp * p.ring_slots;
  unsigned char* const ring = shared_at<unsigned char>(p.shared.ring) + warp * p.ring_bytes;
  const int from_layer = cta < p.blocks ? 0 : p.num_layers;
  Pieces next{.layer = from_layer};
  next.settle(p, layers, warp);
  int slot = 0, layers_asked = warp == 0 ? from_layer : p.num_layers;
  unsigned asked = 0;
#pragma unroll 1
  while (!next.done) {
#pragma unroll 1
    for (; layers_asked < min(next.layer + 2, p.num_layers); ++layers_asked)
      ask_for_layer(p, cta, layers_asked);
    if (int(next.count - watch_word(emptied)) < p.ring_slots) {
      const DecodeMatrix& m = layers[next.layer].matrices[next.matrix];
      const DecodeShape& s = p.shapes[m.shape];
      std::size_t from;
      unsigned bytes;
      const int n = next.piece(s, from, bytes);
      const unsigned scales = unsigned(n * s.scale_bytes), high = unsigned(n * s.high_bytes);
      unsigned char* const to = ring + slot * p.slot_bytes;
      std::uint64_t* const full = barriers + slot;
      barrier_expect(full, bytes + scales + high);
      bulk_copy(to, static_cast<const char*>(m.data) + from, bytes, full, policy);
      if (scales != 0)
        bulk_copy(to + s.scale_at,
                  static_cast<const char*>(m.scales) +
                      std::size_t(unsigned(next.first)) * unsigned(s.scale_bytes),
                  scales, full, policy);
      if (high != 0)
        bulk_copy(to + s.high_at,
                  static_cast<const char*>(m.high) +
                      std::size_t(unsigned(next.first)) * unsigned(s.high_bytes),
                  high, full, policy);
      if (++slot == p.ring_slots) slot = 0;
      next.advance(n);
      next.settle(p, layers, warp);
      asked = 0;
    } else if ((++asked & 4095U) == 0 && load_flag(p.trouble) != 0) {
      return;  // nobody empties the ring any more
    }
  }
}

/// The sums of groups of 2^shift lanes.
template <int kShift, int kN>
__device__ __forceinline__ void add_lanes(float (&v)[kN]) {
#pragma unroll
  for (int o = (1 << kShift) >> 1; o > 0; o >>= 1) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] += __shfl_xor_sync(~0U, v[i], o);
  }
}
template <int kN>
__device__ __forceinline__ void add_lanes(float (&v)[kN], int shift) {
  if (shift == 5) return add_lanes<5>(v);
  if (shift == 4) return add_lanes<4>(v);
  if (shift == 3) return add_lanes<3>(v);
#pragma unroll 1
  for (int o = (1 << shift) >> 1; o > 0; o >>= 1) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] += __shfl_xor_sync(~0U, v[i], o);
  }
}

/// A warp's part of one product, in registers.
struct Job {
  int shape = -1, partial = 0, n = 0;
  int4 run, walk, places;  // of DecodeRun and DecodeShape
};
/// Matrix `index` of a phase of `kind`; shape -1: there is none.
__device__ __forceinline__ Job take_job(int phase, int kind, int index) {
  const Decode& p = program<5>(phase);
  const int warp = (thread_index() + hidden_zero<5>(phase)) >> 5;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[phase >> 2];
  const DecodeMatrix& m = w.matrices[kind == 0 ? index : kDecodeInputs - 1 + kind];
  Job job;
  job.shape = m.shape, job.partial = m.partial, job.n = p.widths[kind];
  const int shape = max(job.shape, 0);
  job.run = *reinterpret_cast<const int4*>(shared_at<const DecodeRun>(p.shared.runs) +
                                           shape * kDecodeWarps + warp);
  const auto* s = reinterpret_cast<const int4*>(p.shapes + shape);
  job.walk = s[0], job.places = s[1];
  return job;
}

/// kN steps of one tile; the pieces are under way together.
template <BlockType kType, int kN>
__device__ __forceinline__ float multiply_steps(const SharedInput& x, StagePiece& at, int it,
                                                int steps, int tail, int lane, int in_row,
                                                int lane_shift, float acc) {
  using S = Streamed<kType>;
  typename S::Weights w[kN];
  typename S::Input in[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    if constexpr (S::kBlocks) {
      constexpr int kScale = S::kScaleBytes, kStep = S::kStepBytes;
      w[j] = S::load({at.data + j * kStep, at.scales + j * kScale, at.high + j * 256});
      in[j].load(x, ((it + j) << lane_shift) + in_row);
    } else {
      const int chunk = (it + j) * 32 + lane, some = it + j == steps - 1 ? tail : 32;
      w[j].w = reinterpret_cast<const uint4*>(at.data)[min(lane, some - 1)];
      in[j] = S::input(x, chunk, lane < some);
      at.data += some * 16;
    }
  }
  if constexpr (S::kBlocks)
    at.data += kN * S::kStepBytes, at.scales += kN * S::kScaleBytes, at.high += kN * 256;
  float sums[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) sums[j] = S::dot(w[j], in[j], 0.0F);
#pragma unroll
  for (int j = 0; j < kN; ++j) acc += sums[j];
  return acc;
}

/// This warp's run of one matrix times the input of n values: sums of rows, one for each of the
/// warps that share a tile, to `partial`.
template <BlockType kType>
__device__ __forceinline__ void multiply_run(Ring& ring, int phase, const Job& job) {
  using S = Streamed<kType>;
  const Decode& p = program<2>(phase);
  const int tid = thread_index() + hidden_zero<2>(phase), lane = tid & 31, warp = tid >> 5;
  const int n = job.n;
  SharedInput x;
  x.q_low = shared_at<int4>(p.shared.rounded);
  x.q_high = x.q_low + n / 32;
  x.meta = reinterpret_cast<int2*>(x.q_high + n / 32);
  x.f_low = shared_at<float4>(p.shared.plain);
  x.f_high = x.f_low + n / 8;
  const int steps = job.walk.x, piece_steps = job.walk.y, ways_rows = job.walk.w,
            lane_shift = S::kBlocks ? job.walk.z : 5, scale_at = job.places.x,
            high_at = job.places.y, tail = job.places.z;
  const int ring_slots = p.ring_slots, slot_bytes = p.slot_bytes;
  const int in_row = lane & ((1 << lane_shift) - 1);
  const unsigned char* const slots =
      shared_at<const unsigned char>(p.shared.ring) + warp * p.ring_bytes;
  std::uint64_t* const barriers = shared_at<std::uint64_t>(p.shared.barriers) + warp * ring_slots;
  float* const partial = shared_at<float>(p.shared.partial) + job.partial + (lane >> lane_shift);
  int left = job.run.x, it = job.run.y, sums_at = job.run.z, next_at = job.run.w;
  float acc = 0.0F;
#pragma unroll 1
  while (left > 0) {
    int here = min(left, piece_steps);
    left -= here;
    wait_barrier(p, barriers + ring.slot, ring.parity);
    StagePiece at;
    at.data = slots + ring.slot * slot_bytes + (S::kBlocks ? lane * 16 : 0);
    at.scales = slots + ring.slot * slot_bytes + scale_at + lane * (S::kScaleBytes / 32);
    at.high = slots + ring.slot * slot_bytes + high_at + lane * 8;
#pragma unroll 1
    while (here > 0) {
      int some = min(here, steps - it);  // of this tile
      here -= some;
#pragma unroll 1
      for (; some >= 2; some -= 2) {
        acc = multiply_steps<kType, 2>(x, at, it, steps, tail, lane, in_row, lane_shift, acc);
        it += 2;
      }
      if (some > 0) {
        acc = multiply_steps<kType, 1>(x, at, it, steps, tail, lane, in_row, lane_shift, acc);
        ++it;
      }
      if (it == steps || left + here == 0) {
        float sum[1] = {acc};
        if constexpr (S::kBlocks) {
          add_lanes(sum, lane_shift);
        } else {
          add_lanes<5>(sum);
        }
        if (in_row == 0) partial[sums_at] = sum[0];
        sums_at = next_at, next_at += ways_rows;
        acc = 0.0F, it = 0;
      }
    }
    sync_warp();
    ++ring.done;
    if (lane == 0) show_word(shared_at<std::uint32_t>(p.shared.emptied) + warp, ring.done);
    if (++ring.slot == ring_slots) ring.slot = 0, ring.parity ^= 1U;
  }
}

/// A row's sum, from its parts.
__device__ __forceinline__ float row_sum(const DecodeShape& s, const unsigned char* owners,
                                         const float* partial, int row) {
  const int row_shift = s.row_shift, tile = row >> row_shift, ways = owners[tile];
  const float* from = partial + tile * s.ways_rows + (row & ((1 << row_shift) - 1));
  float sum = 0.0F;
#pragma unroll 1
  for (int w = 0; w < ways; w += 4) {
    float part[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) part[j] = w + j < ways ? from[(w + j) << row_shift] : 0.0F;
    sum += (part[0] + part[1]) + (part[2] + part[3]);
  }
  return sum;
}

/// Vectors of four of the input, the thread's own of each round: kept for the products, as the
/// types of the phase need them. All lanes of a warp come here together.
template <int kRounds>
__device__ __forceinline__ void keep_input(const SharedInput& to, bool blocks, bool plain, int tid,
                                           int vectors, const float4 (&v)[kRounds]) {
  if (plain) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = r * kDecodeThreads + tid;
      if (i < vectors) ((i & 1) != 0 ? to.f_high : to.f_low)[i >> 1] = v[r];
    }
  }
  if (!blocks) return;
  float peak[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r)
    peak[r] = fmaxf(fmaxf(fabsf(v[r].x), fabsf(v[r].y)), fmaxf(fabsf(v[r].z), fabsf(v[r].w)));
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) peak[r] = fmaxf(peak[r], __shfl_xor_sync(~0U, peak[r], o));
  }
  int total[kRounds], packed[kRounds], other[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const float inverse = peak[r] > 0.0F ? __fdividef(127.0F, peak[r]) : 0.0F;
    const int a = __float2int_rn(v[r].x * inverse), b = __float2int_rn(v[r].y * inverse),
              c = __float2int_rn(v[r].z * inverse), d = __float2int_rn(v[r].w * inverse);
    total[r] = a + b + c + d;
    packed[r] = (a & 255) | (b & 255) << 8 | (c & 255) << 16 | (d & 255) << 24;
  }
#pragma unroll
  for (int o = 1; o < 4; o <<= 1) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) total[r] += __shfl_xor_sync(~0U, total[r], o);
  }
#pragma unroll
  for (int r = 0; r < kRounds; ++r) other[r] = __shfl_xor_sync(~0U, total[r], 4);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kDecodeThreads + tid;
    if (i < vectors) {
      int4* half = (i & 4) != 0 ? to.q_high : to.q_low;
      reinterpret_cast<int*>(half)[(i >> 3) * 4 + (i & 3)] = packed[r];
      if ((i & 7) == 0)
        to.meta[i >> 3] = make_int2(__float_as_int(peak[r] * (1.0F / 127.0F)),
                                    (total[r] & 0xFFFF) | (other[r] << 16));
    }
  }
}

__device__ __forceinline__ float4 activate4(Act a, float4 v) {
  return make_float4(activate(a, v.x), activate(a, v.y), activate(a, v.z), activate(a, v.w));
}
__device__ __forceinline__ float4 times(float4 a, float4 b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
__device__ __forceinline__ float4 scaled(float4 a, float s) {
  return make_float4(a.x * s, a.y * s, a.z * s, a.w * s);
}
__device__ __forceinline__ float4 plus_scaled(float4 a, float4 b, float s) {
  return make_float4(fmaf(b.x, s, a.x), fmaf(b.y, s, a.y), fmaf(b.z, s, a.z), fmaf(b.w, s, a.w));
}
__device__ __forceinline__ float dot_vectors(float4 a, float4 b, float acc) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, acc))));
}
__device__ __forceinline__ float sum_squares(float4 v, float acc) { return dot_vectors(v, v, acc); }

/// The read of vector i of the mixer's output, joined from the splits.
__device__ __forceinline__ float4 join_splits(const Decode& p, Waiter& wait, const float* parts,
                                              int i) {
  const int head = i >> p.value_shift, column = (i & ((1 << p.value_shift) - 1)) * 4;
  const int stride = p.v_dim + 4;
  const float* from = parts + std::size_t(head) * unsigned(p.splits * stride);
  float peak = -1e30F, total = 0.0F;
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 1
  for (int first = 0; first < p.splits; first += 4) {
    float4 o[4];
    float2 about[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* part = from + min(first + j, p.splits - 1) * stride;
      about[j] = load_exchanged_pair(part);
      o[j] = load_exchanged(part + 4 + column);
    }
    float higher = peak;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* part = from + min(first + j, p.splits - 1) * stride;
      about[j] = wait.finish_pair(part, about[j], 2);
      o[j] = wait.finish(part + 4 + column, o[j], 2);
      higher = fmaxf(higher, about[j].x);
    }
    const float old = __expf(peak - higher);
    sum = scaled(sum, old), total *= old;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float mine = first + j < p.splits ? __expf(about[j].x - higher) : 0.0F;
      sum = plus_scaled(sum, o[j], mine);
      total = fmaf(about[j].y, mine, total);
    }
    peak = higher;
  }
  return scaled(sum, __fdividef(1.0F, total));
}

/// A slot's decay and 1 - decay from its gate: log_decay of math.cuh, in fewer instructions and to
/// 4e-6 of their values.
__device__ __forceinline__ float2 gate_of(float f, float tau, float floor) {
  const float e = __expf(-fabsf(f));
  const float small = e * (1.0F - e * (0.5F - e * (0.33333333F - e * (0.25F - e * 0.2F))));
  const float ls = fminf(f, 0.0F) - (e < 0.1F ? small : __logf(1.0F + e));
  float g = __fdividef(ls, tau);
  if (floor < 0.0F) g = fmaxf(g, floor);
  const float decay = __expf(g);
  const float near = -g * (1.0F + g * (0.5F + g * (0.16666667F + g * 0.041666667F)));
  return make_float2(decay, g > -0.06F ? near : 1.0F - decay);
}

/// Integers in the order of floats, and back.
__device__ __forceinline__ int ordered_int(float v) {
  const int i = __float_as_int(v);
  return i ^ ((i >> 31) & 0x7FFFFFFF);
}
__device__ __forceinline__ float ordered_float(int i) {
  return __int_as_float(i ^ ((i >> 31) & 0x7FFFFFFF));
}

/// Logits of this thread's keys with kG queries, from query `first`.
template <int kItems, int kGroups, int kG>
__device__ __forceinline__ void slot_logits(const Decode& p, const DecodeToken& token,
                                            const DecodeLayer& w, float* scratch,
                                            const float4 (&k)[kItems], int first, int key_slot,
                                            int key_lane) {
  const int key_groups = kGroups >= 0 ? kGroups : p.key_groups, key_shift = p.key_shift,
            positional = p.sinks + p.window;
  const int key_step = kDecodeThreads >> key_shift, count = token.count, k_dim = p.k_dim;
  const float* queries = scratch + p.slots.queries;
  float own[kG], acc[kG];
#pragma unroll
  for (int g = 0; g < kG; ++g) {
    own[g] = 0.0F, acc[g] = 0.0F;
    if (w.head_read_bias != nullptr) own[g] = w.head_read_bias[token.head * p.group + first + g];
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int local = key_slot + (i >> key_groups) * key_step, slot = token.first + local;
    const int column = (((i & ((1 << key_groups) - 1)) << key_shift) + key_lane) * 4;
    const int variant = slot >= positional ? 0 : slot >= p.sinks ? 1 : 2;
    const float* query = queries + (variant * p.group + first) * k_dim + column;
#pragma unroll
    for (int g = 0; g < kG; ++g)
      acc[g] = dot_vectors(k[i], *reinterpret_cast<const float4*>(query + g * k_dim), acc[g]);
    if (((i + 1) & ((1 << key_groups) - 1)) == 0) {  // the slot is complete
      add_lanes(acc, key_shift);
      if (key_lane == 0 && local < count) {
        const float bias = scratch[p.slots.bias + local];
#pragma unroll
        for (int g = 0; g < kG; ++g) {
          const float logit = slot >= positional     ? fmaf(acc[g], p.scale, own[g] + bias)
                              : slot < token.written ? acc[g] * p.scale
                                                     : -1e30F;  // not written yet
          scratch[p.slots.weight + (first + g) * p.slots_per_split + local] = logit;
        }
      }
#pragma unroll
      for (int g = 0; g < kG; ++g) acc[g] = 0.0F;
    }
  }
}

/// Sums of this thread's values under the weights of kG queries, from query `first`.
template <int kItems, int kG>
__device__ __forceinline__ void slot_read(const Decode& p, float* scratch,
                                          const float4 (&v)[kItems], int first, int tid,
                                          int count) {
  const int value_shift = p.value_shift;
  const int value_slot = tid >> value_shift, value_step = kDecodeThreads >> value_shift;
  const int column = (tid & ((1 << value_shift) - 1)) * 4, lane = tid & 31;
  float4 acc[kG];
#pragma unroll
  for (int g = 0; g < kG; ++g) acc[g] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int local = value_slot + i * value_step;
    if (local < count) {
      const float* weight = scratch + p.slots.weight + first * p.slots_per_split + local;
#pragma unroll
      for (int g = 0; g < kG; ++g)
        acc[g] = plus_scaled(acc[g], v[i], weight[g * p.slots_per_split]);
    }
  }
#pragma unroll 1
  for (int o = 1 << value_shift; o < 32; o <<= 1) {
#pragma unroll
    for (int g = 0; g < kG; ++g) {
      acc[g].x += __shfl_xor_sync(~0U, acc[g].x, o), acc[g].y += __shfl_xor_sync(~0U, acc[g].y, o);
      acc[g].z += __shfl_xor_sync(~0U, acc[g].z, o), acc[g].w += __shfl_xor_sync(~0U, acc[g].w, o);
    }
  }
  const int row = value_shift < 5 ? tid >> 5 : value_slot;
  if (value_shift >= 5 || lane < 1 << value_shift) {
#pragma unroll
    for (int g = 0; g < kG; ++g)
      *reinterpret_cast<float4*>(scratch + p.slots.reduce + (row * p.group + first + g) * p.v_dim +
                                 column) = acc[g];
  }
}

/// This block's slots of one layer: see the top. kGroups: key_groups, or -1: any.
template <int kItems, int kGroups>
__device__ __forceinline__ void step_slots(int phase) {
  const Decode& p = program<4>(phase);
  const int layer = phase >> 2;
  const auto& token = *shared_at<const DecodeToken>(p.shared.token);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  float* const scratch = shared_at<float>(p.shared.slots);
  const unsigned use = p.use + unsigned(layer);
  float* const set = p.exchange + std::size_t(use & 1U) * unsigned(p.at.total);
  Waiter wait{p, ((use >> 1) & 1U) ^ 1U};

  const int tid = thread_index() + hidden_zero<4>(phase), lane = tid & 31, warp = tid >> 5;
  const int group = p.group, positional = p.sinks + p.window, slots = positional + p.memory;
  const int head = token.head, count = token.count, first_slot = token.first;
  const std::size_t keys_at = std::size_t(layer) * p.layer_floats +
                              std::size_t(head) * p.head_floats + unsigned(first_slot * p.k_dim);
  const std::size_t values_at = std::size_t(layer) * p.layer_floats +
                                std::size_t(head) * p.head_floats + unsigned(slots * p.k_dim) +
                                unsigned(first_slot * p.v_dim);
  // Vector i of a thread: local slot and vector of the row.
  const int key_shift = p.key_shift, key_groups = kGroups >= 0 ? kGroups : p.key_groups,
            value_shift = p.value_shift;
  const int key_slot = tid >> key_shift, key_step = kDecodeThreads >> key_shift;
  const int key_lane = tid & ((1 << key_shift) - 1);
  const int value_slot = tid >> value_shift, value_step = kDecodeThreads >> value_shift;
  const int value_column = (tid & ((1 << value_shift) - 1)) * 4;
  const auto slot_of = [&](int i) { return key_slot + (i >> key_groups) * key_step; };
  const auto column_of = [&](int i) {
    return (((i & ((1 << key_groups) - 1)) << key_shift) + key_lane) * 4;
  };
  const float* keys_in = token.segment.state_in + keys_at;
  float4 k[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    k[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (slot_of(i) < count)
      k[i] = *reinterpret_cast<const float4*>(keys_in + slot_of(i) * p.k_dim + column_of(i));
  }
  {  // The token's q, k, v and gates.
    const auto* rotation = shared_at<const float4>(p.shared.rotation);
    const int half = p.k_dim / 2, quad_shift = key_shift + key_groups - 1;  // vectors of pairs
    const int pair_work = (group + 1) << quad_shift, value_work = p.v_dim / 4;
    const float* inputs = set + p.at.inputs;
    const float* q = inputs + head * group * p.k_dim;
    const float* key = inputs + (p.heads + head) * p.k_dim;
    const float* value = inputs + (p.heads + p.kv_heads) * p.k_dim + head * p.v_dim;
    const float* f =
        inputs + (p.heads + p.kv_heads) * p.k_dim + p.kv_heads * p.v_dim + head * p.memory;
    // The last threads begin with the gates, which take longest.
    const int work = pair_work + value_work + count;
#pragma unroll 1
    for (int i = tid; i < work; i += kDecodeThreads) {
      if (i < pair_work) {
        const int r = i >> quad_shift, c = (i - (r << quad_shift)) * 4;  // row 0 is the key
        const float* from = r == 0 ? key : q + (r - 1) * p.k_dim;
        const float4 first = load_exchanged(from + c), second = load_exchanged(from + half + c);
        const float4 a = activate4(p.qk_act, wait.finish(from + c, first, 1));
        const float4 b = activate4(p.qk_act, wait.finish(from + half + c, second, 1));
        float* to = scratch + (r == 0 ? p.slots.key : p.slots.queries + (r - 1) * p.k_dim);
        *reinterpret_cast<float4*>(to + c) = a;
        *reinterpret_cast<float4*>(to + half + c) = b;
        if (positional > 0) {
          const float x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
          float* turned = r == 0 ? scratch + p.slots.key_turned : to + group * p.k_dim;
          float* near = to + 2 * group * p.k_dim;
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const float4 r4 = rotation[c + e];
            turned[c + e] = x[e] * r4.x - y[e] * r4.y;
            turned[half + c + e] = y[e] * r4.x + x[e] * r4.y;
            if (r > 0) {
              near[c + e] = x[e] * r4.z - y[e] * r4.w;
              near[half + c + e] = y[e] * r4.z + x[e] * r4.w;
            }
          }
        }
      } else if (i < pair_work + value_work) {
        const int c = (i - pair_work) * 4;
        *reinterpret_cast<float4*>(scratch + p.slots.value + c) =
            activate4(p.v_act, wait.read(value + c, 1));
      } else {
        const int local = i - pair_work - value_work, slot = first_slot + local;
        // Decay 1 and write 0 keep a slot; 0 and 1 replace it.
        float2 gate = slot == token.target ? make_float2(0.0F, 1.0F) : make_float2(1.0F, 0.0F);
        float bias = 0.0F;
        if (slot >= positional) {
          const int m = slot - positional;
          const float own = w.f_bias != nullptr ? w.f_bias[head * p.memory + m] : 0.0F;
          if (w.read_bias != nullptr) bias = w.read_bias[head * p.memory + m];
          gate = gate_of(wait.read_word(f + m, 1) + own, p.gate_normalizer, p.gate_log_min);
        }
        scratch[p.slots.decay + local] = gate.x, scratch[p.slots.write + local] = gate.y;
        scratch[p.slots.bias + local] = bias;
      }
    }
  }
  sync_first<kDecodeThreads>();

  // K~ and the logits of these slots.
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int local = slot_of(i), column = column_of(i);
    if (local < count) {
      const float* key =
          scratch + (first_slot + local < positional ? p.slots.key_turned : p.slots.key) + column;
      k[i] = plus_scaled(scaled(k[i], scratch[p.slots.decay + local]),
                         *reinterpret_cast<const float4*>(key), scratch[p.slots.write + local]);
      *reinterpret_cast<float4*>(token.segment.state_out + keys_at + local * p.k_dim + column) =
          k[i];
    }
  }
  int g = 0;
#pragma unroll 1
  for (; g + 3 <= group; g += 3)
    slot_logits<kItems, kGroups, 3>(p, token, w, scratch, k, g, key_slot, key_lane);
#pragma unroll 1
  for (; g < group; ++g)
    slot_logits<kItems, kGroups, 1>(p, token, w, scratch, k, g, key_slot, key_lane);
  const float* values_in = token.segment.state_in + values_at;
  float4 v[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    v[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    const int local = value_slot + i * value_step;
    if (local < count)
      v[i] = *reinterpret_cast<const float4*>(values_in + local * p.v_dim + value_column);
  }
  sync_first<kDecodeThreads>();
  float* const parts = set + p.at.parts + token.split * (p.v_dim + 4);
  const int stride = p.splits * (p.v_dim + 4);
  if (warp < group) {
    float* weight = scratch + p.slots.weight + warp * p.slots_per_split;
    float peak = -1e30F;
#pragma unroll 1
    for (int s = lane; s < count; s += 32) peak = fmaxf(peak, weight[s]);
    peak = ordered_float(__reduce_max_sync(~0U, ordered_int(peak)));
    float sum = 0.0F;
#pragma unroll 1
    for (int s = lane; s < count; s += 32) {
      const float e = weight[s] > -1e29F ? __expf(weight[s] - peak) : 0.0F;
      weight[s] = e;
      sum += e;
    }
    sum = warp_sum(sum);
    if (lane < 4)
      wait.write(parts + (head * group + warp) * stride + lane, lane == 0   ? peak
                                                                : lane == 1 ? sum
                                                                            : 0.0F);
  }
  sync_first<kDecodeThreads>();

  // The read: threads of one column add up their slots, then lanes, then rows of threads.
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int local = value_slot + i * value_step;
    if (local < count) {
      v[i] = plus_scaled(scaled(v[i], scratch[p.slots.decay + local]),
                         *reinterpret_cast<const float4*>(scratch + p.slots.value + value_column),
                         scratch[p.slots.write + local]);
      *reinterpret_cast<float4*>(token.segment.state_out + values_at + local * p.v_dim +
                                 value_column) = v[i];
    }
  }
  g = 0;
#pragma unroll 1
  for (; g + 3 <= group; g += 3) slot_read<kItems, 3>(p, scratch, v, g, tid, count);
#pragma unroll 1
  for (; g < group; ++g) slot_read<kItems, 1>(p, scratch, v, g, tid, count);
  sync_first<kDecodeThreads>();
  const int rows = value_shift < 5 ? kDecodeWarps : kDecodeThreads >> value_shift;
#pragma unroll 1
  for (int i = tid; i < group * p.v_dim; i += kDecodeThreads) {
    const int of = i >> (value_shift + 2), c = i & (p.v_dim - 1);
    const float* from = scratch + p.slots.reduce + of * p.v_dim + c;
    float sum = 0.0F;
#pragma unroll 1
    for (int r = 0; r < rows; r += 4) {
      float part[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) part[j] = r + j < rows ? from[(r + j) * group * p.v_dim] : 0.0F;
      sum += part[0], sum += part[1], sum += part[2], sum += part[3];
    }
    wait.write(parts + (head * group + of) * stride + 4 + c, sum);
  }
  sync_first<kDecodeThreads>();  // the scratch becomes an input again
}

/// Clocks of thread 0 of the first two blocks, if anybody wants them.
struct Trace {
  std::uint64_t* to;
  __device__ __forceinline__ void mark() {
    if (to != nullptr) *to++ = clock_now();
  }
};

/// The places of an input of n values in shared memory.
__device__ __forceinline__ SharedInput input_places(const Decode& p, int n) {
  SharedInput x;
  x.q_low = shared_at<int4>(p.shared.rounded);
  x.q_high = x.q_low + n / 32;
  x.meta = reinterpret_cast<int2*>(x.q_high + n / 32);
  x.f_low = shared_at<float4>(p.shared.plain);
  x.f_high = x.f_low + n / 8;
  return x;
}

/// Two sets: a warp may come to the next phase while another still reads.
__device__ __forceinline__ float* squares_of(const Decode& p, int phase) {
  return shared_at<float>(p.shared.squares) + (phase & 1) * kDecodeWarps;
}

/// The input of the output projection, from what the slots found.
__device__ __forceinline__ void join_input(int phase) {
  const Decode& p = program<0>(phase);
  const int layer = phase >> 2, tid = thread_index() + hidden_zero<0>(phase);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  const unsigned use = p.use + unsigned(layer);
  Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  const float* parts = p.exchange + std::size_t(use & 1U) * unsigned(p.at.total) + p.at.parts;
  const int n = p.heads * p.v_dim, vectors = n / 4, forms = w.forms >> 2;
  const SharedInput input = input_places(p, n);
  float squared = 0.0F;
#pragma unroll 1
  for (int first = 0; first < vectors; first += kDecodeThreads) {
    const int i = first + tid;
    {  // the wait is long, and everybody's questions would keep the answer off
      if ((tid & 31) == 0 && i < vectors) {
        const float* part =
            parts + ((i >> p.value_shift) * p.splits + (tid >> 5) % p.splits) * (p.v_dim + 4);
        wait.finish_pair(part, load_exchanged_pair(part), 3);
      }
      sync_warp();
    }
    float4 v[1] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F)};
    if (i < vectors) {
      float4 weight = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
      if (w.norms[1] != nullptr) weight = reinterpret_cast<const float4*>(w.norms[1])[i];
      v[0] = activate4(p.o_act, join_splits(p, wait, parts, i));
      squared = sum_squares(v[0], squared);
      v[0] = times(v[0], weight);
    }
    keep_input<1>(input, (forms & kFormRounded) != 0, (forms & kFormPlain) != 0, i, vectors, v);
  }
  squared = warp_sum(squared);
  if ((tid & 31) == 0) squares_of(p, phase)[tid >> 5] = squared;
}

/// The input of every other product: from the exchange, or the embedding, which is in x already.
template <int kRounds>
__device__ __forceinline__ void take_input(int phase, bool in_layers) {
  const Decode& p = program<1>(phase);
  const int tid = thread_index() + hidden_zero<1>(phase);
  const int layer = phase >> 2;
  const bool head = layer == p.num_layers;
  const int kind = head ? 4 : phase & 3;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  const float* norm = w.norms[kind];
  const int n = p.widths[kind], vectors = n / 4, forms = w.forms >> (2 * kind);
  const bool rounded = (forms & kFormRounded) != 0, plain = (forms & kFormPlain) != 0;
  const SharedInput input = input_places(p, n);
  float4* const x = shared_at<float4>(p.shared.x);
  // Phase 0 of a layer reads what the layer before left, in its set.
  const unsigned use = p.use + unsigned(layer) - (kind == 0 ? 1U : 0U);
  const float* from = p.exchange + std::size_t(head ? 0U : (use & 1U) * unsigned(p.at.total)) +
                      unsigned(p.in_at[kind]);
  Waiter wait{p, head ? p.final_bit : ((use >> 1) & 1U) ^ 1U};
  float4 v[kRounds], weight[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kDecodeThreads + tid;
    weight[r] = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
    if (i < vectors && norm != nullptr) weight[r] = reinterpret_cast<const float4*>(norm)[i];
  }
  if (phase > 0) {
    if (!in_layers) {  // has nothing else to do for long: ask seldom
      unsigned asked = 0;
#pragma unroll 1
      while (tid < vectors && !wait.here(load_exchanged(from + 4 * tid)) &&
             !wait.hopeless(asked, 16 + kind))
        pause(200);
    } else if (p.poll == 0) {
      if ((tid & 31) == 0 && tid < vectors) wait.read(from + 4 * tid, 16 + kind);
      sync_warp();
    }
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = r * kDecodeThreads + tid;
      if (i < vectors) v[r] = load_exchanged(from + 4 * i);
    }
  }
  float squared = 0.0F;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kDecodeThreads + tid;
    if (i < vectors) {
      if (phase > 0) {
        v[r] = wait.finish(from + 4 * i, v[r], 16 + kind);
        if (kind != 3) x[i] = v[r];
      } else {
        v[r] = x[i];
      }
      squared = sum_squares(v[r], squared);
      v[r] = times(v[r], weight[r]);
    } else {
      v[r] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
  }
  keep_input<kRounds>(input, rounded, plain, tid, vectors, v);
  squared = warp_sum(squared);
  if ((tid & 31) == 0) squares_of(p, phase)[tid >> 5] = squared;
}

/// What the sums of a phase are multiplied by: 1 / RMS of its input.
__device__ __forceinline__ float norm_factor(int phase) {
  const Decode& p = program<6>(phase);
  const bool head = phase == 4 * p.num_layers;
  const int kind = head ? 4 : phase & 3;
  if (kind == 1 ? p.output_norm == 0 : kind == 3) return 1.0F;
  const auto* squares = reinterpret_cast<const float4*>(squares_of(p, phase));
  float sums[kDecodeWarps / 4];
#pragma unroll
  for (int i = 0; i < kDecodeWarps / 4; ++i) {
    const float4 s = squares[i];
    sums[i] = (s.x + s.y) + (s.z + s.w);
  }
  const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return rsqrtf(__fdividef(sum, static_cast<float>(p.widths[kind])) +
                (kind == 1 ? p.g_norm_eps : p.norm_eps));
}
static_assert(kDecodeWarps == 16);

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

/// The products of a phase, of which `job` is the first.
template <unsigned kTypes>
__device__ __forceinline__ void multiply(Ring& ring, int phase, int kind, Job job) {
#pragma unroll 1
  for (int i = 1; job.shape >= 0; ++i) {
    const BlockType type = static_cast<BlockType>(job.places.w & 255);
    const auto with = [&]<BlockType kType>() {
      if constexpr ((kTypes & kTypeBit<kType>) != 0) {
        if (type == kType) multiply_run<kType>(ring, phase, job);
      }
    };
    with.template operator()<BlockType::q4_0>();
    with.template operator()<BlockType::q8_0>();
    with.template operator()<BlockType::q4_k>();
    with.template operator()<BlockType::q6_k>();
    with.template operator()<BlockType::bf16>();
    with.template operator()<BlockType::f16>();
    with.template operator()<BlockType::f32>();
    if (kind != 0 || i == kDecodeInputs) break;
    job = take_job(phase, kind, i);
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
    // Angles in double: the position grows without bound.
    auto* rotation = shared_at<float4>(p.shared.rotation);
    const std::uint64_t t = about.segment.position;
    const std::uint64_t near =
        t < std::uint64_t(p.sink_distance) ? t : std::uint64_t(p.sink_distance);
#pragma unroll 1
    for (int i = tid; i < p.k_dim / 2; i += kDecodeThreads) {
      const double f = p.turns[i], a = double(t) * f, b = double(near) * f;
      float4 r;
      sincospif(2.0F * float(a - floor(a)), &r.y, &r.x);
      sincospif(2.0F * float(b - floor(b)), &r.w, &r.z);
      rotation[i] = r;
    }
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
    const std::uint64_t position = t.segment.position, sinks = std::uint64_t(given.sinks);
    t.target = position < sinks ? int(position)
               : given.window > 0
                   ? given.sinks + int((position - sinks) % std::uint64_t(given.window))
                   : -1;
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
