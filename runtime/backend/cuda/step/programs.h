// SPDX-License-Identifier: Apache-2.0
// THE LADDER of one-token programs, best first. A model gets the first row that fits it and the device; the last row, the
// graph of kernels, fits always.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "runtime/backend/cuda/step/step_device.h"
#include "runtime/backend/cuda/step/step_kernel.h"

namespace runnel::cuda {

struct StepRow {
  const char* name;
  int tokens;  // that one launch computes
  /// Null: the graph of kernels, which needs none.
  StepLayout (*lay_out)(const StepModel& model, const DeviceTensors& tensors,
                        const StepDevice& device, const DecodeTuning& tuning);

  /// Why the row does not compute this model on this device, or "". Needs neither a device nor weights on one.
  std::string fits(const StepModel& model, const StepDevice& device) const;

  /// The program itself; null for the graph of kernels. A device that refuses it: unsupported.
  Result<std::unique_ptr<StepKernel>> build(const StepModel& model, const DeviceTensors& tensors,
                                            const StepDevice& device, cudaStream_t stream) const;
};

/// cluster-fixed  all layers in one cluster, by the kernel for the 135M shape
/// cluster        all layers of a small model in one cluster
/// grid-even      one kernel for three fixed shapes (0.5B, 1.38B, 1.5B; cuda/step_grid_even.h)
/// grid           one kernel
/// shift          one kernel, for shifted projections and recurrences with a removal
/// ops            the graph of kernels
std::span<const StepRow> step_programs();

/// The row of that name, or null.
const StepRow* step_program(const std::string& name);

struct StepChoice {
  const StepRow* row = nullptr;
  StepProgram program;  // its name and detail, and why not the rows above
};

/// Builds a row that fits.
/// @return why the device refused it, or ""
using BuildStep = std::function<Result<std::string>(const StepRow&)>;

/// The first row that fits and can be built, or the row `wanted`.
/// @return not_found for a `wanted` that is no row, listing the rows; unsupported if that row does not fit, with the reason.
Result<StepChoice> choose_step_program(const StepModel& model, const StepDevice& device,
                                       const std::string& wanted = {}, const BuildStep& build = {});

}  // namespace runnel::cuda
