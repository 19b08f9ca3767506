// SPDX-License-Identifier: Apache-2.0
// Q2_K, Q3_K, IQ4_NL and IQ4_XS: formats that are read, not written.
#include "quant/block_codecs.h"
#include "runtime/base/half.h"

namespace runnel::quant {
namespace {

/// Two bits of each value: for each half h and part p, those of value 128h + 32p + l at bit 2p of qs[32h + l].
void unpack_two_bits(const std::uint8_t* qs, std::uint8_t* codes) {
  for (int half = 0; half < 2; ++half, qs += 32) {
    for (int part = 0; part < 4; ++part, codes += 32) {
      for (int l = 0; l < 32; ++l) codes[l] = (qs[l] >> (2 * part)) & 3;
    }
  }
}

}  // namespace

void unpack_codes(const BlockQ2_K& block, std::uint8_t* codes) { unpack_two_bits(block.qs, codes); }

void unpack_codes(const BlockQ3_K& block, std::uint8_t* codes) {
  unpack_two_bits(block.qs, codes);
  for (int bit = 0; bit < 8; ++bit, codes += 32) {
    for (int l = 0; l < 32; ++l)
      codes[l] = static_cast<std::uint8_t>(codes[l] | (((block.hmask[l] >> bit) & 1) << 2));
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
  for (int g = 0; g < 16; ++g) {
    const float scale = d * static_cast<float>(block.scales[g] & 15);
    const float minimum = dmin * static_cast<float>(block.scales[g] >> 4);
    for (int i = 16 * g; i < 16 * g + 16; ++i)
      out[i] = scale * static_cast<float>(codes[i]) - minimum;
  }
}

void decode(const BlockQ3_K& block, float* out) {
  const float d = f16_to_f32(block.d);
  std::uint8_t codes[kSuperBlock];
  unpack_codes(block, codes);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * static_cast<float>(unpack_scale(block, g));
    for (int i = 16 * g; i < 16 * g + 16; ++i) out[i] = scale * static_cast<float>(codes[i] - 4);
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
