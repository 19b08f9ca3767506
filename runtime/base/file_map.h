// SPDX-License-Identifier: Apache-2.0
// A file, or a part of one, mapped into memory, read only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "runnel/result.h"

namespace runnel {

/// Owns one read-only mapping of a regular file. Move-only; the bytes stay where they are
/// when it moves. The file must not be truncated while it is mapped: the operating system answers a read past its new
/// end with a signal. Writers in this project replace files instead
/// of changing them (atomic_file.h), which is safe.
class FileMap {
 public:
  /// @return not_found if there is no such file; io if it is no regular file or cannot be read.
  static Result<FileMap> open(const std::filesystem::path& path);

  /// A part of a file that is open for reading: `length` bytes from `offset` on, 0: to its end. Its position stays, and
  /// it may be closed. Begins at a multiple of 8: a part that does not is copied.
  /// @return io for what is no regular file or cannot be read; invalid_argument for bytes outside of it.
  static Result<FileMap> open(int descriptor, std::uint64_t offset, std::uint64_t length);

  /// A copy of bytes in memory, page-aligned.
  /// @return out_of_memory
  static Result<FileMap> copy_of(std::span<const std::byte> bytes);

  FileMap() = default;
  FileMap(FileMap&& other) noexcept { *this = std::move(other); }
  FileMap& operator=(FileMap&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(bytes_, other.bytes_);
    std::swap(is_file_, other.is_file_);
    return *this;
  }
  ~FileMap();

  /// The file or the part of it; the whole file is page-aligned, an empty one empty.
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Releases the memory of the whole pages in `part`; the next read loads them from the file again. Bytes outside
  /// this mapping are ignored; a copy stays as it is.
  void release(std::span<const std::byte> part) const;

 private:
  FileMap(std::span<const std::byte> mapping, std::span<const std::byte> bytes, bool is_file)
      : mapping_(mapping), bytes_(bytes), is_file_(is_file) {}

  std::span<const std::byte> mapping_;  // whole pages
  std::span<const std::byte> bytes_;    // of them
  bool is_file_ = true;
};

}  // namespace runnel
