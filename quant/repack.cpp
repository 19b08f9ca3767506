// SPDX-License-Identifier: Apache-2.0
// Exact by construction: a scale of the wide layout is the product of the block's scales as its decoder rounds it, an
// offset the product that the decoder adds or subtracts, and x - y = x + (-y).
#include "quant/repack.h"

#include <cstring>

#include "quant/block_codecs.h"
#include "runtime/base/half.h"

namespace runnel::quant {
namespace {

constexpr float kNoOffset = -0.0F;  // x + -0 = x for every x, zeros of both signs too

void put_wide(std::byte*& out, const std::uint8_t* codes, float scale, float offset) {
  BlockWide wide;
  std::memcpy(wide.qs, codes, sizeof wide.qs);
  wide.scale = scale;
  wide.offset = offset;
  std::memcpy(out, &wide, sizeof wide);
  out += sizeof wide;
}

template <class Target>
void put(std::byte*& out, const Target& block) {
  std::memcpy(out, &block, sizeof block);
  out += sizeof block;
}

void repack_block(const BlockQ4_1& b, std::byte*& out) {
  std::uint8_t codes[kQ8Block];
  unpack_codes(b, codes);
  for (int i = 0; i < kQ8Block; i += kWideBlock)
    put_wide(out, codes + i, f16_to_f32(b.d), f16_to_f32(b.m));
}

void repack_block(const BlockQ5_1& b, std::byte*& out) {
  std::uint8_t codes[kQ8Block];
  unpack_codes(b, codes);
  for (int i = 0; i < kQ8Block; i += kWideBlock)
    put_wide(out, codes + i, f16_to_f32(b.d), f16_to_f32(b.m));
}

void repack_block(const BlockQ5_0& b, std::byte*& out) {
  std::uint8_t codes[kQ8Block];
  unpack_codes(b, codes);
  BlockQ8_0 same;
  same.d = b.d;
  for (int i = 0; i < kQ8Block; ++i) same.qs[i] = static_cast<std::int8_t>(codes[i] - 16);
  put(out, same);
}

void repack_block(const BlockIQ4_NL& b, std::byte*& out) {
  BlockQ8_0 same;
  same.d = b.d;
  for (int j = 0; j < 16; ++j) {
    same.qs[j] = kIq4Values[b.qs[j] & 15];
    same.qs[j + 16] = kIq4Values[b.qs[j] >> 4];
  }
  put(out, same);
}

void repack_block(const BlockQ5_K& b, std::byte*& out) {
  std::uint8_t codes[kSuperBlock];
  unpack_codes(b, codes);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin fields = unpack_scale_min(b.scales, g);
    const float scale = f16_to_f32(b.d) * static_cast<float>(fields.scale);
    const float offset = -(f16_to_f32(b.dmin) * static_cast<float>(fields.min));
    put_wide(out, codes + 32 * g, scale, offset);
    put_wide(out, codes + 32 * g + 16, scale, offset);
  }
}

void repack_block(const BlockQ2_K& b, std::byte*& out) {
  std::uint8_t codes[kSuperBlock];
  unpack_codes(b, codes);
  for (int g = 0; g < 16; ++g) {
    put_wide(out, codes + 16 * g, f16_to_f32(b.d) * static_cast<float>(b.scales[g] & 15),
             -(f16_to_f32(b.dmin) * static_cast<float>(b.scales[g] >> 4)));
  }
}

void repack_block(const BlockIQ4_XS& b, std::byte*& out) {
  for (int g = 0; g < 8; ++g) {
    const float scale = f16_to_f32(b.d) * static_cast<float>(unpack_scale(b, g));
    std::uint8_t codes[kQ8Block];
    for (int j = 0; j < 16; ++j) {
      codes[j] = static_cast<std::uint8_t>(kIq4Values[b.qs[16 * g + j] & 15]);
      codes[j + 16] = static_cast<std::uint8_t>(kIq4Values[b.qs[16 * g + j] >> 4]);
    }
    put_wide(out, codes, scale, kNoOffset);
    put_wide(out, codes + 16, scale, kNoOffset);
  }
}

void repack_block(const BlockQ3_K& b, std::byte*& out) {
  std::uint8_t codes[kSuperBlock];
  unpack_codes(b, codes);
  BlockQ6_K same;
  same.d = b.d;
  for (int g = 0; g < 16; ++g) same.scales[g] = static_cast<std::int8_t>(unpack_scale(b, g));
  // q - 4 there is q + 28 - 32 here.
  for (int half = 0; half < 2; ++half) {
    for (int l = 0; l < 32; ++l) {
      const std::uint8_t* const q = codes + 128 * half + l;
      const int a = q[0] + 28, c = q[32] + 28, e = q[64] + 28, g = q[96] + 28;
      same.ql[64 * half + l] = static_cast<std::uint8_t>((a & 15) | ((e & 15) << 4));
      same.ql[64 * half + 32 + l] = static_cast<std::uint8_t>((c & 15) | ((g & 15) << 4));
      same.qh[32 * half + l] =
          static_cast<std::uint8_t>((a >> 4) | ((c >> 4) << 2) | ((e >> 4) << 4) | ((g >> 4) << 6));
    }
  }
  put(out, same);
}

template <class Block>
constexpr std::size_t kValuesOf = kSuperBlock;
template <>
constexpr std::size_t kValuesOf<BlockQ4_1> = kQ8Block;
template <>
constexpr std::size_t kValuesOf<BlockQ5_0> = kQ8Block;
template <>
constexpr std::size_t kValuesOf<BlockQ5_1> = kQ8Block;
template <>
constexpr std::size_t kValuesOf<BlockIQ4_NL> = kQ8Block;

}  // namespace

template <class Block>
void repack_row(const std::byte* in, std::size_t values, std::byte* out) {
  for (std::size_t i = 0; i < values / kValuesOf<Block>; ++i, in += sizeof(Block)) {
    Block block;
    std::memcpy(&block, in, sizeof block);
    repack_block(block, out);
  }
}

template void repack_row<BlockQ4_1>(const std::byte*, std::size_t, std::byte*);
template void repack_row<BlockQ5_0>(const std::byte*, std::size_t, std::byte*);
template void repack_row<BlockQ5_1>(const std::byte*, std::size_t, std::byte*);
template void repack_row<BlockQ2_K>(const std::byte*, std::size_t, std::byte*);
template void repack_row<BlockQ3_K>(const std::byte*, std::size_t, std::byte*);
template void repack_row<BlockQ5_K>(const std::byte*, std::size_t, std::byte*);
template void repack_row<BlockIQ4_NL>(const std::byte*, std::size_t, std::byte*);
template void repack_row<BlockIQ4_XS>(const std::byte*, std::size_t, std::byte*);

void repack(BlockType from, std::span<const std::byte> in, std::int64_t cols,
            std::span<std::byte> out) {
  format_of(from).repack(in.data(), static_cast<std::size_t>(cols), out.data());
}

RowReader::RowReader(BlockType from, BlockType kept, std::int64_t cols)
    : from_(from), cols_(cols), buffer_(from == kept ? 0 : row_bytes(kept, cols)) {}

std::span<const std::byte> RowReader::operator()(std::span<const std::byte> row) {
  if (buffer_.empty()) return row;
  repack(from_, row, cols_, buffer_);
  return buffer_;
}

}  // namespace runnel::quant
