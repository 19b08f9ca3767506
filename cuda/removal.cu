// SPDX-License-Identifier: Apache-2.0
// S <- diag(a) S + b (c^T S) + k v^T, of the S before, o = scale S^T q: what a token feeds each head, the recurrence with
// 16 columns of a state in a block's shared memory, and what follows it. Bound: the bytes of the state for one token,
// arithmetic for many.
#include "cuda/device/ops/recurrence.cuh"
#include "cuda/removal.h"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 16, kGroups = kThreads / kColumns;
constexpr float kBoundedDecay = -0.60653066F;  // -e^(-1/2)

/// log(1 + e^x)
__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x)));
}

/// Blocks (token, head).
__global__ void __launch_bounds__(kThreads) inputs_kernel(const __grid_constant__ RemovalLayer a) {
  extern __shared__ float shared[];  // q [K], k [K]
  __shared__ float scratch[32];
  chain_trigger();
  chain_wait();
  const int tid = int(threadIdx.x), n = a.k_dim, head = int(blockIdx.y);
  const std::size_t t = blockIdx.x;
  const float* row = a.inputs + t * a.at.stride;
  const int key = head / a.values_per_key * n;
  float* q = shared;
  float* k = shared + n;
  const bool length = a.key_norm == KeyNorm::length;
  float sum_q = 0.0F, sum_k = 0.0F;
  for (int i = tid; i < n; i += kThreads) {
    q[i] = mapped(a.map, row[a.at.q + key + i]);
    k[i] = mapped(a.map, row[a.at.k + key + i]);
    sum_q += length ? q[i] * q[i] : q[i];
    sum_k += length ? k[i] * k[i] : k[i];
  }
  float by_q = 1.0F, by_k = 1.0F;
  if (a.key_norm != KeyNorm::none) {
    sum_q = block_sum(sum_q, scratch);
    sum_k = block_sum(sum_k, scratch);
    by_q = length ? 1.0F / sqrtf(sum_q + 1e-6F) : 1.0F / sum_q;
    by_k = length ? 1.0F / sqrtf(sum_k + 1e-6F) : 1.0F / sum_k;
  }
  float squares = 0.0F;
  if (a.removal == Removal::own_key) {
    for (int i = tid; i < n; i += kThreads) {
      const float own = k[i] * by_k * a.removal_key[head * n + i];
      squares = fmaf(own, own, squares);
    }
    squares = block_sum(squares, scratch);
  }
  const float key_length = fmaxf(sqrtf(squares), 1e-12F);
  float fade = 1.0F, beta = 0.0F;
  if (a.decay == Decay::softplus)
    fade = expf(-expf(a.log_rate[head]) * softplus(row[a.at.f + head] + a.f_bias[head]));
  if (a.removal == Removal::delta) beta = a.removal_scale * sigmoid(row[a.at.r + head]);
  const std::size_t to = (t * a.heads + head) * n;
  float bonus = 0.0F;
  for (int i = tid; i < n; i += kThreads) {
    const int channel = head * n + i;
    const float own_q = q[i] * by_q, own_k = k[i] * by_k;
    if (a.decay == Decay::bounded)
      fade = expf(kBoundedDecay * sigmoid(row[a.at.f + channel] + a.f_bias[channel]));
    float c, b, new_key;
    if (a.removal == Removal::delta) {
      c = fade * own_k;
      new_key = beta * own_k;
      b = -new_key;
    } else {
      const float rate = sigmoid(row[a.at.r + channel] + a.r_bias[channel]);
      c = -own_k * a.removal_key[channel] / key_length;
      b = -rate * c;
      new_key = own_k * (1.0F + (rate - 1.0F) * a.key_rate[channel]);
    }
    if (a.bonus_weight != nullptr) bonus = fmaf(own_q * new_key, a.bonus_weight[channel], bonus);
    a.q[to + i] = own_q * a.scale;
    a.k[to + i] = new_key;
    a.c[to + i] = c;
    a.b[to + i] = b;
    if (a.decay != Decay::none) a.a[to + i] = fade;
  }
  if (a.bonus_weight == nullptr) return;
  bonus = block_sum(bonus, scratch);
  if (tid == 0) a.bonus[t * a.heads + head] = bonus;
}

/// Blocks (16 columns, head, segment). A thread owns every eighth row of its column.
__global__ void __launch_bounds__(kThreads)
    core_kernel(const __grid_constant__ RemovalLayer a, const Segment* segments) {
  extern __shared__ float state[];  // [K, 16]
  __shared__ float removed[kGroups][kColumns], read[kGroups][kColumns];
  chain_trigger();
  chain_wait();
  const Segment s = segments[blockIdx.z];
  const int head = int(blockIdx.y), own = int(threadIdx.x) % kColumns;
  const int group = int(threadIdx.x) / kColumns, column = int(blockIdx.x) * kColumns + own;
  const bool mine = column < a.v_dim;
  const std::size_t base =
      a.layer_offset + std::size_t(head) * a.head_floats + a.values_offset + column;
  for (int r = group; r < a.k_dim; r += kGroups)
    state[r * kColumns + own] = mine ? s.state_in[base + std::size_t(r) * a.v_dim] : 0.0F;
  for (int t = s.first; t < s.first + s.count; ++t) {
    const std::size_t at = std::size_t(t) * a.heads + head, row = at * a.k_dim;
    const float v =
        mine ? activate(a.v_act,
                        a.inputs[std::size_t(t) * a.at.stride + a.at.v + head * a.v_dim + column])
             : 0.0F;
    float u = 0.0F;
    for (int r = group; r < a.k_dim; r += kGroups)
      u = fmaf(state[r * kColumns + own], a.c[row + r], u);
    removed[group][own] = u;
    __syncthreads();
    u = 0.0F;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) u += removed[g][own];
    float sum = 0.0F;
    for (int r = group; r < a.k_dim; r += kGroups) {
      float x = state[r * kColumns + own];
      if (a.decay != Decay::none) x *= a.a[row + r];
      x = fmaf(a.b[row + r], u, x);
      x = fmaf(a.k[row + r], v, x);
      state[r * kColumns + own] = x;
      sum = fmaf(x, a.q[row + r], sum);
    }
    read[group][own] = sum;
    __syncthreads();
    if (group == 0 && mine) {
      sum = 0.0F;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) sum += read[g][own];
      a.o[at * a.v_dim + column] = sum;
    }
  }
  for (int r = group; mine && r < a.k_dim; r += kGroups)
    s.state_out[base + std::size_t(r) * a.v_dim] = state[r * kColumns + own];
}

/// Blocks (token, head).
__global__ void __launch_bounds__(kThreads) output_kernel(const __grid_constant__ RemovalOutput a) {
  __shared__ float scratch[32];
  chain_trigger();
  chain_wait();
  const int tid = int(threadIdx.x), head = int(blockIdx.y), n = a.v_dim;
  const std::size_t t = blockIdx.x, row = (t * a.heads + head) * n;
  float mean = 0.0F, factor = 1.0F;
  if (a.normalise) {
    float sum = 0.0F, squares = 0.0F;
    for (int i = tid; i < n; i += kThreads) sum += a.o[row + i];
    mean = block_sum(sum, scratch) / static_cast<float>(n);
    for (int i = tid; i < n; i += kThreads) {
      const float v = a.o[row + i] - mean;
      squares = fmaf(v, v, squares);
    }
    factor = 1.0F / sqrtf(block_sum(squares, scratch) / static_cast<float>(n) + a.eps);
  }
  const float bonus = a.bonus != nullptr ? a.bonus[t * a.heads + head] : 0.0F;
  const float* inputs = a.inputs + t * a.at.stride;
  for (int i = tid; i < n; i += kThreads) {
    const int channel = head * n + i;
    float v = (a.o[row + i] - mean) * factor;
    if (a.normalise) v = fmaf(v, a.weight[channel], a.bias[channel]);
    if (a.bonus != nullptr) v = fmaf(bonus, inputs[a.at.v + channel], v);
    if (a.at.gate >= 0) v *= inputs[a.at.gate + channel];
    a.y[row + i] = v;
  }
}

}  // namespace

cudaError_t removal_inputs(const Launch& l, const RemovalLayer& a, int tokens) {
  const std::size_t shared = 2 * std::size_t(a.k_dim) * sizeof(float);
  return launch(l, inputs_kernel, dim3(unsigned(tokens), unsigned(a.heads)), kThreads, shared, 1,
                a);
}

cudaError_t removal_core(const Launch& l, const RemovalLayer& a, const Segment* segments,
                         int num_segments) {
  const std::size_t shared = std::size_t(a.k_dim) * kColumns * sizeof(float);
  const unsigned columns = unsigned((a.v_dim + kColumns - 1) / kColumns);
  return launch(l, core_kernel, dim3(columns, unsigned(a.heads), unsigned(num_segments)), kThreads,
                shared, 1, a, segments);
}

bool removal_fits(const RemovalLayer& a) {
  constexpr std::size_t kSharedBytes = 40U << 10;  // of 48 KiB that every device gives
  return std::size_t(a.k_dim) * kColumns * sizeof(float) <= kSharedBytes;
}

cudaError_t removal_output(const Launch& l, const RemovalOutput& a, int tokens) {
  return launch(l, output_kernel, dim3(unsigned(tokens), unsigned(a.heads)), kThreads, 0, 1, a);
}

}  // namespace runnel::cuda
