// SPDX-License-Identifier: Apache-2.0
// The cursor over untrusted bytes never leaves them.
#include "runtime/base/byte_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace runnel {
namespace {

constexpr std::array<std::byte, 5> kFive = {std::byte{1}, std::byte{0}, std::byte{2}, std::byte{0},
                                            std::byte{9}};

TEST(ByteReader, ReadsLittleEndianNumbersInOrder) {
  ByteReader reader(kFive);
  EXPECT_EQ(reader.read<std::uint16_t>(), 1);
  EXPECT_EQ(reader.read<std::uint16_t>(), 2);
  EXPECT_EQ(reader.read<std::uint8_t>(), 9);
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(ByteReader, StaysWhereItIsWhenANumberDoesNotFit) {
  ByteReader reader(kFive);
  EXPECT_EQ(reader.read<std::uint64_t>(), std::nullopt);
  EXPECT_EQ(reader.position(), 0U);
}

TEST(ByteReader, RefusesTheLargestCount) {
  ByteReader reader(kFive);
  ASSERT_TRUE(reader.take(2));
  EXPECT_FALSE(reader.take(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(reader.take(3)->size(), 3U);
}

}  // namespace
}  // namespace runnel
