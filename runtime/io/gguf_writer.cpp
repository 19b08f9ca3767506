// SPDX-License-Identifier: Apache-2.0
// The GGUF writer: header and tables from memory, tensors one by one from their producers.
#include <algorithm>
#include <array>
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

Result<GgufWriter::Layout> GgufWriter::lay_out() const {
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
    layout.tensors.push_back({.offset = layout.data_bytes, .bytes = *bytes});
    // Far below 2^63, so that neither this sum nor its padding can overflow.
    if (*bytes > (std::uint64_t(1) << 62) - layout.data_bytes) {
      return fail(ErrorCode::invalid_argument, "tensor ", in_quotes(entry.name),
                  ": the file would be larger than 2^62 bytes");
    }
    layout.data_bytes = round_up(layout.data_bytes + *bytes, layout.alignment);
  }
  return layout;
}

Status GgufWriter::write(const std::filesystem::path& path,
                         const std::function<bool(float)>& progress) const {
  RUNNEL_TRY(const Layout layout, lay_out());

  Bytes header;
  header.raw({gguf::kMagic, sizeof gguf::kMagic});
  header.put(gguf::kVersion);
  header.put(static_cast<std::uint64_t>(tensors_.size()));
  header.put(static_cast<std::uint64_t>(metadata_.size()));
  for (const auto& [key, value] : metadata_) {
    header.put(key);
    header.put(value);
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Entry& entry = tensors_[i];
    header.put(entry.name);
    header.put(static_cast<std::uint32_t>(entry.shape.size()));
    for (auto size = entry.shape.rbegin(); size != entry.shape.rend(); ++size) header.put(*size);
    header.put(static_cast<std::uint32_t>(entry.type));
    header.put(layout.tensors[i].offset);
  }
  header.pad(layout.alignment);

  RUNNEL_TRY(AtomicFile file, AtomicFile::create(path));
  RUNNEL_CHECK_OK(file.write(as_bytes(header.view())));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Result<std::vector<std::byte>> bytes = tensors_[i].producer();
    if (!bytes)
      return with_context(std::move(bytes).error(), "tensor " + in_quotes(tensors_[i].name) + ": ");
    if (bytes->size() != layout.tensors[i].bytes) {
      return fail(ErrorCode::invalid_argument, "tensor ", in_quotes(tensors_[i].name),
                  ": its producer gave ", bytes->size(), " bytes, expected ",
                  layout.tensors[i].bytes);
    }
    RUNNEL_CHECK_OK(file.write(*bytes));
    RUNNEL_CHECK_OK(write_padding(file, layout.alignment));
    const double done = static_cast<double>(layout.tensors[i].offset + bytes->size());
    if (progress &&
        !progress(i + 1 == tensors_.size()
                      ? 1.0F
                      : static_cast<float>(done / static_cast<double>(layout.data_bytes)))) {
      return fail(ErrorCode::cancelled, printable(path.native()), ": writing was cancelled");
    }
  }
  return file.commit();
}

}  // namespace runnel
