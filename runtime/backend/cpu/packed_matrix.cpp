// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cpu/packed_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "quant/formats.h"
#include "quant/quantise.h"
#include "quant/repack.h"
#include "runtime/base/half.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::cpu {
namespace {

using quant::BlockType;

std::uint32_t word_at(const std::uint8_t* p) {
  std::uint32_t w;
  std::memcpy(&w, p, 4);
  return w;
}

std::uint16_t half_at(const std::uint8_t* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return h;
}

void put(std::uint8_t* p, std::uint32_t word) { std::memcpy(p, &word, 4); }
void put(std::uint8_t* p, std::uint16_t half) { std::memcpy(p, &half, 2); }

constexpr std::uint32_t kFlipSigns = 0x80808080U;  // q to q + 128

/// Four bits as the lowest of four bytes.
std::uint32_t spread(std::uint32_t bits) { return (bits & 15) * 0x00204081U & 0x01010101U; }

using FourWords [[gnu::vector_size(16)]] = std::uint32_t;

/// Rows r … r + 3 of a tile, as the file has them.
class FourRows {
 public:
  FourRows(const std::array<const std::uint8_t*, 4>& rows, std::size_t r) : rows_(rows), r_(r) {}

  void skip(std::size_t bytes) {
    for (const std::uint8_t*& row : rows_) row += bytes;
  }

  /// The `words` 4-byte words at `offset`, to a [word][16 rows] array: 4 x 4 of them change places
  /// in registers and are stored 16 bytes at a time.
  void words(std::size_t offset, int words, std::uint32_t flip, std::uint8_t* to) const {
    int i = 0;
    for (; i + 4 <= words; i += 4, offset += 16, to += 256) {
      FourWords row[4];
      for (std::size_t k = 0; k < 4; ++k) std::memcpy(&row[k], rows_[k] + offset, 16);
      const FourWords a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5) ^ flip;
      const FourWords b = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7) ^ flip;
      const FourWords c = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5) ^ flip;
      const FourWords d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7) ^ flip;
      const FourWords word[4] = {
          __builtin_shufflevector(a, c, 0, 1, 4, 5), __builtin_shufflevector(a, c, 2, 3, 6, 7),
          __builtin_shufflevector(b, d, 0, 1, 4, 5), __builtin_shufflevector(b, d, 2, 3, 6, 7)};
      for (std::size_t k = 0; k < 4; ++k) std::memcpy(to + 64 * k + 4 * r_, &word[k], 16);
    }
    for (; i < words; ++i, offset += 4, to += 64) {
      for (std::size_t k = 0; k < 4; ++k) put(to + 4 * (r_ + k), word_at(rows_[k] + offset) ^ flip);
    }
  }
  /// A 16-bit value to a [16 rows] array.
  void half(std::size_t offset, std::uint8_t* to) const {
    for (std::size_t k = 0; k < 4; ++k) put(to + 2 * (r_ + k), half_at(rows_[k] + offset));
  }
  /// `count` bytes to a [byte][16 rows] array.
  void bytes(std::size_t offset, std::size_t count, std::uint8_t* to) const {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < 4; ++k) to[16 * i + r_ + k] = rows_[k][offset + i];
    }
  }
  /// The fifth bits of 32 inputs, bit i of input i, to a [16 rows] array of words whose byte j has those of inputs
  /// 4s + j in bit s.
  void fifth_bits(std::size_t offset, std::uint8_t* to) const {
    for (std::size_t k = 0; k < 4; ++k) {
      const std::uint32_t bits = word_at(rows_[k] + offset);
      std::uint32_t turned = 0;
      for (unsigned s = 0; s < 8; ++s) turned |= spread(bits >> (4 * s)) << s;
      put(to + 4 * (r_ + k), turned);
    }
  }
  /// The same for 8 groups of 32 inputs, bit g of byte l of input l of group g, to a [group][16 rows] array.
  void fifth_bits_of_groups(std::size_t offset, std::uint8_t* to) const {
    for (std::size_t k = 0; k < 4; ++k) {
      std::uint32_t step[8];
      std::memcpy(step, rows_[k] + offset, sizeof step);
      for (unsigned g = 0; g < 8; ++g) {
        std::uint32_t turned = 0;
        for (unsigned s = 0; s < 8; ++s) turned |= (step[s] >> g & 0x01010101U) << s;
        put(to + 64 * g + 4 * (r_ + k), turned);
      }
    }
  }

 private:
  std::array<const std::uint8_t*, 4> rows_;
  std::size_t r_;
};

void pack_rows(const PackedMatrix& m, FourRows rows, std::uint8_t* tile) {
  const auto cols = static_cast<std::size_t>(m.cols);
  switch (m.format) {
    case kTileF32:
      rows.words(0, m.cols, 0, tile);
      return;
    case kTileF16:
    case kTileBf16:
      for (std::size_t c = 0; c < cols; ++c) rows.half(2 * c, tile + 32 * c);
      return;
    case kTileQ8_0: {
      std::uint8_t* scales = tile + 16 * cols;
      for (std::size_t g = 0; g < cols / 32; ++g, tile += 512, scales += 32, rows.skip(34)) {
        rows.half(0, scales);
        rows.words(2, 8, kFlipSigns, tile);
      }
      return;
    }
    case kTileQ4_0: {
      std::uint8_t* scales = tile + 8 * cols;
      for (std::size_t g = 0; g < cols / 32; ++g, tile += 256, scales += 32, rows.skip(18)) {
        rows.half(0, scales);
        rows.words(2, 4, 0, tile);
      }
      return;
    }
    case kTileQ4_1: {
      std::uint8_t* scales = tile + 8 * cols;
      for (std::size_t g = 0; g < cols / 32; ++g, tile += 256, scales += 64, rows.skip(20)) {
        rows.half(0, scales);
        rows.half(2, scales + 32);
        rows.words(4, 4, 0, tile);
      }
      return;
    }
    case kTileQ5_0: {
      std::uint8_t* bits = tile + 8 * cols;
      std::uint8_t* scales = tile + 10 * cols;
      for (std::size_t g = 0; g < cols / 32;
           ++g, tile += 256, bits += 64, scales += 32, rows.skip(22)) {
        rows.half(0, scales);
        rows.fifth_bits(2, bits);
        rows.words(6, 4, 0, tile);
      }
      return;
    }
    case kTileQ5_K: {
      const std::size_t blocks = cols / 256;
      std::uint8_t* bits = tile + 2048 * blocks;
      std::uint8_t* scales = tile + (2048 + 512) * blocks;
      std::uint8_t* d = tile + (2048 + 512 + 192) * blocks;
      for (std::size_t b = 0; b < blocks;
           ++b, tile += 2048, bits += 512, scales += 192, d += 64, rows.skip(176)) {
        rows.half(0, d);
        rows.half(2, d + 32);
        rows.bytes(4, 12, scales);
        rows.fifth_bits_of_groups(16, bits);
        rows.words(48, 32, 0, tile);
      }
      return;
    }
    case kTileWide: {
      std::uint8_t* scales = tile + 16 * cols;
      for (std::size_t g = 0; g < cols / 16; ++g, tile += 256, scales += 128, rows.skip(24)) {
        rows.words(0, 4, kFlipSigns, tile);
        rows.words(16, 2, 0, scales);
      }
      return;
    }
    case kTileQ4_K: {
      const std::size_t blocks = cols / 256;
      std::uint8_t* scales = tile + 2048 * blocks;
      std::uint8_t* d = tile + (2048 + 192) * blocks;
      for (std::size_t b = 0; b < blocks;
           ++b, tile += 2048, scales += 192, d += 64, rows.skip(144)) {
        rows.half(0, d);
        rows.half(2, d + 32);
        rows.bytes(4, 12, scales);
        rows.words(16, 32, 0, tile);
      }
      return;
    }
    case kTileQ6_K: {
      const std::size_t blocks = cols / 256;
      std::uint8_t* high = tile + 2048 * blocks;
      std::uint8_t* scales = tile + 3072 * blocks;
      std::uint8_t* d = tile + 3328 * blocks;
      for (std::size_t b = 0; b < blocks;
           ++b, tile += 2048, high += 1024, scales += 256, d += 32, rows.skip(210)) {
        rows.words(0, 32, 0, tile);
        rows.words(128, 16, 0, high);
        rows.bytes(192, 16, scales);
        rows.half(208, d);
      }
      return;
    }
    case kTileFormats:
      return;
  }
}

std::size_t tile_payload(TileFormat format, int cols) {
  const auto n = static_cast<std::size_t>(cols);
  switch (format) {
    case kTileF32:
      return n * 64;
    case kTileF16:
    case kTileBf16:
      return n * 32;
    case kTileQ8_0:
      return n / 32 * (34 * 16);
    case kTileQ4_0:
      return n / 32 * (18 * 16);
    case kTileQ4_1:
      return n / 32 * (20 * 16);
    case kTileQ5_0:
      return n / 32 * (22 * 16);
    case kTileQ4_K:
      return n / 256 * (144 * 16);
    case kTileQ5_K:
      return n / 256 * (176 * 16);
    case kTileQ6_K:
      return n / 256 * (210 * 16);
    case kTileWide:
      return n / 16 * (24 * 16);
    case kTileFormats:
      break;
  }
  return 0;
}

/// The tiles of a type that has kernels; kTileFormats: it has none.
TileFormat tile_format(BlockType type) {
  switch (type) {
    case BlockType::f32:
      return kTileF32;
    case BlockType::f16:
      return kTileF16;
    case BlockType::bf16:
      return kTileBf16;
    case BlockType::q8_0:
      return kTileQ8_0;
    case BlockType::q4_0:
      return kTileQ4_0;
    case BlockType::q4_1:
      return kTileQ4_1;
    case BlockType::q5_0:
      return kTileQ5_0;
    case BlockType::q4_k:
      return kTileQ4_K;
    case BlockType::q5_k:
      return kTileQ5_K;
    case BlockType::q6_k:
      return kTileQ6_K;
    case BlockType::wide:
      return kTileWide;
    case BlockType::q5_1:  // repacked, all of them
    case BlockType::q2_k:
    case BlockType::q3_k:
    case BlockType::iq4_nl:
    case BlockType::iq4_xs:
    case BlockType::i8:
    case BlockType::i32:
      break;
  }
  return kTileFormats;
}

}  // namespace

Result<PackedMatrix> plan_packing(const WeightView& view) {
  PackedMatrix m;
  m.format = tile_format(quant::kept_as(view.type));
  if (m.format == kTileFormats) {
    return fail(ErrorCode::unsupported, view.name, ": type ", static_cast<unsigned>(view.type),
                " is no weight type; expected ", quant::format_names(quant::is_weight));
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - kTileRows;
  const int unit = quant::format_of(view.type).block_values;
  if (view.rows < 1 || view.rows > kMost || view.cols < 1 || view.cols > kMost ||
      view.cols % unit != 0 ||
      view.data.size() !=
          static_cast<std::size_t>(view.rows) * quant::row_bytes(view.type, view.cols)) {
    return fail(ErrorCode::invalid_argument, view.name, ": [", view.rows, ", ", view.cols, "] in ",
                view.data.size(), " bytes does not fit its type");
  }
  m.rows = static_cast<int>(view.rows);
  m.cols = static_cast<int>(view.cols);
  m.tiles = divide_up(m.rows, kTileRows);
  m.tile_bytes = round_up(tile_payload(m.format, m.cols), 64);
  return m;
}

void pack_tiles(const PackedMatrix& m, const WeightView& view, int begin, int end) {
  const std::size_t row_bytes = quant::row_bytes(view.type, view.cols);
  const BlockType kept = quant::kept_as(view.type);
  std::array<quant::RowReader, 4> readers{
      quant::RowReader(view.type, kept, view.cols), quant::RowReader(view.type, kept, view.cols),
      quant::RowReader(view.type, kept, view.cols), quant::RowReader(view.type, kept, view.cols)};
  for (int tile = begin; tile < end; ++tile) {
    std::uint8_t* to = m.data + static_cast<std::size_t>(tile) * m.tile_bytes;
    const int first = tile * kTileRows;
    for (int r = 0; r < kTileRows && first + r < m.rows; r += 4) {
      std::array<const std::uint8_t*, 4> four;
      for (std::size_t k = 0; k < 4; ++k) {
        // Past the end the last row again: what comes of it is not read.
        const int row = std::min(first + r + static_cast<int>(k), m.rows - 1);
        const auto stored = view.data.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes);
        four[k] = reinterpret_cast<const std::uint8_t*>(readers[k](stored).data());
      }
      pack_rows(m, FourRows(four, static_cast<std::size_t>(r)), to);
    }
  }
}

void unpack_row(const PackedMatrix& m, int row, std::span<float> out) {
  const std::uint8_t* tile = m.data + static_cast<std::size_t>(row / kTileRows) * m.tile_bytes;
  const auto r = static_cast<std::size_t>(row % kTileRows);
  const auto n = static_cast<std::size_t>(m.cols);
  // Byte `i` of the 32 inputs of a group whose codes begin at `codes`.
  const auto byte = [r](const std::uint8_t* codes, std::size_t i) {
    return codes[64 * (i / 4) + 4 * r + i % 4];
  };
  const auto number = [r](const std::uint8_t* p) {
    return std::bit_cast<float>(word_at(p + 4 * r));
  };
  // The fifth bit of input `i` of a group, where it belongs in a code.
  const auto fifth = [r](const std::uint8_t* bits, std::size_t i) {
    return ((bits[4 * r + i % 4] >> (i / 4)) & 1) << 4;
  };
  const auto half = [r](const std::uint8_t* p) { return f16_to_f32(half_at(p + 2 * r)); };
  switch (m.format) {
    case kTileF32:
      for (std::size_t c = 0; c < n; ++c) out[c] = number(tile + 64 * c);
      return;
    case kTileF16:
      for (std::size_t c = 0; c < n; ++c) out[c] = half(tile + 32 * c);
      return;
    case kTileBf16:
      for (std::size_t c = 0; c < n; ++c) {
        out[c] =
            std::bit_cast<float>(static_cast<std::uint32_t>(half_at(tile + 32 * c + 2 * r)) << 16);
      }
      return;
    case kTileQ8_0:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const float d = half(tile + n * 16 + 32 * g);
        for (std::size_t i = 0; i < 32; ++i) {
          out[32 * g + i] = d * static_cast<float>(byte(tile + 512 * g, i) - 128);
        }
      }
      return;
    case kTileQ4_0:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const float d = half(tile + n * 8 + 32 * g);
        for (std::size_t i = 0; i < 16; ++i) {
          const int both = byte(tile + 256 * g, i);
          out[32 * g + i] = d * static_cast<float>((both & 15) - 8);
          out[32 * g + i + 16] = d * static_cast<float>((both >> 4) - 8);
        }
      }
      return;
    case kTileQ4_1:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const float d = half(tile + n * 8 + 64 * g), offset = half(tile + n * 8 + 64 * g + 32);
        for (std::size_t i = 0; i < 16; ++i) {
          const int both = byte(tile + 256 * g, i);
          out[32 * g + i] = d * static_cast<float>(both & 15) + offset;
          out[32 * g + i + 16] = d * static_cast<float>(both >> 4) + offset;
        }
      }
      return;
    case kTileQ5_0:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const float d = half(tile + n * 10 + 32 * g);
        const std::uint8_t* bits = tile + n * 8 + 64 * g;
        for (std::size_t i = 0; i < 32; ++i) {
          const int both = byte(tile + 256 * g, i % 16);
          const int code = (i < 16 ? both & 15 : both >> 4) | fifth(bits, i);
          out[32 * g + i] = d * static_cast<float>(code - 16);
        }
      }
      return;
    case kTileWide:
      for (std::size_t c = 0; c < n; ++c) {
        const std::uint8_t* scales = tile + n * 16 + 128 * (c / 16);
        const int code = byte(tile + 512 * (c / 32), c % 32) - 128;
        out[c] = number(scales) * static_cast<float>(code) + number(scales + 64);
      }
      return;
    case kTileQ4_K:
    case kTileQ5_K:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const bool five = m.format == kTileQ5_K;
        const std::size_t block = g / 8, j = g % 8, low = n * (five ? 10 : 8);
        const std::uint8_t* bits = tile + n * 8 + 64 * g;
        const std::uint8_t* s = tile + low + 192 * block + r;
        const std::uint8_t* d = tile + low + 192 * (n / 256) + 64 * block;
        const int scale =
            j < 4 ? s[16 * j] & 63 : (s[16 * (j + 4)] & 15) | ((s[16 * (j - 4)] >> 6) << 4);
        const int minimum =
            j < 4 ? s[16 * (j + 4)] & 63 : (s[16 * (j + 4)] >> 4) | ((s[16 * j] >> 6) << 4);
        const float by = half(d) * static_cast<float>(scale),
                    less = half(d + 32) * static_cast<float>(minimum);
        for (std::size_t i = 0; i < 32; ++i) {
          const int both = byte(tile + 512 * (g / 2), i);
          const int code = (g % 2 == 0 ? both & 15 : both >> 4) | (five ? fifth(bits, i) : 0);
          out[32 * g + i] = by * static_cast<float>(code) - less;
        }
      }
      return;
    case kTileQ6_K:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const std::size_t block = g / 8, h = g % 8 / 4, j = g % 4;  // group j of half h
        const std::uint8_t* low = tile + 2048 * block + 1024 * h + 512 * (j % 2);
        const std::uint8_t* high = tile + n * 8 + 1024 * block + 512 * h;
        const std::uint8_t* scales = tile + n * 12 + 256 * block + 16 * (2 * (g % 8)) + r;
        const float d = half(tile + n * 13 + 32 * block);
        for (std::size_t i = 0; i < 32; ++i) {
          const int both = byte(low, i);
          const int code =
              (j < 2 ? both & 15 : both >> 4) | (((byte(high, i) >> (2 * j)) & 3) << 4);
          const auto scale = static_cast<std::int8_t>(scales[16 * (i / 16)]);
          out[32 * g + i] = d * static_cast<float>(scale) * static_cast<float>(code - 32);
        }
      }
      return;
    case kTileFormats:
      return;
  }
}

Result<std::vector<float>> to_floats(const WeightView& view) {
  std::vector<float> out(static_cast<std::size_t>(view.rows * view.cols));
  if (Status done = quant::dequantize_rows(view.type, view.data, view.cols, out); !done) {
    return with_context(std::move(done).error(), view.name + ": ");
  }
  return out;
}

}  // namespace runnel::cpu
