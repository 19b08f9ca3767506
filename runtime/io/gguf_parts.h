// SPDX-License-Identifier: Apache-2.0
// Split GGUF models: names and keys of the parts, as llama.cpp's gguf-split writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace runnel::gguf {

inline constexpr std::string_view kSplitPrefix = "split.";
inline constexpr const char* kSplitNumberKey = "split.no";              // u16, from 0
inline constexpr const char* kSplitCountKey = "split.count";            // u16; 0 and 1: not split
inline constexpr const char* kSplitTensorsKey = "split.tensors.count";  // i32, of all parts
inline constexpr std::size_t kMostParts = 1000;

/// What the name of a part says.
struct PartName {
  std::filesystem::path stem;  // "models/name" of "models/name-00002-of-00003.gguf"
  std::int64_t number = 0;     // from 1
  std::int64_t count = 0;
};

/// Nothing if the name does not end in "-00002-of-00003.gguf" with some numbers of five digits.
std::optional<PartName> part_name(const std::filesystem::path& path);

/// The file of part `number`, counted from 1.
std::filesystem::path part_path(const std::filesystem::path& stem, std::int64_t number,
                                std::int64_t count);

/// `path` without an ending ".gguf".
std::filesystem::path stem_of(const std::filesystem::path& path);

}  // namespace runnel::gguf
