// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace runnel {

void Reserve::keep(std::uint64_t bytes) const {
  const int fd = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  struct stat info = {};
  if (::fstat(fd, &info) == 0 && static_cast<std::uint64_t>(info.st_size) < bytes &&
      ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)) != 0) {
    // Not what was left to others; an empty one is of no use.
    if (info.st_size == 0 || ::ftruncate(fd, info.st_size) != 0) ::unlink(file_.c_str());
  }
  ::close(fd);
}

bool Reserve::release(std::uint64_t bytes) const {
  struct stat info = {};
  if (::lstat(file_.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (bytes >= size) return ::unlink(file_.c_str()) == 0 && size > 0;
  return ::truncate(file_.c_str(), static_cast<off_t>(size - bytes)) == 0;
}

}  // namespace runnel
