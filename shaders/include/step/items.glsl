// SPDX-License-Identifier: Apache-2.0
// What a lane of decode_step, decode_even or head loads at a time, an item of 16 bytes of codes with its scales, and its
// product with columns of the input: f32 or, with RUNNEL_DOT, blocks of 32 signed bytes with a scale.
// Include weights.glsl before.

// Constant indices alone: what is indexed otherwise leaves the registers.
#define EACH_4(DO) DO(0) DO(1) DO(2) DO(3)
#define EACH_8(DO) EACH_4(DO) DO(4) DO(5) DO(6) DO(7)
#define EACH_16(DO) EACH_8(DO) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)

// Words of an item as they lie: taking them apart waits for the load.
struct Item {
  uvec4 a;
#if defined(W_Q6_K)
  uvec2 high;
#endif
#if defined(W_FIFTH_BITS)
  uint fifth;  // of all 32 columns
#endif
#if defined(W_Q4_K) || defined(W_Q5_K) || defined(W_Q6_K)
  uint d;
#endif
#if !defined(W_F16) && !defined(W_BF16)
  uint scale;
#endif
};
#if defined(W_F16) || defined(W_BF16)
const uint kItemUnits = 1;  // of 8 columns
#elif defined(W_Q8_0)
const uint kItemUnits = 2;
#else
const uint kItemUnits = 4;
#endif
const uint kItemColumns = 8 * kItemUnits;

#if defined(W_F16) || defined(W_BF16)
#define LOAD_ITEM(R, PART, I) R.a = weights4.w[I];
#elif defined(W_Q8_0) || defined(W_Q4_0)
#define LOAD_ITEM(R, PART, I) \
  R.a = weights4.w[I];        \
  R.scale = weights.w[PART.scales + (I) / (8 / kItemUnits)];
#elif defined(W_Q4_1)
#define LOAD_ITEM(R, PART, I) \
  R.a = weights4.w[I];        \
  R.scale = weights.w[PART.scales + (I)];
#elif defined(W_Q5_0)
#define LOAD_ITEM(R, PART, I)           \
  R.a = weights4.w[I];                  \
  R.fifth = weights.w[PART.high + (I)]; \
  R.scale = weights.w[PART.scales + (I) / 2];
#elif defined(W_Q5_K)
#define LOAD_ITEM(R, PART, I)                                     \
  R.a = weights4.w[I];                                            \
  R.fifth = weights.w[PART.high + (I)];                           \
  R.d = weights.w[PART.scales + (I) / 8 * 5];                     \
  R.scale = weights.w[PART.scales + (I) / 8 * 5 + 1 + (I) / 2 % 4];
#elif defined(W_Q4_K)
#define LOAD_ITEM(R, PART, I)                                     \
  R.a = weights4.w[I];                                            \
  R.d = weights.w[PART.scales + (I) / 8 * 5];                     \
  R.scale = weights.w[PART.scales + (I) / 8 * 5 + 1 + (I) / 2 % 4];
#else
#define LOAD_ITEM(R, PART, I)                                           \
  R.a = weights4.w[I];                                                  \
  R.high = uvec2(weights.w[PART.high + 2 * (I)], weights.w[PART.high + 2 * (I) + 1]); \
  R.d = weights.w[PART.scales + (I) / 8 * 5];                           \
  R.scale = weights.w[PART.scales + (I) / 8 * 5 + 1 + (I) / 2 % 4];
#endif
/// Four values of 16 bits, f16 or bf16 as `type` says (kStepF16, kStepBf16).
vec4 short_values(uvec2 w, uint type) {
  if (type == kStepF16) return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
  return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xFFFF0000u, w.y << 16, w.y & 0xFFFF0000u));
}

/// Shifts down what is item i's of the words of scales.
void take_scales(inout Item r, uint i) {
#if defined(W_Q8_0)
  r.scale >>= 8 * (i & 2);
#elif !defined(W_F16) && !defined(W_BF16) && !defined(W_Q4_1)
  r.scale >>= 16 * (i & 1);
#endif
}

#ifdef RUNNEL_DOT
#extension GL_EXT_spirv_intrinsics : require
// OpSDotKHR and OpSUDotKHR, the third operand: four bytes a word.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_bytes(uint a, uint b, spirv_literal int packed_);
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4452)
int dot_signed_unsigned(uint a, uint b, spirv_literal int packed_);

/// What a type needs of the sums of the two halves of a block.
uint about_sums(float scale, int low, int high) {
#if defined(W_Q4_0)
  return uint(-128 * (low + high));
#elif defined(W_Q5_0)
  return uint(-16 * (low + high));
#elif defined(W_Q4_1) || defined(W_Q4_K) || defined(W_Q5_K)
  return floatBitsToUint(scale * float(low + high));
#else
  return uint(low & 0xFFFF) | uint(high) << 16;
#endif
}

uint round_bytes(vec4 v, float peak) {
  const float inverse = peak > 1e-30 ? 127.0 / peak : 0.0;
  // Added to 1.5 * 2^23 a float's lowest bits are the nearest whole number, ties to even.
  precise vec4 moved = fma(v, vec4(inverse), vec4(12582912.0));
  const uvec4 b = floatBitsToUint(moved) & 255u;
  return b.x | b.y << 8 | b.z << 16 | b.w << 24;
}
int dot_words(uvec4 q, uvec4 x) {
  return dot_bytes(q.x, x.x, 0) + dot_bytes(q.y, x.y, 0) + dot_bytes(q.z, x.z, 0) + dot_bytes(q.w, x.w, 0);
}
int dot_upper(uvec4 q, uvec4 x, int start) {
  return start + dot_signed_unsigned(x.x, q.x, 0) + dot_signed_unsigned(x.y, q.y, 0) +
         dot_signed_unsigned(x.z, q.z, 0) + dot_signed_unsigned(x.w, q.w, 0);
}

#if defined(W_FIFTH_BITS)
/// Bits 0 to 3 as bit 4 of a byte each: a multiplication puts bit j at 8 j, and no two of its terms meet.
uint fifths(uint bits) { return ((bits & 15u) * 0x00204081u & 0x01010101u) << 4; }
int dot_fives(const Item r, uvec4 low, uvec4 high, int start) {
  int sum = start;
  [[unroll]] for (uint u = 0; u < 4; ++u) {
    sum += dot_bytes((r.a[u] & 0x0F0F0F0Fu) | fifths(r.fifth >> (8 * u)), low[u], 0);
    sum += dot_bytes((r.a[u] >> 4 & 0x0F0F0F0Fu) | fifths(r.fifth >> (8 * u + 4)), high[u], 0);
  }
  return sum;
}
#endif

// unpackHalf2x16 where half_of is written out elsewhere: NVIDIA's and the software driver, the only ones that get here, keep
// subnormals, as the tests of Q6_K find, whose scales are such.

/// For an item with the words of its columns: those that lie low and high in its nibbles (of Q8_0: as they follow). Of
/// their block: the scale; what the type needs of the sum of its values.
float item_product(const Item r, uvec4 low, uvec4 high, uvec2 of_block) {
  const float scale = uintBitsToFloat(of_block.x);
#if defined(W_Q8_0)
  return unpackHalf2x16(r.scale).x * scale * float(dot_words(r.a, low));
#elif defined(W_Q4_0)
  // The sum of the upper nibbles is shifted, not they.
  const int sum = dot_words(r.a & 0x0F0F0F0Fu, low) + (dot_upper(r.a & 0xF0F0F0F0u, high, int(of_block.y)) >> 4);
  return unpackHalf2x16(r.scale).x * scale * float(sum);
#elif defined(W_Q5_0)
  return unpackHalf2x16(r.scale).x * scale * float(dot_fives(r, low, high, int(of_block.y)));
#elif defined(W_Q4_1)
  const int sum = dot_words(r.a & 0x0F0F0F0Fu, low) + (dot_upper(r.a & 0xF0F0F0F0u, high, 0) >> 4);
  const vec2 d = unpackHalf2x16(r.scale);
  return d.x * (scale * float(sum)) + d.y * uintBitsToFloat(of_block.y);
#elif defined(W_Q5_K)
  const int sum = dot_fives(r, low, high, 0);
  const float d = unpackHalf2x16(r.d).x * float(r.scale & 255u), least = unpackHalf2x16(r.d).y * float(r.scale >> 8 & 255u);
  return d * (scale * float(sum)) - least * uintBitsToFloat(of_block.y);
#elif defined(W_Q4_K)
  const int sum = dot_words(r.a & 0x0F0F0F0Fu, low) + (dot_upper(r.a & 0xF0F0F0F0u, high, 0) >> 4);
  const float d = unpackHalf2x16(r.d).x * float(r.scale & 255u), least = unpackHalf2x16(r.d).y * float(r.scale >> 8 & 255u);
  return d * (scale * float(sum)) - least * uintBitsToFloat(of_block.y);
#elif defined(W_Q6_K)
  int half_[2];
  [[unroll]] for (uint h = 0; h < 2; ++h) {
    int sum = -32 * (int(of_block.y << (16 - 16 * h)) >> 16);
    [[unroll]] for (uint e = 0; e < 2; ++e) {
      const uint u = 2 * h + e, upper = r.high[h] >> (16 * e);
      // Two bits a column: to bits 4 and 5 of the column's byte.
      const uint a = (upper & 3u) | (upper & 12u) << 6 | (upper & 48u) << 12 | (upper & 192u) << 18;
      const uint b = (upper >> 8 & 3u) | (upper >> 8 & 12u) << 6 | (upper >> 8 & 48u) << 12 | (upper >> 8 & 192u) << 18;
      sum += dot_bytes((r.a[u] & 0x0F0F0F0Fu) | a << 4, low[u], 0);
      sum += dot_bytes((r.a[u] >> 4 & 0x0F0F0F0Fu) | b << 4, high[u], 0);
    }
    half_[h] = sum;
  }
  const float d = unpackHalf2x16(r.d).x;
  return d * scale *
         (float(int(r.scale << 24) >> 24) * float(half_[0]) + float(int(r.scale << 16) >> 24) * float(half_[1]));
#endif
}

#else
float unit_sum(Unit u, vec4 low, vec4 high) {
  precise float s = u.low.x * low.x;
  s = fma(u.low.y, low.y, s);
  s = fma(u.low.z, low.z, s);
  s = fma(u.low.w, low.w, s);
  s = fma(u.high.x, high.x, s);
  s = fma(u.high.y, high.y, s);
  s = fma(u.high.z, high.z, s);
  s = fma(u.high.w, high.w, s);
  return s;
}
Raw unit_at(const Item r, const uint u) {
#if defined(W_Q8_0)
  return Raw(u == 0 ? r.a.xy : r.a.zw, r.scale);
#elif defined(W_Q4_0) || defined(W_Q4_1)
  return Raw(r.a[u], r.scale);
#elif defined(W_Q5_0)
  return Raw(r.a[u], r.fifth >> (8 * u), r.scale);
#elif defined(W_Q5_K)
  return Raw(r.a[u], r.fifth >> (8 * u), r.d, r.scale);
#elif defined(W_Q4_K)
  return Raw(r.a[u], r.d, r.scale);
#elif defined(W_Q6_K)
  return Raw(r.a[u], r.high[u / 2] >> (16 * (u % 2)), r.d, r.scale >> (8 * (u / 2)));
#else
  return Raw(r.a);
#endif
}
#endif
