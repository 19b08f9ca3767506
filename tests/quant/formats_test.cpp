// SPDX-License-Identifier: Apache-2.0
#include "quant/formats.h"

#include <gtest/gtest.h>

namespace runnel::quant {
namespace {

constexpr BlockType kTypes[] = {BlockType::f32,  BlockType::f16,  BlockType::bf16,
                                BlockType::q8_0, BlockType::q4_0, BlockType::q4_k,
                                BlockType::q6_k, BlockType::i8,   BlockType::i32};

TEST(Formats, BlockTypesAreThoseWhoseBlocksHoldSeveralValues) {
  for (const BlockType type : kTypes)
    EXPECT_EQ(is_block_type(type), block_traits(type)->block_values > 1)
        << block_traits(type)->name;
}

TEST(Formats, WeightsAreBlocksOrFloats) {
  for (const BlockType type : kTypes) {
    const bool integers = type == BlockType::i8 || type == BlockType::i32;
    EXPECT_EQ(is_block_type(type) || is_float_type(type), !integers) << block_traits(type)->name;
    EXPECT_FALSE(is_block_type(type) && is_float_type(type)) << block_traits(type)->name;
  }
}

TEST(Formats, NamesLeadBackToTheirTypes) {
  for (const BlockType type : kTypes)
    EXPECT_EQ(block_type_from_name(block_traits(type)->name), type);
  EXPECT_FALSE(block_type_from_name("Q4_0"));
  EXPECT_FALSE(block_traits(static_cast<BlockType>(99)));
}

}  // namespace
}  // namespace runnel::quant
