// SPDX-License-Identifier: Apache-2.0
// Two loops with one result: a scan for words of ordinary length, a heap for very long ones.
#include "runtime/text/bpe_merger.h"

#include <algorithm>

namespace runnel {

void BpeMerger::merge(std::vector<TokenId>& tokens, std::size_t first) {
  const std::size_t n = tokens.size() - first;
  if (n < 2) return;
  if (n <= kShort) {
    merge_short(tokens, first);
  } else {
    merge_long(tokens, first);
  }
}

void BpeMerger::merge_short(std::vector<TokenId>& tokens, std::size_t first) {
  TokenId* word = tokens.data() + first;
  std::size_t n = tokens.size() - first;
  for (std::size_t i = 0; i + 1 < n; ++i) pairs_[i] = merges_.find(word[i], word[i + 1]);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (pairs_[i].rank < pairs_[best].rank) best = i;
    }
    if (pairs_[best].rank == Merge::kNone) break;
    word[best] = pairs_[best].token;
    std::copy(word + best + 2, word + n, word + best + 1);
    if (best + 2 < n) std::copy(pairs_ + best + 2, pairs_ + n - 1, pairs_ + best + 1);
    --n;
    if (best > 0) pairs_[best - 1] = merges_.find(word[best - 1], word[best]);
    if (best + 1 < n) pairs_[best] = merges_.find(word[best], word[best + 1]);
  }
  tokens.resize(first + n);
}

void BpeMerger::merge_long(std::vector<TokenId>& tokens, std::size_t first) {
  TokenId* word = tokens.data() + first;
  // < 2^30: Tokenizer::max_text()
  const auto n = static_cast<std::uint32_t>(tokens.size() - first);
  links_.resize(n);
  heap_.clear();
  const auto offer = [&](std::uint32_t left, std::uint32_t right) {
    const Merge merge = merges_.find(word[left], word[right]);
    if (merge.rank == Merge::kNone) return false;
    heap_.push_back({static_cast<std::uint64_t>(merge.rank) << 32 | left});
    return true;
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    links_[i] = {i == 0 ? kEnd : i - 1, i + 1 == n ? kEnd : i + 1};
    if (i + 1 < n) offer(i, i + 1);
  }
  std::make_heap(heap_.begin(), heap_.end());
  constexpr TokenId kGone = -1;  // merged into its left neighbour
  while (!heap_.empty()) {
    const std::uint64_t order = heap_.front().order;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    const auto left = static_cast<std::uint32_t>(order);
    const std::uint32_t right = links_[left].next;
    if (word[left] == kGone || right == kEnd) continue;
    // The pair may have changed since it was queued; its present form was queued separately.
    const Merge merge = merges_.find(word[left], word[right]);
    if (merge.rank != static_cast<std::uint32_t>(order >> 32)) continue;
    word[left] = merge.token;
    word[right] = kGone;
    const std::uint32_t after = links_[right].next;
    links_[left].next = after;
    if (after != kEnd) {
      links_[after].previous = left;
      if (offer(left, after)) std::push_heap(heap_.begin(), heap_.end());
    }
    if (const std::uint32_t before = links_[left].previous; before != kEnd) {
      if (offer(before, left)) std::push_heap(heap_.begin(), heap_.end());
    }
  }
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i != kEnd; i = links_[i].next) word[kept++] = word[i];
  tokens.resize(first + kept);
}

}  // namespace runnel
