// SPDX-License-Identifier: Apache-2.0
// Q2_K, Q3_K, IQ4_NL and IQ4_XS: formats that are read, not written.
#include "quant/block_codecs.h"
#include "runtime/base/half.h"

namespace runnel::quant {

void unpack_codes(const BlockQ2_K& block, std::uint8_t* codes) {
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128, part = i % 128 / 32, l = i % 32;
    codes[i] = static_cast<std::uint8_t>((block.qs[32 * half + l] >> (2 * part)) & 3);
  }
}

void unpack_codes(const BlockQ3_K& block, std::uint8_t* codes) {
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128, part = i % 128 / 32, l = i % 32;
    const int low = (block.qs[32 * half + l] >> (2 * part)) & 3;
    const int high = (block.hmask[l] >> (4 * half + part)) & 1;
    codes[i] = static_cast<std::uint8_t>(low | (high << 2));
  }
}

int unpack_scale(const BlockQ3_K& block, int group) {
  const int low = (block.scales[group % 8] >> (group < 8 ? 0 : 4)) & 15;
  const int high = (block.scales[8 + group % 4] >> (2 * (group / 4))) & 3;
  return (low | (high << 4)) - 32;
}

int unpack_scale(const BlockIQ4_XS& block, int group) {
  const int low = (block.scales_l[group / 2] >> (4 * (group % 2))) & 15;
  const int high = (block.scales_h >> (2 * group)) & 3;
  return (low | (high << 4)) - 32;
}

void decode(const BlockQ2_K& block, float* out) {
  const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
  std::uint8_t codes[kSuperBlock];
  unpack_codes(block, codes);
  for (int i = 0; i < kSuperBlock; ++i) {
    const std::uint8_t fields = block.scales[i / 16];
    const float scale = d * static_cast<float>(fields & 15);
    out[i] = scale * static_cast<float>(codes[i]) - dmin * static_cast<float>(fields >> 4);
  }
}

void decode(const BlockQ3_K& block, float* out) {
  const float d = f16_to_f32(block.d);
  std::uint8_t codes[kSuperBlock];
  unpack_codes(block, codes);
  for (int i = 0; i < kSuperBlock; ++i) {
    out[i] = d * static_cast<float>(unpack_scale(block, i / 16)) * static_cast<float>(codes[i] - 4);
  }
}

void decode(const BlockIQ4_NL& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(kIq4Values[block.qs[j] & 15]);
    out[j + 16] = d * static_cast<float>(kIq4Values[block.qs[j] >> 4]);
  }
}

void decode(const BlockIQ4_XS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int g = 0; g < 8; ++g, out += 32) {
    const float scale = d * static_cast<float>(unpack_scale(block, g));
    for (int j = 0; j < 16; ++j) {
      const std::uint8_t both = block.qs[16 * g + j];
      out[j] = scale * static_cast<float>(kIq4Values[both & 15]);
      out[j + 16] = scale * static_cast<float>(kIq4Values[both >> 4]);
    }
  }
}

void decode(const BlockWide& block, float* out) {
  for (int i = 0; i < kWideBlock; ++i)
    out[i] = block.scale * static_cast<float>(block.qs[i]) + block.offset;
}

}  // namespace runnel::quant
