// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/step/programs.h"

#include <utility>

#include "runtime/backend/vulkan/step/step_shape.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

constexpr StepRow kRows[] = {
    // Narrow models of Q4_0: two roles of workgroups.
    {"narrow", 1,
     [](const StepModel& m, const StepDevice& d) { return NarrowShape::of(m, d).why_not; },
     build_narrow},
    // Rows that divide evenly over the workgroups.
    {"even", 1,
     [](const StepModel& m, const StepDevice& d) { return StepShape::even(m, d).why_not; },
     build_even},
    // Any shape in one dispatch.
    {"step", 1, [](const StepModel& m, const StepDevice& d) { return StepShape::of(m, d).why_not; },
     build_step},
    // Shifted projections and recurrences with a removal in one dispatch.
    {"shift", 1,
     [](const StepModel& m, const StepDevice& d) { return ShiftShape::of(m, d).why_not; },
     build_shift},
    {"ops", 1, [](const StepModel&, const StepDevice&) { return std::string(); }, nullptr},
};

std::string row_names() {
  std::string names;
  for (const StepRow& row : kRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace

std::span<const StepRow> step_programs() { return kRows; }

Result<StepChoice> choose_step(const StepModel& model, const StepDevice& device,
                               const std::string& id, std::string_view wanted) {
  StepChoice choice;
  for (const StepRow& row : kRows) {
    if (!wanted.empty() && wanted != row.name) continue;
    std::string why = row.fits(model, device);
    if (why.empty()) {
      choice.row = &row;
      return choice;
    }
    if (!wanted.empty()) {
      return fail(ErrorCode::unsupported, id, ": step program \"", wanted,
                  "\" does not take the model: ", why);
    }
    choice.refused.push_back({row.name, std::move(why)});
  }
  return fail(ErrorCode::not_found, id, ": step program \"", wanted, "\": not found, expected ",
              row_names());
}

Result<LoadedStep> build_chosen(const StepChoice& choice, StepModel model, Device& device,
                                const DeviceWeights& weights) {
  LoadedStep step;
  step.program = {.name = choice.row->name, .detail = {}, .refused = choice.refused};
  if (choice.row->build != nullptr) {
    RUNNEL_TRY(step.dispatch, choice.row->build(device, model, weights));
    step.program.detail = std::to_string(step.dispatch->groups) + " workgroups of " +
                          std::to_string(step.dispatch->threads);
  }
  step.model = std::move(model);
  return step;
}

}  // namespace runnel::vulkan
