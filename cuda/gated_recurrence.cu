// SPDX-License-Identifier: Apache-2.0
// Per kv head and token:  S <- diag(a) S diag(b) + k v^T,  o = scale S^T q;  with slots twice, and
// a softmax between (the slots' keys as S^T). Equations: runtime/backend/reference/.
//
// Core: a block holds 16 columns of one state in registers, 16 groups of rows; the tokens of its
// segment pass by in shared memory, a few at a time. Columns do not depend on each other, so a head
// of 512 values keeps 32 blocks busy. Every sum has one order, whatever the pass: prefill is the
// recurrence bit for bit. Bound: one token, the bytes of the state; several, 3 multiply-adds an
// element and token.
#include <cuda_pipeline.h>

#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"
#include "cuda/recurrence.h"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 16;                  // of a block
constexpr int kGroups = kThreads / kColumns;  // groups of rows
constexpr int kWarps = kThreads / 32;
constexpr int kMostRows = kGroups * 64;
constexpr int kSharedFloats = 12000;  // of 48 KiB

__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

__device__ int segment_of(const Segment* segments, int count, int t) {
  int i = 0;
  while (i + 1 < count && t >= segments[i + 1].first) ++i;
  return i;
}

// ---- convolutions

struct ConvChannel {
  const float* weights;
  int column;  // of the inputs
};

/// Channel c of q, k (or f), v.
__device__ ConvChannel conv_channel(const Recurrence& a, int c) {
  const int q = a.heads * a.k_dim, k = a.kv_heads * a.k_dim;
  if (c < q) return {a.q_conv + std::size_t(c) * a.conv, a.at.q + c};
  if (c < q + k) {
    return {a.k_conv + std::size_t(c - q) * a.conv, (a.complement_keys ? a.at.f : a.at.k) + c - q};
  }
  return {a.v_conv + std::size_t(c - q - k) * a.conv, a.at.v + c - q - k};
}

__global__ void conv_kernel(const __grid_constant__ Recurrence a, const Segment* segments,
                            int num_segments, int tokens, int channels) {
  chain_trigger();
  chain_wait();
  const int c = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= channels) return;
  const ConvChannel channel = conv_channel(a, c);
  for (int t = int(blockIdx.y); t < tokens; t += int(gridDim.y)) {
    const Segment s = segments[segment_of(segments, num_segments, t)];
    float v = 0.0F;
    for (int j = 0; j < a.conv; ++j) {
      const int local = t - s.first - (a.conv - 1 - j);
      const float x = local >= 0
                          ? a.inputs[std::size_t(s.first + local) * a.at.stride + channel.column]
                          : s.state_in[a.conv_offset + std::size_t(c) * a.conv + (a.conv + local)];
      v = fmaf(channel.weights[j], x, v);
    }
    a.mixed[std::size_t(t) * a.at.stride + channel.column] = a.conv_silu ? swish(v) : v;
  }
}

/// New tails: the last `conv` inputs of each segment.
__global__ void conv_tail_kernel(const __grid_constant__ Recurrence a, const Segment* segments,
                                 int channels) {
  chain_trigger();
  chain_wait();
  const int c = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= channels) return;
  const Segment s = segments[blockIdx.y];
  const std::size_t tail = a.conv_offset + std::size_t(c) * a.conv;
  const int column = conv_channel(a, c).column;
  for (int j = 0; j < a.conv; ++j) {  // ascending: reads run ahead of writes
    const int local = s.count - a.conv + j;
    s.state_out[tail + j] = local >= 0
                                ? a.inputs[std::size_t(s.first + local) * a.at.stride + column]
                                : s.state_in[tail + std::size_t(a.conv + local)];
  }
}

// ---- features and decays: a block a token and head

__device__ float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
  __syncthreads();
  v = 0.0F;
  for (int w = 0; w < int(blockDim.x) / 32; ++w) v += scratch[w];
  __syncthreads();
  return v;
}

__device__ float block_max(float v, float* scratch) {
  v = warp_max(v);
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
  __syncthreads();
  v = scratch[0];
  for (int w = 1; w < int(blockDim.x) / 32; ++w) v = fmaxf(v, scratch[w]);
  __syncthreads();
  return v;
}

/// to = W x + b, [n] in shared memory; a warp a row, so that its loads are whole lines.
__device__ void affine(const float* w, const float* b, const float* x, float* to, int n) {
  const int lane = int(threadIdx.x) % 32, warps = int(blockDim.x) / 32;
  for (int row = int(threadIdx.x) / 32; row < n; row += warps) {
    float sum = 0.0F;
    for (int i = lane; i < n; i += 32) sum = fmaf(w[std::size_t(row) * n + i], x[i], sum);
    sum = warp_sum(sum);
    if (lane == 0) to[row] = b != nullptr ? sum + b[row] : sum;
  }
  __syncthreads();
}

/// phi(x) [K] into `to` [K'], both in shared memory, with the whole block; `spare` has room for K.
__device__ void features(const Recurrence& a, const RecurrenceMap& w, const float* x, float* to,
                         float* spare, bool normalise, float* scratch) {
  const int n = a.k_dim, tid = int(threadIdx.x), step = int(blockDim.x);
  if (w.first != nullptr) affine(w.first, w.first_bias, x, to, n);
  if (w.second != nullptr) affine(w.second, w.second_bias, x, spare, n);
  switch (a.map) {
    case FeatureMap::hedgehog: {
      float largest = 0.0F;
      for (int i = tid; i < n; i += step) {
        const float y = 2.0F * to[i];
        to[i] = y;
        largest = fmaxf(largest, fabsf(y));
      }
      largest = block_max(largest, scratch);
      float sum = 0.0F;
      for (int i = tid; i < n; i += step) {
        const float y = to[i];
        to[i] = expf(y - largest);
        to[n + i] = expf(-y - largest);
        sum += to[i] + to[n + i];
      }
      sum = block_sum(sum, scratch);
      for (int i = tid; i < n; i += step) to[i] /= sum, to[n + i] /= sum;
      break;
    }
    case FeatureMap::dpfp:
      for (int i = tid; i < 8 * n; i += step) {
        const int roll = i / (2 * n) + 1, j = i % (2 * n);
        const int other = (j + 2 * n - roll % (2 * n)) % (2 * n);
        const auto positive = [&](int at) {
          return at < n ? fmaxf(x[at], 0.0F) : fmaxf(-x[at - n], 0.0F);
        };
        to[i] = positive(j) * positive(other);
      }
      break;
    default:
      for (int i = tid; i < n; i += step) {
        float v = x[i];
        switch (a.map) {
          case FeatureMap::swish:
            v = v / (1.0F + expf(-v));
            break;
          case FeatureMap::relu:
            v = fmaxf(v, 0.0F);
            break;
          case FeatureMap::elu:
            v = v > 0.0F ? v + 1.0F : expf(v);
            break;
          case FeatureMap::t2r:
            v = fmaxf(to[i], 0.0F);
            break;
          case FeatureMap::product:
            v = to[i] * spare[i];
            break;
          default:
            break;
        }
        to[i] = v;
      }
  }
  __syncthreads();
  if (!normalise) return;
  float sum = 0.0F;
  for (int i = tid; i < a.features; i += step) sum += to[i];
  sum = block_sum(sum, scratch) + 1e-4F;
  for (int i = tid; i < a.features; i += step) to[i] /= sum;
  __syncthreads();
}

/// to[i] <- rotated pair of `x` at `position`; x and to are different arrays.
__device__ void rotate(const Recurrence& a, const float* x, float* to, std::uint64_t position) {
  const int half = a.k_dim / 2;
  for (int i = int(threadIdx.x); i < half; i += int(blockDim.x)) {
    const double turns = a.turns[i] * static_cast<double>(position);
    float s, c;
    sincospif(2.0F * static_cast<float>(turns - floor(turns)), &s, &c);
    to[i] = x[i] * c - x[i + half] * s;
    to[i + half] = x[i + half] * c + x[i] * s;
  }
}

/// Blocks (t, h): h < HQ queries, then keys of HQ <= h < HQ + H, then decays of the H after.
__global__ void features_kernel(const __grid_constant__ Recurrence a, const Segment* segments,
                                int num_segments) {
  extern __shared__ __align__(16) float shared[];
  __shared__ float scratch[32];
  chain_trigger();
  chain_wait();
  const int t = int(blockIdx.x), tid = int(threadIdx.x), step = int(blockDim.x);
  const float* row = a.mixed + std::size_t(t) * a.at.stride;
  int h = int(blockIdx.y);
  if (h < a.heads + a.kv_heads) {
    const bool key = h >= a.heads;
    if (key) h -= a.heads;
    if (key && a.complement_keys) return;
    const float* from = row + (key ? a.at.k : a.at.q) + h * a.k_dim;
    float* x = shared;
    float* y = shared + a.k_dim;
    for (int i = tid; i < a.k_dim; i += step) x[i] = from[i];
    __syncthreads();
    features(a, key ? a.k_map : a.q_map, x, y, y + a.features, key ? a.norm_k : a.norm_q, scratch);
    if (a.rotary) {
      const Segment& s = segments[segment_of(segments, num_segments, t)];
      rotate(a, y, x, s.position + std::uint64_t(t - s.first));
      __syncthreads();
      y = x;
    }
    float shift = 0.0F;
    const bool exponential = a.map == FeatureMap::exponential && !key;
    if (exponential) {
      float largest = -INFINITY;
      for (int i = tid; i < a.k_dim; i += step) largest = fmaxf(largest, y[i]);
      shift = block_max(largest, scratch);
    }
    float* to = !key          ? a.q + (std::size_t(t) * a.heads + h) * a.features
                : a.slots > 0 ? a.k_slots + (std::size_t(t) * a.kv_heads + h) * a.k_dim
                              : a.k + (std::size_t(t) * a.kv_heads + h) * a.features;
    for (int i = tid; i < a.features; i += step) to[i] = exponential ? expf(y[i] - shift) : y[i];
    return;
  }
  h -= a.heads + a.kv_heads;
  float* decay = a.a + (std::size_t(t) * a.kv_heads + h) * a.decays;
  if (a.decay == Decay::fixed) {
    const float gamma = 1.0F - exp2f(-5.0F - static_cast<float>(h));
    for (int i = tid; i < a.decays; i += step) decay[i] = gamma;
    return;
  }
  for (int i = tid; i < a.gates; i += step) {
    const int at = h * a.gates + i;
    float f;
    if (a.rank > 0) {
      f = 0.0F;
      for (int j = 0; j < a.rank; ++j) {
        f = fmaf(a.f_up[std::size_t(at) * a.rank + j], row[a.at.low + j], f);
      }
    } else {
      f = row[a.at.f + at];
    }
    if (a.f_bias != nullptr) f += a.f_bias[at];
    switch (a.decay) {
      case Decay::log_sigmoid: {
        const float g = log_decay(f, a.tau, a.floor);
        const float bound = a.lower_bound != nullptr ? a.lower_bound[at] : 0.0F;
        const float rest = 1.0F - bound;
        decay[i] = bound + rest * expf(g);
        if (a.complement_keys) {
          a.k[(std::size_t(t) * a.kv_heads + h) * a.features + i] = rest * -expm1f(g);
        }
        break;
      }
      case Decay::refined: {
        const float g = sigmoid(f), r = sigmoid(row[a.at.r + at] + a.r_bias[at]);
        const float not_g = sigmoid(-f);
        decay[i] = (1.0F - r) * g * g + r * (1.0F - not_g * not_g);
        break;
      }
      case Decay::running_sum:  // the scan turns it into decays
        a.k[(std::size_t(t) * a.kv_heads + h) * a.slots + i] =
            a.clamp_min != 0.0F || a.clamp_max != 0.0F ? fminf(fmaxf(f, a.clamp_min), a.clamp_max)
                                                       : f;
        break;
      default:
        break;
    }
  }
}

/// z of the running sum; a block a head, a thread a slot.
__global__ void running_sum_kernel(const __grid_constant__ Recurrence a, const Segment* segments) {
  chain_trigger();
  chain_wait();
  const Segment s = segments[blockIdx.y];
  const int h = int(blockIdx.x);
  const std::size_t extra = a.layer_offset + std::size_t(h) * a.head_floats + a.extra_offset;
  for (int i = int(threadIdx.x); i < a.slots; i += int(blockDim.x)) {
    float z = s.state_in[extra + i];
    for (int t = 0; t < s.count; ++t) {
      const std::size_t at = (std::size_t(s.first + t) * a.kv_heads + h) * a.slots + i;
      const float f = a.k[at];
      const bool first = s.position + std::uint64_t(t) == 0;
      const float sum = first ? f : fmaxf(z, f) + log1pf(expf(-fabsf(z - f)));
      a.a[at] = first ? 0.0F : expf(z - sum);
      a.k[at] = expf(f - sum);
      z = sum;
    }
    s.state_out[extra + i] = z;
  }
}

/// m of exponential keys; a block a head: the maxima of many tokens, one thread's walk over them,
/// then the exponentials.
__global__ void __launch_bounds__(kThreads)
    running_maximum_kernel(const __grid_constant__ Recurrence a, const Segment* segments) {
  constexpr int kTokens = 512;
  __shared__ float largest[kTokens], shrink[kTokens], m;
  chain_trigger();
  chain_wait();
  const Segment s = segments[blockIdx.y];
  const int h = int(blockIdx.x), tid = int(threadIdx.x), lane = tid % 32;
  const std::size_t extra = a.layer_offset + std::size_t(h) * a.head_floats + a.extra_offset;
  if (tid == 0) m = s.state_in[extra];
  for (int start = 0; start < s.count; start += kTokens) {
    const int n = min(kTokens, s.count - start);
    const auto row = [&](int t) { return std::size_t(s.first + start + t) * a.kv_heads + h; };
    for (int t = tid / 32; t < n; t += kWarps) {
      float own = -INFINITY;
      for (int i = lane; i < a.features; i += 32) own = fmaxf(own, a.k[row(t) * a.features + i]);
      own = warp_max(own);
      if (lane == 0) largest[t] = own;
    }
    __syncthreads();
    if (tid == 0) {
      float before = m;
      for (int t = 0; t < n; ++t) {
        const bool first = s.position + std::uint64_t(start + t) == 0;
        const float now = first ? largest[t] : fmaxf(before, largest[t]);
        shrink[t] = first ? -INFINITY : before - now;
        largest[t] = before = now;
      }
      m = before;
    }
    __syncthreads();
    for (int i = tid; i < n * a.features; i += kThreads) {
      float& k = a.k[row(i / a.features) * a.features + i % a.features];
      k = expf(k - largest[i / a.features]);
    }
    for (int i = tid; i < n * a.decays; i += kThreads) {
      a.a[row(i / a.decays) * a.decays + i % a.decays] *= expf(shrink[i / a.decays]);
    }
    __syncthreads();
  }
  if (tid == 0) s.state_out[extra] = m;
}

// ---- the recurrence

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

__device__ __forceinline__ void fetch_float(float* to, const float* from, bool there) {
  __pipeline_memcpy_async(to, from, sizeof(float), there ? 0 : sizeof(float));
}

/// What one token takes of shared memory: keys and decays of all rows, queries, values, and decays
/// of the columns.
__host__ __device__ constexpr int input_floats(int rows, int parts, int queries) {
  return (parts + queries) * rows + 2 * kColumns;
}

template <int R, Fade kFade>
__global__ void __launch_bounds__(kThreads)
    core_kernel(const __grid_constant__ CorePass a, const Segment* segments) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kRows = R * kGroups;
  constexpr int kWide = R < 4 ? R : 4;
  constexpr int kParts = kFade == Fade::rows ? 2 : 1;  // k and decay
  const int tid = int(threadIdx.x), column = tid % kColumns, group = tid / kColumns;
  const int warp = tid / 32, lane = tid % 32;
  const int head = int(blockIdx.y), queries = a.heads / a.kv_heads;
  const int j = int(blockIdx.x) * kColumns + column;
  const bool mine = j < a.columns;
  chain_trigger();
  chain_wait();
  const Segment s = segments[blockIdx.z];
  const std::size_t base = a.layer_offset + std::size_t(head) * a.head_floats +
                           std::size_t(mine ? j : 0) * a.column_stride;
  float state[R];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int r = group * R + i;
    state[i] = mine && r < a.rows ? s.state_in[base + std::size_t(r) * a.row_stride] : 0.0F;
  }
  // Two halves, so that the inputs of the next tokens are on their way while these are used.
  const int half = a.batch * input_floats(kRows, kParts, queries);
  float* const partial = shared + 2 * half;  // [batch][G][kWarps][kColumns]
  const auto fetch = [&](int start, float* key) {
    const int n = min(a.batch, s.count - start);
    float* const fade = key + a.batch * kRows;            // Fade::rows
    float* const query = key + kParts * a.batch * kRows;  // [batch][G][kRows]
    float* const values = query + queries * a.batch * kRows;
    float* const shrink = values + a.batch * kColumns;  // Fade::columns
    for (int i = tid; i < n * kRows; i += kThreads) {
      const int t = i / kRows, r = i % kRows;
      const std::size_t at = (std::size_t(s.first + start + t) * a.kv_heads + head) * a.rows + r;
      fetch_float(key + i, a.k + at, r < a.rows);
      if (kFade == Fade::rows) fetch_float(fade + i, a.decay + at, r < a.rows);
    }
    for (int i = tid; i < n * queries * kRows; i += kThreads) {
      const int tg = i / kRows, r = i % kRows;
      const int t = tg / queries, g = tg % queries;
      const std::size_t at = std::size_t(s.first + start + t) * a.heads + head * queries + g;
      fetch_float(query + i, a.q + at * a.rows + r, r < a.rows);
    }
    for (int i = tid; i < n * kColumns; i += kThreads) {
      const std::size_t token = std::size_t(s.first + start + i / kColumns);
      const int c = int(blockIdx.x) * kColumns + i % kColumns;
      if (a.one && c == a.v_columns) {
        values[i] = 1.0F;
      } else {
        fetch_float(values + i, a.v + token * a.v_stride + head * a.v_columns + c, c < a.columns);
      }
      if (kFade == Fade::columns) {
        fetch_float(shrink + i, a.decay + (token * a.kv_heads + head) * a.columns + c,
                    c < a.columns);
      }
    }
    __pipeline_commit();
  };
  fetch(0, shared);
  for (int start = 0, turn = 0; start < s.count; start += a.batch, turn ^= 1) {
    const int n = min(a.batch, s.count - start);
    const float* const key = shared + turn * half;
    const float* const fade = key + a.batch * kRows;
    const float* const query = key + kParts * a.batch * kRows;
    const float* const values = query + queries * a.batch * kRows;
    const float* const shrink = values + a.batch * kColumns;
    if (start + a.batch < s.count) {
      fetch(start + a.batch, shared + (turn ^ 1) * half);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    for (int t = 0; t < n; ++t) {
      const float v = values[t * kColumns + column];
      const float b = kFade == Fade::columns ? shrink[t * kColumns + column] : 1.0F;
      const float* k = key + t * kRows + group * R;
      const float* f = fade + t * kRows + group * R;
#pragma unroll
      for (int i = 0; i < R; i += kWide) {
        float keys[kWide], fades[kWide];
        load_shared(k + i, keys);
        if (kFade == Fade::rows) load_shared(f + i, fades);
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          float x = state[i + w];
          if (kFade == Fade::rows) x *= fades[w];
          if (kFade == Fade::columns) x *= b;
          state[i + w] = fmaf(keys[w], v, x);
        }
      }
      for (int g = 0; g < queries; ++g) {
        const float* q = query + (t * queries + g) * kRows + group * R;
        float sum = 0.0F;
#pragma unroll
        for (int i = 0; i < R; i += kWide) {
          float reads[kWide];
          load_shared(q + i, reads);
#pragma unroll
          for (int w = 0; w < kWide; ++w) sum = fmaf(state[i + w], reads[w], sum);
        }
        sum += __shfl_xor_sync(~0U, sum, 16);  // the warp's two groups
        if (lane < kColumns) partial[((t * queries + g) * kWarps + warp) * kColumns + lane] = sum;
      }
    }
    __syncthreads();
    for (int i = tid; i < n * queries * kColumns; i += kThreads) {
      const int tg = i / kColumns, c = i % kColumns;
      const int out_column = int(blockIdx.x) * kColumns + c;
      if (out_column >= a.columns) continue;
      float sum = 0.0F;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += partial[(tg * kWarps + w) * kColumns + c];
      const std::size_t at =
          std::size_t(s.first + start + tg / queries) * a.heads + head * queries + tg % queries;
      a.out[at * a.columns + out_column] = sum * a.scale;
    }
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int r = group * R + i;
    if (mine && r < a.rows) s.state_out[base + std::size_t(r) * a.row_stride] = state[i];
  }
}

template <int R>
cudaError_t run_core(const Launch& l, CorePass a, Fade fade, const Segment* segments,
                     int num_segments) {
  const int queries = a.heads / a.kv_heads, rows = R * kGroups;
  const int parts = fade == Fade::rows ? 2 : 1;
  const int floats = 2 * input_floats(rows, parts, queries) + queries * kWarps * kColumns;
  a.batch = kSharedFloats / floats;
  if (a.batch > 16) a.batch = 16;
  if (a.batch < 1) return cudaErrorInvalidConfiguration;
  const std::size_t bytes = std::size_t(a.batch) * std::size_t(floats) * sizeof(float);
  const dim3 grid(unsigned((a.columns + kColumns - 1) / kColumns), unsigned(a.kv_heads),
                  unsigned(num_segments));
  switch (fade) {
    case Fade::none:
      return launch(l, core_kernel<R, Fade::none>, grid, kThreads, bytes, 1, a, segments);
    case Fade::rows:
      return launch(l, core_kernel<R, Fade::rows>, grid, kThreads, bytes, 1, a, segments);
    case Fade::columns:
      return launch(l, core_kernel<R, Fade::columns>, grid, kThreads, bytes, 1, a, segments);
  }
  return cudaErrorInvalidValue;
}

cudaError_t core(const Launch& l, const CorePass& a, Fade fade, const Segment* segments,
                 int num_segments) {
  const int rows = (a.rows + kGroups - 1) / kGroups;
  if (rows <= 1) return run_core<1>(l, a, fade, segments, num_segments);
  if (rows <= 2) return run_core<2>(l, a, fade, segments, num_segments);
  if (rows <= 4) return run_core<4>(l, a, fade, segments, num_segments);
  if (rows <= 8) return run_core<8>(l, a, fade, segments, num_segments);
  if (rows <= 16) return run_core<16>(l, a, fade, segments, num_segments);
  if (rows <= 32) return run_core<32>(l, a, fade, segments, num_segments);
  return run_core<64>(l, a, fade, segments, num_segments);
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

// ---- output

__global__ void __launch_bounds__(kThreads)
    output_kernel(const __grid_constant__ RecurrenceOutput a) {
  __shared__ float scratch[32];
  chain_trigger();
  chain_wait();
  const int tid = int(threadIdx.x), n = a.heads * a.v_dim;
  const std::size_t t = blockIdx.x;
  const float* o = a.o + t * a.heads * a.columns;
  float* y = a.y + t * n;
  const auto value = [&](int i) {
    const int h = i / a.v_dim;
    const float v = o[h * a.columns + i % a.v_dim];
    return a.normalizer ? v / (o[h * a.columns + a.v_dim] + 1e-10F) : v;
  };
  const int width = a.per_head ? a.v_dim : n;
  for (int start = 0; start < n; start += width) {
    float factor = 1.0F;
    if (a.normalise) {
      float sum = 0.0F;
      for (int i = tid; i < width; i += kThreads) {
        const float v = value(start + i);
        sum = fmaf(v, v, sum);
      }
      factor = rsqrtf(block_sum(sum, scratch) / static_cast<float>(width) + a.eps);
    }
    for (int i = tid; i < width; i += kThreads) {
      float v = value(start + i) * factor;
      if (a.normalise && a.weight != nullptr) v *= a.weight[i];
      if (a.gate != nullptr) v *= swish(a.gate[t * a.gate_stride + start + i]);
      y[start + i] = v;
    }
  }
}

}  // namespace

bool gated_recurrence_fits(const Recurrence& a) {
  const int queries = a.heads / a.kv_heads;
  const int rows = a.slots > a.features ? a.slots : a.features;
  int held = 1;
  while (held * kGroups < rows) held *= 2;
  return rows <= kMostRows &&
         2 * input_floats(held * kGroups, 2, queries) + queries * kWarps * kColumns <=
             kSharedFloats;
}

cudaError_t recurrence_inputs(const Launch& l, const Recurrence& a, const Segment* segments,
                              int num_segments, int tokens) {
  Launch next = l;
  if (a.conv > 0) {
    const int channels = (a.heads + a.kv_heads) * a.k_dim + a.kv_heads * a.v_dim;
    const std::size_t bytes = std::size_t(tokens) * a.at.stride * sizeof(float);
    if (cudaError_t e =
            cudaMemcpyAsync(a.mixed, a.inputs, bytes, cudaMemcpyDeviceToDevice, l.stream);
        e != cudaSuccess) {
      return e;
    }
    next.chain = false;  // follows a copy, not a kernel
    const unsigned blocks = unsigned((channels + 127) / 128);
    if (cudaError_t e =
            launch(next, conv_kernel, dim3(blocks, unsigned(tokens < 1024 ? tokens : 1024)), 128, 0,
                   1, a, segments, num_segments, tokens, channels);
        e != cudaSuccess) {
      return e;
    }
    next = l;
    if (cudaError_t e = launch(next, conv_tail_kernel, dim3(blocks, unsigned(num_segments)), 128, 0,
                               1, a, segments, channels);
        e != cudaSuccess) {
      return e;
    }
  }
  const int decays = a.decay == Decay::none ? 0 : a.kv_heads;
  const bool matrices = a.q_map.first != nullptr;
  const std::size_t shared = std::size_t(2 * a.k_dim + a.features) * sizeof(float);
  if (cudaError_t e = launch(next, features_kernel,
                             dim3(unsigned(tokens), unsigned(a.heads + a.kv_heads + decays)),
                             matrices ? 512 : 128, shared, 1, a, segments, num_segments);
      e != cudaSuccess) {
    return e;
  }
  const dim3 heads(unsigned(a.kv_heads), unsigned(num_segments));
  if (a.decay == Decay::running_sum) {
    return launch(l, running_sum_kernel, heads, 64, 0, 1, a, segments);
  }
  if (a.map == FeatureMap::exponential) {
    return launch(l, running_maximum_kernel, heads, kThreads, 0, 1, a, segments);
  }
  return cudaSuccess;
}

cudaError_t gated_recurrence(const Launch& l, const Recurrence& a, const Segment* segments,
                             int num_segments, int tokens) {
  CorePass values{.heads = a.heads,
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
                  .batch = 0};
  const Fade fade = a.decay == Decay::none ? Fade::none
                    : a.decay_on_values    ? Fade::columns
                                           : Fade::rows;
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

cudaError_t recurrence_output(const Launch& l, const RecurrenceOutput& a, int tokens) {
  return launch(l, output_kernel, dim3(unsigned(tokens)), kThreads, 0, 1, a);
}

}  // namespace runnel::cuda
