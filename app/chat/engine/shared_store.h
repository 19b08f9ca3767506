// SPDX-License-Identifier: Apache-2.0
// The library of conversations, opened once by whichever thread of the engine needs it first.
#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "runnel/store.h"

namespace runnel::chat {

class SharedStore {
 public:
  SharedStore(std::filesystem::path file, std::uint64_t budget)
      : m_file(std::move(file)), m_budget(budget) {}

  /// A handle (handles share one connection). A failure is tried again at the next call.
  Result<ConversationStore> get() {
    const std::scoped_lock lock(m_mutex);
    return open();
  }

  std::filesystem::path file() const {
    const std::scoped_lock lock(m_mutex);
    return m_file;
  }

  /// Grows when another library takes the file's place: handles from before are of the old one.
  int generation() const { return m_generation; }

  /// Moves the file aside and begins a new one in its place, or, where neither can be, a new one at the first of
  /// `elsewhere` that can be made.
  /// @return where the old one is.
  Result<std::filesystem::path> begin_anew(const std::string& suffix,
                                           const std::vector<std::filesystem::path>& elsewhere);
  /// Leaves the file where it is and goes on with a new one at the first of `places` that can be made.
  /// @return where the old one is.
  Result<std::filesystem::path> move_to(const std::vector<std::filesystem::path>& places);

 private:
  Result<ConversationStore> open() {
    if (m_store) return *m_store;
    Result<ConversationStore> opened =
        ConversationStore::open({.file = m_file, .budget_bytes = m_budget});
    if (opened) m_store = *opened;
    return opened;
  }

  Result<std::filesystem::path> first_of(const std::vector<std::filesystem::path>& places);

  mutable std::mutex m_mutex;
  std::filesystem::path m_file;
  const std::uint64_t m_budget;
  std::atomic<int> m_generation = 0;
  std::optional<ConversationStore> m_store;
};

// With the lock held.
inline Result<std::filesystem::path> SharedStore::first_of(
    const std::vector<std::filesystem::path>& places) {
  const std::filesystem::path old = m_file;
  Error last{ErrorCode::io, old.string() + ": there is no place for another library"};
  for (const std::filesystem::path& place : places) {
    m_file = place;
    m_store.reset();
    const Result<ConversationStore> made = open();
    if (made) return old;
    last = made.error();
  }
  m_file = old;
  return last;
}

inline Result<std::filesystem::path> SharedStore::move_to(
    const std::vector<std::filesystem::path>& places) {
  const std::scoped_lock lock(m_mutex);
  ++m_generation;
  return first_of(places);
}

inline Result<std::filesystem::path> SharedStore::begin_anew(
    const std::string& suffix, const std::vector<std::filesystem::path>& elsewhere) {
  const std::scoped_lock lock(m_mutex);
  m_store.reset();
  ++m_generation;
  std::filesystem::path old = m_file;
  old.replace_extension(suffix + m_file.extension().string());
  // Its log belongs to it; its states are read again from the text.
  for (const char* part : {"", "-wal", "-shm"}) {
    std::filesystem::path from = m_file, to = old;
    from += part;
    to += part;
    std::error_code error;
    std::filesystem::rename(from, to, error);
    if (error && *part == 0) return first_of(elsewhere);
  }
  Result<ConversationStore> made = open();
  if (!made) return made.error();
  return old;
}

}  // namespace runnel::chat
