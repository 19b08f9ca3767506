// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace runnel {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// What is likelier comes first, of equals the lower id.
bool before(const TokenLogprob& a, const TokenLogprob& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
}

// Keeps the `top` first of what it is given in any order.
class Best {
 public:
  explicit Best(std::size_t top) : top_(top) { kept_.reserve(top + 1); }

  void offer(const TokenLogprob& one) {
    if (kept_.size() == top_ && (top_ == 0 || !before(one, kept_.back()))) return;
    kept_.insert(std::upper_bound(kept_.begin(), kept_.end(), one, before), one);
    if (kept_.size() > top_) kept_.pop_back();
  }
  std::vector<TokenLogprob> take() { return std::move(kept_); }

 private:
  std::size_t top_;
  std::vector<TokenLogprob> kept_;
};

}  // namespace

TokenLogprobs token_logprobs(std::span<const float> logits, TokenId chosen, std::size_t top) {
  float most = kNever;
  for (const float logit : logits) most = logit > most ? logit : most;  // NaN is never greater
  double sum = 0;
  for (const float logit : logits)
    if (logit > kNever) sum += std::exp(double{logit} - double{most});
  const bool certain = std::isinf(most);  // +inf, or nothing can come
  const double shift = std::log(sum) + double{most};
  const auto first = std::find(logits.begin(), logits.end(), most) - logits.begin();
  const auto logprob = [&](std::size_t i) {
    if (certain) return most > 0 && static_cast<std::ptrdiff_t>(i) == first ? 0.0F : kNever;
    return logits[i] > kNever ? static_cast<float>(double{logits[i]} - shift) : kNever;
  };
  Best best(std::min(top, logits.size()));
  for (std::size_t i = 0; top > 0 && i < logits.size(); ++i)
    best.offer({static_cast<TokenId>(i), logprob(i)});
  return {{chosen, logprob(static_cast<std::size_t>(chosen))}, best.take()};
}

TokenLogprobs token_logprobs(std::span<const std::pair<TokenId, double>> distribution,
                             TokenId chosen, std::size_t top) {
  TokenLogprobs out{{chosen, kNever}, {}};
  Best best(std::min(top, distribution.size()));
  for (const auto& [token, probability] : distribution) {
    const TokenLogprob one{token, static_cast<float>(std::log(probability))};
    if (token == chosen) out.chosen = one;
    best.offer(one);
  }
  out.top = best.take();
  return out;
}

}  // namespace runnel
