// SPDX-License-Identifier: Apache-2.0
// How far two vectors are apart. NaN never passes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace runnel::test {

/// max |a - b| / max |b|; infinity if sizes differ or anything is not finite.
template <class A, class B>
double max_relative_error(const A& actual, const B& expected) {
  if (std::size(actual) != std::size(expected)) return std::numeric_limits<double>::infinity();
  double largest = 0.0;
  double difference = 0.0;
  auto e = std::begin(expected);
  for (auto a = std::begin(actual); a != std::end(actual); ++a, ++e) {
    const double x = static_cast<double>(*a);
    const double y = static_cast<double>(*e);
    if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::fabs(y));
    difference = std::max(difference, std::fabs(x - y));
  }
  return largest > 0.0 ? difference / largest : difference;
}

/// ||a - b|| / ||b||; infinity if sizes differ or anything is not finite.
template <class A, class B>
double rms_relative_error(const A& actual, const B& expected) {
  if (std::size(actual) != std::size(expected)) return std::numeric_limits<double>::infinity();
  double difference = 0.0;
  double norm = 0.0;
  auto e = std::begin(expected);
  for (auto a = std::begin(actual); a != std::end(actual); ++a, ++e) {
    const double x = static_cast<double>(*a);
    const double y = static_cast<double>(*e);
    if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return norm > 0.0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

}  // namespace runnel::test
