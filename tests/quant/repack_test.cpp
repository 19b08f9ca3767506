// SPDX-License-Identifier: Apache-2.0
// What was repacked has the values that the file's blocks have, bit for bit.
#include "quant/repack.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "quant/quantise.h"
#include "tests/support/random_blocks.h"

namespace runnel::quant {
namespace {

std::string name_of(BlockType type) { return std::string(format_of(type).name); }

std::vector<float> values_of(BlockType type, std::span<const std::byte> row, std::size_t cols) {
  std::vector<float> values(cols);
  EXPECT_TRUE(dequantize_rows(type, row, static_cast<std::int64_t>(cols), values));
  return values;
}

TEST(Repack, HoldsTheSameBitsAsTheFile) {
  constexpr std::size_t kBlocks = 10240;
  for (const BlockType from : repacked_formats()) {
    const std::size_t cols = kBlocks * static_cast<std::size_t>(format_of(from).block_values);
    const std::vector<std::byte> stored = random_blocks(from, kBlocks, 71);
    const BlockType to = format_of(from).repacked;
    std::vector<std::byte> kept(row_bytes(to, static_cast<std::int64_t>(cols)));
    repack(from, stored, static_cast<std::int64_t>(cols), kept);
    const std::vector<float> want = values_of(from, stored, cols);
    const std::vector<float> got = values_of(to, kept, cols);
    for (std::size_t i = 0; i < cols; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
          << name_of(from) << " value " << i << ": " << got[i] << ", expected " << want[i];
    }
  }
}

TEST(Repack, ScalesThatAreNoNumbersStayNone) {
  for (const BlockType from : repacked_formats()) {
    const auto cols = format_of(from).block_values;
    std::vector<std::byte> stored = random_blocks(from, 12, 72);
    stored.erase(stored.begin(), stored.begin() + 11 * format_of(from).block_bytes);
    constexpr std::uint16_t kScales[] = {0x7E00, 0x7C00, 0xFC00};
    for (const std::uint16_t scale : kScales) {
      std::memcpy(stored.data() + scale_offsets(from)[0], &scale, sizeof scale);
      const BlockType to = format_of(from).repacked;
      std::vector<std::byte> kept(row_bytes(to, cols));
      repack(from, stored, cols, kept);
      const auto want = values_of(from, stored, static_cast<std::size_t>(cols));
      const auto got = values_of(to, kept, static_cast<std::size_t>(cols));
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i])
            << name_of(from) << " value " << i;
      }
    }
  }
}

TEST(Repack, RowsOfAKeptTypeAreUsedAsTheyAre) {
  const std::vector<std::byte> stored = random_blocks(BlockType::q8_0, 4, 73);
  RowReader reader(BlockType::q8_0, BlockType::q8_0, 128);
  EXPECT_EQ(reader(stored).data(), stored.data());
}

TEST(Repack, EveryBlockFormatEndsInOneWithKernels) {
  for (const BlockTraits& t : formats()) {
    if (t.kind != ValueKind::block) continue;
    EXPECT_TRUE(format_of(kept_as(t.type)).has_kernels) << t.name;
    EXPECT_TRUE(format_of(t.repacked).has_kernels) << t.name;
    EXPECT_EQ(t.repacked != t.type, t.repack != nullptr) << t.name;
  }
}

TEST(Repack, AProgramWithoutKernelsTakesTheExactForm) {
  constexpr BlockType kKernels[] = {BlockType::q8_0, BlockType::q6_k, BlockType::wide};
  EXPECT_EQ(kept_as(BlockType::q8_0, kKernels), BlockType::q8_0);
  EXPECT_EQ(kept_as(BlockType::q5_0, kKernels), BlockType::q8_0);
  EXPECT_EQ(kept_as(BlockType::q3_k, kKernels), BlockType::q6_k);
  EXPECT_EQ(kept_as(BlockType::q4_1, kKernels), BlockType::wide);
}

}  // namespace
}  // namespace runnel::quant
