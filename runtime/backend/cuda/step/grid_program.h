// SPDX-License-Identifier: Apache-2.0
// Lays a model out for the decode kernel of cuda/step_grid.h: which block takes which rows, how a
// block divides its shared memory. Needs no driver.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/step_grid_even.h"
#include "runtime/backend/cuda/device_weights.h"
#include "runtime/backend/step_model.h"

namespace runnel::cuda {

struct GridLimits {
  int multiprocessors = 1;
  int shared_bytes = 0;                           // of a block
  bool head_only = false;                         // another kernel computes the layers
  std::span<const EvenShape> even = kEvenShapes;  // for which there are kernels
};

struct GridProgram {
  Decode decode;  // without `layers`, exchange and what changes from token to token
  std::vector<DecodeLayer> layers;  // to be put where `decode.layers` points
  std::string why_not;              // empty: it fits
  std::string why_not_even;         // why it is not for a kernel of step_grid_even.h, or ""
};

GridProgram make_grid_program(const StepModel& model, const DeviceTensors& tensors,
                              const GridLimits& limits, const DecodeTuning& tuning);

/// How the blocks of an `even` program share the head's rows of which they keep choices.
BlockChoices kept_choices(const GridProgram& program, const std::uint64_t* best);

/// Divides a block's shared memory (grid_shared.cpp).
/// @return why it does not suffice, or ""
std::string lay_out_shared(GridProgram& program, const GridLimits& limits,
                           const DecodeTuning& tuning);

}  // namespace runnel::cuda
