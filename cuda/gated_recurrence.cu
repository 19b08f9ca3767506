// SPDX-License-Identifier: Apache-2.0
// Per kv head and token:  S <- diag(a) S diag(b) + k v^T,  o = scale S^T q;  with slots twice, and
// a softmax between (the slots' keys as S^T). Equations: runtime/backend/reference/.
//
// Core: a block holds 16 columns of one state in registers; a thread four of them in R rows, so
// that a number read from shared memory serves four products. Columns do not depend on each other:
// a head of 512 values keeps 32 blocks busy. Every sum has one order, whatever the pass. Two
// kernels: core_kernel takes the tokens of a segment from memory, some at a time; step_kernel makes
// the features and decays of each token itself, and has read its state before the projections are
// there. Bound: one token, the bytes of the state; several, 3 multiply-adds an element and token.
#include <cuda_pipeline.h>

#include "cuda/device/recurrence.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 16;  // of a block
constexpr int kQuad = 4;      // of a thread
constexpr int kWarps = kThreads / 32;
constexpr int kGroups = kThreads / (kColumns / kQuad);  // of rows
constexpr int kMostRows = kGroups * 16;
constexpr int kSharedFloats = 12000;  // of 48 KiB
constexpr int kManyFloats = 24000;    // of 96 KiB, where a device has them
constexpr int kTogether = 4;          // tokens whose sums are added up at a time

/// One pass: S [rows, columns] with any strides, a decay along the rows or the columns.
struct CorePass {
  std::int32_t heads, kv_heads, rows, columns;
  std::size_t layer_offset, head_floats, row_stride, column_stride;
  const float* k;  // [T, H, rows]
  const float* v;  // [T, v_stride] + head * v_columns
  std::int32_t v_stride, v_columns;
  bool one;            // column v_columns takes in 1
  const float* decay;  // [T, H, rows or columns] or null
  const float* q;      // [T, HQ, rows]
  float scale;
  float* out;          // [T, HQ, columns]
  bool pieces;         // 16 bytes of an input are aligned, and a row is a number of them
  std::int32_t batch;  // tokens in shared memory at a time
};

enum class Fade { none, rows, columns };

/// Four numbers of shared memory in one load; n = 4 or, of a short row, fewer.
template <int n>
__device__ __forceinline__ void load_shared(const float* p, float (&to)[n]) {
  if constexpr (n == 4) {
    const float4 v = *reinterpret_cast<const float4*>(p);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) to[i] = p[i];
  }
}

/// A thread's part of the state: columns 4 quad … and rows R group …
template <int R, Fade kFade>
struct Part {
  static constexpr int kWide = R < 4 ? R : 4;
  int lane, warp, quad, group, column;  // the first of its columns, of the state
  float s[R][kQuad];

  __device__ __forceinline__ Part()
      : lane(int(threadIdx.x) % 32),
        warp(int(threadIdx.x) / 32),
        quad(lane % (kColumns / kQuad)),
        group(int(threadIdx.x) / (kColumns / kQuad)),
        column(int(blockIdx.x) * kColumns + quad * kQuad) {}

  template <class Visit>
  __device__ __forceinline__ void each(const CorePass& a, const Visit& visit) {
    const std::size_t head = a.layer_offset + std::size_t(blockIdx.y) * a.head_floats;
    const bool whole =
        a.column_stride == 1 && column + kQuad <= a.columns && ((head | a.row_stride) & 3) == 0;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int r = group * R + i;
      if (r < a.rows) {
        visit(s[i], head + std::size_t(r) * a.row_stride + std::size_t(column) * a.column_stride,
              whole);
      }
    }
  }

  __device__ __forceinline__ void load(const CorePass& a, const float* state) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
#pragma unroll
      for (int c = 0; c < kQuad; ++c) s[i][c] = 0.0F;
    }
    each(a, [&](float(&to)[kQuad], std::size_t at, bool whole) {
      if (whole) {
        load_shared(state + at, to);
        return;
      }
#pragma unroll
      for (int c = 0; c < kQuad; ++c) {
        if (column + c < a.columns) to[c] = state[at + std::size_t(c) * a.column_stride];
      }
    });
  }

  __device__ __forceinline__ void store(const CorePass& a, float* state) {
    each(a, [&](const float(&from)[kQuad], std::size_t at, bool whole) {
      if (whole) {
        *reinterpret_cast<float4*>(state + at) = make_float4(from[0], from[1], from[2], from[3]);
        return;
      }
#pragma unroll
      for (int c = 0; c < kQuad; ++c) {
        if (column + c < a.columns) state[at + std::size_t(c) * a.column_stride] = from[c];
      }
    });
  }

  /// key and fade [kRows], values and shrink [kColumns].
  __device__ __forceinline__ void take(const float* key, const float* fade, const float* values,
                                       const float* shrink) {
    float v[kQuad], b[kQuad] = {1.0F, 1.0F, 1.0F, 1.0F};
    load_shared(values + quad * kQuad, v);
    if (kFade == Fade::columns) load_shared(shrink + quad * kQuad, b);
#pragma unroll
    for (int i = 0; i < R; i += kWide) {
      float keys[kWide], fades[kWide];
      load_shared(key + group * R + i, keys);
      if (kFade == Fade::rows) load_shared(fade + group * R + i, fades);
#pragma unroll
      for (int w = 0; w < kWide; ++w) {
#pragma unroll
        for (int c = 0; c < kQuad; ++c) {
          float x = s[i + w][c];
          if (kFade == Fade::rows) x *= fades[w];
          if (kFade == Fade::columns) x *= b[c];
          s[i + w][c] = fmaf(keys[w], v[c], x);
        }
      }
    }
  }

  /// S^T q of its rows and columns.
  __device__ __forceinline__ void sum(const float* query, float (&sum)[kQuad]) const {
#pragma unroll
    for (int c = 0; c < kQuad; ++c) sum[c] = 0.0F;
#pragma unroll
    for (int i = 0; i < R; i += kWide) {
      float reads[kWide];
      load_shared(query + group * R + i, reads);
#pragma unroll
      for (int w = 0; w < kWide; ++w) {
#pragma unroll
        for (int c = 0; c < kQuad; ++c) sum[c] = fmaf(s[i + w][c], reads[w], sum[c]);
      }
    }
  }

  /// Eight lanes have sums of the same four columns: they trade until each has one of all.
  __device__ __forceinline__ float trade(const float (&sum)[kQuad]) const {
    const bool upper = (lane & 16) != 0, odd = (lane & 8) != 0;
    float two[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      two[c] =
          (upper ? sum[2 + c] : sum[c]) + __shfl_xor_sync(~0U, upper ? sum[c] : sum[2 + c], 16);
    }
    float one = (odd ? two[1] : two[0]) + __shfl_xor_sync(~0U, odd ? two[0] : two[1], 8);
    return one + __shfl_xor_sync(~0U, one, 4);
  }

  /// The warp's part of a column, to partial [kWarps][kColumns].
  __device__ __forceinline__ void put(float one, float* partial) const {
    const int own = quad * kQuad + ((lane & 16) != 0 ? 2 : 0) + ((lane & 8) != 0 ? 1 : 0);
    if ((lane & 4) == 0) partial[warp * kColumns + own] = one;
  }

  __device__ __forceinline__ void read(const float* query, float* partial) const {
    float sums[kQuad];
    sum(query, sums);
    put(trade(sums), partial);
  }
};

/// The sum of the warps' parts of a column.
__device__ __forceinline__ float add_parts(const float* partial, int column) {
  float sum = 0.0F;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += partial[w * kColumns + column];
  return sum;
}

/// What one token takes of shared memory: keys and decays of all rows, queries, values, and decays
/// of the columns.
__host__ __device__ constexpr int input_floats(int rows, int parts, int queries) {
  return (parts + queries) * rows + 2 * kColumns;
}

template <int kBytes>
__device__ __forceinline__ void fetch(float* to, const float* from, bool there) {
  __pipeline_memcpy_async(to, from, kBytes, there ? 0 : kBytes);
}

/// [n][kRows], `gap` values apart, in shared memory from rows at `from`, `step` values apart. Loops
/// are short and not unrolled: code that runs once a batch is fetched anew each time.
template <int kRows>
__device__ __forceinline__ void fetch_rows(float* to, int gap, const float* from, std::size_t step,
                                           int n, int rows, bool pieces) {
  constexpr int kPieces = kRows / 4, kAtOnce = kThreads / kPieces;
  const int t0 = int(threadIdx.x) / kPieces, r = int(threadIdx.x) % kPieces * 4;
  from += std::size_t(t0) * step + r;
  to += t0 * gap + r;
#pragma unroll 1
  for (int t = t0; t < n; t += kAtOnce, from += kAtOnce * step, to += kAtOnce * gap) {
    if (r >= rows) {
      *reinterpret_cast<float4*>(to) = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    } else if (pieces) {
      fetch<16>(to, from, true);
    } else {
#pragma unroll 1
      for (int c = 0; c < 4; ++c) fetch<4>(to + c, from + c, r + c < rows);
    }
  }
}

template <int R, Fade kFade>
__global__ void __launch_bounds__(kThreads)
    core_kernel(const __grid_constant__ CorePass a, const Segment* segments) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kRows = R * kGroups;
  constexpr int kParts = kFade == Fade::rows ? 2 : 1;  // k and decay
  chain_trigger();
  const int tid = int(threadIdx.x), head = int(blockIdx.y), queries = a.heads / a.kv_heads;
  // The segment table and the state were written by earlier launches than this chain: no need to
  // wait for it.
  const Segment s = segments[blockIdx.z];
  Part<R, kFade> part;
  part.load(a, s.state_in);
  chain_wait();
  // Two halves, so that the inputs of the next tokens are on their way while these are used.
  const int half = a.batch * input_floats(kRows, kParts, queries);
  float* const partial = shared + 2 * half;  // [batch][G][kWarps][kColumns]
  const auto bring = [&](int start, float* key) {
    const int n = min(a.batch, s.count - start);
    const std::size_t token = std::size_t(s.first + start);
    float* const fade = key + a.batch * kRows;            // Fade::rows
    float* const query = key + kParts * a.batch * kRows;  // [batch][G][kRows]
    float* const values = query + queries * a.batch * kRows;
    float* const shrink = values + a.batch * kColumns;  // Fade::columns
    const std::size_t step = std::size_t(a.kv_heads) * a.rows, at = token * step + head * a.rows;
    fetch_rows<kRows>(key, kRows, a.k + at, step, n, a.rows, a.pieces);
    if (kFade == Fade::rows)
      fetch_rows<kRows>(fade, kRows, a.decay + at, step, n, a.rows, a.pieces);
#pragma unroll 1
    for (int g = 0; g < queries; ++g) {
      fetch_rows<kRows>(query + g * kRows, queries * kRows,
                        a.q + (token * a.heads + head * queries + g) * a.rows,
                        std::size_t(a.heads) * a.rows, n, a.rows, a.pieces);
    }
#pragma unroll 1
    for (int i = tid; i < n * kColumns; i += kThreads) {
      const std::size_t t = token + i / kColumns;
      const int c = int(blockIdx.x) * kColumns + i % kColumns;
      if (c >= a.columns) {
        values[i] = shrink[i] = 0.0F;
        continue;
      }
      if (a.one && c == a.v_columns) {
        values[i] = 1.0F;
      } else {
        fetch<4>(values + i, a.v + t * a.v_stride + head * a.v_columns + c, true);
      }
      if (kFade == Fade::columns)
        fetch<4>(shrink + i, a.decay + (t * a.kv_heads + head) * a.columns + c, true);
    }
    __pipeline_commit();
  };
  bring(0, shared);
  for (int start = 0, turn = 0; start < s.count; start += a.batch, turn ^= 1) {
    const int n = min(a.batch, s.count - start);
    const float* const key = shared + turn * half;
    const float* const fade = key + a.batch * kRows;
    const float* const query = key + kParts * a.batch * kRows;
    const float* const values = query + queries * a.batch * kRows;
    const float* const shrink = values + a.batch * kColumns;
    if (start + a.batch < s.count) {
      bring(start + a.batch, shared + (turn ^ 1) * half);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    int t = 0;
    if (queries == 1) {  // sums of several tokens are on their way to each other at once
#pragma unroll 1
      for (; t + kTogether <= n; t += kTogether) {
        float sums[kTogether][kQuad];
#pragma unroll
        for (int u = 0; u < kTogether; ++u) {
          part.take(key + (t + u) * kRows, fade + (t + u) * kRows, values + (t + u) * kColumns,
                    shrink + (t + u) * kColumns);
          part.sum(query + (t + u) * kRows, sums[u]);
        }
        float one[kTogether];
#pragma unroll
        for (int u = 0; u < kTogether; ++u) one[u] = part.trade(sums[u]);
#pragma unroll
        for (int u = 0; u < kTogether; ++u) part.put(one[u], partial + (t + u) * kWarps * kColumns);
      }
    }
#pragma unroll 1
    for (; t < n; ++t) {
      part.take(key + t * kRows, fade + t * kRows, values + t * kColumns, shrink + t * kColumns);
#pragma unroll 1
      for (int g = 0; g < queries; ++g) {
        const int tg = t * queries + g;
        part.read(query + tg * kRows, partial + tg * kWarps * kColumns);
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int i = tid; i < n * queries * kColumns; i += kThreads) {
      const int tg = i / kColumns, c = i % kColumns;
      const int out_column = int(blockIdx.x) * kColumns + c;
      if (out_column >= a.columns) continue;
      const int after = queries == 1 ? tg : tg / queries;
      const std::size_t at =
          std::size_t(s.first + start + after) * a.heads + head * queries + (tg - after * queries);
      a.out[at * a.columns + out_column] = add_parts(partial + tg * kWarps * kColumns, c) * a.scale;
    }
  }
  part.store(a, s.state_out);
}

/// Floats of shared memory of a step.
__host__ __device__ constexpr int step_floats(int rows, int k_dim, int queries) {
  return (2 + queries) * rows + (2 + queries) * ((k_dim + 3) / 4 * 4) + 2 * kColumns +
         queries * kWarps * kColumns;
}

/// Few tokens: features, rotations and decays by each block for itself.
template <int R, Fade kFade>
__global__ void __launch_bounds__(kThreads)
    step_kernel(const __grid_constant__ Recurrence a, const __grid_constant__ CorePass p,
                const Segment* segments) {
  extern __shared__ __align__(16) float shared[];
  __shared__ float scratch[32];
  constexpr int kRows = R * kGroups;
  chain_trigger();
  const int tid = int(threadIdx.x), head = int(blockIdx.y), queries = a.heads / a.kv_heads;
  const int width = (a.k_dim + 3) / 4 * 4;
  float* const key = shared;
  float* const fade = key + kRows;
  float* const query = fade + kRows;                 // [G][kRows]
  float* const raw = query + queries * kRows;        // k and q as projected, [1 + G][width]
  float* const turns = raw + (1 + queries) * width;  // float2 [K/2]
  float* const values = turns + width;               // [kColumns]
  float* const shrink = values + kColumns;           // [kColumns]
  float* const partial = shrink + kColumns;          // [G][kWarps][kColumns]
  auto* const table = reinterpret_cast<float2*>(turns);
  const Segment s = segments[blockIdx.z];
  Part<R, kFade> part;
  part.load(p, s.state_in);
  const bool exponential = a.map == FeatureMap::exponential;
  float m = exponential ? s.state_in[extra_of(a, head)] : 0.0F;
  if (a.rotary) fill_turns(a, s.position, table);
  for (int i = tid; i < kRows; i += kThreads) {
    key[i] = fade[i] = 0.0F;
    for (int g = 0; g < queries; ++g) query[g * kRows + i] = 0.0F;
  }
  if (a.rank > 0) {
    const float* const up = a.f_up + std::size_t(head) * a.gates * a.rank;
    for (int i = tid * 32; i < a.gates * a.rank; i += kThreads * 32) prefetch_l2(up + i);
  }
  chain_wait();
  for (int n = 0; n < s.count; ++n) {
    const std::size_t t = std::size_t(s.first + n);
    const float* const row = a.mixed + t * a.at.stride;
    if (n > 0 && a.rotary) fill_turns(a, s.position + std::uint64_t(n), table);
    for (int i = tid; i < (1 + queries) * a.k_dim; i += kThreads) {
      const int r = i / a.k_dim, c = i % a.k_dim;
      if (r > 0) {
        raw[r * width + c] = row[a.at.q + (head * queries + r - 1) * a.k_dim + c];
      } else if (!a.complement_keys) {
        raw[c] = row[a.at.k + head * a.k_dim + c];
      }
    }
    if (tid < kColumns) {
      const int c = int(blockIdx.x) * kColumns + tid;
      values[tid] = c < a.v_dim ? row[a.at.v + head * a.v_dim + c] : c < p.columns ? 1.0F : 0.0F;
      if (kFade == Fade::columns)
        shrink[tid] = c < a.decays ? faded(a, row, head * a.gates + c).decay : 0.0F;
    }
    if (kFade == Fade::rows) {
      for (int i = tid; i < a.decays; i += kThreads) {
        if (a.decay == Decay::fixed) {
          fade[i] = fixed_decay(head);
        } else {
          const Faded f = faded(a, row, head * a.gates + i);
          fade[i] = f.decay;
          if (a.complement_keys) key[i] = f.key;
        }
      }
    }
    __syncthreads();
    for (int r = a.complement_keys ? 1 : 0; r <= queries; ++r) {
      float* const to = r == 0 ? key : query + (r - 1) * kRows;
      features(a, r == 0 ? a.k_map : a.q_map, raw + r * width, to, nullptr,
               r == 0 ? a.norm_k : a.norm_q, scratch);
      if (a.rotary) {
        rotate(a, to, to, table);
        __syncthreads();
      }
      if (!exponential) continue;
      if (r > 0) {
        exponentials(to, a.features, scratch);
        continue;
      }
      float largest = -INFINITY;
      for (int i = tid; i < a.features; i += kThreads) largest = fmaxf(largest, to[i]);
      largest = block_max(largest, scratch);
      const bool first = s.position + std::uint64_t(n) == 0;
      const float now = first ? largest : fmaxf(m, largest);
      const float less = first ? 0.0F : expf(m - now);
      m = now;
      for (int i = tid; i < a.features; i += kThreads) to[i] = expf(to[i] - now);
      if (kFade == Fade::rows) {
        for (int i = tid; i < a.decays; i += kThreads) fade[i] *= less;
      }
      if (kFade == Fade::columns && tid < kColumns) shrink[tid] *= less;
    }
    __syncthreads();
    part.take(key, fade, values, shrink);
    for (int g = 0; g < queries; ++g) part.read(query + g * kRows, partial + g * kWarps * kColumns);
    __syncthreads();
    for (int i = tid; i < queries * kColumns; i += kThreads) {
      const int g = i / kColumns, c = int(blockIdx.x) * kColumns + i % kColumns;
      if (c >= p.columns) continue;
      p.out[(t * a.heads + head * queries + g) * p.columns + c] =
          add_parts(partial + g * kWarps * kColumns, i % kColumns) * p.scale;
    }
  }
  part.store(p, s.state_out);
  if (exponential && tid == 0) {
    // The last block of the head writes m: no other reads it any more.
    int* const arrived = a.arrived + int(blockIdx.z) * a.kv_heads + head;
    if (atomicAdd(arrived, 1) + 1 == int(gridDim.x)) {
      *arrived = 0;
      s.state_out[extra_of(a, head)] = m;
    }
  }
}

bool aligned(const void* p) { return (reinterpret_cast<std::uintptr_t>(p) & 15) == 0; }

int rows_held(int rows) {
  int held = 1;
  while (held * kGroups < rows) held *= 2;
  return held;
}

template <int R>
cudaError_t run_core(const Launch& l, CorePass a, Fade fade, const Segment* segments,
                     int num_segments, const Recurrence* step) {
  const int queries = a.heads / a.kv_heads, rows = R * kGroups;
  const dim3 grid(unsigned((a.columns + kColumns - 1) / kColumns), unsigned(a.kv_heads),
                  unsigned(num_segments));
  if (step != nullptr) {
    const std::size_t bytes = std::size_t(step_floats(rows, step->k_dim, queries)) * sizeof(float);
    switch (fade) {
      case Fade::none:
        return launch(l, step_kernel<R, Fade::none>, grid, kThreads, bytes, 1, *step, a, segments);
      case Fade::rows:
        return launch(l, step_kernel<R, Fade::rows>, grid, kThreads, bytes, 1, *step, a, segments);
      case Fade::columns:
        return launch(l, step_kernel<R, Fade::columns>, grid, kThreads, bytes, 1, *step, a,
                      segments);
    }
    return cudaErrorInvalidValue;
  }
  const int parts = fade == Fade::rows ? 2 : 1;
  const int floats = 2 * input_floats(rows, parts, queries) + queries * kWarps * kColumns;
  if (floats > kSharedFloats) return cudaErrorInvalidConfiguration;
  a.pieces = a.rows % 4 == 0 && aligned(a.k) && aligned(a.q) && aligned(a.decay);
  void (*const kernel)(CorePass, const Segment*) = fade == Fade::none ? core_kernel<R, Fade::none>
                                                   : fade == Fade::rows
                                                       ? core_kernel<R, Fade::rows>
                                                       : core_kernel<R, Fade::columns>;
  int most = kManyFloats;
  if (cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                           int(kManyFloats * sizeof(float))) != cudaSuccess) {
    (void)cudaGetLastError();
    most = kSharedFloats;
  }
  a.batch = most / floats < 16 ? most / floats : 16;
  if (a.batch > kTogether) a.batch -= a.batch % kTogether;
  const std::size_t bytes = std::size_t(a.batch) * std::size_t(floats) * sizeof(float);
  return launch(l, kernel, grid, kThreads, bytes, 1, a, segments);
}

cudaError_t core(const Launch& l, const CorePass& a, Fade fade, const Segment* segments,
                 int num_segments, const Recurrence* step = nullptr) {
  switch (rows_held(a.rows)) {
    case 1:
      return run_core<1>(l, a, fade, segments, num_segments, step);
    case 2:
      return run_core<2>(l, a, fade, segments, num_segments, step);
    case 4:
      return run_core<4>(l, a, fade, segments, num_segments, step);
    case 8:
      return run_core<8>(l, a, fade, segments, num_segments, step);
    default:
      return run_core<16>(l, a, fade, segments, num_segments, step);
  }
}

/// p <- softmax over the slots; a warp a row.
__global__ void softmax_kernel(float* p, int rows, int slots) {
  chain_trigger();
  chain_wait();
  const int row = int(blockIdx.x * blockDim.y + threadIdx.y), lane = int(threadIdx.x);
  if (row >= rows) return;
  float* x = p + std::size_t(row) * slots;
  float largest = -INFINITY;
  for (int i = lane; i < slots; i += 32) largest = fmaxf(largest, x[i]);
  largest = warp_max(largest);
  float sum = 0.0F;
  for (int i = lane; i < slots; i += 32) sum += expf(x[i] - largest);
  sum = warp_sum(sum);
  for (int i = lane; i < slots; i += 32) x[i] = expf(x[i] - largest) / sum;
}

CorePass values_of(const Recurrence& a) {
  return {.heads = a.heads,
          .kv_heads = a.kv_heads,
          .rows = a.features,
          .columns = a.columns,
          .layer_offset = a.layer_offset + a.values_offset,
          .head_floats = a.head_floats,
          .row_stride = std::size_t(a.columns),
          .column_stride = 1,
          .k = a.k,
          .v = a.mixed + a.at.v,
          .v_stride = a.at.stride,
          .v_columns = a.v_dim,
          .one = a.normalizer,
          .decay = a.decay == Decay::none ? nullptr : a.a,
          .q = a.q,
          .scale = a.scale,
          .out = a.o,
          .pieces = false,
          .batch = 0};
}

Fade fade_of(const Recurrence& a) {
  return a.decay == Decay::none ? Fade::none : a.decay_on_values ? Fade::columns : Fade::rows;
}

}  // namespace

bool gated_recurrence_fits(const Recurrence& a) {
  const int queries = a.heads / a.kv_heads;
  const int rows = a.slots > a.features ? a.slots : a.features;
  return rows <= kMostRows &&
         2 * input_floats(rows_held(rows) * kGroups, 2, queries) + queries * kWarps * kColumns <=
             kSharedFloats;
}

bool recurrence_step_fits(const Recurrence& a) {
  return a.slots == 0 && a.q_map.first == nullptr && a.features <= kMostRows &&
         step_floats(rows_held(a.features) * kGroups, a.k_dim, a.heads / a.kv_heads) <=
             kSharedFloats;
}

cudaError_t recurrence_step(const Launch& l, const Recurrence& a, const Segment* segments,
                            int num_segments) {
  return core(l, values_of(a), fade_of(a), segments, num_segments, &a);
}

cudaError_t gated_recurrence(const Launch& l, const Recurrence& a, const Segment* segments,
                             int num_segments, int tokens) {
  CorePass values = values_of(a);
  const Fade fade = fade_of(a);
  if (a.slots == 0) return core(l, values, fade, segments, num_segments);
  // The slots' keys [M, K] as S^T [K, M], decayed along its columns.
  CorePass keys = values;
  keys.rows = a.k_dim;
  keys.columns = a.slots;
  keys.layer_offset = a.layer_offset;
  keys.row_stride = 1;
  keys.column_stride = std::size_t(a.k_dim);
  keys.k = a.k_slots;
  keys.v = a.k;
  keys.v_stride = a.kv_heads * a.slots;
  keys.v_columns = a.slots;
  keys.one = false;
  keys.out = a.p;
  if (cudaError_t e = core(l, keys, Fade::columns, segments, num_segments); e != cudaSuccess) {
    return e;
  }
  const int rows = tokens * a.heads;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned((rows + 3) / 4));
  config.blockDim = dim3(32, 4);
  config.stream = l.stream;
  if (cudaError_t e = cudaLaunchKernelEx(&config, softmax_kernel, a.p, rows, a.slots);
      e != cudaSuccess) {
    return e;
  }
  values.rows = a.slots;
  values.q = a.p;
  values.scale = 1.0F;
  return core(l, values, Fade::rows, segments, num_segments);
}

}  // namespace runnel::cuda
