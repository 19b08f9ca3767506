// SPDX-License-Identifier: Apache-2.0
// A new library in the place of an old one. Whenever the process is killed, the old one is where it was, with its log,
// or the new one is there whole and the old one, with its log, has another name.
//
//   RUNNEL_TRY(const FolderLock lock, FolderLock::wait(file));
//   remove_library(new_beside(file));              // what a kill left
//   ... make a library there and close it ...
//   RUNNEL_CHECK_OK(take_place(lock, file, kept));
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "runnel/result.h"
#include "runtime/base/file_system.h"

namespace runnel {

/// Held by one at a time of all processes that put libraries into one folder. Goes with the process.
class FolderLock {
 public:
  /// The folder of `file`.
  static Result<FolderLock> wait(const std::filesystem::path& file);
  /// Nothing if somebody has it.
  static std::optional<FolderLock> try_now(const std::filesystem::path& file);

  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

/// Where a library is made that is to take the place of `file`.
std::filesystem::path new_beside(const std::filesystem::path& file);

/// Where `file` is kept: "chats.db" as "chats.REASON.db", with a number if there is one already.
/// @param reason  begins with "kept-" or "damaged-"
std::filesystem::path kept_beside(const std::filesystem::path& file, const std::string& reason);

/// Removes a library with everything that lies beside it.
void remove_library(const std::filesystem::path& file);

/// new_beside(file), which nobody has open, becomes `file`, and what was `file` becomes `kept`, which must not exist.
/// @return io if the folder cannot be changed, also where it cannot give a file two names; all is as before then.
Status take_place(const FolderLock& lock, const std::filesystem::path& file,
                  const std::filesystem::path& kept, const FileSystem& system = FileSystem::real());

/// Makes good what a kill left of all this. Cheap where there is nothing.
Status tidy_places(const std::filesystem::path& file,
                   const FileSystem& system = FileSystem::real());

}  // namespace runnel
