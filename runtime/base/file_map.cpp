// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>

#include "runtime/base/integers.h"
#include "runtime/base/system_error.h"

namespace runnel {
namespace {

constexpr std::size_t kAlignment = 8;  // of bytes()

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISDIR(mode)) return "a directory";
  return "no regular file";
}

std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

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
  const std::span all(static_cast<const std::byte*>(address), size);
  return FileMap(all, all, true);
}

Result<FileMap> FileMap::open(int descriptor, std::uint64_t offset, std::uint64_t length) {
  const std::string name = "descriptor " + std::to_string(descriptor);
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) return system_error(name, "stat", errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::io, name, ": is ", kind_of(info.st_mode), ", expected a regular file");
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (offset > size || length > size - offset) {
    return fail(ErrorCode::invalid_argument, name, ": bytes ", offset, " and ", length,
                " more lie outside the file, which has ", size);
  }
  const auto wanted = static_cast<std::size_t>(length == 0 ? size - offset : length);
  if (wanted == 0) return FileMap();
  const auto before = static_cast<std::size_t>(offset % page_size());
  void* address = ::mmap(nullptr, before + wanted, PROT_READ, MAP_PRIVATE, descriptor,
                         static_cast<off_t>(offset - before));
  if (address == MAP_FAILED) return system_error(name, "map", errno);
  const std::span mapping(static_cast<const std::byte*>(address), before + wanted);
  FileMap map(mapping, mapping.subspan(before), true);
  return before % kAlignment == 0 ? Result<FileMap>(std::move(map)) : copy_of(map.bytes());
}

Result<FileMap> FileMap::copy_of(std::span<const std::byte> bytes) {
  if (bytes.empty()) return FileMap();
  void* address =
      ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return fail(ErrorCode::out_of_memory, "not enough memory for a copy of ", bytes.size(),
                " bytes");
  }
  std::memcpy(address, bytes.data(), bytes.size());
  const std::span all(static_cast<const std::byte*>(address), bytes.size());
  return FileMap(all, all, false);
}

void FileMap::release(std::span<const std::byte> part) const {
  const std::less<const std::byte*> before;
  const std::byte* const end = part.data() + part.size();
  if (!is_file_ || part.empty() || before(part.data(), mapping_.data()) ||
      before(mapping_.data() + mapping_.size(), end)) {
    return;
  }
  const std::size_t page = page_size();
  const auto first = round_up(static_cast<std::size_t>(part.data() - mapping_.data()), page);
  const auto last = static_cast<std::size_t>(end - mapping_.data()) / page * page;
  if (first >= last) return;
  // A private mapping without writes: the pages are loaded from the file again, unchanged.
  (void)::madvise(const_cast<std::byte*>(mapping_.data()) + first, last - first, MADV_DONTNEED);
}

FileMap::~FileMap() {
  if (!mapping_.empty()) {
    ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());  // munmap takes no const
  }
}

}  // namespace runnel
