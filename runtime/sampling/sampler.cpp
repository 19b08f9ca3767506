// SPDX-License-Identifier: Apache-2.0
// Sampling in a few passes over the vocabulary; nothing is sorted, see token_weights.h for the arithmetic.
#include "runtime/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/base/try.h"
#include "runtime/sampling/exact_cuts.h"
#include "runtime/sampling/philox.h"
#include "runtime/sampling/rank_key.h"
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

// The chain that SamplingOptions documents.
constexpr ChainSampler kUsualOrder[] = {
    ChainSampler::penalties,   ChainSampler::dry,   ChainSampler::top_n_sigma,
    ChainSampler::temperature, ChainSampler::top_k, ChainSampler::typical,
    ChainSampler::top_p,       ChainSampler::min_p, ChainSampler::xtc};

// Whether the options need more than the passes for the usual ones.
bool needs_chain(const SamplingOptions& o) {
  return !is_usual_order(o.order) || o.mirostat != 0 || o.top_n_sigma > 0.0F ||
         o.typical_p < 1.0F || o.xtc_probability > 0.0F || o.dynatemp_range > 0.0F;
}

// Mirostat takes the place of whatever cuts.
bool goes_with_mirostat(ChainSampler sampler) {
  return sampler == ChainSampler::penalties || sampler == ChainSampler::dry ||
         sampler == ChainSampler::temperature;
}

}  // namespace

bool is_usual_order(const std::vector<ChainSampler>& order) {
  return order.empty() || std::ranges::equal(order, kUsualOrder);
}

std::span<const ChainSampler> order_of(const SamplingOptions& options) {
  if (options.order.empty()) return kUsualOrder;
  return options.order;
}

Status validate(const SamplingOptions& options, std::int32_t vocab_size) {
  RUNNEL_CHECK_OK(validate(options));
  if (vocab_size < 1)
    return fail(ErrorCode::invalid_argument, "vocab_size is ", vocab_size, ", expected at least 1");
  for (const auto& [token, bias] : options.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return fail(ErrorCode::invalid_argument, "logit_bias names token ", token,
                  ", expected an id from 0 to ", vocab_size - 1);
    }
  }
  return {};
}

Result<Sampler> Sampler::create(const SamplingOptions& options, std::int32_t vocab_size,
                                PieceOf piece) {
  RUNNEL_CHECK_OK(validate(options, vocab_size));
  if (!options.banned_texts.empty() && !piece)
    return fail(ErrorCode::unsupported, "banned texts need a tokenizer, and there is none");
  return Sampler(options, vocab_size, std::move(piece));
}

Sampler::Sampler(const SamplingOptions& options, std::int32_t vocab_size, PieceOf piece)
    : vocab_size_(vocab_size),
      top_k_(options.top_k < vocab_size ? options.top_k : 0),
      top_p_(options.top_p),
      repetition_penalty_(options.repetition_penalty),
      inverse_penalty_(inverse_penalty(options.repetition_penalty)),
      presence_penalty_(options.presence_penalty),
      frequency_penalty_(options.frequency_penalty),
      seed_(options.seed),
      bias_(options.logit_bias.begin(), options.logit_bias.end()),
      dry_(options, vocab_size, piece),
      ngram_(static_cast<std::size_t>(options.no_repeat_ngram)) {
  const auto vocab = static_cast<std::size_t>(vocab_size);
  if (!options.banned_texts.empty()) banned_ = BannedTexts(options.banned_texts, vocab_size, piece);
  if (needs_chain(options)) {
    set_chain(options);
  } else if (options.temperature > 0.0F) {
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
  if (penalty_window_ > 0 || !bias_.empty() || dry_.on() || ngram_ > 0 || banned_.on() || general_)
    adjusted_.resize(vocab);
}

void Sampler::set_chain(const SamplingOptions& options) {
  general_ = true;
  mirostat_ = options.mirostat != 0;
  for (const ChainSampler sampler : order_of(options)) {
    if (!mirostat_ || goes_with_mirostat(sampler)) chain_.push_back(sampler);
  }
  list_ = Candidates(static_cast<std::size_t>(vocab_size_));
  temperature_ = options.temperature;
  dynatemp_range_ = options.dynatemp_range;
  dynatemp_exponent_ = options.dynatemp_exponent;
  top_n_sigma_ = options.top_n_sigma;
  typical_p_ = options.typical_p;
  min_p_ = options.min_p;
  xtc_probability_ = options.xtc_probability;
  xtc_threshold_ = options.xtc_threshold;
  tau_ = options.mirostat_tau;
  eta_ = options.mirostat_eta;
  mu_ = 2.0F * tau_;
}

std::span<const float> Sampler::adjust(std::span<const float> logits,
                                       std::span<const TokenId> recent, const TokenMask* mask) {
  if (adjusted_.empty() && mask == nullptr) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  if (mask != nullptr) forbid_others(*mask, adjusted_);
  for (const auto& [token, bias] : bias_) adjusted_[static_cast<std::size_t>(token)] += bias;
  if (ngram_ > 0) forbid_repeated_ngrams(ngram_, recent, adjusted_);
  banned_.apply(recent, adjusted_);
  if (!general_) {
    if (penalty_window_ > 0) penalise(recent);
    dry_.apply(recent, adjusted_);
  }
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
    logit *= logit > 0.0F ? inverse_penalty_ : repetition_penalty_;
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
  const std::uint64_t wanted = share_of(total, share_units(top_p_));
  const NucleusCut nucleus =
      nucleus_cut(candidates_, std::clamp<std::uint64_t>(wanted, 1, total), scratch_);
  cut_ = nucleus.weight;
  const std::uint64_t ties =
      (sum_at_least(candidates_, cut_) - sum_at_least(candidates_, cut_ + 1)) / cut_;
  if (ties == nucleus.ties) return;
  std::uint64_t kept = 0;
  for (std::uint32_t& weight : std::span(weights_).first(candidates_.size())) {
    if (weight == cut_ && ++kept > nucleus.ties) weight = 0;
  }
}

// Penalties or DRY, as the logits stand at this place of the chain.
void Sampler::change_logits(ChainSampler sampler, std::span<const TokenId> recent) {
  const bool penalties = sampler == ChainSampler::penalties;
  if (penalties ? penalty_window_ == 0 : !dry_.on()) return;
  if (const float inverse = list_.inverse_temperature(); inverse != 1.0F) {
    for (const TokenId id : list_.ids()) adjusted_[static_cast<std::size_t>(id)] *= inverse;
    list_.forget_temperature();
  }
  if (penalties) {
    penalise(recent);
  } else {
    dry_.apply(recent, adjusted_);
  }
  list_.reread(adjusted_);
}

void Sampler::run(ChainSampler sampler, std::span<const TokenId> recent, std::uint64_t position) {
  switch (sampler) {
    case ChainSampler::penalties:
    case ChainSampler::dry:
      return change_logits(sampler, recent);
    case ChainSampler::top_n_sigma:
      if (top_n_sigma_ > 0.0F) list_.keep_top_n_sigma(top_n_sigma_);
      return;
    case ChainSampler::temperature:
      return list_.heat(
          dynatemp_range_ > 0.0F
              ? list_.dynamic_temperature(temperature_, dynatemp_range_, dynatemp_exponent_)
              : temperature_);
    case ChainSampler::top_k:
      return list_.keep_top_k(static_cast<std::size_t>(top_k_));
    case ChainSampler::typical:
      if (typical_p_ < 1.0F) list_.keep_typical(typical_p_);
      return;
    case ChainSampler::top_p:
      if (top_p_ < 1.0F) list_.keep_top_p(top_p_);
      return;
    case ChainSampler::min_p:
      if (min_p_ > 0.0F) list_.keep_min_p(min_p_);
      return;
    case ChainSampler::xtc:
      if (happens(xtc_probability_, sampling_words(seed_, position)[1]))
        list_.exclude_top_choices(xtc_threshold_);
      return;
  }
}

// list_ <- what the chain leaves of adjusted_; empty if nothing can be chosen.
void Sampler::run_chain(std::span<const TokenId> recent, std::uint64_t position) {
  list_.begin(adjusted_);
  for (const ChainSampler sampler : chain_) {
    if (list_.size() == 0) return;
    run(sampler, recent, position);
  }
  if (mirostat_ && list_.size() > 0) list_.keep_unsurprising(double{mu_});
}

Result<TokenId> Sampler::prepare(std::span<const float> logits, std::span<const TokenId> recent,
                                 std::uint64_t position, const TokenMask* mask) {
  if (logits.size() != static_cast<std::size_t>(vocab_size_)) {
    return fail(ErrorCode::invalid_argument, "got ", logits.size(), " logits, expected ",
                vocab_size_);
  }
  logits = adjust(logits, recent, mask);
  const auto nothing = [this] {
    return fail(ErrorCode::invalid_argument, "no token can be chosen: all ", vocab_size_,
                " logits are -inf or not a number");
  };
  if (general_) {
    run_chain(recent, position);
    if (list_.size() == 0) return nothing();
    candidates_ = list_.weights();
    cut_ = 1;
    return list_.size() == 1 ? list_.ids()[0] : kDraw;
  }
  const float max = max_logit(logits);
  if (max == -std::numeric_limits<float>::infinity()) return nothing();
  if (inverse_temperature_ == 0.0F || std::isinf(max)) {
    return static_cast<TokenId>(find_from(logits, 0, [max](float logit) { return logit == max; }));
  }
  if (top_k_ > 0) {
    keep_top_k(logits);
    logits = top_logits_;
  }
  const std::span<std::uint32_t> weights = std::span(weights_).first(logits.size());
  token_weights(logits, max, inverse_temperature_, weights);
  candidates_ = weights;
  cut_ = 1;
  if (top_p_ < 1.0F) apply_top_p();
  cut_ = std::max(cut_, min_weight_);
  return kDraw;
}

TokenId Sampler::token_at(std::size_t index) const {
  if (general_) return list_.ids()[index];
  return top_k_ > 0 ? ids_[index] : static_cast<TokenId>(index);
}

Result<TokenId> Sampler::sample(std::span<const float> logits, std::span<const TokenId> recent,
                                std::uint64_t position, const TokenMask* mask) {
  RUNNEL_TRY(const TokenId certain, prepare(logits, recent, position, mask));
  surprise_ = 0.0F;
  if (certain != kDraw) return certain;
  const std::uint64_t total = sum_at_least(candidates_, cut_);
  const std::size_t drawn =
      index_at(candidates_, cut_, draw_below(total, sampling_word(seed_, position)));
  if (mirostat_) {
    surprise_ = static_cast<float>(
        std::log2(static_cast<double>(total) / static_cast<double>(candidates_[drawn])));
  }
  return token_at(drawn);
}

void Sampler::took() {
  if (mirostat_) mu_ -= eta_ * (surprise_ - tau_);
}

Result<std::vector<std::pair<TokenId, double>>> Sampler::distribution(
    std::span<const float> logits, std::span<const TokenId> recent, std::uint64_t position,
    const TokenMask* mask) {
  RUNNEL_TRY(const TokenId certain, prepare(logits, recent, position, mask));
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
