// SPDX-License-Identifier: Apache-2.0
// A build without RUNNEL_GRAMMAR refuses constraints by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

TEST_F(ByteModelTest, WithoutGrammarsConstraintsAreRefusedByName) {
  EXPECT_FALSE(has_constraints());
  const auto made = Constraint::regex(*model_, "a+");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
  EXPECT_THAT(made.error().message, ::testing::HasSubstr("RUNNEL_GRAMMAR"));
}

}  // namespace
}  // namespace runnel::test
