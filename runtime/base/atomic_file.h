// SPDX-License-Identifier: Apache-2.0
// Writing a file so that at any time either the old one or the whole new one exists.
//
//   RUNNEL_TRY(AtomicFile file, AtomicFile::create(path));
//   RUNNEL_CHECK_OK(file.write(bytes));
//   RUNNEL_CHECK_OK(file.commit());            // without it the temporary file is removed
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "runnel/result.h"
#include "runtime/base/file_system.h"

namespace runnel {

/// A temporary file beside its target, renamed onto it by commit(). Move-only; one thread at a time.
class AtomicFile {
 public:
  static constexpr unsigned kDefaultMode = 0644;
  static constexpr unsigned kPrivateMode = 0600;

  /// @param target  replaced by commit() if it is a regular file (a symbolic link is followed).
  /// @param mode    permission bits of the new file, less the process's umask.
  /// @return io or not_found naming the directory; io if `target` is there and no regular file.
  static Result<AtomicFile> create(const std::filesystem::path& target,
                                   unsigned mode = kDefaultMode,
                                   const FileSystem& system = FileSystem::real());

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  /// Appends all of `bytes`.
  Status write(std::span<const std::byte> bytes);

  /// Bytes written so far.
  std::uint64_t size() const { return size_; }

  /// Syncs the file, renames it onto the target, syncs the directory. The last call on this object.
  Status commit();

  /// Renames it onto the target without waiting for the disk, for files that can be rebuilt. After a power cut the
  /// target's contents are undefined.
  Status commit_unsynced();

 private:
  explicit AtomicFile(const FileSystem& system) : system_(&system) {}
  void discard() noexcept;

  const FileSystem* system_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty: nothing to remove
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

/// The directory that `file` is in; "." where its name has none.
std::filesystem::path directory_of(const std::filesystem::path& file);

/// Waits until files created, renamed or removed in `directory` are on the disk; returns at once on file systems that
/// cannot sync directories.
Status sync_directory(const std::filesystem::path& directory,
                      const FileSystem& system = FileSystem::real());

/// create, write, commit.
Status write_file_atomically(const std::filesystem::path& target, std::span<const std::byte> bytes,
                             unsigned mode = AtomicFile::kDefaultMode,
                             const FileSystem& system = FileSystem::real());

}  // namespace runnel
