// SPDX-License-Identifier: Apache-2.0
#include "quant/formats.h"

namespace runnel::quant {
namespace {

constexpr BlockTraits kTraits[] = {
    {BlockType::f32, "f32", 1, 4},
    {BlockType::f16, "f16", 1, 2},
    {BlockType::bf16, "bf16", 1, 2},
    {BlockType::q8_0, "q8_0", kQ8Block, sizeof(BlockQ8_0)},
    {BlockType::q4_0, "q4_0", kQ8Block, sizeof(BlockQ4_0)},
    {BlockType::q4_k, "q4_k", kSuperBlock, sizeof(BlockQ4_K)},
    {BlockType::q6_k, "q6_k", kSuperBlock, sizeof(BlockQ6_K)},
    {BlockType::i8, "i8", 1, 1},
    {BlockType::i32, "i32", 1, 4},
};

}  // namespace

std::optional<BlockTraits> block_traits(BlockType type) {
  for (const BlockTraits& t : kTraits) {
    if (t.type == type) return t;
  }
  return std::nullopt;
}

std::optional<BlockType> block_type_from_name(std::string_view name) {
  for (const BlockTraits& t : kTraits) {
    if (t.name == name) return t.type;
  }
  return std::nullopt;
}

std::size_t row_bytes(BlockType type, std::int64_t cols) {
  const std::optional<BlockTraits> t = block_traits(type);
  return t ? static_cast<std::size_t>(cols / t->block_values) *
                 static_cast<std::size_t>(t->block_bytes)
           : 0;
}

}  // namespace runnel::quant
