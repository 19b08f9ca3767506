// SPDX-License-Identifier: Apache-2.0
// The block formats of weight tensors: one truth for files, CPU, CUDA and GLSL. Bit-compatible with ggml's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace runnel::quant {

/// Storage type of a tensor. The values are the type ids of GGUF files.
enum class BlockType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q8_0 = 8,
  q4_k = 12,
  q6_k = 14,
  i8 = 24,
  i32 = 26,
  bf16 = 30,
};

// inputs that share one scale in Q8_0 and Q4_0, and in int8 activations
inline constexpr int kQ8Block = 32;
inline constexpr int kSuperBlock = 256;  // inputs of one Q4_K or Q6_K block

/// 32 values of 8 bits:  w[i] = d * qs[i],  qs in [-127, 127].
struct BlockQ8_0 {
  std::uint16_t d;  // f16 scale
  std::int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

/// 32 values of 4 bits:  w[j] = d * ((qs[j] & 15) - 8),  w[j + 16] = d * ((qs[j] >> 4) - 8),  j = 0…15.
struct BlockQ4_0 {
  std::uint16_t d;  // f16 scale
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

/// 256 values of 4 bits in 8 groups of 32:  w = d * scale[g] * q - dmin * min[g],  q in [0, 15].
/// `scales` packs 8 six-bit scales and 8 six-bit minima:
///   g < 4   scale = scales[g] & 63,                                 min = scales[g+4] & 63
///   g >= 4  scale = (scales[g+4] & 15) | (scales[g-4] >> 6) << 4,   min = (scales[g+4] >> 4) | (scales[g] >> 6) << 4
/// qs[32 p + l] holds value l of group 2p in its low and of group 2p+1 in its high half.
struct BlockQ4_K {
  std::uint16_t d;     // f16 scale of the scales
  std::uint16_t dmin;  // f16 scale of the minima
  std::uint8_t scales[12];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

/// 256 values of 6 bits in 16 groups of 16:  w = d * scales[g] * (q - 32),  q in [0, 63].
/// For each half h (128 values) and l in 0…31: ql[64h + l] low nibble = value l, high = value l +
/// 64; ql[64h + 32 + l] low = value l + 32, high = value l + 96; qh[32h + l] holds their upper two
/// bits, in the order l, l + 32, l + 64, l + 96 from bit 0.
struct BlockQ6_K {
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  std::uint16_t d;  // f16 scale of the scales
};
static_assert(sizeof(BlockQ6_K) == 210);

/// Size facts of one storage type.
struct BlockTraits {
  BlockType type;
  std::string_view name;  // "f32", "q4_0", …
  int block_values;       // values in a block (1 for plain types)
  int block_bytes;        // bytes of a block
};

/// Whether a type stores blocks of quantised values with common scales. Fast backends multiply these with int8
/// activations.
constexpr bool is_block_type(BlockType type) {
  return type == BlockType::q8_0 || type == BlockType::q4_0 || type == BlockType::q4_k ||
         type == BlockType::q6_k;
}

/// Whether a type stores a floating-point number per value.
constexpr bool is_float_type(BlockType type) {
  return type == BlockType::f32 || type == BlockType::f16 || type == BlockType::bf16;
}

/// The traits of a known type id, or nothing for an id this library does not know.
std::optional<BlockTraits> block_traits(BlockType type);

/// The type with this lower-case name ("q4_k"), or nothing.
std::optional<BlockType> block_type_from_name(std::string_view name);

/// Bytes of one row of `cols` values; cols must be a multiple of the block size.
std::size_t row_bytes(BlockType type, std::int64_t cols);

}  // namespace runnel::quant
