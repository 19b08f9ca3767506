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

/// What a block works on, and its places in shared memory.
struct StepBlock {
  int tid, head, queries, width;  // width: of a key as projected
  int first_column;
  int gate, gates;  // this block's: the first, of all heads, and how many
  float *key, *fade, *query, *raw, *values, *shrink, *partial, *scratch;
  float2* turns;
};

/// What no token brings: zeros, -infinity behind what features are made of, the column that takes in 1.
template <int kRows>
__device__ __forceinline__ void fill_places(const Recurrence& a, const StepBlock& b) {
#pragma unroll 1
  for (int i = b.tid; i < (2 + b.queries) * kRows; i += kThreads)
    b.key[i] = 0.0F;  // fade, query behind it
  if (b.tid < (1 + b.queries) * (b.width - a.k_dim))
    b.raw[b.tid / (b.width - a.k_dim) * b.width + a.k_dim + b.tid % (b.width - a.k_dim)] =
        -INFINITY;
  if (b.tid < kColumns) {
    b.values[b.tid] = a.normalizer && b.first_column + b.tid == a.v_dim ? 1.0F : 0.0F;
    b.shrink[b.tid] = 0.0F;
  }
}

/// A token's k, q, v and gates as projected, in the background.
__device__ __forceinline__ void bring_token(const Recurrence& a, const StepLayout& at,
                                            const StepBlock& b, float* shared, const float* row) {
  if (!a.complement_keys) bring(b.raw, row + a.at.k + b.head * a.k_dim, a.k_dim);
#pragma unroll 1
  for (int g = 0; g < b.queries; ++g)
    bring(b.raw + (1 + g) * b.width, row + a.at.q + (b.head * b.queries + g) * a.k_dim, a.k_dim);
  bring(b.values, row + a.at.v + b.head * a.v_dim + b.first_column,
        min(kColumns, a.v_dim - b.first_column));
  if (a.rank > 0) {
    bring(shared + at.low, row + a.at.low, a.rank);
  } else if (a.at.f >= 0) {
    bring(shared + at.f, row + a.at.f + b.gate, b.gates);
  }
  if (a.r_bias != nullptr) bring(shared + at.r, row + a.at.r + b.gate, b.gates);
  __pipeline_commit();
}

/// Whether token n of the pass has none before it.
__device__ __forceinline__ bool is_first(const Segment& s, int n) {
  return s.position + std::uint64_t(n) == 0;
}

/// The token's decays, times `less`.
template <Fade kFade>
__device__ __forceinline__ void make_decays(const Recurrence& a, const StepBlock& b,
                                            const Gates& own, float less) {
  if (kFade == Fade::rows) {
#pragma unroll 1
    for (int i = b.tid; i < a.decays; i += kThreads) {
      if (a.decay == Decay::fixed) {
        b.fade[i] = fixed_decay(b.head) * less;
      } else {
        const Faded f = faded(a, own, i);
        b.fade[i] = f.decay * less;
        if (a.complement_keys) b.key[i] = f.key;
      }
    }
  }
  if (kFade == Fade::columns && b.tid < b.gates)
    b.shrink[b.tid] = faded(a, own, b.tid).decay * less;
}

/// Features by maps of single channels, two of a rotation at a time.
template <int kRows>
__device__ __forceinline__ void make_pairs(const Recurrence& a, const StepBlock& b) {
  const int half = a.k_dim / 2;
#pragma unroll 1
  for (int i = b.tid + (a.complement_keys ? half : 0); i < (1 + b.queries) * half; i += kThreads) {
    const int r = i / half, c = i - r * half;
    float low = mapped(a.map, b.raw[r * b.width + c]);
    float high = mapped(a.map, b.raw[r * b.width + half + c]);
    if (a.rotary) {
      const float2 turn = b.turns[c];
      const float turned = low * turn.x - high * turn.y;
      high = high * turn.x + low * turn.y;
      low = turned;
    }
    float* const to = r == 0 ? b.key : b.query + (r - 1) * kRows;
    to[c] = low, to[half + c] = high;
  }
}

/// Features by any map, row by row, with the whole block.
template <int kRows, Fade kFade>
__device__ __forceinline__ void make_features(const Recurrence& a, const StepBlock& b,
                                              const Segment& s, int n, bool exponential, float& m) {
#pragma unroll 1
  for (int r = a.complement_keys ? 1 : 0; r <= b.queries; ++r) {
    float* const to = r == 0 ? b.key : b.query + (r - 1) * kRows;
    features(a, r == 0 ? a.k_map : a.q_map, b.raw + r * b.width, to, nullptr,
             r == 0 ? a.norm_k : a.norm_q, b.scratch);
    if (a.rotary) {
      rotate(a, to, to, b.turns);
      __syncthreads();
    }
    if (!exponential) continue;
    if (r > 0) {
      exponentials(to, a.features, b.scratch);
      continue;
    }
    float largest = -INFINITY;
#pragma unroll 1
    for (int i = b.tid; i < a.features; i += kThreads) largest = fmaxf(largest, to[i]);
    largest = block_max(largest, b.scratch);
    const bool fresh = is_first(s, n);
    const float now = fresh ? largest : fmaxf(m, largest);
    const float less = fresh ? 0.0F : expf(m - now);
    m = now;
#pragma unroll 1
    for (int i = b.tid; i < a.features; i += kThreads) to[i] = expf(to[i] - now);
    if (kFade == Fade::rows) {
#pragma unroll 1
      for (int i = b.tid; i < a.decays; i += kThreads) b.fade[i] *= less;
    }
    if (kFade == Fade::columns && b.tid < kColumns) b.shrink[b.tid] *= less;
  }
}

/// Outputs of token t, from the warps' parts.
__device__ __forceinline__ void put_outputs(const Recurrence& a, const CorePass& p,
                                            const StepBlock& b, std::size_t t) {
#pragma unroll 1
  for (int i = b.tid; i < b.queries * kColumns; i += kThreads) {
    const int g = i / kColumns, c = b.first_column + i % kColumns;
    if (c >= p.columns) continue;
    p.out[(t * a.heads + b.head * b.queries + g) * p.columns + c] =
        add_parts(b.partial + g * kWarps * kColumns, i % kColumns) * p.scale;
  }
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
  const int first_column = int(blockIdx.x) * kColumns;
  const int first = kFade == Fade::columns ? first_column : 0;
  const int gates =
      kFade == Fade::columns ? max(0, min(kColumns, a.decays - first_column)) : a.gates;
  const int gate = head * a.gates + first;
  // For functions; with its names here as well the compiler makes other instructions.
  const StepBlock b{tid,  head,  queries, width,  first_column, gate,    gates,   key,
                    fade, query, raw,     values, shrink,       partial, scratch, table};
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
  fill_places<kRows>(a, b);
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
    bring_token(a, at, b, shared, a.mixed + t * a.at.stride);
    if (n > 0 && a.rotary) fill_turns(a, s.position + std::uint64_t(n), table);
    __pipeline_wait_prior(0);
    __syncthreads();
    if (n == 0 && exponential) m = state_most;
    float less = 1.0F, most = 0.0F;
    if (exponential && plain) {
      most = largest_of(raw, width);
      const bool fresh = is_first(s, n);
      const float now = fresh ? most : fmaxf(m, most);
      less = fresh ? 0.0F : expf(m - now);
      m = most = now;
    }
    make_decays<kFade>(a, b, own, less);
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
      make_pairs<kRows>(a, b);
    } else {
      make_features<kRows, kFade>(a, b, s, n, exponential, m);
    }
    __syncthreads();
    part.take(key, fade, values, shrink);
    // On its way while the sums are.
    if (n + 1 == s.count) part.store(p, s.state_out);
#pragma unroll 1
    for (int g = 0; g < queries; ++g) part.read(query + g * kRows, partial + g * kWarps * kColumns);
    __syncthreads();
    put_outputs(a, p, b, t);
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
