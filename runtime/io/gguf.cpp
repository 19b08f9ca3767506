// SPDX-License-Identifier: Apache-2.0
// The GGUF reader. Layout: magic, version, counts, metadata pairs, tensor table, padding, tensor data.
#include "runtime/io/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "runtime/base/byte_reader.h"
#include "runtime/base/integers.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/gguf_layout.h"

namespace runnel {

/// Reads one file from front to back. A count or length is compared with the bytes left before
/// anything is allocated for it, which bounds the memory by a constant times the file.
class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> bytes) : bytes_(bytes), reader_(bytes) {}

  Status parse_into(GgufFile& file);

 private:
  struct Counts {
    std::uint64_t tensors = 0;
    std::uint64_t pairs = 0;
  };
  struct Extent {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::size_t tensor = 0;
  };

  Result<Counts> read_header();
  Status read_pair(GgufFile& file);
  Result<GgufValue> read_value(std::uint32_t type);
  Result<GgufArray> read_array();
  Status read_tensor_info(GgufFile& file);
  Status read_alignment(const GgufFile& file);
  Status place_tensors(GgufFile& file);

  template <class T>
  Result<T> read(const char* what);
  Result<std::string_view> read_text(const char* what, std::uint64_t limit);
  template <class T>
  Result<GgufArray> read_elements(std::uint64_t count);

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  std::uint64_t alignment_ = gguf::kDefaultAlignment;
  std::vector<Extent> extents_;  // of tensor data, relative to the data section, in table order
};

template <class T>
Result<T> GgufParser::read(const char* what) {
  if (const std::optional<T> value = reader_.read<T>()) return *value;
  return fail(ErrorCode::malformed, "file ends at byte ", reader_.position() + reader_.remaining(),
              " inside the ", what, " (", sizeof(T), " bytes at ", reader_.position(), ")");
}

Result<std::string_view> GgufParser::read_text(const char* what, std::uint64_t limit) {
  const std::size_t at = reader_.position();
  RUNNEL_TRY(const std::uint64_t length, read<std::uint64_t>(what));
  if (length > limit) {
    return fail(ErrorCode::malformed, what, " at byte ", at, " has ", length,
                " bytes, expected at most ", limit);
  }
  if (const auto bytes = reader_.take(length)) return as_text(*bytes);
  return fail(ErrorCode::malformed, what, " at byte ", at, " has ", length, " bytes, but ",
              reader_.remaining(), " are left in the file");
}

Result<GgufParser::Counts> GgufParser::read_header() {
  const auto magic = reader_.take(sizeof gguf::kMagic);
  if (!magic || std::memcmp(magic->data(), gguf::kMagic, sizeof gguf::kMagic) != 0) {
    return fail(ErrorCode::malformed, "is no GGUF file: the first bytes are not \"GGUF\"");
  }
  RUNNEL_TRY(const std::uint32_t version, read<std::uint32_t>("version"));
  if (__builtin_bswap32(version) >= 1 && __builtin_bswap32(version) <= gguf::kVersion) {
    return fail(ErrorCode::unsupported, "is a big-endian GGUF file, expected a little-endian one");
  }
  if (version < gguf::kOldestVersion || version > gguf::kVersion) {
    return fail(ErrorCode::unsupported, "GGUF version is ", version, ", expected ", gguf::kVersion);
  }

  Counts counts;
  RUNNEL_TRY(counts.tensors, read<std::uint64_t>("tensor count"));
  RUNNEL_TRY(counts.pairs, read<std::uint64_t>("metadata count"));
  constexpr std::uint64_t kLeastPair = 8 + 1 + 4 + 1;  // key length, key, type, value
  // name length, name, dimensions, one size, type, offset
  constexpr std::uint64_t kLeastTensor = 8 + 1 + 4 + 8 + 4 + 8;
  if (counts.pairs > reader_.remaining() / kLeastPair) {
    return fail(ErrorCode::malformed, "metadata count is ", counts.pairs, ", but the ",
                reader_.remaining(), " bytes left hold at most ", reader_.remaining() / kLeastPair);
  }
  if (counts.tensors > reader_.remaining() / kLeastTensor) {
    return fail(ErrorCode::malformed, "tensor count is ", counts.tensors, ", but the ",
                reader_.remaining(), " bytes left hold at most ",
                reader_.remaining() / kLeastTensor);
  }
  return counts;
}

template <class T>
Result<GgufArray> GgufParser::read_elements(std::uint64_t count) {
  // A string takes at least its length in the file, a bool its byte.
  constexpr std::size_t kLeastBytes =
      std::is_same_v<T, std::string> ? sizeof(std::uint64_t) : sizeof(T);
  if (count > reader_.remaining() / kLeastBytes) {
    return fail(ErrorCode::malformed, "array has ", count, " elements, but ", reader_.remaining(),
                " bytes are left in the file");
  }
  const auto size = static_cast<std::size_t>(count);
  std::vector<T> elements;
  if constexpr (std::is_same_v<T, std::string>) {
    elements.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
      RUNNEL_TRY(const std::string_view text,
                 read_text("array element", std::numeric_limits<std::uint64_t>::max()));
      elements.emplace_back(text);
    }
  } else {
    const std::span<const std::byte> bytes = *reader_.take(count * sizeof(T));
    elements.resize(size);
    if constexpr (std::is_same_v<T, bool>) {
      for (std::size_t i = 0; i < size; ++i) {
        if (bytes[i] > std::byte{1}) {
          return fail(ErrorCode::malformed, "bool array element ", i, " is ", int(bytes[i]),
                      ", expected 0 or 1");
        }
        elements[i] = bytes[i] == std::byte{1};
      }
    } else if (size > 0) {
      std::memcpy(elements.data(), bytes.data(), bytes.size());
    }
  }
  return GgufArray(std::move(elements));
}

Result<GgufArray> GgufParser::read_array() {
  RUNNEL_TRY(const std::uint32_t type, read<std::uint32_t>("array element type"));
  RUNNEL_TRY(const std::uint64_t count, read<std::uint64_t>("array length"));
  switch (type) {
    case 0:
      return read_elements<std::uint8_t>(count);
    case 1:
      return read_elements<std::int8_t>(count);
    case 2:
      return read_elements<std::uint16_t>(count);
    case 3:
      return read_elements<std::int16_t>(count);
    case 4:
      return read_elements<std::uint32_t>(count);
    case 5:
      return read_elements<std::int32_t>(count);
    case 6:
      return read_elements<float>(count);
    case gguf::kBoolType:
      return read_elements<bool>(count);
    case gguf::kStringType:
      return read_elements<std::string>(count);
    case gguf::kArrayType:
      return fail(ErrorCode::unsupported,
                  "is an array of arrays, expected an array of plain values");
    case 10:
      return read_elements<std::uint64_t>(count);
    case 11:
      return read_elements<std::int64_t>(count);
    case 12:
      return read_elements<double>(count);
    default:
      return fail(ErrorCode::malformed, "array element type is ", type, ", expected 0 to ",
                  gguf::kTypes - 1);
  }
}

Result<GgufValue> GgufParser::read_value(std::uint32_t type) {
  const auto number = [this]<class T>(T) -> Result<GgufValue> {
    return read<T>("value").transform([](T value) { return GgufValue(value); });
  };
  switch (type) {
    case 0:
      return number(std::uint8_t());
    case 1:
      return number(std::int8_t());
    case 2:
      return number(std::uint16_t());
    case 3:
      return number(std::int16_t());
    case 4:
      return number(std::uint32_t());
    case 5:
      return number(std::int32_t());
    case 6:
      return number(float());
    case gguf::kBoolType: {
      RUNNEL_TRY(const std::uint8_t value, read<std::uint8_t>("value"));
      if (value > 1) return fail(ErrorCode::malformed, "bool is ", int(value), ", expected 0 or 1");
      return GgufValue(value == 1);
    }
    case gguf::kStringType: {
      RUNNEL_TRY(const std::string_view text,
                 read_text("string", std::numeric_limits<std::uint64_t>::max()));
      return GgufValue(std::string(text));
    }
    case gguf::kArrayType:
      return read_array().transform([](GgufArray&& array) { return GgufValue(std::move(array)); });
    case 10:
      return number(std::uint64_t());
    case 11:
      return number(std::int64_t());
    case 12:
      return number(double());
    default:
      return fail(ErrorCode::malformed, "value type is ", type, ", expected 0 to ",
                  gguf::kTypes - 1);
  }
}

Status GgufParser::read_pair(GgufFile& file) {
  const std::size_t at = reader_.position();
  RUNNEL_TRY(const std::string_view key, read_text("metadata key", gguf::kMaxNameBytes));
  if (key.empty()) return fail(ErrorCode::malformed, "metadata key at byte ", at, " is empty");
  const auto here = [&](Error error) {
    return with_context(std::move(error), "key " + in_quotes(key) + ": ");
  };
  if (file.metadata_.contains(key)) return here(fail(ErrorCode::malformed, "appears twice"));

  Result<std::uint32_t> type = read<std::uint32_t>("value type");
  if (!type) return here(std::move(type).error());
  Result<GgufValue> value = read_value(*type);
  if (!value) return here(std::move(value).error());
  file.metadata_.emplace(std::string(key), *std::move(value));
  return {};
}

Status GgufParser::read_tensor_info(GgufFile& file) {
  const std::size_t at = reader_.position();
  RUNNEL_TRY(const std::string_view name, read_text("tensor name", gguf::kMaxNameBytes));
  if (name.empty()) return fail(ErrorCode::malformed, "tensor name at byte ", at, " is empty");
  const auto here = [&](Error error) {
    return with_context(std::move(error), "tensor " + in_quotes(name) + ": ");
  };
  if (!file.tensor_index_.emplace(name, file.tensors_.size()).second) {
    return here(fail(ErrorCode::malformed, "appears twice"));
  }

  GgufTensor tensor{.name = std::string(name), .type = {}, .shape = {}, .data = {}};
  Result<std::uint32_t> dimensions = read<std::uint32_t>("number of dimensions");
  if (!dimensions) return here(std::move(dimensions).error());
  if (*dimensions < 1 || *dimensions > gguf::kMaxDimensions) {
    return here(fail(ErrorCode::malformed, "has ", *dimensions, " dimensions, expected 1 to ",
                     gguf::kMaxDimensions));
  }
  tensor.shape.resize(*dimensions);
  for (std::uint32_t i = 0; i < *dimensions; ++i) {
    Result<std::uint64_t> size = read<std::uint64_t>("dimension");
    if (!size) return here(std::move(size).error());
    if (*size < 1 || *size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return here(
          fail(ErrorCode::malformed, "dimension ", i, " is ", *size, ", expected 1 to 2^63 - 1"));
    }
    // the file has the fastest first
    tensor.shape[*dimensions - 1 - i] = static_cast<std::int64_t>(*size);
  }
  Result<std::uint32_t> type = read<std::uint32_t>("tensor type");
  if (!type) return here(std::move(type).error());
  Result<std::uint64_t> bytes = gguf::tensor_bytes(*type, tensor.shape);
  if (!bytes) return here(std::move(bytes).error());
  tensor.type = static_cast<quant::BlockType>(*type);

  Result<std::uint64_t> offset = read<std::uint64_t>("tensor offset");
  if (!offset) return here(std::move(offset).error());
  if (*offset % alignment_ != 0) {
    return here(
        fail(ErrorCode::malformed, "offset is ", *offset, ", expected a multiple of ", alignment_));
  }
  std::uint64_t end = 0;
  if (__builtin_add_overflow(*offset, *bytes, &end)) {
    return here(fail(ErrorCode::malformed, "offset is ", *offset, " with ", *bytes,
                     " bytes, which is past 2^64"));
  }
  extents_.push_back({.begin = *offset, .end = end, .tensor = file.tensors_.size()});
  file.tensors_.push_back(std::move(tensor));
  return {};
}

Status GgufParser::read_alignment(const GgufFile& file) {
  const GgufValue* value = file.find(gguf::kAlignmentKey);
  if (value == nullptr) return {};
  const auto* alignment = std::get_if<std::uint32_t>(value);
  if (alignment == nullptr) {
    return fail(ErrorCode::malformed, gguf::kAlignmentKey, " is of type ", gguf_type_name(*value),
                ", expected u32");
  }
  RUNNEL_CHECK_OK(gguf::check_alignment(*alignment));
  alignment_ = *alignment;
  return {};
}

Status GgufParser::place_tensors(GgufFile& file) {
  if (extents_.empty()) return {};
  const std::uint64_t file_size = bytes_.size();
  const std::uint64_t start = round_up(reader_.position(), alignment_);
  const std::uint64_t available = start < file_size ? file_size - start : 0;
  for (const Extent& extent : extents_) {
    GgufTensor& tensor = file.tensors_[extent.tensor];
    if (extent.end > available) {
      return fail(ErrorCode::malformed, "tensor ", in_quotes(tensor.name), ": its bytes ",
                  extent.begin, " to ", extent.end,
                  " of the data section lie outside the file, which has ", available, " there");
    }
    tensor.data = bytes_.subspan(static_cast<std::size_t>(start + extent.begin),
                                 static_cast<std::size_t>(extent.end - extent.begin));
  }
  std::sort(extents_.begin(), extents_.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < extents_.size(); ++i) {
    if (extents_[i].begin < extents_[i - 1].end) {
      return fail(ErrorCode::malformed, "tensors ",
                  in_quotes(file.tensors_[extents_[i - 1].tensor].name), " and ",
                  in_quotes(file.tensors_[extents_[i].tensor].name), " overlap at byte ",
                  extents_[i].begin, " of the data section");
    }
  }
  return {};
}

Status GgufParser::parse_into(GgufFile& file) {
  RUNNEL_TRY(const Counts counts, read_header());
  for (std::uint64_t i = 0; i < counts.pairs; ++i) RUNNEL_CHECK_OK(read_pair(file));
  RUNNEL_CHECK_OK(read_alignment(file));
  for (std::uint64_t i = 0; i < counts.tensors; ++i) RUNNEL_CHECK_OK(read_tensor_info(file));
  return place_tensors(file);
}

Result<std::shared_ptr<GgufFile>> GgufFile::read(std::span<const std::byte> bytes) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % gguf::kLeastAlignment != 0) {
    return fail(ErrorCode::invalid_argument, "GGUF bytes in memory must start at a multiple of ",
                gguf::kLeastAlignment);
  }
  try {
    std::shared_ptr<GgufFile> file(new GgufFile());
    RUNNEL_CHECK_OK(GgufParser(bytes).parse_into(*file));
    return file;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "not enough memory for the metadata of a GGUF file of ",
                bytes.size(), " bytes");
  }
}

Result<std::shared_ptr<const GgufFile>> GgufFile::parse(std::span<const std::byte> bytes) {
  RUNNEL_TRY(std::shared_ptr<GgufFile> file, read(bytes));
  return std::shared_ptr<const GgufFile>(std::move(file));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Error GgufFile::wrong_type(std::string_view key, const GgufValue& value,
                           std::string_view expected) {
  return fail(ErrorCode::malformed, "key ", in_quotes(key), " is of type ", gguf_type_name(value),
              ", expected ", expected);
}

namespace {

Error missing_key(std::string_view key) {
  return fail(ErrorCode::not_found, "key ", in_quotes(key), " is missing");
}

}  // namespace

Result<std::int64_t> GgufFile::integer_of(std::string_view key, const GgufValue& value) {
  return std::visit(
      [&]<class T>(const T& number) -> Result<std::int64_t> {
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          if (std::in_range<std::int64_t>(number)) return static_cast<std::int64_t>(number);
          return fail(ErrorCode::malformed, "key ", in_quotes(key), " is ", number,
                      ", expected less than 2^63");
        } else {
          return wrong_type(key, value, "an integer");
        }
      },
      value);
}

Result<double> GgufFile::float_of(std::string_view key, const GgufValue& value) {
  if (const auto* single = std::get_if<float>(&value)) return static_cast<double>(*single);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return wrong_type(key, value, "f32 or f64");
}

Result<bool> GgufFile::bool_of(std::string_view key, const GgufValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  return wrong_type(key, value, "bool");
}

Result<std::string> GgufFile::string_of(std::string_view key, const GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return wrong_type(key, value, "string");
}

Result<std::int64_t> GgufFile::get_int(std::string_view key,
                                       std::optional<std::int64_t> fallback) const {
  const GgufValue* value = find(key);
  if (value != nullptr) return integer_of(key, *value);
  return fallback ? Result<std::int64_t>(*fallback) : missing_key(key);
}

Result<double> GgufFile::get_float(std::string_view key, std::optional<double> fallback) const {
  const GgufValue* value = find(key);
  if (value != nullptr) return float_of(key, *value);
  return fallback ? Result<double>(*fallback) : missing_key(key);
}

Result<bool> GgufFile::get_bool(std::string_view key, std::optional<bool> fallback) const {
  const GgufValue* value = find(key);
  if (value != nullptr) return bool_of(key, *value);
  return fallback ? Result<bool>(*fallback) : missing_key(key);
}

Result<std::string> GgufFile::get_string(std::string_view key,
                                         std::optional<std::string> fallback) const {
  const GgufValue* value = find(key);
  if (value != nullptr) return string_of(key, *value);
  return fallback ? Result<std::string>(*std::move(fallback)) : missing_key(key);
}

std::string gguf_type_name(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return "array of " + gguf::type_name(gguf::element_type(array->index()));
  }
  return gguf::type_name(static_cast<std::uint32_t>(value.index()));
}

}  // namespace runnel
