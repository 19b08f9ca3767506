// SPDX-License-Identifier: Apache-2.0
// The library of conversations, opened once by whichever thread of the engine needs it first.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runnel/store.h"

namespace runnel::chat {

class SharedStore {
 public:
  /// Fills a new library from the old one's file.
  using Fill = std::function<Status(ConversationStore& made, const std::filesystem::path& old)>;

  SharedStore(std::filesystem::path file, std::uint64_t budget)
      : m_file(std::move(file)), m_budget(budget) {}

  /// A handle (handles share one connection). A failure is tried again at the next call, and the file is opened again
  /// where another program put another one in its place.
  Result<ConversationStore> get();

  std::filesystem::path file() const;

  /// Grows when another library takes the file's place: handles from before are of the old one.
  int generation() const { return m_generation; }

  /// Puts a new library in the file's place once it is filled, so that a kill leaves the one or the other, or, where
  /// that cannot be, goes on with a new one at the first of `elsewhere` that can be made and filled. If nothing can, or
  /// nothing of the old one can be read, all is as before.
  /// @param reason  is in the old one's new name, see kept_beside()
  /// @return where the old one is.
  Result<std::filesystem::path> begin_anew(const std::string& reason,
                                           const std::vector<std::filesystem::path>& elsewhere,
                                           const Fill& fill);
  /// Leaves the file where it is and goes on with a new one at the first of `places` that can be made and filled.
  /// @return where the old one is.
  Result<std::filesystem::path> move_to(const std::vector<std::filesystem::path>& places,
                                        const Fill& fill);

 private:
  /// Which file lies under a name.
  struct Identity {
    std::uint64_t device = 0, number = 0;  // 0: none
    bool operator==(const Identity&) const = default;
  };
  static Identity identityOf(const std::filesystem::path& file);
  Result<ConversationStore> open();
  Result<std::filesystem::path> replaceInPlace(const std::string& reason, const Fill& fill);
  Result<std::filesystem::path> firstOf(const std::vector<std::filesystem::path>& places,
                                        const Fill& fill);

  mutable std::mutex m_mutex;
  std::filesystem::path m_file;
  const std::uint64_t m_budget;
  std::atomic<int> m_generation = 0;
  Identity m_identity;  // of the file that was opened last
  std::optional<ConversationStore> m_store;
};

}  // namespace runnel::chat
