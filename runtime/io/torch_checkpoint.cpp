// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/torch_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "runtime/base/byte_reader.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/io/torch_pickle.h"
#include "runtime/io/zip.h"

namespace runnel {
namespace {

constexpr std::string_view kPickle = "/data.pkl";

/// "NAME" of the one entry NAME/data.pkl, which all entries share as a folder.
Result<std::string> find_folder(const ZipEntries& entries) {
  std::string folder;
  int found = 0;
  for (const auto& [name, bytes] : entries) {
    if (!name.ends_with(kPickle)) continue;
    folder = name.substr(0, name.size() - kPickle.size());
    ++found;
  }
  if (found != 1)
    return fail(ErrorCode::malformed, "has ", found,
                " entries NAME/data.pkl, expected one: is it of torch.save()?");
  return folder;
}

/// Copies the elements of `view`, which lie anywhere in `storage`, in row-major order.
std::vector<std::byte> gather(const TorchView& view, std::span<const std::byte> storage,
                              std::size_t element) {
  const auto count = static_cast<std::size_t>(view.elements());
  std::vector<std::byte> out(count * element);
  std::vector<std::int64_t> index(view.shape.size());
  std::int64_t at = view.offset;
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(out.data() + i * element, storage.data() + static_cast<std::size_t>(at) * element,
                element);
    for (std::size_t d = index.size(); d-- > 0;) {
      at += view.strides[d];
      if (++index[d] < view.shape[d]) break;
      at -= index[d] * view.strides[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Status TorchCheckpoint::read(std::span<const std::byte> bytes) {
  constexpr std::string_view kOldMagic =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  if (as_text(bytes).starts_with(kOldMagic))
    return fail(ErrorCode::unsupported,
                "is in the format that torch wrote before 1.6: save it again with a newer one");
  RUNNEL_TRY(const ZipEntries entries, read_zip(bytes));
  RUNNEL_TRY(const std::string folder, find_folder(entries));
  const auto order = entries.find(folder + "/byteorder");
  if (order != entries.end() && as_text(order->second) != "little")
    return fail(ErrorCode::unsupported, "entry byteorder: is ", in_quotes(as_text(order->second)),
                ", expected 'little'");
  Result<TorchDict> dict = read_torch_pickle(entries.find(folder + std::string(kPickle))->second);
  if (!dict) return with_context(std::move(dict).error(), "data.pkl: ");

  std::vector<std::span<const std::byte>> storages;
  for (const TorchStorage& storage : dict->storages) {
    const auto entry = entries.find(folder + "/data/" + storage.key);
    if (entry == entries.end())
      return fail(ErrorCode::malformed, "entry data/", printable(storage.key, 64), ": is missing");
    const std::size_t element = element_bytes(storage.type);
    if (entry->second.size() % element != 0 ||
        entry->second.size() / element != static_cast<std::uint64_t>(storage.elements))
      return fail(ErrorCode::malformed, "entry data/", printable(storage.key, 64), ": has ",
                  entry->second.size(), " bytes, expected ", storage.elements, " elements of ",
                  to_string(storage.type));
    storages.push_back(entry->second);
  }
  std::size_t copied = 0;
  for (const auto& [name, view] : dict->tensors) {
    const SafetensorsType type = dict->storages[view.storage].type;
    const std::size_t element = element_bytes(type);
    const std::size_t size = static_cast<std::size_t>(view.elements()) * element;
    SafetensorsTensor tensor{.type = type, .shape = view.shape, .bytes = {}};
    const std::span<const std::byte> storage = storages[view.storage];
    if (view.is_contiguous()) {
      tensor.bytes = storage.subspan(static_cast<std::size_t>(view.offset) * element, size);
    } else {
      // A storage that many tensors view in another order would make more of the file than it has.
      copied += size;
      if (copied > bytes.size())
        return fail(ErrorCode::unsupported,
                    "the tensors that are not row-major have more bytes than the file");
      copies_.push_back(gather(view, storage, element));
      tensor.bytes = copies_.back();
    }
    if (!tensors_.emplace(name, std::move(tensor)).second)
      return fail(ErrorCode::malformed, "tensor ", in_quotes(name), ": is there twice");
  }
  return {};
}

Result<TorchCheckpoint> TorchCheckpoint::parse(std::span<const std::byte> bytes) {
  try {
    TorchCheckpoint checkpoint;
    RUNNEL_CHECK_OK(checkpoint.read(bytes));
    return checkpoint;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "not enough memory for the tables of the checkpoint");
  }
}

Result<TorchCheckpoint> TorchCheckpoint::open(const std::filesystem::path& path) {
  RUNNEL_TRY(FileMap file, FileMap::open(path));
  Result<TorchCheckpoint> checkpoint = parse(file.bytes());
  if (!checkpoint)
    return with_context(std::move(checkpoint).error(), printable(path.native()) + ": ");
  checkpoint->file_ = std::move(file);
  return checkpoint;
}

}  // namespace runnel
