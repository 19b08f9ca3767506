// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/system_error.h"

namespace runnel {

Result<FileMap> FileMap::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for its other end.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, "open", errno);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};

  struct stat info = {};
  if (::fstat(fd, &info) != 0) return system_error(path, "stat", errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::io, printable(path.native()), ": is ",
                S_ISDIR(info.st_mode) ? "a directory" : "no regular file", ", expected a file");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return FileMap();  // mmap refuses empty files

  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) return system_error(path, "map", errno);
  return FileMap({static_cast<const std::byte*>(address), size});
}

FileMap::~FileMap() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());  // munmap takes no const
  }
}

}  // namespace runnel
