// SPDX-License-Identifier: Apache-2.0
// Logits as integer weights: the few passes over the vocabulary that sampling needs, the same on every processor.
//
// A token's weight is its probability relative to the likeliest token, as an integer: exp((logit -
// max) / T) * 2^28, rounded. Sums of integers do not depend on their order, so a backend may add
// them up in any shape (lanes, warps, work groups) and still draw the same token. Weights below
// half of 2^-28 of the likeliest are zero: such tokens are never drawn, which changes the distribution by at most
// 2e-9 per token.
#pragma once

#include <cstdint>
#include <span>

namespace runnel {

/// The weight of the likeliest token. 8 of them fit a 32-bit sum with room to spare, see the lanes
/// in token_weights.cpp.
constexpr std::uint32_t kWeightOne = 1U << 28;

/// The largest logit; NaN counts as -inf. -inf if there is none.
float max_logit(std::span<const float> logits);

/// exp(x) for x in [-80, 0], to 2 ulp, exactly 1 at 0: only correctly rounded multiplications and
/// additions in a fixed order (no fused ones), so that every processor gives the same bits.
float portable_exp(float x);

/// weights[i] = round(kWeightOne * exp(max((logits[i] - max) * inverse_temperature, -20.5))); NaN and -inf weigh 0.
void token_weights(std::span<const float> logits, float max, float inverse_temperature,
                   std::span<std::uint32_t> weights);

/// Sum of all weights that are at least `cut`.
std::uint64_t sum_at_least(std::span<const std::uint32_t> weights, std::uint32_t cut);

/// The smallest set of most likely tokens whose weight reaches `wanted`: all that weigh more than
/// `weight`, and of those that weigh exactly that the first `ties` by index.
struct NucleusCut {
  std::uint32_t weight = 0;
  std::uint64_t ties = 0;
};

/// @param wanted   in [1, sum of weights]
/// @param scratch  as long as `weights`; overwritten
NucleusCut nucleus_cut(std::span<const std::uint32_t> weights, std::uint64_t wanted,
                       std::span<std::uint32_t> scratch);

/// Index of the token at `target` on the line on which the tokens that weigh at least `cut` lie
/// side by side by ascending index, each as long as its weight.
/// @param target  in [0, sum_at_least(weights, cut))
std::size_t index_at(std::span<const std::uint32_t> weights, std::uint32_t cut,
                     std::uint64_t target);

}  // namespace runnel
