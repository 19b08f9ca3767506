// SPDX-License-Identifier: Apache-2.0
// Registers of 16 lanes: AVX-512 F, BW, DQ, VL; with VNNI where it is compiled for that. Names as in simd_generic.h.
#pragma once

#include <immintrin.h>

#include "runtime/backend/cpu/kernels/simd_sse.h"

#if defined(__AVX512VNNI__)
/// The header that fills Kernels::packs_matmul.
#define RUNNEL_PACKS_KERNELS "runtime/backend/cpu/kernels/two_tiles.h"
#endif

namespace runnel::cpu::RUNNEL_ISA {
namespace {

constexpr int kLanes = 16;
constexpr int kWide = 16;  // tokens of the widest pack: 16 accumulators of the 32 registers
constexpr bool kSignedCodes = false;
constexpr int kBatchTokens = 8;  // tokens whose integer sums are in registers together
#if defined(__AVX512VNNI__)
constexpr bool kStepwise = true;  // dot_step is one instruction: interleave the tokens of a batch
constexpr bool kTwoTiles = true;  // and there are registers for the sums of two: two_tiles.h
#else
constexpr bool kStepwise = false;
constexpr bool kTwoTiles = false;
#endif
constexpr bool kBothHalves = false;
constexpr bool kPairs = false;  // dot_pair is better than two dots
// About: how far ahead weights of few tokens are prefetched, and into which cache: 3 the first, 2 the second.
#if defined(__AMX_INT8__)
constexpr int kBytesAhead = 4608,
              kAheadInto = 2;  // the first cache of these processors awaits only 16 lines
#else
constexpr int kBytesAhead = 4608, kAheadInto = 3;
#endif
#if defined(RUNNEL_ZEN4)
// The hardware follows a stream of lines in order by itself, better than with every one of them prefetched.
constexpr bool kFollowsStreams = true;
// A register of 16 lanes goes through in two halves: broadcasting an operand from memory costs nothing, filling a register with
// it first does.
constexpr bool kFreeBroadcasts = true;
#else
constexpr bool kFollowsStreams = false;
constexpr bool kFreeBroadcasts = false;
#endif
using F = __m512;
using I = __m512i;
using B = __m512i;

inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F v) { _mm512_storeu_ps(p, v); }
inline F splat(float v) { return _mm512_set1_ps(v); }
inline F load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F load_bf16(const uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
inline F load_i8(const int8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F sub(F a, F b) { return _mm512_sub_ps(a, b); }
inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F div(F a, F b) { return _mm512_div_ps(a, b); }
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F min(F a, F b) { return _mm512_min_ps(a, b); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline F abs(F a) { return _mm512_abs_ps(a); }
inline F zero_below(F limit, F x, F v) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_GE_OQ), v);
}
inline float sum(F a) { return _mm512_reduce_add_ps(a); }
inline float max_lane(F a) { return _mm512_reduce_max_ps(a); }
inline I to_int(F a) { return _mm512_cvtps_epi32(a); }
inline F to_float(I a) { return _mm512_cvtepi32_ps(a); }
inline F pow2(I n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}
inline I splat_int(int32_t v) { return _mm512_set1_epi32(v); }
inline int32_t sum_int(I a) { return _mm512_reduce_add_epi32(a); }
/// Stores 16 codes as int8; their sum.
inline int32_t store_codes(int8_t* p, const I (&codes)[1]) {
  const __m128i bytes = _mm512_cvtsepi32_epi8(codes[0]);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  return sum_bytes(bytes);
}

inline B load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
/// Loads once; GCC and clang keep such loads in the order in which they are written.
inline B load_in_order(const uint8_t* p) {
  B loaded = load_bytes(p);
  asm volatile("" : "+v"(loaded));
  return loaded;
}
inline B low_half(B a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
inline B high_half(B a) { return low_half(_mm512_srli_epi16(a, 4)); }
template <int kBit>
inline B two_bits_at_4(B a) {  // ((byte >> kBit) & 3) << 4
  const B moved = kBit < 4 ? _mm512_slli_epi16(a, 4 - kBit) : _mm512_srli_epi16(a, kBit - 4);
  return _mm512_and_si512(moved, _mm512_set1_epi8(0x30));
}
template <int kBit>
inline B bit_at_4(B a) {  // ((byte >> kBit) & 1) << 4
  const B moved = kBit < 4 ? _mm512_slli_epi16(a, 4 - kBit) : _mm512_srli_epi16(a, kBit - 4);
  return _mm512_and_si512(moved, _mm512_set1_epi8(0x10));
}
inline B either(B a, B b) { return _mm512_or_si512(a, b); }
inline B q8_codes(const uint8_t* p) { return load_bytes(p); }

inline B four(const int8_t* a) {
  int32_t word;
  __builtin_memcpy(&word, a, 4);
  return _mm512_set1_epi32(word);
}

#if defined(__AVX512VNNI__)
template <int kMax>
inline I dot_step(I acc, B w, B a) {
  return _mm512_dpbusd_epi32(acc, w, a);
}
/// The same of four inputs, broadcast by the instruction itself: GCC 12 loads them into a register first.
inline I dot_four(I acc, B w, const int8_t* a) {
  using Four [[gnu::may_alias]] = int32_t;
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*reinterpret_cast<const Four*>(a)));
  return acc;
}
template <int kMax, int kSteps>
inline I dot(I acc, const B* w, const int8_t* a) {
  for (int s = 0; s < kSteps; ++s) acc = dot_four(acc, w[s], a + 4 * s);
  return acc;
}
#else
inline I pair_products(B w, B a) { return _mm512_maddubs_epi16(w, a); }
inline I add_pairs(I a, I b) { return _mm512_add_epi16(a, b); }
template <int kFactor>
inline I add_wide(I acc, I pairs) {
  return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(kFactor)));
}
}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
#include "runtime/backend/cpu/kernels/simd_pairs.h"
namespace runnel::cpu::RUNNEL_ISA {
namespace {
#endif

template <int kMax, int kSteps>
inline void dot_pair(I& c0, I& c1, const B* w, const int8_t* a0, const int8_t* a1) {
  c0 = dot<kMax, kSteps>(c0, w, a0);
  c1 = dot<kMax, kSteps>(c1, w, a1);
}

template <int kBits>
inline I shift_left(I a) {
  return _mm512_slli_epi32(a, kBits);
}
inline I and_int(I a, int32_t b) { return _mm512_and_si512(a, _mm512_set1_epi32(b)); }
inline I or_int(I a, I b) { return _mm512_or_si512(a, b); }
template <int kBits>
inline I shift_right(I a) {
  return _mm512_srli_epi32(a, kBits);
}
inline I load_u8(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
