// SPDX-License-Identifier: Apache-2.0
// Weights of one block format in another that holds exactly the same values, bit for bit: never the nearest.
//
//   std::vector<std::byte> kept(row_bytes(kept_as(type), cols));
//   repack(type, row, cols, kept);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/formats.h"

namespace runnel::quant {

/// One row of `from` as format_of(from).repacked. Thread-safe; a loader calls it row by row, from many threads, where it
/// packs, so that there is never a second copy of a tensor.
/// @param in    row_bytes(from, cols) bytes
/// @param out   row_bytes(format_of(from).repacked, cols) bytes
void repack(BlockType from, std::span<const std::byte> in, std::int64_t cols,
            std::span<std::byte> out);

/// The same for `values` values in blocks of one type, for the table.
template <class Block>
void repack_row(const std::byte* in, std::size_t values, std::byte* out);

/// A row of a tensor in the type that a program keeps, repacked into a buffer of its own if need be.
class RowReader {
 public:
  /// @param from  the type of the rows;  @param kept  it, or what it is repacked to
  RowReader(BlockType from, BlockType kept, std::int64_t cols);

  /// The stored row, or its repacked form, valid until the next call. Not thread-safe.
  std::span<const std::byte> operator()(std::span<const std::byte> row);

 private:
  BlockType from_;
  std::int64_t cols_;
  std::vector<std::byte> buffer_;  // empty: rows are used as they are
};

}  // namespace runnel::quant
