// SPDX-License-Identifier: Apache-2.0
// Per kv head and token:
//   S <- diag(a) S diag(b) + k v^T,  o = scale S^T q
// with slots twice, and a softmax between (the slots' keys as S^T). Equations: runtime/backend/reference/.
//
// The long pass: takes the tokens of a segment from memory, some at a time. Every sum has one
// order, whatever the pass. Bound: 3 multiply-adds per element and token.
#include <cuda_pipeline.h>

#include "cuda/device/ops/recurrence_core.cuh"

namespace runnel::cuda {
namespace {

constexpr int kManyFloats = 24000;  // of 96 KiB, where a device has them
constexpr int kTogether = 4;        // tokens whose sums are added up at a time

/// What one token takes of shared memory: keys and decays of all rows, queries, values, and decays of the columns.
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
  // The segment table and the state were written by earlier launches than this chain: no need to wait for it.
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

bool aligned(const void* p) { return (reinterpret_cast<std::uintptr_t>(p) & 15) == 0; }

template <int R>
cudaError_t run_core(const Launch& l, CorePass a, Fade fade, const Segment* segments,
                     int num_segments) {
  const int queries = a.heads / a.kv_heads, rows = R * kGroups;
  const dim3 grid(unsigned((a.columns + kColumns - 1) / kColumns), unsigned(a.kv_heads),
                  unsigned(num_segments));
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
                 int num_segments) {
  switch (rows_held(a.rows)) {
    case 1:
      return run_core<1>(l, a, fade, segments, num_segments);
    case 2:
      return run_core<2>(l, a, fade, segments, num_segments);
    case 4:
      return run_core<4>(l, a, fade, segments, num_segments);
    case 8:
      return run_core<8>(l, a, fade, segments, num_segments);
    default:
      return run_core<16>(l, a, fade, segments, num_segments);
  }
}

/// p <- softmax over the slots; one warp per row.
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

}  // namespace

bool gated_recurrence_fits(const Recurrence& a) {
  const int queries = a.heads / a.kv_heads;
  const int rows = a.slots > a.features ? a.slots : a.features;
  return rows <= kMostRows &&
         2 * input_floats(rows_held(rows) * kGroups, 2, queries) + queries * kWarps * kColumns <=
             kSharedFloats;
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
