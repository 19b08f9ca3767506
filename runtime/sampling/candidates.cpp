// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "runtime/sampling/exact_cuts.h"
#include "runtime/sampling/rank_key.h"
#include "runtime/sampling/token_weights.h"

namespace runnel {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

Candidates::Candidates(std::size_t vocab) {
  ids_.reserve(vocab);
  logits_.reserve(vocab);
  weights_.reserve(vocab);
  scratch_.reserve(vocab);
}

void Candidates::begin(std::span<const float> logits) {
  ids_.clear();
  logits_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kNever)) continue;
    ids_.push_back(static_cast<TokenId>(i));
    logits_.push_back(logits[i]);
  }
  inverse_temperature_ = 1.0F;
  weighed_ = false;
}

void Candidates::reread(std::span<const float> logits) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const float logit = logits[static_cast<std::size_t>(ids_[i])];
    if (!(logit > kNever)) continue;
    ids_[kept] = ids_[i];
    logits_[kept++] = logit;
  }
  ids_.resize(kept);
  logits_.resize(kept);
  weighed_ = false;
}

template <class Keep>
void Candidates::keep_if(const Keep& keep) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    if (!keep(i)) continue;
    ids_[kept] = ids_[i];
    logits_[kept] = logits_[i];
    if (weighed_) weights_[kept] = weights_[i];
    ++kept;
  }
  ids_.resize(kept);
  logits_.resize(kept);
  if (weighed_) weights_.resize(kept);
}

void Candidates::keep_best() {
  const auto best = static_cast<std::size_t>(std::max_element(logits_.begin(), logits_.end()) -
                                             logits_.begin());  // the first of equals
  keep_if([best](std::size_t i) { return i == best; });
}

void Candidates::weigh() {
  if (weighed_) return;
  max_ = max_logit(logits_);
  if (std::isinf(max_)) {  // +inf is certain
    keep_best();
    weights_.assign(1, kWeightOne);
  } else {
    weights_.resize(logits_.size());
    token_weights(logits_, max_, inverse_temperature_, weights_);
  }
  weighed_ = true;
}

std::span<const std::uint32_t> Candidates::weights() {
  weigh();
  return weights_;
}

std::uint64_t Candidates::total() {
  weigh();
  return sum_at_least(weights_, 1);
}

// ln p, from the logit: the weight has few bits where it is small.
double Candidates::log_probability(std::size_t i, double log_total) const {
  return (double{logits_[i]} - double{max_}) * double{inverse_temperature_} - log_total;
}

void Candidates::heat(float temperature) {
  if (temperature == 0.0F) {
    keep_best();
  } else {
    // Below about 3e-39 the inverse would be infinite, and 0 * inf is NaN.
    inverse_temperature_ =
        std::min(inverse_temperature_ * std::min(1.0F / temperature, 1e38F), 1e38F);
  }
  weighed_ = false;
}

float Candidates::dynamic_temperature(float temperature, float range, float exponent) {
  weigh();
  if (ids_.size() < 2) return temperature;
  const double log_total = std::log(static_cast<double>(total()) / double{kWeightOne});
  double entropy = 0.0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const double log_p = log_probability(i, log_total);
    if (weights_[i] > 0) entropy -= std::exp(log_p) * log_p;
  }
  const double share = std::clamp(entropy / std::log(static_cast<double>(ids_.size())), 0.0, 1.0);
  const double low = std::max(0.0, double{temperature} - double{range});
  const double high = double{temperature} + double{range};
  return static_cast<float>(std::min(low + (high - low) * std::pow(share, double{exponent}),
                                     double{std::numeric_limits<float>::max()}));
}

void Candidates::keep_top_k(std::size_t k) {
  if (k == 0 || k >= ids_.size()) return;
  keys_.clear();
  for (std::size_t i = 0; i < logits_.size(); ++i) keys_.push_back(rank_key(logits_[i], i));
  const auto kth = keys_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(keys_.begin(), kth, keys_.end(), std::greater<>());
  const std::uint64_t least = *kth;
  keep_if([this, least](std::size_t i) { return rank_key(logits_[i], i) >= least; });
}

void Candidates::keep_top_n_sigma(float n) {
  const float max = max_logit(logits_);
  if (std::isinf(max)) return keep_best();
  LogitSpread spread{.count = static_cast<std::uint32_t>(logits_.size())};
  for (const float logit : logits_) {
    const float scaled =
        std::clamp(logit, -LogitSpread::kFarthest, LogitSpread::kFarthest) * LogitSpread::kUnit;
    const auto towards_zero = static_cast<std::int32_t>(scaled);
    const std::int64_t units = towards_zero - (static_cast<float>(towards_zero) > scaled ? 1 : 0);
    spread.sum += units;
    spread.squares += static_cast<std::uint64_t>(units * units);
  }
  const float limit = n * (static_cast<float>(deviation(spread)) * kDeviationUnit);
  keep_if([this, max, limit](std::size_t i) { return max - logits_[i] <= limit; });
}

void Candidates::keep_typical(float p) {
  weigh();
  const std::uint64_t all = total();
  const double log_total = std::log(static_cast<double>(all) / double{kWeightOne});
  double entropy = 0.0;
  ranks_.assign(ids_.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    if (weights_[i] == 0) continue;
    ranks_[i] = log_probability(i, log_total);
    entropy -= std::exp(ranks_[i]) * ranks_[i];
  }
  for (double& rank : ranks_) rank = std::abs(-rank - entropy);
  scratch_.resize(ids_.size());
  std::iota(scratch_.begin(), scratch_.end(), 0U);
  std::stable_sort(scratch_.begin(), scratch_.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return ranks_[a] < ranks_[b]; });
  const auto wanted = static_cast<std::uint64_t>(std::ceil(double{p} * static_cast<double>(all)));
  std::uint64_t reached = 0;
  for (const std::uint32_t i : scratch_) {
    if (reached < wanted) {
      reached += weights_[i];
    } else {
      weights_[i] = 0;
    }
  }
  keep_if([this](std::size_t i) { return weights_[i] > 0; });
}

void Candidates::keep_top_p(float p) {
  weigh();
  const std::uint64_t all = total();
  const std::uint64_t wanted = share_of(all, share_units(p));
  scratch_.resize(weights_.size());
  const NucleusCut cut = nucleus_cut(weights_, std::clamp<std::uint64_t>(wanted, 1, all), scratch_);
  std::uint64_t ties = 0;
  keep_if([&](std::size_t i) {
    return weights_[i] > cut.weight || (weights_[i] == cut.weight && ties++ < cut.ties);
  });
}

void Candidates::keep_min_p(float p) {
  weigh();
  const std::uint32_t heaviest = *std::max_element(weights_.begin(), weights_.end());
  const auto least = std::max(1U, static_cast<std::uint32_t>(std::ceil(double{p} * heaviest)));
  keep_if([this, least](std::size_t i) { return weights_[i] >= least; });
}

void Candidates::exclude_top_choices(float threshold) {
  weigh();
  const std::uint64_t least = top_choice_weight(total(), share_units(threshold));
  std::size_t top = 0, last = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] < least) continue;
    if (top == 0 || weights_[i] <= weights_[last]) last = i;
    ++top;
  }
  if (top < 2) return;
  keep_if([this, least, last](std::size_t i) { return weights_[i] < least || i == last; });
}

void Candidates::keep_unsurprising(double mu) {
  weigh();
  const std::uint32_t heaviest = *std::max_element(weights_.begin(), weights_.end());
  const double share = std::ceil(static_cast<double>(total()) * std::exp2(-mu));
  const auto least =
      static_cast<std::uint32_t>(std::clamp(share, 1.0, static_cast<double>(heaviest)));
  keep_if([this, least](std::size_t i) { return weights_[i] >= least; });
}

}  // namespace runnel
