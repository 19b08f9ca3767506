// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "runtime/base/integers.h"
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

void FileMap::release(std::span<const std::byte> part) const {
  const std::less<const std::byte*> before;
  const std::byte* const end = part.data() + part.size();
  if (part.empty() || before(part.data(), bytes_.data()) ||
      before(bytes_.data() + bytes_.size(), end)) {
    return;
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto first = round_up(static_cast<std::size_t>(part.data() - bytes_.data()), page);
  const auto last = static_cast<std::size_t>(end - bytes_.data()) / page * page;
  if (first >= last) return;
  // A private mapping without writes: the pages are loaded from the file again, unchanged.
  (void)::madvise(const_cast<std::byte*>(bytes_.data()) + first, last - first, MADV_DONTNEED);
}

FileMap::~FileMap() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());  // munmap takes no const
  }
}

}  // namespace runnel
