// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/dry.h"

#include <algorithm>
#include <utility>

namespace runnel {

Dry::Dry(const SamplingOptions& options, std::int32_t vocab_size, PieceOf piece)
    : multiplier_(options.dry_multiplier),
      allowed_(static_cast<std::size_t>(options.dry_allowed_length)),
      range_(static_cast<std::size_t>(options.dry_range)),
      breakers_(options.dry_breakers),
      piece_(std::move(piece)) {
  if (!on()) return;
  known_.resize(static_cast<std::size_t>(vocab_size));
  longest_.resize(known_.size());
  lengths_.resize(range_);
  by_length_.resize(range_);
  losses_.reserve(std::min(range_, known_.size()));
  // Multiplied out, so that the numbers are the same on every machine.
  constexpr float kMost = 1e30F;  // forbids as well as any larger number, and stays finite
  float loss = std::min(multiplier_, kMost);
  for (std::size_t length = allowed_; length < range_; ++length) {
    by_length_[length] = loss;
    loss = std::min(loss * options.dry_base, kMost);
  }
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

std::vector<std::uint32_t> Dry::breaker_bits() {
  std::vector<std::uint32_t> bits((known_.size() + 31) / 32);
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (is_breaker(static_cast<TokenId>(i))) bits[i / 32] |= 1U << (i % 32);
  }
  return bits;
}

// The Z function (Gusfield, Algorithms on Strings, 1.4) of the tokens read backwards, up to a breaker.
std::span<const std::uint16_t> Dry::lengths(std::span<const TokenId> generated) {
  std::fill(lengths_.begin(), lengths_.end(), std::uint16_t{0});
  const std::span<const TokenId> tokens = generated.last(std::min(range_, generated.size()));
  const std::size_t n = tokens.size();
  const auto back = [&](std::size_t i) { return tokens[n - 1 - i]; };
  std::size_t limit = 0;  // tokens at the end without a breaker
  while (limit < n && !is_breaker(back(limit))) ++limit;
  std::size_t left = 0, right = 0;  // the match that reaches farthest back
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t length = 0;
    if (i < right) length = std::min<std::size_t>(right - i, lengths_[i - left]);
    while (length < limit && i + length < n && back(i + length) == back(length)) ++length;
    lengths_[i] = static_cast<std::uint16_t>(length);
    if (i + length > right) left = i, right = i + length;
  }
  return lengths_;
}

std::span<const Dry::Loss> Dry::losses(std::span<const TokenId> generated) {
  losses_.clear();
  if (!on()) return losses_;
  lengths(generated);
  const std::size_t n = std::min(range_, generated.size());
  const auto followed = [&](std::size_t i) { return generated[generated.size() - i]; };
  for (std::size_t i = 1; i < n; ++i) {
    if (lengths_[i] < allowed_ || is_breaker(followed(i))) continue;
    std::uint16_t& longest = longest_[static_cast<std::size_t>(followed(i))];
    longest = std::max(longest, lengths_[i]);
  }
  for (std::size_t i = 1; i < n; ++i) {
    if (lengths_[i] < allowed_ || is_breaker(followed(i))) continue;
    std::uint16_t& longest = longest_[static_cast<std::size_t>(followed(i))];
    if (longest == 0) continue;  // done at another place
    losses_.push_back({followed(i), by_length_[longest]});
    longest = 0;
  }
  return losses_;
}

void Dry::apply(std::span<const TokenId> generated, std::span<float> logits) {
  for (const Loss& l : losses(generated)) logits[static_cast<std::size_t>(l.token)] -= l.loss;
}

}  // namespace runnel
