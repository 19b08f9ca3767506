// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/atomic_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "runtime/base/system_error.h"

namespace runnel {
namespace {

// The name does not contain the target's: that may already be as long as names can be.
std::string temporary_name() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    random = static_cast<std::uint64_t>(::getpid());
  std::array<char, 40> name = {};
  std::snprintf(name.data(), name.size(), ".runnel-%016llx.tmp",
                static_cast<unsigned long long>(random));
  return name.data();
}

}  // namespace

std::filesystem::path directory_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

Status sync_directory(const std::filesystem::path& directory, const FileSystem& system) {
  const int fd = system.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return system_error(directory, "open", errno);
  const int error_number = system.fsync(fd) == 0 ? 0 : errno;
  system.close(fd);
  // Some file systems cannot sync directories and return EINVAL; then there is nothing to wait for.
  if (error_number != 0 && error_number != EINVAL)
    return system_error(directory, "sync", error_number);
  return {};
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& target, unsigned mode,
                                      const FileSystem& system) {
  AtomicFile file(system);
  file.target_ = target;
  if (!target.has_filename()) {
    return fail(ErrorCode::io, "'", printable(target.native()), "': names no file to write");
  }
  struct stat info = {};
  if (::stat(target.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) {
      return fail(ErrorCode::io, printable(target.native()), ": is ",
                  S_ISDIR(info.st_mode) ? "a directory" : "no regular file", ", not replaced");
    }
    std::error_code error;
    std::filesystem::path real = std::filesystem::canonical(target, error);
    if (!error) file.target_ = std::move(real);  // replace the file, keep a link that points to it
  }

  const std::filesystem::path directory = directory_of(file.target_);
  constexpr int kAttempts = 16;  // names are random: a collision is rare
  for (int attempt = 0; attempt < kAttempts && file.fd_ < 0; ++attempt) {
    std::filesystem::path temporary = directory / temporary_name();
    file.fd_ =
        system.open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, static_cast<mode_t>(mode));
    if (file.fd_ >= 0) {
      file.temporary_ = std::move(temporary);
    } else if (errno != EEXIST) {
      return system_error(directory, "create a file in it", errno);
    }
  }
  if (file.fd_ < 0) return system_error(directory, "create a file in it", EEXIST);
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : system_(other.system_),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    discard();
    system_ = other.system_;
    target_ = std::move(other.target_);
    temporary_ = std::exchange(other.temporary_, {});
    fd_ = std::exchange(other.fd_, -1);
    size_ = other.size_;
  }
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) system_->close(std::exchange(fd_, -1));
  if (!temporary_.empty()) system_->unlink(temporary_);
  temporary_.clear();
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  // write(2) takes at most 2 GiB - 4 KiB
  constexpr std::size_t kMostPerCall = std::size_t(1) << 30;
  while (!bytes.empty()) {
    const ssize_t written = system_->write(fd_, bytes.first(std::min(bytes.size(), kMostPerCall)));
    if (written < 0) {
      if (errno == EINTR) continue;
      return system_error(target_, "write", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status AtomicFile::commit() {
  if (system_->fsync(fd_) != 0) return system_error(target_, "sync", errno);
  RUNNEL_CHECK_OK(commit_unsynced());
  return sync_directory(directory_of(target_), *system_);
}

Status AtomicFile::commit_unsynced() {
  if (system_->close(std::exchange(fd_, -1)) != 0) return system_error(target_, "close", errno);
  if (system_->rename(temporary_, target_) != 0) return system_error(target_, "replace", errno);
  temporary_.clear();
  return {};
}

Status write_file_atomically(const std::filesystem::path& target, std::span<const std::byte> bytes,
                             unsigned mode, const FileSystem& system) {
  RUNNEL_TRY(AtomicFile file, AtomicFile::create(target, mode, system));
  RUNNEL_CHECK_OK(file.write(bytes));
  return file.commit();
}

}  // namespace runnel
