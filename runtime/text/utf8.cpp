// SPDX-License-Identifier: Apache-2.0
// UTF-8 by the table of well-formed byte sequences (Unicode 15, table 3-7).
#include "runtime/text/utf8.h"

#include <cstring>

#include "runtime/base/number.h"

namespace runnel {

Utf8Step utf8_step(std::string_view bytes) {
  using Kind = Utf8Step::Kind;
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return {Kind::character, 1, lead};

  std::size_t length = 0;
  std::uint8_t low = 0x80;   // bounds of the second byte: they rule out overlong forms, surrogates
  std::uint8_t high = 0xBF;  // and code points past U+10FFFF
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Kind::invalid, 1, 0};
  }

  std::uint32_t code_point = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Kind::truncated, i, 0};
    const std::uint8_t byte = at(i);
    if (byte < low || byte > high) return {Kind::invalid, i, 0};
    code_point = code_point << 6 | (byte & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::character, length, code_point};
}

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    // Most text is ASCII: eight bytes at once while no top bit is set.
    std::uint64_t word = 0;
    if (text.size() - at >= sizeof word) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080U) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Step::Kind::character) return at;
    at += step.length;
  }
  return std::string_view::npos;
}

void append_utf8(std::string& out, std::uint32_t code_point) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80U | (code_point >> shift & 0x3FU)));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0U | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0U | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool append_utf8_of_digits(std::string& out, std::string_view digits) {
  const auto code = number_in<std::uint32_t>(digits, 16);
  if (!code || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) return false;
  append_utf8(out, *code);
  return true;
}

}  // namespace runnel
