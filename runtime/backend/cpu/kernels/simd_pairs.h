// SPDX-License-Identifier: Apache-2.0
// Products of four bytes on registers without an instruction for them, in 16 bits where sums fit.
// Included by simd_avx2.h and simd_avx512.h behind what it is written with: pair_products(w, a) is
// w[2i] a[2i] + w[2i + 1] a[2i + 1] for unsigned w and signed a, add_pairs adds such values, and
// add_wide<kFactor>(acc, pairs) adds neighbours of them times kFactor to 32 bits.
#pragma once

#include "runtime/backend/cpu/kernels/unroll.h"

namespace runnel::cpu::RUNNEL_ISA {
namespace {

template <int kMax>
inline I dot_step(I acc, B w, B a) {
  return add_wide<1>(acc, pair_products(w, a));
}
// Pairs of products stay in 16 bits: 8 steps of codes below 16, 4 of codes below 32, or 2 of codes below 64. Codes up
// to 255 go as two halves.
template <int kMax, int kSteps>
inline I dot(I acc, const B* w, const int8_t* a) {
  if constexpr (kMax == 31 || kMax == 63) {
    constexpr int kTogether = kMax == 31 ? 4 : 2;
    static_assert(kSteps % kTogether == 0);
    for (int s = 0; s < kSteps; s += kTogether) {
      I sum = pair_products(w[s], four(a + 4 * s));
      for (int i = 1; i < kTogether; ++i)
        sum = add_pairs(sum, pair_products(w[s + i], four(a + 4 * (s + i))));
      acc = add_wide<1>(acc, sum);
    }
    return acc;
  } else {
    I low = splat_int(0), high = splat_int(0);
    for (int s = 0; s < kSteps; ++s) {
      const B x = four(a + 4 * s);
      low = add_pairs(low, pair_products(kMax == 15 ? w[s] : low_half(w[s]), x));
      if (kMax == 255) high = add_pairs(high, pair_products(high_half(w[s]), x));
    }
    acc = add_wide<1>(acc, low);
    if (kMax == 255) acc = add_wide<16>(acc, high);
    return acc;
  }
}

/// GCC would make a tree of the additions, whose leaves find no register.
RUNNEL_INLINE I add_in_order(I a, I b) {
  I sum = add_pairs(a, b);
  asm("" : "+" RUNNEL_REGISTER(sum));
  return sum;
}

/// Steps [kFirst, kFirst + kSteps): c[2 t] += upper codes * activations a[t], c[2 t + 1] += lower codes * a[t], codes at most
/// kMax: an input is broadcast once for both, and the 16-bit sums of all K tokens stay in registers while
/// the codes pass by.
template <int kMax, int kFirst, int kSteps, int K>
RUNNEL_INLINE void dot_part(I (&c)[2 * K], const B (&upper)[8], const B (&lower)[8],
                            const int8_t* const (&a)[K]) {
  static_assert(kMax == 15 || kMax == 31 || kMax == 63);
  constexpr int kMost = kMax == 15 ? 8 : kMax == 31 ? 4 : 2;
  constexpr int kTogether = kMost < kSteps ? kMost : kSteps;
  unroll<kSteps / kTogether>([&](auto part) RUNNEL_INLINE_LAMBDA {
    I sum[2 * K];
    unroll<2 * K>([&](auto i) RUNNEL_INLINE_LAMBDA { sum[i] = splat_int(0); });
    unroll<kTogether>([&](auto i) RUNNEL_INLINE_LAMBDA {
      constexpr int kStep = kFirst + decltype(part)::value * kTogether + decltype(i)::value;
      const B w0 = upper[kStep], w1 = lower[kStep];
      unroll<K>([&](auto t) RUNNEL_INLINE_LAMBDA {
        const B x = four(a[t] + 4 * kStep);
        // Both products before the additions: half of the registers' ports multiply, all of them add.
        I of_upper = pair_products(w0, x), of_lower = pair_products(w1, x);
        asm("" : "+" RUNNEL_REGISTER(of_upper), "+" RUNNEL_REGISTER(of_lower));
        sum[2 * t] = add_in_order(sum[2 * t], of_upper);
        sum[2 * t + 1] = add_in_order(sum[2 * t + 1], of_lower);
      });
    });
    unroll<2 * K>([&](auto i) RUNNEL_INLINE_LAMBDA { c[i] = add_wide<1>(c[i], sum[i]); });
  });
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
