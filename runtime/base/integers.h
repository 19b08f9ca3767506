// SPDX-License-Identifier: Apache-2.0
// Rounding of counts and sizes: nothing here overflows while its result fits.
#pragma once

#include <bit>
#include <concepts>
#include <type_traits>

namespace runnel {

/// ceil(n / by);  n >= 0, by > 0.
template <std::integral N, std::integral By>
constexpr std::common_type_t<N, By> divide_up(N n, By by) {
  using T = std::common_type_t<N, By>;
  const T value = static_cast<T>(n), divisor = static_cast<T>(by);
  return static_cast<T>(value / divisor + (value % divisor != 0 ? 1 : 0));
}

/// The least multiple of `to` that is at least n;  n >= 0, to > 0.
template <std::integral N, std::integral To>
constexpr std::common_type_t<N, To> round_up(N n, To to) {
  using T = std::common_type_t<N, To>;
  return static_cast<T>(divide_up(n, to) * static_cast<T>(to));
}

template <std::integral N>
constexpr bool is_power_of_two(N n) {
  return n > 0 && std::has_single_bit(static_cast<std::make_unsigned_t<N>>(n));
}

/// floor(log2(n));  n > 0.
template <std::integral N>
constexpr int log2_floor(N n) {
  return static_cast<int>(std::bit_width(static_cast<std::make_unsigned_t<N>>(n))) - 1;
}

}  // namespace runnel
