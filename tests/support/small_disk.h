// SPDX-License-Identifier: Apache-2.0
// A real file system of a few pages, to fill or to take the right to write away from. Needs root.
#pragma once

#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace runnel::test {

/// A tmpfs of `bytes`, mounted on a directory of its own while this lives.
class SmallDisk {
 public:
  explicit SmallDisk(std::size_t bytes) {
    const std::string size = "mode=0700,size=" + std::to_string(bytes);
    if (::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, size.c_str()) == 0) {
      mounted_ = true;
    } else {
      why_ = std::strerror(errno);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }

  bool mounted() const { return mounted_; }
  const std::string& why_not() const { return why_; }
  const std::filesystem::path& path() const { return directory_.path(); }

  std::uint64_t free_bytes() const {
    struct statvfs info = {};
    return ::statvfs(path().c_str(), &info) == 0 ? info.f_bfree * info.f_frsize : 0;
  }

  /// Another file takes all that is left but `bytes`.
  void fill_all_but(std::uint64_t bytes) const {
    std::ofstream other(path() / "other", std::ios::binary | std::ios::app);
    const std::string page(4096, 'x');
    while (free_bytes() > bytes && other.write(page.data(), 4096).flush()) {
    }
  }
  void empty() const { std::filesystem::remove(path() / "other"); }

  /// Files that are open for writing must be closed before.
  bool make_read_only(bool read_only = true) const {
    const unsigned long flags =
        MS_REMOUNT | (read_only ? static_cast<unsigned long>(MS_RDONLY) : 0UL);
    return ::mount("tmpfs", path().c_str(), "tmpfs", flags, nullptr) == 0;
  }

 private:
  TemporaryDirectory directory_;
  bool mounted_ = false;
  std::string why_;
};

}  // namespace runnel::test

/// Skips a test, aloud, where nobody may mount.
#define RUNNEL_NEEDS_DISK(disk)                                                     \
  if (!(disk).mounted())                                                            \
  GTEST_SKIP() << "SKIPPED: cannot mount a small file system: " << (disk).why_not() \
               << "; run as root, in a container with CAP_SYS_ADMIN"
