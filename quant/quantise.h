// SPDX-License-Identifier: Apache-2.0
// Rows of floats to and from the block formats.
//
//   std::vector<std::byte> blocks(rows * row_bytes(BlockType::q4_0, cols));
//   RUNNEL_CHECK_OK(quantize_rows(BlockType::q4_0, weights, cols, blocks, threads));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/formats.h"
#include "runnel/result.h"

namespace runnel::quant {

/// Stores row-major floats as `type`. Q8_0, Q4_0, Q4_1 and Q5_0 round as ggml's reference does, so that the
/// float form of quantised weights gives back the same codes; Q4_K, Q5_K and Q6_K search for good scales.
/// The result does not depend on `threads`.
/// @param in         [rows, cols], finite
/// @param cols       a multiple of the type's block size
/// @param out        rows * row_bytes(type, cols) bytes
/// @param threads    1 … 256; the calling thread is one of them
/// @param first_row  the number of `in`'s first row in its tensor, for messages
/// @return malformed, naming the first value that is not finite or too large for the type, as "value I (row R,
///         column C) is V"; invalid_argument for sizes that do not fit or a type that is not written (is_written()). `out` is
///         then unspecified.
Status quantize_rows(BlockType type, std::span<const float> in, std::int64_t cols,
                     std::span<std::byte> out, int threads = 1, std::int64_t first_row = 0);

/// The values of stored rows: the same floats as ggml's dequantisation, bit for bit.
/// @param in   rows * row_bytes(type, cols) bytes
/// @param out  [rows, cols]
/// @return invalid_argument for sizes that do not fit or a type that holds no weights.
Status dequantize_rows(BlockType type, std::span<const std::byte> in, std::int64_t cols,
                       std::span<float> out, int threads = 1);

}  // namespace runnel::quant
