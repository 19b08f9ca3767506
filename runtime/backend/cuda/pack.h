// SPDX-License-Identifier: Apache-2.0
// Weight tensors rearranged on the host into the streams that the kernels read; see cuda/launch.h, Matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/formats.h"
#include "runtime/model/weights.h"

namespace runnel::cuda {

/// A packed matrix in host memory. Field names as in Matrix.
struct PackedMatrix {
  quant::BlockType type = quant::BlockType::f32;
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  std::int32_t lanes = 1;
  std::int32_t steps = 0;
  std::vector<std::byte> data, scales, high;
};

/// How the rows of several tensors become one matrix.
enum class RowOrder { stacked, alternating };

/// The type whose kernels read a tensor stored as `type`: its own or, of what is repacked, that of quant::kept_as(); of
/// Q4_1 that of Q4_K, whose stream has a scale and an offset for each 32 values too.
quant::BlockType stream_type(quant::BlockType type);

/// The layout of such a matrix without its bytes. @param type  a stream_type()
PackedMatrix packed_layout(quant::BlockType type, std::int64_t rows, std::int64_t cols);

/// Tensors of one stream_type() and width as one matrix. Alternating: row 0 of each, row 1 of each, …
PackedMatrix pack(std::span<const WeightView* const> tensors, RowOrder order = RowOrder::stacked);

}  // namespace runnel::cuda
