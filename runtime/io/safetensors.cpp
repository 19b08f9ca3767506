// SPDX-License-Identifier: Apache-2.0
// Layout of a file: u64 length of the header, the header (JSON, padded with spaces), the tensors' bytes without gaps.
#include "runtime/io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "runtime/base/byte_reader.h"
#include "runtime/base/half.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/safetensors_json.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

// Number of elements times their size, nothing if it passes 2^63.
std::optional<std::uint64_t> bytes_of(SafetensorsType type, std::span<const std::int64_t> shape) {
  auto bytes = static_cast<std::int64_t>(element_bytes(type));
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

// The format wants the data section covered exactly: every byte belongs to one tensor.
Status check_cover(const safetensors::Header& header, std::uint64_t data_bytes) {
  std::vector<const safetensors::Header::value_type*> order;
  order.reserve(header.size());
  for (const auto& item : header) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t covered = 0;
  for (const auto* item : order) {
    if (item->second.begin != covered) {
      return fail(ErrorCode::malformed, "tensor ", in_quotes(item->first),
                  ": data_offsets begin at ", item->second.begin, ", expected ", covered,
                  ", where the tensor before it ends");
    }
    covered = item->second.end;
  }
  if (covered != data_bytes) {
    return fail(ErrorCode::malformed, "data section has ", data_bytes,
                " bytes, but the tensors cover ", covered);
  }
  return {};
}

Result<std::map<std::string, SafetensorsTensor, std::less<>>> read_tensors(
    std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const std::optional<std::uint64_t> length = reader.read<std::uint64_t>();
  if (!length) {
    return fail(ErrorCode::malformed, "has ", bytes.size(),
                " bytes, expected at least the 8 of the header length");
  }
  if (*length > kMaxHeaderBytes) {
    return fail(ErrorCode::malformed, "header length is ", *length, ", expected at most ",
                kMaxHeaderBytes);
  }
  const auto text = reader.take(*length);
  if (!text) {
    return fail(ErrorCode::malformed, "header length is ", *length, ", but ", reader.remaining(),
                " bytes are left in the file");
  }
  Result<safetensors::Header> header = safetensors::parse_header(as_text(*text));
  if (!header) return with_context(std::move(header).error(), "header: ");

  const std::span<const std::byte> data = bytes.subspan(reader.position());
  std::map<std::string, SafetensorsTensor, std::less<>> tensors;
  for (const auto& [name, entry] : *header) {
    const auto here = [&name = name](Error error) {
      return with_context(std::move(error), "tensor " + in_quotes(name) + ": ");
    };
    if (entry.begin > entry.end || entry.end > data.size()) {
      return here(fail(ErrorCode::malformed, "data_offsets are ", entry.begin, " to ", entry.end,
                       ", expected a range inside the ", data.size(),
                       " bytes of the data section"));
    }
    const std::optional<std::uint64_t> expected = bytes_of(entry.type, entry.shape);
    if (!expected || *expected != entry.end - entry.begin) {
      return here(fail(ErrorCode::malformed, "data_offsets span ", entry.end - entry.begin,
                       " bytes, but shape and dtype ", to_string(entry.type), " make ",
                       expected ? std::to_string(*expected) : "more than 2^63"));
    }
  }
  RUNNEL_CHECK_OK(check_cover(*header, data.size()));

  // Moved node by node, so that names are never held twice.
  while (!header->empty()) {
    auto node = header->extract(header->begin());
    safetensors::Entry& entry = node.mapped();
    const auto view = data.subspan(static_cast<std::size_t>(entry.begin),
                                   static_cast<std::size_t>(entry.end - entry.begin));
    tensors.emplace_hint(
        tensors.end(), std::move(node.key()),
        SafetensorsTensor{.type = entry.type, .shape = std::move(entry.shape), .bytes = view});
  }
  return tensors;
}

Result<std::map<std::string, SafetensorsTensor, std::less<>>> read_file(const fs::path& path,
                                                                        FileMap& map) {
  RUNNEL_TRY(map, FileMap::open(path));
  auto tensors = read_tensors(map.bytes());
  if (!tensors) return with_context(std::move(tensors).error(), printable(path.native()) + ": ");
  return tensors;
}

template <class T>
float to_float(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<float>(value);
}

template <float (*Decode)(std::uint16_t)>
float decode(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return Decode(bits);
}

}  // namespace

std::string_view to_string(SafetensorsType type) {
  constexpr std::string_view kNames[] = {"BOOL", "U8",  "I8",  "U16", "I16", "F16", "BF16",
                                         "U32",  "I32", "F32", "U64", "I64", "F64"};
  return kNames[static_cast<std::size_t>(type)];
}

std::size_t element_bytes(SafetensorsType type) {
  constexpr std::size_t kBytes[] = {1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

std::int64_t SafetensorsTensor::elements() const {
  return static_cast<std::int64_t>(bytes.size() / element_bytes(type));
}

Result<std::vector<float>> to_f32(const SafetensorsTensor& tensor) {
  const std::size_t size = element_bytes(tensor.type);
  const std::size_t count = tensor.bytes.size() / size;
  std::vector<float> out;
  try {
    out.resize(count);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "not enough memory for ", count, " floats");
  }
  const auto convert = [&](auto element) {
    for (std::size_t i = 0; i < count; ++i) out[i] = element(tensor.bytes.data() + i * size);
  };
  switch (tensor.type) {
    case SafetensorsType::boolean:
    case SafetensorsType::u8:
      convert(to_float<std::uint8_t>);
      break;
    case SafetensorsType::i8:
      convert(to_float<std::int8_t>);
      break;
    case SafetensorsType::u16:
      convert(to_float<std::uint16_t>);
      break;
    case SafetensorsType::i16:
      convert(to_float<std::int16_t>);
      break;
    case SafetensorsType::f16:
      convert(decode<f16_to_f32>);
      break;
    case SafetensorsType::bf16:
      convert(decode<bf16_to_f32>);
      break;
    case SafetensorsType::u32:
      convert(to_float<std::uint32_t>);
      break;
    case SafetensorsType::i32:
      convert(to_float<std::int32_t>);
      break;
    case SafetensorsType::f32:
      convert(to_float<float>);
      break;
    case SafetensorsType::u64:
      convert(to_float<std::uint64_t>);
      break;
    case SafetensorsType::i64:
      convert(to_float<std::int64_t>);
      break;
    case SafetensorsType::f64:
      convert(to_float<double>);
      break;
  }
  return out;
}

Result<SafetensorsCheckpoint> SafetensorsCheckpoint::parse(std::span<const std::byte> bytes) {
  try {
    SafetensorsCheckpoint checkpoint;
    RUNNEL_TRY(checkpoint.tensors_, read_tensors(bytes));
    return checkpoint;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "not enough memory for a safetensors header");
  }
}

Result<SafetensorsCheckpoint> SafetensorsCheckpoint::open(const fs::path& path) {
  try {
    SafetensorsCheckpoint checkpoint;
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      RUNNEL_TRY(checkpoint.tensors_, read_file(path, checkpoint.files_.emplace_back()));
      return checkpoint;
    }
    const fs::path index_path = path / kIndexName;
    if (!fs::exists(index_path, ignored)) {
      if (!fs::exists(path / kSingleName, ignored)) {
        return fail(ErrorCode::not_found, printable(path.native()), ": has neither ", kIndexName,
                    " nor ", kSingleName);
      }
      RUNNEL_TRY(checkpoint.tensors_,
                 read_file(path / kSingleName, checkpoint.files_.emplace_back()));
      return checkpoint;
    }

    RUNNEL_TRY(const FileMap index_map, FileMap::open(index_path));
    const auto in_index = [&](Error error) {
      return with_context(std::move(error), printable(index_path.native()) + ": ");
    };
    if (index_map.bytes().size() > kMaxHeaderBytes) {
      return in_index(fail(ErrorCode::malformed, "has ", index_map.bytes().size(),
                           " bytes, expected at most ", kMaxHeaderBytes));
    }
    Result<safetensors::Index> index = safetensors::parse_index(as_text(index_map.bytes()));
    if (!index) return in_index(std::move(index).error());

    std::vector<std::map<std::string, SafetensorsTensor, std::less<>>> shards;
    for (const std::string& shard : index->shards) {
      RUNNEL_TRY(auto tensors, read_file(path / shard, checkpoint.files_.emplace_back()));
      shards.push_back(std::move(tensors));
    }
    for (const auto& [name, shard] : index->shard_of) {
      auto node = shards[shard].extract(name);
      if (node.empty()) {
        return in_index(fail(ErrorCode::malformed, "tensor ", in_quotes(name), " is not in ",
                             in_quotes(index->shards[shard]), ", where weight_map says it is"));
      }
      checkpoint.tensors_.insert(checkpoint.tensors_.end(), std::move(node));
    }
    return checkpoint;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, printable(path.native()),
                ": not enough memory for the tables of the checkpoint");
  }
}

const SafetensorsTensor* SafetensorsCheckpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<std::string_view> SafetensorsCheckpoint::names() const {
  std::vector<std::string_view> out;
  out.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) out.push_back(name);
  return out;
}

}  // namespace runnel
