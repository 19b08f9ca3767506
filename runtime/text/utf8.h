// SPDX-License-Identifier: Apache-2.0
// UTF-8, one character at a time: what is whole, what is cut short, what can never become a character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace runnel {

/// What stands at the start of some bytes.
struct Utf8Step {
  enum class Kind { character, truncated, invalid };
  Kind kind = Kind::invalid;
  /// character: its bytes (1 … 4); truncated: all that is there (1 … 3); invalid: the bytes that
  /// one U+FFFD replaces, which is the longest prefix of some character, at least 1 (Unicode 15,
  /// section 3.9, "maximal subpart").
  std::size_t length = 1;
  std::uint32_t code_point = 0;  // for a character
};

/// Looks at the first character of `bytes`, which must not be empty.
Utf8Step utf8_step(std::string_view bytes);

/// Offset of the first byte that does not belong to a whole character, or npos if `text` is UTF-8.
std::size_t first_invalid_utf8(std::string_view text);

/// Appends one character; `code_point` must be a Unicode scalar value.
void append_utf8(std::string& out, std::uint32_t code_point);
/// The same by its hexadecimal digits, as an escape has them. @return false if they are not those of one
bool append_utf8_of_digits(std::string& out, std::string_view digits);

}  // namespace runnel
