// SPDX-License-Identifier: Apache-2.0
// Weight matrices in the layout that the shaders read: every load is an aligned word.
//
// A part holds whole rows. Row-major units of 8 columns (the last one padded with zeros), then a
// plane of scales, then a plane of upper bits:
//   f32               8 words per unit
//   f16, bf16         4 words per unit
//   q8_0, wide        2 words per unit: bytes in column order
//   other blocks      1 word per unit: byte j has column j in its low and column j + 4 in its high half
//   scales            q8_0, q4_0, q5_0: f16 per block of 32
//                     q4_1: 1 word per block of 32: d and m
//                     q4_k, q5_k: 5 words per block of 256: d and dmin, 8 of scale and minimum, a byte each
//                     q6_k: 5 words per block of 256: d, 16 signed scales
//                     wide: 2 words per 16 columns: scale and offset
//   upper bits        q5_0, q5_k: 8 bits per unit, one for each column
//                     q6_k: 16 bits per unit, two for each column
// Bytes are those of the file within 2 % (Q4_K: 148 for 144, Q6_K: 212 for 210).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/formats.h"

namespace runnel::vulkan {

/// Where the planes of a part of `rows` rows lie, in 32-bit words from its beginning.
struct PartLayout {
  std::uint64_t scales = 0;
  std::uint64_t high = 0;
  std::uint64_t words = 0;  // in all, a multiple of 4
};

/// Units of a row of `cols` columns.
std::uint32_t units_of(std::int64_t cols);

/// Words that `units` units, whole blocks of a type, take in each plane.
struct PlaneWords {
  std::uint64_t codes = 0;
  std::uint64_t scales = 0;
  std::uint64_t high = 0;
};
PlaneWords plane_words(quant::BlockType type, std::uint64_t units);

PartLayout part_layout(quant::BlockType type, std::int64_t rows, std::int64_t cols);

/// Puts one row, stored as quant::kept_as() of its tensor's type, at `row` of a part. `part` has part_layout().words words, zero at first.
/// @param stored  row_bytes(type, cols) bytes
void pack_row(quant::BlockType type, std::span<const std::byte> stored, std::int64_t row,
              std::int64_t cols, const PartLayout& layout, std::span<std::uint32_t> part);

}  // namespace runnel::vulkan
