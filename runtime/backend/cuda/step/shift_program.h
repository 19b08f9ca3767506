// SPDX-License-Identifier: Apache-2.0
// Lays a model out for the kernel of cuda/step_shift.h: what each warp multiplies in which phase, how a block divides its
// shared memory. Needs no driver.
#pragma once

#include <array>
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
  /// Where a table's parts begin in `sources` and `items`.
  struct Place {
    std::size_t sources = 0, items = 0;
  };
  ShiftStep step;                  // without `layers`, buffers and what changes from token to token
  std::vector<ShiftLayer> layers;  // with the head's; to be put where `step.layers` points
  std::vector<std::array<Place, kShiftPhases>> places;  // of each layer's tables
  std::vector<ShiftSources> sources;
  std::vector<ShiftItem> items;
  std::string why_not;  // empty: it fits

  /// Points the layers' tables to copies of `sources` and `items`.
  void place_tables(const ShiftSources* sources_at, const ShiftItem* items_at);
  std::size_t exchange_floats() const { return 2 * static_cast<std::size_t>(step.at.total); }
  std::size_t shifted_floats() const { return 2 * static_cast<std::size_t>(step.d); }
};

ShiftProgram make_shift_program(const StepModel& model, const DeviceTensors& tensors,
                                const ShiftLimits& limits);

}  // namespace runnel::cuda
