// SPDX-License-Identifier: Apache-2.0
// Sums in eight fixed lanes: an order of additions that vectorises and is the same on every CPU.
#pragma once

namespace runnel::quant {

/// Adds term(i) for i in [0, n), n a multiple of 8.
template <class Term>
inline float lane_sum(int n, Term term) {
  float lanes[8] = {};
  for (int i = 0; i < n; i += 8) {
    for (int j = 0; j < 8; ++j) lanes[j] += term(i + j);
  }
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

}  // namespace runnel::quant
