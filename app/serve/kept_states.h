// SPDX-License-Identifier: Apache-2.0
// The states of conversations that clients may continue. A bounded number lies
// in memory, the least recently used go first; with a folder they go there.
//
//   RUNNEL_TRY(auto states, KeptStates::open(model, {.most = 16, .directory =
//   "states"})); auto taken = states->take(id, {});         // the id is
//   reserved … feed and generate … auto mark = states->give_back(id,
//   std::move(state), true);
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "app/serve/json_fields.h"
#include "app/serve/state_folder.h"
#include "runnel/chat.h"
#include "runnel/session.h"
#include "runnel/snapshot.h"
#include "runtime/base/file_system.h"

namespace runnel::serve {

/// Messages as two numbers: enough to see whether a client sends a conversation
/// again from its beginning.
struct MessageTrail {
  std::uint64_t count = 0;
  std::uint64_t hash = 0;
  std::uint64_t tools = 0;  // hash of the tools that it has read, 0: none

  void add(const ChatMessage& message);
  bool operator==(const MessageTrail&) const = default;
};

/// A conversation's state and how it was left.
struct KeptState {
  std::unique_ptr<Session> session;
  // Where it stood before its last message, an answer, for a chat template that lays this one out anew. In memory alone.
  std::optional<Snapshot> before_answer = {};
  MessageTrail trail = {};       // what it has read and said, messages in a chat
  bool closed = false;           // the last token was the answer's end-of-message
  bool awaiting = false;         // the last message has no answer yet
  std::uint64_t generation = 0;  // 0: begins
  bool saved = false;            // this generation lies in the folder
};

/// Thread-safe. A state is taken by one request at a time and given back after
/// it. Calls may wait for the disk, so none belongs on the reactor's or the
/// scheduler's thread.
class KeptStates {
 public:
  struct Settings {
    std::size_t most = 16;            // states held in memory, those taken by requests included
    std::filesystem::path directory;  // where states are written; empty: nowhere
    bool autosave = true;             // give_back() has written the state when it returns
    std::uint64_t initial_state =
        0;  // initial_state_id() of what conversations begin from, 0: the empty state
    std::function<void(const std::string&)> note = {};  // a line for the operator; any thread
    const FileSystem* system = &FileSystem::real();
  };

  /// Becomes the owner of the folder and sweeps what killed processes left in
  /// it.
  /// @return io if another process owns it or the operating system refuses.
  static Result<std::unique_ptr<KeptStates>> open(std::shared_ptr<const Model> model,
                                                  Settings settings);

  struct Taken {
    std::optional<KeptState> state;   // none: the conversation begins
    bool forgotten = false;           // none, because its state was lost
    std::optional<StateMark> exists;  // what of a lost state the folder still has
  };

  /// Takes the state of `id`, from memory or from its file. The id stays
  /// reserved until give_back() or release().
  /// @param expect  where the client takes it to stand
  /// @return 409 while another request has it, or if its file is of another model or began from another initial state:
  ///         that stays as it is; 412 if it stands elsewhere; 500 if its file cannot be read. A damaged file is put
  ///         aside, unless the folder is for reading only, and counts as not there.
  std::variant<Taken, HttpError> take(const std::string& id, const Expectation& expect);

  /// Ends a reservation. What changed gets a new generation and, with autosave,
  /// is written first.
  /// @param was_kept  take() gave a state
  /// @param changed   the state is not what it was
  /// @return where the conversation stands. If the state cannot be written,
  /// 507: it is forgotten, and the conversation stands where its file does.
  std::variant<StateMark, HttpError> give_back(const std::string& id, KeptState state,
                                               bool was_kept, bool changed);
  /// Ends a reservation without a state.
  /// @param lost  the generation of the state that was taken, 0: none was
  void release(const std::string& id, std::uint64_t lost);

  std::variant<StateMark, HttpError> save(const std::string& id);
  std::variant<StateMark, HttpError> fork(const std::string& from, const std::string& to);
  /// From memory and disk; nothing that was under way brings it back.
  std::optional<HttpError> remove(const std::string& id);
  /// Writes what is not written yet. @return the first that could not be.
  Status save_all();

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
  using Lock = std::unique_lock<std::mutex>;
  class Held;
  /// A file's, of this server's model and initial state.
  struct InFile {
    StateFacts facts;
    Snapshot snapshot;
  };

  KeptStates(std::shared_ptr<const Model> model, Settings settings)
      : model_(std::move(model)), settings_(std::move(settings)) {}

  bool on_disk() const { return folder_ != nullptr; }
  std::optional<StateMark> mark_in_file(const std::string& id) const;
  Result<InFile> read_file(const std::string& id) const;
  Result<KeptState> read(const std::string& id) const;
  std::variant<std::optional<KeptState>, HttpError> load(const std::string& id) const;
  Status write(const std::string& id, KeptState& state) const;

  std::optional<HttpError> settle(const std::string& id, Lock& lock);
  KeptState take_idle(std::map<std::string, Idle>::iterator found);
  void make_room(Lock& lock);
  void put(const std::string& id, KeptState state, Lock& lock);
  void remember_drop(const std::string& id, StateMark lost);
  std::uint64_t next_generation();

  const std::shared_ptr<const Model> model_;
  const Settings settings_;
  std::unique_ptr<StateFolder> folder_;  // null: states live in memory
  mutable std::mutex mutex_;
  std::condition_variable settled_;  // an id is being written no more
  std::map<std::string, Idle> idle_;
  std::list<std::string> by_age_;             // idle ids, the least recently used first
  std::set<std::string> busy_;                // taken by a request
  std::set<std::string> writing_;             // being written or removed: soon over
  std::size_t taken_ = 0;                     // states in memory that are not idle
  std::map<std::string, StateMark> dropped_;  // states that were lost, so that clients can be told
  std::list<std::string> drops_by_age_;
  std::uint64_t dropped_count_ = 0;
  std::uint64_t last_generation_ = 0;
};

}  // namespace runnel::serve
