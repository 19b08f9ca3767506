// SPDX-License-Identifier: Apache-2.0
// Blocks of every format from a seed, random bytes under finite scales; tests/data/quant/make_blocks.py makes the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "quant/formats.h"
#include "runtime/base/half.h"

namespace runnel::quant {

/// The formats of files whose blocks hold several values.
inline std::vector<BlockType> block_formats() {
  std::vector<BlockType> types;
  for (const BlockTraits& t : formats()) {
    if (t.in_files && t.kind == ValueKind::block) types.push_back(t.type);
  }
  return types;
}

/// Those that some program repacks.
inline std::vector<BlockType> repacked_formats() {
  std::vector<BlockType> types;
  for (const BlockTraits& t : formats()) {
    if (t.repack != nullptr) types.push_back(t.type);
  }
  return types;
}

inline std::uint64_t split_mix(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15U * (i + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

/// Where the f16 scales of a block lie.
inline std::vector<std::size_t> scale_offsets(BlockType type) {
  switch (type) {
    case BlockType::q4_1:
    case BlockType::q5_1:
    case BlockType::q4_k:
    case BlockType::q5_k:
      return {0, 2};
    case BlockType::q2_k:
      return {80, 82};
    case BlockType::q3_k:
      return {108};
    case BlockType::q6_k:
      return {208};
    default:
      return {0};
  }
}

/// The formats that weights of a file may have, plain ones too.
inline std::vector<BlockType> weight_formats() {
  std::vector<BlockType> types;
  for (const BlockTraits& t : formats()) {
    if (is_weight(t)) types.push_back(t.type);
  }
  return types;
}

/// `count` blocks of random bytes, unchanged: their scales may be infinite or NaN.
inline std::vector<std::byte> any_blocks(BlockType type, std::size_t count, std::uint64_t seed) {
  const auto size = static_cast<std::size_t>(format_of(type).block_bytes);
  std::vector<std::byte> bytes(size * count);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(split_mix(seed, i / 8) >> (8 * (i % 8)));
  }
  return bytes;
}

/// The same with finite scales, the first ones at the edges of what a scale can be.
inline std::vector<std::byte> random_blocks(BlockType type, std::size_t count, std::uint64_t seed) {
  constexpr std::array<std::uint16_t, 10> kEdges = {0,      0x8000, 1,      0x8001, 0x3FF,
                                                    0x83FF, 0x400,  0x8400, 0x7BFF, 0xFBFF};
  const auto size = static_cast<std::size_t>(format_of(type).block_bytes);
  std::vector<std::byte> bytes = any_blocks(type, count, seed);
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::size_t at : scale_offsets(type)) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes.data() + i * size + at, sizeof half);
      if ((half & 0x7C00) == 0x7C00) half = half & 0xBFFF;
      if (i < kEdges.size()) half = kEdges[i];
      std::memcpy(bytes.data() + i * size + at, &half, sizeof half);
    }
  }
  return bytes;
}

/// Blocks as a matrix may have them, of a format for which random bytes are codes and scales: values have about the mean 0
/// and this deviation.
inline std::vector<std::byte> scaled_blocks(BlockType type, std::size_t count, std::uint64_t seed,
                                            float deviation) {
  // The deviation of a block's values over its d, and the field beside d over d.
  float of_d = 1.0F, beside = 0.0F;
  switch (type) {
    case BlockType::q4_1:
      of_d = 4.6F, beside = -7.5F;
      break;
    case BlockType::q5_0:
      of_d = 9.2F;
      break;
    case BlockType::q5_1:
      of_d = 9.2F, beside = -15.5F;
      break;
    case BlockType::q5_k:
      of_d = 520.0F, beside = 15.5F;
      break;
    case BlockType::q2_k:
      of_d = 14.0F, beside = 1.5F;
      break;
    case BlockType::q3_k:
      of_d = 43.0F;
      break;
    case BlockType::iq4_nl:
      of_d = 70.0F;
      break;
    case BlockType::iq4_xs:
      of_d = 1300.0F;
      break;
    default:
      break;
  }
  const auto size = static_cast<std::size_t>(format_of(type).block_bytes);
  std::vector<std::byte> bytes = any_blocks(type, count, seed);
  const std::vector<std::size_t> at = scale_offsets(type);
  for (std::size_t i = 0; i < count; ++i) {
    const float d = deviation / of_d * (0.75F + 0.5F * static_cast<float>(i % 7) / 6.0F);
    const std::uint16_t fields[] = {f32_to_f16(d), f32_to_f16(d * beside)};
    for (std::size_t f = 0; f < at.size(); ++f)
      std::memcpy(bytes.data() + i * size + at[f], &fields[f], sizeof fields[f]);
  }
  return bytes;
}

}  // namespace runnel::quant
