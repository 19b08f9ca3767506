// SPDX-License-Identifier: Apache-2.0
// Errors as values and the macros that pass them on.
#include "runnel/result.h"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/try.h"

namespace runnel {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0)
    return fail(ErrorCode::invalid_argument, "number is ", number, ", expected an even one");
  return number / 2;
}

Result<int> quarter(int number) {
  RUNNEL_TRY(const int once, half(number));
  RUNNEL_TRY(const int twice, half(once));
  return twice;
}

Status check_quarter(int number) {
  RUNNEL_CHECK_OK(quarter(number));
  return {};
}

TEST(Result, HoldsAValue) {
  const Result<int> result = half(8);
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 4);
  EXPECT_EQ(result.value_or(7), 4);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = half(3);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(result.error().message, "number is 3, expected an even one");
  EXPECT_EQ(result.value_or(7), 7);
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 5);
}

TEST(Result, HoldsTypesThatConvertToOtherResults) {
  const Result<std::string> text = "abc";
  EXPECT_EQ(*text, "abc");
  EXPECT_EQ(text->size(), 3U);
}

TEST(Result, ChainsCallsUntilTheFirstError) {
  EXPECT_EQ(*half(8).and_then(half), 2);
  EXPECT_EQ(half(6).and_then(half).error().message, "number is 3, expected an even one");
  EXPECT_EQ(*half(8).transform([](int n) { return std::to_string(n); }), "4");
  EXPECT_FALSE(half(1).transform([](int n) { return std::to_string(n); }));
}

TEST(Status, IsSuccessUnlessMadeOfAnError) {
  EXPECT_TRUE(Status());
  const Status status = fail(ErrorCode::io, "disk is full");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::io);
}

TEST(Fail, WritesEveryPartAsAStreamDoes) {
  const std::string name = "w";
  const char* const said = "x";
  const Error error =
      fail(ErrorCode::io, std::string_view("a "), name, said, ' ', -7, ' ', std::uint64_t{1} << 63,
           ' ', 0.25, ' ', 1.0F / 3, ' ', 1e9, ' ', true, ' ', std::int64_t{1} << 40);
  std::ostringstream stream;
  stream << "a " << name << said << ' ' << -7 << ' ' << (std::uint64_t{1} << 63) << ' ' << 0.25
         << ' ' << 1.0F / 3 << ' ' << 1e9 << ' ' << true << ' ' << (std::int64_t{1} << 40);
  EXPECT_EQ(error.message, stream.str());
}

TEST(Try, BindsTheValueOrReturnsTheError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "number is 3, expected an even one");
}

TEST(CheckOk, PassesSuccessAndReturnsErrorsOfAnyResult) {
  EXPECT_TRUE(check_quarter(8));
  EXPECT_EQ(check_quarter(7).error().message, "number is 7, expected an even one");
}

TEST(WithContext, PutsThePlaceBeforeTheMessage) {
  const Error error = with_context(fail(ErrorCode::malformed, "has 3 rows"), "layer 7: ");
  EXPECT_EQ(error.code, ErrorCode::malformed);
  EXPECT_EQ(error.message, "layer 7: has 3 rows");
}

TEST(ErrorCode, HasAName) {
  EXPECT_STREQ(to_string(ErrorCode::out_of_memory), "out_of_memory");
  EXPECT_STREQ(to_string(static_cast<ErrorCode>(99)), "unknown");
}

Result<std::vector<std::string>> long_names() {
  return std::vector<std::string>(3, std::string(100, 'n'));
}

// As the examples in the headers write it. Under AddressSanitizer a reference into the temporary
// fails.
TEST(Result, ALoopOverATemporaryOutlivesIt) {
  static_assert(std::same_as<decltype(*long_names()), std::vector<std::string>>);
  std::size_t bytes = 0;
  for (const std::string& name : *long_names()) bytes += name.size();
  EXPECT_EQ(bytes, 300U);
}

}  // namespace
}  // namespace runnel
