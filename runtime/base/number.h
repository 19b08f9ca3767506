// SPDX-License-Identifier: Apache-2.0
// Numbers from text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace runnel {

/// The number that is all of `text`, if it is one that a T holds: no white space, no + before it. `base`: for integers,
/// 10 if left out.
template <class T, class... Base>
std::optional<T> number_in(std::string_view text, Base... base) {
  T number{};
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, number, base...);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

}  // namespace runnel
