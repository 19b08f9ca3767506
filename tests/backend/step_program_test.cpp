// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/backend/backend.h"

namespace runnel {
namespace {

TEST(StepProgramText, NamesTheVariantAndWhyOthersWereNotTaken) {
  const StepProgram program{"grid", "64 blocks", {{"cluster", "biases on q, k and v"}}};
  EXPECT_EQ(to_string(program), "grid (64 blocks); not cluster: biases on q, k and v");
}

TEST(StepProgramText, OpsWhereAKernelRefusesTheModelSayWhatItLoses) {
  const StepProgram program{"ops", "", {{"grid", "heads of 80, expected a power of two"}}};
  EXPECT_EQ(to_string(program),
            "ops (two to five times slower than one kernel); not grid: heads of 80, expected a "
            "power of two");
}

TEST(StepProgramText, OpsAreTheOnlyProgramOfACpu) { EXPECT_EQ(to_string(StepProgram{}), "ops"); }

}  // namespace
}  // namespace runnel
