// SPDX-License-Identifier: Apache-2.0
// Checkpoints in the safetensors format: one file, or shards listed by model.safetensors.index.json. Read only.
//
//   RUNNEL_TRY(auto checkpoint, SafetensorsCheckpoint::open("GSA-1.3B"));
//   if (const SafetensorsTensor* t = checkpoint.find("model.norm.weight")) {
//     RUNNEL_TRY(std::vector<float> norm, to_f32(*t));
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/result.h"
#include "runtime/base/file_map.h"

namespace runnel {

/// Element types that can be converted. A file with others (8-bit floats and below) is refused as unsupported.
enum class SafetensorsType { boolean, u8, i8, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64 };

/// The type's name in files ("BF16"), and the bytes of an element.
std::string_view to_string(SafetensorsType type);
std::size_t element_bytes(SafetensorsType type);

/// One tensor. `bytes` view the mapped file and need not be aligned for the type.
struct SafetensorsTensor {
  SafetensorsType type = SafetensorsType::f32;
  // row-major, slowest first; empty for a scalar; a dimension may be 0
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // elements() * element_bytes(type)

  std::int64_t elements() const;
};

/// A copy as f32, rounded to nearest where the type is wider.
Result<std::vector<float>> to_f32(const SafetensorsTensor& tensor);

/// All tensors of a checkpoint. Immutable and thread-safe; keeps the files mapped. Move-only;
/// tensors stay where they are when it moves. A file costs at most 16 times its header plus 1 MiB of memory.
class SafetensorsCheckpoint {
 public:
  /// @param path  a .safetensors file, or a directory with model.safetensors.index.json or model.safetensors
  /// @return not_found, io, malformed, unsupported; the message names file and tensor, value and expectation.
  static Result<SafetensorsCheckpoint> open(const std::filesystem::path& path);

  /// Checks one file's bytes in memory, which must outlive the result. For tests and fuzzing.
  static Result<SafetensorsCheckpoint> parse(std::span<const std::byte> bytes);

  /// nullptr if absent.
  const SafetensorsTensor* find(std::string_view name) const;

  /// Sorted.
  std::vector<std::string_view> names() const;

 private:
  SafetensorsCheckpoint() = default;

  std::vector<FileMap> files_;
  std::map<std::string, SafetensorsTensor, std::less<>> tensors_;
};

}  // namespace runnel
