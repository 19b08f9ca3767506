// SPDX-License-Identifier: Apache-2.0
// Products of four bytes on registers without an instruction for them, in 16 bits where sums fit.
// Included by simd_avx2.h and simd_avx512.h behind what it is written with: pair_products(w, a) is
// w[2i] a[2i] + w[2i + 1] a[2i + 1] for unsigned w and signed a, add_pairs adds such values, and
// add_wide<kFactor>(acc, pairs) adds neighbours of them times kFactor to 32 bits.
#pragma once

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

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
