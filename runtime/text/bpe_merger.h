// SPDX-License-Identifier: Apache-2.0
// The merging loop of byte-pair encoding, and a small memory of words already merged in the same text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runnel/types.h"
#include "runtime/text/flat_index.h"

namespace runnel {

/// Merges the tokens of one word. Keeps its buffers from word to word; not thread-safe.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable& merges) : merges_(merges) {}

  /// Replaces tokens[first …] by the result of merging them: lowest rank first, leftmost of equals. O(n²) steps over
  /// n <= 64 tokens in registers and cache, O(n log n) beyond.
  void merge(std::vector<TokenId>& tokens, std::size_t first);

 private:
  void merge_short(std::vector<TokenId>& tokens, std::size_t first);
  void merge_long(std::vector<TokenId>& tokens, std::size_t first);

  static constexpr std::size_t kShort = 64;
  const MergeTable& merges_;
  Merge pairs_[kShort];  // of token i and i + 1

  struct Candidate {
    std::uint64_t order;  // rank · 2^32 + index of the left token: lower goes first
    bool operator<(const Candidate& other) const {
      return order > other.order;
    }  // max-heap → lowest on top
  };
  struct Link {
    std::uint32_t previous, next;  // indices into the word; kEnd: none
  };
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  std::vector<Candidate> heap_;
  std::vector<Link> links_;
};

/// Direct-mapped cache from word to where its tokens stand in the output of the same call. Lives as long as the text.
class WordCache {
 public:
  struct Entry {
    std::string_view word;  // in the text being encoded
    std::size_t first = 0;  // its tokens in the output
    std::uint32_t count = 0;
  };

  /// @param text_bytes  short texts repeat few words: they get a small cache.
  explicit WordCache(std::size_t text_bytes)
      : entries_(text_bytes < 512     ? 0
                 : text_bytes < 16384 ? 512
                                      : 8192) {}

  /// Where `word` is or would be; nullptr if it is not worth remembering.
  Entry* entry(std::string_view word) {
    if (entries_.empty() || word.size() > kLongest) return nullptr;
    return &entries_[static_cast<std::size_t>(XXH3_64bits(word.data(), word.size())) &
                     (entries_.size() - 1)];
  }

 private:
  static constexpr std::size_t kLongest = 64;
  std::vector<Entry> entries_;
};

}  // namespace runnel
