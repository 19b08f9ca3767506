// SPDX-License-Identifier: Apache-2.0
// The ladder of programs that compute one token of one session, best first. The last takes every model.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/backend/vulkan/step/step_device.h"
#include "runtime/backend/vulkan/step/step_dispatch.h"

namespace runnel::vulkan {

struct StepRow {
  const char* name;
  int tokens;  // of a pass
  /// Why it does not take the model on such a device; "": it does. Needs no driver.
  std::string (*fits)(const StepModel& model, const StepDevice& device);
  /// Null: the model's ops, dispatch by dispatch.
  Result<StepDispatch> (*build)(Device& device, const StepModel& model,
                                const DeviceWeights& weights);
};

std::span<const StepRow> step_programs();

struct StepChoice {
  const StepRow* row = nullptr;
  std::vector<StepProgram::Refused> refused;  // of the rows above
};

/// The first row that fits, or the one of that name.
/// @param id      "vulkan:0", the beginning of messages
/// @param wanted  of a row; empty: any
/// @return not_found if there is no such row; unsupported if it does not fit, with the reason.
Result<StepChoice> choose_step(const StepModel& model, const StepDevice& device,
                               const std::string& id, std::string_view wanted = {});

/// A model's choice on its device, shared by its plans.
struct LoadedStep {
  StepModel model;  // a plan takes the dispatch if it recorded the same
  StepProgram program;
  std::optional<StepDispatch> dispatch;  // nothing: ops
};

Result<LoadedStep> build_chosen(const StepChoice& choice, StepModel model, Device& device,
                                const DeviceWeights& weights);

}  // namespace runnel::vulkan
