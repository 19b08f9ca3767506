// SPDX-License-Identifier: Apache-2.0
// The folder in which a server keeps its states: one owner, one file a state,
// no leftovers. What turns out damaged is put aside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "app/serve/json_fields.h"
#include "app/serve/state_file.h"
#include "runnel/result.h"
#include "runtime/base/file_system.h"

namespace runnel::serve {

/// Thread-safe for different ids.
class StateFolder {
 public:
  /// Locks the folder and sweeps what killed processes left in it. A folder for reading only
  /// may have several owners, whose writes fail.
  /// @return io if another process owns it or the operating system refuses.
  static Result<std::unique_ptr<StateFolder>> open(std::filesystem::path directory,
                                                   const FileSystem& system);
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  /// The newest generation that was there when it was opened.
  std::uint64_t newest() const { return newest_; }

  /// Where the file of `id` stands; none if there is no whole one.
  std::optional<StateMark> mark(const std::string& id) const;
  /// The facts of `id`. @return not_found, io, malformed.
  Result<StateFacts> facts(const std::string& id) const;
  Result<Snapshot> snapshot(const std::string& id) const { return read_state_snapshot(file(id)); }

  Status write(const StateFacts& facts, const Snapshot& snapshot) const;
  /// With what was put aside of it.
  /// @return whether there was a file. The disk knows of it when this returns.
  Result<bool> remove(const std::string& id) const;

  /// Renames the file of `id`, which is damaged, so that it is neither read nor written over. One file of an id is kept
  /// so, and kMostAside in all: of others those go that were put aside first. The disk knows of it when this returns.
  /// @return false if the folder is for reading only: the file stays as it is
  Result<bool> put_aside(const std::string& id) const;
  static constexpr std::size_t kMostAside = 16;
  /// The name of that file in the folder.
  static std::string name_aside(const std::string& id);

  /// Answers of `id` are from now on further than its file: notes it on the disk, so that a killed
  /// server is not taken to have been there where the file is.
  Status note_behind(const std::string& id) const;
  /// Whether that was noted and the file has not been written since.
  bool behind(const std::string& id) const;

 private:
  StateFolder(std::filesystem::path directory, const FileSystem& system)
      : directory_(std::move(directory)), system_(system) {}
  Status own();
  void bound_aside(const std::filesystem::path& newest) const;
  std::filesystem::path file(const std::string& id) const;
  std::filesystem::path note(const std::string& id) const;

  const std::filesystem::path directory_;
  const FileSystem& system_;
  int lock_ = -1;
  std::uint64_t newest_ = 0;
};

}  // namespace runnel::serve
