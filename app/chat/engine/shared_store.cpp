// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/shared_store.h"

#include <sys/stat.h>

#include "runtime/base/try.h"
#include "runtime/store/take_place.h"

namespace runnel::chat {

Result<ConversationStore> SharedStore::get() {
  const std::scoped_lock lock(m_mutex);
  const Identity there = identityOf(m_file);
  if (m_identity.number != 0 && there.number != 0 && there != m_identity) {
    m_store.reset();
    ++m_generation;
  }
  return open();
}

std::filesystem::path SharedStore::file() const {
  const std::scoped_lock lock(m_mutex);
  return m_file;
}

SharedStore::Identity SharedStore::identityOf(const std::filesystem::path& file) {
  struct stat info = {};
  if (::stat(file.c_str(), &info) != 0) return {};
  return {.device = info.st_dev, .number = info.st_ino};
}

// This and what follows with the lock held.
Result<ConversationStore> SharedStore::open() {
  if (m_store) return *m_store;
  const Identity before = identityOf(m_file);
  Result<ConversationStore> opened =
      ConversationStore::open({.file = m_file, .budget_bytes = m_budget});
  // Replaced while it was opened, it is seen as another at the next call.
  m_identity = before.number != 0 ? before : identityOf(m_file);
  if (opened) m_store = *opened;
  return opened;
}

Result<std::filesystem::path> SharedStore::firstOf(const std::vector<std::filesystem::path>& places,
                                                   const Fill& fill) {
  const std::filesystem::path old = m_file;
  Error last{ErrorCode::io, old.string() + ": there is no place for another library"};
  for (const std::filesystem::path& place : places) {
    m_file = place;
    m_store.reset();
    Result<ConversationStore> made = open();
    if (made) {
      const Status filled = fill(*made, old);
      if (filled) return old;
      last = filled.error();
      made = last;
      m_store.reset();
      remove_library(place);
    } else {
      last = made.error();
    }
    if (last.code == ErrorCode::malformed) break;  // the old one, wherever it is put
  }
  m_file = old;
  m_store.reset();
  m_identity = {};
  return last;
}

Result<std::filesystem::path> SharedStore::replaceInPlace(const std::string& reason,
                                                          const Fill& fill) {
  RUNNEL_TRY(const FolderLock lock, FolderLock::wait(m_file));
  const std::filesystem::path made = new_beside(m_file);
  remove_library(made);  // of one that was killed
  const auto make = [&]() -> Result<std::filesystem::path> {
    {
      RUNNEL_TRY(ConversationStore store,
                 ConversationStore::open({.file = made, .budget_bytes = m_budget}));
      RUNNEL_CHECK_OK(fill(store, m_file));
    }
    const std::filesystem::path kept = kept_beside(m_file, reason);
    RUNNEL_CHECK_OK(take_place(lock, m_file, kept));
    return kept;
  };
  Result<std::filesystem::path> kept = make();
  if (!kept) remove_library(made);
  return kept;
}

Result<std::filesystem::path> SharedStore::move_to(const std::vector<std::filesystem::path>& places,
                                                   const Fill& fill) {
  const std::scoped_lock lock(m_mutex);
  ++m_generation;
  return firstOf(places, fill);
}

Result<std::filesystem::path> SharedStore::begin_anew(
    const std::string& reason, const std::vector<std::filesystem::path>& elsewhere,
    const Fill& fill) {
  const std::scoped_lock lock(m_mutex);
  m_store.reset();
  m_identity = {};  // what comes is no stranger's
  ++m_generation;
  Result<std::filesystem::path> kept = replaceInPlace(reason, fill);
  if (!kept && kept.error().code != ErrorCode::malformed) return firstOf(elsewhere, fill);
  return kept;
}

}  // namespace runnel::chat
