// SPDX-License-Identifier: Apache-2.0
// Snapshots as files named by the hash of their bytes: the same state is kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "runnel/result.h"
#include "runnel/snapshot.h"
#include "runtime/base/file_system.h"

namespace runnel {

/// A folder of snapshot files. The database says which of them are in use: callers change the folder only inside a
/// transaction, so that processes do not interfere with each other.
///
/// Files are not synced: each is checked whole before use, and one that a power cut damaged is rebuilt from the
/// tokens. Waiting for the disk would only make every turn slower.
class SnapshotCache {
 public:
  SnapshotCache(std::filesystem::path folder, const FileSystem* system)
      : folder_(std::move(folder)), system_(system) {}

  /// Name of these bytes: 32 hexadecimal digits.
  static std::string name_of(std::span<const std::byte> bytes);

  /// Makes the folder (0700) if there is none.
  Status prepare() const;

  /// Permissions 0600.
  /// @return io with the operating system's reason; no part of a file stays.
  Status write(const std::string& name, std::span<const std::byte> bytes) const;

  /// @return as Snapshot::load.
  Result<Snapshot> read(const std::string& name) const;

  /// One that is not there is removed already.
  Status remove(const std::string& name) const;

  /// Removes every file that is not in `keep`: what a crash left behind.
  void sweep(const std::set<std::string>& keep) const;

  /// Waits until removed files are gone from the disk, too.
  Status sync() const;

  const FileSystem& system() const { return *system_; }
  void use(const FileSystem* system) { system_ = system; }  // for tests

 private:
  std::filesystem::path folder_;
  const FileSystem* system_;
};

}  // namespace runnel
