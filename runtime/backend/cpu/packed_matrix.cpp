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
  /// The same for groups `first` and first + 1 of 8, bit g of byte l of input l of group g, to a [2][16 rows] array.
  void fifth_bits_of_groups(std::size_t offset, std::size_t first, std::uint8_t* to) const {
    for (std::size_t k = 0; k < 4; ++k) {
      std::uint32_t step[8];
      std::memcpy(step, rows_[k] + offset, sizeof step);
      for (std::size_t g = 0; g < 2; ++g) {
        std::uint32_t turned = 0;
        for (unsigned s = 0; s < 8; ++s) turned |= (step[s] >> (first + g) & 0x01010101U) << s;
        put(to + 64 * g + 4 * (r_ + k), turned);
      }
    }
  }

 private:
  std::array<const std::uint8_t*, 4> rows_;
  std::size_t r_;
};

/// Where a group of a tile lies, in bytes.
struct GroupPlace {
  std::size_t codes, scales;
};

constexpr std::size_t record_bytes(TileGroup g) {
  return static_cast<std::size_t>(g.of_record) * static_cast<std::size_t>(g.codes + g.scales);
}
constexpr GroupPlace place_of(TileGroup g, std::size_t group) {
  const auto groups = static_cast<std::size_t>(g.of_record);
  const std::size_t in_record = group % groups, record = group / groups * record_bytes(g),
                    codes = static_cast<std::size_t>(g.codes),
                    scales = static_cast<std::size_t>(g.scales);
  return {.codes = record + groups * scales + in_record * codes,
          .scales = record + in_record * scales};
}

constexpr TileBlock block_of(TileFormat format) {
  return format == kTileQ5_K ? kQ5_KBlock : kQ4_KBlock;
}
constexpr std::size_t block_at(TileBlock k, std::size_t block) {
  return block * static_cast<std::size_t>(k.all);
}
/// A block of Q6_K, which has its scale where its pair begins.
constexpr std::size_t q6_k_block_at(std::size_t block) {
  return (block / 2 + 1) * kQ6_KPairHead + block_at(kQ6_KBlock, block);
}
constexpr std::size_t q6_k_scale_at(std::size_t block) {
  return block / 2 * static_cast<std::size_t>(kQ6_KPairHead + 2 * kQ6_KBlock.all) + block % 2 * 32;
}

/// Calls `pack` with the place of each group of a row.
template <class Pack>
void for_each_group(TileGroup g, std::size_t cols, const Pack& pack) {
  for (std::size_t group = 0; group < cols / 32; ++group) pack(place_of(g, group));
}

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
    case kTileQ8_0:
      for_each_group(kQ8_0Group, cols, [&](GroupPlace at) {
        rows.half(0, tile + at.scales);
        rows.words(2, 8, kFlipSigns, tile + at.codes);
        rows.skip(34);
      });
      return;
    case kTileQ4_0:
      for_each_group(kQ4_0Group, cols, [&](GroupPlace at) {
        rows.half(0, tile + at.scales);
        rows.words(2, 4, 0, tile + at.codes);
        rows.skip(18);
      });
      return;
    case kTileQ4_1:
      for_each_group(kQ4_1Group, cols, [&](GroupPlace at) {
        rows.half(0, tile + at.scales);
        rows.half(2, tile + at.scales + 32);
        rows.words(4, 4, 0, tile + at.codes);
        rows.skip(20);
      });
      return;
    case kTileQ5_0:
      for_each_group(kQ5_0Group, cols, [&](GroupPlace at) {
        rows.half(0, tile + at.scales);
        rows.fifth_bits(2, tile + at.codes + 256);
        rows.words(6, 4, 0, tile + at.codes);
        rows.skip(22);
      });
      return;
    case kTileWide:
      for_each_group(kWideGroup, cols, [&](GroupPlace at) {
        for (std::size_t half = 0; half < 2; ++half, rows.skip(24)) {
          rows.words(0, 4, kFlipSigns, tile + at.codes + 256 * half);
          rows.words(16, 2, 0, tile + at.scales + 128 * half);
        }
      });
      return;
    case kTileQ4_K:
    case kTileQ5_K:
      for (std::size_t b = 0; b < cols / 256; ++b) {
        const TileBlock k = block_of(m.format);
        const bool five = m.format == kTileQ5_K;
        std::uint8_t* const block = tile + block_at(k, b);
        rows.half(0, block);
        rows.half(2, block + 32);
        rows.bytes(4, 12, block + 64);
        for (std::size_t j = 0; j < 4; ++j) {
          std::uint8_t* const part = block + k.head + j * static_cast<std::size_t>(k.part);
          rows.words((five ? 48 : 16) + 32 * j, 8, 0, part);
          if (five) rows.fifth_bits_of_groups(16, 2 * j, part + 512);
        }
        rows.skip(five ? 176 : 144);
      }
      return;
    case kTileQ6_K:
      for (std::size_t b = 0; b < cols / 256; ++b, rows.skip(210)) {
        std::uint8_t* const block = tile + q6_k_block_at(b);
        rows.half(208, tile + q6_k_scale_at(b));
        rows.bytes(192, 16, block);
        for (std::size_t half = 0; half < 2; ++half) {
          std::uint8_t* const part = block + kQ6_KBlock.head + half * kQ6_KBlock.part;
          rows.words(64 * half, 16, 0, part);
          rows.words(128 + 32 * half, 8, 0, part + 1024);
        }
      }
      return;
    case kTileFormats:
      return;
  }
}

std::size_t tile_payload(TileFormat format, int cols) {
  const auto n = static_cast<std::size_t>(cols);
  const auto groups = [n](TileGroup g) {
    return divide_up(n / 32, static_cast<std::size_t>(g.of_record)) * record_bytes(g);
  };
  switch (format) {
    case kTileF32:
      return n * 64;
    case kTileF16:
    case kTileBf16:
      return n * 32;
    case kTileQ8_0:
      return groups(kQ8_0Group);
    case kTileQ4_0:
      return groups(kQ4_0Group);
    case kTileQ4_1:
      return groups(kQ4_1Group);
    case kTileQ5_0:
      return groups(kQ5_0Group);
    case kTileWide:
      return groups(kWideGroup);
    case kTileQ4_K:
    case kTileQ5_K:
      return block_at(block_of(format), n / 256);
    case kTileQ6_K:
      return divide_up(n / 256, std::size_t{2}) * kQ6_KPairHead + block_at(kQ6_KBlock, n / 256);
    case kTileFormats:
      break;
  }
  return 0;
}

/// A row of a tile.
struct TileRow {
  const std::uint8_t* tile;
  std::size_t r;

  /// Byte `i` of the 32 inputs of a group whose codes begin at `codes`.
  std::uint8_t byte(const std::uint8_t* codes, std::size_t i) const {
    return codes[64 * (i / 4) + 4 * r + i % 4];
  }
  /// The fifth bit of input `i` of a group, where it belongs in a code.
  int fifth(const std::uint8_t* bits, std::size_t i) const {
    return ((bits[4 * r + i % 4] >> (i / 4)) & 1) << 4;
  }
  float number(const std::uint8_t* p) const { return std::bit_cast<float>(word_at(p + 4 * r)); }
  float half(const std::uint8_t* p) const { return f16_to_f32(half_at(p + 2 * r)); }
};

/// Group `g` of a row of Q4_K or Q5_K.
void unpack_scale_min(const TileRow& from, TileFormat format, std::size_t g, float* out) {
  const bool five = format == kTileQ5_K;
  const TileBlock k = block_of(format);
  const std::size_t j = g % 8;
  const std::uint8_t* block = from.tile + block_at(k, g / 8);
  const std::uint8_t* part = block + k.head + j / 2 * static_cast<std::size_t>(k.part);
  const std::uint8_t* bits = part + 512 + 64 * (j % 2);
  const std::uint8_t* s = block + 64 + from.r;
  const int scale = j < 4 ? s[16 * j] & 63 : (s[16 * (j + 4)] & 15) | ((s[16 * (j - 4)] >> 6) << 4);
  const int minimum =
      j < 4 ? s[16 * (j + 4)] & 63 : (s[16 * (j + 4)] >> 4) | ((s[16 * j] >> 6) << 4);
  const float by = from.half(block) * static_cast<float>(scale),
              less = from.half(block + 32) * static_cast<float>(minimum);
  for (std::size_t i = 0; i < 32; ++i) {
    const int both = from.byte(part, i);
    const int code = (j % 2 == 0 ? both & 15 : both >> 4) | (five ? from.fifth(bits, i) : 0);
    out[32 * g + i] = by * static_cast<float>(code) - less;
  }
}

/// Group `g` of a row of Q6_K.
void unpack_q6_k(const TileRow& from, std::size_t g, float* out) {
  const std::size_t h = g % 8 / 4, j = g % 4;  // group j of half h
  const std::uint8_t* block = from.tile + q6_k_block_at(g / 8);
  const std::uint8_t* part = block + kQ6_KBlock.head + h * kQ6_KBlock.part;
  const std::uint8_t* scales = block + 32 * (g % 8) + from.r;
  const float d = from.half(from.tile + q6_k_scale_at(g / 8));
  for (std::size_t i = 0; i < 32; ++i) {
    const int both = from.byte(part + 512 * (j % 2), i);
    const int code =
        (j < 2 ? both & 15 : both >> 4) | (((from.byte(part + 1024, i) >> (2 * j)) & 3) << 4);
    const auto scale = static_cast<std::int8_t>(scales[16 * (i / 16)]);
    out[32 * g + i] = d * static_cast<float>(scale) * static_cast<float>(code - 32);
  }
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
  const TileRow from{tile, r};
  switch (m.format) {
    case kTileF32:
      for (std::size_t c = 0; c < n; ++c) out[c] = from.number(tile + 64 * c);
      return;
    case kTileF16:
      for (std::size_t c = 0; c < n; ++c) out[c] = from.half(tile + 32 * c);
      return;
    case kTileBf16:
      for (std::size_t c = 0; c < n; ++c) {
        out[c] =
            std::bit_cast<float>(static_cast<std::uint32_t>(half_at(tile + 32 * c + 2 * r)) << 16);
      }
      return;
    case kTileQ8_0:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const GroupPlace at = place_of(kQ8_0Group, g);
        const float d = from.half(tile + at.scales);
        for (std::size_t i = 0; i < 32; ++i) {
          out[32 * g + i] = d * static_cast<float>(from.byte(tile + at.codes, i) - 128);
        }
      }
      return;
    case kTileQ4_0:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const GroupPlace at = place_of(kQ4_0Group, g);
        const float d = from.half(tile + at.scales);
        for (std::size_t i = 0; i < 16; ++i) {
          const int both = from.byte(tile + at.codes, i);
          out[32 * g + i] = d * static_cast<float>((both & 15) - 8);
          out[32 * g + i + 16] = d * static_cast<float>((both >> 4) - 8);
        }
      }
      return;
    case kTileQ4_1:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const GroupPlace at = place_of(kQ4_1Group, g);
        const float d = from.half(tile + at.scales), offset = from.half(tile + at.scales + 32);
        for (std::size_t i = 0; i < 16; ++i) {
          const int both = from.byte(tile + at.codes, i);
          out[32 * g + i] = d * static_cast<float>(both & 15) + offset;
          out[32 * g + i + 16] = d * static_cast<float>(both >> 4) + offset;
        }
      }
      return;
    case kTileQ5_0:
      for (std::size_t g = 0; g < n / 32; ++g) {
        const GroupPlace at = place_of(kQ5_0Group, g);
        const float d = from.half(tile + at.scales);
        for (std::size_t i = 0; i < 32; ++i) {
          const int both = from.byte(tile + at.codes, i % 16);
          const int code = (i < 16 ? both & 15 : both >> 4) | from.fifth(tile + at.codes + 256, i);
          out[32 * g + i] = d * static_cast<float>(code - 16);
        }
      }
      return;
    case kTileWide:
      for (std::size_t c = 0; c < n; ++c) {
        const GroupPlace at = place_of(kWideGroup, c / 32);
        const std::uint8_t* scales = tile + at.scales + 128 * (c % 32 / 16);
        const int code = from.byte(tile + at.codes, c % 32) - 128;
        out[c] = from.number(scales) * static_cast<float>(code) + from.number(scales + 64);
      }
      return;
    case kTileQ4_K:
    case kTileQ5_K:
      for (std::size_t g = 0; g < n / 32; ++g) unpack_scale_min(from, m.format, g, out.data());
      return;
    case kTileQ6_K:
      for (std::size_t g = 0; g < n / 32; ++g) unpack_q6_k(from, g, out.data());
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
