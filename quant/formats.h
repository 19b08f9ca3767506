// SPDX-License-Identifier: Apache-2.0
// The block formats of weight tensors: one truth for files, CPU, CUDA and GLSL. Bit-compatible with ggml's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace runnel::quant {

/// Storage type of a tensor. The values are the type ids of GGUF files.
enum class BlockType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  i8 = 24,
  i32 = 26,
  bf16 = 30,
  wide = 0x10000,  // in memory only: what holds every other block format exactly
};

// inputs of one block of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and IQ4_NL, which share one scale, as int8 activations do
inline constexpr int kQ8Block = 32;
inline constexpr int kSuperBlock = 256;  // inputs of one block of a K format or of IQ4_XS
inline constexpr int kWideBlock = 16;    // inputs of one block of the wide layout

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

/// 32 values of 4 bits:  w[j] = d * (qs[j] & 15) + m,  w[j + 16] = d * (qs[j] >> 4) + m,  j = 0…15.
struct BlockQ4_1 {
  std::uint16_t d;  // f16 scale
  std::uint16_t m;  // f16 offset
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

/// 32 values of 5 bits:  w[i] = d * (q[i] - 16). The low four bits of q as in Q4_0; bit i of `qh`, little-endian, is the
/// fifth of q[i].
struct BlockQ5_0 {
  std::uint16_t d;  // f16 scale
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

/// 32 values of 5 bits:  w[i] = d * q[i] + m,  q as in Q5_0.
struct BlockQ5_1 {
  std::uint16_t d;  // f16 scale
  std::uint16_t m;  // f16 offset
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

/// 32 values of 4 bits:  w[j] = d * kIq4Values[qs[j] & 15],  w[j + 16] = d * kIq4Values[qs[j] >> 4],  j = 0…15.
struct BlockIQ4_NL {
  std::uint16_t d;  // f16 scale
  std::uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

/// What the codes of IQ4_NL and IQ4_XS stand for.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

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

/// 256 values of 5 bits in 8 groups of 32:  w = d * scale[g] * q - dmin * min[g],  q in [0, 31]. Scales and minima are
/// packed as in Q4_K, the low four bits of q lie as there; bit g of qh[l] is the fifth of value l of group g.
struct BlockQ5_K {
  std::uint16_t d;     // f16 scale of the scales
  std::uint16_t dmin;  // f16 scale of the minima
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

/// 256 values of 3 bits in 16 groups of 16:  w = d * (scale[g] - 32) * q,  q in [-4, 3].
///   scale   six bits: the low four are those of scales[g % 8], its low half for g < 8, else its high half; the upper two
///           are bits 2 (g / 4), 2 (g / 4) + 1 of scales[8 + g % 4]
///   q + 4   for each half h (128 values), part p in 0…3 and l in 0…31, value 128h + 32p + l: bits 2p, 2p + 1 of
///           qs[32h + l], and above them bit 4h + p of hmask[l]
struct BlockQ3_K {
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];
  std::uint16_t d;  // f16 scale of the scales
};
static_assert(sizeof(BlockQ3_K) == 110);

/// 256 values of 2 bits in 16 groups of 16:  w = d * (scales[g] & 15) * q - dmin * (scales[g] >> 4),  q in [0, 3]; they
/// lie as the lower two bits of Q3_K do.
struct BlockQ2_K {
  std::uint8_t scales[16];
  std::uint8_t qs[64];
  std::uint16_t d;     // f16 scale of the scales
  std::uint16_t dmin;  // f16 scale of the minima
};
static_assert(sizeof(BlockQ2_K) == 84);

/// 256 values of 4 bits in 8 groups of 32:  w = d * (scale[g] - 32) * kIq4Values[q]. Scales have six bits: the low four in
/// half g % 2 of scales_l[g / 2], the upper two at bit 2g of scales_h. A group's 32 codes lie as in IQ4_NL.
struct BlockIQ4_XS {
  std::uint16_t d;  // f16 scale of the scales
  std::uint16_t scales_h;
  std::uint8_t scales_l[4];
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

/// The wide layout, 16 values:  w = scale * q + offset, the product rounded before the sum. An offset of -0 adds nothing,
/// not even the sign of a zero. In no file.
struct BlockWide {
  std::int8_t qs[16];
  float scale;
  float offset;
};
static_assert(sizeof(BlockWide) == 24);

/// What one element of a tensor is.
enum class ValueKind { integer, number, block };

/// Everything the library knows of one storage type. To add a format: its entry in formats.cpp, its decoder, and either
/// kernels or a repacking.
struct BlockTraits {
  BlockType type;
  std::string_view name;  // "f32", "q4_0", …
  int block_values;       // values in a block (1 for plain types)
  int block_bytes;        // bytes of a block
  ValueKind kind;
  bool in_files;     // a type of GGUF files, not only of memory
  bool has_kernels;  // of its own on the CPU; fast backends multiply blocks with int8 activations
  /// The type that holds the same values exactly for programs without kernels of this one; its own: none.
  BlockType repacked;
  /// When writing: the type for rows that its blocks do not divide, and for what every token's logits or decay see.
  BlockType for_odd_rows, for_tables;
  int file_type;  // general.file_type of a file that is mostly of this type; -1: such files are not written
  // The largest magnitude that can be stored: a larger one would make a value or a scale infinite.
  float largest;

  // Rows; `in` and `out` begin at a block and may be unaligned. Null: no values, not written, not repacked.
  void (*decode)(const std::byte* in, std::span<float> out);
  void (*encode)(std::span<const float> in, std::byte* out);
  void (*repack)(const std::byte* in, std::size_t values, std::byte* out);
};

/// The table: one entry for each type that this library reads or keeps in memory.
std::span<const BlockTraits> formats();

/// The entry of a known type id, or null for an id this library does not know.
const BlockTraits* find_format(BlockType type);

/// The entry of a type that was checked when its tensor was read.
const BlockTraits& format_of(BlockType type);

/// Whether a type stores blocks of quantised values with common scales. Fast backends multiply these with int8
/// activations.
bool is_block_type(BlockType type);

/// Whether a type stores a floating-point number per value.
bool is_float_type(BlockType type);

/// The entry of a type of GGUF files, or null. Types of memory only are not among them.
const BlockTraits* find_file_format(std::uint32_t type_id);

/// The name of a type id of GGUF files, of one that is not read too; "removed" or "unknown" for others.
std::string_view type_id_name(std::uint32_t type_id);

/// The type with this lower-case name ("q4_k"), or nothing. Types of memory only have no such name.
std::optional<BlockType> block_type_from_name(std::string_view name);

/// The names of the types that `which` accepts, for messages: "f32, f16 or bf16".
std::string format_names(bool (*which)(const BlockTraits&));

/// Whether weights can be written as this type, and whether they can be read from it.
bool is_written(const BlockTraits& format);
bool is_weight(const BlockTraits& format);

/// Bytes of one row of `cols` values; cols must be a multiple of the block size.
std::size_t row_bytes(BlockType type, std::int64_t cols);

/// The type in which a program with kernels for `kernels` keeps weights of `type`: itself, or what it is repacked to.
BlockType kept_as(BlockType type, std::span<const BlockType> kernels);

/// The type in which the CPU keeps weights of `type`.
BlockType kept_as(BlockType type);

}  // namespace runnel::quant
