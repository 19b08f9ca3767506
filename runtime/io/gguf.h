// SPDX-License-Identifier: Apache-2.0
// GGUF version 3: reader over a mapped file, and writer. Every count, size and offset is checked before it is used.
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
#include "runtime/base/file_map.h"

namespace runnel {

/// An array value: one alternative per GGUF element type, in the order of the type ids (arrays cannot be elements).
using GgufArray =
    std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                 std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                 std::vector<float>, std::vector<bool>, std::vector<std::string>,
                 std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>;

/// A metadata value. The index of the alternative is the GGUF type id.
using GgufValue = std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t,
                               std::uint32_t, std::int32_t, float, bool, std::string, GgufArray,
                               std::uint64_t, std::int64_t, double>;

/// The type of a value for people: "u32", "string", "array of f32".
std::string gguf_type_name(const GgufValue& value);

/// One tensor of a file. Dimensions in row-major order, slowest first (the reverse of the file's order).
struct GgufTensor {
  std::string name;
  quant::BlockType type = quant::BlockType::f32;
  std::vector<std::int64_t> shape;  // 1 … 4 dimensions, each >= 1
  std::span<const std::byte> data;
};

/// A parsed GGUF file, or the parts of a split one as if it were one file. Immutable and thread-safe; tensors view the
/// mappings, which this object keeps alive. Memory taken beside the mappings is at most 16 times the files' size plus
/// 1 MiB, whatever the files say.
class GgufFile {
 public:
  /// Maps and checks a file. Where it says that it is a part of a split model (`split.count`), all parts are opened,
  /// whichever of them is named; their names end in "-00001-of-00003.gguf" and so on.
  /// @return not_found (for a part that is missing, too), io, malformed (what, where, expected), unsupported
  ///         (version, tensor type).
  static Result<std::shared_ptr<const GgufFile>> open(const std::filesystem::path& path);

  /// The same of a part of a file that is open, see FileMap::open().
  /// @return unsupported for a part of a split model, whose other parts have no name here
  static Result<std::shared_ptr<const GgufFile>> open(int descriptor, std::uint64_t offset,
                                                      std::uint64_t length);

  /// The same of a file in memory. Bytes that are not copied must outlive the result; those that do not start at a
  /// multiple of 8 always are.
  static Result<std::shared_ptr<const GgufFile>> from_bytes(std::span<const std::byte> bytes,
                                                            bool copies);

  /// Checks bytes in memory, which must outlive the result and start at a multiple of 8. For tests and fuzzing.
  /// A part of a split model stays a part, with its `split.*` keys.
  static Result<std::shared_ptr<const GgufFile>> parse(std::span<const std::byte> bytes);

  /// An opened file has no `split.*` keys: what it holds does not depend on how it was split.
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

  /// In the order of the file's table; those of a split model part by part.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  /// How many files or copies of bytes it was opened from; 0 for bytes in memory.
  std::size_t num_parts() const { return maps_.size(); }

  const GgufValue* find(std::string_view key) const;           // nullptr if absent
  const GgufTensor* find_tensor(std::string_view name) const;  // nullptr if absent

  /// Tells the system that these bytes of a mapped file will not be read again soon: they stay readable, but take no
  /// memory until then. Does nothing for bytes in memory.
  void release(std::span<const std::byte> bytes) const {
    for (const FileMap& map : maps_) map.release(bytes);
  }

  /// Typed look-ups: the value if the key is there and of a type that converts without loss (any
  /// integer type for integers, f32 or f64 for floats), `fallback` if the key is absent, malformed
  /// if it has another type or range.
  /// @return not_found if the key is absent and there is no fallback.
  Result<std::int64_t> get_int(std::string_view key,
                               std::optional<std::int64_t> fallback = {}) const;
  Result<double> get_float(std::string_view key, std::optional<double> fallback = {}) const;
  Result<bool> get_bool(std::string_view key, std::optional<bool> fallback = {}) const;
  Result<std::string> get_string(std::string_view key,
                                 std::optional<std::string> fallback = {}) const;

  /// The same conversions of a value, such as an element of an array; `key` names it in errors.
  static Result<std::int64_t> integer_of(std::string_view key, const GgufValue& value);
  static Result<double> float_of(std::string_view key, const GgufValue& value);
  static Result<bool> bool_of(std::string_view key, const GgufValue& value);
  static Result<std::string> string_of(std::string_view key, const GgufValue& value);

  /// The array under `key`, nullptr if absent, malformed if its elements are no T.
  template <class T>
  Result<const std::vector<T>*> get_array(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return static_cast<const std::vector<T>*>(nullptr);
    if (const auto* array = std::get_if<GgufArray>(value)) {
      if (const auto* elements = std::get_if<std::vector<T>>(array)) return elements;
    }
    return wrong_type(key, *value, gguf_type_name(GgufArray(std::vector<T>())));
  }

 private:
  friend class GgufParser;
  friend class GgufParts;
  GgufFile() = default;
  static Result<std::shared_ptr<GgufFile>> read(std::span<const std::byte> bytes);
  static Error wrong_type(std::string_view key, const GgufValue& value, std::string_view expected);

  std::vector<FileMap> maps_;  // one per file or copy; none if parsed from memory
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, std::size_t> tensor_index_;  // keys view the files' bytes
};

/// Writes a GGUF file tensor by tensor, so that the whole model is never in memory.
///   GgufWriter writer;
///   writer.set("general.architecture", std::string("gsa"));
///   writer.add_tensor("model.norm.weight", BlockType::f32, {576},
///                     [&]() -> Result<std::vector<std::byte>> { return bytes_of(norm); });
///   RUNNEL_CHECK_OK(writer.write(path, progress));
class GgufWriter {
 public:
  /// Makes the bytes of one tensor when its turn comes: exactly rows * row_bytes of them.
  using Producer = std::function<Result<std::vector<std::byte>>()>;

  /// Adds a key, or replaces its value. Keys are written in the order of their first set.
  void set(std::string key, GgufValue value);

  /// Adds a tensor; they are written in this order.
  /// @param shape  slowest dimension first, as in GgufTensor.
  void add_tensor(std::string name, quant::BlockType type, std::vector<std::int64_t> shape,
                  Producer producer);

  /// Writes to a temporary file beside `path`, then renames it. The same input gives the same
  /// bytes. Tensor data is aligned to general.alignment if that key was set (u32), else to 32.
  /// @param progress  receives the fraction of tensor bytes done after each tensor; false cancels.
  /// @return invalid_argument for names, shapes or keys that no reader would take, or a producer whose bytes have
  ///         the wrong size; io; cancelled; what a producer returns. Without success `path` is untouched.
  Status write(const std::filesystem::path& path,
               const std::function<bool(float)>& progress = {}) const;

  /// Writes parts of at most `most_bytes`: "name-00001-of-00003.gguf" and so on for a `path` of "name.gguf". The keys
  /// are in the first; every part has `split.no`, `split.count` and `split.tensors.count`. Which tensors go into
  /// which part does not change when the keys grow or shrink within the same multiple of kSplitReserve: the first
  /// part leaves room for that much. The parts are renamed onto their names when all of them are written.
  /// @return the number of the part, from 1, of each tensor; invalid_argument also if a tensor or the keys do not fit
  ///         into a part, or there were more than 1,000 parts; else as write().
  Result<std::vector<int>> write_split(const std::filesystem::path& path, std::uint64_t most_bytes,
                                       const std::function<bool(float)>& progress = {}) const;
  static constexpr std::uint64_t kSplitReserve = 4'000'000;

 private:
  struct Entry {
    std::string name;
    quant::BlockType type;
    std::vector<std::int64_t> shape;
    Producer producer;
  };
  using Pair = std::pair<std::string, GgufValue>;
  struct Layout {
    std::uint64_t alignment = 32;
    std::vector<std::uint64_t> bytes;  // of each tensor's data
  };
  /// One file: tensors [first, end) after the keys.
  struct Part {
    std::filesystem::path path;
    std::vector<Pair> keys;
    std::size_t first = 0;
    std::size_t end = 0;
  };
  Result<Layout> check() const;
  Result<std::vector<Part>> split(const Layout& layout, std::uint64_t most_bytes) const;
  std::string header(const Part& part, const Layout& layout) const;
  Status write_parts(const std::vector<Part>& parts, const Layout& layout,
                     const std::function<bool(float)>& progress) const;

  std::vector<Pair> metadata_;
  std::vector<Entry> tensors_;
};

}  // namespace runnel
