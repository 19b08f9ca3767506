// SPDX-License-Identifier: Apache-2.0
// What the layouts of the one-token programs share.
#pragma once

#include <string>

#include "cuda/step_grid.h"
#include "runtime/backend/cuda/device_weights.h"
#include "runtime/backend/step_model.h"
#include "runtime/base/integers.h"

namespace runnel::cuda {

/// How a block walks the matrix. `pairs`: gate and up rows that stay together; `whole_grid`: spread over all blocks.
DecodeShape shape_of(const Matrix& m, bool pairs, bool whole_grid);

/// Bytes of a tile with its scales.
long long bytes_of_tile(const DecodeShape& s);

/// Most tiles of a block when `blocks` share the matrix.
int share_of(const DecodeShape& s, int blocks);

/// Whether bytes, not work, bound a kernel of a fixed shape with matrices of that type.
bool bound_by_bytes(BlockType type);

/// Whether a lane has the same part of the input for all tiles.
bool input_once(const DecodeShape& s, int ways);

/// The model's tensors as matrices without places.
DeviceTensors shapes_of(const StepModel& model);

/// Why no one-token program computes such a model, or "".
std::string refuse_tensors(const StepModel& model, const DeviceTensors& tensors);

}  // namespace runnel::cuda
