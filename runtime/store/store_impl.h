// SPDX-License-Identifier: Apache-2.0
// What a ConversationStore holds, for the parts of the library that work on it.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runnel/chat.h"
#include "runnel/store.h"
#include "runnel/types.h"
#include "runtime/base/access.h"
#include "runtime/store/quotations.h"
#include "runtime/store/reserve.h"
#include "runtime/store/snapshot_cache.h"
#include "runtime/store/sqlite.h"

namespace runnel {

/// A message's tokens and state for one model, to be stored with it.
struct NewBoundary {
  std::uint64_t model = 0;
  std::vector<TokenId> tokens;  // of this message alone
  std::uint64_t position = 0;
  std::uint64_t history = 0;
  std::vector<std::byte> snapshot;  // file bytes; empty: none
};

struct NewMessage {
  ConversationId conversation = 0;
  MessageId parent = 0;
  std::string role;
  std::string text;
  bool complete = true;
  CutReason cut = CutReason::none;
  std::string thought = {};
  std::int64_t thought_ms = 0;
};

/// A message and its boundary for one model, if there is one.
struct PathStep {
  MessageInfo message;
  bool has_tokens = false;
  std::vector<TokenId> tokens;
  std::uint64_t position = 0;
  std::uint64_t history = 0;
  std::string snapshot;     // name; empty: none
  bool never_read = false;  // by any model
  bool lays_anew = false;   // its tokens begin with text of earlier steps
};

/// Where a conversation begins on one model.
struct Beginning {
  std::uint64_t history = 0;  // that of its tokens begins with this
  std::string state = {};     // the hash of an initial state; empty: the empty state
};

/// Every method takes the lock itself unless it says otherwise.
struct ConversationStore::Impl {
  /// SQL: whether snapshot `s` is never dropped: of a pinned message or conversation, or where one was left.
  static constexpr const char* kPinned =
      "EXISTS(SELECT 1 FROM boundaries b JOIN messages m ON m.id = b.message "
      "JOIN conversations c ON c.id = m.conversation WHERE b.snapshot = s.hash "
      "AND (m.pinned OR (c.trash = 0 AND (c.pinned OR c.head = m.id))))";

  Impl(Database opened, StoreSettings chosen, bool only_reads);

  std::mutex mutex;  // of everything below
  Database database;
  SnapshotCache cache;
  Reserve reserve;
  StoreSettings options;
  const bool read_only;

  /// Saves a message with its boundary, makes it its conversation's head, keeps to the budget.
  /// A snapshot that cannot be written is no failure: `warning` says why it is missing.
  Result<MessageId> add_message(const NewMessage& message, const NewBoundary& boundary,
                                std::string& warning);

  /// Replaces the text of an answer that nothing follows; other models have not read it then.
  Status extend_message(const MessageInfo& message, const NewBoundary& boundary,
                        std::string& warning);

  /// Whether a message follows this one, deleted ones included.
  Result<bool> has_children(MessageId message);

  /// Adds or replaces the boundary of a message that is there.
  Status put_boundary(MessageId message, const NewBoundary& boundary, std::string& warning);

  /// Makes `message` the head.
  /// @return not_found if it is not one of the conversation's.
  Status set_head(ConversationId conversation, MessageId message);

  /// From the first message to `message`, with their boundaries for `model`.
  Result<std::vector<PathStep>> read_path(MessageId message, std::uint64_t model);

  /// A snapshot by name; nothing if it is gone, damaged or of a version this library does not read
  /// (then it is dropped from the store). Marks it as used.
  std::optional<Snapshot> read_snapshot(const std::string& name);

  /// A snapshot of `model` after the first messages of some conversation with just these tokens.
  std::optional<Snapshot> find_start(std::uint64_t model, std::uint64_t history,
                                     std::span<const TokenId> tokens);

  Result<ConversationId> new_conversation(std::string_view name);

  /// `conversation` begins from `initial` (state_alone()) on the model that it is of. On the disk when this returns.
  Status put_beginning(ConversationId conversation, const Snapshot& initial);
  Result<Beginning> beginning(ConversationId conversation, std::uint64_t model);
  /// The snapshot of a beginning that is not the empty state.
  /// @return malformed (also if its file is gone), io, unsupported or out_of_memory: without it the conversation cannot
  ///         begin.
  Result<Snapshot> read_beginning(const Beginning& beginning);

  // The following expect the lock, and those that write a transaction.

  /// Runs `change`, which deletes in a transaction of its own and returns a Result. On a full disk
  /// again with the reserve's room, and then with that of snapshots, which tokens can replace.
  template <class Change>
  std::invoke_result_t<Change&> with_room(Change change);
  /// Gives the reserve the size that a deletion may need, if there is room.
  void keep_reserve();
  /// Removes files of snapshots that may be dropped, the least recently used first, until `bytes`
  /// are free. @return their names; their rows cannot be changed now.
  std::vector<std::string> drop_files(std::uint64_t bytes);
  /// The same for their rows, in a transaction of its own.
  Status drop_rows(const std::vector<std::string>& names);
  std::uint64_t reserve_bytes();

  /// The same inside of a transaction.
  /// @return also malformed: one of its numbers is not finite
  Status write_beginning(ConversationId conversation, const Snapshot& initial);
  /// The one of `conversation`, whatever its model; nothing if it began from the empty state.
  /// @return as read_beginning(), but not_found if its file is gone
  Result<std::optional<Snapshot>> any_beginning(ConversationId conversation);
  Result<Snapshot> read_state(const std::string& hash);
  Status write_boundary(MessageId message, const NewBoundary& boundary, std::string& warning);
  /// Drops what is over budget, but nothing of `just_written`. The names of what went are added to
  /// `dropped`: their files may go once the transaction is on the disk, not before.
  Status evict(std::vector<std::string>& dropped, MessageId just_written = 0);
  /// No message has these snapshots any more.
  Status clear_rows(const std::vector<std::string>& names);
  Status drop_unreferenced_snapshots(std::vector<std::string>& dropped);

  /// After the commit, with the lock: removes files that no row names. Files that cannot be removed now are removed
  /// when the library is opened again.
  Status remove_files(const std::vector<std::string>& dropped);
  Result<ConversationInfo> info(ConversationId id);
  Result<MessageInfo> message(MessageId id);
  Status index_words(MessageId id, std::string_view text);
  /// A row of `messages` with its words, the new head. Whether its parent stands is the caller's to look at.
  Result<MessageId> insert_message(const NewMessage& message);
  /// What was thought before an answer; nothing if `thought` is empty.
  Status keep_thought(MessageId message, std::string_view thought, std::int64_t ms);
  /// What the model reads before it; nothing if there are none. `rename`: what the messages that they are of are here.
  Status keep_quotations(MessageId message, std::span<const Quotation> quotations,
                         const RenameMessage& rename = same_message);
  /// Messages that no model has read, one after the other, from the first of a conversation without any. Takes the lock.
  /// @return the last of them
  Result<MessageId> insert_messages(ConversationId conversation,
                                    std::span<const ChatMessage> messages);
  /// @return not_found if the conversation or the message this follows was deleted.
  Status check_stands(ConversationId conversation, MessageId parent);
  Result<bool> empty_log();
};

using StoreImpl = Access::Inside<ConversationStore>::Impl;

/// Copies share it.
inline StoreImpl& impl_of(const ConversationStore& store) { return Access::impl(store); }

/// Ways to room on a full disk, one after the other; tidied up behind.
class Room {
 public:
  explicit Room(StoreImpl& impl) : impl_(impl) { impl_.database.lacked_space(); }
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  /// Whether there may be more room now than when the last call failed for lack of it.
  bool find();

 private:
  StoreImpl& impl_;
  int tried_ = 0;
  std::vector<std::string> dropped_;  // snapshots whose files are gone
};

template <class Change>
std::invoke_result_t<Change&> ConversationStore::Impl::with_room(Change change) {
  Room room(*this);
  std::invoke_result_t<Change&> done = change();
  while (!done && room.find()) done = change();
  return done;
}

/// FILE with a suffix: the files that belong to a library lie beside it.
std::filesystem::path beside(std::filesystem::path file, const char* suffix);

/// Milliseconds since 1970.
std::int64_t now_ms();

/// Columns of a MessageInfo, in the order read_message() expects them.
inline constexpr std::string_view kMessageColumns =
    "m.id, m.parent, m.conversation, m.role, m.text, m.created, m.complete, m.pinned, "
    "EXISTS(SELECT 1 FROM boundaries b WHERE b.message = m.id AND b.snapshot IS NOT NULL), m.name, "
    "(SELECT h.text FROM thoughts h WHERE h.message = m.id), "
    "(SELECT h.ms FROM thoughts h WHERE h.message = m.id), "
    "(SELECT q.text FROM quotations q WHERE q.message = m.id)";
inline constexpr int kMessageColumnCount = 13;
MessageInfo read_message(const Statement& row);

/// What messages.complete holds.
std::int64_t completeness(bool complete, CutReason cut);

}  // namespace runnel
