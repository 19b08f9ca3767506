// SPDX-License-Identifier: Apache-2.0
// A library of conversations on disk: messages as a tree, a snapshot at every message boundary, one
// SQLite file. Needs no model; conversation.h opens one of its conversations on a session.
//
// Example, in a function that returns a Result:
//   auto store = runnel::ConversationStore::open({.file = "chats.db"});
//   if (!store) return store.error();
//   auto hits = store->search("lighthouse");
//   if (!hits) return hits.error();
//   for (const runnel::SearchHit& hit : *hits) {
//     std::cout << hit.name << ": " << hit.excerpt << '\n';
//     auto gone = store->forget_conversation(hit.conversation);
//     if (!gone) return gone.error();    // else no file of the store holds its text
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/export.h"
#include "runnel/result.h"
#include "runnel/snapshot.h"

namespace runnel {

class Access;

/// Names of rows. Never used twice, 0 is none.
using ConversationId = std::int64_t;
using MessageId = std::int64_t;
using TrashId = std::int64_t;
using FolderId = std::int64_t;

/// Where the store is and how much its snapshots may take.
struct StoreSettings {
  /// The database; snapshots lie in the folder beside it that has its name and ".snapshots".
  std::filesystem::path file;
  /// When all snapshots take more, those of older boundaries are dropped, the least recently used first. A
  /// conversation whose snapshot is gone is read again from its tokens. 0: keep the pinned ones only.
  std::uint64_t budget_bytes = 1'000'000'000;
  /// f32 continues bit-identically.
  SnapshotEncoding encoding = {.state = StateEncoding::f32, .compress = true};
  /// How long to wait for another process that is writing.
  std::chrono::milliseconds busy_timeout{10'000};
};

/// "DATA/runnel/conversations.db", where DATA is `xdg_data_home` or, if that is empty or relative,
/// "HOME/.local/share". Pass the environment's XDG_DATA_HOME and HOME.
RUNNEL_API std::filesystem::path default_store_file(std::string_view xdg_data_home,
                                                    std::string_view home);

/// Times are milliseconds since 1970 (UTC).
struct ConversationInfo {
  ConversationId id = 0;
  std::string name;
  std::int64_t created = 0;
  std::int64_t updated = 0;
  std::int64_t messages = 0;  ///< on all branches
  bool pinned = false;
  MessageId head = 0;   ///< the last message of the current branch, 0 if there is none
  TrashId trash = 0;    ///< not 0: deleted, may still be undone
  FolderId folder = 0;  ///< 0: in none
};

/// A folder that conversations are put into; there are none within others.
struct FolderInfo {
  FolderId id = 0;
  std::string name;
  bool folded = false;  ///< a list shows its name alone
};

/// Why an answer is not whole.
enum class CutReason {
  none,     ///< it is whole, or its library is older than reasons are
  stopped,  ///< somebody stopped it
  length,   ///< it reached the most tokens it was allowed
};

/// A passage of an earlier message that was read again before a user's message.
struct Quotation {
  MessageId message = 0;  ///< that it is of
  std::string text;
  bool operator==(const Quotation&) const = default;
};

struct MessageInfo {
  MessageId id = 0;
  MessageId parent = 0;  ///< 0: the first of its branch
  ConversationId conversation = 0;
  std::string role;  ///< "system", "user" or "assistant"
  std::string text;
  std::int64_t created = 0;
  bool complete = true;  ///< false: an answer that was cut short
  bool pinned = false;
  bool has_snapshot = false;        ///< for some model
  std::string name;                 ///< a name that the user gave this message, usually empty
  CutReason cut = CutReason::none;  ///< if it is not complete
  std::string thought;  ///< of an answer: what the model thought before it; never read again
  std::int64_t thought_ms = 0;  ///< and for how long
  /// For a user's message: what the model reads before its text. No part of it when it is searched or shown.
  std::vector<Quotation> quotations;
};

/// A text that is stored before any model reads it.
struct NewText {
  ConversationId conversation = 0;  ///< 0: one is made
  MessageId parent = 0;             ///< 0: the first of its branch
  std::string role = "user";        ///< "user", or "assistant" for an answer that somebody wrote
  std::string text;                 ///< UTF-8
  std::string name;                 ///< of a conversation that is made
  std::string system;  ///< its system prompt, read before `text`; empty: the model's own
  /// The draft of `conversation` (0: of none yet) is sent with this and goes.
  bool from_draft = false;
};

/// Text that was typed and not sent.
struct DraftInfo {
  ConversationId conversation = 0;  ///< 0: one that is not made yet; -N: in place of message N
  std::string text;
};

/// A deletion that can be undone.
struct TrashInfo {
  TrashId id = 0;
  std::int64_t at = 0;  ///< when, ms since 1970 (UTC)
  ConversationId conversation = 0;
  bool whole = false;         ///< all of the conversation
  std::int64_t messages = 0;  ///< what went
  std::string name;           ///< the conversation's
  std::string excerpt;        ///< the beginning of the first message that went
};

/// What was read of a damaged library.
struct SalvageReport {
  std::int64_t conversations = 0;
  std::int64_t messages = 0;
  std::int64_t unreadable = 0;  ///< messages that are known to be lost
};

/// One path through the tree: from the first message to a leaf.
struct BranchInfo {
  MessageId leaf = 0;
  MessageId fork = 0;         ///< the last message shared with another branch, 0 if none
  std::int64_t messages = 0;  ///< from the first to the leaf
  std::int64_t updated = 0;
  bool current = false;
  std::string preview;  ///< the beginning of the first message after the fork
};

struct SearchHit {
  ConversationId conversation = 0;
  MessageId message = 0;
  std::string name;     ///< the conversation's
  std::string role;     ///< the message's
  std::string excerpt;  ///< around the first match, matches between « and »
};

struct ForgetReport {
  std::int64_t messages = 0;
  std::int64_t snapshots = 0;
  /// Whether the write-ahead log was emptied. False only while another process reads the database:
  /// the log then keeps the text until the next forget_… or open, by any process.
  bool log_emptied = true;
};

struct StoreUsage {
  std::uint64_t snapshots = 0;
  std::uint64_t snapshot_bytes = 0;
  std::uint64_t pinned_bytes = 0;  ///< of those, never dropped; may alone exceed the budget
  std::uint64_t budget_bytes = 0;
  std::uint64_t database_bytes = 0;
};

/// A handle to one library. Thread-safe; several processes may use one file at a time. Copies share
/// the connection. Every call may fail with io (the disk, permissions, another process that does
/// not stop writing), malformed (the file is no database or is damaged), out_of_memory; not_found
/// names an id that is not there.
class RUNNEL_API ConversationStore {
 public:
  /// Opens or makes the file (0600, its folder 0700).
  /// A file that cannot be changed, as on a disk mounted for reading only, is opened for reading:
  /// calls that write then fail with io. A full disk keeps nobody from opening, reading or deleting:
  /// for that FILE.reserve, as large as the database, lies beside it.
  /// @return unsupported if a newer version of the library made it.
  static Result<ConversationStore> open(StoreSettings options);

  /// Whether it was opened for reading only.
  bool read_only() const;

  /// Newest first.
  /// @param with_trash  also what was deleted and can be undone
  Result<std::vector<ConversationInfo>> list(bool with_trash = false) const;
  Result<ConversationInfo> info(ConversationId id) const;
  /// The most recently used conversation of that name.
  Result<std::optional<ConversationId>> find(std::string_view name) const;
  Status rename(ConversationId id, std::string_view name);

  /// Pinned: its snapshots are never dropped.
  Status pin(ConversationId id, bool pinned);
  Status pin_message(MessageId id, bool pinned);
  /// Names a message of a conversation; an empty name removes it.
  Status name_message(MessageId id, std::string_view name);
  /// Where the conversation will be opened next; 0: before the first message. Conversation::rewind
  /// does this and brings a session there.
  Status set_head(ConversationId id, MessageId message);

  /// Stores a text as a message and makes it the head. No model has read it: Conversation::open() and rewind() do, and
  /// count it as TokenCost::fed. When this returns, the text is on the disk, and the draft it came from is not.
  /// @return the message, with its conversation; not_found if that or the parent was deleted; invalid_argument for
  ///         another role.
  Result<MessageInfo> add(const NewText& text);

  /// Passages of earlier messages that a model is to read before the text of a user's message: set before any model has
  /// read it, since what was read stays as it was. They go with the message wherever it is read again, and are forgotten
  /// with it.
  /// @return false if a model has read it, and nothing was changed; not_found; invalid_argument for another's message
  Result<bool> set_quotations(MessageId id, const std::vector<Quotation>& quotations);

  /// Says the branch up to `leaf` (0: nothing) again under another system prompt (empty: the model's own): its messages
  /// are copied as a new branch from the beginning, whose end becomes the head. No model has read them, and what was
  /// there stays as it is.
  /// @return the new head; not_found if `leaf` is none of the conversation or was deleted.
  Result<MessageId> begin_again(ConversationId id, MessageId leaf, std::string_view system);

  /// Folders of conversations, by name.
  Result<std::vector<FolderInfo>> folders() const;
  Result<FolderId> add_folder(std::string_view name);
  Status rename_folder(FolderId id, std::string_view name);
  Status fold_folder(FolderId id, bool folded);
  /// Its conversations stay, in no folder.
  Status remove_folder(FolderId id);
  /// Puts a conversation into a folder; 0: into none.
  Status put_into_folder(ConversationId id, FolderId folder);

  /// Keeps what was typed for a conversation (0: for the next one that is made; -N: in place of message N, and no longer
  /// than that is kept) until it is sent; empty: forgets it.
  Status set_draft(ConversationId id, std::string_view text);
  Result<std::vector<DraftInfo>> drafts() const;

  /// What a program keeps for a conversation, in a form of its own; empty: nothing.
  Status set_settings(ConversationId id, std::string_view text);
  Result<std::string> settings(ConversationId id) const;

  /// A number that changes when another connection, of this process or another, has written to the file. Cheap.
  Result<std::int64_t> version_seen() const;

  /// All messages of a conversation, parents before children.
  Result<std::vector<MessageInfo>> tree(ConversationId id) const;
  /// From the first message of its branch to `message`.
  Result<std::vector<MessageInfo>> path(MessageId message) const;
  /// Most recently changed first.
  Result<std::vector<BranchInfo>> branches(ConversationId id) const;

  /// Messages with all words of `query` (the last may be unfinished; case and accents do not
  /// matter), or, where no word matches, with `query` somewhere inside.
  Result<std::vector<SearchHit>> search(std::string_view query, int limit = 50) const;

  /// Deleting that can be undone: hidden at once, but still in the file until forget_trash().
  Result<TrashId> trash_conversation(ConversationId id);
  /// Everything after `message`, on all branches.
  Result<TrashId> trash_after(MessageId message);
  /// `message` and everything after it; other answers beside it stay.
  Result<TrashId> trash_from(MessageId message);
  Status undo(TrashId id);
  /// What can be undone, the newest first.
  Result<std::vector<TrashInfo>> trash() const;

  /// Forgetting: when these return (with log_emptied) no file of the store holds the text, the
  /// tokens or a snapshot of them any more. Their messages in the trash are forgotten too.
  Result<ForgetReport> forget_conversation(ConversationId id);
  Result<ForgetReport> forget_after(MessageId message);
  /// @param older_than  only what was deleted that long ago; 0: all of it.
  Result<ForgetReport> forget_trash(std::chrono::milliseconds older_than);
  /// One deletion alone, with what was deleted after it below the same messages.
  /// @return not_found if it was undone or forgotten.
  Result<ForgetReport> forget_trash_entry(TrashId id);

  /// The branch that ends at `leaf` (0: the current one) for reading.
  Result<std::string> export_markdown(ConversationId id, MessageId leaf = 0) const;
  /// The whole tree, for import_json().
  /// @param settings  goes with it, as of settings(); empty: none
  Result<std::string> export_json(ConversationId id, std::string_view settings = {}) const;
  /// A library has no model: a state in "begins_from" of another size than the model's is refused (mismatch) when the
  /// conversation is opened with that model. So it is with import_chats() and add_pack().
  /// @return malformed, saying where, if `json` is not such an export.
  Result<ConversationId> import_json(std::string_view json);
  /// All chats of an export_json(), a ChatGPT export (conversations.json) or an Open WebUI export, with their branches.
  /// @return their ids in the order of the file; malformed if it is none of these, and then nothing is stored.
  Result<std::vector<ConversationId>> import_chats(std::string_view json);

  /// A new conversation of the messages of a state pack (make_pack, Conversation::pack), which no model has read yet: what
  /// is done with a pack that belongs to another model. Conversation::create begins with one that fits.
  /// A snapshot before the first token makes one that begins from its state, on its model.
  /// @return invalid_argument if it is a later snapshot without messages; malformed if a message is of another role
  ///         than a chat has; io if the state that it begins from cannot be written
  Result<ConversationId> add_pack(const Snapshot& pack, std::string_view name);

  /// Copies every conversation and message that can still be read from the damaged library `file` into this one; they
  /// keep their ids if it was empty and get new ones if not. Drafts too, and what was deleted, still deleted and with its
  /// time. A message whose parent is lost follows the last one before it. A conversation whose initial state is lost
  /// begins from the empty state. The report counts what is not deleted.
  /// @return malformed, or io, if nothing of it can be read.
  Result<SalvageReport> salvage(const std::filesystem::path& file);

  Result<StoreUsage> usage() const;
  Status set_budget(std::uint64_t bytes);
  /// Gives unused pages of the database back to the file system.
  Status vacuum();

 private:
  friend class Access;
  struct Impl;
  explicit ConversationStore(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace runnel
