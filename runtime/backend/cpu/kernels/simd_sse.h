// SPDX-License-Identifier: Apache-2.0
// What AVX2 and AVX-512 do with registers of 16 bytes.
#pragma once

#include <immintrin.h>

namespace runnel::cpu::RUNNEL_ISA {
namespace {

/// The sum of 16 int8.
inline int32_t sum_bytes(__m128i a) {
  const __m128i halves = _mm_sad_epu8(_mm_xor_si128(a, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(_mm_add_epi32(halves, _mm_unpackhi_epi64(halves, halves))) - 16 * 128;
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
