// SPDX-License-Identifier: Apache-2.0
#include "quant/formats.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace runnel::quant {
namespace {

TEST(Formats, BlocksHoldSeveralValuesAndOthersOne) {
  for (const BlockTraits& t : formats()) {
    EXPECT_EQ(is_block_type(t.type), t.block_values > 1) << t.name;
    EXPECT_EQ(is_float_type(t.type), t.kind == ValueKind::number) << t.name;
    EXPECT_EQ(t.decode == nullptr, t.kind == ValueKind::integer) << t.name;
  }
}

TEST(Formats, TypesAndNamesAreThereOnce) {
  std::set<std::string> names;
  std::set<BlockType> types;
  for (const BlockTraits& t : formats()) {
    EXPECT_TRUE(names.emplace(t.name).second) << t.name;
    EXPECT_TRUE(types.insert(t.type).second) << t.name;
  }
}

TEST(Formats, NamesOfFilesTypesLeadBackToThem) {
  for (const BlockTraits& t : formats()) {
    if (!t.in_files) continue;
    EXPECT_EQ(block_type_from_name(t.name), t.type) << t.name;
    EXPECT_EQ(find_file_format(static_cast<std::uint32_t>(t.type)), &t) << t.name;
  }
  EXPECT_FALSE(block_type_from_name("Q4_0"));
  EXPECT_EQ(find_format(static_cast<BlockType>(99)), nullptr);
}

TEST(Formats, TheWideLayoutIsInNoFile) {
  EXPECT_FALSE(block_type_from_name("wide"));
  EXPECT_EQ(find_file_format(static_cast<std::uint32_t>(BlockType::wide)), nullptr);
}

TEST(Formats, RowsOfAnyLengthCanBeWritten) {
  for (const BlockTraits& t : formats()) {
    if (!is_written(t)) continue;
    for (const BlockType next : {t.for_odd_rows, t.for_tables}) {
      EXPECT_TRUE(is_written(format_of(next))) << t.name;
    }
    BlockType type = t.type;
    for (int step = 0; step < 4 && format_of(type).block_values > 1; ++step)
      type = format_of(type).for_odd_rows;
    EXPECT_EQ(format_of(type).block_values, 1) << t.name;
    EXPECT_GE(t.file_type, 0) << t.name;
  }
}

TEST(Formats, MessagesListNamesWithAnOr) {
  EXPECT_EQ(format_names([](const BlockTraits& t) { return t.kind == ValueKind::number; }),
            "f32, f16 or bf16");
  EXPECT_EQ(format_names([](const BlockTraits& t) { return t.type == BlockType::q8_0; }), "q8_0");
}

}  // namespace
}  // namespace runnel::quant
