// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/text.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>

namespace runnel {
namespace {

// Length of the printable UTF-8 character at the start of `text`, 0 if there is none.
std::size_t printable_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;

  // Below these, shorter forms exist.
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const std::size_t length = byte(0) >> 5 == 0x6    ? 2
                             : byte(0) >> 4 == 0xe  ? 3
                             : byte(0) >> 3 == 0x1e ? 4
                                                    : 0;
  if (length == 0 || length > text.size()) return 0;
  std::uint32_t code = byte(0) & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2) return 0;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  const bool control = code >= 0x80 && code < 0xa0;
  return code >= kLeast[length] && code <= 0x10ffff && !surrogate && !control ? length : 0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  while (!text.empty() && out.size() < limit) {
    if (const std::size_t length = printable_character(text); length > 0) {
      out += text.substr(0, length);
      text.remove_prefix(length);
    } else {
      const auto byte = static_cast<std::uint8_t>(text.front());
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
      text.remove_prefix(1);
    }
  }
  if (!text.empty()) out += "...";
  return out;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kNameLimit = 64;
  return "'" + printable(name, kNameLimit) + "'";
}

std::string hexadecimal(std::uint64_t n) {
  char digits[16];
  return {digits, std::to_chars(digits, std::end(digits), n, 16).ptr};
}

}  // namespace runnel
