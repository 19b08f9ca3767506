// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/memory/packed_matrix.h"

#include <cstring>

#include "quant/block_codecs.h"
#include "runtime/base/integers.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

/// Words of the planes that a type has.
struct PlaneDensity {
  std::uint32_t codes = 0;             // of a unit
  std::uint32_t scales = 0, high = 0;  // of 32 units
};

PlaneDensity density_of(BlockType type) {
  switch (type) {
    case BlockType::f32:
      return {.codes = 8};
    case BlockType::f16:
    case BlockType::bf16:
      return {.codes = 4};
    case BlockType::q8_0:
      return {.codes = 2, .scales = 4};
    case BlockType::wide:
      return {.codes = 2, .scales = 32};
    case BlockType::q4_0:
      return {.codes = 1, .scales = 4};
    case BlockType::q4_1:
      return {.codes = 1, .scales = 8};
    case BlockType::q5_0:
      return {.codes = 1, .scales = 4, .high = 8};
    case BlockType::q4_k:
      return {.codes = 1, .scales = 5};
    case BlockType::q5_k:
      return {.codes = 1, .scales = 5, .high = 8};
    case BlockType::q6_k:
      return {.codes = 1, .scales = 5, .high = 16};
    case BlockType::q5_1:  // repacked, all of them
    case BlockType::q2_k:
    case BlockType::q3_k:
    case BlockType::iq4_nl:
    case BlockType::iq4_xs:
    case BlockType::i8:
    case BlockType::i32:
      break;
  }
  return {.codes = 1};
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

/// Codes of 4 or 5 bits of 32 columns: a word of low bits per unit, and, where `high` is given, one word of the fifth.
void pack_codes(const std::uint8_t* codes, std::uint32_t* units, std::uint32_t* high = nullptr) {
  for (std::uint32_t u = 0; u < 4; ++u) {
    std::uint8_t low[8];
    for (std::uint32_t j = 0; j < 8; ++j) {
      low[j] = codes[8 * u + j] & 15;
      if (high != nullptr)
        *high |= static_cast<std::uint32_t>(codes[8 * u + j] >> 4) << (8 * u + j);
    }
    units[u] = pack_nibbles(low);
  }
}

/// d and dmin, then scale and minimum of each group of Q4_K and Q5_K.
template <class Block>
void pack_scales(const Block& block, std::uint32_t* scales) {
  scales[0] = block.d | static_cast<std::uint32_t>(block.dmin) << 16;
  for (std::uint32_t g = 0; g < 8; ++g) {
    const quant::ScaleMin s = quant::unpack_scale_min(block.scales, static_cast<int>(g));
    scales[1 + g / 2] |= static_cast<std::uint32_t>(s.scale | s.min << 8) << (16 * (g % 2));
  }
}

void pack_q5_k(const quant::BlockQ5_K& block, std::uint32_t* units, std::uint32_t* scales,
               std::uint32_t* high) {
  pack_scales(block, scales);
  std::uint8_t codes[quant::kSuperBlock];
  quant::unpack_codes(block, codes);
  for (std::uint32_t g = 0; g < 8; ++g) pack_codes(codes + 32 * g, units + 4 * g, high + g);
}

void pack_q4_k(const quant::BlockQ4_K& block, std::uint32_t* units, std::uint32_t* scales) {
  pack_scales(block, scales);
  for (std::uint32_t g = 0; g < 8; ++g) {
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

/// Blocks of 32 columns of one row.
struct Blocks {
  std::span<const std::byte> stored;
  std::size_t count;

  template <class Block, class Pack>
  void each(Pack pack) const {
    for (std::size_t b = 0; b < count; ++b) pack(b, block_at<Block>(stored, b));
  }
};

}  // namespace

std::uint32_t units_of(std::int64_t cols) { return static_cast<std::uint32_t>((cols + 7) / 8); }

PlaneWords plane_words(BlockType type, std::uint64_t units) {
  const PlaneDensity density = density_of(type);
  return {.codes = units * density.codes,
          .scales = divide_up(units * density.scales, std::uint64_t{32}),
          .high = divide_up(units * density.high, std::uint64_t{32})};
}

PartLayout part_layout(BlockType type, std::int64_t rows, std::int64_t cols) {
  const std::uint64_t n = static_cast<std::uint64_t>(rows);
  const std::uint64_t units = n * units_of(cols);
  const auto aligned = [](std::uint64_t words) { return (words + 3) / 4 * 4; };
  PartLayout layout;
  const PlaneWords planes = plane_words(type, units);
  layout.scales = aligned(planes.codes);
  layout.high = layout.scales;
  layout.high += aligned(planes.scales);
  layout.words = layout.high + aligned(planes.high);
  return layout;
}

void pack_row(BlockType type, std::span<const std::byte> stored, std::int64_t row,
              std::int64_t cols, const PartLayout& layout, std::span<std::uint32_t> part) {
  const std::uint64_t first_unit = static_cast<std::uint64_t>(row) * units_of(cols);
  std::uint32_t* units = part.data() + plane_words(type, first_unit).codes;
  std::uint32_t* scales = part.data() + layout.scales;
  const std::uint64_t block = first_unit / 4;
  const std::uint64_t super_block = first_unit / 32;
  const auto row_blocks = [&](int values) {
    return Blocks{stored, static_cast<std::size_t>(cols) / static_cast<std::size_t>(values)};
  };
  const Blocks small = row_blocks(quant::kQ8Block), super = row_blocks(quant::kSuperBlock);
  std::uint32_t* const high = part.data() + layout.high;
  switch (type) {
    case BlockType::q8_0:
      return small.each<quant::BlockQ8_0>([&](std::size_t b, const quant::BlockQ8_0& from) {
        std::memcpy(units + 8 * b, from.qs, sizeof(from.qs));
        put_half_word(scales, block + b, from.d);
      });
    case BlockType::q4_0:
      return small.each<quant::BlockQ4_0>([&](std::size_t b, const quant::BlockQ4_0& from) {
        pack_q4_0(from, units + 4 * b);
        put_half_word(scales, block + b, from.d);
      });
    case BlockType::q4_1:
      return small.each<quant::BlockQ4_1>([&](std::size_t b, const quant::BlockQ4_1& from) {
        std::uint8_t codes[quant::kQ8Block];
        quant::unpack_codes(from, codes);
        pack_codes(codes, units + 4 * b);
        scales[block + b] = from.d | static_cast<std::uint32_t>(from.m) << 16;
      });
    case BlockType::q5_0:
      return small.each<quant::BlockQ5_0>([&](std::size_t b, const quant::BlockQ5_0& from) {
        std::uint8_t codes[quant::kQ8Block];
        quant::unpack_codes(from, codes);
        pack_codes(codes, units + 4 * b, high + block + b);
        put_half_word(scales, block + b, from.d);
      });
    case BlockType::q4_k:
      return super.each<quant::BlockQ4_K>([&](std::size_t b, const quant::BlockQ4_K& from) {
        pack_q4_k(from, units + 32 * b, scales + 5 * (super_block + b));
      });
    case BlockType::q5_k:
      return super.each<quant::BlockQ5_K>([&](std::size_t b, const quant::BlockQ5_K& from) {
        pack_q5_k(from, units + 32 * b, scales + 5 * (super_block + b), high + block + 8 * b);
      });
    case BlockType::q6_k:
      return super.each<quant::BlockQ6_K>([&](std::size_t b, const quant::BlockQ6_K& from) {
        pack_q6_k(from, units + 32 * b, scales + 5 * (super_block + b), high, first_unit + 32 * b);
      });
    case BlockType::wide:
      return row_blocks(quant::kWideBlock)
          .each<quant::BlockWide>([&](std::size_t b, const quant::BlockWide& from) {
            std::memcpy(units + 4 * b, from.qs, sizeof(from.qs));
            std::memcpy(scales + 2 * (2 * block + b), &from.scale, 2 * sizeof(float));
          });
    case BlockType::f32:
    case BlockType::f16:
    case BlockType::bf16:  // the row's padding stays zero
      std::memcpy(units, stored.data(), stored.size());
      return;
    case BlockType::q5_1:  // repacked, all of them
    case BlockType::q2_k:
    case BlockType::q3_k:
    case BlockType::iq4_nl:
    case BlockType::iq4_xs:
    case BlockType::i8:
    case BlockType::i32:
      return;
  }
}

}  // namespace runnel::vulkan
