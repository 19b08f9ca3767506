// SPDX-License-Identifier: Apache-2.0
// What the kernels of a gated recurrence share: feature maps, rotations and decays of one token and
// head, by a whole block.
#pragma once

#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"
#include "cuda/recurrence.h"

namespace runnel::cuda {

__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

__device__ inline int segment_of(const Segment* segments, int count, int t) {
  int i = 0;
  while (i + 1 < count && t >= segments[i + 1].first) ++i;
  return i;
}

/// Where in a state the numbers after a head's values are.
__device__ __forceinline__ std::size_t extra_of(const Recurrence& a, int head) {
  return a.layer_offset + std::size_t(head) * a.head_floats + a.extra_offset;
}

__device__ inline float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
  __syncthreads();
  v = 0.0F;
  for (int w = 0; w < int(blockDim.x) / 32; ++w) v += scratch[w];
  __syncthreads();
  return v;
}

__device__ inline float block_max(float v, float* scratch) {
  v = warp_max(v);
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
  __syncthreads();
  v = scratch[0];
  for (int w = 1; w < int(blockDim.x) / 32; ++w) v = fmaxf(v, scratch[w]);
  __syncthreads();
  return v;
}

/// to = W x + b, [n] in shared memory; a warp a row, so that its loads are whole lines.
__device__ inline void affine(const float* w, const float* b, const float* x, float* to, int n) {
  const int lane = int(threadIdx.x) % 32, warps = int(blockDim.x) / 32;
  for (int row = int(threadIdx.x) / 32; row < n; row += warps) {
    float sum = 0.0F;
    for (int i = lane; i < n; i += 32) sum = fmaf(w[std::size_t(row) * n + i], x[i], sum);
    sum = warp_sum(sum);
    if (lane == 0) to[row] = b != nullptr ? sum + b[row] : sum;
  }
  __syncthreads();
}

/// Maps of one channel by itself.
__device__ __forceinline__ float mapped(FeatureMap map, float v) {
  switch (map) {
    case FeatureMap::swish:
      return v / (1.0F + expf(-v));
    case FeatureMap::relu:
      return fmaxf(v, 0.0F);
    case FeatureMap::elu:
      return v > 0.0F ? v + 1.0F : expf(v);
    case FeatureMap::identity:
    case FeatureMap::t2r:
    case FeatureMap::product:
    case FeatureMap::hedgehog:
    case FeatureMap::dpfp:
    case FeatureMap::exponential:
      break;
  }
  return v;
}

/// phi(x) [K] into `to` [K'], both in shared memory, with the whole block; `spare` has room for K.
__device__ inline void features(const Recurrence& a, const RecurrenceMap& w, const float* x,
                                float* to, float* spare, bool normalise, float* scratch) {
  const int n = a.k_dim, tid = int(threadIdx.x), step = int(blockDim.x);
  if (w.first != nullptr) affine(w.first, w.first_bias, x, to, n);
  if (w.second != nullptr) affine(w.second, w.second_bias, x, spare, n);
  switch (a.map) {
    case FeatureMap::hedgehog: {
      float largest = 0.0F;
#pragma unroll 1
      for (int i = tid; i < n; i += step) {
        const float y = 2.0F * to[i];
        to[i] = y;
        largest = fmaxf(largest, fabsf(y));
      }
      largest = block_max(largest, scratch);
      float sum = 0.0F;
#pragma unroll 1
      for (int i = tid; i < n; i += step) {
        const float y = to[i];
        to[i] = expf(y - largest);
        to[n + i] = expf(-y - largest);
        sum += to[i] + to[n + i];
      }
      sum = block_sum(sum, scratch);
#pragma unroll 1
      for (int i = tid; i < n; i += step) to[i] /= sum, to[n + i] /= sum;
      break;
    }
    case FeatureMap::dpfp:
#pragma unroll 1
      for (int i = tid; i < 8 * n; i += step) {
        const int roll = i / (2 * n) + 1, j = i % (2 * n);
        const int other = (j + 2 * n - roll % (2 * n)) % (2 * n);
        const auto positive = [&](int at) {
          return at < n ? fmaxf(x[at], 0.0F) : fmaxf(-x[at - n], 0.0F);
        };
        to[i] = positive(j) * positive(other);
      }
      break;
    case FeatureMap::identity:
    case FeatureMap::swish:
    case FeatureMap::relu:
    case FeatureMap::t2r:
    case FeatureMap::elu:
    case FeatureMap::product:
    case FeatureMap::exponential:
#pragma unroll 1
      for (int i = tid; i < n; i += step) {
        to[i] = a.map == FeatureMap::t2r       ? fmaxf(to[i], 0.0F)
                : a.map == FeatureMap::product ? to[i] * spare[i]
                                               : mapped(a.map, x[i]);
      }
  }
  __syncthreads();
  if (!normalise) return;
  float sum = 0.0F;
#pragma unroll 1
  for (int i = tid; i < a.features; i += step) sum += to[i];
  sum = block_sum(sum, scratch) + 1e-4F;
#pragma unroll 1
  for (int i = tid; i < a.features; i += step) to[i] /= sum;
  __syncthreads();
}

/// cos, sin of every pair at `position`, in shared memory.
__device__ inline void fill_turns(const Recurrence& a, std::uint64_t position, float2* table) {
#pragma unroll 1
  for (int i = int(threadIdx.x); i < a.k_dim / 2; i += int(blockDim.x)) {
    const double turns = a.turns[i] * static_cast<double>(position);
    sincospif(2.0F * static_cast<float>(turns - floor(turns)), &table[i].y, &table[i].x);
  }
}

/// to[i] <- rotated pair of `x`; the same array or different ones.
__device__ inline void rotate(const Recurrence& a, const float* x, float* to, const float2* table) {
  const int half = a.k_dim / 2;
#pragma unroll 1
  for (int i = int(threadIdx.x); i < half; i += int(blockDim.x)) {
    const float2 r = table[i];
    const float low = x[i], high = x[i + half];
    to[i] = low * r.x - high * r.y;
    to[i + half] = high * r.x + low * r.y;
  }
}

/// x[i] <- e^(x[i] - max x), [n] in shared memory.
__device__ inline void exponentials(float* x, int n, float* scratch) {
  float largest = -INFINITY;
#pragma unroll 1
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) largest = fmaxf(largest, x[i]);
  largest = block_max(largest, scratch);
#pragma unroll 1
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) x[i] = expf(x[i] - largest);
}

/// Where a token's gates and their constants lie, a number a gate; null where there are none. Of
/// all gates in device memory, or of some in shared memory.
struct Gates {
  const float* f = nullptr;    // logits, or
  const float* low = nullptr;  // [rank] of which
  const float* up = nullptr;   // [gates, up_stride] makes them
  int up_stride = 0;
  const float* r = nullptr;
  const float* f_bias = nullptr;
  const float* r_bias = nullptr;
  const float* lower_bound = nullptr;
};

/// All of them, of a token's row.
__device__ __forceinline__ Gates gates_of(const Recurrence& a, const float* row) {
  return {.f = row + a.at.f,
          .low = row + a.at.low,
          .up = a.f_up,
          .up_stride = a.rank,
          .r = row + a.at.r,
          .f_bias = a.f_bias,
          .r_bias = a.r_bias,
          .lower_bound = a.lower_bound};
}

/// Logit `at` of the gates; its bias included.
__device__ __forceinline__ float gate_logit(const Recurrence& a, const Gates& g, int at) {
  float f = 0.0F;
  if (a.rank > 0) {
    const float* up = g.up + std::size_t(at) * g.up_stride;
    if (a.rank % 4 == 0 && a.at.low % 4 == 0) {
#pragma unroll 1
      for (int j = 0; j < a.rank; j += 4) {
        const float4 u = *reinterpret_cast<const float4*>(up + j);
        const float4 x = *reinterpret_cast<const float4*>(g.low + j);
        f = fmaf(u.x, x.x, f);
        f = fmaf(u.y, x.y, f);
        f = fmaf(u.z, x.z, f);
        f = fmaf(u.w, x.w, f);
      }
    } else {
#pragma unroll 1
      for (int j = 0; j < a.rank; ++j) f = fmaf(up[j], g.low[j], f);
    }
  } else {
    f = g.f[at];
  }
  if (g.f_bias != nullptr) f += g.f_bias[at];
  return f;
}
__device__ __forceinline__ float gate_logit(const Recurrence& a, const float* row, int at) {
  return gate_logit(a, gates_of(a, row), at);
}

__device__ __forceinline__ float clamped(const Recurrence& a, float f) {
  return a.clamp_min != 0.0F || a.clamp_max != 0.0F ? fminf(fmaxf(f, a.clamp_min), a.clamp_max) : f;
}

/// A decay, and the key that complements it.
struct Faded {
  float decay, key;
};

/// For log_sigmoid and refined.
__device__ __forceinline__ Faded faded(const Recurrence& a, const Gates& gates, int at) {
  const float f = gate_logit(a, gates, at);
  if (a.decay == Decay::refined) {
    const float g = sigmoid(f), r = sigmoid(gates.r[at] + gates.r_bias[at]);
    const float not_g = sigmoid(-f);
    return {(1.0F - r) * g * g + r * (1.0F - not_g * not_g), 0.0F};
  }
  const float g = log_decay(f, a.tau, a.floor);
  const float bound = gates.lower_bound != nullptr ? gates.lower_bound[at] : 0.0F;
  const float rest = 1.0F - bound;
  return {bound + rest * expf(g), rest * -expm1f(g)};
}

__device__ __forceinline__ float fixed_decay(int head) {
  return 1.0F - exp2f(-5.0F - static_cast<float>(head));
}

}  // namespace runnel::cuda
