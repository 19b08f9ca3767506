// SPDX-License-Identifier: Apache-2.0
// A file mapped into memory, read only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "runnel/result.h"

namespace runnel {

/// Owns one read-only mapping of a whole regular file. Move-only; the bytes stay where they are
/// when it moves. The file must not be truncated while it is mapped: the operating system answers a read past its new
/// end with a signal. Writers in this project replace files instead
/// of changing them (atomic_file.h), which is safe.
class FileMap {
 public:
  /// @return not_found if there is no such file; io if it is no regular file or cannot be read.
  static Result<FileMap> open(const std::filesystem::path& path);

  FileMap() = default;
  FileMap(FileMap&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  FileMap& operator=(FileMap&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~FileMap();

  /// The whole file, page-aligned; empty for an empty file.
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Releases the memory of the whole pages in `part`; the next read loads them from the file again. Bytes outside
  /// this mapping are ignored.
  void release(std::span<const std::byte> part) const;

 private:
  explicit FileMap(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace runnel
