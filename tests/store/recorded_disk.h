// SPDX-License-Identifier: Apache-2.0
// What programs do to files, remembered, so that a power cut after any of it can be played.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file_system.h"
#include "tests/support/random.h"

struct sqlite3_vfs;

namespace runnel::test {

struct DiskOperation {
  enum class Kind { create, write, truncate, sync, sync_directory, rename, remove, mark } kind;
  std::string name;          // of the file, below the folder; of a rename: before
  std::string to;            // of a rename
  std::uint64_t offset = 0;  // of a write; the size of a truncation; the number of a mark
  std::string bytes;         // of a write
};

/// Everything that SQLite (while this object lives: it becomes the default way to files) and users
/// of it as a FileSystem do below one folder. Once frozen nothing is recorded, nor synced: what a
/// test looks at afterwards need not wait for a disk.
class RecordedDisk final : public FileSystem {
 public:
  explicit RecordedDisk(std::filesystem::path folder);
  ~RecordedDisk() override;
  RecordedDisk(const RecordedDisk&) = delete;
  RecordedDisk& operator=(const RecordedDisk&) = delete;

  int open(const std::filesystem::path& path, int flags, mode_t mode) const override;
  ssize_t write(int fd, std::span<const std::byte> bytes) const override;
  int fsync(int fd) const override;
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) const override;
  int unlink(const std::filesystem::path& path) const override;

  /// Remembers that a moment came, to be found between the operations.
  void mark(std::uint64_t number) const;
  void freeze() { frozen_ = true; }

  const std::vector<DiskOperation>& log() const { return log_; }

  // For the functions that SQLite calls.
  bool frozen() const { return frozen_; }
  sqlite3_vfs* real() const { return real_; }
  std::string name_of(const std::filesystem::path& path) const;
  void record(DiskOperation operation) const {
    if (!frozen_) log_.push_back(std::move(operation));
  }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  sqlite3_vfs* real_ = nullptr;
  bool frozen_ = false;
  mutable std::map<int, std::pair<std::string, std::uint64_t>> opened_;  // name, bytes written
  mutable std::vector<DiskOperation> log_;
};

/// A disk on which nothing is certain that was not synced.
class UnsyncedDisk {
 public:
  void apply(const DiskOperation& operation);

  /// Files after a power cut now. Without `dice` all that was not synced is gone; with them each
  /// write, truncation and change of a name that was not synced may have reached the disk.
  std::map<std::string, std::string> after_power_cut(Random* dice = nullptr) const;

 private:
  struct File {
    std::string synced;
    std::vector<DiskOperation> pending;  // writes and truncations since
    bool made = false;                   // and its name not synced yet
  };
  void sync_names(const std::filesystem::path& directory);
  File& file_named(const std::string& name);
  static void change(std::string& contents, const DiskOperation& operation);

  std::vector<File> files_;
  std::map<std::string, std::size_t> names_;    // as programs see them
  std::map<std::string, std::size_t> durable_;  // as they are on the disk
};

}  // namespace runnel::test
