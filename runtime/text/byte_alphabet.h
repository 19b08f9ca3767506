// SPDX-License-Identifier: Apache-2.0
// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace runnel {

/// Printable Latin-1 bytes stand for themselves; the other 68, in order, for U+0100 and on ("Ġ" is the space).
class ByteAlphabet {
 public:
  ByteAlphabet();

  /// Appends the character that spells `byte`.
  void spell(std::uint8_t byte, std::string& out) const;

  /// Appends the bytes that `spelled` (UTF-8) stands for; false, with `out` as it was, if some
  /// character of it stands for none.
  bool read(std::string_view spelled, std::string& out) const;

 private:
  std::array<std::uint16_t, 256> code_points_{};
  std::array<std::int16_t, 324> bytes_{};  // by code point; -1: spells nothing
};

}  // namespace runnel
