// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/philox.h"

#include <gtest/gtest.h>

namespace runnel {
namespace {

using Words = std::array<std::uint32_t, 4>;

// kat_vectors of Random123, "philox4x32 10".
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SeedIsTheKeyAndPositionTheCounter) {
  EXPECT_EQ(sampling_word(0x299f31d0a4093822, 0x85a308d3243f6a88),
            philox4x32({0x243f6a88, 0x85a308d3, 0, 0}, {0xa4093822, 0x299f31d0})[0]);
}

TEST(Philox, DrawBelowIsTheExactProductShiftedDown) {
  __extension__ using Wide = unsigned __int128;
  std::uint64_t total = 1;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto word = sampling_word(1, i);
    EXPECT_EQ(draw_below(total, word), static_cast<std::uint64_t>((Wide{total} * word) >> 32));
    total = (total * 6364136223846793005U + 1442695040888963407U) >> 2;
  }
  EXPECT_EQ(draw_below(1, 0xffffffff), 0U);
}

TEST(Philox, UnitFloatStaysBelowOne) {
  EXPECT_EQ(unit_float(0), 0.0F);
  EXPECT_EQ(unit_float(0x80000000), 0.5F);
  EXPECT_LT(unit_float(0xffffffff), 1.0F);
}

}  // namespace
}  // namespace runnel
