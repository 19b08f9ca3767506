// SPDX-License-Identifier: Apache-2.0
// S <- diag(a) S + b (c^T S) + k v^T, of the S before; o = scale S^T q: what a token feeds each head, the recurrence with
// 16 columns of a state in a block's registers, and what follows it. Bound: the latency of a token's sums.
#include "cuda/device/ops/mma.cuh"
#include "cuda/device/ops/recurrence.cuh"
#include "cuda/removal.h"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 16;                   // of a state in a block
constexpr float kBoundedDecay = -0.60653066F;  // -e^(-1/2)

/// log(1 + e^x)
__device__ __forceinline__ float softplus(float x) {
  return fmaxf(x, 0.0F) + log1pf(expf(-fabsf(x)));
}

/// What the channels of a token's head share.
struct OfHead {
  const float* row;  // of the inputs
  float key_length, fade, beta;
};

__device__ __forceinline__ float norm_part(KeyNorm norm, float v) {
  return norm == KeyNorm::length ? v * v : v;
}
/// Takes the sum of what norm_part() returned.
__device__ __forceinline__ float norm_factor(KeyNorm norm, float sum) {
  return norm == KeyNorm::length ? 1.0F / sqrtf(sum + 1e-6F) : 1.0F / sum;
}

__device__ __forceinline__ OfHead of_head(const RemovalLayer& a, const float* row, int head,
                                          float squares) {
  OfHead h{row, fmaxf(sqrtf(squares), 1e-12F), 1.0F, 0.0F};
  if (a.decay == Decay::softplus)
    h.fade = expf(-expf(a.log_rate[head]) * softplus(row[a.at.f + head] + a.f_bias[head]));
  if (a.removal == Removal::delta) h.beta = a.removal_scale * sigmoid(row[a.at.r + head]);
  return h;
}

/// q, k, a, c and b of a channel, to place `to`; `bonus` with what the channel adds.
__device__ __forceinline__ float put_channel(const RemovalLayer& a, const OfHead& h, int channel,
                                             float q, float k, std::size_t to, float bonus) {
  float c, b, new_key, fade = h.fade;
  if (a.decay == Decay::bounded)
    fade = expf(kBoundedDecay * sigmoid(h.row[a.at.f + channel] + a.f_bias[channel]));
  if (a.removal == Removal::delta) {
    c = fade * k;
    new_key = h.beta * k;
    b = -new_key;
  } else {
    const float rate = sigmoid(h.row[a.at.r + channel] + a.r_bias[channel]);
    c = -k * a.removal_key[channel] / h.key_length;
    b = -rate * c;
    new_key = k * (1.0F + (rate - 1.0F) * a.key_rate[channel]);
  }
  a.q[to] = q * a.scale;
  a.k[to] = new_key;
  a.c[to] = c;
  a.b[to] = b;
  if (a.decay != Decay::none) a.a[to] = fade;
  return a.bonus_weight != nullptr ? fmaf(q * new_key, a.bonus_weight[channel], bonus) : bonus;
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
  float sum_q = 0.0F, sum_k = 0.0F;
  for (int i = tid; i < n; i += kThreads) {
    q[i] = mapped(a.map, row[a.at.q + key + i]);
    k[i] = mapped(a.map, row[a.at.k + key + i]);
    sum_q += norm_part(a.key_norm, q[i]);
    sum_k += norm_part(a.key_norm, k[i]);
  }
  float by_q = 1.0F, by_k = 1.0F;
  if (a.key_norm != KeyNorm::none) {
    sum_q = block_sum(sum_q, scratch);
    sum_k = block_sum(sum_k, scratch);
    by_q = norm_factor(a.key_norm, sum_q);
    by_k = norm_factor(a.key_norm, sum_k);
  }
  float squares = 0.0F;
  if (a.removal == Removal::own_key) {
    for (int i = tid; i < n; i += kThreads) {
      const float own = k[i] * by_k * a.removal_key[head * n + i];
      squares = fmaf(own, own, squares);
    }
    squares = block_sum(squares, scratch);
  }
  const OfHead h = of_head(a, row, head, squares);
  const std::size_t to = (t * a.heads + head) * n;
  float bonus = 0.0F;
  for (int i = tid; i < n; i += kThreads)
    bonus = put_channel(a, h, head * n + i, q[i] * by_q, k[i] * by_k, to + i, bonus);
  if (a.bonus_weight == nullptr) return;
  bonus = block_sum(bonus, scratch);
  if (tid == 0) a.bonus[t * a.heads + head] = bonus;
}

/// The same by a warp for each (token, head): heads of 32 kPer channels, kPer of them a lane.
template <int kPer>
__global__ void __launch_bounds__(kThreads)
    warp_inputs_kernel(const __grid_constant__ RemovalLayer a, int count) {
  chain_trigger();
  chain_wait();
  const int lane = int(threadIdx.x) & 31, n = 32 * kPer;
  const int item = int(blockIdx.x) * (kThreads / 32) + (int(threadIdx.x) >> 5);
  if (item >= count) return;
  const int head = item % a.heads;
  const std::size_t t = item / a.heads;
  const float* row = a.inputs + t * a.at.stride;
  const int key = head / a.values_per_key * n;
  float q[kPer], k[kPer], sum_q = 0.0F, sum_k = 0.0F;
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    q[j] = mapped(a.map, row[a.at.q + key + 32 * j + lane]);
    k[j] = mapped(a.map, row[a.at.k + key + 32 * j + lane]);
    sum_q += norm_part(a.key_norm, q[j]);
    sum_k += norm_part(a.key_norm, k[j]);
  }
  float by_q = 1.0F, by_k = 1.0F;
  if (a.key_norm != KeyNorm::none) {
    sum_q = warp_sum(sum_q), sum_k = warp_sum(sum_k);
    by_q = norm_factor(a.key_norm, sum_q);
    by_k = norm_factor(a.key_norm, sum_k);
  }
  float squares = 0.0F;
  if (a.removal == Removal::own_key) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const float own = k[j] * by_k * a.removal_key[head * n + 32 * j + lane];
      squares = fmaf(own, own, squares);
    }
    squares = warp_sum(squares);
  }
  const OfHead h = of_head(a, row, head, squares);
  const std::size_t to = (t * a.heads + head) * n;
  float bonus = 0.0F;
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int i = 32 * j + lane;
    bonus = put_channel(a, h, head * n + i, q[j] * by_q, k[j] * by_k, to + i, bonus);
  }
  if (a.bonus_weight == nullptr) return;
  bonus = warp_sum(bonus);
  if (lane == 0) a.bonus[t * a.heads + head] = bonus;
}

/// What a batch of tokens brings to shared memory: five vectors of kPadded rows, then 16 values.
enum Vector : std::int32_t { kC, kB, kA, kK, kQ, kVectors };

__device__ __forceinline__ void copy4(std::uint32_t to, const void* from, bool valid) {
  const int bytes = valid ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

template <int kPadded>
struct Batch {
  static constexpr int kFloats = kVectors * kPadded + kColumns;  // of a token
  static constexpr int kMost = 5120 / kFloats;                   // tokens of 20 KB
  static constexpr int kTokens = kMost < 1 ? 1 : kMost > 16 ? 16 : kMost;
  static constexpr std::size_t kBytes = 2 * std::size_t(kTokens) * kFloats * sizeof(float);

  /// Tokens [first, first + count) of a head; rows from k_dim on are zeros.
  static __device__ void fetch(const RemovalLayer& a, float* to, int first, int count, int head,
                               int column) {
    const std::uint32_t base = shared_address(to);
    const float* const from[kVectors] = {a.c, a.b, a.a, a.k, a.q};
    const int vectors = kPadded / 4;
    const bool whole = a.k_dim % 4 == 0;
    for (int i = int(threadIdx.x); i < count * kVectors * vectors; i += kThreads) {
      const int r = i % vectors * 4, which = i / vectors % kVectors, t = i / vectors / kVectors;
      if (which == kA && a.decay == Decay::none) continue;
      const float* const p = from[which] + (std::size_t(first + t) * a.heads + head) * a.k_dim + r;
      const std::uint32_t at = base + 4U * unsigned(t * kFloats + which * kPadded + r);
      if (whole) {
        copy16(at, r < a.k_dim ? p : from[which], r < a.k_dim);
      } else {
        for (int c = 0; c < 4; ++c)
          copy4(at + 4 * c, r + c < a.k_dim ? p + c : from[which], r + c < a.k_dim);
      }
    }
    const float* values = a.inputs + a.at.v + head * a.v_dim;
    for (int i = int(threadIdx.x); i < count * kColumns; i += kThreads) {
      const int c = i % kColumns, t = i / kColumns;
      const bool there = column + c < a.v_dim;
      copy4(base + 4U * unsigned(t * kFloats + kVectors * kPadded + c),
            there ? values + std::size_t(first + t) * a.at.stride + column + c : values, there);
    }
  }
};

/// Blocks (16 columns, head, segment). Eight lanes share a column of the state and keep it in registers: lane g has the
/// rows 32 i + 4 g + (0 to 3). Tokens come in batches through cp.async, one batch ahead.
template <int kPadded>
__global__ void __launch_bounds__(kThreads)
    core_kernel(const __grid_constant__ RemovalLayer a, const Segment* segments) {
  using Tokens = Batch<kPadded>;
  constexpr int kRows = kPadded / 8;
  extern __shared__ __align__(16) float batches[];  // [2][kTokens][kFloats]
  chain_trigger();
  chain_wait();
  const Segment s = segments[blockIdx.z];
  const int tid = int(threadIdx.x), g = tid & 7, head = int(blockIdx.y);
  const int first_column = int(blockIdx.x) * kColumns, own = tid >> 3;
  const int column = first_column + own;
  const bool mine = column < a.v_dim, fades = a.decay != Decay::none;
  const std::size_t base =
      a.layer_offset + std::size_t(head) * a.head_floats + a.values_offset + column;
  const auto row_of = [g](int i) { return 32 * (i >> 2) + 4 * g + (i & 3); };
  const auto batch = [&](int n) { return batches + (n & 1) * Tokens::kTokens * Tokens::kFloats; };
  const int count = s.count, rounds = (count + Tokens::kTokens - 1) / Tokens::kTokens;
  const auto fetch = [&](int n) {
    if (n < rounds) {
      const int at = n * Tokens::kTokens;
      Tokens::fetch(a, batch(n), s.first + at, min(Tokens::kTokens, count - at), head,
                    first_column);
    }
    copy_commit();
  };
  fetch(0);
  float x[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int r = row_of(i);
    x[i] = mine && r < a.k_dim ? s.state_in[base + std::size_t(r) * a.v_dim] : 0.0F;
  }
#pragma unroll 1
  for (int n = 0; n < rounds; ++n) {
    fetch(n + 1);
    copy_wait<1>();
    __syncthreads();
    const int at = n * Tokens::kTokens, tokens = min(Tokens::kTokens, count - at);
    const float* p = batch(n);
#pragma unroll 1
    for (int t = 0; t < tokens; ++t, p += Tokens::kFloats) {
      const auto vector = [&](Vector which, int i) {
        return *reinterpret_cast<const float4*>(p + which * kPadded + 32 * i + 4 * g);
      };
      const float v = activate(a.v_act, p[kVectors * kPadded + own]);
      float u[4] = {};
#pragma unroll
      for (int i = 0; i < kRows / 4; ++i) {
        const float4 c = vector(kC, i), k = vector(kK, i);
        u[0] = fmaf(x[4 * i], c.x, u[0]), u[1] = fmaf(x[4 * i + 1], c.y, u[1]);
        u[2] = fmaf(x[4 * i + 2], c.z, u[2]), u[3] = fmaf(x[4 * i + 3], c.w, u[3]);
        if (fades) {
          const float4 w = vector(kA, i);
          x[4 * i] *= w.x, x[4 * i + 1] *= w.y, x[4 * i + 2] *= w.z, x[4 * i + 3] *= w.w;
        }
        x[4 * i] = fmaf(k.x, v, x[4 * i]), x[4 * i + 1] = fmaf(k.y, v, x[4 * i + 1]);
        x[4 * i + 2] = fmaf(k.z, v, x[4 * i + 2]), x[4 * i + 3] = fmaf(k.w, v, x[4 * i + 3]);
      }
      float removed = (u[0] + u[1]) + (u[2] + u[3]);
#pragma unroll
      for (int o = 1; o < 8; o <<= 1) removed += __shfl_xor_sync(~0U, removed, o);
      float sums[4] = {};
#pragma unroll
      for (int i = 0; i < kRows / 4; ++i) {
        const float4 b = vector(kB, i), q = vector(kQ, i);
        x[4 * i] = fmaf(b.x, removed, x[4 * i]);
        x[4 * i + 1] = fmaf(b.y, removed, x[4 * i + 1]);
        x[4 * i + 2] = fmaf(b.z, removed, x[4 * i + 2]);
        x[4 * i + 3] = fmaf(b.w, removed, x[4 * i + 3]);
        sums[0] = fmaf(x[4 * i], q.x, sums[0]), sums[1] = fmaf(x[4 * i + 1], q.y, sums[1]);
        sums[2] = fmaf(x[4 * i + 2], q.z, sums[2]), sums[3] = fmaf(x[4 * i + 3], q.w, sums[3]);
      }
      float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#pragma unroll
      for (int o = 1; o < 8; o <<= 1) sum += __shfl_xor_sync(~0U, sum, o);
      if (g == 0 && mine)
        a.o[(std::size_t(s.first + at + t) * a.heads + head) * a.v_dim + column] = sum;
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int r = row_of(i);
    if (mine && r < a.k_dim) s.state_out[base + std::size_t(r) * a.v_dim] = x[i];
  }
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
    if (a.y_bf16 != nullptr) {
      reinterpret_cast<__nv_bfloat16*>(a.y_bf16)[row + i] = __float2bfloat16_rn(v);
    } else {
      a.y[row + i] = v;
    }
  }
}

/// The same by a warp for each (token, head): heads of 32 kPer channels.
template <int kPer>
__global__ void __launch_bounds__(kThreads)
    warp_output_kernel(const __grid_constant__ RemovalOutput a, int count) {
  chain_trigger();
  chain_wait();
  const int lane = int(threadIdx.x) & 31, n = 32 * kPer;
  const int item = int(blockIdx.x) * (kThreads / 32) + (int(threadIdx.x) >> 5);
  if (item >= count) return;
  const int head = item % a.heads;
  const std::size_t t = item / a.heads, row = std::size_t(item) * n;
  float o[kPer], mean = 0.0F, factor = 1.0F;
#pragma unroll
  for (int j = 0; j < kPer; ++j) o[j] = a.o[row + 32 * j + lane];
  if (a.normalise) {
    float sum = 0.0F, squares = 0.0F;
#pragma unroll
    for (int j = 0; j < kPer; ++j) sum += o[j];
    mean = warp_sum(sum) / static_cast<float>(n);
#pragma unroll
    for (int j = 0; j < kPer; ++j) squares = fmaf(o[j] - mean, o[j] - mean, squares);
    factor = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(n) + a.eps);
  }
  const float bonus = a.bonus != nullptr ? a.bonus[item] : 0.0F;
  const float* inputs = a.inputs + t * a.at.stride;
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int channel = head * n + 32 * j + lane;
    float v = (o[j] - mean) * factor;
    if (a.normalise) v = fmaf(v, a.weight[channel], a.bias[channel]);
    if (a.bonus != nullptr) v = fmaf(bonus, inputs[a.at.v + channel], v);
    if (a.at.gate >= 0) v *= inputs[a.at.gate + channel];
    if (a.y_bf16 != nullptr) {
      reinterpret_cast<__nv_bfloat16*>(a.y_bf16)[row + 32 * j + lane] = __float2bfloat16_rn(v);
    } else {
      a.y[row + 32 * j + lane] = v;
    }
  }
}

/// with.operator()<kPer>() for heads of 32, 64, 128 or 256 channels; false: others.
template <class With>
bool with_warps(int n, With&& with) {
  switch (n) {
    case 32:
      return with.template operator()<1>(), true;
    case 64:
      return with.template operator()<2>(), true;
    case 128:
      return with.template operator()<4>(), true;
    case 256:
      return with.template operator()<8>(), true;
    default:
      return false;
  }
}

dim3 warps_grid(int items) { return dim3(unsigned((items + kThreads / 32 - 1) / (kThreads / 32))); }

template <int kPadded>
cudaError_t start_core(const Launch& l, const RemovalLayer& a, const Segment* segments,
                       int num_segments) {
  const unsigned columns = unsigned((a.v_dim + kColumns - 1) / kColumns);
  return launch(l, core_kernel<kPadded>, dim3(columns, unsigned(a.heads), unsigned(num_segments)),
                kThreads, Batch<kPadded>::kBytes, 1, a, segments);
}

}  // namespace

cudaError_t removal_inputs(const Launch& l, const RemovalLayer& a, int tokens) {
  cudaError_t done = cudaSuccess;
  const int items = tokens * a.heads;
  const auto start = [&]<int kPer>() {
    done = launch(l, warp_inputs_kernel<kPer>, warps_grid(items), kThreads, 0, 1, a, items);
  };
  if (with_warps(a.k_dim, start)) return done;
  const std::size_t shared = 2 * std::size_t(a.k_dim) * sizeof(float);
  return launch(l, inputs_kernel, dim3(unsigned(tokens), unsigned(a.heads)), kThreads, shared, 1,
                a);
}

cudaError_t removal_core(const Launch& l, const RemovalLayer& a, const Segment* segments,
                         int num_segments) {
  if (a.k_dim <= 32) return start_core<32>(l, a, segments, num_segments);
  if (a.k_dim <= 64) return start_core<64>(l, a, segments, num_segments);
  if (a.k_dim <= 128) return start_core<128>(l, a, segments, num_segments);
  if (a.k_dim <= 256) return start_core<256>(l, a, segments, num_segments);
  return start_core<512>(l, a, segments, num_segments);
}

bool removal_fits(const RemovalLayer& a) { return a.k_dim <= 512; }

cudaError_t removal_output(const Launch& l, const RemovalOutput& a, int tokens) {
  cudaError_t done = cudaSuccess;
  const int items = tokens * a.heads;
  const auto start = [&]<int kPer>() {
    done = launch(l, warp_output_kernel<kPer>, warps_grid(items), kThreads, 0, 1, a, items);
  };
  if (with_warps(a.v_dim, start)) return done;
  return launch(l, output_kernel, dim3(unsigned(tokens), unsigned(a.heads)), kThreads, 0, 1, a);
}

}  // namespace runnel::cuda
