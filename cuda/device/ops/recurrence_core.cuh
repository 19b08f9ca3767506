// SPDX-License-Identifier: Apache-2.0
// The state of a gated recurrence in registers, as both of its kernels keep it: a block 16 columns
// of one state, a thread four of them in R rows, so that a number read from shared memory serves
// four products. Columns do not depend on each other: a head of 512 values keeps 32 blocks busy.
#pragma once

#include "cuda/device/ops/recurrence.cuh"

namespace runnel::cuda {

constexpr int kThreads = 256;
constexpr int kColumns = 16;  // of a block
constexpr int kQuad = 4;      // of a thread
constexpr int kWarps = kThreads / 32;
constexpr int kGroups = kThreads / (kColumns / kQuad);  // of rows
constexpr int kMostRows = kGroups * 16;
constexpr int kSharedFloats = 12000;  // of 48 KiB

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

/// Rows a thread keeps: 1, 2, 4, 8 or 16.
inline int rows_held(int rows) {
  int held = 1;
  while (held * kGroups < rows) held *= 2;
  return held;
}

inline CorePass values_of(const Recurrence& a) {
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

inline Fade fade_of(const Recurrence& a) {
  return a.decay == Decay::none ? Fade::none : a.decay_on_values ? Fade::columns : Fade::rows;
}

}  // namespace runnel::cuda
