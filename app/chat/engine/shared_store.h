// SPDX-License-Identifier: Apache-2.0
// The library of conversations, opened once by whichever thread of the engine needs it first.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>

#include "runnel/store.h"

namespace runnel::chat {

class SharedStore {
 public:
  SharedStore(std::filesystem::path file, std::uint64_t budget)
      : m_file(std::move(file)), m_budget(budget) {}

  /// A handle (handles share one connection). A failure is tried again at the next call.
  Result<ConversationStore> get() {
    const std::scoped_lock lock(m_mutex);
    if (m_store) return *m_store;
    Result<ConversationStore> opened =
        ConversationStore::open({.file = m_file, .budget_bytes = m_budget});
    if (opened) m_store = *opened;
    return opened;
  }

 private:
  std::mutex m_mutex;
  const std::filesystem::path m_file;
  const std::uint64_t m_budget;
  std::optional<ConversationStore> m_store;
};

}  // namespace runnel::chat
