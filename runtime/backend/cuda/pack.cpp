// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/pack.h"

#include <algorithm>
#include <cstring>

#include "quant/block_codecs.h"
#include "quant/repack.h"
#include "runtime/base/half.h"
#include "runtime/base/integers.h"

namespace runnel::cuda {
namespace {

using quant::BlockType;

/// Where the pieces of one block of 32 values go.
struct Slot {
  std::byte* first;   // 16 bytes
  std::byte* second;  // the other 16 bytes of q8_0 and of the wide layout
  std::byte* scale;   // 2, 4 or 16 bytes
  std::byte* high;    // 4 bytes of q5_0 and q5_k, 8 of q6_k
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

template <class Block>
Block block_at(const std::byte* row, int block) {
  Block b;
  std::memcpy(&b, row + static_cast<std::size_t>(block) * sizeof b, sizeof b);
  return b;
}

/// v[0…31] of 5 bits: nibbles as above; bit i of byte b of `high` is the fifth of v[4i + b], bit 4 + i of v[16 + 4i + b].
void put_fives(const std::uint8_t* v, const Slot& s) {
  std::uint8_t low[32];
  std::uint8_t upper[4] = {};
  for (int l = 0; l < 32; ++l) {
    low[l] = v[l] & 15;
    upper[l % 4] = static_cast<std::uint8_t>(upper[l % 4] | ((v[l] >> 4) << (l / 4)));
  }
  put_nibbles(low, s.first);
  std::memcpy(s.high, upper, sizeof upper);
}

void pack_q4_1(const std::byte* row, int block, const Slot& s) {
  const auto b = block_at<quant::BlockQ4_1>(row, block);
  std::memcpy(s.first, b.qs, sizeof b.qs);
  put16(s.scale, b.d);
  put16(s.scale + 2, b.m ^ 0x8000);  // what is subtracted
}

void pack_q5_0(const std::byte* row, int block, const Slot& s) {
  const auto b = block_at<quant::BlockQ5_0>(row, block);
  std::uint8_t codes[32];
  quant::unpack_codes(b, codes);
  put_fives(codes, s);
  put16(s.scale, b.d);
}

/// The products of scales in f16, as of Q4_K: at most 2^-12 off.
void pack_q5_k(const std::byte* row, int block, const Slot& s) {
  const auto b = block_at<quant::BlockQ5_K>(row, block / 8);
  std::uint8_t codes[quant::kSuperBlock];
  quant::unpack_codes(b, codes);
  put_fives(codes + 32 * (block % 8), s);
  const quant::ScaleMin fields = quant::unpack_scale_min(b.scales, block % 8);
  put16(s.scale, f32_to_f16(f16_to_f32(b.d) * static_cast<float>(fields.scale)));
  put16(s.scale + 2, f32_to_f16(f16_to_f32(b.dmin) * static_cast<float>(fields.min)));
}

void pack_wide(const std::byte* row, int block, const Slot& s) {
  for (int half = 0; half < 2; ++half) {
    const auto b = block_at<quant::BlockWide>(row, 2 * block + half);
    std::memcpy(half == 0 ? s.first : s.second, b.qs, sizeof b.qs);
    std::memcpy(s.scale + 8 * half, &b.scale, 2 * sizeof(float));
  }
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

/// One block of 32 values of a row stored as `type`.
void pack_block(BlockType type, const std::byte* row, int block, const Slot& s) {
  switch (type) {
    case BlockType::q4_0:
      return pack_q4_0(row, block, s);
    case BlockType::q4_1:
      return pack_q4_1(row, block, s);
    case BlockType::q5_0:
      return pack_q5_0(row, block, s);
    case BlockType::q8_0:
      return pack_q8_0(row, block, s);
    case BlockType::q4_k:
      return pack_q4_k(row, block, s);
    case BlockType::q5_k:
      return pack_q5_k(row, block, s);
    case BlockType::q6_k:
      return pack_q6_k(row, block, s);
    case BlockType::wide:
      return pack_wide(row, block, s);
    case BlockType::f32:  // copied by rows
    case BlockType::f16:
    case BlockType::bf16:
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

/// Bytes that a block of 32 values has in each plane of a stream.
struct StreamBytes {
  std::size_t parts;  // of 16 bytes of codes
  std::size_t scales;
  std::size_t high;
};

StreamBytes bytes_of_stream(BlockType type) {
  switch (type) {
    case BlockType::q4_0:
      return {1, 2, 0};
    case BlockType::q8_0:
      return {2, 2, 0};
    case BlockType::q5_0:
      return {1, 2, 4};
    case BlockType::q5_k:
      return {1, 4, 4};
    case BlockType::q6_k:
      return {1, 4, 8};
    case BlockType::wide:
      return {2, 16, 0};
    case BlockType::f32:
    case BlockType::f16:
    case BlockType::q4_1:
    case BlockType::q5_1:
    case BlockType::q2_k:
    case BlockType::q3_k:
    case BlockType::q4_k:
    case BlockType::iq4_nl:
    case BlockType::iq4_xs:
    case BlockType::i8:
    case BlockType::i32:
    case BlockType::bf16:
      break;  // q4_k, and q4_1 as its stream
  }
  return {1, 4, 0};
}

/// A row of a tensor, and what reads it.
struct Row {
  std::span<const std::byte> stored;
  BlockType kept;
  quant::RowReader* reader;
};

}  // namespace

BlockType stream_type(BlockType type) {
  const BlockType kept = quant::kept_as(type);
  return kept == BlockType::q4_1 ? BlockType::q4_k : kept;
}

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
  const std::int64_t cols = tensors[0]->cols;
  std::vector<quant::RowReader> readers;
  for (const WeightView* t : tensors) readers.emplace_back(t->type, quant::kept_as(t->type), cols);
  std::vector<Row> rows;
  const auto add = [&](std::size_t tensor, std::int64_t r) {
    const WeightView& t = *tensors[tensor];
    const std::size_t bytes = quant::row_bytes(t.type, cols);
    rows.push_back({t.data.subspan(static_cast<std::size_t>(r) * bytes, bytes),
                    quant::kept_as(t.type), &readers[tensor]});
  };
  if (order == RowOrder::stacked) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::int64_t r = 0; r < tensors[t]->rows; ++r) add(t, r);
    }
  } else {
    for (std::int64_t r = 0; r < tensors[0]->rows; ++r) {
      for (std::size_t t = 0; t < tensors.size(); ++t) add(t, r);
    }
  }
  PackedMatrix m =
      packed_layout(stream_type(tensors[0]->type), static_cast<std::int64_t>(rows.size()), cols);

  if (!quant::is_block_type(m.type)) {
    const int value_bytes = m.type == BlockType::f32 ? 4 : 2;
    const std::size_t stride =
        static_cast<std::size_t>(m.cols) * static_cast<std::size_t>(value_bytes);
    m.data.resize(rows.size() * stride);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::memcpy(m.data.data() + r * stride, rows[r].stored.data(), rows[r].stored.size());
    }
    return m;
  }

  const int blocks = m.cols / 32;
  const int tile_rows = 32 / m.lanes;
  const std::size_t tiles = divide_up(rows.size(), static_cast<std::size_t>(tile_rows));
  const std::size_t pieces = tiles * static_cast<std::size_t>(m.steps) * 32;
  const StreamBytes bytes = bytes_of_stream(m.type);
  m.data.resize(pieces * bytes.parts * 16);
  m.scales.resize(pieces * bytes.scales);
  m.high.resize(pieces * bytes.high);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::byte* const row = (*rows[r].reader)(rows[r].stored).data();
    for (int b = 0; b < blocks; ++b) {
      const std::size_t lane =
          r % static_cast<std::size_t>(tile_rows) * static_cast<std::size_t>(m.lanes) +
          static_cast<std::size_t>(b % m.lanes);
      const std::size_t step =
          r / static_cast<std::size_t>(tile_rows) * static_cast<std::size_t>(m.steps) +
          static_cast<std::size_t>(b / m.lanes);
      const std::size_t index = step * 32 + lane;
      Slot s{};
      s.first = m.data.data() + (step * 32 * bytes.parts + lane) * 16;
      s.second = bytes.parts == 2 ? s.first + 512 : nullptr;
      s.scale = m.scales.data() + index * bytes.scales;
      s.high = m.high.empty() ? nullptr : m.high.data() + index * bytes.high;
      pack_block(rows[r].kept, row, b, s);
    }
  }
  return m;
}

}  // namespace runnel::cuda
