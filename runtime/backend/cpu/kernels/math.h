// SPDX-License-Identifier: Apache-2.0
// exp, expm1, log1p and their kin on registers, about 1e-7 relative, with the same polynomials on
// every instruction set.
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

/// x = n ln 2 + r:  e^x = 2^n (1 + e), e = expm1(r).
struct ExpParts {
  F scale;  // 2^n
  F e;
};

/// x in [-87, 88].
inline ExpParts exp_parts(F x) {
  const I n = to_int(mul(x, splat(1.44269504F)));
  const F nf = to_float(n);
  // ln 2 in two parts; n times the first is exact.
  F r = fma(nf, splat(-0.693359375F), x);
  r = fma(nf, splat(2.12194440e-4F), r);
  F q = splat(1.0F / 5040);  // |r| <= 0.347: the next term of the series is 5e-9
  q = fma(q, r, splat(1.0F / 720));
  q = fma(q, r, splat(1.0F / 120));
  q = fma(q, r, splat(1.0F / 24));
  q = fma(q, r, splat(1.0F / 6));
  q = fma(q, r, splat(0.5F));
  return {pow2(n), fma(mul(r, r), q, r)};
}

/// e^x; 0 below -87, e^88 above 88.
inline F exp(F x) {
  const F clamped = min(max(x, splat(-87.0F)), splat(88.0F));
  const ExpParts p = exp_parts(clamped);
  return zero_below(splat(-87.0F), x, fma(p.scale, p.e, p.scale));
}

/// e^x - 1 for x <= 0, relative to the result.
inline F expm1(F x) {
  const ExpParts p = exp_parts(max(x, splat(-87.0F)));
  return fma(p.scale, p.e, sub(p.scale, splat(1.0F)));
}

/// log(1 + y), y in [0, 1]:  2 artanh(y / (2 + y)).
inline F log1p(F y) {
  const F z = div(y, add(y, splat(2.0F)));
  const F z2 = mul(z, z);  // <= 1/9: the next term is 2e-9
  F s = splat(1.0F / 15);
  s = fma(s, z2, splat(1.0F / 13));
  s = fma(s, z2, splat(1.0F / 11));
  s = fma(s, z2, splat(1.0F / 9));
  s = fma(s, z2, splat(1.0F / 7));
  s = fma(s, z2, splat(1.0F / 5));
  s = fma(s, z2, splat(1.0F / 3));
  const F z_twice = add(z, z);
  return fma(mul(z_twice, z2), s, z_twice);
}

/// log(1 / (1 + e^-x)) = min(x, 0) - log1p(e^-|x|)
inline F logsigmoid(F x) { return sub(min(x, splat(0.0F)), log1p(exp(sub(splat(0.0F), abs(x))))); }

/// 1 / (1 + e^-x)
inline F sigmoid_of(F x) { return div(splat(1.0F), add(splat(1.0F), exp(sub(splat(0.0F), x)))); }

/// x / (1 + e^-x)
inline F silu_of(F x) { return div(x, add(splat(1.0F), exp(sub(splat(0.0F), x)))); }

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
