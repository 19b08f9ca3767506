// SPDX-License-Identifier: Apache-2.0
// What the GGUF reader and writer share: constants of the format and the size of a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "quant/formats.h"
#include "runnel/result.h"

namespace runnel::gguf {

inline constexpr char kMagic[4] = {'G', 'G', 'U', 'F'};
inline constexpr std::uint32_t kVersion = 3;  // 2 has the same little-endian layout and is read too
inline constexpr std::uint32_t kOldestVersion = 2;
inline constexpr const char* kAlignmentKey = "general.alignment";
inline constexpr std::uint32_t kDefaultAlignment = 32;
inline constexpr std::uint32_t kLeastAlignment = 8;  // the format asks for a multiple of 8
inline constexpr std::uint32_t kMostAlignment = 65536;
inline constexpr std::uint32_t kMaxDimensions = 4;
inline constexpr std::size_t kMaxNameBytes = 65535;  // of a key or a tensor name, when reading
inline constexpr std::size_t kMaxWrittenName = 63;   // of a tensor, when writing: ggml's limit

// Type ids of values.
inline constexpr std::uint32_t kBoolType = 7;
inline constexpr std::uint32_t kStringType = 8;
inline constexpr std::uint32_t kArrayType = 9;
inline constexpr std::uint32_t kTypes = 13;

/// The type id's name, "type 99" if there is none.
std::string type_name(std::uint32_t id);

/// Element type id of alternative `index` of GgufArray, which leaves out the array type.
constexpr std::uint32_t element_type(std::size_t index) {
  return static_cast<std::uint32_t>(index < kArrayType ? index : index + 1);
}

Status check_alignment(std::uint64_t alignment);

/// Bytes of a tensor, or why there is no such tensor: dimensions (slowest first), overflow, part of a block, type.
Result<std::uint64_t> tensor_bytes(std::uint32_t type_id, std::span<const std::int64_t> shape);

}  // namespace runnel::gguf
