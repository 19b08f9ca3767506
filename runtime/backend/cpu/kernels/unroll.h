// SPDX-License-Identifier: Apache-2.0
// Loops that are written out before the compiler decides what stays in registers: GCC unrolls a
// loop over an array of accumulators too late to keep them there.
#pragma once

#define RUNNEL_INLINE inline __attribute__((always_inline))
#define RUNNEL_INLINE_LAMBDA __attribute__((always_inline))

namespace runnel::cpu::RUNNEL_ISA {
namespace {

/// A number as a type.
template <int kValue>
struct Index {
  static constexpr int value = kValue;
  constexpr operator int() const { return kValue; }
};

/// f(Index<0>), …, f(Index<N - 1>)
template <int N, int kFirst = 0, class F>
RUNNEL_INLINE void unroll(const F& f) {
  if constexpr (kFirst < N) {
    f(Index<kFirst>{});
    unroll<N, kFirst + 1>(f);
  }
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
