// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace runnel {

int FileSystem::open(const std::filesystem::path& path, int flags, mode_t mode) const {
  return ::open(path.c_str(), flags, mode);
}

ssize_t FileSystem::write(int fd, std::span<const std::byte> bytes) const {
  return ::write(fd, bytes.data(), bytes.size());
}

int FileSystem::fsync(int fd) const { return ::fsync(fd); }

int FileSystem::close(int fd) const { return ::close(fd); }

int FileSystem::rename(const std::filesystem::path& from, const std::filesystem::path& to) const {
  return ::rename(from.c_str(), to.c_str());
}

int FileSystem::link(const std::filesystem::path& from, const std::filesystem::path& to) const {
  return ::link(from.c_str(), to.c_str());
}

int FileSystem::unlink(const std::filesystem::path& path) const { return ::unlink(path.c_str()); }

const FileSystem& FileSystem::real() {
  static const FileSystem system;
  return system;
}

}  // namespace runnel
