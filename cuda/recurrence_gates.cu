// SPDX-License-Identifier: Apache-2.0
// What of a gated recurrence runs from token to token beside the state: the running sum of slots,
// the running maximum of exponential keys, and the decays that follow from them.
// Bound: latency of a few tokens, else the [T, H, A] f32 buffers.
#include "cuda/device/ops/recurrence.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;

/// z of the running sum; one block per head, one thread per slot.
__global__ void running_sum_kernel(const __grid_constant__ Recurrence a, const Segment* segments) {
  chain_trigger();
  chain_wait();
  const Segment s = segments[blockIdx.y];
  const int h = int(blockIdx.x);
  const std::size_t extra = extra_of(a, h);
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

/// m of exponential keys, their exponentials, and the decays that follow m: blocks of some tokens
/// of a head, each of which takes the maximum of all tokens before its own.
constexpr int kMaximumTokens = 4;
__global__ void __launch_bounds__(kThreads)
    running_maximum_kernel(const __grid_constant__ Recurrence a, const Segment* segments) {
  __shared__ float scratch[32], largest[kMaximumTokens], shrink[kMaximumTokens];
  chain_trigger();
  chain_wait();
  const Segment s = segments[blockIdx.z];
  const int h = int(blockIdx.y), tid = int(threadIdx.x);
  const int start = int(blockIdx.x) * kMaximumTokens, n = min(kMaximumTokens, s.count - start);
  if (n <= 0) return;
  const auto row = [&](int t) { return std::size_t(s.first + t) * a.kv_heads + h; };
  const bool fresh = s.position == 0;
  float before = fresh ? -INFINITY : a.before[int(blockIdx.z) * a.kv_heads + h];
  for (int t = tid; t < start; t += kThreads) before = fmaxf(before, a.maxima[row(t)]);
  if (tid < n) largest[tid] = a.maxima[row(start + tid)];
  before = block_max(before, scratch);
  if (tid == 0) {
    for (int t = 0; t < n; ++t) {
      const float now = fmaxf(before, largest[t]);
      shrink[t] = fresh && start + t == 0 ? 0.0F : expf(before - now);
      largest[t] = before = now;
    }
    if (start + n == s.count) s.state_out[extra_of(a, h)] = before;
  }
  __syncthreads();
  for (int t = 0; t < n; ++t) {
    float* const k = a.k + row(start + t) * a.features;
    for (int i = tid; i < a.features; i += kThreads) k[i] = expf(k[i] - largest[t]);
    float* const decay = a.a + row(start + t) * a.decays;
    for (int i = tid; i < a.decays; i += kThreads) decay[i] *= shrink[t];
  }
}

// ---- slots with a running sum, as the kernels of a slot mixer take them

constexpr int kRuns = 64;  // of consecutive tokens, summed side by side
constexpr int kRunSlots = 16;

/// log a of few tokens and z; one thread per slot.
__device__ void log_decays(const Recurrence& a, const Segment& s, int h) {
  const int slot = int(threadIdx.x);
  float z = slot < a.slots ? s.state_in[extra_of(a, h) + slot] : 0.0F;
  chain_wait();
  for (int i = slot; i < a.slots; i += int(blockDim.x)) {
    if (i != slot) z = s.state_in[extra_of(a, h) + i];
    const int at = h * a.gates + i;
    for (int t = 0; t < s.count; ++t) {
      float* const row = a.mixed + std::size_t(s.first + t) * a.at.stride;
      const bool first = s.position + std::uint64_t(t) == 0;
      const float f = clamped(a, gate_logit(a, row, at));
      row[a.at.f + at] = first ? kNothing : log_kept(z, f);
      z = first ? f : log_add(z, f);
    }
    s.state_out[extra_of(a, h) + i] = z;
  }
}

/// q and k of a token mapped and rotated in place; one block per token and head. Blocks (segment, h)
/// of the kv heads after them, if there are any, make the segment's decays.
__global__ void slot_rows_kernel(const __grid_constant__ Recurrence a, const Segment* segments,
                                 int num_segments) {
  extern __shared__ __align__(16) float shared[];
  __shared__ float scratch[32];
  chain_trigger();
  if (int(blockIdx.y) >= a.heads + a.kv_heads) {
    if (int(blockIdx.x) < num_segments)
      log_decays(a, segments[blockIdx.x], int(blockIdx.y) - a.heads - a.kv_heads);
    return;
  }
  const int t = int(blockIdx.x), tid = int(threadIdx.x), step = int(blockDim.x);
  const bool key = int(blockIdx.y) >= a.heads;
  float* const x =
      a.mixed + std::size_t(t) * a.at.stride +
      (key ? a.at.k + (int(blockIdx.y) - a.heads) * a.k_dim : a.at.q + int(blockIdx.y) * a.k_dim);
  float* const from = shared;
  float* const to = from + a.k_dim;
  auto* const table = reinterpret_cast<float2*>(to + (a.k_dim + 3) / 4 * 4);
  if (a.rotary) {
    const Segment& s = segments[segment_of(segments, num_segments, t)];
    fill_turns(a, s.position + std::uint64_t(t - s.first), table);
  }
  chain_wait();
  for (int i = tid; i < a.k_dim; i += step) from[i] = x[i];
  __syncthreads();
  features(a, key ? a.k_map : a.q_map, from, to, nullptr, key ? a.norm_k : a.norm_q, scratch);
  if (a.rotary) {
    rotate(a, to, to, table);
    __syncthreads();
  }
  for (int i = tid; i < a.k_dim; i += step) x[i] = to[i];
}

/// f of every token to log a, in place, and z of the state: 16 slots of a head per block, 64 runs of
/// tokens, each summed by itself before the z it begins with is known.
__global__ void __launch_bounds__(kRuns* kRunSlots)
    log_decays_kernel(const __grid_constant__ Recurrence a, const Segment* segments) {
  __shared__ float sums[kRuns][kRunSlots];
  chain_trigger();
  chain_wait();
  const Segment s = segments[blockIdx.z];
  const int h = int(blockIdx.x);
  const int own = int(threadIdx.x) % kRunSlots, run = int(threadIdx.x) / kRunSlots;
  const int slot = int(blockIdx.y) * kRunSlots + own, at = h * a.gates + slot;
  const bool there = slot < a.slots;
  const int length = (s.count + kRuns - 1) / kRuns;
  const int begin = min(run * length, s.count), end = min(begin + length, s.count);
  const auto row = [&](int t) { return a.mixed + std::size_t(s.first + t) * a.at.stride; };
  float sum = -INFINITY;
  if (there) {
#pragma unroll 4
    for (int t = begin; t < end; ++t) {
      const float f = clamped(a, gate_logit(a, row(t), at));
      sum = t == begin ? f : log_add(sum, f);
    }
  }
  sums[run][own] = sum;
  __syncthreads();
  if (run == 0 && there) {
    float* const state = s.state_out + extra_of(a, h) + slot;
    float z = s.position == 0 ? -INFINITY : s.state_in[extra_of(a, h) + slot];
    for (int r = 0; r * length < s.count; ++r) {
      const float more = sums[r][own];
      sums[r][own] = z;
      z = z == -INFINITY ? more : log_add(z, more);
    }
    *state = z;
  }
  __syncthreads();
  if (!there) return;
  float z = sums[run][own];
#pragma unroll 4
  for (int t = begin; t < end; ++t) {
    float* const at_row = row(t);
    const float f = clamped(a, gate_logit(a, at_row, at));
    at_row[a.at.f + at] = z == -INFINITY ? kNothing : log_kept(z, f);
    z = z == -INFINITY ? f : log_add(z, f);
  }
}

}  // namespace

cudaError_t running_sums(const Launch& l, const Recurrence& a, const Segment* segments,
                         int num_segments) {
  return launch(l, running_sum_kernel, dim3(unsigned(a.kv_heads), unsigned(num_segments)), 64, 0, 1,
                a, segments);
}

cudaError_t running_maxima(const Launch& l, const Recurrence& a, const Segment* segments,
                           int num_segments, int tokens) {
  const dim3 grid(unsigned((tokens + kMaximumTokens - 1) / kMaximumTokens), unsigned(a.kv_heads),
                  unsigned(num_segments));
  return launch(l, running_maximum_kernel, grid, kThreads, 0, 1, a, segments);
}

bool recurrence_is_slots(const Recurrence& a) {
  return a.slots > 0 && a.decay == Decay::running_sum && a.rank == 0 && !a.complement_keys &&
         a.features == a.k_dim && a.columns == a.v_dim && a.map != FeatureMap::exponential &&
         a.q_map.first == nullptr && ((a.layer_offset | a.head_floats) & 3) == 0;
}

cudaError_t recurrence_slot_inputs(const Launch& l, const Recurrence& a, const Segment* segments,
                                   int num_segments, int tokens) {
  const std::size_t shared = std::size_t(3 * a.k_dim + 4) * sizeof(float);
  const bool few = tokens < kRuns;
  const int heads = a.heads + a.kv_heads + (few ? a.kv_heads : 0);
  if (cudaError_t e = launch(l, slot_rows_kernel, dim3(unsigned(tokens), unsigned(heads)), 128,
                             shared, 1, a, segments, num_segments);
      e != cudaSuccess || few) {
    return e;
  }
  const dim3 grid(unsigned(a.kv_heads), unsigned((a.slots + kRunSlots - 1) / kRunSlots),
                  unsigned(num_segments));
  return launch(l, log_decays_kernel, grid, kRuns * kRunSlots, 0, 1, a, segments);
}

}  // namespace runnel::cuda
