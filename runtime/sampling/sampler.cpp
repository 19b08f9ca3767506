// SPDX-License-Identifier: Apache-2.0
// Sampling in a few passes over the vocabulary; nothing is sorted, see token_weights.h for the arithmetic.
#include "runtime/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string_view>

#include "runtime/base/try.h"
#include "runtime/sampling/philox.h"
#include "runtime/sampling/token_weights.h"

namespace runnel {
namespace {

constexpr std::size_t kChunk = 32;

// Index of the first logit for which `wanted` holds, from `begin` on; chunks without one are
// skipped by a vectorised test.
template <class Predicate>
std::size_t find_from(std::span<const float> logits, std::size_t begin, const Predicate& wanted) {
  std::size_t i = begin;
  for (const std::size_t near = std::min(begin + 4, logits.size()); i < near; ++i) {
    if (wanted(logits[i])) return i;  // hits often come in runs
  }
  for (; i + kChunk <= logits.size(); i += kChunk) {
    std::uint32_t any = 0;
    for (std::size_t j = 0; j < kChunk; ++j) any |= wanted(logits[i + j]) ? 1U : 0U;
    if (any != 0) break;
  }
  while (i < logits.size() && !wanted(logits[i])) ++i;
  return i;
}

// Greater key: more likely, or as likely with a lower index. Orders floats as integers; -0 counts as 0.
std::uint64_t rank_key(float logit, std::size_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);
  const std::uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return (static_cast<std::uint64_t>(ordered) << 32) |
         (0xFFFFFFFFU - static_cast<std::uint32_t>(index));
}

std::size_t index_of_key(std::uint64_t key) {
  return 0xFFFFFFFFU - static_cast<std::uint32_t>(key);
}

Status out_of_range(std::string_view option, double value, std::string_view range) {
  return fail(ErrorCode::invalid_argument, option, " is ", value, ", expected ", range);
}

}  // namespace

Status validate(const SamplingOptions& options) {
  // Written so that NaN fails every test.
  if (!(options.temperature >= 0.0F) || std::isinf(options.temperature)) {
    return out_of_range("temperature", options.temperature, "a finite number from 0 (greedy) up");
  }
  if (options.top_k < 0)
    return out_of_range("top_k", options.top_k, "0 (all) or a positive number");
  if (!(options.top_p > 0.0F && options.top_p <= 1.0F)) {
    return out_of_range("top_p", options.top_p, "more than 0 and at most 1");
  }
  if (!(options.min_p >= 0.0F && options.min_p < 1.0F)) {
    return out_of_range("min_p", options.min_p, "at least 0 and less than 1");
  }
  if (!(options.repetition_penalty > 0.0F) || std::isinf(options.repetition_penalty)) {
    return out_of_range("repetition_penalty", options.repetition_penalty,
                        "a finite number above 0 (1: none)");
  }
  if (!std::isfinite(options.presence_penalty)) {
    return out_of_range("presence_penalty", options.presence_penalty, "a finite number (0: none)");
  }
  if (!std::isfinite(options.frequency_penalty)) {
    return out_of_range("frequency_penalty", options.frequency_penalty,
                        "a finite number (0: none)");
  }
  constexpr std::int32_t kMaxWindow = SamplingOptions::kMaxPenaltyWindow;
  if (options.penalty_window < 0 || options.penalty_window > kMaxWindow) {
    return fail(ErrorCode::invalid_argument, "penalty_window is ", options.penalty_window,
                ", expected 0 to ", kMaxWindow);
  }
  if (!(options.dry_multiplier >= 0.0F) || std::isinf(options.dry_multiplier)) {
    return out_of_range("dry_multiplier", options.dry_multiplier,
                        "a finite number from 0 (off) up");
  }
  if (!(options.dry_base >= 1.0F) || std::isinf(options.dry_base)) {
    return out_of_range("dry_base", options.dry_base, "a finite number of at least 1");
  }
  if (options.dry_allowed_length < 1) {
    return out_of_range("dry_allowed_length", options.dry_allowed_length, "at least 1");
  }
  if (options.dry_range < 0 || options.dry_range > SamplingOptions::kMaxPenaltyWindow) {
    return fail(ErrorCode::invalid_argument, "dry_range is ", options.dry_range, ", expected 0 to ",
                std::int32_t{SamplingOptions::kMaxPenaltyWindow});
  }
  for (const std::string& breaker : options.dry_breakers) {
    if (breaker.empty()) {
      return fail(ErrorCode::invalid_argument,
                  "dry_breakers has an empty text, expected at least one character");
    }
  }
  for (const auto& [token, bias] : options.logit_bias) {
    if (std::isnan(bias) || bias == std::numeric_limits<float>::infinity()) {
      return fail(ErrorCode::invalid_argument, "logit_bias of token ", token, " is ", bias,
                  ", expected a finite number or -inf");
    }
  }
  return {};
}

Result<Sampler> Sampler::create(const SamplingOptions& options, std::int32_t vocab_size,
                                PieceOf piece) {
  RUNNEL_CHECK_OK(validate(options));
  if (vocab_size < 1)
    return fail(ErrorCode::invalid_argument, "vocab_size is ", vocab_size, ", expected at least 1");
  for (const auto& [token, bias] : options.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return fail(ErrorCode::invalid_argument, "logit_bias names token ", token,
                  ", expected an id from 0 to ", vocab_size - 1);
    }
  }
  return Sampler(options, vocab_size, std::move(piece));
}

Sampler::Sampler(const SamplingOptions& options, std::int32_t vocab_size, PieceOf piece)
    : vocab_size_(vocab_size),
      top_k_(options.top_k < vocab_size ? options.top_k : 0),
      top_p_(options.top_p),
      repetition_penalty_(options.repetition_penalty),
      presence_penalty_(options.presence_penalty),
      frequency_penalty_(options.frequency_penalty),
      seed_(options.seed),
      bias_(options.logit_bias.begin(), options.logit_bias.end()),
      dry_(options, vocab_size, std::move(piece)) {
  const auto vocab = static_cast<std::size_t>(vocab_size);
  if (options.temperature > 0.0F) {
    // Below about 3e-39 the inverse would be infinite, and 0 * inf is NaN.
    inverse_temperature_ = std::min(1.0F / options.temperature, 1e38F);
    min_weight_ =
        std::max(1U, static_cast<std::uint32_t>(std::ceil(options.min_p * double{kWeightOne})));
    const std::size_t candidates = top_k_ > 0 ? static_cast<std::size_t>(top_k_) : vocab;
    weights_.resize(candidates);
    if (top_p_ < 1.0F) scratch_.resize(candidates);
    if (top_k_ > 0) {
      top_limit_ = std::max<std::size_t>(1024, 4 * candidates);
      top_.reserve(std::min(vocab, top_limit_));
      ids_.reserve(candidates);
      top_logits_.reserve(candidates);
    }
  }
  const bool penalties =
      repetition_penalty_ != 1.0F || presence_penalty_ != 0.0F || frequency_penalty_ != 0.0F;
  if (penalties && options.penalty_window > 0) {
    penalty_window_ = static_cast<std::size_t>(options.penalty_window);
    counts_.resize(vocab);
  }
  if (penalty_window_ > 0 || !bias_.empty() || dry_.on()) adjusted_.resize(vocab);
}

std::span<const float> Sampler::adjust(std::span<const float> logits,
                                       std::span<const TokenId> recent) {
  if (adjusted_.empty()) return logits;
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  for (const auto& [token, bias] : bias_) adjusted_[static_cast<std::size_t>(token)] += bias;
  if (penalty_window_ > 0) penalise(recent);
  dry_.apply(recent, adjusted_);
  return adjusted_;
}

void Sampler::penalise(std::span<const TokenId> recent) {
  recent = recent.last(std::min(penalty_window_, recent.size()));
  const auto known = [this](TokenId token) { return token >= 0 && token < vocab_size_; };
  for (const TokenId token : recent) {
    if (known(token)) ++counts_[static_cast<std::size_t>(token)];
  }
  for (const TokenId token : recent) {
    if (!known(token)) continue;
    std::uint16_t& count = counts_[static_cast<std::size_t>(token)];
    if (count == 0) continue;  // done at its first occurrence
    float& logit = adjusted_[static_cast<std::size_t>(token)];
    logit = logit > 0.0F ? logit / repetition_penalty_ : logit * repetition_penalty_;
    logit -= presence_penalty_ + static_cast<float>(count) * frequency_penalty_;
    count = 0;
  }
}

// ids_ and top_logits_ <- the top_k_ most likely tokens, by ascending id. Collects what beats the
// k-th best so far in a buffer of 4 k and cuts it to k when it is full: linear in the vocabulary for any k.
void Sampler::keep_top_k(std::span<const float> logits) {
  const auto k = static_cast<std::size_t>(top_k_);
  const auto kth = [this, k] { return top_.begin() + static_cast<std::ptrdiff_t>(k - 1); };
  float beaten = -std::numeric_limits<float>::infinity();  // also leaves out NaN and -inf
  top_.clear();
  for (std::size_t i = 0;; ++i) {
    i = find_from(logits, i, [beaten](float logit) { return logit > beaten; });
    if (i >= logits.size()) break;
    if (top_.size() == top_limit_) {
      std::nth_element(top_.begin(), kth(), top_.end(), std::greater<>());
      top_.resize(k);
      beaten = logits[index_of_key(top_.back())];
      if (!(logits[i] > beaten)) continue;  // a tie with a higher id loses
    }
    top_.push_back(rank_key(logits[i], i));
  }
  if (top_.size() > k) {
    std::nth_element(top_.begin(), kth(), top_.end(), std::greater<>());
    top_.resize(k);
  }
  // By ascending id: a few are sorted, many are found again by another pass.
  ids_.clear();
  top_logits_.clear();
  constexpr std::size_t kFew = 512;
  if (top_.size() <= kFew) {
    std::sort(top_.begin(), top_.end(),
              [](std::uint64_t a, std::uint64_t b) { return index_of_key(a) < index_of_key(b); });
    for (const std::uint64_t key : top_) ids_.push_back(static_cast<TokenId>(index_of_key(key)));
  } else {
    const std::uint64_t last = *std::min_element(top_.begin(), top_.end());
    const float least = logits[index_of_key(last)];
    const auto reaches = [least](float logit) { return logit >= least; };
    for (std::size_t i = find_from(logits, 0, reaches); i < logits.size();
         i = find_from(logits, i + 1, reaches)) {
      if (rank_key(logits[i], i) >= last) ids_.push_back(static_cast<TokenId>(i));
    }
  }
  for (const TokenId id : ids_) top_logits_.push_back(logits[static_cast<std::size_t>(id)]);
}

// cut_ <- the lightest weight of the smallest set that reaches top_p_; of equal weights at its edge
// the higher ids go.
void Sampler::apply_top_p() {
  const std::uint64_t total = sum_at_least(candidates_, 1);
  const auto wanted =
      static_cast<std::uint64_t>(std::ceil(double{top_p_} * static_cast<double>(total)));
  const NucleusCut nucleus =
      nucleus_cut(candidates_, std::clamp<std::uint64_t>(wanted, 1, total), scratch_);
  cut_ = nucleus.weight;
  const std::uint64_t ties =
      (sum_at_least(candidates_, cut_) - sum_at_least(candidates_, cut_ + 1)) / cut_;
  if (ties == nucleus.ties) return;
  std::uint64_t kept = 0;
  for (std::uint32_t& weight : candidates_) {
    if (weight == cut_ && ++kept > nucleus.ties) weight = 0;
  }
}

Result<TokenId> Sampler::prepare(std::span<const float> logits, std::span<const TokenId> recent) {
  if (logits.size() != static_cast<std::size_t>(vocab_size_)) {
    return fail(ErrorCode::invalid_argument, "got ", logits.size(), " logits, expected ",
                vocab_size_);
  }
  logits = adjust(logits, recent);
  const float max = max_logit(logits);
  if (max == -std::numeric_limits<float>::infinity()) {
    return fail(ErrorCode::invalid_argument, "no token can be chosen: all ", vocab_size_,
                " logits are -inf or not a number");
  }
  if (inverse_temperature_ == 0.0F || std::isinf(max)) {
    return static_cast<TokenId>(find_from(logits, 0, [max](float logit) { return logit == max; }));
  }
  if (top_k_ > 0) {
    keep_top_k(logits);
    logits = top_logits_;
  }
  candidates_ = std::span(weights_).first(logits.size());
  token_weights(logits, max, inverse_temperature_, candidates_);
  cut_ = 1;
  if (top_p_ < 1.0F) apply_top_p();
  cut_ = std::max(cut_, min_weight_);
  return kDraw;
}

TokenId Sampler::token_at(std::size_t index) const {
  return top_k_ > 0 ? ids_[index] : static_cast<TokenId>(index);
}

Result<TokenId> Sampler::sample(std::span<const float> logits, std::span<const TokenId> recent,
                                std::uint64_t position) {
  RUNNEL_TRY(const TokenId certain, prepare(logits, recent));
  if (certain != kDraw) return certain;
  const std::uint64_t total = sum_at_least(candidates_, cut_);
  return token_at(index_at(candidates_, cut_, draw_below(total, sampling_word(seed_, position))));
}

Result<std::vector<std::pair<TokenId, double>>> Sampler::distribution(
    std::span<const float> logits, std::span<const TokenId> recent) {
  RUNNEL_TRY(const TokenId certain, prepare(logits, recent));
  std::vector<std::pair<TokenId, double>> tokens;
  if (certain != kDraw) {
    tokens.emplace_back(certain, 1.0);
    return tokens;
  }
  const auto total = static_cast<double>(sum_at_least(candidates_, cut_));
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i] >= cut_) tokens.emplace_back(token_at(i), candidates_[i] / total);
  }
  return tokens;
}

}  // namespace runnel
