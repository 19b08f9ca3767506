// SPDX-License-Identifier: Apache-2.0
// Text that knows where it came from: what a chat's layout wrote, and what its messages said.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"

namespace runnel {

/// The mark of a character that was given (by a message, a tool) rather than written by a layout: special tokens are
/// looked for in the latter alone, so that no message can forge them.
constexpr char32_t kGiven = char32_t{1} << 31;
constexpr char32_t code_point(char32_t c) { return c & ~kGiven; }

/// Characters are equal whatever their marks.
struct MarkedCharacters : std::char_traits<char32_t> {
  static constexpr bool eq(char32_t a, char32_t b) { return code_point(a) == code_point(b); }
  static constexpr bool lt(char32_t a, char32_t b) { return code_point(a) < code_point(b); }
  static constexpr int compare(const char32_t* a, const char32_t* b, std::size_t n) {
    const auto [x, y] = std::mismatch(a, a + n, b, eq);
    if (x == a + n) return 0;
    return lt(*x, *y) ? -1 : 1;
  }
  static constexpr const char32_t* find(const char32_t* text, std::size_t n, const char32_t& c) {
    const auto* const found = std::find_if(text, text + n, [c](char32_t x) { return eq(x, c); });
    return found == text + n ? nullptr : found;
  }
};

/// Characters, each with its mark. A byte of no character is one of U+DC80 to U+DCFF.
using MarkedText = std::basic_string<char32_t, MarkedCharacters>;

MarkedText marked_text(std::string_view utf8, bool given = false);
std::string bytes_of(const MarkedText& text);
/// Which bytes of bytes_of(text) were given: ascending, never empty, never touching.
std::vector<ByteRange> given_in(const MarkedText& text);

}  // namespace runnel
