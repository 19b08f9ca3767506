// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/memory/packed_matrix.h"

#include <cstring>

#include "quant/block_codecs.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

std::uint64_t words_per_unit(BlockType type) {
  switch (type) {
    case BlockType::f32:
      return 8;
    case BlockType::f16:
    case BlockType::bf16:
      return 4;
    case BlockType::q8_0:
      return 2;
    default:
      return 1;
  }
}

/// Codes 0 … 15 of 8 columns as one word.
std::uint32_t pack_nibbles(const std::uint8_t* codes) {
  std::uint32_t word = 0;
  for (std::uint32_t j = 0; j < 4; ++j)
    word |= static_cast<std::uint32_t>(codes[j] | codes[j + 4] << 4) << (8 * j);
  return word;
}

void put_half_word(std::uint32_t* plane, std::uint64_t index, std::uint32_t value) {
  plane[index / 2] |= value << (16 * (index % 2));
}

template <class Block>
Block block_at(std::span<const std::byte> stored, std::size_t index) {
  Block block;
  std::memcpy(&block, stored.data() + index * sizeof(Block), sizeof(Block));
  return block;
}

void pack_q4_0(const quant::BlockQ4_0& block, std::uint32_t* units) {
  std::uint8_t codes[quant::kQ8Block];
  for (int j = 0; j < 16; ++j) {
    codes[j] = block.qs[j] & 15;
    codes[j + 16] = block.qs[j] >> 4;
  }
  for (int u = 0; u < 4; ++u) units[u] = pack_nibbles(codes + 8 * u);
}

void pack_q4_k(const quant::BlockQ4_K& block, std::uint32_t* units, std::uint32_t* scales) {
  scales[0] = block.d | static_cast<std::uint32_t>(block.dmin) << 16;
  for (std::uint32_t g = 0; g < 8; ++g) {
    const quant::ScaleMin s = quant::unpack_scale_min(block.scales, static_cast<int>(g));
    scales[1 + g / 2] |= static_cast<std::uint32_t>(s.scale | s.min << 8) << (16 * (g % 2));
    std::uint8_t codes[quant::kQ8Block];
    for (std::uint32_t l = 0; l < 32; ++l)
      codes[l] = static_cast<std::uint8_t>((block.qs[32 * (g / 2) + l] >> (4 * (g % 2))) & 15);
    for (std::uint32_t u = 0; u < 4; ++u) units[4 * g + u] = pack_nibbles(codes + 8 * u);
  }
}

void pack_q6_k(const quant::BlockQ6_K& block, std::uint32_t* units, std::uint32_t* scales,
               std::uint32_t* high, std::uint64_t first_unit) {
  scales[0] = block.d;
  for (std::uint32_t g = 0; g < 16; ++g)
    scales[1 + g / 4] |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(block.scales[g]))
                         << (8 * (g % 4));
  std::uint8_t codes[quant::kSuperBlock];  // 6 bits
  for (int h = 0; h < 2; ++h) {
    for (int l = 0; l < 32; ++l) {
      const int low = block.ql[64 * h + l];
      const int next = block.ql[64 * h + 32 + l];
      const int upper = block.qh[32 * h + l];
      std::uint8_t* half = codes + 128 * h;
      half[l] = static_cast<std::uint8_t>((low & 15) | (upper & 3) << 4);
      half[l + 32] = static_cast<std::uint8_t>((next & 15) | (upper >> 2 & 3) << 4);
      half[l + 64] = static_cast<std::uint8_t>((low >> 4) | (upper >> 4 & 3) << 4);
      half[l + 96] = static_cast<std::uint8_t>((next >> 4) | (upper >> 6 & 3) << 4);
    }
  }
  for (std::uint32_t u = 0; u < quant::kSuperBlock / 8; ++u) {
    std::uint8_t low[8];
    std::uint32_t upper = 0;
    for (std::uint32_t j = 0; j < 8; ++j) {
      low[j] = codes[8 * u + j] & 15;
      upper |= static_cast<std::uint32_t>(codes[8 * u + j] >> 4) << (2 * j);
    }
    units[u] = pack_nibbles(low);
    put_half_word(high, first_unit + u, upper);
  }
}

}  // namespace

std::uint32_t units_of(std::int64_t cols) { return static_cast<std::uint32_t>((cols + 7) / 8); }

PartLayout part_layout(BlockType type, std::int64_t rows, std::int64_t cols) {
  const std::uint64_t n = static_cast<std::uint64_t>(rows);
  const std::uint64_t units = n * units_of(cols);
  const auto aligned = [](std::uint64_t words) { return (words + 3) / 4 * 4; };
  PartLayout layout;
  layout.scales = aligned(units * words_per_unit(type));
  layout.high = layout.scales;
  if (type == BlockType::q8_0 || type == BlockType::q4_0)
    layout.high += aligned((units / 4 + 1) / 2);
  if (type == BlockType::q4_k || type == BlockType::q6_k) layout.high += aligned(units / 32 * 5);
  layout.words = layout.high;
  if (type == BlockType::q6_k) layout.words += aligned((units + 1) / 2);
  return layout;
}

void pack_row(BlockType type, std::span<const std::byte> stored, std::int64_t row,
              std::int64_t cols, const PartLayout& layout, std::span<std::uint32_t> part) {
  const std::uint64_t first_unit = static_cast<std::uint64_t>(row) * units_of(cols);
  std::uint32_t* units = part.data() + first_unit * words_per_unit(type);
  std::uint32_t* scales = part.data() + layout.scales;
  const std::uint64_t block = first_unit / 4;
  const std::uint64_t super_block = first_unit / 32;
  switch (type) {
    case BlockType::q8_0:
      for (std::size_t b = 0; b < static_cast<std::size_t>(cols) / quant::kQ8Block; ++b) {
        const auto stored_block = block_at<quant::BlockQ8_0>(stored, b);
        std::memcpy(units + 8 * b, stored_block.qs, sizeof(stored_block.qs));
        put_half_word(scales, block + b, stored_block.d);
      }
      return;
    case BlockType::q4_0:
      for (std::size_t b = 0; b < static_cast<std::size_t>(cols) / quant::kQ8Block; ++b) {
        const auto stored_block = block_at<quant::BlockQ4_0>(stored, b);
        pack_q4_0(stored_block, units + 4 * b);
        put_half_word(scales, block + b, stored_block.d);
      }
      return;
    case BlockType::q4_k:
      for (std::size_t b = 0; b < static_cast<std::size_t>(cols) / quant::kSuperBlock; ++b)
        pack_q4_k(block_at<quant::BlockQ4_K>(stored, b), units + 32 * b,
                  scales + 5 * (super_block + b));
      return;
    case BlockType::q6_k:
      for (std::size_t b = 0; b < static_cast<std::size_t>(cols) / quant::kSuperBlock; ++b)
        pack_q6_k(block_at<quant::BlockQ6_K>(stored, b), units + 32 * b,
                  scales + 5 * (super_block + b), part.data() + layout.high, first_unit + 32 * b);
      return;
    default:  // plain values, the row's padding stays zero
      std::memcpy(units, stored.data(), stored.size());
      return;
  }
}

}  // namespace runnel::vulkan
