// SPDX-License-Identifier: Apache-2.0
// GGUF version 3: reader over a mapped file, and writer. Every count, size and offset is checked before it is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quant/formats.h"
#include "runnel/result.h"

namespace runnel {

/// An array value: one alternative per GGUF element type (bool arrays are stored as uint8).
using GgufArray = std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                               std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                               std::vector<float>, std::vector<bool>, std::vector<std::string>, std::vector<std::uint64_t>,
                               std::vector<std::int64_t>, std::vector<double>>;

/// A metadata value, with its GGUF type kept by the alternative.
using GgufValue = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, float,
                               bool, std::string, GgufArray, std::uint64_t, std::int64_t, double>;

/// One tensor of a file. Dimensions in row-major order, slowest first (the reverse of the file's order).
struct GgufTensor {
  std::string name;
  quant::BlockType type = quant::BlockType::f32;
  std::vector<std::int64_t> shape;  // 1 … 4 dimensions, each >= 1
  std::span<const std::byte> data;
};

/// A parsed GGUF file. Immutable; tensors view the mapping, which this object keeps alive.
class GgufFile {
 public:
  /// Maps and checks a file. @return not_found, io, malformed (what, where, expected), unsupported (version, tensor type).
  static Result<std::shared_ptr<const GgufFile>> open(const std::filesystem::path& path);

  /// Checks bytes in memory, which must outlive the result. For tests and fuzzing.
  static Result<std::shared_ptr<const GgufFile>> parse(std::span<const std::byte> bytes);

  virtual ~GgufFile() = default;

  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  const GgufValue* find(std::string_view key) const;          // nullptr if absent
  const GgufTensor* find_tensor(std::string_view name) const;  // nullptr if absent

  /// Typed look-ups: the value if the key is there and of a type that converts without loss (any integer type for
  /// integers, f32 or f64 for floats), `fallback` if the key is absent, malformed if it has another type or range.
  Result<std::int64_t> get_int(std::string_view key, std::optional<std::int64_t> fallback = {}) const;
  Result<double> get_float(std::string_view key, std::optional<double> fallback = {}) const;
  Result<bool> get_bool(std::string_view key, std::optional<bool> fallback = {}) const;
  Result<std::string> get_string(std::string_view key, std::optional<std::string> fallback = {}) const;

 protected:
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> tensor_index_;
};

/// Writes a GGUF file tensor by tensor, so that the whole model is never in memory.
///   GgufWriter writer;  writer.set("general.architecture", std::string("gsa"));
///   writer.add_tensor("model.norm.weight", BlockType::f32, {576}, [&]() -> Result<std::vector<std::byte>> {...});
///   RUNNEL_CHECK_OK(writer.write(path, progress));
class GgufWriter {
 public:
  /// Makes the bytes of one tensor when its turn comes: exactly rows * row_bytes of them.
  using Producer = std::function<Result<std::vector<std::byte>>()>;

  void set(std::string key, GgufValue value);
  void add_tensor(std::string name, quant::BlockType type, std::vector<std::int64_t> shape, Producer producer);

  /// Writes to a temporary file beside `path`, then renames. @param progress fraction of bytes done; false cancels.
  Status write(const std::filesystem::path& path, const std::function<bool(float)>& progress = {}) const;

 private:
  struct Entry {
    std::string name;
    quant::BlockType type;
    std::vector<std::int64_t> shape;
    Producer producer;
  };
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<Entry> tensors_;
};

}  // namespace runnel
