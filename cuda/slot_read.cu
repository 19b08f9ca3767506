// SPDX-License-Identifier: Apache-2.0
// What the tokens of a chunk read: scores, one softmax, outputs. A block takes the 64 tokens of a
// chunk for one query head; scores, probabilities and weights stay in registers, as fragments of
// the next product (cuda/slot_gates.cu says how the decays factor):
//   logits = scale (q h^T 2^R + tril(q k^T) W) * rise + biases     W = s 2^(R - G)
//   o      = (p rise 2^R) hv + tril((p rise) W^T) v
// Sinks and the window are ordinary attention over 16 + 64 + 64 rotated keys under the same softmax.
//
// Two warps share 16 tokens: one takes the scores of the memory and of the window inside the chunk,
// its partner those of the chunk's keys and of the window before it; they trade through shared
// memory, both do the softmax, and each writes half of the columns. Operands come through a ring of
// three stages of 64-wide tiles, one barrier a stage. Chunks with gates too strong for the factors
// take the sums of products one by one.
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/slot_read.cuh"

namespace runnel::cuda {
namespace {

/// Scores of the 16 tokens of a warp, then weights. Element (n, e) has row row_at(e), column column_at(n, e).
template <bool kPositional>
struct Scores {
  float memory[8][4] = {};                  // until the trade, the partner's: of the chunk's keys
  float near[kPositional ? 8 : 1][4] = {};  // of the window in the chunk; until the trade, the
  float before[kPositional ? 8 : 1][4];     // warp's half of the window: the partner's is before it
  float sinks[kPositional ? 2 : 1][4] = {};  // both
};

/// Weights of the values as left operands.
template <bool kPositional>
struct ValueWeights {
  std::uint32_t memory[4][4], own[4][4];  // of the memory; of the chunk's tokens
  std::uint32_t before[kPositional ? 4 : 1][4], sinks[4];
};

/// A warp that reads for 16 tokens of a chunk and a query head; its phases, in their order.
template <bool kPositional>
struct ChunkReader {
  using Of = ReadShared<kPositional>;
  using S = Scores<kPositional>;
  using W = ValueWeights<kPositional>;

  const ChunkArgs& a;
  unsigned char* const dynamic;  // shared memory: the stages, then s
  const SlotMixer& m = a.m;
  std::uint16_t* const written =  // s [token][slot]
      reinterpret_cast<std::uint16_t*>(dynamic + kReadStages * Of::kStage);
  const int chunk = int(blockIdx.x), query = int(blockIdx.y), head = query / (m.heads / m.kv_heads);
  const int tid = int(threadIdx.x), warp = tid >> 5, lane = tid & 31;
  const int group = warp & 3, part = warp >> 2;  // 16 tokens; which of the two warps
  const int row0 = group * 16, quad = (lane & 3) * 2;
  const int rows = min(kChunk, a.tokens - chunk * kChunk);
  const std::uint64_t first = a.segment->position + std::uint64_t(chunk) * kChunk;  // of row 0
  const int first_row = a.segment->first + chunk * kChunk;
  const std::size_t q_stride = or_dense(a.o.q_stride, m.heads*m.k_dim),
                    k_stride = or_dense(a.o.k_stride, m.kv_heads*m.k_dim),
                    v_stride = or_dense(a.o.v_stride, m.kv_heads*m.v_dim);
  const std::size_t q_at = std::size_t(chunk * kChunk) * q_stride + std::size_t(query) * m.k_dim;
  const std::size_t k_at = std::size_t(chunk * kChunk) * k_stride + std::size_t(head) * m.k_dim;
  const std::size_t v_at = std::size_t(chunk * kChunk) * v_stride + std::size_t(head) * m.v_dim;
  const std::size_t at = std::size_t(chunk) * m.kv_heads + head;
  const float* const rise = a.o.rise + at * kTile * kTile;
  const float* const centre = a.o.centre + at * kTile;
  const bool strong = a.o.strong[at] != 0;  // the gates: powers of them would overflow
  const int key_steps = (m.k_dim + kTile - 1) / kTile, value_steps = (m.v_dim + kTile - 1) / kTile;
  const int score_steps = key_steps * (kPositional ? (m.sinks > 0 ? 3 : 2) : 1);

  __device__ __forceinline__ ChunkReader(const ChunkArgs& args, unsigned char* shared)
      : a(args), dynamic(shared) {}

  static __device__ __forceinline__ std::size_t or_dense(int stride, int columns) {
    return std::size_t(stride > 0 ? stride : columns);
  }
  __device__ __forceinline__ int row_at(int e) const { return row0 + (e >> 1) * 8 + (lane >> 2); }
  __device__ __forceinline__ int column_at(int n, int e) const { return n * 8 + quad + (e & 1); }
  /// Powers of the gates of elements e and e + 1: of their rows and slots, of their slots.
  __device__ __forceinline__ float2 risen(int n, int e) const {
    return *reinterpret_cast<const float2*>(rise + row_at(e) * kTile + n * 8 + quad);
  }
  __device__ __forceinline__ float2 centred(int n) const {
    return *reinterpret_cast<const float2*>(centre + n * 8 + quad);
  }
  __device__ __forceinline__ Exact exact() const {
    return {.g = rise,
            .gate = a.o.gates + std::size_t(chunk * kChunk) * a.o.gate_stride + head * m.memory,
            .stride = std::size_t(a.o.gate_stride),
            .rows = rows,
            .memory = m.memory};
  }

  __device__ __forceinline__ std::uint16_t* tile(int stage, int i) const {
    return reinterpret_cast<std::uint16_t*>(dynamic + stage * Of::kStage + i * kTileBytes);
  }
  static __device__ __forceinline__ void load(std::uint16_t* to, const std::uint16_t* from,
                                              std::size_t stride, int count, int columns) {
    load_tile<kReadThreads, kTile, kTile, kPad>(to, from, stride, count, columns);
  }

  /// What a step of the scores multiplies: steps 0 … key_steps-1 memory and the chunk's own keys; then the rotated
  /// keys of the chunk and of the 64 tokens before it; then the sinks.
  __device__ __forceinline__ int kind_of(int step) const {
    return kPositional ? step / key_steps : 0;
  }
  __device__ __forceinline__ void fetch_keys(int step) const {
    if (step < score_steps) {
      const int kind = kind_of(step), c = (step - kind * key_steps) * kTile;
      const int stage = step % kReadStages, columns = m.k_dim - c;
      if (kind == 0) {
        const std::uint16_t* keys = a.o.keys + at * kTile * m.k_dim;
        load(tile(stage, 0), a.o.q + q_at + c, q_stride, rows, columns);
        load(tile(stage, 1), keys + c, std::size_t(m.k_dim), m.memory, columns);
        load(tile(stage, 2), a.o.k + k_at + c, k_stride, rows, columns);
      } else if (kind == 1) {
        load(tile(stage, 0), a.o.q_turned + q_at + c, q_stride, rows, columns);
        load(tile(stage, 1), a.o.k_turned + kChunk * k_stride + k_at + c, k_stride, rows, columns);
        load(tile(stage, 2), a.o.k_turned + k_at + c, k_stride, kTile, columns);
      } else {
        load(tile(stage, 0), a.o.q_near + q_at + c, q_stride, rows, columns);
        load_tile<kReadThreads, kMostSinks, kTile, kPad>(
            tile(stage, 1), a.o.k_sink + std::size_t(head) * m.k_dim + c, k_stride, m.sinks,
            columns);
      }
    }
    copy_commit();
  }

  /// sum [16, 8 kWide] += the warp's rows of `queries` times those 16 of `keys` that are not skipped.
  template <int kWide, class Skipped>
  __device__ __forceinline__ void multiply(float (&sum)[kWide][4], const std::uint16_t* queries,
                                           const std::uint16_t* keys,
                                           const Skipped& skipped) const {
#pragma unroll
    for (int k = 0; k < kTile; k += 16) {
      std::uint32_t fl[4], fr[4];
      left<kPad>(fl, queries, row0, k);
#pragma unroll
      for (int n = 0; n < kWide / 2; ++n) {
        if (skipped(n)) continue;
        right<kPad>(fr, keys, n * 16, k);
        mma_bf16(sum[2 * n], fl, fr[0], fr[1]);
        mma_bf16(sum[2 * n + 1], fl, fr[2], fr[3]);
      }
    }
  }

  /// q h^T or, the partner, q k^T; the window's q k^T in the chunk or, the partner, before it; q k^T of the sinks.
  __device__ __forceinline__ void score(S& s) const {
    load(written, a.o.write + at * kTile * kTile, kTile, kTile, kTile);
    fetch_keys(0);
    fetch_keys(1);
    for (int step = 0; step < score_steps; ++step) {
      copy_wait<1>();
      __syncthreads();
      fetch_keys(step + 2);  // into the stage that the step before this one has left
      const int kind = kind_of(step), stage = step % kReadStages;
      if (kind == 0) {
        multiply(s.memory, tile(stage, 0), tile(stage, 1 + part),
                 [&](int n) { return part == 1 && n > group; });  // later tokens are not read
      }
      if constexpr (kPositional) {
        if (kind == 1) {
          multiply(s.near, tile(stage, 0), tile(stage, 1 + part), [&](int n) {
            return part == 0 ? n > group : n < group;  // the window is at most 64 wide
          });
        } else if (kind == 2) {
          multiply(s.sinks, tile(stage, 0), tile(stage, 1), [](int) { return false; });
        }
      }
    }
    copy_wait<0>();
    __syncthreads();  // the ring is free
  }

  /// (q h^T 2^R) * rise
  __device__ __forceinline__ void raise_memory(float (&sum)[8][4]) const {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 c = centred(n);
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float2 up = risen(n, e);
        sum[n][e] *= strong ? exp2f(up.x) : c.x * up.x;
        sum[n][e + 1] *= strong ? exp2f(up.y) : c.y * up.y;
      }
    }
  }

  /// What tokens of the chunk add to the memory's scores, from q k^T: (tril(q k^T) W) * rise
  __device__ __forceinline__ void score_written(float (&sum)[8][4]) const {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (column_at(n, e) > row_at(e)) sum[n][e] = 0.0F;
      }
    }
    if (!strong) {
      score_written_by_factors(sum);
    } else {
      score_written_one_by_one(sum);
    }
  }
  __device__ __forceinline__ void score_written_by_factors(float (&sum)[8][4]) const {
    std::uint32_t of_chunk[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) as_left(of_chunk[i], sum[2 * i], sum[2 * i + 1]);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[n][e] = 0.0F;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i > group) continue;
      std::uint32_t fr[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        right_transposed<kPad>(fr, written, n * 16, i * 16);
        mma_bf16(sum[2 * n], of_chunk[i], fr[0], fr[1]);
        mma_bf16(sum[2 * n + 1], of_chunk[i], fr[2], fr[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float2 up = risen(n, e);
        sum[n][e] *= up.x, sum[n][e + 1] *= up.y;
      }
    }
  }
  /// sum over tokens j up to t of (q k^T)_tj s_j 2^(G_t - G_j)
  __device__ __forceinline__ void score_written_one_by_one(float (&sum)[8][4]) const {
    const Exact gates = exact();
    auto* scores = reinterpret_cast<float*>(dynamic + 2 * kTrade);  // [64][kExact]
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[row_at(e) * kExact + column_at(n, e)] = sum[n][e];
    }
    __syncwarp();  // a warp reads its own rows only
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int t = row_at(e), slot = column_at(n, e);
        const float g = gates.running(t, slot);
        float total = 0.0F;
        for (int j = 0; j <= t; ++j) {
          total = fmaf(scores[t * kExact + j] * gates.written(j, slot),
                       exp2f(g - gates.running(j, slot)), total);
        }
        sum[n][e] = total;
      }
    }
  }

  /// The two warps of 16 tokens add up the memory's scores and exchange their halves of the window's.
  __device__ __forceinline__ void trade(S& s) const {
    auto* mine = reinterpret_cast<float*>(dynamic) + tid;
    const auto* other = reinterpret_cast<const float*>(dynamic) + (tid ^ 128);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      mine[i * kReadThreads] = s.memory[i / 4][i % 4];
      if constexpr (kPositional) mine[(32 + i) * kReadThreads] = s.near[i / 4][i % 4];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; ++i) s.memory[i / 4][i % 4] += other[i * kReadThreads];
    if constexpr (kPositional) {
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const float own = s.near[i / 4][i % 4], theirs = other[(32 + i) * kReadThreads];
        s.near[i / 4][i % 4] = part == 0 ? own : theirs;
        s.before[i / 4][i % 4] = part == 0 ? theirs : own;
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ void fetch_values(int step) const {
    if (step < value_steps) {
      const int stage = step % kReadStages, c = step * kTile, columns = m.v_dim - c;
      const std::size_t own_at = v_at + (kPositional ? kChunk * v_stride : 0) + std::size_t(c);
      const std::uint16_t* values = a.o.values + at * kTile * m.v_dim;
      load(tile(stage, 0), values + c, std::size_t(m.v_dim), m.memory, columns);
      load(tile(stage, 1), a.o.v + own_at, v_stride, rows, columns);
      if constexpr (kPositional) {
        load(tile(stage, 2), a.o.v + v_at + c, v_stride, kTile, columns);
        load_tile<kReadThreads, kMostSinks, kTile, kPad>(
            tile(stage, 3), a.o.v_sink + std::size_t(head) * m.v_dim + c, v_stride, m.sinks,
            columns);
      }
    }
    copy_commit();
  }

  /// logits = scale * score + biases, -inf where there is no key; `peak` of each of the lane's two rows.
  __device__ __forceinline__ void mask(S& s, float (&peak)[2]) const {
    const float head_bias = m.head_read_bias != nullptr ? m.head_read_bias[query] : 0.0F;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int t = row_at(e), c = column_at(n, e);
        float v = -INFINITY;
        if (c < m.memory) {
          v = m.scale * s.memory[n][e] + head_bias;
          if (m.read_bias != nullptr) v += m.read_bias[head * m.memory + c];
        }
        s.memory[n][e] = v;
        peak[e >> 1] = fmaxf(peak[e >> 1], v);
        if constexpr (kPositional) {
          // Key c of the chunk has position first + c, of the rows before first + c - 64.
          const bool in_own = c <= t && t - c < m.window && first + c >= std::uint64_t(m.sinks);
          const bool in_before = t - c + kChunk < m.window &&
                                 first + c >= std::uint64_t(kChunk) + std::uint64_t(m.sinks);
          s.near[n][e] = in_own ? m.scale * s.near[n][e] : -INFINITY;
          s.before[n][e] = in_before ? m.scale * s.before[n][e] : -INFINITY;
          peak[e >> 1] = fmaxf(peak[e >> 1], fmaxf(s.near[n][e], s.before[n][e]));
          if (n < 2) {
            const bool valid = c < m.sinks && std::uint64_t(c) <= first + std::uint64_t(t);
            s.sinks[n][e] = valid ? m.scale * s.sinks[n][e] : -INFINITY;
            peak[e >> 1] = fmaxf(peak[e >> 1], s.sinks[n][e]);
          }
        }
      }
    }
  }

  /// p = exp(logits - peak) / sum of them, over all keys of a row.
  __device__ __forceinline__ void softmax(S& s, const float (&peak)[2]) const {
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float top = row_max(peak[half]);
      float total = 0.0F;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          total += s.memory[n][e] = __expf(s.memory[n][e] - top);
          if constexpr (kPositional) {
            total += s.near[n][e] = __expf(s.near[n][e] - top);
            total += s.before[n][e] = __expf(s.before[n][e] - top);
            if (n < 2) total += s.sinks[n][e] = __expf(s.sinks[n][e] - top);
          }
        }
      }
      inverse[half] = 1.0F / row_sum(total);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s.memory[n][e] *= inverse[e >> 1];
        if constexpr (kPositional) {
          s.near[n][e] *= inverse[e >> 1];
          s.before[n][e] *= inverse[e >> 1];
          if (n < 2) s.sinks[n][e] *= inverse[e >> 1];
        }
      }
    }
  }

  /// Weights of the tokens before the chunk and of the sinks.
  __device__ __forceinline__ void weigh_outside(const S& s, W& w) const {
    if constexpr (kPositional) {
#pragma unroll
      for (int i = 0; i < 4; ++i) as_left(w.before[i], s.before[2 * i], s.before[2 * i + 1]);
      as_left(w.sinks, s.sinks[0], s.sinks[1]);
    }
  }
  /// Weights of 16 tokens of the chunk: tril(sums of two blocks of eight) and what the window adds.
  __device__ __forceinline__ void weigh_own(const S& s, W& w, int i, float (&low)[4],
                                            float (&high)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (column_at(2 * i, e) > row_at(e)) low[e] = 0.0F;
      if (column_at(2 * i + 1, e) > row_at(e)) high[e] = 0.0F;
      if constexpr (kPositional) low[e] += s.near[2 * i][e], high[e] += s.near[2 * i + 1][e];
    }
    as_left(w.own[i], low, high);
  }
  /// For the memory p rise 2^R, for the chunk's tokens tril((p rise) W^T).
  __device__ __forceinline__ void weigh_by_factors(S& s, W& w) const {
    std::uint32_t lifted[4][4];  // p rise
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float whole[2][4];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int n = 2 * i + b;
        const float2 c = centred(n);
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const float2 up = risen(n, e);
          s.memory[n][e] *= up.x, s.memory[n][e + 1] *= up.y;
          whole[b][e] = s.memory[n][e] * c.x, whole[b][e + 1] = s.memory[n][e + 1] * c.y;
        }
      }
      as_left(w.memory[i], whole[0], whole[1]);
      as_left(lifted[i], s.memory[2 * i], s.memory[2 * i + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float low[4] = {}, high[4] = {};
      if (i <= group) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          std::uint32_t fr[4];
          right<kPad>(fr, written, i * 16, k * 16);
          mma_bf16(low, lifted[k], fr[0], fr[1]);
          mma_bf16(high, lifted[k], fr[2], fr[3]);
        }
      }
      weigh_own(s, w, i, low, high);
    }
  }
  /// For the memory p 2^G_t, for token j the sum over slots of p s_j 2^(G_t - G_j).
  __device__ __forceinline__ void weigh_one_by_one(const S& s, W& w) const {
    const Exact gates = exact();
    auto* scores = reinterpret_cast<float*>(dynamic) + warp * 16 * kExact;  // [16][kExact]
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float whole[2][4];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int n = 2 * i + b, t = row_at(e), slot = column_at(n, e);
          scores[(t - row0) * kExact + slot] = s.memory[n][e];
          whole[b][e] = s.memory[n][e] * exp2f(gates.running(t, slot));
        }
      }
      as_left(w.memory[i], whole[0], whole[1]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float two[2][4] = {};
#pragma unroll
      for (int b = 0; b < 2; ++b) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int t = row_at(e), j = column_at(2 * i + b, e);
          for (int slot = 0; j <= t && slot < m.memory; ++slot) {
            two[b][e] = fmaf(scores[(t - row0) * kExact + slot] * gates.written(j, slot),
                             exp2f(gates.running(t, slot) - gates.running(j, slot)), two[b][e]);
          }
        }
      }
      weigh_own(s, w, i, two[0], two[1]);
    }
  }

  /// o = weights times values, 64 columns at a time, 32 per warp.
  __device__ __forceinline__ void read(const W& w) const {
    const int column0 = part * 32;
    for (int step = 0; step < value_steps; ++step) {
      copy_wait<1>();
      __syncthreads();
      fetch_values(step + 2);
      const int stage = step % kReadStages, c0 = step * kTile, columns = min(kTile, m.v_dim - c0);
      float acc[4][4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const auto add = [&](const std::uint32_t(&of)[4], int values) {
            std::uint32_t fr[4];
            right_transposed<kPad>(fr, tile(stage, values), column0 + n * 16, i * 16);
            mma_bf16(acc[2 * n], of, fr[0], fr[1]);
            mma_bf16(acc[2 * n + 1], of, fr[2], fr[3]);
          };
          add(w.memory[i], 0);
          if (i <= group) add(w.own[i], 1);
          if constexpr (kPositional) {
            if (i >= group) add(w.before[i], 2);
            if (i == 0) add(w.sinks, 3);
          }
        }
      }
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const int t = row_at(e);
        const std::size_t to = std::size_t(first_row + t) * (std::size_t(m.heads) * m.v_dim) +
                               std::size_t(query) * m.v_dim + c0;
        write_row(a, acc, e, to, column0, columns, t < rows);
      }
    }
  }
};

template <bool kPositional>
__global__ void __launch_bounds__(kReadThreads, kPositional ? 1 : 2)
    read_kernel(const __grid_constant__ ChunkArgs a) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  chain_trigger();
  chain_wait();
  const ChunkReader<kPositional> r(a, dynamic);
  Scores<kPositional> s;
  r.score(s);
  if (r.part == 0) {
    r.raise_memory(s.memory);
  } else {
    r.score_written(s.memory);
  }
  r.trade(s);
  if (!r.strong) {  // values travel during the softmax
    r.fetch_values(0);
    r.fetch_values(1);
  }
  float peak[2] = {-INFINITY, -INFINITY};
  r.mask(s, peak);
  r.softmax(s, peak);
  ValueWeights<kPositional> w;
  r.weigh_outside(s, w);
  if (!r.strong) {
    r.weigh_by_factors(s, w);
  } else {
    r.weigh_one_by_one(s, w);
    __syncthreads();  // the rows give way to values
    r.fetch_values(0);
    r.fetch_values(1);
  }
  r.read(w);
}

template <bool kPositional>
cudaError_t allow() {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&read_kernel<kPositional>),
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              ReadShared<kPositional>::kBytes);
}

}  // namespace

cudaError_t prepare_slot_read() {
  if (cudaError_t e = allow<false>(); e != cudaSuccess) return e;
  return allow<true>();
}

cudaError_t slot_read(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                      const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, pass, o);
  const dim3 grid(unsigned(a.chunks), unsigned(m.heads));
  if (m.sinks + m.window > 0)
    return launch(l, read_kernel<true>, grid, kReadThreads, ReadShared<true>::kBytes, 1, a);
  return launch(l, read_kernel<false>, grid, kReadThreads, ReadShared<false>::kBytes, 1, a);
}

}  // namespace runnel::cuda
