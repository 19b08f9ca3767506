// SPDX-License-Identifier: Apache-2.0
// Q8_0 and Q4_0. The order of the float operations is ggml's reference's, because the codes must come out the same.
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

/// roundf as arithmetic that vectorises: the difference to the truncated value is exact.
int round_half_away(float v) {
  const int t = static_cast<int>(v);
  const float rest = v - static_cast<float>(t);
  return t + static_cast<int>(rest >= 0.5F) - static_cast<int>(rest <= -0.5F);
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
  float largest = 0.0F;
  float extreme = 0.0F;  // the value of largest magnitude, the first of several, with its sign
  for (int j = 0; j < kQ8Block; ++j) {
    const float magnitude = std::fabs(x[j]);
    if (largest < magnitude) {
      largest = magnitude;
      extreme = x[j];
    }
  }
  const float d = extreme / -8.0F;
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

}  // namespace runnel::quant
