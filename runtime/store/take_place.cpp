// SPDX-License-Identifier: Apache-2.0
// The old library gets its second name by links, so that it loses the first one in the same rename that gives it to the
// new one. A library of SQLite is two files, though: the log must go before that rename, since a new library must never
// find a log that is another's. Who finds `file` with a second name, that of a kept library, finds what a kill left in
// between: the log goes back to where it was.
#include "runtime/store/take_place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "runtime/base/atomic_file.h"
#include "runtime/base/system_error.h"
#include "runtime/store/store_impl.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLogs[] = {"-wal", "-shm"};
constexpr const char* kBeside[] = {"-wal", "-shm", ".reserve", ".snapshots"};

void remove_beside(const fs::path& file) {
  std::error_code ignored;
  for (const char* part : kBeside) fs::remove_all(beside(file, part), ignored);
}

bool is_there(const fs::path& file) {
  struct stat info = {};
  return ::lstat(file.c_str(), &info) == 0;
}

int open_locked(const fs::path& file, int how) {
  const int fd = ::open(directory_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int locked = 0;
  do {
    locked = ::flock(fd, how);
  } while (locked != 0 && errno == EINTR);
  if (locked == 0) return fd;
  const int error_number = errno;
  ::close(fd);
  errno = error_number;
  return -1;
}

// The name as a kept library under which `file` is there once more; empty: there is none.
fs::path second_name(const fs::path& file) {
  struct stat info = {};
  if (::lstat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink < 2) return {};
  const std::string stem = file.stem().native();
  std::error_code error;
  for (fs::directory_iterator at(directory_of(file), error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().native();
    if (!name.starts_with(stem + ".kept-") && !name.starts_with(stem + ".damaged-")) continue;
    if (at->path().extension() != file.extension()) continue;
    struct stat other = {};
    if (::lstat(at->path().c_str(), &other) == 0 && other.st_ino == info.st_ino &&
        other.st_dev == info.st_dev)
      return at->path();
  }
  return {};
}

// `file` is whole again before the other name goes, which says that it may not be.
Status take_back(const fs::path& file, const fs::path& kept, const FileSystem& system) {
  for (const char* log : kLogs) {
    if (is_there(beside(file, log)) || !is_there(beside(kept, log))) continue;
    if (system.link(beside(kept, log), beside(file, log)) != 0)
      return system_error(beside(file, log), "put back", errno);
  }
  RUNNEL_CHECK_OK(sync_directory(directory_of(file), system));
  for (const char* log : kLogs) system.unlink(beside(kept, log));
  if (system.unlink(kept) != 0) return system_error(kept, "remove", errno);
  return sync_directory(directory_of(file), system);
}

Status give_names(const fs::path& file, const fs::path& kept, const FileSystem& system) {
  if (system.link(file, kept) != 0)
    return system_error(kept, "keep the old library as this", errno);
  for (const char* log : kLogs) {
    if (is_there(beside(file, log)) && system.link(beside(file, log), beside(kept, log)) != 0)
      return system_error(beside(kept, log), "keep the old library's log as this", errno);
  }
  RUNNEL_CHECK_OK(sync_directory(directory_of(file), system));
  for (const char* log : kLogs) {
    if (system.unlink(beside(file, log)) != 0 && errno != ENOENT)
      return system_error(beside(file, log), "remove", errno);
  }
  RUNNEL_CHECK_OK(sync_directory(directory_of(file), system));
  if (system.rename(new_beside(file), file) != 0) return system_error(file, "replace", errno);
  return {};
}

}  // namespace

Result<FolderLock> FolderLock::wait(const fs::path& file) {
  const int fd = open_locked(file, LOCK_EX);
  if (fd < 0) return system_error(directory_of(file), "lock", errno);
  return FolderLock(fd);
}

std::optional<FolderLock> FolderLock::try_now(const fs::path& file) {
  const int fd = open_locked(file, LOCK_EX | LOCK_NB);
  if (fd < 0) return std::nullopt;
  return FolderLock(fd);
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

fs::path new_beside(const fs::path& file) { return beside(file, ".new"); }

fs::path kept_beside(const fs::path& file, const std::string& reason) {
  constexpr int kMost = 100;
  fs::path kept = file;
  for (int number = 1; number < kMost; ++number) {
    kept = file;
    kept.replace_extension("." + reason + (number == 1 ? "" : "-" + std::to_string(number)) +
                           file.extension().native());
    if (!is_there(kept)) break;
  }
  return kept;
}

void remove_library(const fs::path& file) {
  std::error_code ignored;
  fs::remove_all(file, ignored);
  remove_beside(file);
}

Status take_place(const FolderLock& lock, const fs::path& file, const fs::path& kept,
                  const FileSystem& system) {
  static_cast<void>(lock);
  const fs::path made = new_beside(file);
  std::error_code error;
  if (fs::file_size(beside(made, "-wal"), error) > 0 && !error) {
    return fail(ErrorCode::io, printable(made.native()),
                ": has a log, expected a library that nobody has open");
  }
  remove_beside(made);
  if (Status done = give_names(file, kept, system); !done) {
    if (!second_name(file).empty()) static_cast<void>(take_back(file, kept, system));
    return done;
  }
  // It is done, whatever the disk says of the folder: half of it would be put right by tidy_places().
  static_cast<void>(sync_directory(directory_of(file), system));
  return {};
}

Status tidy_places(const fs::path& file, const FileSystem& system) {
  if (!second_name(file).empty()) {
    RUNNEL_TRY(const FolderLock lock, FolderLock::wait(file));
    const fs::path kept = second_name(file);  // or somebody was just about it
    if (!kept.empty()) RUNNEL_CHECK_OK(take_back(file, kept, system));
  }
  if (is_there(new_beside(file))) {
    if (const auto lock = FolderLock::try_now(file)) remove_library(new_beside(file));
  }
  return {};
}

}  // namespace runnel
