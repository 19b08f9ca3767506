// SPDX-License-Identifier: Apache-2.0
// A weight matrix in the tile layout of kernels.h: the only copy of it in memory. The codes are
// those of the file; 16 rows are interleaved so that a core streams each tile once, linearly, with
// rows as register lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runnel/result.h"
#include "runtime/backend/cpu/kernels.h"
#include "runtime/model/weights.h"

namespace runnel::cpu {

/// A view; the tiles belong to the model's arena.
struct PackedMatrix {
  TileFormat format = kTileF32;
  int rows = 0;
  int cols = 0;
  int tiles = 0;               // rows / 16, rounded up; missing rows are zero
  std::size_t tile_bytes = 0;  // a multiple of 64
  std::uint8_t* data = nullptr;

  bool present() const { return rows > 0; }
  bool quantised() const { return format >= kTileQ8_0; }
  std::size_t bytes() const { return static_cast<std::size_t>(tiles) * tile_bytes; }
};

/// The layout of `view` without data.
/// @return unsupported if its type is no weight type of this backend.
Result<PackedMatrix> plan_packing(const WeightView& view);

/// Fills tiles [begin, end) of `matrix` from the rows of `view`.
void pack_tiles(const PackedMatrix& matrix, const WeightView& view, int begin, int end);

/// Row `row` as floats. out has cols elements.
void unpack_row(const PackedMatrix& matrix, int row, std::span<float> out);

/// Any f32, f16 or bf16 tensor (or a quantised one) as floats, row-major; for vectors and other small tensors.
Result<std::vector<float>> to_floats(const WeightView& view);

}  // namespace runnel::cpu
