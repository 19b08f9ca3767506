// SPDX-License-Identifier: Apache-2.0
// Draws a token from a list of the few that may come: weighs them, cuts, and finds the one. A token's place in an order is
// a count of those before it.
#pragma once

#include "cuda/device/sample/team.cuh"
#include "runtime/sampling/exact_cuts.h"
#include "runtime/sampling/philox.h"

namespace runnel::cuda {

__device__ inline float key_logit(std::uint32_t key) {
  return __uint_as_float((key >> 31) != 0 ? key & 0x7FFFFFFFU : ~key);
}

/// portable_exp and token_weights of runtime/sampling/token_weights.cpp.
__device__ inline std::uint32_t token_weight(float logit, float max, float inverse_temperature) {
  constexpr float kLeast = -20.5F, kRound = 12582912.0F;
  const float scaled = __fmul_rn(__fsub_rn(logit, max), inverse_temperature);
  if (!(scaled > kLeast)) return 0;
  const float n = __fsub_rn(__fadd_rn(__fmul_rn(scaled, 1.44269504F), kRound), kRound);
  const float r =
      __fsub_rn(__fsub_rn(scaled, __fmul_rn(n, 0.693359375F)), __fmul_rn(n, -2.12194440e-4F));
  float p = __fadd_rn(__fmul_rn(r, 1.0F / 5040.0F), 1.0F / 720.0F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F / 120.0F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F / 24.0F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F / 6.0F);
  p = __fadd_rn(__fmul_rn(p, r), 0.5F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F);
  p = __fadd_rn(__fmul_rn(p, r), 1.0F);
  const float power = __int_as_float((__float2int_rz(n) + 127) << 23);
  const float one = 268435456.0F;  // kWeightOne
  return std::uint32_t(__float2int_rz(__fadd_rn(__fmul_rn(__fmul_rn(p, power), one), 0.5F)));
}

/// Random words of the draw behind `position` tokens.
__device__ inline std::array<std::uint32_t, 4> words_of(const Sample& s, std::uint64_t position) {
  return sampling_words(s.seed, position);
}

/// What XTC takes away: what weighs `least` or more, but for the id `kept`.
struct Excluded {
  std::uint64_t least = ~std::uint64_t(0);
  std::uint32_t kept = 0;
  __device__ bool holds(std::uint32_t weight, std::uint32_t id) const {
    return weight >= least && id != kept;
  }
};
/// @param weights  (i) for i in [0, n), `total` in all
/// @param ids      (i)
template <class Weights, class Ids>
__device__ Excluded top_choices(const Sample& s, SampleTeam& team, const Weights& weights,
                                const Ids& ids, int n, std::uint64_t total) {
  const std::uint64_t least = top_choice_weight(total, s.xtc_units);
  std::uint32_t count = 0;
  std::uint64_t last = 0;  // the lightest of the heaviest; of equal ones the highest id
  for (int i = team.tid; i < n; i += team.threads()) {
    const std::uint32_t w = weights(i);
    if (w < least) continue;
    const std::uint64_t key = std::uint64_t(~w) << 32 | ids(i);
    last = key > last ? key : last;
    ++count;
  }
  count = team.sum<true>(count, count).count;
  if (count < 2) return {};
  return {.least = least, .kept = std::uint32_t(team.max(last))};
}

/// Which logits can still be drawn.
struct MayStay {
  float max, inverse_temperature;
  float bound;     // they reach it, a finite number
  float least;     // scaled and counted from the largest, they reach it
  float farthest;  // below `max` what top-n-sigma leaves

  __device__ bool operator()(float logit) const {  // not NaN or -inf
    const float below = __fsub_rn(logit, max);
    return logit >= bound && __fmul_rn(below, inverse_temperature) >= least && -below <= farthest;
  }
};
inline constexpr float kLowestLogit = -3.4028235e38F;
/// Where min-p alone cuts, counted from the largest logit: however the exponential is rounded, what lies below weighs less
/// than min_weight.
__device__ inline float min_p_bound(const Sample& s) {
  constexpr float kMargin = 0.01F, kPerOne = 1.0F / 268435456.0F;  // kWeightOne
  return __logf((float(s.min_weight) - 0.5F) * kPerOne) - kMargin;
}

class ListDraw {
 public:
  __device__ ListDraw(const Sample& s, SampleTeam& team)
      : s_(s), team_(team), shared_(team.shared), tid_(team.tid), threads_(team.threads()) {}

  /// One thread, before a barrier.
  __device__ void clear() { shared_.listed = 0; }
  /// Any thread, behind it. What the list has no place for is counted.
  __device__ void add(float logit, int token) {
    const std::uint32_t place = atomicAdd(&shared_.listed, 1U);
    if (place >= kSampleChoices) return;
    shared_.choices[place] = choice_of_key(ordinary_key(logit), std::uint32_t(token));
  }

  /// Behind a barrier: the token. -1: there were more than the list holds.
  /// @param words  of this draw
  __device__ int draw(float max, const std::array<std::uint32_t, 4>& words) {
    const std::uint32_t n = shared_.listed;
    if (n > kSampleChoices) return -1;
    std::uint64_t total = weigh(n, max);
    if (s_.top_p_units > 0) total = cut(n, share_of(total, s_.top_p_units));
    if (s_.xtc_probability > 0.0F && happens(s_.xtc_probability, words[1]))
      total = exclude(n, total);
    const std::uint64_t target = draw_below(total, words[0]);
    for_each_weight(n, [&](std::uint32_t own, std::uint32_t w) {
      const std::uint32_t id = token(own);
      std::uint64_t before = 0;  // of those that come first in the vocabulary
#pragma unroll 4
      for (std::uint32_t i = 0; i < n; ++i) before += token(i) < id ? shared_.weights[i] : 0U;
      if (target >= before && target - before < w) shared_.index = int(id);
    });
    sync_block();
    return shared_.index;
  }

 private:
  __device__ std::uint32_t token(std::uint32_t i) const { return chosen_token(shared_.choices[i]); }
  /// use(i, weight) for each of this thread's places in the list of n that weighs anything.
  template <class Use>
  __device__ void for_each_weight(std::uint32_t n, const Use& use) const {
    for (auto i = std::uint32_t(tid_); i < n; i += std::uint32_t(threads_)) {
      if (const std::uint32_t w = shared_.weights[i]; w > 0) use(i, w);
    }
  }

  /// Weighs the list: what top-k takes away weighs nothing, nor, without top-p, what min-p does.
  /// @return the total
  __device__ std::uint64_t weigh(std::uint32_t n, float max) {
    const std::uint32_t k = s_.top_k > 0 ? std::uint32_t(s_.top_k) : n;
    const std::uint32_t least = s_.top_p_units > 0 ? 1U : s_.min_weight;
    std::uint64_t total = 0;
    for (auto own = std::uint32_t(tid_); own < n; own += std::uint32_t(threads_)) {
      const std::uint64_t choice = shared_.choices[own];
      std::uint32_t better = 0;
      if (n > k) {
#pragma unroll 4
        for (std::uint32_t i = 0; i < n; ++i) better += shared_.choices[i] > choice ? 1U : 0U;
      }
      const float logit = key_logit(std::uint32_t(choice >> 32));
      std::uint32_t w = better < k ? token_weight(logit, max, s_.inverse_temperature) : 0U;
      if (w < least) w = 0;
      shared_.weights[own] = w;
      total += w;
    }
    return team_.sum<false>(total, 0).sum;  // and shows the weights to all threads
  }

  /// Leaves what top-p and min-p do.
  /// @param wanted  from 1 to the total
  /// @return the total of what is left
  __device__ std::uint64_t cut(std::uint32_t n, std::uint64_t wanted) {
    for_each_weight(n, [&](std::uint32_t own, std::uint32_t w) {
      const std::uint32_t id = token(own);
      std::uint64_t before = 0;  // of heavier ones, and of equal ones with lower ids
#pragma unroll 4
      for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint32_t other = shared_.weights[i];
        before += other > w || (other == w && token(i) < id) ? other : 0U;
      }
      if (before < wanted && wanted - before <= w) {  // the last that is needed
        shared_.edge.value = w;
        shared_.index = int(id);
      }
    });
    sync_block();
    const std::uint32_t cut = shared_.edge.value, last = std::uint32_t(shared_.index);
    std::uint64_t total = 0;
    for_each_weight(n, [&](std::uint32_t own, std::uint32_t w) {
      const bool stays = w >= s_.min_weight && (w > cut || (w == cut && token(own) <= last));
      if (!stays) shared_.weights[own] = 0;
      total += stays ? w : 0U;
    });
    return team_.sum<false>(total, 0).sum;
  }

  /// @param total  of the list
  /// @return the total of what is left
  __device__ std::uint64_t exclude(std::uint32_t n, std::uint64_t total) {
    const Excluded gone = top_choices(
        s_, team_, [this](int i) { return shared_.weights[i]; },
        [this](int i) { return token(std::uint32_t(i)); }, int(n), total);
    // Each thread has read no weights but its own.
    total = 0;
    for_each_weight(n, [&](std::uint32_t own, std::uint32_t w) {
      const bool goes = gone.holds(w, token(own));
      if (goes) shared_.weights[own] = 0;
      total += goes ? 0U : w;
    });
    return team_.sum<false>(total, 0).sum;
  }

  const Sample& s_;
  SampleTeam& team_;
  SampleShared& shared_;
  const int tid_, threads_;
};

}  // namespace runnel::cuda
