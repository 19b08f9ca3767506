// SPDX-License-Identifier: Apache-2.0
// Every row of the ladder on every random model that it takes: alone, two sessions, after a restore. Without a GPU:
// whether a random model is there for every row.
#include "tests/support/step_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/backend/cuda/step/programs.h"
#include "runtime/model/forward.h"
#include "tests/cuda/cuda_backends.h"

namespace runnel::test {
namespace {

constexpr double kPlainTolerance = 1e-4;  // 16-bit weights, f32 activations
// Int8 activations; ties round apart, and layers amplify.
constexpr double kRoundedTolerance = 2e-2;

StepRowRules rules_of(const std::string& /*row*/, const RandomModel& model) {
  if (has_blocks(model)) return {reference::Activations::rounded, kRoundedTolerance};
  return {reference::Activations::exact, kPlainTolerance};
}

class CudaStepRows : public testing::TestWithParam<std::string> {};

TEST_P(CudaStepRows, ComputeWhatTheReferenceDoes) {
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked";
  if (cuda::facts_of(0).major < 9 && GetParam() != "ops")
    GTEST_SKIP() << "compute capability below 9.0: this device has the row ops alone";
  const auto made = cuda::make_backend(0);
  ASSERT_TRUE(made) << made.error().message;
  int taken = 0;
  for (const StepRowModel& model : step_row_models())
    taken += check_step_row(**made, GetParam(), model, rules_of) ? 1 : 0;
  EXPECT_GT(taken, 0) << "no random model is taken by " << GetParam();
  RecordProperty("models", taken);
}

std::vector<std::string> rows() {
  std::vector<std::string> names;
  for (const cuda::StepRow& row : cuda::step_programs()) names.emplace_back(row.name);
  return names;
}

std::string test_name(std::string row) {
  std::replace(row.begin(), row.end(), '-', '_');
  return row;
}

INSTANTIATE_TEST_SUITE_P(Ladder, CudaStepRows, testing::ValuesIn(rows()),
                         [](const auto& each) { return test_name(each.param); });

class CudaStepRowsEmulated : public testing::TestWithParam<std::string> {};

TEST_P(CudaStepRowsEmulated, TakeARandomModelOnAHopper) {
  const cuda::StepDevice hopper = {.major = 9,
                                   .minor = 0,
                                   .multiprocessors = 132,
                                   .shared_bytes = 232448,
                                   .largest_cluster = 16,
                                   .cooperative = true};
  std::string taken, refused;
  for (const StepRowModel& model : step_row_models()) {
    const RandomModel source = model.make();
    const StepModel step = record_step_model(forward_of(source.config, *source.weights));
    const std::string why = cuda::step_program(GetParam())->fits(step, hopper);
    (why.empty() ? taken : refused) += model.name + ": " + why + "; ";
  }
  EXPECT_FALSE(taken.empty()) << "no random model is taken by " << GetParam() << ": " << refused;
}

INSTANTIATE_TEST_SUITE_P(Ladder, CudaStepRowsEmulated, testing::ValuesIn(rows()),
                         [](const auto& each) { return test_name(each.param); });

}  // namespace
}  // namespace runnel::test
