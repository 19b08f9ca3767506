// SPDX-License-Identifier: Apache-2.0
// GgufFile::open: a file, or the parts of a split model joined.
#include "runtime/io/gguf_parts.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/gguf.h"
#include "runtime/io/gguf_layout.h"

namespace runnel {
namespace gguf {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::size_t kDigits = 5;

std::string ending_of(std::int64_t number, std::int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05lld-of-%05lld.gguf", static_cast<long long>(number),
                static_cast<long long>(count));
  return text;
}

/// The number that `text` is, or -1.
std::int64_t digits(std::string_view text) {
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    value = 10 * value + (c - '0');
  }
  return value;
}

}  // namespace

std::optional<PartName> part_name(const std::filesystem::path& path) {
  const std::string& name = path.native();
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kLength = 1 + kDigits + kOf.size() + kDigits + kEnding.size();
  if (name.size() <= kLength) return std::nullopt;
  const std::string_view ending = std::string_view(name).substr(name.size() - kLength);
  const std::int64_t number = digits(ending.substr(1, kDigits));
  const std::int64_t count = digits(ending.substr(1 + kDigits + kOf.size(), kDigits));
  if (number < 0 || count < 0 || ending != ending_of(number, count)) return std::nullopt;
  return PartName{name.substr(0, name.size() - kLength), number, count};
}

std::filesystem::path part_path(const std::filesystem::path& stem, std::int64_t number,
                                std::int64_t count) {
  return stem.native() + ending_of(number, count);
}

std::filesystem::path stem_of(const std::filesystem::path& path) {
  const std::string& name = path.native();
  return name.ends_with(kEnding) ? name.substr(0, name.size() - kEnding.size()) : name;
}

}  // namespace gguf

/// Opens files and joins those that are parts of one model.
class GgufParts {
 public:
  using File = std::shared_ptr<GgufFile>;

  /// What a part's keys say.
  struct Keys {
    std::int64_t number = 0;  // from 0
    std::int64_t count = 1;
    std::int64_t tensors = 0;
  };

  static Result<File> open_one(const std::filesystem::path& path) {
    RUNNEL_TRY(FileMap map, FileMap::open(path));
    Result<File> file = GgufFile::read(map.bytes());
    if (!file) return with_context(std::move(file).error(), printable(path.native()) + ": ");
    (*file)->maps_.push_back(std::move(map));
    return file;
  }

  /// A file that has no name by which other parts could be found.
  static Result<std::shared_ptr<const GgufFile>> open_whole(Result<FileMap> map,
                                                            const std::string& name) {
    if (!map) return std::move(map).error();
    RUNNEL_TRY(File file, read_whole(map->bytes(), name));
    file->maps_.push_back(*std::move(map));
    return std::shared_ptr<const GgufFile>(std::move(file));
  }

  static Result<File> read_whole(std::span<const std::byte> bytes, const std::string& name) {
    Result<File> file = GgufFile::read(bytes);
    if (!file) return with_context(std::move(file).error(), name + ": ");
    const Result<Keys> keys = keys_of(**file);
    if (!keys) return with_context(keys.error(), name + ": ");
    if (keys->count > 1) {
      return fail(ErrorCode::unsupported, name, ": is part ", keys->number + 1, " of ", keys->count,
                  " of a split model, expected a whole one: parts are found by their names");
    }
    drop_keys(**file);
    return file;
  }

  static Result<Keys> keys_of(const GgufFile& file) {
    Keys keys;
    RUNNEL_TRY(keys.count, file.get_int(gguf::kSplitCountKey, 1));
    if (keys.count <= 1) return Keys();  // programs that join parts leave a count of 0
    constexpr auto kMost = static_cast<std::int64_t>(gguf::kMostParts);
    if (keys.count > kMost) {
      return fail(ErrorCode::malformed, gguf::kSplitCountKey, " is ", keys.count,
                  ", expected at most ", kMost);
    }
    RUNNEL_TRY(keys.number, file.get_int(gguf::kSplitNumberKey));
    RUNNEL_TRY(keys.tensors, file.get_int(gguf::kSplitTensorsKey));
    if (keys.number < 0 || keys.number >= keys.count) {
      return fail(ErrorCode::malformed, gguf::kSplitNumberKey, " is ", keys.number,
                  ", expected 0 to ", keys.count - 1);
    }
    return keys;
  }

  /// The whole model of which `file` at `path` is a part.
  static Result<File> join(const std::filesystem::path& path, File file, const Keys& keys) {
    RUNNEL_TRY(const gguf::PartName name, check_name(path, keys));
    File whole;
    for (std::int64_t i = 0; i < keys.count; ++i) {
      const std::filesystem::path part_path = gguf::part_path(name.stem, i + 1, keys.count);
      File part = file;
      if (i != keys.number) {
        Result<File> opened = open_one(part_path);
        if (!opened) {
          return with_context(std::move(opened).error(), "part " + std::to_string(i + 1) + " of " +
                                                             std::to_string(keys.count) + ": ");
        }
        part = *std::move(opened);
      }
      Status fits = check_part(*part, keys, i);
      if (fits && whole != nullptr) fits = add(*part, *whole);
      if (!fits) return with_context(fits.error(), printable(part_path.native()) + ": ");
      if (whole == nullptr) whole = std::move(part);
    }
    if (std::cmp_not_equal(whole->tensors_.size(), keys.tensors)) {
      return fail(ErrorCode::malformed, printable(path.native()), ": the parts have ",
                  whole->tensors_.size(), " tensors, but ", gguf::kSplitTensorsKey, " is ",
                  keys.tensors);
    }
    return whole;
  }

  static void drop_keys(GgufFile& file) {
    std::erase_if(file.metadata_,
                  [](const auto& entry) { return entry.first.starts_with(gguf::kSplitPrefix); });
  }

 private:
  static Result<gguf::PartName> check_name(const std::filesystem::path& path, const Keys& keys) {
    const std::optional<gguf::PartName> name = gguf::part_name(path);
    if (name && name->number == keys.number + 1 && name->count == keys.count) return *name;
    return fail(ErrorCode::malformed, printable(path.native()), ": is part ", keys.number + 1,
                " of ", keys.count, " by its keys, expected a name that ends in ",
                gguf::part_path("", keys.number + 1, keys.count).native(),
                ", by which the other parts are found");
  }

  /// Whether `part` is number `number` (from 0) of the model that `wanted` is from.
  static Status check_part(const GgufFile& part, const Keys& wanted, std::int64_t number) {
    RUNNEL_TRY(const Keys keys, keys_of(part));
    const auto differ = [](const char* key, std::int64_t is, std::int64_t expected) {
      return fail(ErrorCode::malformed, "is a part of another model: ", key, " is ", is,
                  ", expected ", expected);
    };
    if (keys.count != wanted.count) return differ(gguf::kSplitCountKey, keys.count, wanted.count);
    if (keys.number != number) return differ(gguf::kSplitNumberKey, keys.number, number);
    if (keys.tensors != wanted.tensors) {
      return differ(gguf::kSplitTensorsKey, keys.tensors, wanted.tensors);
    }
    if (number == 0) return {};
    for (const auto& entry : part.metadata_) {
      const std::string& key = entry.first;
      if (key.starts_with(gguf::kSplitPrefix) || key == gguf::kAlignmentKey) continue;
      return fail(ErrorCode::malformed, "key ", in_quotes(key), " is in part ", number + 1,
                  ", expected in the first part only");
    }
    return {};
  }

  /// Moves the tensors of `part` to the end of those of `whole`.
  static Status add(GgufFile& part, GgufFile& whole) {
    // The index knows names by their bytes in the files.
    for (const auto& [name, index] : part.tensor_index_) {
      if (!whole.tensor_index_.emplace(name, whole.tensors_.size() + index).second) {
        return fail(ErrorCode::malformed, "tensor ", in_quotes(name),
                    " is in an earlier part, too");
      }
    }
    std::ranges::move(part.tensors_, std::back_inserter(whole.tensors_));
    std::ranges::move(part.maps_, std::back_inserter(whole.maps_));
    return {};
  }
};

Result<std::shared_ptr<const GgufFile>> GgufFile::open(int descriptor, std::uint64_t offset,
                                                       std::uint64_t length) try {
  return GgufParts::open_whole(FileMap::open(descriptor, offset, length),
                               "descriptor " + std::to_string(descriptor));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "not enough memory for the tables of a model file");
}

Result<std::shared_ptr<const GgufFile>> GgufFile::from_bytes(std::span<const std::byte> bytes,
                                                             bool copies) try {
  const std::string name = "bytes in memory";
  if (copies || reinterpret_cast<std::uintptr_t>(bytes.data()) % gguf::kLeastAlignment != 0)
    return GgufParts::open_whole(FileMap::copy_of(bytes), name);
  RUNNEL_TRY(std::shared_ptr<GgufFile> file, GgufParts::read_whole(bytes, name));
  return std::shared_ptr<const GgufFile>(std::move(file));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "not enough memory for the tables of a model file");
}

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::filesystem::path& path) {
  try {
    RUNNEL_TRY(std::shared_ptr<GgufFile> file, GgufParts::open_one(path));
    const Result<GgufParts::Keys> keys = GgufParts::keys_of(*file);
    if (!keys) return with_context(keys.error(), printable(path.native()) + ": ");
    if (keys->count > 1) {
      RUNNEL_TRY(file, GgufParts::join(path, std::move(file), *keys));
    }
    GgufParts::drop_keys(*file);
    return std::shared_ptr<const GgufFile>(std::move(file));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "not enough memory for the tables of ",
                printable(path.native()));
  }
}

}  // namespace runnel
