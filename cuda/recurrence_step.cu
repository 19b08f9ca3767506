// SPDX-License-Identifier: Apache-2.0
// The gated recurrence of few tokens: each block makes the features and decays of a token itself,
// and has read its state before the projections are there. Bound of one token: latency, and that of
// the code itself: what runs once is fetched from L2, so loops are short and not unrolled, and all
// that a token needs comes in one trip to shared memory.
#include <cuda_pipeline.h>

#include "cuda/device/ops/recurrence_core.cuh"

namespace runnel::cuda {
namespace {

/// Where in shared memory a step has what, in floats. `gates`: those that a block needs, all of a
/// head or of its columns.
struct StepLayout {
  int width, gates;  // of a key as projected; rounded up to 16 bytes
  int key, fade, query, raw, turns, values, shrink, partial;
  int f, r, low, f_bias, r_bias, bound, up, up_stride, total;
  bool up_here;
  StepLayout(const Recurrence& a, int rows) {
    const int queries = a.heads / a.kv_heads;
    int at = 0;
    const auto take = [&at](bool there, int n) {
      const int here = at;
      at += there ? (n + 3) / 4 * 4 : 0;
      return here;
    };
    width = (a.k_dim + 3) / 4 * 4;
    gates = a.decay_on_values ? kColumns : a.gates;
    key = take(true, rows);
    fade = take(true, rows);
    query = take(true, queries * rows);       // [G][rows]
    raw = take(true, (1 + queries) * width);  // k and q as projected
    turns = take(a.rotary, width);            // float2 [K/2]
    values = take(true, kColumns);
    shrink = take(true, kColumns);
    partial = take(true, queries * kWarps * kColumns);
    f = take(a.rank == 0, gates);
    r = take(a.r_bias != nullptr, gates);
    low = take(a.rank > 0, a.rank);
    f_bias = take(a.f_bias != nullptr, gates);
    r_bias = take(a.r_bias != nullptr, gates);
    bound = take(a.lower_bound != nullptr, gates);
    up = at;
    up_stride = a.rank % 4 == 0 ? a.rank + 4 : a.rank;  // rows in different banks
    up_here = a.rank > 0 && at + gates * up_stride <= kSharedFloats;
    total = at + (up_here ? gates * up_stride : 0);
  }
};

/// n numbers to shared memory, 16 bytes at a time where both are aligned; with the whole block.
__device__ __forceinline__ void bring(float* to, const float* from, int n) {
  const bool pieces = ((std::size_t(n) * 4 | reinterpret_cast<std::uintptr_t>(from)) & 15) == 0;
  const int each = pieces ? 4 : 1;
#pragma unroll 1
  for (int i = int(threadIdx.x) * each; i < n; i += kThreads * each) {
    if (pieces) {
      __pipeline_memcpy_async(to + i, from + i, 16);
    } else {
      __pipeline_memcpy_async(to + i, from + i, 4);
    }
  }
}

/// The largest of [n], rounded up to 16 bytes; every warp finds it for itself.
__device__ __forceinline__ float largest_of(const float* x, int n) {
  float largest = -INFINITY;
#pragma unroll 1
  for (int i = int(threadIdx.x) % 32 * 4; i < n; i += 128) {
    const float4 v = *reinterpret_cast<const float4*>(x + i);
    largest = fmaxf(largest, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  }
  return warp_max(largest);
}

/// Few tokens: features, rotations and decays by each block for itself.
template <int R, Fade kFade>
__global__ void __launch_bounds__(kThreads)
    step_kernel(const __grid_constant__ Recurrence a, const __grid_constant__ CorePass p,
                const __grid_constant__ StepLayout at, const Segment* segments) {
  extern __shared__ __align__(16) float shared[];
  __shared__ float scratch[32], state_most;
  constexpr int kRows = R * kGroups;
  chain_trigger();
  const int tid = int(threadIdx.x), head = int(blockIdx.y), queries = a.heads / a.kv_heads;
  const int width = at.width;
  float* const key = shared + at.key;
  float* const fade = shared + at.fade;
  float* const query = shared + at.query;
  float* const raw = shared + at.raw;
  float* const values = shared + at.values;
  float* const shrink = shared + at.shrink;
  float* const partial = shared + at.partial;
  auto* const table = reinterpret_cast<float2*>(shared + at.turns);
  const Segment s = segments[blockIdx.z];
  Part<R, kFade> part;
  part.load(p, s.state_in);
  const bool exponential = a.map == FeatureMap::exponential;
  // The block that is the last to have read m may write it: the count is of this layer alone, and
  // the pass before is over.
  bool writes_m = false;
  if (exponential && tid == 0) {
    state_most = s.state_in[extra_of(a, head)];
    __threadfence();
    int* const arrived = a.arrived + int(blockIdx.z) * a.kv_heads + head;
    writes_m = atomicAdd(arrived, 1) + 1 == int(gridDim.x);
    if (writes_m) *arrived = 0;
  }
  // Gates of this block, [head * F + first …).
  const int first_column = int(blockIdx.x) * kColumns;
  const int first = kFade == Fade::columns ? first_column : 0;
  const int gates =
      kFade == Fade::columns ? max(0, min(kColumns, a.decays - first_column)) : a.gates;
  const int gate = head * a.gates + first;
  if (a.f_bias != nullptr) bring(shared + at.f_bias, a.f_bias + gate, gates);
  if (a.r_bias != nullptr) bring(shared + at.r_bias, a.r_bias + gate, gates);
  if (a.lower_bound != nullptr) bring(shared + at.bound, a.lower_bound + gate, gates);
  if (at.up_here) {
    const float* const up = a.f_up + std::size_t(gate) * a.rank;
    const int each = (a.rank & 3) == 0 ? 4 : 1, rank = a.rank / each;
#pragma unroll 1
    for (int i = tid; i < gates * rank; i += kThreads) {
      const int row = i / rank, c = (i - row * rank) * each;
      float* const to = shared + at.up + row * at.up_stride + c;
      if (each == 4) {
        __pipeline_memcpy_async(to, up + i * 4, 16);
      } else {
        __pipeline_memcpy_async(to, up + i, 4);
      }
    }
  }
  if (a.rotary) fill_turns(a, s.position, table);
#pragma unroll 1
  for (int i = tid; i < (2 + queries) * kRows; i += kThreads)
    key[i] = 0.0F;  // fade, query behind it
  if (tid < (1 + queries) * (width - a.k_dim))
    raw[tid / (width - a.k_dim) * width + a.k_dim + tid % (width - a.k_dim)] = -INFINITY;
  if (tid < kColumns) {
    values[tid] = a.normalizer && first_column + tid == a.v_dim ? 1.0F : 0.0F;
    shrink[tid] = 0.0F;
  }
  Gates own{.f = shared + at.f,
            .low = shared + at.low,
            .up = at.up_here ? shared + at.up : a.f_up + std::size_t(gate) * a.rank,
            .up_stride = at.up_here ? at.up_stride : a.rank,
            .r = shared + at.r,
            .f_bias = a.f_bias != nullptr ? shared + at.f_bias : nullptr,
            .r_bias = shared + at.r_bias,
            .lower_bound = a.lower_bound != nullptr ? shared + at.bound : nullptr};
  // Maps that take two channels of a rotation, or none, at a time.
  const bool plain =
      (a.map == FeatureMap::identity || a.map == FeatureMap::swish || a.map == FeatureMap::relu ||
       a.map == FeatureMap::elu || (exponential && !a.rotary)) &&
      !a.norm_q && !a.norm_k && (a.k_dim & 1) == 0;
  __syncthreads();  // before copies to the same places
  chain_wait();
  float m = 0.0F;
#pragma unroll 1
  for (int n = 0; n < s.count; ++n) {
    const std::size_t t = std::size_t(s.first + n);
    const float* const row = a.mixed + t * a.at.stride;
    if (!a.complement_keys) bring(raw, row + a.at.k + head * a.k_dim, a.k_dim);
#pragma unroll 1
    for (int g = 0; g < queries; ++g)
      bring(raw + (1 + g) * width, row + a.at.q + (head * queries + g) * a.k_dim, a.k_dim);
    bring(values, row + a.at.v + head * a.v_dim + first_column,
          min(kColumns, a.v_dim - first_column));
    if (a.rank > 0) {
      bring(shared + at.low, row + a.at.low, a.rank);
    } else if (a.at.f >= 0) {
      bring(shared + at.f, row + a.at.f + gate, gates);
    }
    if (a.r_bias != nullptr) bring(shared + at.r, row + a.at.r + gate, gates);
    __pipeline_commit();
    if (n > 0 && a.rotary) fill_turns(a, s.position + std::uint64_t(n), table);
    __pipeline_wait_prior(0);
    __syncthreads();
    if (n == 0 && exponential) m = state_most;
    float less = 1.0F, most = 0.0F;
    if (exponential && plain) {
      most = largest_of(raw, width);
      const bool fresh = s.position + std::uint64_t(n) == 0;
      const float now = fresh ? most : fmaxf(m, most);
      less = fresh ? 0.0F : expf(m - now);
      m = most = now;
    }
    if (kFade == Fade::rows) {
#pragma unroll 1
      for (int i = tid; i < a.decays; i += kThreads) {
        if (a.decay == Decay::fixed) {
          fade[i] = fixed_decay(head) * less;
        } else {
          const Faded f = faded(a, own, i);
          fade[i] = f.decay * less;
          if (a.complement_keys) key[i] = f.key;
        }
      }
    }
    if (kFade == Fade::columns && tid < gates) shrink[tid] = faded(a, own, tid).decay * less;
    if (plain && exponential) {
#pragma unroll 1
      for (int r = 0; r <= queries; ++r) {
        const float* const x = raw + r * width;
        if (r > 0) most = largest_of(x, width);
        float* const to = r == 0 ? key : query + (r - 1) * kRows;
#pragma unroll 1
        for (int i = tid; i < a.k_dim; i += kThreads) to[i] = expf(x[i] - most);
      }
    } else if (plain) {
      const int half = a.k_dim / 2;
#pragma unroll 1
      for (int i = tid + (a.complement_keys ? half : 0); i < (1 + queries) * half; i += kThreads) {
        const int r = i / half, c = i - r * half;
        float low = mapped(a.map, raw[r * width + c]);
        float high = mapped(a.map, raw[r * width + half + c]);
        if (a.rotary) {
          const float2 turn = table[c];
          const float turned = low * turn.x - high * turn.y;
          high = high * turn.x + low * turn.y;
          low = turned;
        }
        float* const to = r == 0 ? key : query + (r - 1) * kRows;
        to[c] = low, to[half + c] = high;
      }
    } else {
#pragma unroll 1
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
#pragma unroll 1
        for (int i = tid; i < a.features; i += kThreads) largest = fmaxf(largest, to[i]);
        largest = block_max(largest, scratch);
        const bool fresh = s.position + std::uint64_t(n) == 0;
        const float now = fresh ? largest : fmaxf(m, largest);
        less = fresh ? 0.0F : expf(m - now);
        m = now;
#pragma unroll 1
        for (int i = tid; i < a.features; i += kThreads) to[i] = expf(to[i] - now);
        if (kFade == Fade::rows) {
#pragma unroll 1
          for (int i = tid; i < a.decays; i += kThreads) fade[i] *= less;
        }
        if (kFade == Fade::columns && tid < kColumns) shrink[tid] *= less;
      }
    }
    __syncthreads();
    part.take(key, fade, values, shrink);
    // On its way while the sums are.
    if (n + 1 == s.count) part.store(p, s.state_out);
#pragma unroll 1
    for (int g = 0; g < queries; ++g) part.read(query + g * kRows, partial + g * kWarps * kColumns);
    __syncthreads();
#pragma unroll 1
    for (int i = tid; i < queries * kColumns; i += kThreads) {
      const int g = i / kColumns, c = first_column + i % kColumns;
      if (c >= p.columns) continue;
      p.out[(t * a.heads + head * queries + g) * p.columns + c] =
          add_parts(partial + g * kWarps * kColumns, i % kColumns) * p.scale;
    }
  }
  if (writes_m) s.state_out[extra_of(a, head)] = m;
}

template <int R>
cudaError_t run_step(const Launch& l, const Recurrence& a, const Segment* segments,
                     int num_segments) {
  const CorePass p = values_of(a);
  const dim3 grid(unsigned((p.columns + kColumns - 1) / kColumns), unsigned(a.kv_heads),
                  unsigned(num_segments));
  const StepLayout at(a, R * kGroups);
  const std::size_t bytes = std::size_t(at.total) * sizeof(float);
  switch (fade_of(a)) {
    case Fade::none:
      return launch(l, step_kernel<R, Fade::none>, grid, kThreads, bytes, 1, a, p, at, segments);
    case Fade::rows:
      return launch(l, step_kernel<R, Fade::rows>, grid, kThreads, bytes, 1, a, p, at, segments);
    case Fade::columns:
      return launch(l, step_kernel<R, Fade::columns>, grid, kThreads, bytes, 1, a, p, at, segments);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

bool recurrence_step_fits(const Recurrence& a) {
  return a.slots == 0 && a.q_map.first == nullptr && a.features <= kMostRows &&
         StepLayout(a, rows_held(a.features) * kGroups).total <= kSharedFloats;
}

cudaError_t recurrence_step(const Launch& l, const Recurrence& a, const Segment* segments,
                            int num_segments) {
  switch (rows_held(a.features)) {
    case 1:
      return run_step<1>(l, a, segments, num_segments);
    case 2:
      return run_step<2>(l, a, segments, num_segments);
    case 4:
      return run_step<4>(l, a, segments, num_segments);
    case 8:
      return run_step<8>(l, a, segments, num_segments);
    default:
      return run_step<16>(l, a, segments, num_segments);
  }
}

}  // namespace runnel::cuda
