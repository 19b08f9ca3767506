// SPDX-License-Identifier: Apache-2.0
// Weights in the device's layout (runtime/backend/vulkan/memory/packed_matrix.h): per row UNITS units of 8 consecutive
// columns; the codes of a unit lie in whole words, scales in a plane of their own, so that every load is aligned.
//
// Define one of W_F32 W_F16 W_BF16 W_Q8_0 W_Q4_0 W_Q4_1 W_Q5_0 W_Q4_K W_Q5_K W_Q6_K W_WIDE. Gives: Raw, load_raw(part, row, unit), and
// decode(raw) -> Unit, whose weights are scale * (low, high).

layout(set = 0, binding = 0) readonly buffer Weights { uint w[]; } weights;
layout(set = 0, binding = 0) readonly buffer Weights4 { uvec4 w[]; } weights4;
#if defined(W_Q8_0) || defined(W_WIDE)
#define W_BYTES  // codes of a byte each
#endif
#if defined(W_Q5_0) || defined(W_Q5_K)
#define W_FIFTH_BITS
#endif
#if defined(W_BYTES)
layout(set = 0, binding = 0) readonly buffer Weights2 { uvec2 w[]; } weights2;
#endif

/// Units of a row.
layout(constant_id = 1) const uint UNITS = 1;

struct Unit {
  vec4 low;   // columns 0-3
  vec4 high;  // columns 4-7
  float scale;
};

/// The words of a unit, loaded but not yet decoded: loads can be issued long before their values are needed.
#if defined(W_F32)
struct Raw { uvec4 a; uvec4 b; };
#elif defined(W_F16) || defined(W_BF16)
struct Raw { uvec4 a; };
#elif defined(W_Q8_0)
struct Raw { uvec2 a; uint scale; };
#elif defined(W_WIDE)
struct Raw { uvec2 a; uvec2 scale; };  // scale and offset
#elif defined(W_Q4_0) || defined(W_Q4_1)
struct Raw { uint a; uint scale; };  // Q4_1: the offset in the high half
#elif defined(W_Q5_0)
struct Raw { uint a; uint high; uint scale; };
#elif defined(W_Q5_K)
struct Raw { uint a; uint high; uint d; uint scale; };
#elif defined(W_Q4_K)
struct Raw { uint a; uint d; uint scale; };  // a byte each: scale, minimum
#elif defined(W_Q6_K)
struct Raw { uint a; uint high; uint d; uint scale; };
#endif

/// An f16 in the low half of a word, subnormals too: a driver may flush them in unpackHalf2x16, and a scale can be one.
float half_of(uint word) {
  const uint magnitude = word & 0x7FFFu;
  const float normal = uintBitsToFloat((magnitude << 13) + (112u << 23));
  // With its exponent of 0 a subnormal m 2^-24 looks like 2^-15 + m 2^-25.
  precise float small = fma(2.0, normal, -6.103515625e-5);
  const float f = magnitude < 0x400u ? small : normal;
  return uintBitsToFloat(floatBitsToUint(f) | (word & 0x8000u) << 16);
}
vec4 bytes(uint word) { return vec4(ivec4(int(word) << 24, int(word) << 16, int(word) << 8, int(word)) >> 24); }
// 2^23 + n as bits: exact, and no conversion, of which GPUs do fewer a clock; less 2^23 + `zero` in one subtraction.
const uint kMagic = 0x4B000000u;
vec4 low_nibbles(uint word, const float zero) {
  return uintBitsToFloat(((uvec4(word) >> uvec4(0, 8, 16, 24)) & 15u) | kMagic) - (8388608.0 + zero);
}
vec4 high_nibbles(uint word, const float zero) {
  return uintBitsToFloat(((uvec4(word) >> uvec4(4, 12, 20, 28)) & 15u) | kMagic) - (8388608.0 + zero);
}
/// The same with the fifth bits of 8 columns, column j in bit j.
vec4 low_fives(uint word, uint high, const float zero) {
  const uvec4 fifth = ((uvec4(high) >> uvec4(0, 1, 2, 3)) & 1u) << 4;
  return uintBitsToFloat(((uvec4(word) >> uvec4(0, 8, 16, 24)) & 15u) | fifth | kMagic) - (8388608.0 + zero);
}
vec4 high_fives(uint word, uint high, const float zero) {
  const uvec4 fifth = ((uvec4(high) >> uvec4(4, 5, 6, 7)) & 1u) << 4;
  return uintBitsToFloat(((uvec4(word) >> uvec4(4, 12, 20, 28)) & 15u) | fifth | kMagic) - (8388608.0 + zero);
}

/// Unit `i` of the part's rows one after the other.
Raw load_unit(const MatrixPart part, uint i) {
  Raw r;
#if defined(W_F32)
  r.a = weights4.w[2 * i];
  r.b = weights4.w[2 * i + 1];
#elif defined(W_F16) || defined(W_BF16)
  r.a = weights4.w[i];
#elif defined(W_Q8_0)
  r.a = weights2.w[i];
  const uint block = i / 4;
  r.scale = weights.w[part.scales + block / 2] >> (16 * (block & 1));
#elif defined(W_WIDE)
  r.a = weights2.w[i];
  r.scale = weights2.w[part.scales / 2 + i / 2];
#elif defined(W_Q4_0) || defined(W_Q5_0)
  r.a = weights.w[i];
  const uint block = i / 4;
  r.scale = weights.w[part.scales + block / 2] >> (16 * (block & 1));
#elif defined(W_Q4_1)
  r.a = weights.w[i];
  r.scale = weights.w[part.scales + i / 4];
#elif defined(W_Q4_K) || defined(W_Q5_K)
  r.a = weights.w[i];
  const uint super_block = part.scales + i / 32 * 5;
  const uint group = i / 4 % 8;
  r.d = weights.w[super_block];
  r.scale = weights.w[super_block + 1 + group / 2] >> (16 * (group % 2));
#elif defined(W_Q6_K)
  r.a = weights.w[i];
  r.high = weights.w[part.high + i / 2] >> (16 * (i & 1));
  const uint super_block = part.scales + i / 32 * 5;
  const uint group = i / 2 % 16;
  r.d = weights.w[super_block];
  r.scale = weights.w[super_block + 1 + group / 4] >> (8 * (group % 4));
#endif
#if defined(W_FIFTH_BITS)
  r.high = weights.w[part.high + i / 4] >> (8 * (i % 4));
#endif
  return r;
}

/// `row` counts from the first row of the part.
Raw load_raw(const MatrixPart part, uint row, uint unit) { return load_unit(part, row * UNITS + unit); }

/// The units [4 i, 4 i + 4) of the part with loads of 16 bytes, where a lane takes whole blocks of 32 columns.
#if !defined(W_F32) && !defined(W_F16) && !defined(W_BF16)
#define RUNNEL_BLOCKS
struct RawBlock {
#if defined(W_BYTES)
  uvec4 a[2];
#else
  uvec4 a;
#endif
#if defined(W_Q6_K)
  uvec2 high;
  uint d;
  uint scales;  // of both halves, a byte each
#elif defined(W_Q4_K) || defined(W_Q5_K)
  uint d;
  uint scale;
#elif defined(W_WIDE)
  uvec4 scale;  // and offset, of both halves
#else
  uint scale;
#endif
#if defined(W_FIFTH_BITS)
  uint high;
#endif
};

RawBlock load_block(const MatrixPart part, uint i) {
  RawBlock r;
#if defined(W_BYTES)
  r.a[0] = weights4.w[2 * i];
  r.a[1] = weights4.w[2 * i + 1];
#else
  r.a = weights4.w[i];
#endif
#if defined(W_FIFTH_BITS)
  r.high = weights.w[part.high + i];
#endif
#if defined(W_Q8_0) || defined(W_Q4_0) || defined(W_Q5_0)
  r.scale = weights.w[part.scales + i / 2] >> (16 * (i & 1));
#elif defined(W_Q4_1)
  r.scale = weights.w[part.scales + i];
#elif defined(W_WIDE)
  r.scale = weights4.w[part.scales / 4 + i];
#else
  const uint super_block = part.scales + i / 8 * 5;
  const uint group = i % 8;
  r.d = weights.w[super_block];
#endif
#if defined(W_Q4_K) || defined(W_Q5_K)
  r.scale = weights.w[super_block + 1 + group / 2] >> (16 * (group % 2));
#elif defined(W_Q6_K)
  r.high = uvec2(weights.w[part.high + 2 * i], weights.w[part.high + 2 * i + 1]);
  r.scales = weights.w[super_block + 1 + group / 2] >> (16 * (group % 2));
#endif
  return r;
}

/// Unit `u` of four.
Raw unit_of(const RawBlock b, const uint u) {
  Raw r;
#if defined(W_Q8_0)
  r.a = u % 2 == 0 ? b.a[u / 2].xy : b.a[u / 2].zw;
  r.scale = b.scale;
#elif defined(W_WIDE)
  r.a = u % 2 == 0 ? b.a[u / 2].xy : b.a[u / 2].zw;
  r.scale = u / 2 == 0 ? b.scale.xy : b.scale.zw;
#else
  r.a = b.a[u];
#endif
#if defined(W_FIFTH_BITS)
  r.high = b.high >> (8 * u);
#endif
#if defined(W_Q4_0) || defined(W_Q4_1) || defined(W_Q5_0)
  r.scale = b.scale;
#elif defined(W_Q4_K) || defined(W_Q5_K)
  r.d = b.d;
  r.scale = b.scale;
#elif defined(W_Q6_K)
  r.d = b.d;
  r.high = b.high[u / 2] >> (16 * (u % 2));
  r.scale = b.scales >> (8 * (u / 2));
#endif
  return r;
}
#endif

Unit decode(Raw r) {
  Unit u;
#if defined(W_F32)
  u.low = uintBitsToFloat(r.a);
  u.high = uintBitsToFloat(r.b);
  u.scale = 1.0;
#elif defined(W_F16)
  u.low = vec4(unpackHalf2x16(r.a.x), unpackHalf2x16(r.a.y));
  u.high = vec4(unpackHalf2x16(r.a.z), unpackHalf2x16(r.a.w));
  u.scale = 1.0;
#elif defined(W_BF16)
  u.low = uintBitsToFloat(uvec4(r.a.x << 16, r.a.x & 0xFFFF0000u, r.a.y << 16, r.a.y & 0xFFFF0000u));
  u.high = uintBitsToFloat(uvec4(r.a.z << 16, r.a.z & 0xFFFF0000u, r.a.w << 16, r.a.w & 0xFFFF0000u));
  u.scale = 1.0;
#elif defined(W_Q8_0)
  u.low = bytes(r.a.x);
  u.high = bytes(r.a.y);
  u.scale = half_of(r.scale);
#elif defined(W_Q4_0)
  u.low = low_nibbles(r.a, 8.0);
  u.high = high_nibbles(r.a, 8.0);
  u.scale = half_of(r.scale);
#elif defined(W_WIDE)
  const float scale = uintBitsToFloat(r.scale.x), offset = uintBitsToFloat(r.scale.y);
  u.low = scale * bytes(r.a.x) + offset;
  u.high = scale * bytes(r.a.y) + offset;
  u.scale = 1.0;
#elif defined(W_Q4_1)
  const float scale = half_of(r.scale), offset = half_of(r.scale >> 16);
  u.low = scale * low_nibbles(r.a, 0.0) + offset;
  u.high = scale * high_nibbles(r.a, 0.0) + offset;
  u.scale = 1.0;
#elif defined(W_Q5_0)
  u.low = low_fives(r.a, r.high, 16.0);
  u.high = high_fives(r.a, r.high, 16.0);
  u.scale = half_of(r.scale);
#elif defined(W_Q4_K) || defined(W_Q5_K)
  const vec2 d = vec2(half_of(r.d), half_of(r.d >> 16));
  const float scale = d.x * float(r.scale & 255u);
  const float minimum = d.y * float(r.scale >> 8 & 255u);
#if defined(W_Q5_K)
  u.low = scale * low_fives(r.a, r.high, 0.0) - minimum;
  u.high = scale * high_fives(r.a, r.high, 0.0) - minimum;
#else
  u.low = scale * low_nibbles(r.a, 0.0) - minimum;
  u.high = scale * high_nibbles(r.a, 0.0) - minimum;
#endif
  u.scale = 1.0;
#elif defined(W_Q6_K)
  const vec4 upper_low = vec4((uvec4(r.high) >> uvec4(0, 2, 4, 6)) & 3u);
  const vec4 upper_high = vec4((uvec4(r.high) >> uvec4(8, 10, 12, 14)) & 3u);
  u.low = low_nibbles(r.a, 32.0) + 16.0 * upper_low;
  u.high = high_nibbles(r.a, 32.0) + 16.0 * upper_high;
  u.scale = half_of(r.d) * float(int(r.scale << 24) >> 24);
#endif
  return u;
}
