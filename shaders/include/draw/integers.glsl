// SPDX-License-Identifier: Apache-2.0
// Integers of 64 bits as uvec2(low, high), modulo 2^64, and the functions of runtime/sampling/exact_cuts.h.

uvec2 add64(uvec2 a, uvec2 b) {
  uint carry;
  const uint low = uaddCarry(a.x, b.x, carry);
  return uvec2(low, a.y + b.y + carry);
}
uvec2 negative64(uvec2 a) { return add64(~a, uvec2(1, 0)); }
uvec2 sub64(uvec2 a, uvec2 b) { return add64(a, negative64(b)); }
uvec2 mul64(uvec2 a, uvec2 b) {
  uint low, high;
  umulExtended(a.x, b.x, high, low);
  return uvec2(low, high + a.x * b.y + a.y * b.x);
}
bool less64(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

/// a / b, rounded down.
uvec2 div64(uvec2 a, uint b) {
  uvec2 quotient = uvec2(0, a.y / b);
  uint rest = a.y % b;
  for (int bit = 31; bit >= 0; --bit) {
    const bool beyond = (rest >> 31) != 0;
    rest = rest << 1 | (a.x >> bit & 1u);
    if (beyond || rest >= b) rest -= b, quotient.x |= 1u << bit;
  }
  return quotient;
}

/// draw_below of runtime/sampling/philox.h: floor(total * word / 2^32).
uvec2 share_below(uvec2 total, uint word, out bool exact) {
  uint low, high, beyond, above;
  umulExtended(total.x, word, high, low);
  umulExtended(total.y, word, beyond, above);
  exact = low == 0;
  return add64(uvec2(above, beyond), uvec2(high, 0));
}

/// ceil(total * units / 2^32)
uvec2 share_of(uvec2 total, uint units) {
  bool exact;
  const uvec2 below = share_below(total, units, exact);
  return exact ? below : add64(below, uvec2(1, 0));
}

/// The standard deviation in 2^-14, rounded down, of `count` numbers in 2^-12.
uint deviation(uint count, uvec2 sum, uvec2 squares) {
  const bool below = (sum.y >> 31) != 0;
  uvec2 mean = div64(below ? negative64(sum) : sum, count);
  if (below) mean = negative64(mean);
  uvec2 around = add64(squares, mul64(uvec2(count, 0), mul64(mean, mean)));
  around = sub64(around, mul64(uvec2(2, 0), mul64(mean, sum)));
  const uvec2 variance = div64(around, count);
  const uvec2 square = uvec2(variance.x << 4, variance.y << 4 | variance.x >> 28);
  uint root = 0;
  for (int bit = 24; bit >= 0; --bit) {
    const uint larger = root | 1u << bit;
    uvec2 its;
    umulExtended(larger, larger, its.y, its.x);
    if (!less64(square, its)) root = larger;
  }
  return root;
}
