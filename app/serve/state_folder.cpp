// SPDX-License-Identifier: Apache-2.0
#include "app/serve/state_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/base/system_error.h"
#include "runtime/base/try.h"

namespace runnel::serve {
namespace {

constexpr const char* kExtension = ".state";
constexpr const char* kNoteExtension = ".behind";
constexpr const char* kAsideExtension = ".damaged";  // after the other

bool for_reading_only(int error_number) { return error_number == EROFS || error_number == EACCES; }

}  // namespace

Result<std::unique_ptr<StateFolder>> StateFolder::open(std::filesystem::path directory,
                                                       const FileSystem& system) {
  std::unique_ptr<StateFolder> folder(new StateFolder(std::move(directory), system));
  RUNNEL_CHECK_OK(folder->own());
  return folder;
}

StateFolder::~StateFolder() {
  if (lock_ >= 0) ::close(lock_);
}

Status StateFolder::own() {
  const std::filesystem::path lock = directory_ / ".lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool read_only = lock_ < 0 && for_reading_only(errno);
  if (read_only) lock_ = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) return system_error(lock, "own the folder of states", errno);
  if (::flock(lock_, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    return fail(ErrorCode::io, directory_.string(), ": another server keeps its states there");
  }
  std::error_code error;
  std::filesystem::directory_iterator entry(directory_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".runnel-") && name.ends_with(".tmp")) {
      if (system_.unlink(entry->path()) != 0 && !read_only)
        return system_error(entry->path(), "remove what a killed server left", errno);
    } else if (entry->path().extension() == kExtension) {
      if (const auto facts = read_state_facts(entry->path()))
        newest_ = std::max(newest_, facts->generation);
    }
  }
  if (error) return system_error(directory_, "list", error.value());
  return {};
}

std::filesystem::path StateFolder::file(const std::string& id) const {
  return directory_ / (id + kExtension);
}

Result<StateFacts> StateFolder::facts(const std::string& id) const {
  RUNNEL_TRY(StateFacts facts, read_state_facts(file(id)));
  if (facts.id != id)
    return fail(ErrorCode::malformed, id, kExtension, ": is the state of another conversation");
  return facts;
}

std::optional<StateMark> StateFolder::mark(const std::string& id) const {
  const Result<StateFacts> there = facts(id);
  if (!there) return {};
  return StateMark{there->generation, there->position};
}

std::filesystem::path StateFolder::note(const std::string& id) const {
  return directory_ / (id + kNoteExtension);
}

Status StateFolder::write(const StateFacts& facts, const Snapshot& snapshot) const {
  RUNNEL_CHECK_OK(write_state(file(facts.id), facts, snapshot, system_));
  system_.unlink(note(facts.id));  // if it stays, the generation in it is no longer the file's
  return {};
}

Result<bool> StateFolder::remove(const std::string& id) const {
  const bool noted = system_.unlink(note(id)) == 0;
  const std::filesystem::path aside = directory_ / name_aside(id);
  const bool had_aside = system_.unlink(aside) == 0;
  if (!had_aside && errno != ENOENT) return system_error(aside, "remove", errno);
  const bool removed = system_.unlink(file(id)) == 0;
  if (!removed && errno != ENOENT) return system_error(file(id), "remove", errno);
  if (noted || had_aside || removed) RUNNEL_CHECK_OK(sync_directory(directory_, system_));
  return had_aside || removed;
}

std::string StateFolder::name_aside(const std::string& id) {
  return id + kExtension + kAsideExtension;
}

Result<bool> StateFolder::put_aside(const std::string& id) const {
  const std::filesystem::path aside = directory_ / name_aside(id);
  if (system_.rename(file(id), aside) != 0) {
    if (for_reading_only(errno)) return false;
    return system_error(file(id), "put aside", errno);
  }
  std::error_code ignored;  // then it counts by when it was written
  std::filesystem::last_write_time(aside, std::filesystem::file_time_type::clock::now(), ignored);
  bound_aside(aside);
  RUNNEL_CHECK_OK(sync_directory(directory_, system_));
  return true;
}

// What cannot be listed or removed now is looked at when the next one is put aside.
void StateFolder::bound_aside(const std::filesystem::path& newest) const {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> others;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory_, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (name.ends_with(name_aside("")) && entry->path() != newest)
      others.emplace_back(entry->last_write_time(unknown), entry->path());
  }
  if (others.size() < kMostAside) return;
  std::sort(others.begin(), others.end());
  others.resize(others.size() + 1 - kMostAside);
  for (const auto& [written, path] : others) system_.unlink(path);
}

Status StateFolder::note_behind(const std::string& id) const {
  const std::optional<StateMark> there = mark(id);
  const std::string generation = std::to_string(there ? there->generation : 0);
  return write_file_atomically(note(id), std::as_bytes(std::span(generation)),
                               AtomicFile::kPrivateMode, system_);
}

bool StateFolder::behind(const std::string& id) const {
  std::ifstream in(note(id));
  std::uint64_t generation = 0;
  if (!(in >> generation)) return false;
  const std::optional<StateMark> there = mark(id);
  return generation == (there ? there->generation : 0);
}

}  // namespace runnel::serve
