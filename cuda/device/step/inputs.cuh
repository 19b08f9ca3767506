// SPDX-License-Identifier: Apache-2.0
// The inputs of the decode kernel's products: taken from the exchange, joined from the slots, rounded.
#pragma once

#include "cuda/device/packed.cuh"
#include "cuda/device/step/exchange.cuh"

namespace runnel::cuda {

/// Vectors of four of the input, the thread's own of each round: kept for the products, as the
/// types of the phase need them. All lanes of a warp must call. What `squared` points to becomes its
/// sum over the warp.
template <int kRounds>
__device__ __forceinline__ void keep_input(const SharedInput& to, bool blocks, bool plain, int tid,
                                           int vectors, const float4 (&v)[kRounds],
                                           float* squared = nullptr) {
  if (plain) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = r * kDecodeThreads + tid;
      if (i < vectors) ((i & 1) != 0 ? to.f_high : to.f_low)[i >> 1] = v[r];
    }
  }
  if (!blocks) {
    if (squared != nullptr) *squared = warp_sum(*squared);
    return;
  }
  float peak[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r)
    peak[r] = fmaxf(fmaxf(fabsf(v[r].x), fabsf(v[r].y)), fmaxf(fabsf(v[r].z), fabsf(v[r].w)));
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) peak[r] = fmaxf(peak[r], __shfl_xor_sync(~0U, peak[r], o));
    if (squared != nullptr) *squared += __shfl_xor_sync(~0U, *squared, o);
  }
  int total[kRounds], packed[kRounds], other[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const float inverse = peak[r] > 0.0F ? __fdividef(127.0F, peak[r]) : 0.0F;
    const int a = __float2int_rn(v[r].x * inverse), b = __float2int_rn(v[r].y * inverse),
              c = __float2int_rn(v[r].z * inverse), d = __float2int_rn(v[r].w * inverse);
    total[r] = a + b + c + d;
    packed[r] = (a & 255) | (b & 255) << 8 | (c & 255) << 16 | (d & 255) << 24;
  }
#pragma unroll
  for (int o = 1; o < 4; o <<= 1) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) total[r] += __shfl_xor_sync(~0U, total[r], o);
    if (squared != nullptr) *squared += __shfl_xor_sync(~0U, *squared, 8 * o);
  }
#pragma unroll
  for (int r = 0; r < kRounds; ++r) other[r] = __shfl_xor_sync(~0U, total[r], 4);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kDecodeThreads + tid;
    if (i < vectors) {
      int4* half = (i & 4) != 0 ? to.q_high : to.q_low;
      reinterpret_cast<int*>(half)[(i >> 3) * 4 + (i & 3)] = packed[r];
      if ((i & 7) == 0)
        to.meta[i >> 3] = make_int2(__float_as_int(peak[r] * (1.0F / 127.0F)),
                                    (total[r] & 0xFFFF) | (other[r] << 16));
    }
  }
}

/// The read of vector i of the mixer's output, joined from the splits.
__device__ __forceinline__ float4 join_splits(const Decode& p, Waiter& wait, const float* parts,
                                              int i) {
  const int head = i >> p.value_shift, column = (i & ((1 << p.value_shift) - 1)) * 4;
  const int stride = p.v_dim + 4;
  const float* from = parts + std::size_t(head) * unsigned(p.splits * stride);
  float peak = -1e30F, total = 0.0F;
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 1
  for (int first = 0; first < p.splits; first += 4) {
    float4 o[4];
    float2 about[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* part = from + min(first + j, p.splits - 1) * stride;
      about[j] = load_exchanged_pair(part);
      o[j] = load_exchanged(part + 4 + column);
    }
    float higher = peak;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* part = from + min(first + j, p.splits - 1) * stride;
      about[j] = wait.finish_pair(part, about[j], 2);
      o[j] = wait.finish(part + 4 + column, o[j], 2);
      higher = fmaxf(higher, about[j].x);
    }
    const float old = __expf(peak - higher);
    sum = scaled(sum, old), total *= old;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float mine = first + j < p.splits ? __expf(about[j].x - higher) : 0.0F;
      sum = plus_scaled(sum, o[j], mine);
      total = fmaf(about[j].y, mine, total);
    }
    peak = higher;
  }
  return scaled(sum, __fdividef(1.0F, total));
}

/// The places of an input of n values in shared memory.
template <class Program>
__device__ __forceinline__ SharedInput input_places(const Program& p, int n) {
  SharedInput x;
  x.q_low = shared_at<int4>(p.shared.rounded);
  x.q_high = x.q_low + n / 32;
  x.meta = reinterpret_cast<int2*>(x.q_high + n / 32);
  x.f_low = shared_at<float4>(p.shared.plain);
  x.f_high = x.f_low + n / 8;
  return x;
}

/// Two sets: a warp may come to the next phase while another still reads.
__device__ __forceinline__ float* squares_of(const Decode& p, int phase) {
  return shared_at<float>(p.shared.squares) + (phase & 1) * kDecodeWarps;
}

/// The input of the output projection, from what the slots found.
__device__ __forceinline__ void join_input(int phase) {
  const Decode& p = program<0>(phase);
  const int layer = phase >> 2, tid = thread_index() + hidden_zero<0>(phase);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  const unsigned use = p.use + unsigned(layer);
  Waiter wait{p, ((use >> 1) & 1U) ^ 1U};
  const float* parts =
      p.exchange + std::size_t(use & 1U) * unsigned(p.at.total) + own_copy(p) + p.at.parts;
  const int n = p.heads * p.v_dim, vectors = n / 4, forms = w.forms >> 2;
  const SharedInput input = input_places(p, n);
  float squared = 0.0F;
#pragma unroll 1
  for (int first = 0; first < vectors; first += kDecodeThreads) {
    const int i = first + tid;
    {  // a long wait: polls of all threads would delay the stores
      if ((tid & 31) == 0 && i < vectors) {
        const float* part =
            parts + ((i >> p.value_shift) * p.splits + (tid >> 5) % p.splits) * (p.v_dim + 4);
        wait.finish_pair(part, load_exchanged_pair(part), 3);
      }
      sync_warp();
    }
    float4 v[1] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F)};
    if (i < vectors) {
      float4 weight = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
      if (w.norms[1] != nullptr) weight = reinterpret_cast<const float4*>(w.norms[1])[i];
      v[0] = activate4(p.o_act, join_splits(p, wait, parts, i));
      squared = sum_squares(v[0], squared);
      v[0] = times(v[0], weight);
    }
    keep_input<1>(input, (forms & kFormRounded) != 0, (forms & kFormPlain) != 0, i, vectors, v);
  }
  squared = warp_sum(squared);
  if ((tid & 31) == 0) squares_of(p, phase)[tid >> 5] = squared;
}

/// The input of every product whose values are exchanged one by one: from the exchange, or the
/// embedding, which is in x already. kColumns: of the input, 0: known at run time.
template <int kRounds, int kColumns>
__device__ __forceinline__ void take_input(int phase, int tid, bool in_layers) {
  const Decode& p = program<1>(phase);
  const int layer = phase >> 2;
  const bool head = layer == p.num_layers;
  const int kind = head ? 4 : phase & 3;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[layer];
  const float* norm = w.norms[kind];
  const int n = kColumns > 0 ? kColumns : p.widths[kind], vectors = n / 4,
            forms = w.forms >> (2 * kind);
  const bool rounded = (forms & kFormRounded) != 0, plain = (forms & kFormPlain) != 0;
  const SharedInput input = input_places(p, n);
  float4* const x = shared_at<float4>(p.shared.x);
  // Phase 0 of a layer reads what the layer before left, in its set.
  const unsigned use = p.use + unsigned(layer) - (kind == 0 ? 1U : 0U);
  const float* from =
      p.exchange + p.in_at[kind] +
      (head ? std::size_t(0) : std::size_t(use & 1U) * unsigned(p.at.total) + own_copy(p)) +
      4 * tid;
  Waiter wait{p, head ? p.final_bit : ((use >> 1) & 1U) ^ 1U};
  float4 v[kRounds], weight[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    // Else the registers would be kept for it all around the loop of phases.
    v[r] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    weight[r] = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
  }
  if (norm != nullptr) {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = r * kDecodeThreads + tid;
      if (i < vectors) weight[r] = reinterpret_cast<const float4*>(norm)[i];
    }
  }
  if (phase > 0 || !in_layers) {
    unsigned polls = 0;
    if (!in_layers) {  // a long wait with no other work: poll rarely
#pragma unroll 1
      while (tid < vectors && !wait.here(load_exchanged(from)) && !wait.given_up(polls, 16 + kind))
        pause(200);
    } else if (p.poll == 0) {
      if ((tid & 31) == 0 && tid < vectors) wait.read(from, 16 + kind);
      sync_warp();
    }
#pragma unroll 1
    for (;;) {
      unsigned missing = 0;
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        if (r * kDecodeThreads + tid < vectors)
          v[r] = load_exchanged(from + 4 * r * kDecodeThreads);
      }
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        if (r * kDecodeThreads + tid < vectors) missing |= wait.missing(v[r]);
      }
      if (!wait.some_missing(missing) || wait.given_up(polls, 16 + kind)) break;
    }
    sync_warp();
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = r * kDecodeThreads + tid;
      v[r] = unmarked(v[r]);
      if ((kind == 0 || kind == 2) && i < vectors) x[i] = v[r];
    }
  } else {
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      if (r * kDecodeThreads + tid < vectors) v[r] = x[r * kDecodeThreads + tid];
    }
  }
  float squared = 0.0F;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    squared = sum_squares(v[r], squared);
    v[r] = times(v[r], weight[r]);
  }
  keep_input<kRounds>(input, rounded, plain, tid, vectors, v, &squared);
  if ((tid & 31) == 0) squares_of(p, phase)[tid >> 5] = squared;
}

/// What the sums of a phase are multiplied by: 1 / RMS of its input.
__device__ __forceinline__ float norm_factor(const Decode& p, int phase, int kind) {
  if (kind == 1 ? p.output_norm == 0 : kind == 3) return 1.0F;
  const auto* squares = reinterpret_cast<const float4*>(squares_of(p, phase));
  float sums[kDecodeWarps / 4];
#pragma unroll
  for (int i = 0; i < kDecodeWarps / 4; ++i) {
    const float4 s = squares[i];
    sums[i] = (s.x + s.y) + (s.z + s.w);
  }
  const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return rsqrtf(fmaf(sum, p.inverse_widths[kind], kind == 1 ? p.g_norm_eps : p.norm_eps));
}
static_assert(kDecodeWarps == 16);

}  // namespace runnel::cuda
