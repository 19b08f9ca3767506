// SPDX-License-Identifier: Apache-2.0
// A text is cut into segments before every character that joins to nothing before it; each segment is decomposed, its
// marks are sorted by combining class, and neighbours are composed again.
#include "runtime/text/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "runtime/text/nfc_table.h"
#include "runtime/text/utf8.h"

namespace runnel {
namespace {

constexpr std::uint32_t kMask = (1U << 21) - 1;
constexpr std::uint64_t kPairMask = (std::uint64_t{1} << 42) - 1;

// Hangul syllables are made by arithmetic: leading consonant, vowel, trailing consonant.
constexpr std::uint32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7;
constexpr std::uint32_t kNumLeads = 19, kNumVowels = 21, kNumTrails = 28;  // trails: one is "none"
constexpr std::uint32_t kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

/// Whether the character is a plain starter, and its combining class if it is not.
struct Joining {
  bool joins = false;  // to what stands before it, or it changes by itself
  std::uint8_t kind = 0;
};

Joining joining(std::uint32_t c) {
  if (c < 0x300 || (nfc::kPages[c >> 14] >> (c >> 8 & 63) & 1) == 0) return {};
  const std::uint64_t key = std::uint64_t{c} << 32 | 0xFFFFFFFFU;
  const auto* run = std::upper_bound(std::begin(nfc::kJoining), std::end(nfc::kJoining), key);
  if (run == std::begin(nfc::kJoining)) return {};
  --run;
  const std::uint64_t first = *run >> 32, length = *run >> 8 & 0xFFFFFF;
  if (c >= first + length) return {};
  return {true, static_cast<std::uint8_t>(*run)};
}

/// A character with its combining class in the upper bits.
using Mark = std::uint32_t;
std::uint32_t character(Mark mark) { return mark & kMask; }
std::uint32_t kind(Mark mark) { return mark >> 24; }
Mark marked(std::uint32_t c) { return c | static_cast<std::uint32_t>(joining(c).kind) << 24; }

void decompose(std::uint32_t c, std::vector<Mark>& out) {
  if (c >= kSyllables && c < kSyllables + kNumSyllables) {
    const std::uint32_t index = c - kSyllables;
    out.push_back(kLeads + index / (kNumVowels * kNumTrails));
    out.push_back(kVowels + index / kNumTrails % kNumVowels);
    if (index % kNumTrails != 0) out.push_back(kTrails + index % kNumTrails);
    return;
  }
  const std::uint64_t key = std::uint64_t{c} << 42;
  const auto* entry =
      std::lower_bound(std::begin(nfc::kDecompositions), std::end(nfc::kDecompositions), key);
  if (entry == std::end(nfc::kDecompositions) || *entry >> 42 != c) {
    out.push_back(marked(c));
    return;
  }
  // Only the first of a pair decomposes further, at most three times.
  decompose(static_cast<std::uint32_t>(*entry >> 21) & kMask, out);
  const std::uint32_t second = static_cast<std::uint32_t>(*entry) & kMask;
  if (second != 0) out.push_back(marked(second));
}

/// The character that the two make, 0 if none.
std::uint32_t composed(std::uint32_t first, std::uint32_t second) {
  if (first >= kLeads && first < kLeads + kNumLeads && second >= kVowels &&
      second < kVowels + kNumVowels) {
    return kSyllables + ((first - kLeads) * kNumVowels + second - kVowels) * kNumTrails;
  }
  if (first >= kSyllables && first < kSyllables + kNumSyllables &&
      (first - kSyllables) % kNumTrails == 0 && second > kTrails && second < kTrails + kNumTrails) {
    return first + second - kTrails;
  }
  const std::uint64_t pair = std::uint64_t{first} << 21 | second;
  const auto pair_of = [](std::uint16_t index) { return nfc::kDecompositions[index] & kPairMask; };
  const auto* found = std::lower_bound(
      std::begin(nfc::kCompositions), std::end(nfc::kCompositions), pair,
      [&](std::uint16_t index, std::uint64_t wanted) { return pair_of(index) < wanted; });
  if (found == std::end(nfc::kCompositions) || pair_of(*found) != pair) return 0;
  return static_cast<std::uint32_t>(nfc::kDecompositions[*found] >> 42);
}

/// Sorts each run of marks by class; marks of one class keep their order.
void sort_marks(std::vector<Mark>& marks) {
  for (auto at = marks.begin(); at != marks.end();) {
    const auto is_mark = [](Mark m) { return kind(m) != 0; };
    const auto first = std::find_if(at, marks.end(), is_mark);
    at = std::find_if_not(first, marks.end(), is_mark);
    const auto by_kind = [](Mark a, Mark b) { return kind(a) < kind(b); };
    if (!std::is_sorted(first, at, by_kind)) std::stable_sort(first, at, by_kind);
  }
}

/// Composes in place.
void compose(std::vector<Mark>& marks) {
  std::size_t kept = 0;
  std::size_t starter = marks.size();  // none
  std::uint32_t last = 0;  // class of what stands between starter and here, if something does
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Mark mark = marks[i];
    const bool adjacent = starter < kept && starter + 1 == kept;
    if (starter < kept && (adjacent || last < kind(mark))) {
      if (const std::uint32_t c = composed(character(marks[starter]), character(mark)); c != 0) {
        marks[starter] = c;
        continue;
      }
    }
    last = kind(mark);
    if (last == 0) starter = kept;
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

}  // namespace

std::string_view normalise_nfc(std::string_view text, std::string& storage) {
  // The segment that is open: where it starts, and whether it has more than its first character.
  std::size_t start = 0;
  bool joined = false;
  std::size_t copied = 0;  // bytes of `text` that are in `storage`
  std::vector<Mark> marks;
  storage.clear();
  const auto close = [&](std::size_t end) {
    if (!joined) return;
    const std::string_view segment = text.substr(start, end - start);
    marks.clear();
    for (std::size_t i = 0; i < segment.size();) {
      const Utf8Step step = utf8_step(segment.substr(i));
      decompose(step.code_point, marks);
      i += step.length;
    }
    sort_marks(marks);
    compose(marks);
    std::string changed;
    for (const Mark mark : marks) append_utf8(changed, character(mark));
    if (changed == segment) return;
    storage.append(text.substr(copied, start - copied));
    storage += changed;
    copied = end;
  };
  for (std::size_t at = 0; at < text.size();) {
    // Everything below U+0300 is a plain starter.
    const auto lead = static_cast<std::uint8_t>(text[at]);
    if (lead < 0xCC) {
      close(at);
      start = at;
      joined = false;
      at += lead < 0x80 ? 1 : 2;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (joining(step.code_point).joins) {
      joined = true;
    } else {
      close(at);
      start = at;
      joined = false;
    }
    at += step.length;
  }
  close(text.size());
  if (copied == 0) return text;
  storage.append(text.substr(copied));
  return storage;
}

}  // namespace runnel
