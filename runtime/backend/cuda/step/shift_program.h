// SPDX-License-Identifier: Apache-2.0
// Lays a model out for the kernel of cuda/step_shift.h: what each warp multiplies in which phase, how a block divides
// its shared memory. Needs no driver.
#pragma once

#include <string>
#include <vector>

#include "cuda/step_shift.h"
#include "runtime/backend/cuda/device_weights.h"
#include "runtime/backend/step_model.h"

namespace runnel::cuda {

struct ShiftLimits {
  int multiprocessors = 1;
  int shared_bytes = 0;  // of a block
};

struct ShiftProgram {
  ShiftStep step;  // without the three below, buffers and what changes from token to token
  std::vector<ShiftLayer> layers;  // with the head's
  std::vector<ShiftSources> sources;
  std::vector<ShiftItem> items;
  std::string why_not;  // empty: it fits

  std::size_t exchange_floats() const { return 2 * static_cast<std::size_t>(step.at.total); }
  std::size_t shifted_floats() const { return 2 * static_cast<std::size_t>(step.d); }
};

ShiftProgram make_shift_program(const StepModel& model, const DeviceTensors& tensors,
                                const ShiftLimits& limits);

}  // namespace runnel::cuda
