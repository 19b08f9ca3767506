// SPDX-License-Identifier: Apache-2.0
// Text from files and users made safe to put into a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace runnel {

/// Bytes of a text from `begin` up to before `end`.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

/// `text` with control characters and bytes outside ASCII written as \xNN, cut after `limit` bytes
/// ("…" as "..."). Keeps terminals and logs safe from the names in a hostile file.
std::string printable(std::string_view text, std::size_t limit = 256);

/// The same between single quotes, cut after 64 bytes: a name inside a sentence. (Not "quoted":
/// that would find std::quoted.)
std::string in_quotes(std::string_view name);

/// `n` in lower-case hexadecimal digits, without zeros before them.
std::string hexadecimal(std::uint64_t n);

}  // namespace runnel
