// SPDX-License-Identifier: Apache-2.0
#include "quant/formats.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

#include "quant/block_codecs.h"
#include "quant/repack.h"
#include "runtime/base/half.h"

namespace runnel::quant {
namespace {

using B = BlockType;
constexpr ValueKind kInteger = ValueKind::integer;
constexpr ValueKind kNumber = ValueKind::number;
constexpr ValueKind kBlock = ValueKind::block;
constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kMostHalf = 65504.0F;
constexpr float kMostScaled = 63.0F * kMostHalf;  // a minimum of Q4_K and Q5_K is at most that

/// memcpy per block: neither file mappings nor byte vectors promise the alignment of a block.
template <class Block, Block (*kEncode)(const float*), int kValues>
void encode_row(std::span<const float> in, std::byte* out) {
  for (std::size_t i = 0; i < in.size() / kValues; ++i) {
    const Block block = kEncode(in.data() + i * kValues);
    std::memcpy(out + i * sizeof(Block), &block, sizeof(Block));
  }
}

template <class Block, int kValues>
void decode_row(const std::byte* in, std::span<float> out) {
  for (std::size_t i = 0; i < out.size() / kValues; ++i) {
    Block block;
    std::memcpy(&block, in + i * sizeof(Block), sizeof(Block));
    decode(block, out.data() + i * kValues);
  }
}

void encode_f32(std::span<const float> in, std::byte* out) {
  std::memcpy(out, in.data(), in.size_bytes());
}
void decode_f32(const std::byte* in, std::span<float> out) {
  std::memcpy(out.data(), in, out.size_bytes());
}

template <std::uint16_t (*kEncode)(float)>
void encode_halves(std::span<const float> in, std::byte* out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint16_t half = kEncode(in[i]);
    std::memcpy(out + 2 * i, &half, sizeof half);
  }
}

template <float (*kDecode)(std::uint16_t)>
void decode_halves(const std::byte* in, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, in + 2 * i, sizeof half);
    out[i] = kDecode(half);
  }
}

// clang-format off
constexpr BlockTraits kFormats[] = {
    // type, name, values and bytes of a block, kind, in files, kernels, repacked, odd rows, tables, file_type, largest
    {B::f32, "f32", 1, 4, kNumber, true, true, B::f32, B::f32, B::f32, 0, kMost,
     decode_f32, encode_f32, nullptr},
    {B::f16, "f16", 1, 2, kNumber, true, true, B::f16, B::f16, B::f16, 1, 65519.996F,  // 65520 rounds to infinity
     decode_halves<f16_to_f32>, encode_halves<f32_to_f16>, nullptr},
    {B::bf16, "bf16", 1, 2, kNumber, true, true, B::bf16, B::bf16, B::bf16, 32, 0x1.fefffep127F,  // one more rounds to infinity
     decode_halves<bf16_to_f32>, encode_halves<f32_to_bf16>, nullptr},
    {B::q8_0, "q8_0", kQ8Block, sizeof(BlockQ8_0), kBlock, true, true, B::q8_0, B::f16, B::q8_0, 7, kMostScaled,
     decode_row<BlockQ8_0, kQ8Block>, encode_row<BlockQ8_0, encode_q8_0, kQ8Block>, nullptr},
    {B::q4_0, "q4_0", kQ8Block, sizeof(BlockQ4_0), kBlock, true, true, B::q4_0, B::f16, B::q8_0, 2, 8.0F * kMostHalf,
     decode_row<BlockQ4_0, kQ8Block>, encode_row<BlockQ4_0, encode_q4_0, kQ8Block>, nullptr},
    {B::q4_1, "q4_1", kQ8Block, sizeof(BlockQ4_1), kBlock, true, true, B::wide, B::f16, B::q8_0, 3, kMostHalf,
     decode_row<BlockQ4_1, kQ8Block>, encode_row<BlockQ4_1, encode_q4_1, kQ8Block>, repack_row<BlockQ4_1>},
    {B::q5_0, "q5_0", kQ8Block, sizeof(BlockQ5_0), kBlock, true, true, B::q8_0, B::f16, B::q8_0, 8, 16.0F * kMostHalf,
     decode_row<BlockQ5_0, kQ8Block>, encode_row<BlockQ5_0, encode_q5_0, kQ8Block>, repack_row<BlockQ5_0>},
    {B::q5_1, "q5_1", kQ8Block, sizeof(BlockQ5_1), kBlock, true, false, B::wide, B::f16, B::q8_0, -1, 0,
     decode_row<BlockQ5_1, kQ8Block>, nullptr, repack_row<BlockQ5_1>},
    {B::q2_k, "q2_k", kSuperBlock, sizeof(BlockQ2_K), kBlock, true, false, B::wide, B::q4_0, B::q6_k, -1, 0,
     decode_row<BlockQ2_K, kSuperBlock>, nullptr, repack_row<BlockQ2_K>},
    {B::q3_k, "q3_k", kSuperBlock, sizeof(BlockQ3_K), kBlock, true, false, B::q6_k, B::q4_0, B::q6_k, -1, 0,
     decode_row<BlockQ3_K, kSuperBlock>, nullptr, repack_row<BlockQ3_K>},
    {B::q4_k, "q4_k", kSuperBlock, sizeof(BlockQ4_K), kBlock, true, true, B::q4_k, B::q4_0, B::q6_k, 14, kMostScaled,
     decode_row<BlockQ4_K, kSuperBlock>, encode_row<BlockQ4_K, encode_q4_k, kSuperBlock>, nullptr},
    {B::q5_k, "q5_k", kSuperBlock, sizeof(BlockQ5_K), kBlock, true, true, B::wide, B::q5_0, B::q6_k, 16, kMostScaled,
     decode_row<BlockQ5_K, kSuperBlock>, encode_row<BlockQ5_K, encode_q5_k, kSuperBlock>, repack_row<BlockQ5_K>},
    {B::q6_k, "q6_k", kSuperBlock, sizeof(BlockQ6_K), kBlock, true, true, B::q6_k, B::q8_0, B::q6_k, 18, kMostScaled,
     decode_row<BlockQ6_K, kSuperBlock>, encode_row<BlockQ6_K, encode_q6_k, kSuperBlock>, nullptr},
    {B::iq4_nl, "iq4_nl", kQ8Block, sizeof(BlockIQ4_NL), kBlock, true, false, B::q8_0, B::f16, B::q8_0, -1, 0,
     decode_row<BlockIQ4_NL, kQ8Block>, nullptr, repack_row<BlockIQ4_NL>},
    {B::iq4_xs, "iq4_xs", kSuperBlock, sizeof(BlockIQ4_XS), kBlock, true, false, B::wide, B::q4_0, B::q6_k, -1, 0,
     decode_row<BlockIQ4_XS, kSuperBlock>, nullptr, repack_row<BlockIQ4_XS>},
    {B::wide, "wide", kWideBlock, sizeof(BlockWide), kBlock, false, true, B::wide, B::wide, B::wide, -1, 0,
     decode_row<BlockWide, kWideBlock>, nullptr, nullptr},
    {B::i8, "i8", 1, 1, kInteger, true, false, B::i8, B::i8, B::i8, -1, 0, nullptr, nullptr, nullptr},
    {B::i32, "i32", 1, 4, kInteger, true, false, B::i32, B::i32, B::i32, -1, 0, nullptr, nullptr, nullptr},
};
// clang-format on

// Names of GGUF's type ids, for messages about those that this library does not read.
constexpr std::string_view kIdNames[] = {
    "f32",     "f16",     "q4_0",    "q4_1",  "removed", "removed", "q5_0",    "q5_1",
    "q8_0",    "q8_1",    "q2_k",    "q3_k",  "q4_k",    "q5_k",    "q6_k",    "q8_k",
    "iq2_xxs", "iq2_xs",  "iq3_xxs", "iq1_s", "iq4_nl",  "iq3_s",   "iq2_s",   "iq4_xs",
    "i8",      "i16",     "i32",     "i64",   "f64",     "iq1_m",   "bf16",    "removed",
    "removed", "removed", "tq1_0",   "tq2_0", "removed", "removed", "removed", "mxfp4"};

}  // namespace

std::span<const BlockTraits> formats() { return kFormats; }

const BlockTraits* find_format(BlockType type) {
  for (const BlockTraits& t : kFormats) {
    if (t.type == type) return &t;
  }
  return nullptr;
}

const BlockTraits& format_of(BlockType type) {
  const BlockTraits* const known = find_format(type);
  return known != nullptr ? *known : kFormats[0];
}

bool is_block_type(BlockType type) {
  const BlockTraits* const t = find_format(type);
  return t != nullptr && t->kind == ValueKind::block;
}

bool is_float_type(BlockType type) {
  const BlockTraits* const t = find_format(type);
  return t != nullptr && t->kind == ValueKind::number;
}

const BlockTraits* find_file_format(std::uint32_t type_id) {
  const BlockTraits* const t = find_format(static_cast<BlockType>(type_id));
  return t != nullptr && t->in_files ? t : nullptr;
}

std::string_view type_id_name(std::uint32_t type_id) {
  return type_id < std::size(kIdNames) ? kIdNames[type_id] : "unknown";
}

std::optional<BlockType> block_type_from_name(std::string_view name) {
  for (const BlockTraits& t : kFormats) {
    if (t.in_files && t.name == name) return t.type;
  }
  return std::nullopt;
}

std::string format_names(bool (*which)(const BlockTraits&)) {
  std::string names;
  std::string_view last;
  for (const BlockTraits& t : kFormats) {
    if (!which(t)) continue;
    if (!last.empty()) names += (names.empty() ? "" : ", ") + std::string(last);
    last = t.name;
  }
  return names.empty() ? std::string(last) : names + " or " + std::string(last);
}

bool is_written(const BlockTraits& format) { return format.encode != nullptr; }
bool is_weight(const BlockTraits& format) { return format.in_files && format.decode != nullptr; }

std::size_t row_bytes(BlockType type, std::int64_t cols) {
  const BlockTraits* const t = find_format(type);
  return t != nullptr ? static_cast<std::size_t>(cols / t->block_values) *
                            static_cast<std::size_t>(t->block_bytes)
                      : 0;
}

BlockType kept_as(BlockType type, std::span<const BlockType> kernels) {
  const bool own = std::find(kernels.begin(), kernels.end(), type) != kernels.end();
  return own ? type : format_of(type).repacked;
}

BlockType kept_as(BlockType type) {
  const BlockTraits& t = format_of(type);
  return t.has_kernels ? type : t.repacked;
}

}  // namespace runnel::quant
