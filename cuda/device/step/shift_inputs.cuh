// SPDX-License-Identifier: Apache-2.0
// What the phases of the kernel of cuda/step_shift.h multiply: norms, shifts and lerps, and what other blocks show.
#pragma once

#include "cuda/device/step/dot.cuh"
#include "cuda/device/step/inputs.cuh"
#include "cuda/device/step/shift_exchange.cuh"

namespace runnel::cuda {

static_assert(kShiftThreads == kDecodeThreads);  // keep_input() is of so many threads

/// The places of input `index` of a phase, of n values.
__device__ __forceinline__ SharedInput shift_input(const ShiftStep& p, int kind, int index, int n) {
  const int at = p.shared.inputs + index * p.input_bytes[kind];
  SharedInput x;
  x.q_low = shared_at<int4>(at);
  x.q_high = x.q_low + n / 32;
  x.meta = reinterpret_cast<int2*>(x.q_high + n / 32);
  x.f_low = shared_at<float4>(at + p.plain_at[kind]);
  x.f_high = x.f_low + n / 8;
  return x;
}

__device__ __forceinline__ float4 vector_at(const float* p, int i, float otherwise) {
  return p != nullptr ? reinterpret_cast<const float4*>(p)[i]
                      : make_float4(otherwise, otherwise, otherwise, otherwise);
}

/// x <- norm(x) of D channels, vectors i = r * threads + tid of a thread; all threads of the block. `which` alternates.
template <int kRounds>
__device__ __forceinline__ void norm_vectors(float4 (&x)[kRounds], const float4 (&weight)[kRounds],
                                             const float4 (&bias)[kRounds], bool centred, float eps,
                                             int tid, int which) {
  const ShiftStep& p = shift_program();
  // A warp's own mean and sum of squares around it, then, a lane for each warp, those of all.
  const int vectors = p.d / 4, lane = tid & 31;
  const auto count_of = [vectors](int w) {
    int n = 0;
#pragma unroll
    for (int r = 0; r < kRounds; ++r) n += max(0, min(32, vectors - r * kShiftThreads - 32 * w));
    return static_cast<float>(4 * n);
  };
  // Around the warp's first value, so that nothing cancels where the mean is large.
  const float pivot = centred ? __shfl_sync(~0U, x[0].x, 0) : 0.0F;
  float sum = 0.0F, squares = 0.0F;
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    if (r * kShiftThreads + tid >= vectors) continue;
    const float4 v = make_float4(x[r].x - pivot, x[r].y - pivot, x[r].z - pivot, x[r].w - pivot);
    sum += (v.x + v.y) + (v.z + v.w);
    squares = sum_squares(v, squares);
  }
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    sum += __shfl_xor_sync(~0U, sum, o);
    squares += __shfl_xor_sync(~0U, squares, o);
  }
  float mean = 0.0F;
  if (centred) {
    const float away = sum * reciprocal(fmaxf(count_of(tid >> 5), 1.0F));
    squares = fmaxf(fmaf(-away, sum, squares), 0.0F), mean = pivot + away;
  }
  auto* const sums = shared_at<float2>(p.shared.sums) + which * kShiftWarps;
  if (lane == 0) sums[tid >> 5] = make_float2(mean, squares);
  sync_first<kShiftThreads>();
  const float2 own = sums[lane & (kShiftWarps - 1)];
  const float count = count_of(lane & (kShiftWarps - 1)), by = 1.0F / static_cast<float>(p.d);
  float total = own.x * count;
#pragma unroll
  for (int o = 1; o < kShiftWarps; o <<= 1) total += __shfl_xor_sync(~0U, total, o);
  const float centre = total * by, away = own.x - centre;
  float all = fmaf(away * away, count, own.y);
#pragma unroll
  for (int o = 1; o < kShiftWarps; o <<= 1) all += __shfl_xor_sync(~0U, all, o);
  const float factor = rsqrtf(fmaf(all, by, eps));
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    x[r] = make_float4(fmaf((x[r].x - centre) * factor, weight[r].x, bias[r].x),
                       fmaf((x[r].y - centre) * factor, weight[r].y, bias[r].y),
                       fmaf((x[r].z - centre) * factor, weight[r].z, bias[r].z),
                       fmaf((x[r].w - centre) * factor, weight[r].w, bias[r].w));
  }
}

/// The residual stream of a phase's beginning: of the layer or of its channel mix, or the embedding.
template <int kRounds>
__device__ __forceinline__ void take_stream(const ShiftStep& p, const float* from, ShiftWait wait,
                                            float4 (&x)[kRounds], int half, int tid, int where) {
  const float* places[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    x[r] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    places[r] = i < p.d / 4 ? from + 4 * i : nullptr;
  }
  wait.take(places, x, where);
  float4* const kept = shared_at<float4>(p.shared.x) + half * (p.d / 4);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    if (r * kShiftThreads + tid < p.d / 4) kept[r * kShiftThreads + tid] = x[r];
  }
}

/// Norm, shift and lerps: `project` and `up`.
template <int kRounds>
__device__ __forceinline__ void shift_inputs(const ShiftStep& p, int phase, int cta, int tid) {
  const int layer = phase / kShiftPhases, kind = phase % kShiftPhases;
  const bool mixer = kind == int(ShiftPhase::project);
  const ShiftLayer& w = shift_layer(p, layer);
  const ShiftSources& sources = sources_of(w.tables[kind]);
  const Segment& segment = *shared_at<const Segment>(p.shared.segment);
  const float* before_at = segment.state_in + (mixer ? w.mixer_shift : w.channel_shift);
  const unsigned use = p.use + unsigned(layer);
  const int vectors = p.d / 4;
  float4 x[kRounds], weight[kRounds], bias[kRounds], before[kRounds], lerp[kRounds];
  // Asked for before they are needed: the first ones while the stream is on its way.
  const auto load_lerps = [&](int j) {
    const float* const lerps =
        mixer ? w.lerp + std::size_t(unsigned(sources.in[j].source)) * unsigned(p.d)
              : w.channel_lerp;
#pragma unroll
    for (int r = 0; r < kRounds; ++r)
      lerp[r] = vector_at(lerps, min(r * kShiftThreads + tid, vectors - 1), 0.0F);
  };
  load_lerps(0);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = min(r * kShiftThreads + tid, vectors - 1);
    weight[r] = vector_at(mixer ? w.norm : w.channel_norm, i, 1.0F);
    bias[r] = vector_at(mixer ? w.norm_bias : w.channel_bias, i, 0.0F);
    before[r] = load_vector(before_at + 4 * i);
  }
  if (mixer && layer == 0) {
    const float4* const kept = shared_at<const float4>(p.shared.x);
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = r * kShiftThreads + tid;
      x[r] = i < vectors ? kept[i] : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
  } else {
    const unsigned own = mixer ? use - 1U : use;
    take_stream(p, exchange_set(p, own) + (mixer ? p.at.x2 : p.at.x1), ShiftWait::of(own), x,
                mixer ? 0 : 1, tid, kind);
  }
  norm_vectors(x, weight, bias, p.centred != 0, p.eps, tid, mixer ? 0 : 1);
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    // What the next token finds, put where it belongs when no block reads the old one any more.
    if (cta == 0 && i < vectors) store_vector(p.shifted + (mixer ? 0 : p.d) + 4 * i, x[r]);
    before[r] = make_float4(before[r].x - x[r].x, before[r].y - x[r].y, before[r].z - x[r].z,
                            before[r].w - x[r].w);
  }
#pragma unroll 1
  for (int j = 0; j < sources.count; ++j) {
    float4 v[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      v[r] =
          make_float4(fmaf(lerp[r].x, before[r].x, x[r].x), fmaf(lerp[r].y, before[r].y, x[r].y),
                      fmaf(lerp[r].z, before[r].z, x[r].z), fmaf(lerp[r].w, before[r].w, x[r].w));
    }
    if (j + 1 < sources.count) load_lerps(j + 1);
    const int forms = sources.in[j].forms;
    keep_input<kRounds>(shift_input(p, kind, j, p.d), (forms & kFormRounded) != 0,
                        (forms & kFormPlain) != 0, tid, vectors, v);
  }
}

/// What went down: `raise`.
__device__ __forceinline__ void raise_inputs(const ShiftStep& p, int phase, int tid) {
  const int layer = phase / kShiftPhases;
  const ShiftSources& sources = sources_of(shift_layer(p, layer).tables[int(ShiftPhase::raise)]);
#pragma unroll 1
  for (int j = 0; j < sources.count; ++j) {
    const int which = sources.in[j].source, forms = sources.in[j].forms, n = p.ranks[which];
    const unsigned use = which == 3 ? mix_use(p, layer) : p.use + unsigned(layer);
    if ((tid & ~31) >= n / 4) continue;  // a whole warp
    const float* const from[1] = {tid < n / 4 ? exchange_set(p, use) + p.at.low[which] + 4 * tid
                                              : nullptr};
    float4 v[1] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F)};
    ShiftWait::of(use).take(from, v, 8);
    keep_input<1>(shift_input(p, int(ShiftPhase::raise), j, n), (forms & kFormRounded) != 0,
                  (forms & kFormPlain) != 0, tid, n / 4, v);
  }
}

/// What the states read, with norm, bonus and gate: `output`.
template <int kRounds>
__device__ __forceinline__ void output_inputs(const ShiftStep& p, int phase, int tid) {
  const int layer = phase / kShiftPhases, kind = int(ShiftPhase::output), vectors = p.d / 4;
  const ShiftLayer& w = shift_layer(p, layer);
  const ShiftSources& sources = sources_of(w.tables[kind]);
  if (sources.count == 0) return;
  const unsigned use = p.use + unsigned(layer);
  const float* const set = exchange_set(p, use);
  float4 v[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = r * kShiftThreads + tid;
    const bool there = i < vectors;
    const float4 weight = vector_at(w.group_norm, min(i, vectors - 1), 1.0F);
    const float4 bias = vector_at(w.group_bias, min(i, vectors - 1), 0.0F);
    const float* const from[3] = {there ? set + p.at.o + 4 * i : nullptr,
                                  there ? set + p.at.bonus + 4 * i : nullptr,
                                  there && p.gated != 0 ? set + p.at.gate + 4 * i : nullptr};
    float4 in[3] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F), make_float4(0.0F, 0.0F, 0.0F, 0.0F),
                    make_float4(1.0F, 1.0F, 1.0F, 1.0F)};
    ShiftWait::of(use).take(from, in, 9);
    float4 o = in[0];
    if (p.groups != 0) {  // sixteen lanes have a head
      float sum = (o.x + o.y) + (o.z + o.w);
#pragma unroll
      for (int s = 1; s < 16; s <<= 1) sum += __shfl_xor_sync(~0U, sum, s);
      const float mean = sum * (1.0F / kShiftHead);
      o = make_float4(o.x - mean, o.y - mean, o.z - mean, o.w - mean);
      float squares = sum_squares(o, 0.0F);
#pragma unroll
      for (int s = 1; s < 16; s <<= 1) squares += __shfl_xor_sync(~0U, squares, s);
      const float factor = rsqrtf(fmaf(squares, 1.0F / kShiftHead, p.group_eps));
      o = make_float4(fmaf(o.x * factor, weight.x, bias.x), fmaf(o.y * factor, weight.y, bias.y),
                      fmaf(o.z * factor, weight.z, bias.z), fmaf(o.w * factor, weight.w, bias.w));
    }
    v[r] = make_float4((o.x + in[1].x) * in[2].x, (o.y + in[1].y) * in[2].y,
                       (o.z + in[1].z) * in[2].z, (o.w + in[1].w) * in[2].w);
  }
  keep_input<kRounds>(shift_input(p, kind, 0, p.d), (sources.in[0].forms & kFormRounded) != 0,
                      (sources.in[0].forms & kFormPlain) != 0, tid, vectors, v);
}

/// The hidden layer: `down`. All blocks are through with the old shifts then.
__device__ __forceinline__ void down_inputs(const ShiftStep& p, int phase, int cta, int tid) {
  constexpr int kRounds = 4;
  const int layer = phase / kShiftPhases, kind = int(ShiftPhase::down), vectors = p.inner / 4;
  const ShiftLayer& w = shift_layer(p, layer);
  const ShiftSources& sources = sources_of(w.tables[kind]);
  if (sources.count == 0 && cta != 0) return;
  const unsigned use = p.use + unsigned(layer);
  const float* const h = exchange_set(p, use) + p.at.h;
#pragma unroll 1
  for (int first = 0; first < vectors; first += kRounds * kShiftThreads) {
    const float* from[kRounds];
    float4 v[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int i = first + r * kShiftThreads + tid;
      from[r] = i < vectors ? h + 4 * i : nullptr;
      v[r] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    }
    ShiftWait::of(use).take(from, v, 10);
    SharedInput to = shift_input(p, kind, 0, p.inner);
    // keep_input() counts from 0.
    to.q_low += first / 8, to.q_high += first / 8, to.meta += first / 8;
    to.f_low += first / 2, to.f_high += first / 2;
    if (sources.count > 0) {
      keep_input<kRounds>(to, (sources.in[0].forms & kFormRounded) != 0,
                          (sources.in[0].forms & kFormPlain) != 0, tid, vectors - first, v);
    }
  }
  sync_first<kShiftThreads>();  // every thread has read its part: all of h was there
  if (cta != 0) return;
  const Segment& segment = *shared_at<const Segment>(p.shared.segment);
#pragma unroll 1
  for (int i = tid; i < p.d / 4; i += kShiftThreads) {
    store_vector(segment.state_out + w.mixer_shift + 4 * i, load_vector(p.shifted + 4 * i));
    store_vector(segment.state_out + w.channel_shift + 4 * i, load_vector(p.shifted + p.d + 4 * i));
  }
}

/// The last norm: `head`.
template <int kRounds>
__device__ __forceinline__ void head_inputs(const ShiftStep& p, int tid) {
  const int vectors = p.d / 4, kind = int(ShiftPhase::head);
  const ShiftLayer& w = shift_layer(p, p.num_layers);
  const ShiftSources& sources = sources_of(w.tables[0]);
  float4 x[kRounds], weight[kRounds], bias[kRounds];
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const int i = min(r * kShiftThreads + tid, vectors - 1);
    weight[r] = vector_at(w.norm, i, 1.0F), bias[r] = vector_at(w.norm_bias, i, 0.0F);
  }
  const unsigned use = p.use + unsigned(p.num_layers) - 1U;
  take_stream(p, exchange_set(p, use) + p.at.x2, ShiftWait::of(use), x, 0, tid, kind);
  norm_vectors(x, weight, bias, p.centred != 0, p.final_eps, tid, 0);
  if (sources.count == 0) return;
  keep_input<kRounds>(shift_input(p, kind, 0, p.d), (sources.in[0].forms & kFormRounded) != 0,
                      (sources.in[0].forms & kFormPlain) != 0, tid, vectors, x);
}

}  // namespace runnel::cuda
