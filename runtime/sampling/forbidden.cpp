// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/forbidden.h"

#include <algorithm>
#include <array>
#include <limits>

namespace runnel {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void forbid(TokenId token, std::span<float> logits) {
  if (token >= 0 && static_cast<std::size_t>(token) < logits.size())
    logits[static_cast<std::size_t>(token)] = kNever;
}

}  // namespace

void forbid_repeated_ngrams(std::size_t n, std::span<const TokenId> generated,
                            std::span<float> logits) {
  constexpr std::size_t kWindow = SamplingOptions::kMaxPenaltyWindow;
  generated = generated.last(std::min(kWindow, generated.size()));
  if (n == 0 || generated.size() < n) return;
  const std::span<const TokenId> begun = generated.last(n - 1);
  for (std::size_t i = 0; i + n <= generated.size(); ++i) {
    const std::span<const TokenId> earlier = generated.subspan(i, n - 1);
    if (std::equal(begun.begin(), begun.end(), earlier.begin()))
      forbid(generated[i + n - 1], logits);
  }
}

void forbid_others(const TokenMask& mask, std::span<float> logits) {
  const std::span<const std::uint32_t> words = mask.words();
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == ~0U) continue;
    const std::size_t begin = i * TokenMask::kWordBits;
    const std::size_t end = std::min(begin + TokenMask::kWordBits, logits.size());
    for (std::size_t t = begin; t < end; ++t) {
      if (((words[i] >> (t - begin)) & 1U) == 0) logits[t] = kNever;
    }
  }
}

BannedTexts::BannedTexts(const std::vector<std::string>& texts, std::int32_t vocab_size,
                         const PieceOf& piece)
    : piece_(piece) {
  std::array<bool, 256> goes_on{};  // bytes that the rest of a text may begin with
  for (const std::string& text : texts) {
    Pattern pattern{.text = text, .border = std::vector<std::size_t>(text.size() + 1)};
    std::size_t matched = 0;
    for (std::size_t n = 1; n < text.size(); ++n) {
      while (matched > 0 && text[matched] != text[n]) matched = pattern.border[matched];
      if (text[matched] == text[n]) ++matched;
      pattern.border[n + 1] = matched;
      goes_on[static_cast<unsigned char>(text[n])] = true;
    }
    longest_ = std::max(longest_, text.size());
    patterns_.push_back(std::move(pattern));
  }
  if (patterns_.empty()) return;
  for (TokenId token = 0; token < vocab_size; ++token) {
    const std::string_view own = piece_(token);
    if (own.empty()) continue;
    if (std::ranges::any_of(texts, [own](const std::string& text) {
          return own.find(text) != std::string_view::npos;
        })) {
      containing_.push_back(token);
    } else if (goes_on[static_cast<unsigned char>(own[0])]) {
      sorted_.push_back(token);
    }
  }
  std::sort(sorted_.begin(), sorted_.end(),
            [this](TokenId a, TokenId b) { return piece_(a) < piece_(b); });
}

void BannedTexts::read_tail(std::span<const TokenId> generated) {
  std::size_t first = generated.size(), bytes = 0;
  while (first > 0 && bytes + 1 < longest_) bytes += piece_(generated[--first]).size();
  tail_.clear();
  for (const TokenId token : generated.subspan(first)) tail_ += piece_(token);
}

void BannedTexts::forbid_beginnings(std::string_view rest, std::span<float> logits) const {
  auto at = std::lower_bound(
      sorted_.begin(), sorted_.end(), rest,
      [this](TokenId token, std::string_view text) { return piece_(token) < text; });
  for (; at != sorted_.end() && piece_(*at).starts_with(rest); ++at) forbid(*at, logits);
}

void BannedTexts::apply(std::span<const TokenId> generated, std::span<float> logits) {
  if (!on()) return;
  for (const TokenId token : containing_) forbid(token, logits);
  read_tail(generated);
  for (const Pattern& p : patterns_) {
    std::size_t matched = 0;  // of the text's beginning, at the end of what was read
    for (const char next : tail_) {
      if (matched == p.text.size()) matched = p.border[matched];
      while (matched > 0 && p.text[matched] != next) matched = p.border[matched];
      if (p.text[matched] == next) ++matched;
    }
    // A text that stands there whole came from elsewhere: a prompt, or before it was banned.
    if (matched == p.text.size()) matched = p.border[matched];
    for (; matched > 0; matched = p.border[matched])
      forbid_beginnings(std::string_view(p.text).substr(matched), logits);
  }
}

}  // namespace runnel
