// SPDX-License-Identifier: Apache-2.0
// The gated recurrence of few tokens: each block makes the features and decays of a token itself,
// and has read its state before the projections are there. Bound of one token: the bytes of the
// state, far below the latency of what lies before it.
#include "cuda/device/recurrence_core.cuh"

namespace runnel::cuda {
namespace {

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

template <int R>
cudaError_t run_step(const Launch& l, const Recurrence& a, const Segment* segments,
                     int num_segments) {
  const CorePass p = values_of(a);
  const int queries = a.heads / a.kv_heads;
  const dim3 grid(unsigned((p.columns + kColumns - 1) / kColumns), unsigned(a.kv_heads),
                  unsigned(num_segments));
  const std::size_t bytes = std::size_t(step_floats(R * kGroups, a.k_dim, queries)) * sizeof(float);
  switch (fade_of(a)) {
    case Fade::none:
      return launch(l, step_kernel<R, Fade::none>, grid, kThreads, bytes, 1, a, p, segments);
    case Fade::rows:
      return launch(l, step_kernel<R, Fade::rows>, grid, kThreads, bytes, 1, a, p, segments);
    case Fade::columns:
      return launch(l, step_kernel<R, Fade::columns>, grid, kThreads, bytes, 1, a, p, segments);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

bool recurrence_step_fits(const Recurrence& a) {
  return a.slots == 0 && a.q_map.first == nullptr && a.features <= kMostRows &&
         step_floats(rows_held(a.features) * kGroups, a.k_dim, a.heads / a.kv_heads) <=
             kSharedFloats;
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
