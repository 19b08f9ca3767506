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
  return phase >> (30 - kPart);
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

/// Asks for exchanged values until they are there, or gives up for good.
struct Waiter {
  const Decode& p;
  unsigned bit;  // of this use
  bool alive = true;

  __device__ __forceinline__ bool here(float4 v) const {
    const unsigned other = (__float_as_uint(v.x) ^ bit) | (__float_as_uint(v.y) ^ bit) |
                           (__float_as_uint(v.z) ^ bit) | (__float_as_uint(v.w) ^ bit);
    return (other & 1U) == 0;
  }
  /// The value without the bit.
  static __device__ __forceinline__ float value(float v) {
    return __uint_as_float(__float_as_uint(v) & ~1U);
  }
  /// After a question that was not answered; false: ask no more.
  __device__ __forceinline__ bool ask_again(unsigned& asked, int where) {
    if (!alive) return false;
    ++asked;
    if (p.poll > 1) pause(unsigned(p.poll));
    if ((asked & 1023U) == 0) {
      if (load_flag(p.trouble) != 0) {
        alive = false;
      } else if (asked >= p.patience) {
        store_flag(p.trouble, unsigned(where) | 0x80000000U);
        alive = false;
      }
    }
    return alive;
  }
  __device__ __forceinline__ float4 finish(const float* from, float4 v, int where) {
    unsigned asked = 0;
#pragma unroll 1
    while (!here(v) && ask_again(asked, where)) v = load_exchanged(from);
    return make_float4(value(v.x), value(v.y), value(v.z), value(v.w));
  }
  __device__ __forceinline__ float2 finish_pair(const float* from, float2 v, int where) {
    unsigned asked = 0;
#pragma unroll 1
    while ((((__float_as_uint(v.x) ^ bit) | (__float_as_uint(v.y) ^ bit)) & 1U) != 0 &&
           ask_again(asked, where))
      v = load_exchanged_pair(from);
    return make_float2(value(v.x), value(v.y));
  }
  __device__ __forceinline__ float4 read(const float* from, int where) {
    return finish(from, load_exchanged(from), where);
  }
  __device__ __forceinline__ float read_word(const float* from, int where) {
    float v = load_exchanged_word(from);
    unsigned asked = 0;
#pragma unroll 1
    while (((__float_as_uint(v) ^ bit) & 1U) != 0 && ask_again(asked, where))
      v = load_exchanged_word(from);
    return value(v);
  }
  __device__ __forceinline__ void write(float* to, float v) const {
    store_exchanged(to, __uint_as_float((__float_as_uint(v) & ~1U) | bit));
  }
};

/// The stages of the ring as one warp, or the producer, walks them.
struct Ring {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ std::uint64_t* full(const Decode& p) const {
    return shared_at<std::uint64_t>(p.shared.barriers) + stage;
  }
  __device__ __forceinline__ std::uint64_t* empty(const Decode& p) const {
    return full(p) + p.stages;
  }
  __device__ __forceinline__ unsigned char* data(const Decode& p) const {
    return shared_at<unsigned char>(p.shared.ring) + stage * p.stage_bytes;
  }
  __device__ __forceinline__ void advance(const Decode& p) {
    if (++stage == p.stages) stage = 0, parity ^= 1U;
  }
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

/// Streams this block's tiles of one matrix.
__device__ __forceinline__ void stream_matrix(const Decode& p, Ring& ring, const DecodeMatrix& m,
                                              int2 range, std::uint64_t policy) {
  const DecodeShape& s = p.shapes[m.shape];
#pragma unroll 1
  for (int t = range.x; t < range.y; t += s.stage_tiles) {
    const unsigned count = unsigned(min(s.stage_tiles, range.y - t));
    wait_barrier(p, ring.empty(p), ring.parity ^ 1U);
    const unsigned data = count * unsigned(s.data_bytes), scales = count * unsigned(s.scale_bytes),
                   high = count * unsigned(s.high_bytes);
    barrier_expect(ring.full(p), data + scales + high);
    unsigned char* to = ring.data(p);
    bulk_copy(to, static_cast<const char*>(m.data) + std::size_t(t) * unsigned(s.data_bytes), data,
              ring.full(p), policy);
    if (scales != 0)
      bulk_copy(to + s.scale_at,
                static_cast<const char*>(m.scales) + std::size_t(t) * unsigned(s.scale_bytes),
                scales, ring.full(p), policy);
    if (high != 0)
      bulk_copy(to + s.high_at,
                static_cast<const char*>(m.high) + std::size_t(t) * unsigned(s.high_bytes), high,
                ring.full(p), policy);
    ring.advance(p);
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

/// One thread of the extra warp.
__device__ __forceinline__ void produce(int cta) {
  const Decode& p = program<0>(0);
  const auto* layers = shared_at<const DecodeLayer>(p.shared.layers);
  const auto* ranges = shared_at<const int2>(p.shared.ranges);
  const auto& token = *shared_at<const DecodeToken>(p.shared.token);
  const std::uint64_t policy = p.keep != 0 ? policy_normal() : policy_leave_first();
  Ring ring;
  if (cta < p.blocks) {
    const auto ask_for = [&](int l) {
      const DecodeLayer& w = layers[l];
      if (token.head >= 0 && token.count > 0) {
        const float* keys = token.segment.state_in + std::size_t(l) * p.layer_floats +
                            std::size_t(token.head) * p.head_floats;
        const float* values = keys + std::size_t(p.sinks + p.window + p.memory) * unsigned(p.k_dim);
        bulk_prefetch(keys + token.first * p.k_dim, unsigned(token.count * p.k_dim) * 4);
        bulk_prefetch(values + token.first * p.v_dim, unsigned(token.count * p.v_dim) * 4);
      }
      if (l % p.blocks == cta) {
        prefetch_vector(w.attn_norm, p.d);
        prefetch_vector(w.mlp_norm, p.d);
        prefetch_vector(w.g_norm, p.heads * p.v_dim);
        prefetch_vector(w.f_bias, p.kv_heads * p.memory);
        prefetch_vector(w.read_bias, p.kv_heads * p.memory);
        prefetch_vector(w.head_read_bias, p.heads);
      }
    };
#pragma unroll 1
    for (int l = 0; l < min(2, p.num_layers); ++l) ask_for(l);
#pragma unroll 1
    for (int l = 0; l < p.num_layers; ++l) {
      const DecodeLayer& w = layers[l];
      if (l + 2 < p.num_layers) ask_for(l + 2);
#pragma unroll 1
      for (int i = 0; i < w.num_inputs; ++i)
        stream_matrix(p, ring, w.inputs[i], ranges[w.inputs[i].shape], policy);
      stream_matrix(p, ring, w.output, ranges[w.output.shape], policy);
      stream_matrix(p, ring, w.gate_up, ranges[w.gate_up.shape], policy);
      stream_matrix(p, ring, w.down, ranges[w.down.shape], policy);
    }
  }
  stream_matrix(p, ring, p.head, ranges[p.head.shape], policy);
}

/// kN steps of one tile; the pieces are under way together.
template <BlockType kType, int kN>
__device__ __forceinline__ float multiply_steps(const SharedInput& x, const StagePiece& piece,
                                                int index, int block, int chunks, int way_shift,
                                                int lane_shift, float acc) {
  using S = Streamed<kType>;
  typename S::Weights w[kN];
  typename S::Input in[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    const int step = j << way_shift;
    if constexpr (S::kBlocks) {
      w[j] = S::load(piece, index + step * 32);
      in[j].load(x, block + (step << lane_shift));
    } else {
      const int chunk = index + step * 32;
      w[j].w = reinterpret_cast<const uint4*>(piece.data)[min(chunk, chunks - 1)];
      in[j] = S::input(x, chunk, chunk < chunks);
    }
  }
  float sums[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) sums[j] = S::dot(w[j], in[j], 0.0F);
#pragma unroll
  for (int j = 0; j < kN; ++j) acc += sums[j];
  return acc;
}

/// Sums of this block's rows of one matrix, one for each of the warps that share a tile's steps,
/// into `partial`. Returns where the ring stands.
template <BlockType kType>
__device__ __forceinline__ Ring multiply_tiles(Ring ring, int phase, int shape, int n,
                                               int partial_at) {
  using S = Streamed<kType>;
  const Decode& p = program<2>(phase);
  const DecodeShape& s = p.shapes[shape];
  const int tid = thread_index() + hidden_zero<2>(phase), lane = tid & 31, warp = tid >> 5;
  const int2 range = shared_at<const int2>(p.shared.ranges)[shape];
  SharedInput x;
  x.q_low = shared_at<int4>(p.shared.rounded);
  x.q_high = x.q_low + n / 32;
  x.meta = reinterpret_cast<int2*>(x.q_high + n / 32);
  x.f_low = shared_at<float4>(p.shared.plain);
  x.f_high = x.f_low + n / 8;
  const int way_shift = s.way_shift, row_shift = s.row_shift, lane_shift = s.lane_shift,
            steps = s.steps, chunks = s.chunks, tile_bytes = s.data_bytes, scale_at = s.scale_at,
            high_at = s.high_at, stage_tiles = s.stage_tiles;
  const int ways = 1 << way_shift, way = warp & (ways - 1), groups = kDecodeWarps >> way_shift;
  const int in_row = lane & ((1 << lane_shift) - 1);
  const int mine = (steps - way + ways - 1) >> way_shift;  // steps of a tile; <= 0: none
  float* const partial =
      shared_at<float>(p.shared.partial) + partial_at + (way << row_shift) + (lane >> lane_shift);
  int next = mine > 0 ? range.x + (warp >> way_shift) : range.y;  // tile
#pragma unroll 1
  for (int t = range.x; t < range.y; t += stage_tiles) {
    const int end = min(t + stage_tiles, range.y);
    wait_barrier(p, ring.full(p), ring.parity);
    const unsigned char* data = ring.data(p);
#pragma unroll 1
    for (; next < end; next += groups) {
      const int i = next - t;
      StagePiece piece{data, data + scale_at, data + high_at};
      int index = way * 32 + lane, block = (way << lane_shift) + in_row;
      if constexpr (S::kBlocks) {
        index += i * steps * 32;
      } else {
        piece.data += i * tile_bytes;
      }
      float acc = 0.0F;
      int left = mine;
      if constexpr (S::kMost >= 4) {
#pragma unroll 1
        for (; left >= 4; left -= 4) {
          acc =
              multiply_steps<kType, 4>(x, piece, index, block, chunks, way_shift, lane_shift, acc);
          index += 128 << way_shift, block += 4 << (way_shift + lane_shift);
        }
      }
#pragma unroll 1
      for (; left >= 2; left -= 2) {
        acc = multiply_steps<kType, 2>(x, piece, index, block, chunks, way_shift, lane_shift, acc);
        index += 64 << way_shift, block += 2 << (way_shift + lane_shift);
      }
      if (left > 0)
        acc = multiply_steps<kType, 1>(x, piece, index, block, chunks, way_shift, lane_shift, acc);
#pragma unroll 1
      for (int o = (1 << lane_shift) >> 1; o > 0; o >>= 1) acc += __shfl_xor_sync(~0U, acc, o);
      if (in_row == 0) partial[(next - range.x) << (way_shift + row_shift)] = acc;
    }
    sync_warp();
    if (lane == 0) barrier_arrive(ring.empty(p));
    ring.advance(p);
  }
  return ring;
}

/// A row's sum, from its parts.
__device__ __forceinline__ float row_sum(const DecodeShape& s, const float* partial, int row) {
  const int way_shift = s.way_shift, row_shift = s.row_shift;
  const float* from =
      partial + ((row >> row_shift) << (way_shift + row_shift)) + (row & ((1 << row_shift) - 1));
  const int ways = min(1 << way_shift, s.steps);  // warps beyond the steps have nothing
  float sum = 0.0F;
#pragma unroll 1
  for (int w = 0; w < ways; w += 4) {
    float part[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) part[j] = w + j < ways ? from[(w + j) << row_shift] : 0.0F;
    sum += part[0], sum += part[1], sum += part[2], sum += part[3];
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

/// Logits of this thread's keys with kG queries, from query `first`.
template <int kItems, int kG>
__device__ __forceinline__ void slot_logits(const Decode& p, const DecodeToken& token,
                                            const DecodeLayer& w, float* scratch,
                                            const float4 (&k)[kItems], int first, int key_slot,
                                            int key_lane) {
  const int key_groups = p.key_groups, key_shift = p.key_shift, positional = p.sinks + p.window;
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
#pragma unroll 1
      for (int o = (1 << key_shift) >> 1; o > 0; o >>= 1) {
#pragma unroll
        for (int g = 0; g < kG; ++g) acc[g] += __shfl_xor_sync(~0U, acc[g], o);
      }
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

/// This block's slots of one layer: see the top.
template <int kItems>
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
  const int key_shift = p.key_shift, key_groups = p.key_groups, value_shift = p.value_shift;
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
    slot_logits<kItems, 3>(p, token, w, scratch, k, g, key_slot, key_lane);
#pragma unroll 1
  for (; g < group; ++g) slot_logits<kItems, 1>(p, token, w, scratch, k, g, key_slot, key_lane);
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
    peak = warp_max(peak);
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
    if (p.poll == 0) {  // the wait is long, and everybody's questions would keep the answer off
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
      if (w.g_norm != nullptr) weight = reinterpret_cast<const float4*>(w.g_norm)[i];
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
  const bool head = phase == 4 * p.num_layers;
  const int kind = head ? 4 : phase & 3, layer = phase >> 2;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[head ? 0 : layer];
  const float* norm = kind == 0   ? w.attn_norm
                      : kind == 2 ? w.mlp_norm
                      : kind == 4 ? p.final_norm
                                  : nullptr;
  const int n = kind == 3 ? p.inner : p.d, vectors = n / 4;
  const int forms = head ? p.head_forms : w.forms >> (2 * kind);
  const bool rounded = (forms & kFormRounded) != 0, plain = (forms & kFormPlain) != 0;
  const SharedInput input = input_places(p, n);
  float4* const x = shared_at<float4>(p.shared.x);
  // Phase 0 of a layer reads what the layer before left, in its set.
  const unsigned use = p.use + unsigned(layer) - (kind == 0 ? 1U : 0U);
  const float* from = p.exchange + (head ? 2 * std::size_t(unsigned(p.at.total))
                                         : std::size_t(use & 1U) * unsigned(p.at.total) +
                                               unsigned(kind == 2   ? p.at.x1
                                                        : kind == 3 ? p.at.h
                                                                    : p.at.x2));
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
             wait.ask_again(asked, 16 + kind))
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

/// This block's rows, to whoever needs them.
__device__ __forceinline__ void publish(int phase) {
  const Decode& p = program<3>(phase);
  const int tid = thread_index() + hidden_zero<3>(phase);
  const bool head = phase == 4 * p.num_layers;
  const int kind = head ? 4 : phase & 3, layer = phase >> 2;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[head ? 0 : layer];
  const DecodeMatrix* matrices = kind == 0   ? w.inputs
                                 : kind == 1 ? &w.output
                                 : kind == 2 ? &w.gate_up
                                 : kind == 3 ? &w.down
                                             : &p.head;
  const int count = kind == 0 ? w.num_inputs : 1;
  const unsigned use = p.use + unsigned(layer);
  float* const set = p.exchange + std::size_t(use & 1U) * unsigned(p.at.total);
  const Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  float* const x_out = set + (kind == 1 ? p.at.x1 : p.at.x2);
  // What follows the last layer has a place of its own too: blocks that only take part in the head
  // wait for it from the beginning, and must not take an earlier layer for the last.
  const bool last = phase == 4 * p.num_layers - 1;
  const Waiter at_last{p, p.final_bit};
  float* const final_x = p.exchange + 2 * std::size_t(unsigned(p.at.total));
  const float* x = shared_at<const float>(p.shared.x);
  float factor = 1.0F;
  if (kind == 1 ? p.output_norm != 0 : kind != 3) {
    const auto* squares = reinterpret_cast<const float4*>(squares_of(p, phase));
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kDecodeWarps / 4; ++i) {
      const float4 s = squares[i];
      sum += s.x, sum += s.y, sum += s.z, sum += s.w;
    }
    const int n = kind == 1 ? p.heads * p.v_dim : p.d;
    factor = rsqrtf(sum / static_cast<float>(n) + (kind == 1 ? p.g_norm_eps : p.norm_eps));
  }
  const float* sums = shared_at<const float>(p.shared.partial);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const DecodeShape& s = p.shapes[matrices[i].shape];
    const int2 range = shared_at<const int2>(p.shared.ranges)[matrices[i].shape];
    const int first = range.x << s.row_shift;
    const int rows = min(s.rows, range.y << s.row_shift) - first;
    if (kind == 2) {
#pragma unroll 1
      for (int c = tid; c < rows / 2; c += kDecodeThreads) {
        const float g = row_sum(s, sums, 2 * c) * factor, u = row_sum(s, sums, 2 * c + 1) * factor;
        wait.write(set + p.at.h + first / 2 + c, swish(g) * u);
      }
    } else {
#pragma unroll 1
      for (int r = tid; r < rows; r += kDecodeThreads) {
        const float v = row_sum(s, sums, r) * factor;
        const int row = first + r;
        if (kind == 0) {
          wait.write(set + p.at.inputs + matrices[i].column + row, v);
        } else if (kind == 4) {
          p.logits[row] = v;
        } else {
          wait.write(x_out + row, x[row] + v);
          if (last) at_last.write(final_x + row, x[row] + v);
        }
      }
    }
    sums += (range.y - range.x) << (s.way_shift + s.row_shift);
  }
}

/// The products of a phase.
template <unsigned kTypes>
__device__ __forceinline__ Ring multiply(Ring ring, int phase) {
  const Decode& p = program<5>(phase);
  const bool head = phase == 4 * p.num_layers;
  const int kind = head ? 4 : phase & 3, layer = phase >> 2;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[head ? 0 : layer];
  const int n = kind == 1 ? p.heads * p.v_dim : kind == 3 ? p.inner : p.d;
  const int count = kind == 0 ? w.num_inputs : 1;
  int partial_at = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const int shape = kind == 0   ? w.inputs[i].shape
                      : kind == 1 ? w.output.shape
                      : kind == 2 ? w.gate_up.shape
                      : kind == 3 ? w.down.shape
                                  : p.head.shape;
    const BlockType type = p.shapes[shape].type;
    const auto with = [&]<BlockType kType>() {
      if constexpr ((kTypes & kTypeBit<kType>) != 0) {
        if (type == kType) ring = multiply_tiles<kType>(ring, phase, shape, n, partial_at);
      }
    };
    with.template operator()<BlockType::q4_0>();
    with.template operator()<BlockType::q8_0>();
    with.template operator()<BlockType::q4_k>();
    with.template operator()<BlockType::q6_k>();
    with.template operator()<BlockType::bf16>();
    with.template operator()<BlockType::f16>();
    with.template operator()<BlockType::f32>();
    const DecodeShape& s = p.shapes[shape];
    const int2 range = shared_at<const int2>(p.shared.ranges)[shape];
    partial_at += (range.y - range.x) << (s.way_shift + s.row_shift);
  }
  return ring;
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
    ring = multiply<kTypes>(ring, phase);
    trace.mark();
    sync_first<kDecodeThreads>();
    publish(phase);
    trace.mark();
    if (has_slots && phase < phases && (phase & 3) == 0) {
      step_slots<kItems>(phase);
      trace.mark();
    }
  }
}

/// Everything a thread of the kernel does.
template <unsigned kTypes, int kItems>
__device__ __forceinline__ void decode_thread(const Decode& given) {
  const int tid = thread_index(), cta = block_index();
  constexpr int kThreads = kDecodeThreads + 32;
  {
    const auto* from = reinterpret_cast<const std::uint32_t*>(&given);
    auto* to = shared_at<std::uint32_t>(0);
#pragma unroll 1
    for (int i = tid; i < int(sizeof(Decode) / 4); i += kThreads) to[i] = from[i];
    const auto* layers = reinterpret_cast<const std::uint64_t*>(given.layers);
    auto* table = shared_at<std::uint64_t>(given.shared.layers);
    const int words = given.num_layers * int(sizeof(DecodeLayer) / 8);
#pragma unroll 1
    for (int i = tid; i < words; i += kThreads) table[i] = layers[i];
  }
  if (tid < given.num_shapes) {
    const DecodeShape& s = given.shapes[tid];
    const int blocks = s.everybody != 0 ? given.grid : given.blocks, units = s.tiles / s.unit;
    int2 range = make_int2(0, 0);
    if (cta < blocks) {
      range.x = int((long long)(units)*cta / blocks) * s.unit;
      range.y = int((long long)(units) * (cta + 1) / blocks) * s.unit;
    }
    shared_at<int2>(given.shared.ranges)[tid] = range;
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
    for (int i = 0; i < given.stages; ++i) {
      barrier_init(barriers + i, 1);
      barrier_init(barriers + given.stages + i, kDecodeWarps);
    }
    barrier_publish();
  }
  sync_block();
  if (tid < kDecodeThreads) {
    consume<kTypes, kItems>(cta);
  } else if (tid == kDecodeThreads) {
    produce(cta);
  }
}

}  // namespace runnel::cuda
