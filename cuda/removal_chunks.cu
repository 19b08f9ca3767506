// SPDX-License-Identifier: Apache-2.0
// S <- diag(a) S + b (c^T S) + k v^T, of the S before; o = S^T q: 16 tokens at a time, all in f32.
//
// In a chunk with the state S0 before it, let A_t be the product of the decays up to token t, c~_t = A_(t-1) c_t,
// q~_t = A_t q_t, k^_s = k_s / A_s, b^_s = b_s / A_s. What token t takes away, u_t = c_t^T S, obeys
//   u_t = c~_t S0 + sum over s < t of (c~_t . b^_s) u_s + (c~_t . k^_s) v_s,
// a triangular system. Its solution is U = W S0 + X, where W and X do not depend on the state, so that
//   o = Q S0 + Y,  Q = q~ + (q~ . b^) W,  Y = (q~ . k^) v + (q~ . b^) X, both with s <= t,
//   S = A S0 + B^T U + K^T v,  B = A b^, K = A k^, A the product of the whole chunk.
// Two kernels: one makes W, Q, B, K, X, Y and A of all chunks at once; the other walks the chunks, 16 columns of a state
// a block. Bound: four multiply-adds per element of the state and token, in the walk.
#include "cuda/device/ops/mma.cuh"
#include "cuda/device/ops/recurrence.cuh"
#include "cuda/removal.h"

namespace runnel::cuda {
namespace {

constexpr int kChunk = kRemovalChunk;  // tokens
constexpr int kColumns = 16;           // of a state in a block of the walk

struct ChunkAt {
  int first = 0, count = 0;  // tokens; no tokens: there is no such chunk
};

/// Chunk `index` of a pass: those of the first segment, then those of the second.
__device__ __forceinline__ ChunkAt chunk_at(const Segment* segments, int num_segments, int index) {
  for (int i = 0; i < num_segments; ++i) {
    const int count = segments[i].count, chunks = (count + kChunk - 1) / kChunk;
    if (index < chunks) {
      const int at = index * kChunk;
      return {segments[i].first + at, min(kChunk, count - at)};
    }
    index -= chunks;
  }
  return {};
}

/// Four numbers of a row times four of another, added up.
__device__ __forceinline__ float dot4(float4 x, float4 y, float sum) {
  sum = fmaf(x.x, y.x, sum);
  sum = fmaf(x.y, y.y, sum);
  sum = fmaf(x.z, y.z, sum);
  return fmaf(x.w, y.w, sum);
}

/// sum + row[n] x[n] over n < count; constants once unrolled.
template <int kMost>
__device__ __forceinline__ float add_earlier(const float* row, const float (&x)[kMost], int count,
                                             float sum) {
#pragma unroll
  for (int n = 0; n < kMost; n += 4) {
    if (n >= count) break;
    const float4 m = *reinterpret_cast<const float4*>(row + n);
    sum = fmaf(m.x, x[n], sum);
    if (n + 1 < count) sum = fmaf(m.y, x[n + 1], sum);
    if (n + 2 < count) sum = fmaf(m.z, x[n + 2], sum);
    if (n + 3 < count) sum = fmaf(m.w, x[n + 3], sum);
  }
  return sum;
}

/// What a chunk's tokens are to each other, in shared memory. Rows of q and c, then of k and b, end to end.
template <int kDim>
struct Shared {
  static constexpr int kStride = kDim + 4;  // rows begin in different banks
  float rows[4][kChunk][kStride];           // c~, q~, b^, k^
  // [t][s] of c for s < t and [16 + t][s] of q for s <= t, else 0: with b^ (s) and k^ (16 + s).
  float between[2 * kChunk][2 * kChunk + 4];
  float decay[kChunk];  // of a head as a whole
  // [t][s]: the product of the decays behind s up to t; of a head as a whole
  float passed[kChunk][kChunk];
};

enum Row : std::int32_t { kC, kQ, kB, kK };

/// c~, q~, b^ and k^ with a decay for each channel: a thread has a channel of c and q or of b and k. What a chunk keeps of
/// its channel comes back. `decays` null: there are none.
template <int kDim>
__device__ float channel_rows(const RemovalLayer& a, Shared<kDim>& s, ChunkAt at, int head) {
  const int channel = int(threadIdx.x) % kDim, upper = int(threadIdx.x) / kDim;
  const float* const one = upper != 0 ? a.b : a.c;
  const float* const two = upper != 0 ? a.k : a.q;
  const std::size_t step = std::size_t(a.heads) * kDim;
  std::size_t p = (std::size_t(at.first) * a.heads + head) * kDim + channel;
  const bool fades = a.decay != Decay::none;
  float kept = 1.0F;
#pragma unroll
  for (int t = 0; t < kChunk; ++t, p += step) {
    float x = 0.0F, y = 0.0F;
    if (t < at.count) {
      const float before = kept;
      if (fades) kept *= a.a[p];
      const float by = 1.0F / kept;
      x = one[p] * (upper != 0 ? by : before);
      y = two[p] * (upper != 0 ? by : kept);
    }
    s.rows[2 * upper][t][channel] = x;
    s.rows[2 * upper + 1][t][channel] = y;
  }
  return kept;
}

/// The rows as they are, with one decay for all channels of a head, which may leave nothing of what was before: no
/// quotients then, but a product for each pair of tokens.
template <int kDim>
__device__ void plain_rows(const RemovalLayer& a, Shared<kDim>& s, ChunkAt at, int head) {
  const int channel = int(threadIdx.x) % kDim, upper = int(threadIdx.x) / kDim;
  const float* const one = upper != 0 ? a.b : a.c;
  const float* const two = upper != 0 ? a.k : a.q;
  const std::size_t step = std::size_t(a.heads) * kDim;
  const std::size_t p = (std::size_t(at.first) * a.heads + head) * kDim;
  for (int t = 0; t < kChunk; ++t) {
    const bool there = t < at.count;
    s.rows[2 * upper][t][channel] = there ? one[p + t * step + channel] : 0.0F;
    s.rows[2 * upper + 1][t][channel] = there ? two[p + t * step + channel] : 0.0F;
  }
  if (threadIdx.x < kChunk) {
    const int t = int(threadIdx.x);
    s.decay[t] = t < at.count ? a.a[p + t * step] : 1.0F;
  }
  __syncthreads();
  if (threadIdx.x < kChunk) {
    const int from = int(threadIdx.x);
    float product = 1.0F;
    for (int t = 0; t < kChunk; ++t) {
      if (t > from) product *= s.decay[t];
      s.passed[t][from] = product;
    }
  }
}

/// Blocks (chunk, head), two threads a channel.
template <int kDim, bool kWhole>
__global__ void __launch_bounds__(2 * kDim)
    chunk_kernel(const __grid_constant__ RemovalLayer a, const __grid_constant__ RemovalChunks o,
                 const Segment* segments, int num_segments) {
  extern __shared__ __align__(16) unsigned char raw[];
  auto& s = *reinterpret_cast<Shared<kDim>*>(raw);
  const int tid = int(threadIdx.x), head = int(blockIdx.y);
  chain_trigger();
  const ChunkAt at = chunk_at(segments, num_segments, int(blockIdx.x));
  chain_wait();
  if (at.count == 0) return;
  float kept = 1.0F;
  if constexpr (kWhole) {
    plain_rows(a, s, at, head);
  } else {
    kept = channel_rows(a, s, at, head);
  }
  __syncthreads();
  {  // every row of c and q with every row of b and k
    // 8 or 4 of a thread: rows i and i + 16.
    constexpr int kPer = 2 * kChunk * 2 * kChunk / (2 * kDim);
    const int i = tid % kChunk, j = tid / kChunk * (kPer / 2);
    float sums[2][kPer / 2] = {};
#pragma unroll 2
    for (int x = 0; x < kDim; x += 4) {
      const float4 c = *reinterpret_cast<const float4*>(&s.rows[kC][i][x]);
      const float4 q = *reinterpret_cast<const float4*>(&s.rows[kQ][i][x]);
#pragma unroll
      for (int n = 0; n < kPer / 2; ++n) {
        const float4 r =
            *reinterpret_cast<const float4*>(&s.rows[kB + (j + n) / kChunk][(j + n) % kChunk][x]);
        sums[0][n] = dot4(c, r, sums[0][n]);
        sums[1][n] = dot4(q, r, sums[1][n]);
      }
    }
#pragma unroll
    for (int n = 0; n < kPer / 2; ++n) {
      const int from = (j + n) % kChunk;
      float c = sums[0][n], q = sums[1][n];
      if constexpr (kWhole) {
        c *= i > 0 ? s.passed[i - 1][from] : 0.0F;
        q *= s.passed[i][from];
      }
      s.between[i][j + n] = from < i ? c : 0.0F;
      s.between[kChunk + i][j + n] = from <= i ? q : 0.0F;
    }
  }
  __syncthreads();
  const int channel = tid % kDim;
  const std::size_t step = std::size_t(a.heads) * kDim;
  const std::size_t p = (std::size_t(at.first) * a.heads + head) * kDim + channel;
  float x[kChunk], y[kChunk];  // a column of W and Q, or of X and Y
  const bool of_values = tid >= kDim;
  if (of_values) {
    const float* const from =
        a.inputs + std::size_t(at.first) * a.at.stride + a.at.v + head * kDim + channel;
    float v[kChunk];
#pragma unroll
    for (int t = 0; t < kChunk; ++t)
      v[t] = t < at.count ? activate(a.v_act, from[std::size_t(t) * a.at.stride]) : 0.0F;
#pragma unroll
    for (int t = 0; t < kChunk; ++t) {
      x[t] = add_earlier<kChunk>(&s.between[t][kChunk], v, t, 0.0F);
      y[t] = add_earlier<kChunk>(&s.between[kChunk + t][kChunk], v, t + 1, 0.0F);
    }
  } else {
#pragma unroll
    for (int t = 0; t < kChunk; ++t) {
      x[t] = s.rows[kC][t][channel], y[t] = s.rows[kQ][t][channel];
      if constexpr (kWhole) {
        // All decays up to here: of the first token, and of those behind it.
        if (t > 0) x[t] *= s.decay[0] * s.passed[t - 1][0];
        y[t] *= s.decay[0] * s.passed[t][0];
      }
    }
  }
#pragma unroll
  for (int t = 1; t < kChunk; ++t) x[t] = add_earlier<kChunk>(s.between[t], x, t, x[t]);
#pragma unroll
  for (int t = 0; t < kChunk; ++t)
    y[t] = add_earlier<kChunk>(s.between[kChunk + t], x, t + 1, y[t]);
  float* const to_x = of_values ? o.taken : a.c;
  float* const to_y = of_values ? a.o : a.q;
#pragma unroll
  for (int t = 0; t < kChunk; ++t) {
    if (t < at.count) to_x[p + t * step] = x[t], to_y[p + t * step] = y[t];
  }
  // Both halves have the product of the chunk. The lower half has B in hand, the upper half K.
  if constexpr (kWhole) kept = s.decay[0] * s.passed[kChunk - 1][0];
  const int row = of_values ? kK : kB;
  float* const to = of_values ? a.k : a.b;
#pragma unroll 4
  for (int t = 0; t < at.count; ++t)
    to[p + t * step] = s.rows[row][t][channel] * (kWhole ? s.passed[kChunk - 1][t] : kept);
  if (!of_values) o.kept[(std::size_t(blockIdx.x) * a.heads + head) * kDim + channel] = kept;
}

/// What a chunk brings to the walk, in shared memory.
template <int kDim>
struct Stage {
  static constexpr int kStride = kDim + 8;  // rows of eight lanes apart are 8 banks apart
  float rows[4][kChunk][kStride];           // W, Q, B, K
  float values[2][kChunk][kColumns];        // X, v
  float kept[kDim];
};

template <int kDim>
inline constexpr int kStagesOf = kDim > 64 ? 2 : 3;

template <int kDim>
struct Walk {
  static constexpr int kWarps = kDim / 16;
  Stage<kDim> stage[kStagesOf<kDim>];
  float parts[2][kWarps][kChunk][kColumns + 4];  // of W S and of Q S, from a warp's rows
};

/// A thread's part of what a chunk brings, in the background. tokens.count may be more than a chunk.
template <int kDim>
__device__ __forceinline__ void fetch(const RemovalLayer& a, const RemovalChunks& o,
                                      Stage<kDim>& to, ChunkAt tokens, int chunk, int head,
                                      int column) {
  constexpr int kPieces = kDim / 4;
  const int tid = int(threadIdx.x), row = tid / kPieces, piece = tid % kPieces * 4;
  const std::size_t step = std::size_t(a.heads) * kDim;
  const std::size_t at = std::size_t(tokens.first + row) * step + head * kDim + piece;
  const float* const from[4] = {a.c, a.q, a.b, a.k};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool there = row + 8 * r < tokens.count;
      copy16(shared_address(&to.rows[i][row + 8 * r][piece]),
             from[i] + (there ? at + 8 * r * step : 0), there);
    }
  }
  if (tid < 128) {
    const int t = tid / 4 % kChunk, c = tid % 4 * 4;
    const bool there = t < tokens.count;
    const float* const x = o.taken + (std::size_t(tokens.first + t) * a.heads + head) * kDim;
    const float* const v =
        a.inputs + std::size_t(tokens.first + t) * a.at.stride + a.at.v + head * kDim;
    copy16(shared_address(&to.values[tid / 64][t][c]),
           there ? (tid < 64 ? x : v) + column + c : a.c, there);
  }
  if (tid < kPieces)
    copy16(shared_address(&to.kept[4 * tid]),
           o.kept + (std::size_t(chunk) * a.heads + head) * kDim + 4 * tid, true);
}

/// An f32 as two numbers of tf32: their three larger products are within 2^-21 of the product in f32.
struct Tf32 {
  std::uint32_t high, low;
  __device__ __forceinline__ explicit Tf32(float x) {
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(x));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(x - __uint_as_float(high)));
  }
};

__device__ __forceinline__ void multiply_add(float (&d)[4], std::uint32_t a0, std::uint32_t a1,
                                             std::uint32_t a2, std::uint32_t a3, std::uint32_t b0,
                                             std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// d [16, 8] += a [16, 8] b [8, 8]. With g = lane / 4 and q = lane % 4: a rows g, g + 8, g, g + 8 of columns q, q, q + 4,
/// q + 4; b rows q and q + 4 of column g; d rows g, g, g + 8, g + 8 of columns 2 q, 2 q + 1, 2 q, 2 q + 1.
__device__ __forceinline__ void multiply_add(float (&d)[4], const Tf32 (&a)[4], Tf32 b0, Tf32 b1) {
  multiply_add(d, a[0].low, a[1].low, a[2].low, a[3].low, b0.high, b1.high);
  multiply_add(d, a[0].high, a[1].high, a[2].high, a[3].high, b0.low, b1.low);
  multiply_add(d, a[0].high, a[1].high, a[2].high, a[3].high, b0.high, b1.high);
}

/// What a lane has of the products: see multiply_add().
struct WalkLane {
  int warp, g, q;
  /// Rows 8 j + row and + 1 of the state, of columns g and g + 8.
  __device__ __forceinline__ int row() const { return 16 * warp + 2 * q; }
  /// The lane's token among the eight of i, where a column of tokens is an operand.
  __device__ __forceinline__ int token(int i, int e) const { return 8 * i + q + 4 * (e >> 1); }
};

/// W x and Q x of a warp's 16 rows of the state, to all warps.
template <int kDim>
__device__ __forceinline__ void put_reads(Walk<kDim>& m, const Stage<kDim>& stage,
                                          const float (&x)[2][4], WalkLane l) {
  float sums[2][2][2][4] = {};  // of W and Q, tokens 0 to 7 and 8 to 15, by a half of the rows
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const Tf32 state[4] = {Tf32(x[j][0]), Tf32(x[j][2]), Tf32(x[j][1]), Tf32(x[j][3])};
#pragma unroll
    for (int which = 0; which < 2; ++which) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 w =
            *reinterpret_cast<const float2*>(&stage.rows[which][8 * i + l.g][l.row() + 8 * j]);
        multiply_add(sums[which][i][j], state, Tf32(w.x), Tf32(w.y));
      }
    }
  }
#pragma unroll
  for (int which = 0; which < 2; ++which) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int v = 0; v < 4; ++v)
        m.parts[which][l.warp][8 * i + 2 * l.q + (v & 1)][l.g + 8 * (v >> 1)] =
            sums[which][i][0][v] + sums[which][i][1][v];
    }
  }
}

/// to += rows `which` (B or K) of eight tokens times their values v.
template <int kDim>
__device__ __forceinline__ void add_tokens(float (&to)[2][4], const float (&v)[4],
                                           const Stage<kDim>& stage, int which, int i, WalkLane l) {
  const Tf32 values[4] = {Tf32(v[0]), Tf32(v[1]), Tf32(v[2]), Tf32(v[3])};
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int r = 16 * l.warp + 8 * j + l.g;
    multiply_add(to[j], values, Tf32(stage.rows[which][l.token(i, 0)][r]),
                 Tf32(stage.rows[which][l.token(i, 2)][r]));
  }
}

/// x <- A x + K^T v.
template <int kDim>
__device__ __forceinline__ void add_values(float (&x)[2][4], const Stage<kDim>& stage, Act act,
                                           WalkLane l) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float2 kept = *reinterpret_cast<const float2*>(&stage.kept[l.row() + 8 * j]);
    x[j][0] *= kept.x, x[j][1] *= kept.y, x[j][2] *= kept.x, x[j][3] *= kept.y;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
      v[e] = activate(act, stage.values[1][l.token(i, e)][l.g + 8 * (e & 1)]);
    add_tokens(x, v, stage, 3, i, l);
  }
}

/// x += B^T U, with what all warps have put of U.
template <int kDim>
__device__ __forceinline__ void add_taken(float (&x)[2][4], const Walk<kDim>& m,
                                          const Stage<kDim>& stage, WalkLane l) {
  float taken[2][2][4] = {};  // by eight tokens
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float u[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int token = l.token(i, e), c = l.g + 8 * (e & 1);
      u[e] = stage.values[0][token][c];
#pragma unroll
      for (int w = 0; w < Walk<kDim>::kWarps; ++w) u[e] += m.parts[0][w][token][c];
    }
    add_tokens(taken[i], u, stage, 2, i, l);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[j][i] += taken[0][j][i] + taken[1][j][i];
  }
}

/// Blocks (16 columns, head, segment), a warp for 16 rows of the state. Everything is transposed: columns of the state
/// are rows of the products, so that a sum of products, which a lane has in pairs of rows, is the next product's operand.
template <int kDim>
__global__ void __launch_bounds__(2 * kDim, 1)
    walk_kernel(const __grid_constant__ RemovalLayer a, const __grid_constant__ RemovalChunks o,
                const Segment* segments) {
  constexpr int kStages = kStagesOf<kDim>, kWarps = Walk<kDim>::kWarps;
  constexpr int kPer = kChunk * kColumns / (2 * kDim);  // outputs of a thread
  extern __shared__ __align__(16) unsigned char raw[];
  auto& m = *reinterpret_cast<Walk<kDim>*>(raw);
  chain_trigger();
  const Segment s = segments[blockIdx.z];
  const int tid = int(threadIdx.x), head = int(blockIdx.y), column = int(blockIdx.x) * kColumns;
  const WalkLane lane{tid / 32, tid % 32 / 4, tid % 4};
  const int t = tid / (kColumns / kPer), own = tid % (kColumns / kPer);  // of the outputs
  const std::size_t base = a.layer_offset + std::size_t(head) * a.head_floats + a.values_offset +
                           std::size_t(lane.row()) * kDim + column + lane.g;
  const auto at = [base](int j, int i) {
    return base + std::size_t(8 * j + (i & 1)) * kDim + 8 * (i >> 1);
  };
  float x[2][4];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[j][i] = s.state_in[at(j, i)];
  }
  int chunk = 0;
  for (int i = 0; i < int(blockIdx.z); ++i) chunk += (segments[i].count + kChunk - 1) / kChunk;
  const int chunks = (s.count + kChunk - 1) / kChunk;
  chain_wait();
#pragma unroll 1
  for (int n = 0; n < kStages - 1; ++n) {
    if (n < chunks)
      fetch(a, o, m.stage[n], {s.first + n * kChunk, s.count - n * kChunk}, chunk + n, head,
            column);
    copy_commit();
  }
  int now = 0;
#pragma unroll 1
  for (int n = 0; n < chunks; ++n) {
    const bool there = n * kChunk + t < s.count;
    float* const out =
        a.o + (std::size_t(s.first + n * kChunk + t) * a.heads + head) * kDim + column + own;
    float y[kPer];
#pragma unroll
    for (int c = 0; c < kPer; ++c) y[c] = there ? out[8 * c] : 0.0F;
    copy_wait<kStages - 2>();
    __syncthreads();
    const int next = n + kStages - 1, last = now == 0 ? kStages - 1 : now - 1;
    if (next < chunks)
      fetch(a, o, m.stage[last], {s.first + next * kChunk, s.count - next * kChunk}, chunk + next,
            head, column);
    copy_commit();
    const Stage<kDim>& stage = m.stage[now];
    now = now + 1 == kStages ? 0 : now + 1;
    put_reads(m, stage, x, lane);
    add_values(x, stage, a.v_act, lane);  // does not wait for the sums
    __syncthreads();
    add_taken(x, m, stage, lane);
#pragma unroll
    for (int c = 0; c < kPer; ++c) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) y[c] += m.parts[1][w][t][own + 8 * c];
      if (there) out[8 * c] = y[c];
    }
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) s.state_out[at(j, i)] = x[j][i];
  }
}

template <class Kernel>
cudaError_t allow_shared(Kernel kernel, std::size_t bytes) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
}

template <int kDim>
cudaError_t start(const Launch& l, const RemovalLayer& a, const RemovalChunks& o,
                  const Segment* segments, int num_segments, int tokens) {
  const auto chunks = unsigned((tokens + (kChunk - 1) * num_segments) / kChunk);
  auto* const chunk =
      a.decay == Decay::softplus ? chunk_kernel<kDim, true> : chunk_kernel<kDim, false>;
  if (cudaError_t e = allow_shared(chunk, sizeof(Shared<kDim>)); e != cudaSuccess) return e;
  if (cudaError_t e = allow_shared(walk_kernel<kDim>, sizeof(Walk<kDim>)); e != cudaSuccess)
    return e;
  if (cudaError_t e = launch(l, chunk, dim3(chunks, unsigned(a.heads)), 2 * kDim,
                             sizeof(Shared<kDim>), 1, a, o, segments, num_segments);
      e != cudaSuccess) {
    return e;
  }
  return launch(l, walk_kernel<kDim>,
                dim3(kDim / kColumns, unsigned(a.heads), unsigned(num_segments)), 2 * kDim,
                sizeof(Walk<kDim>), 1, a, o, segments);
}

}  // namespace

bool removal_chunks_fit(const RemovalLayer& a) {
  const auto aligned = [](const void* p) {
    return (reinterpret_cast<std::uintptr_t>(p) & 15) == 0;
  };
  return a.k_dim == a.v_dim && (a.k_dim == 64 || a.k_dim == 128) && a.at.v % 4 == 0 &&
         a.at.stride % 4 == 0 && aligned(a.inputs);
}

cudaError_t removal_chunks(const Launch& l, const RemovalLayer& a, const RemovalChunks& o,
                           const Segment* segments, int num_segments, int tokens) {
  return a.k_dim == 64 ? start<64>(l, a, o, segments, num_segments, tokens)
                       : start<128>(l, a, o, segments, num_segments, tokens);
}

}  // namespace runnel::cuda
