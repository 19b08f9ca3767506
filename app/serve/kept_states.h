// SPDX-License-Identifier: Apache-2.0
// The states of conversations that clients may continue: a bounded number, the least recently used
// go first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>

#include "app/serve/json_fields.h"
#include "runnel/chat.h"
#include "runnel/session.h"

namespace runnel::serve {

/// Messages as two numbers: enough to see whether a client sends a conversation again from its
/// beginning.
struct MessageTrail {
  std::uint64_t count = 0;
  std::uint64_t hash = 0;

  void add(const ChatMessage& message);
  bool operator==(const MessageTrail&) const = default;
};

/// A conversation's state and how it was left.
struct KeptState {
  std::unique_ptr<Session> session;
  MessageTrail trail;     // what it has read and said, messages in a chat
  bool closed = false;    // the last token was the answer's end-of-message
  bool awaiting = false;  // the last message has no answer yet
};

/// Thread-safe. A state is taken by one request at a time and given back after it.
class KeptStates {
 public:
  struct Settings {
    std::size_t most = 16;            // states held in memory, those taken by requests included
    std::filesystem::path directory;  // where save() writes; empty: saving is refused
  };

  KeptStates(std::shared_ptr<const Model> model, Settings settings)
      : model_(std::move(model)), settings_(std::move(settings)) {}

  struct Taken {
    std::optional<KeptState> state;  // none: the conversation begins
    bool forgotten = false;          // none, because its state had to make room
  };

  /// Takes the state of `id`, from memory or from its file. The id stays reserved until give_back()
  /// or release().
  /// @return 409 while another request has it.
  std::variant<Taken, HttpError> take(const std::string& id);

  /// @param was_kept  take() gave a state
  void give_back(const std::string& id, KeptState state, bool was_kept);
  /// Ends a reservation without a state: the conversation is as if it had not been.
  void release(const std::string& id, bool was_kept);

  std::optional<HttpError> save(const std::string& id);
  std::optional<HttpError> fork(const std::string& from, const std::string& to);
  /// From memory and disk.
  std::optional<HttpError> remove(const std::string& id);

  struct Counts {
    std::size_t idle = 0;
    std::size_t most = 0;
    std::uint64_t dropped = 0;  // to make room
  };
  Counts counts() const;

 private:
  struct Idle {
    KeptState state;
    std::list<std::string>::iterator age;  // in by_age_
  };

  void make_room();
  void put(const std::string& id, KeptState state);
  std::optional<KeptState> load(const std::string& id) const;
  std::filesystem::path file(const std::string& id, const char* extension) const;
  bool is_saved(const std::string& id) const;

  const std::shared_ptr<const Model> model_;
  const Settings settings_;
  mutable std::mutex mutex_;
  std::map<std::string, Idle> idle_;
  std::list<std::string> by_age_;   // idle ids, the least recently used first
  std::set<std::string> busy_;      // taken by a request
  std::size_t taken_ = 0;           // states among them
  std::list<std::string> dropped_;  // the last ids that made room, so that clients can be told
  std::uint64_t dropped_count_ = 0;
};

}  // namespace runnel::serve
