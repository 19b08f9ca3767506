// SPDX-License-Identifier: Apache-2.0
// What lies between the projections and a gated recurrence in long passes and where a step does not
// do it itself: convolutions, feature maps, rotations, decays. Bound: the [T, channels] f32 buffers.
#include "cuda/device/ops/recurrence.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;

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

// ---- features and decays: one block per token and head

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
    const int segment = segment_of(segments, num_segments, t);
    const Segment& s = segments[segment];
    if (a.rotary) {
      auto* table = reinterpret_cast<float2*>(x);
      fill_turns(a, s.position + std::uint64_t(t - s.first), table);
      __syncthreads();
      rotate(a, y, y, table);
      __syncthreads();
    }
    if (a.map == FeatureMap::exponential && !key) {
      exponentials(y, a.features, scratch);
    } else if (a.map == FeatureMap::exponential) {
      float largest = -INFINITY;
      for (int i = tid; i < a.features; i += step) largest = fmaxf(largest, y[i]);
      largest = block_max(largest, scratch);
      if (tid == 0) {
        a.maxima[std::size_t(t) * a.kv_heads + h] = largest;
        if (t == s.first) a.before[segment * a.kv_heads + h] = s.state_in[extra_of(a, h)];
      }
    }
    float* to = !key          ? a.q + (std::size_t(t) * a.heads + h) * a.features
                : a.slots > 0 ? a.k_slots + (std::size_t(t) * a.kv_heads + h) * a.k_dim
                              : a.k + (std::size_t(t) * a.kv_heads + h) * a.features;
    for (int i = tid; i < a.features; i += step) to[i] = y[i];
    return;
  }
  h -= a.heads + a.kv_heads;
  float* decay = a.a + (std::size_t(t) * a.kv_heads + h) * a.decays;
  for (int i = tid; i < a.gates; i += step) {
    const int at = h * a.gates + i;
    if (a.decay == Decay::running_sum) {  // the scan turns it into decays
      a.k[(std::size_t(t) * a.kv_heads + h) * a.slots + i] = clamped(a, gate_logit(a, row, at));
      continue;
    }
    const Faded f = faded(a, gates_of(a, row), at);
    decay[i] = f.decay;
    if (a.complement_keys) a.k[(std::size_t(t) * a.kv_heads + h) * a.features + i] = f.key;
  }
  if (a.decay == Decay::fixed) {
    for (int i = tid; i < a.decays; i += step) decay[i] = fixed_decay(h);
  }
}

// ---- maps by a matrix, apart from what follows them

/// Features of one or a few tokens by W x of each head: one warp per row of the matrices, which it has
/// read before the projections are there. Grid: rows / 8, q or k, tokens.
constexpr int kMapPieces = 4;  // of four columns per lane: K <= 512
__global__ void __launch_bounds__(kThreads)
    map_vectors_kernel(const __grid_constant__ Recurrence a) {
  chain_trigger();
  const bool key = blockIdx.y == 1;
  const RecurrenceMap& w = key ? a.k_map : a.q_map;
  const int lane = int(threadIdx.x) % 32;
  const int r = int(blockIdx.x) * (kThreads / 32) + int(threadIdx.x) / 32, n = a.k_dim;
  const int heads = key ? a.kv_heads : a.heads;
  if (r >= n) return;
  float4 first[kMapPieces], second[kMapPieces];
#pragma unroll
  for (int p = 0; p < kMapPieces; ++p) {
    const int c = (p * 32 + lane) * 4;
    first[p] = second[p] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (c >= n) continue;
    first[p] = *reinterpret_cast<const float4*>(w.first + std::size_t(r) * n + c);
    if (w.second != nullptr)
      second[p] = *reinterpret_cast<const float4*>(w.second + std::size_t(r) * n + c);
  }
  const float b1 = w.first_bias != nullptr ? w.first_bias[r] : 0.0F;
  const float b2 = w.second_bias != nullptr ? w.second_bias[r] : 0.0F;
  chain_wait();
  const int t = int(blockIdx.z);
  const float* x = a.mixed + std::size_t(t) * a.at.stride + (key ? a.at.k : a.at.q);
  float* const out = (key ? a.k : a.q) + std::size_t(t) * heads * n + r;
#pragma unroll 4
  for (int h = 0; h < heads; ++h) {
    float one = 0.0F, two = 0.0F;
#pragma unroll
    for (int p = 0; p < kMapPieces; ++p) {
      const int c = (p * 32 + lane) * 4;
      if (c >= n) continue;
      const float4 v = *reinterpret_cast<const float4*>(x + h * n + c);
      one = fmaf(first[p].x, v.x, one), two = fmaf(second[p].x, v.x, two);
      one = fmaf(first[p].y, v.y, one), two = fmaf(second[p].y, v.y, two);
      one = fmaf(first[p].z, v.z, one), two = fmaf(second[p].z, v.z, two);
      one = fmaf(first[p].w, v.w, one), two = fmaf(second[p].w, v.w, two);
    }
    one = warp_sum(one) + b1, two = warp_sum(two) + b2;
    if (lane == 0) out[h * n] = a.map == FeatureMap::product ? one * two : fmaxf(one, 0.0F);
  }
}

// Many tokens: f32 to nearly its precision on tensor cores. x = high + low, both bf16, likewise W;
// (high, low, high) (high, high, low)^T is one product of three times the inner length, and lacks
// low low^T alone, 2^-16 of the result.

__device__ __forceinline__ void put_split(std::uint16_t* to, int n, float v, bool weight) {
  const __nv_bfloat16 high = __float2bfloat16_rn(v);
  const __nv_bfloat16 low = __float2bfloat16_rn(v - __bfloat162float(high));
  to[0] = __bfloat16_as_ushort(high);
  to[n] = __bfloat16_as_ushort(weight ? high : low);
  to[2 * n] = __bfloat16_as_ushort(weight ? low : high);
}

/// A block a token and head, or a row of the matrices.
__global__ void split_rows_kernel(const __grid_constant__ Recurrence a, bool key,
                                  std::uint16_t* to) {
  chain_trigger();
  chain_wait();
  const int n = a.k_dim, h = int(blockIdx.y);
  const float* x =
      a.mixed + std::size_t(blockIdx.x) * a.at.stride + (key ? a.at.k : a.at.q) + h * n;
  to += (std::size_t(blockIdx.x) * gridDim.y + h) * 3 * n;
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) put_split(to + i, n, x[i], false);
}

__global__ void split_weights_kernel(RecurrenceMap w, int n, std::uint16_t* to) {
  chain_trigger();
  chain_wait();
  const int r = int(blockIdx.x);
  const float* x = r < n ? w.first + std::size_t(r) * n : w.second + std::size_t(r - n) * n;
  to += std::size_t(r) * 3 * n;
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) put_split(to + i, n, x[i], true);
}

/// [rows, n or 2n] -> [rows, n]
__global__ void combine_maps_kernel(const float* y, RecurrenceMap w, int n, float* to) {
  chain_trigger();
  chain_wait();
  const bool both = w.second != nullptr;
  y += std::size_t(blockIdx.x) * (both ? 2 * n : n);
  to += std::size_t(blockIdx.x) * n;
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) {
    const float one = y[i] + (w.first_bias != nullptr ? w.first_bias[i] : 0.0F);
    if (both) {
      to[i] = one * (y[n + i] + (w.second_bias != nullptr ? w.second_bias[i] : 0.0F));
    } else {
      to[i] = fmaxf(one, 0.0F);
    }
  }
}

}  // namespace

cudaError_t recurrence_convolutions(const Launch& l, const Recurrence& a, const Segment* segments,
                                    int num_segments, int tokens) {
  if (a.conv == 0) return cudaSuccess;
  const int channels = (a.heads + a.kv_heads) * a.k_dim + a.kv_heads * a.v_dim;
  const std::size_t bytes = std::size_t(tokens) * a.at.stride * sizeof(float);
  if (cudaError_t e = cudaMemcpyAsync(a.mixed, a.inputs, bytes, cudaMemcpyDeviceToDevice, l.stream);
      e != cudaSuccess) {
    return e;
  }
  Launch next = l;
  next.chain = false;  // follows a copy, not a kernel
  const unsigned blocks = unsigned((channels + 127) / 128);
  if (cudaError_t e =
          launch(next, conv_kernel, dim3(blocks, unsigned(tokens < 1024 ? tokens : 1024)), 128, 0,
                 1, a, segments, num_segments, tokens, channels);
      e != cudaSuccess) {
    return e;
  }
  return launch(l, conv_tail_kernel, dim3(blocks, unsigned(num_segments)), 128, 0, 1, a, segments,
                channels);
}

cudaError_t recurrence_features(const Launch& l, const Recurrence& a, const Segment* segments,
                                int num_segments, int tokens) {
  const int decays = a.decay == Decay::none ? 0 : a.kv_heads;
  const std::size_t shared = std::size_t(2 * a.k_dim + a.features) * sizeof(float);
  if (cudaError_t e = launch(
          l, features_kernel, dim3(unsigned(tokens), unsigned(a.heads + a.kv_heads + decays)),
          a.q_map.first != nullptr ? 512 : 128, shared, 1, a, segments, num_segments);
      e != cudaSuccess) {
    return e;
  }
  if (a.decay == Decay::running_sum) return running_sums(l, a, segments, num_segments);
  if (a.map == FeatureMap::exponential) return running_maxima(l, a, segments, num_segments, tokens);
  return cudaSuccess;
}

bool recurrence_maps_apart(const Recurrence& a) {
  return (a.map == FeatureMap::product || a.map == FeatureMap::t2r) && a.k_dim % 8 == 0 &&
         a.k_dim <= kMapPieces * 128 && a.slots == 0 && a.decay == Decay::none && !a.rotary &&
         !a.norm_q && !a.norm_k && a.at.stride % 4 == 0 && a.at.q % 4 == 0 && a.at.k % 4 == 0;
}

cudaError_t map_vectors(const Launch& l, const Recurrence& a, int tokens) {
  constexpr int kWarps = kThreads / 32;
  const dim3 grid(unsigned((a.k_dim + kWarps - 1) / kWarps), 2, unsigned(tokens));
  return launch(l, map_vectors_kernel, grid, kThreads, 0, 1, a);
}

cudaError_t split_map(const Launch& l, const Recurrence& a, bool key, int tokens,
                      std::uint16_t* rows, std::uint16_t* weights) {
  const RecurrenceMap& w = key ? a.k_map : a.q_map;
  const unsigned heads = unsigned(key ? a.kv_heads : a.heads);
  if (cudaError_t e =
          launch(l, split_rows_kernel, dim3(unsigned(tokens), heads), 128, 0, 1, a, key, rows);
      e != cudaSuccess) {
    return e;
  }
  const unsigned matrices = w.second != nullptr ? 2 : 1;
  return launch(l, split_weights_kernel, dim3(matrices * unsigned(a.k_dim)), 128, 0, 1, w, a.k_dim,
                weights);
}

cudaError_t combine_map(const Launch& l, const Recurrence& a, bool key, int tokens,
                        const float* products) {
  const unsigned rows = unsigned(tokens) * unsigned(key ? a.kv_heads : a.heads);
  return launch(l, combine_maps_kernel, dim3(rows), 128, 0, 1, products, key ? a.k_map : a.q_map,
                a.k_dim, key ? a.k : a.q);
}

}  // namespace runnel::cuda
