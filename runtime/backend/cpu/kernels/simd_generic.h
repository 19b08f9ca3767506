// SPDX-License-Identifier: Apache-2.0
// Registers of 4 lanes in GCC's vector extensions: every CPU. The reference for the names that all
// simd_*.h define: F floats, I int32, B 4 bytes per lane; dot<max code, steps>: acc[lane] += sum of 4
// * steps products u8 * i8.
#pragma once

#include <stdint.h>

namespace runnel::cpu::RUNNEL_ISA {
namespace {

constexpr int kLanes = 4;
constexpr int kWide = 4;             // tokens of the widest activation pack
constexpr bool kSignedCodes = true;  // q8_codes gives q instead of q + 128: no correction
constexpr int kBatchTokens = 1;      // tokens whose integer sums are in registers together
constexpr bool kStepwise = false;
constexpr bool kTwoTiles = false;
constexpr bool kBothHalves = false;
constexpr bool kPairs = false;  // dot_pair is better than two dots
// About: how far ahead weights of few tokens are prefetched, and into which cache: 3 the first, 2 the second.
constexpr int kBytesAhead = 4608, kAheadInto = 2;
constexpr bool kFollowsStreams = false;  // the hardware, of lines that come in order
constexpr bool kFreeBroadcasts = false;  // from memory, as an operand
using F = float __attribute__((vector_size(16)));
using I = int32_t __attribute__((vector_size(16)));
using B = uint8_t __attribute__((vector_size(16)));

template <class V>
inline V load_as(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
inline F load(const float* p) { return load_as<F>(p); }
inline void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof(v)); }
inline F splat(float v) { return F{v, v, v, v}; }
inline I splat_int(int32_t v) { return I{v, v, v, v}; }
inline F choose(I mask, F yes, F no) {
  return reinterpret_cast<F>((mask & reinterpret_cast<I>(yes)) | (~mask & reinterpret_cast<I>(no)));
}
inline I words(const uint16_t* p) { return I{p[0], p[1], p[2], p[3]}; }
inline F load_bf16(const uint16_t* p) { return reinterpret_cast<F>(words(p) << 16); }
inline F load_f16(const uint16_t* p) {
  // Exponent and fraction as a float that is 2^112 too small; subnormals come out right by the multiplication.
  const I h = words(p);
  const I magnitude = (h & 0x7FFF) << 13;
  const F finite = reinterpret_cast<F>(magnitude) * splat(0x1p112F);
  const F special = reinterpret_cast<F>(magnitude | splat_int(0x7F800000));
  const F value = choose((h & 0x7C00) == 0x7C00, special, finite);
  return reinterpret_cast<F>(reinterpret_cast<I>(value) | ((h & 0x8000) << 16));
}
inline F load_i8(const int8_t* p) {
  return F{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
           static_cast<float>(p[3])};
}
inline F add(F a, F b) { return a + b; }
inline F sub(F a, F b) { return a - b; }
inline F mul(F a, F b) { return a * b; }
inline F div(F a, F b) { return a / b; }
inline F fma(F a, F b, F c) { return a * b + c; }
inline F min(F a, F b) { return choose(a < b, a, b); }
inline F max(F a, F b) { return choose(a > b, a, b); }
inline F abs(F a) { return reinterpret_cast<F>(reinterpret_cast<I>(a) & 0x7FFFFFFF); }
/// v where x >= limit, else 0.
inline F zero_below(F limit, F x, F v) { return choose(x >= limit, v, splat(0)); }
inline float sum(F a) { return (a[0] + a[2]) + (a[1] + a[3]); }
inline float max_lane(F a) {
  const float m = a[0] > a[1] ? a[0] : a[1];
  const float n = a[2] > a[3] ? a[2] : a[3];
  return m > n ? m : n;
}
/// Nearest, ties to even; |a| < 2^22.
inline I to_int(F a) {
  const F shifted = a + splat(0x1.8p23F);
  return reinterpret_cast<I>(shifted) - splat_int(0x4B400000);
}
inline F to_float(I a) { return __builtin_convertvector(a, F); }
/// 2^n, n in [-126, 127].
inline F pow2(I n) { return reinterpret_cast<F>((n + 127) << 23); }
inline int32_t sum_int(I a) { return (a[0] + a[1]) + (a[2] + a[3]); }
/// Stores 16 codes as int8; their sum.
inline int32_t store_codes(int8_t* p, const I (&codes)[4]) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) {
    p[i] = static_cast<int8_t>(codes[i / 4][i % 4]);
    sum += p[i];
  }
  return sum;
}

inline B load_bytes(const uint8_t* p) { return load_as<B>(p); }
inline B load_in_order(const uint8_t* p) { return load_bytes(p); }
inline B low_half(B a) { return a & 15; }
inline B high_half(B a) { return a >> 4; }
template <int kBit>
inline B two_bits_at_4(B a) {  // ((byte >> kBit) & 3) << 4
  return ((a >> kBit) & 3) << 4;
}
template <int kBit>
inline B bit_at_4(B a) {  // ((byte >> kBit) & 1) << 4
  return ((a >> kBit) & 1) << 4;
}
inline B either(B a, B b) { return a | b; }
inline B q8_codes(const uint8_t* p) { return load_bytes(p) ^ 0x80; }

inline const int8_t* four(const int8_t* a) { return a; }
template <int kMax>
inline I dot_step(I acc, B w, const int8_t* a) {
  using Signed = int8_t __attribute__((vector_size(16)));
  const auto v = reinterpret_cast<Signed>(w);
  for (int lane = 0; lane < 4; ++lane) {
    for (int i = 0; i < 4; ++i) acc[lane] += v[4 * lane + i] * a[i];
  }
  return acc;
}
template <int kMax, int kSteps>
inline I dot(I acc, const B* w, const int8_t* a) {
  for (int s = 0; s < kSteps; ++s) acc = dot_step<kMax>(acc, w[s], a + 4 * s);
  return acc;
}
template <int kMax, int kSteps>
inline void dot_pair(I& c0, I& c1, const B* w, const int8_t* a0, const int8_t* a1) {
  c0 = dot<kMax, kSteps>(c0, w, a0);
  c1 = dot<kMax, kSteps>(c1, w, a1);
}

template <int kBits>
inline I shift_left(I a) {
  return a << kBits;
}
inline I and_int(I a, int32_t b) { return a & b; }
inline I or_int(I a, I b) { return a | b; }
template <int kBits>
inline I shift_right(I a) {
  return a >> kBits;
}
inline I load_u8(const uint8_t* p) { return I{p[0], p[1], p[2], p[3]}; }

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
