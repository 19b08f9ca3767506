// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/dry.h"

#include <algorithm>
#include <utility>

namespace runnel {

Dry::Dry(const SamplingOptions& options, std::int32_t vocab_size, PieceOf piece)
    : multiplier_(options.dry_multiplier),
      base_(options.dry_base),
      allowed_(static_cast<std::size_t>(options.dry_allowed_length)),
      range_(static_cast<std::size_t>(options.dry_range)),
      breakers_(options.dry_breakers),
      piece_(std::move(piece)) {
  if (!on()) return;
  known_.resize(static_cast<std::size_t>(vocab_size));
  longest_.resize(known_.size());
  matches_.resize(range_);
}

bool Dry::is_breaker(TokenId token) {
  if (token < 0 || static_cast<std::size_t>(token) >= known_.size()) return true;
  Known& known = known_[static_cast<std::size_t>(token)];
  if (known == Known::unknown) {
    const std::string_view text = piece_ ? piece_(token) : std::string_view();
    const bool breaks = std::ranges::any_of(breakers_, [text](const std::string& breaker) {
      return text.find(breaker) != std::string_view::npos;
    });
    known = breaks ? Known::breaker : Known::text;
  }
  return known == Known::breaker;
}

/// matches_[i], i >= 1: how many tokens before the last i are the same, one by one backwards, as the last ones of all.
/// The Z function (Gusfield, Algorithms on Strings, 1.4) of the tokens read backwards.
void Dry::match_ends(std::span<const TokenId> tokens) {
  const std::size_t n = tokens.size();
  const auto back = [&](std::size_t i) { return tokens[n - 1 - i]; };
  std::size_t left = 0, right = 0;  // the match that reaches farthest back
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t length = 0;
    if (i < right) length = std::min<std::size_t>(right - i, matches_[i - left]);
    while (i + length < n && back(i + length) == back(length)) ++length;
    matches_[i] = static_cast<std::uint16_t>(length);
    if (i + length > right) left = i, right = i + length;
  }
}

void Dry::apply(std::span<const TokenId> generated, std::span<float> logits) {
  if (!on()) return;
  const std::span<const TokenId> tokens = generated.last(std::min(range_, generated.size()));
  const std::size_t n = tokens.size();
  std::size_t limit = 0;  // tokens at the end without a breaker
  while (limit < n && !is_breaker(tokens[n - 1 - limit])) ++limit;
  if (limit < allowed_) return;

  match_ends(tokens);
  for (std::size_t i = 1; i < n; ++i) {
    const std::size_t length = std::min<std::size_t>(matches_[i], limit);
    const TokenId next = tokens[n - i];  // what followed there
    if (length < allowed_ || is_breaker(next)) continue;
    std::uint16_t& longest = longest_[static_cast<std::size_t>(next)];
    longest = std::max(longest, static_cast<std::uint16_t>(length));
  }
  constexpr float kMost = 1e30F;  // forbids as well as any larger number, and stays finite
  for (std::size_t i = 1; i < n; ++i) {
    const TokenId next = tokens[n - i];
    if (is_breaker(next)) continue;
    std::uint16_t& longest = longest_[static_cast<std::size_t>(next)];
    if (longest == 0) continue;
    // Multiplied out, so that the result is the same on every machine.
    float penalty = std::min(multiplier_, kMost);
    for (std::size_t k = allowed_; k < longest && penalty < kMost; ++k) {
      penalty = std::min(penalty * base_, kMost);
    }
    logits[static_cast<std::size_t>(next)] -= penalty;
    longest = 0;
  }
}

}  // namespace runnel
