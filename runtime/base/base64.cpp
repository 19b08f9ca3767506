// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace runnel {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::uint8_t kNoDigit = 64;

// What each byte stands for as a digit.
constexpr std::array<std::uint8_t, 256> kValues = [] {
  std::array<std::uint8_t, 256> values = {};
  values.fill(kNoDigit);
  for (std::uint8_t i = 0; i < kNoDigit; ++i) values[static_cast<unsigned char>(kDigits[i])] = i;
  return values;
}();

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 3; ++i)
      word = word << 8 | (i < n ? std::to_integer<std::uint32_t>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) out += i <= n ? kDigits[word >> (18 - 6 * i) & 63U] : '=';
  }
  return out;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const std::string_view four = text.substr(at, 4);
    const bool last = at + 4 == text.size();
    const std::size_t padding = !last || four[3] != '=' ? 0 : four[2] == '=' ? 2 : 1;
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint32_t digit =
          i < 4 - padding ? kValues[static_cast<unsigned char>(four[i])] : 0;
      if (digit == kNoDigit) return std::nullopt;
      word = word << 6 | digit;
    }
    if ((word & ((1U << (8 * padding)) - 1)) != 0) return std::nullopt;  // bits of no byte
    for (std::size_t i = 0; i + padding < 3; ++i)
      bytes.push_back(static_cast<std::byte>(word >> (16 - 8 * i) & 255U));
  }
  return bytes;
}

}  // namespace runnel
