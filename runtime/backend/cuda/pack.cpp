// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/pack.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/half.h"
#include "runtime/base/integers.h"

namespace runnel::cuda {
namespace {

using quant::BlockType;

/// Where the pieces of one block of 32 values go.
struct Slot {
  std::byte* first;   // 16 bytes
  std::byte* second;  // the other 16 bytes of q8_0
  std::byte* scale;   // 2 or 4 bytes
  std::byte* high;    // 8 bytes, q6_k
};

void put16(std::byte* to, std::uint16_t v) { std::memcpy(to, &v, sizeof v); }

/// v[0…31] of 4 bits: byte j holds v[j] and, above it, v[j + 16].
void put_nibbles(const std::uint8_t (&v)[32], std::byte* to) {
  for (int j = 0; j < 16; ++j) {
    to[j] = static_cast<std::byte>((v[j] & 15) | ((v[j + 16] & 15) << 4));
  }
}

void pack_q4_0(const std::byte* row, int block, const Slot& s) {
  quant::BlockQ4_0 b;
  std::memcpy(&b, row + static_cast<std::size_t>(block) * sizeof b, sizeof b);
  std::memcpy(s.first, b.qs, sizeof b.qs);
  put16(s.scale, b.d);
}

void pack_q8_0(const std::byte* row, int block, const Slot& s) {
  quant::BlockQ8_0 b;
  std::memcpy(&b, row + static_cast<std::size_t>(block) * sizeof b, sizeof b);
  std::memcpy(s.first, b.qs, 16);
  std::memcpy(s.second, b.qs + 16, 16);
  put16(s.scale, b.d);
}

void pack_q4_k(const std::byte* row, int block, const Slot& s) {
  quant::BlockQ4_K b;
  std::memcpy(&b, row + static_cast<std::size_t>(block / 8) * sizeof b, sizeof b);
  const int g = block % 8;
  std::uint8_t v[32];
  for (int l = 0; l < 32; ++l) {
    v[l] = static_cast<std::uint8_t>((b.qs[32 * (g / 2) + l] >> (4 * (g & 1))) & 15);
  }
  put_nibbles(v, s.first);
  const int scale =
      g < 4 ? b.scales[g] & 63 : (b.scales[g + 4] & 15) | ((b.scales[g - 4] >> 6) << 4);
  const int least =
      g < 4 ? b.scales[g + 4] & 63 : (b.scales[g + 4] >> 4) | ((b.scales[g] >> 6) << 4);
  // The products in f16: at most 2^-12 off, a fortieth of what rounding activations to int8 costs.
  put16(s.scale, f32_to_f16(f16_to_f32(b.d) * static_cast<float>(scale)));
  put16(s.scale + 2, f32_to_f16(f16_to_f32(b.dmin) * static_cast<float>(least)));
}

void pack_q6_k(const std::byte* row, int block, const Slot& s) {
  quant::BlockQ6_K b;
  std::memcpy(&b, row + static_cast<std::size_t>(block / 8) * sizeof b, sizeof b);
  const int half = block % 8 / 4, quarter = block % 4;
  std::uint8_t v[32];
  std::uint8_t upper[8] = {};
  for (int l = 0; l < 32; ++l) {
    v[l] = static_cast<std::uint8_t>(
        (b.ql[64 * half + 32 * (quarter & 1) + l] >> (4 * (quarter / 2))) & 15);
    const int bits = (b.qh[32 * half + l] >> (2 * quarter)) & 3;
    const int i = l % 16, word = i / 4;
    upper[word / 2 * 4 + i % 4] = static_cast<std::uint8_t>(
        upper[word / 2 * 4 + i % 4] | (bits << (word % 2 * 4 + (l >= 16 ? 2 : 0))));
  }
  put_nibbles(v, s.first);
  std::memcpy(s.high, upper, sizeof upper);
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 2; ++i) {
    put16(s.scale + 2 * i,
          f32_to_f16(d * static_cast<float>(b.scales[8 * half + 2 * quarter + i])));
  }
}

int lanes_that_divide(int n) {
  int lanes = 1;
  while (lanes < 8 && n % (2 * lanes) == 0) lanes *= 2;
  return lanes;
}

}  // namespace

PackedMatrix packed_layout(BlockType type, std::int64_t rows, std::int64_t cols) {
  PackedMatrix m{.type = type, .rows = static_cast<std::int32_t>(rows)};
  int units = 0;  // that the lanes of a row share
  if (quant::is_block_type(type)) {
    m.cols = static_cast<std::int32_t>(cols);
    units = m.cols / 32;
  } else {
    m.cols = static_cast<std::int32_t>(round_up(cols, 8));
    units = m.cols * (type == BlockType::f32 ? 4 : 2) / 16;
  }
  m.lanes = lanes_that_divide(units);
  m.steps = units / m.lanes;
  return m;
}

PackedMatrix pack(std::span<const WeightView* const> tensors, RowOrder order) {
  const BlockType type = tensors[0]->type;
  const std::int64_t cols = tensors[0]->cols;
  std::vector<const std::byte*> rows;
  const std::size_t row_bytes = quant::row_bytes(type, cols);
  const auto add = [&](const WeightView& t, std::int64_t r) {
    rows.push_back(t.data.data() + static_cast<std::size_t>(r) * row_bytes);
  };
  if (order == RowOrder::stacked) {
    for (const WeightView* t : tensors) {
      for (std::int64_t r = 0; r < t->rows; ++r) add(*t, r);
    }
  } else {
    for (std::int64_t r = 0; r < tensors[0]->rows; ++r) {
      for (const WeightView* t : tensors) add(*t, r);
    }
  }
  PackedMatrix m = packed_layout(type, static_cast<std::int64_t>(rows.size()), cols);

  if (!quant::is_block_type(type)) {
    const int value_bytes = type == BlockType::f32 ? 4 : 2;
    const std::size_t stride =
        static_cast<std::size_t>(m.cols) * static_cast<std::size_t>(value_bytes);
    m.data.resize(rows.size() * stride);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(m.data.data() + r * stride, rows[r], row_bytes);
    }
    return m;
  }

  const int blocks = m.cols / 32;
  const int tile_rows = 32 / m.lanes;
  const std::size_t tiles = divide_up(rows.size(), static_cast<std::size_t>(tile_rows));
  const std::size_t pieces = tiles * static_cast<std::size_t>(m.steps) * 32;
  const std::size_t parts = m.type == BlockType::q8_0 ? 2 : 1;
  const std::size_t scale_bytes = m.type == BlockType::q4_0 || m.type == BlockType::q8_0 ? 2 : 4;
  m.data.resize(pieces * parts * 16);
  m.scales.resize(pieces * scale_bytes);
  if (m.type == BlockType::q6_k) m.high.resize(pieces * 8);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (int b = 0; b < blocks; ++b) {
      const std::size_t lane =
          r % static_cast<std::size_t>(tile_rows) * static_cast<std::size_t>(m.lanes) +
          static_cast<std::size_t>(b % m.lanes);
      const std::size_t step =
          r / static_cast<std::size_t>(tile_rows) * static_cast<std::size_t>(m.steps) +
          static_cast<std::size_t>(b / m.lanes);
      const std::size_t index = step * 32 + lane;
      Slot s{};
      s.first = m.data.data() + (step * 32 * parts + lane) * 16;
      s.second = parts == 2 ? s.first + 512 : nullptr;
      s.scale = m.scales.data() + index * scale_bytes;
      s.high = m.high.empty() ? nullptr : m.high.data() + index * 8;
      switch (m.type) {
        case BlockType::q4_0:
          pack_q4_0(rows[r], b, s);
          break;
        case BlockType::q8_0:
          pack_q8_0(rows[r], b, s);
          break;
        case BlockType::q4_k:
          pack_q4_k(rows[r], b, s);
          break;
        default:
          pack_q6_k(rows[r], b, s);
          break;
      }
    }
  }
  return m;
}

}  // namespace runnel::cuda
