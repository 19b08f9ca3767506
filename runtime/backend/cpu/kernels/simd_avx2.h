// SPDX-License-Identifier: Apache-2.0
// Registers of 8 lanes: AVX2, FMA, F16C; with AVX-VNNI where it is compiled for that. Names as in simd_generic.h.
#pragma once

#include <immintrin.h>

#include "runtime/backend/cpu/kernels/simd_sse.h"
#include "runtime/backend/cpu/kernels/unroll.h"

/// The header that fills Kernels::packs_matmul.
#define RUNNEL_PACKS_KERNELS "runtime/backend/cpu/kernels/halves.h"

namespace runnel::cpu::RUNNEL_ISA {
namespace {

constexpr int kLanes = 8;
constexpr int kWide = 4;
constexpr bool kSignedCodes = false;
constexpr int kBatchTokens = 2;  // tokens whose integer sums are in registers together
constexpr bool kStepwise = false;
constexpr bool kTwoTiles = false;
constexpr bool kBothHalves = true;  // of a tile at once: halves.h
constexpr bool kPairs = false;      // dot_pair is better than two dots
// About: how far ahead weights of few tokens are prefetched (Zen 3), and into which cache: 3 the first, 2 the second.
constexpr int kBytesAhead = 2304, kAheadInto = 3;
constexpr bool kFollowsStreams = false;  // the hardware, of lines that come in order
constexpr bool kFreeBroadcasts = false;  // from memory, as an operand
using F = __m256;
using I = __m256i;
using B = __m256i;

inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F v) { _mm256_storeu_ps(p, v); }
inline F splat(float v) { return _mm256_set1_ps(v); }
inline F load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline F load_bf16(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
inline F load_i8(const int8_t* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F sub(F a, F b) { return _mm256_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F div(F a, F b) { return _mm256_div_ps(a, b); }
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F min(F a, F b) { return _mm256_min_ps(a, b); }
inline F max(F a, F b) { return _mm256_max_ps(a, b); }
inline F abs(F a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
inline F zero_below(F limit, F x, F v) {
  return _mm256_and_ps(_mm256_cmp_ps(x, limit, _CMP_GE_OQ), v);
}
inline float sum(F a) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
inline float max_lane(F a) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
inline I to_int(F a) { return _mm256_cvtps_epi32(a); }
inline F to_float(I a) { return _mm256_cvtepi32_ps(a); }
inline F pow2(I n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
inline I splat_int(int32_t v) { return _mm256_set1_epi32(v); }
inline int32_t sum_int(I a) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
  return _mm_cvtsi128_si32(s);
}
/// Stores 16 codes as int8; their sum.
inline int32_t store_codes(int8_t* p, const I (&codes)[2]) {
  const auto words = [](I a) {
    return _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  };
  const __m128i bytes = _mm_packs_epi16(words(codes[0]), words(codes[1]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  return sum_bytes(bytes);
}

inline B load_bytes(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline B load_in_order(const uint8_t* p) { return load_bytes(p); }
inline B low_half(B a) { return _mm256_and_si256(a, _mm256_set1_epi8(15)); }
inline B high_half(B a) { return low_half(_mm256_srli_epi16(a, 4)); }
template <int kBit>
inline B two_bits_at_4(B a) {  // ((byte >> kBit) & 3) << 4
  const B moved = kBit < 4 ? _mm256_slli_epi16(a, 4 - kBit) : _mm256_srli_epi16(a, kBit - 4);
  return _mm256_and_si256(moved, _mm256_set1_epi8(0x30));
}
template <int kBit>
inline B bit_at_4(B a) {  // ((byte >> kBit) & 1) << 4
  const B moved = kBit < 4 ? _mm256_slli_epi16(a, 4 - kBit) : _mm256_srli_epi16(a, kBit - 4);
  return _mm256_and_si256(moved, _mm256_set1_epi8(0x10));
}
inline B either(B a, B b) { return _mm256_or_si256(a, b); }
inline B q8_codes(const uint8_t* p) { return load_bytes(p); }

inline B four(const int8_t* a) {
  int32_t word;
  __builtin_memcpy(&word, a, 4);
  return _mm256_set1_epi32(word);
}

#if defined(__AVXVNNI__)
template <int kMax>
constexpr bool kProductsBySign = false;
template <int kMax>
inline I dot_step(I acc, B w, B a) {
  return _mm256_dpbusd_avx_epi32(acc, w, a);
}
template <int kMax, int kSteps>
inline I dot(I acc, const B* w, const int8_t* a) {
  for (int s = 0; s < kSteps; ++s) acc = dot_step<kMax>(acc, w[s], four(a + 4 * s));
  return acc;
}
template <int kMax, int kFirst, int kSteps, int K>
RUNNEL_INLINE void dot_part(I (&c)[2 * K], const B (&upper)[8], const B (&lower)[8],
                            const int8_t* const (&a)[K]) {
  unroll<kSteps>([&](auto i) RUNNEL_INLINE_LAMBDA {
    constexpr int kStep = kFirst + decltype(i)::value;
    unroll<K>([&](auto t) RUNNEL_INLINE_LAMBDA {
      const B x = four(a[t] + 4 * kStep);
      c[2 * t] = dot_step<kMax>(c[2 * t], upper[kStep], x);
      c[2 * t + 1] = dot_step<kMax>(c[2 * t + 1], lower[kStep], x);
    });
  });
}
/// acc + codes up to 255 * activations a
inline I add_byte_products(I acc, B codes, B a) { return dot_step<255>(acc, codes, a); }
#else
inline I pair_products(B w, B a) { return _mm256_maddubs_epi16(w, a); }
inline I add_pairs(I a, I b) { return _mm256_add_epi16(a, b); }
template <int kFactor>
inline I add_wide(I acc, I pairs) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(kFactor)));
}
}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
#include "runtime/backend/cpu/kernels/simd_pairs.h"
namespace runnel::cpu::RUNNEL_ISA {
namespace {

/// Whether codes go into products as magnitudes whose signs the other factor takes: two products of codes up to 255 do not fit
/// 16 bits, of magnitudes up to 128 and activations up to 127 they just do (those of NaN or infinity are -128, and their sums
/// mean nothing anyway).
template <int kMax>
constexpr bool kProductsBySign = kMax == 255;
/// The weights of codes up to 255, which are 128 above them.
inline B signed_weights(B codes) { return _mm256_xor_si256(codes, _mm256_set1_epi8(-128)); }
inline B magnitudes(B weights) { return _mm256_abs_epi8(weights); }
inline I products_by_sign(B weights, B magnitudes, B a) {
  return pair_products(magnitudes, _mm256_sign_epi8(a, weights));
}

/// acc + weights of codes up to 255 * activations a
inline I add_byte_products(I acc, B codes, B a) {
  const B w = signed_weights(codes);
  acc = add_wide<1>(acc, products_by_sign(w, magnitudes(w), a));
  asm("" : "+" RUNNEL_REGISTER(acc));  // in order: no tree of sums
  return acc;
}
#endif

/// c[h] += codes of half h of a tile's rows * activations a, steps [kFirst, kFirst + kSteps), for codes that are bytes: each made
/// ready when it is needed, since those of a group find no room in the registers together.
template <int kFirst, int kSteps>
RUNNEL_INLINE void dot_bytes(I (&c)[2], const uint8_t* codes, const int8_t* a) {
  unroll<kSteps>([&](auto i) RUNNEL_INLINE_LAMBDA {
    constexpr int kStep = kFirst + decltype(i)::value;
    const B x = four(a + 4 * kStep);
    unroll<2>([&](auto h) RUNNEL_INLINE_LAMBDA {
      c[h] = add_byte_products(c[h], q8_codes(codes + 64 * kStep + 4 * kLanes * h), x);
    });
  });
}

template <int kMax, int kSteps>
inline void dot_pair(I& c0, I& c1, const B* w, const int8_t* a0, const int8_t* a1) {
  c0 = dot<kMax, kSteps>(c0, w, a0);
  c1 = dot<kMax, kSteps>(c1, w, a1);
}

template <int kBits>
inline I shift_left(I a) {
  return _mm256_slli_epi32(a, kBits);
}
inline I and_int(I a, int32_t b) { return _mm256_and_si256(a, _mm256_set1_epi32(b)); }
inline I or_int(I a, I b) { return _mm256_or_si256(a, b); }
template <int kBits>
inline I shift_right(I a) {
  return _mm256_srli_epi32(a, kBits);
}
inline I load_u8(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
