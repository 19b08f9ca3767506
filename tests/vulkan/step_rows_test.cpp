// SPDX-License-Identifier: Apache-2.0
// Every row of the ladder on every random model that it takes: alone, two sessions, after a restore.
#include "tests/support/step_rows.h"

#include "runtime/backend/vulkan/step/programs.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace runnel::test {
namespace {

constexpr double kFloatTolerance = 2e-5;  // f32 sums in another order
// Inputs rounded to int8; ties round apart, layers amplify, and passes of several tokens do not round.
constexpr double kRoundedTolerance = 5e-2;

StepRowRules rules_of(const std::string& row, const RandomModel& model) {
  if (row == "ops" || !has_blocks(model)) return {reference::Activations::exact, kFloatTolerance};
  return {reference::Activations::rounded, kRoundedTolerance};
}

class VulkanStepRows : public VulkanTest, public testing::WithParamInterface<std::string> {};

TEST_P(VulkanStepRows, ComputeWhatTheReferenceDoes) {
  const bool software = vulkan::find_devices().front().software;
  // The software driver ends loops that wait: one workgroup does all the work there.
  const auto device = backend({.tuning = {.step_groups = software ? 1U : 0U}});
  int taken = 0;
  for (const StepRowModel& model : step_row_models()) {
    if (software && model.large) continue;
    taken += check_step_row(*device, GetParam(), model, rules_of) ? 1 : 0;
  }
  EXPECT_GT(taken, 0) << "no random model is taken by " << GetParam();
  RecordProperty("models", taken);
}

std::vector<std::string> rows() {
  std::vector<std::string> names;
  for (const vulkan::StepRow& row : vulkan::step_programs()) names.emplace_back(row.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ladder, VulkanStepRows, testing::ValuesIn(rows()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace runnel::test
