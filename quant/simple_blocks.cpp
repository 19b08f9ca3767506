// SPDX-License-Identifier: Apache-2.0
// Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1: blocks of 32 values. The order of the float operations is ggml's reference's, because the codes must come out the same.
#include <cmath>

#include "quant/block_codecs.h"
#include "runtime/base/half.h"

namespace runnel::quant {
namespace {

/// 1 / d, or 0 for a block whose values vanish beside the smallest scale (1 / d overflows for d < 2^-128).
float inverse(float d) {
  const float id = d != 0.0F ? 1.0F / d : 0.0F;
  return std::isfinite(id) ? id : 0.0F;
}

/// The value of largest magnitude, the first of several, with its sign.
float extreme_of(const float* x) {
  float largest = 0.0F;
  float extreme = 0.0F;
  for (int j = 0; j < kQ8Block; ++j) {
    const float magnitude = std::fabs(x[j]);
    if (largest < magnitude) {
      largest = magnitude;
      extreme = x[j];
    }
  }
  return extreme;
}

/// roundf as arithmetic that vectorises: the difference to the truncated value is exact.
int round_half_away(float v) {
  const int t = static_cast<int>(v);
  const float rest = v - static_cast<float>(t);
  return t + static_cast<int>(rest >= 0.5F) - static_cast<int>(rest <= -0.5F);
}

/// Codes of 5 bits whose low four are in `qs`, two by two, and whose fifth is in `qh`.
void unpack_five_bits(const std::uint8_t* qs, const std::uint8_t* qh, std::uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = static_cast<std::uint8_t>((qs[j] & 15) | (((qh[j / 8] >> (j % 8)) & 1) << 4));
    codes[j + 16] =
        static_cast<std::uint8_t>((qs[j] >> 4) | (((qh[2 + j / 8] >> (j % 8)) & 1) << 4));
  }
}

}  // namespace

BlockQ8_0 encode_q8_0(const float* x) {
  float largest = 0.0F;
  for (int j = 0; j < kQ8Block; ++j) largest = std::fmax(largest, std::fabs(x[j]));
  const float d = largest / 127.0F;
  const float id = inverse(d);
  BlockQ8_0 block;
  block.d = f32_to_f16(d);
  for (int j = 0; j < kQ8Block; ++j) {
    block.qs[j] = static_cast<std::int8_t>(round_half_away(x[j] * id));
  }
  return block;
}

void decode(const BlockQ8_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < kQ8Block; ++j) out[j] = static_cast<float>(block.qs[j]) * d;
}

BlockQ4_0 encode_q4_0(const float* x) {
  const float d = extreme_of(x) / -8.0F;
  const float id = inverse(d);
  BlockQ4_0 block;
  block.d = f32_to_f16(d);
  constexpr int kHalf = kQ8Block / 2;
  std::uint8_t codes[kQ8Block];
  for (int j = 0; j < kQ8Block; ++j) {
    const int code = static_cast<int>(x[j] * id + 8.5F);
    codes[j] = static_cast<std::uint8_t>(code < 15 ? code : 15);
  }
  for (int j = 0; j < kHalf; ++j) {
    block.qs[j] = static_cast<std::uint8_t>(codes[j] | (codes[j + kHalf] << 4));
  }
  return block;
}

void decode(const BlockQ4_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < kQ8Block / 2; ++j) {
    out[j] = static_cast<float>((block.qs[j] & 15) - 8) * d;
    out[j + kQ8Block / 2] = static_cast<float>((block.qs[j] >> 4) - 8) * d;
  }
}

BlockQ4_1 encode_q4_1(const float* x) {
  float least = x[0], most = x[0];
  for (int j = 1; j < kQ8Block; ++j) {
    least = x[j] < least ? x[j] : least;
    most = x[j] > most ? x[j] : most;
  }
  const float d = (most - least) / 15.0F;
  const float id = inverse(d);
  BlockQ4_1 block;
  block.d = f32_to_f16(d);
  block.m = f32_to_f16(least);
  std::uint8_t codes[kQ8Block];
  for (int j = 0; j < kQ8Block; ++j) {
    const float place = (x[j] - least) * id + 0.5F;  // cut off below: ggml rounds so
    const int code = static_cast<int>(place);
    codes[j] = static_cast<std::uint8_t>(code < 15 ? code : 15);
  }
  for (int j = 0; j < 16; ++j)
    block.qs[j] = static_cast<std::uint8_t>(codes[j] | (codes[j + 16] << 4));
  return block;
}

void unpack_codes(const BlockQ4_1& block, std::uint8_t* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = block.qs[j] & 15;
    codes[j + 16] = block.qs[j] >> 4;
  }
}

void decode(const BlockQ4_1& block, float* out) {
  const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(block.qs[j] & 15) + m;
    out[j + 16] = d * static_cast<float>(block.qs[j] >> 4) + m;
  }
}

BlockQ5_0 encode_q5_0(const float* x) {
  const float d = extreme_of(x) / -16.0F;
  const float id = inverse(d);
  BlockQ5_0 block{};
  block.d = f32_to_f16(d);
  std::uint8_t codes[kQ8Block];
  for (int j = 0; j < kQ8Block; ++j) {
    const int code = static_cast<int>(x[j] * id + 16.5F);
    codes[j] = static_cast<std::uint8_t>(code < 31 ? code : 31);
    block.qh[j / 8] = static_cast<std::uint8_t>(block.qh[j / 8] | ((codes[j] >> 4) << (j % 8)));
  }
  for (int j = 0; j < 16; ++j)
    block.qs[j] = static_cast<std::uint8_t>((codes[j] & 15) | ((codes[j + 16] & 15) << 4));
  return block;
}

void unpack_codes(const BlockQ5_0& block, std::uint8_t* codes) {
  unpack_five_bits(block.qs, block.qh, codes);
}

void decode(const BlockQ5_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  std::uint8_t codes[kQ8Block];
  unpack_codes(block, codes);
  for (int i = 0; i < kQ8Block; ++i) out[i] = d * static_cast<float>(codes[i] - 16);
}

void unpack_codes(const BlockQ5_1& block, std::uint8_t* codes) {
  unpack_five_bits(block.qs, block.qh, codes);
}

void decode(const BlockQ5_1& block, float* out) {
  const float d = f16_to_f32(block.d), m = f16_to_f32(block.m);
  std::uint8_t codes[kQ8Block];
  unpack_codes(block, codes);
  for (int i = 0; i < kQ8Block; ++i) out[i] = d * static_cast<float>(codes[i]) + m;
}

}  // namespace runnel::quant
