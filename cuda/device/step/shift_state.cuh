// SPDX-License-Identifier: Apache-2.0
// The recurrence with a removal in the kernel of cuda/step_shift.h: one token of some columns of a head.
#pragma once

#include "cuda/device/step/shift_exchange.cuh"

namespace runnel::cuda {

/// This block's share of a state: sixteen columns or more of one head. Four warps or more, each by itself.
__device__ __forceinline__ void advance_state(const ShiftStep& p, int layer, int cta, int tid) {
  const int head = cta / p.splits;
  if (head >= p.heads || tid >= 8 * p.columns) return;
  const ShiftLayer& w = shift_layer(p, layer);
  const Segment& segment = *shared_at<const Segment>(p.shared.segment);
  const int lane = tid & 31, warp = tid >> 5, g = tid & 7, own = tid >> 3;
  const int column = cta % p.splits * p.columns + own, channel = head * kShiftHead + column;
  const std::size_t at =
      w.state + std::size_t(unsigned(head)) * kShiftHead * kShiftHead + unsigned(column);
  const auto row_of = [g](int i) { return 32 * (i >> 2) + 4 * g + (i & 3); };
  float x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = segment.state_in[at + unsigned(row_of(i) * kShiftHead)];
  const int mine[2] = {head * kShiftHead + lane, head * kShiftHead + 32 + lane};
  float f_bias[2], r_bias[2], removal_key[2], key_rate[2], bonus_weight[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    f_bias[j] = w.f_bias[mine[j]], r_bias[j] = w.r_bias[mine[j]];
    removal_key[j] = w.removal_key[mine[j]], key_rate[j] = w.key_rate[mine[j]];
    bonus_weight[j] = w.bonus != nullptr ? w.bonus[mine[j]] : 0.0F;
  }
  const float mix_bias = w.mixes_values != 0 ? w.mix_bias[channel] : 0.0F;
  const unsigned use = p.use + unsigned(layer);
  float* const set = exchange_set(p, use);
  const ShiftWait wait = ShiftWait::of(use);
  const float* const from[9] = {
      set + p.at.q + mine[0], set + p.at.q + mine[1], set + p.at.k + mine[0],
      set + p.at.k + mine[1], set + p.at.f + mine[0], set + p.at.f + mine[1],
      set + p.at.r + mine[0], set + p.at.r + mine[1], set + p.at.v + channel};
  float in[9];
  wait.take(from, in, 11);
  float mix[1] = {0.0F};
  if (w.mixes_values != 0) {
    const unsigned own_use = mix_use(p, layer);
    const float* const mix_at[1] = {exchange_set(p, own_use) + p.at.mix + channel};
    ShiftWait::of(own_use).take(mix_at, mix, 12);
  }
  float* const vectors = shared_at<float>(p.shared.vectors) + warp * 5 * kShiftHead;
  float squares = 0.0F, bonus = 0.0F;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float key = in[2 + j] * removal_key[j];
    squares = fmaf(key, key, squares);
  }
  const float by = rsqrtf(fmaxf(warp_sum(squares), 1e-24F));
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float q = in[j], k = in[2 + j], rate = logistic(in[6 + j] + r_bias[j]);
    const float c = -k * removal_key[j] * by, key = k * (1.0F + (rate - 1.0F) * key_rate[j]);
    bonus = fmaf(q * key, bonus_weight[j], bonus);
    const int i = 32 * j + lane;
    vectors[i] = c, vectors[kShiftHead + i] = -rate * c;
    vectors[2 * kShiftHead + i] = __expf(-0.60653066F * logistic(in[4 + j] + f_bias[j]));
    vectors[3 * kShiftHead + i] = key, vectors[4 * kShiftHead + i] = q * p.scale;
  }
  bonus = warp_sum(bonus);
  float v = in[8];
  float* const first = shared_at<float>(p.shared.first_v) + own;
  if (w.mixes_values != 0) {
    v = fmaf(*first - v, logistic(mix[0] + mix_bias), v);
  } else if (layer == 0 && g == 0) {
    *first = v;
  }
  sync_warp();
  float removed = 0.0F, sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 8; ++i) removed = fmaf(x[i], vectors[row_of(i)], removed);
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) removed += __shfl_xor_sync(~0U, removed, o);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int r = row_of(i);
    x[i] = fmaf(vectors[kShiftHead + r], removed,
                fmaf(vectors[3 * kShiftHead + r], v, x[i] * vectors[2 * kShiftHead + r]));
    sum = fmaf(x[i], vectors[4 * kShiftHead + r], sum);
  }
#pragma unroll
  for (int o = 1; o < 8; o <<= 1) sum += __shfl_xor_sync(~0U, sum, o);
  if (g == 0) wait.show(set + p.at.o + channel, sum);
  if (g == 1) wait.show(set + p.at.bonus + channel, bonus * v);
#pragma unroll
  for (int i = 0; i < 8; ++i) segment.state_out[at + unsigned(row_of(i) * kShiftHead)] = x[i];
  sync_warp();  // the vectors are read
}

}  // namespace runnel::cuda
