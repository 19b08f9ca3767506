// SPDX-License-Identifier: Apache-2.0
// The system calls of an AtomicFile behind an interface, so that tests can make each of them fail and simulate a
// power cut.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <span>

namespace runnel {

/// Each call is the system call of its name: -1 and errno on failure. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const std::filesystem::path& path, int flags, mode_t mode) const;
  virtual ssize_t write(int fd, std::span<const std::byte> bytes) const;
  virtual int fsync(int fd) const;
  virtual int close(int fd) const;
  virtual int rename(const std::filesystem::path& from, const std::filesystem::path& to) const;
  virtual int link(const std::filesystem::path& from, const std::filesystem::path& to) const;
  virtual int unlink(const std::filesystem::path& path) const;

  /// The operating system's own.
  static const FileSystem& real();
};

}  // namespace runnel
