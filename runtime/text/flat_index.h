// SPDX-License-Identifier: Apache-2.0
// Two flat hash tables for tokenizers: text → index, and pair of tokens → merge. Built once, then only read.
#pragma once

#include <xxhash.h>

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/types.h"

namespace runnel {

/// Longest run of full slots that a table accepts: tables are at most half full, so ordinary entries stay far below
/// it, and entries made to collide cause an error instead of quadratic time.
constexpr std::size_t kMaxProbes = 512;

/// Index of each string of a vector, which must outlive this.
class StringIndex {
 public:
  enum class Added { yes, duplicate, degenerate };

  explicit StringIndex(const std::vector<std::string>& strings)
      : strings_(&strings), slots_(std::bit_ceil(strings.size() * 2 + 2), 0) {}

  Added add(std::size_t index) {
    const std::string_view text = (*strings_)[index];
    std::size_t slot = hash(text);
    for (std::size_t probes = 0; probes < kMaxProbes; ++probes, ++slot) {
      std::uint32_t& entry = slots_[slot & (slots_.size() - 1)];
      if (entry == 0) {
        entry = static_cast<std::uint32_t>(index) + 1;
        return Added::yes;
      }
      if ((*strings_)[entry - 1] == text) return Added::duplicate;
    }
    return Added::degenerate;
  }

  /// An index of strings that are known to be distinct.
  static StringIndex of(const std::vector<std::string>& strings) {
    StringIndex index(strings);
    for (std::size_t i = 0; i < strings.size(); ++i) index.add(i);
    return index;
  }

  TokenId find(std::string_view text) const {  // -1 if absent
    std::size_t slot = hash(text);
    for (std::size_t probes = 0; probes < kMaxProbes; ++probes, ++slot) {
      const std::uint32_t entry = slots_[slot & (slots_.size() - 1)];
      if (entry == 0) break;
      if ((*strings_)[entry - 1] == text) return static_cast<TokenId>(entry - 1);
    }
    return -1;
  }

 private:
  static std::size_t hash(std::string_view text) {
    return static_cast<std::size_t>(XXH3_64bits(text.data(), text.size()));
  }
  const std::vector<std::string>* strings_;
  std::vector<std::uint32_t> slots_;  // index + 1; 0: free
};

/// The token that a pair of neighbouring tokens merges into, and its rank.
struct Merge {
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  std::uint32_t rank = kNone;  // lower goes first
  TokenId token = -1;
};

/// Merges by pair of tokens.
class MergeTable {
 public:
  MergeTable() = default;
  explicit MergeTable(std::size_t merges) : slots_(std::bit_ceil(merges * 2 + 2)) {}

  enum class Added { yes, duplicate, degenerate };
  Added add(TokenId left, TokenId right, Merge merge) {
    const std::uint64_t key = key_of(left, right);
    std::size_t slot = hash(key);
    for (std::size_t probes = 0; probes < kMaxProbes; ++probes, ++slot) {
      Slot& entry = slots_[slot & (slots_.size() - 1)];
      if (entry.key == kFree) {
        entry = {key, merge};
        return Added::yes;
      }
      if (entry.key == key) return Added::duplicate;
    }
    return Added::degenerate;
  }

  Merge find(TokenId left, TokenId right) const {  // rank kNone if the pair does not merge
    const std::uint64_t key = key_of(left, right);
    std::size_t slot = hash(key);
    for (std::size_t probes = 0; probes < kMaxProbes; ++probes, ++slot) {
      const Slot& entry = slots_[slot & (slots_.size() - 1)];
      if (entry.key == key) return entry.merge;
      if (entry.key == kFree) break;
    }
    return {};
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // ids are not negative
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  static std::size_t hash(std::uint64_t key) {
    const std::uint64_t mixed = key * 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio
    return static_cast<std::size_t>((mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15U >> 20);
  }
  std::vector<Slot> slots_ = std::vector<Slot>(2);
};

}  // namespace runnel
