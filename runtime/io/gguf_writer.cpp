// SPDX-License-Identifier: Apache-2.0
// The GGUF writer: header and tables from memory, tensors one by one from their producers.
#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <type_traits>
#include <utility>

#include "runtime/base/atomic_file.h"
#include "runtime/base/byte_reader.h"
#include "runtime/base/integers.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/gguf.h"
#include "runtime/io/gguf_layout.h"
#include "runtime/io/gguf_parts.h"

namespace runnel {
namespace {

// Appends little-endian values to a string of bytes.
class Bytes {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void put(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(const GgufArray& array) {
    put(gguf::element_type(array.index()));
    std::visit(
        [this]<class T>(const std::vector<T>& elements) {
          put(static_cast<std::uint64_t>(elements.size()));
          for (const auto& element : elements) put(static_cast<const T&>(element));
        },
        array);
  }
  void put(const GgufValue& value) {
    put(static_cast<std::uint32_t>(value.index()));
    std::visit([this](const auto& alternative) { put(alternative); }, value);
  }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  void pad(std::uint64_t alignment) {
    bytes_.resize(static_cast<std::size_t>(round_up(bytes_.size(), alignment)), '\0');
  }
  std::string_view view() const { return bytes_; }

 private:
  std::string bytes_;
};

Status write_padding(AtomicFile& file, std::uint64_t alignment) {
  constexpr std::array<std::byte, 4096> kZeros = {};
  for (std::uint64_t left = round_up(file.size(), alignment) - file.size(); left > 0;) {
    const std::uint64_t now = std::min<std::uint64_t>(left, kZeros.size());
    RUNNEL_CHECK_OK(file.write(std::span(kZeros).first(static_cast<std::size_t>(now))));
    left -= now;
  }
  return {};
}

Error bad_argument(Error error, const char* kind, std::string_view name) {
  error.code = ErrorCode::invalid_argument;
  return with_context(std::move(error), std::string(kind) + in_quotes(name) + ": ");
}

}  // namespace

void GgufWriter::set(std::string key, GgufValue value) {
  const auto same = [&](const auto& pair) { return pair.first == key; };
  if (const auto found = std::find_if(metadata_.begin(), metadata_.end(), same);
      found != metadata_.end()) {
    found->second = std::move(value);
  } else {
    metadata_.emplace_back(std::move(key), std::move(value));
  }
}

void GgufWriter::add_tensor(std::string name, quant::BlockType type,
                            std::vector<std::int64_t> shape, Producer producer) {
  tensors_.push_back({std::move(name), type, std::move(shape), std::move(producer)});
}

Result<GgufWriter::Layout> GgufWriter::check() const {
  Layout layout;
  for (const auto& [key, value] : metadata_) {
    if (key.empty() || key.size() > gguf::kMaxNameBytes) {
      return fail(ErrorCode::invalid_argument, "key ", in_quotes(key), " has ", key.size(),
                  " bytes, expected 1 to ", gguf::kMaxNameBytes);
    }
    if (key != gguf::kAlignmentKey) continue;
    const auto* alignment = std::get_if<std::uint32_t>(&value);
    if (alignment == nullptr) {
      return fail(ErrorCode::invalid_argument, "key ", in_quotes(key), " is of type ",
                  gguf_type_name(value), ", expected u32");
    }
    if (Status status = gguf::check_alignment(*alignment); !status) {
      return bad_argument(std::move(status).error(), "key ", key);
    }
    layout.alignment = *alignment;
  }

  std::set<std::string_view> names;
  std::uint64_t total = 0;
  for (const Entry& entry : tensors_) {
    if (entry.name.empty() || entry.name.size() > gguf::kMaxWrittenName) {
      return fail(ErrorCode::invalid_argument, "tensor ", in_quotes(entry.name), ": its name has ",
                  entry.name.size(), " bytes, expected 1 to ", gguf::kMaxWrittenName);
    }
    if (!names.insert(entry.name).second) {
      return fail(ErrorCode::invalid_argument, "tensor ", in_quotes(entry.name),
                  ": was added twice");
    }
    Result<std::uint64_t> bytes =
        gguf::tensor_bytes(static_cast<std::uint32_t>(entry.type), entry.shape);
    if (!bytes) return bad_argument(std::move(bytes).error(), "tensor ", entry.name);
    // Far below 2^63, so that neither this sum nor its padding can overflow.
    if (*bytes > (std::uint64_t(1) << 62) - total) {
      return fail(ErrorCode::invalid_argument, "tensor ", in_quotes(entry.name),
                  ": the file would be larger than 2^62 bytes");
    }
    total = round_up(total + *bytes, layout.alignment);
    layout.bytes.push_back(*bytes);
  }
  return layout;
}

std::string GgufWriter::header(const Part& part, const Layout& layout) const {
  Bytes header;
  header.raw({gguf::kMagic, sizeof gguf::kMagic});
  header.put(gguf::kVersion);
  header.put(static_cast<std::uint64_t>(part.end - part.first));
  header.put(static_cast<std::uint64_t>(part.keys.size()));
  for (const auto& [key, value] : part.keys) {
    header.put(key);
    header.put(value);
  }
  std::uint64_t offset = 0;  // in the data section
  for (std::size_t i = part.first; i < part.end; ++i) {
    const Entry& entry = tensors_[i];
    header.put(entry.name);
    header.put(static_cast<std::uint32_t>(entry.shape.size()));
    for (auto size = entry.shape.rbegin(); size != entry.shape.rend(); ++size) header.put(*size);
    header.put(static_cast<std::uint32_t>(entry.type));
    header.put(offset);
    offset = round_up(offset + layout.bytes[i], layout.alignment);
  }
  header.pad(layout.alignment);
  return std::string(header.view());
}

Result<std::vector<GgufWriter::Part>> GgufWriter::split(const Layout& layout,
                                                        std::uint64_t most_bytes) const {
  const auto add_split_keys = [this](Part& part, std::size_t number, std::size_t count) {
    part.keys.emplace_back(gguf::kSplitNumberKey, static_cast<std::uint16_t>(number));
    part.keys.emplace_back(gguf::kSplitCountKey, static_cast<std::uint16_t>(count));
    part.keys.emplace_back(gguf::kSplitTensorsKey, static_cast<std::int32_t>(tensors_.size()));
  };
  Part first, other;
  first.keys = metadata_;
  std::ranges::copy_if(metadata_, std::back_inserter(other.keys),
                       [](const Pair& pair) { return pair.first == gguf::kAlignmentKey; });
  // What the keys take, with keys of the split as large as the real ones.
  const auto key_bytes = [&](Part part) -> std::uint64_t {
    add_split_keys(part, 0, 1);
    return header(part, layout).size();
  };
  if (key_bytes(first) > most_bytes) {
    return fail(ErrorCode::invalid_argument, "the keys take ", key_bytes(first),
                " bytes, too many for a part of ", most_bytes);
  }

  std::vector<Part> parts = {first};
  std::uint64_t head = round_up(key_bytes(first), kSplitReserve);
  std::uint64_t data = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Entry& entry = tensors_[i];
    const std::uint64_t row = 8 + entry.name.size() + 4 + 8 * entry.shape.size() + 4 + 8;
    const std::uint64_t bytes = round_up(layout.bytes[i], layout.alignment);
    // One alignment for what pads the header.
    const auto fits = [&] { return head + row + layout.alignment + data + bytes <= most_bytes; };
    if (!fits() && (parts.size() == 1 || parts.back().end > parts.back().first)) {
      parts.push_back(other);
      parts.back().first = i;
      head = key_bytes(other);
      data = 0;
    }
    if (!fits()) {
      return fail(ErrorCode::invalid_argument, "tensor ", in_quotes(entry.name), " has ",
                  layout.bytes[i], " bytes, too many for a part of ", most_bytes);
    }
    head += row;
    data += bytes;
    parts.back().end = i + 1;
  }
  if (parts.size() > gguf::kMostParts) {
    return fail(ErrorCode::invalid_argument, "there would be ", parts.size(), " parts of ",
                most_bytes, " bytes, expected at most ", gguf::kMostParts);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) add_split_keys(parts[i], i, parts.size());
  return parts;
}

Status GgufWriter::write_parts(const std::vector<Part>& parts, const Layout& layout,
                               const std::function<bool(float)>& progress) const {
  double total = 0, done = 0;
  for (const std::uint64_t bytes : layout.bytes) total += static_cast<double>(bytes);
  std::vector<AtomicFile> files;
  for (const Part& part : parts) {
    RUNNEL_TRY(AtomicFile file, AtomicFile::create(part.path));
    RUNNEL_CHECK_OK(file.write(as_bytes(header(part, layout))));
    for (std::size_t i = part.first; i < part.end; ++i) {
      Result<std::vector<std::byte>> bytes = tensors_[i].producer();
      if (!bytes)
        return with_context(std::move(bytes).error(),
                            "tensor " + in_quotes(tensors_[i].name) + ": ");
      if (bytes->size() != layout.bytes[i]) {
        return fail(ErrorCode::invalid_argument, "tensor ", in_quotes(tensors_[i].name),
                    ": its producer gave ", bytes->size(), " bytes, expected ", layout.bytes[i]);
      }
      RUNNEL_CHECK_OK(file.write(*bytes));
      RUNNEL_CHECK_OK(write_padding(file, layout.alignment));
      done += static_cast<double>(bytes->size());
      const bool last = i + 1 == tensors_.size();
      if (progress && !progress(last ? 1.0F : static_cast<float>(done / total))) {
        return fail(ErrorCode::cancelled, printable(part.path.native()), ": writing was cancelled");
      }
    }
    files.push_back(std::move(file));
  }
  for (AtomicFile& file : files) RUNNEL_CHECK_OK(file.commit());
  return {};
}

Status GgufWriter::write(const std::filesystem::path& path,
                         const std::function<bool(float)>& progress) const {
  RUNNEL_TRY(const Layout layout, check());
  return write_parts({{.path = path, .keys = metadata_, .first = 0, .end = tensors_.size()}},
                     layout, progress);
}

Result<std::vector<int>> GgufWriter::write_split(const std::filesystem::path& path,
                                                 std::uint64_t most_bytes,
                                                 const std::function<bool(float)>& progress) const {
  RUNNEL_TRY(const Layout layout, check());
  for (const Pair& pair : metadata_) {
    if (pair.first.starts_with(gguf::kSplitPrefix)) {
      return fail(ErrorCode::invalid_argument, "key ", in_quotes(pair.first),
                  " is set, expected it only by splitting");
    }
  }
  RUNNEL_TRY(std::vector<Part> parts, split(layout, most_bytes));
  std::vector<int> part_of(tensors_.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].path = gguf::part_path(gguf::stem_of(path), static_cast<int>(i + 1),
                                    static_cast<int>(parts.size()));
    for (std::size_t t = parts[i].first; t < parts[i].end; ++t) {
      part_of[t] = static_cast<int>(i + 1);
    }
  }
  RUNNEL_CHECK_OK(write_parts(parts, layout, progress));
  return part_of;
}

}  // namespace runnel
