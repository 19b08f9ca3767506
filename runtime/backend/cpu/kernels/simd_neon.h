// SPDX-License-Identifier: Apache-2.0
// Registers of 4 lanes: ARMv8 NEON; with dotprod or i8mm where it is compiled for that. Names as in simd_generic.h.
#pragma once

#include <arm_neon.h>

namespace runnel::cpu::RUNNEL_ISA {
namespace {

constexpr int kLanes = 4;
constexpr int kWide = 8;
constexpr bool kSignedCodes = true;
constexpr int kBatchTokens = 2;  // tokens whose integer sums are in registers together
constexpr bool kStepwise = false;
constexpr bool kTwoTiles = false;
constexpr bool kBothHalves = false;
constexpr bool kPairs = true;  // dot_pair is better than two dots
// About: how far ahead weights of few tokens are prefetched, and into which cache: 3 the first, 2 the second.
constexpr int kBytesAhead = 4608, kAheadInto = 2;
constexpr bool kFollowsStreams = false;  // the hardware, of lines that come in order
constexpr bool kFreeBroadcasts = false;  // from memory, as an operand
using F = float32x4_t;
using I = int32x4_t;
using B = uint8x16_t;

inline F load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, F v) { vst1q_f32(p, v); }
inline F splat(float v) { return vdupq_n_f32(v); }
inline F load_f16(const uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline F load_bf16(const uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
inline F load_i8(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(word));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}
inline F add(F a, F b) { return vaddq_f32(a, b); }
inline F sub(F a, F b) { return vsubq_f32(a, b); }
inline F mul(F a, F b) { return vmulq_f32(a, b); }
inline F div(F a, F b) { return vdivq_f32(a, b); }
inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
inline F min(F a, F b) { return vminq_f32(a, b); }
inline F max(F a, F b) { return vmaxq_f32(a, b); }
inline F abs(F a) { return vabsq_f32(a); }
inline F zero_below(F limit, F x, F v) {
  return vreinterpretq_f32_u32(vandq_u32(vcgeq_f32(x, limit), vreinterpretq_u32_f32(v)));
}
inline float sum(F a) { return vaddvq_f32(a); }
inline float max_lane(F a) { return vmaxvq_f32(a); }
inline I to_int(F a) { return vcvtnq_s32_f32(a); }
inline F to_float(I a) { return vcvtq_f32_s32(a); }
inline F pow2(I n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
inline I splat_int(int32_t v) { return vdupq_n_s32(v); }
inline int32_t sum_int(I a) { return vaddvq_s32(a); }
/// Stores 16 codes as int8; their sum.
inline int32_t store_codes(int8_t* p, const I (&codes)[4]) {
  const auto words = [](I a, I b) {
    return vqmovn_s16(vcombine_s16(vqmovn_s32(a), vqmovn_s32(b)));
  };
  const int8x16_t bytes = vcombine_s8(words(codes[0], codes[1]), words(codes[2], codes[3]));
  vst1q_s8(p, bytes);
  return vaddlvq_s8(bytes);
}

inline B load_bytes(const uint8_t* p) { return vld1q_u8(p); }
inline B load_in_order(const uint8_t* p) { return load_bytes(p); }
inline B low_half(B a) { return vandq_u8(a, vdupq_n_u8(15)); }
inline B high_half(B a) { return vshrq_n_u8(a, 4); }
template <int kBit>
inline B two_bits_at_4(B a) {  // ((byte >> kBit) & 3) << 4
  const B three = vdupq_n_u8(3);
  if constexpr (kBit == 0) {
    return vshlq_n_u8(vandq_u8(a, three), 4);
  } else {
    return vshlq_n_u8(vandq_u8(vshrq_n_u8(a, kBit), three), 4);
  }
}
template <int kBit>
inline B bit_at_4(B a) {  // ((byte >> kBit) & 1) << 4
  const B one = vdupq_n_u8(1);
  if constexpr (kBit == 0) {
    return vshlq_n_u8(vandq_u8(a, one), 4);
  } else {
    return vshlq_n_u8(vandq_u8(vshrq_n_u8(a, kBit), one), 4);
  }
}
inline B either(B a, B b) { return vorrq_u8(a, b); }
inline B q8_codes(const uint8_t* p) { return veorq_u8(load_bytes(p), vdupq_n_u8(0x80)); }
inline int8x16_t as_signed(B a) { return vreinterpretq_s8_u8(a); }

inline int8x16_t four(const int8_t* a) {
  int32_t word;
  __builtin_memcpy(&word, a, 4);
  return vreinterpretq_s8_s32(vdupq_n_s32(word));
}

#if defined(__ARM_FEATURE_DOTPROD)
template <int kMax>
inline I dot_step(I acc, B w, int8x16_t a) {
  return vdotq_s32(acc, as_signed(w), a);
}
template <int kMax, int kSteps>
inline I dot(I acc, const B* w, const int8_t* a) {
  for (int s = 0; s < kSteps; s += 4) {
    const int8x16_t x = vld1q_s8(a + 4 * s);
    acc = vdotq_laneq_s32(acc, as_signed(w[s]), x, 0);
    acc = vdotq_laneq_s32(acc, as_signed(w[s + 1]), x, 1);
    acc = vdotq_laneq_s32(acc, as_signed(w[s + 2]), x, 2);
    acc = vdotq_laneq_s32(acc, as_signed(w[s + 3]), x, 3);
  }
  return acc;
}
#else
template <int kMax>
inline I dot_step(I acc, B w, int8x16_t a) {
  const int16x8_t low = vmull_s8(vget_low_s8(as_signed(w)), vget_low_s8(a));
  const int16x8_t high = vmull_s8(vget_high_s8(as_signed(w)), vget_low_s8(a));
  return vaddq_s32(acc, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}
// Two steps fit 16 bits: 2 * 128 * 127 < 2^15.
template <int kMax, int kSteps>
inline I dot(I acc, const B* w, const int8_t* a) {
  I low = vdupq_n_s32(0), high = vdupq_n_s32(0);  // rows 0, 0, 1, 1 and 2, 2, 3, 3
  for (int s = 0; s < kSteps; s += 2) {
    const int8x8_t x = vget_low_s8(four(a + 4 * s)), y = vget_low_s8(four(a + 4 * s + 4));
    int16x8_t pairs = vmull_s8(vget_low_s8(as_signed(w[s])), x);
    low = vpadalq_s16(low, vmlal_s8(pairs, vget_low_s8(as_signed(w[s + 1])), y));
    pairs = vmull_s8(vget_high_s8(as_signed(w[s])), x);
    high = vpadalq_s16(high, vmlal_s8(pairs, vget_high_s8(as_signed(w[s + 1])), y));
  }
  return vaddq_s32(acc, vpaddq_s32(low, high));
}
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
// smmla multiplies 2 rows x 8 inputs by 8 inputs x 2 tokens.
template <int kMax, int kSteps>
inline void dot_pair(I& c0, I& c1, const B* w, const int8_t* a0, const int8_t* a1) {
  I low = vdupq_n_s32(0), high = vdupq_n_s32(0);  // (row, token): 00 01 10 11 and 20 21 30 31
  for (int s = 0; s < kSteps; s += 2) {
    const int32x4_t w0 = vreinterpretq_s32_u8(w[s]), w1 = vreinterpretq_s32_u8(w[s + 1]);
    const int8x16_t x = vcombine_s8(vld1_s8(a0 + 4 * s), vld1_s8(a1 + 4 * s));
    low = vmmlaq_s32(low, vreinterpretq_s8_s32(vzip1q_s32(w0, w1)), x);
    high = vmmlaq_s32(high, vreinterpretq_s8_s32(vzip2q_s32(w0, w1)), x);
  }
  c0 = vaddq_s32(c0, vuzp1q_s32(low, high));
  c1 = vaddq_s32(c1, vuzp2q_s32(low, high));
}
#else
template <int kMax, int kSteps>
inline void dot_pair(I& c0, I& c1, const B* w, const int8_t* a0, const int8_t* a1) {
  c0 = dot<kMax, kSteps>(c0, w, a0);
  c1 = dot<kMax, kSteps>(c1, w, a1);
}
#endif

template <int kBits>
inline I shift_left(I a) {
  return vshlq_n_s32(a, kBits);
}
inline I and_int(I a, int32_t b) { return vandq_s32(a, vdupq_n_s32(b)); }
inline I or_int(I a, I b) { return vorrq_s32(a, b); }
template <int kBits>
inline I shift_right(I a) {
  return vshrq_n_s32(a, kBits);
}
inline I load_u8(const uint8_t* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, 4);
  const uint16x8_t halves = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word)));
  return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(halves)));
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
