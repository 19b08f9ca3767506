// SPDX-License-Identifier: Apache-2.0
// What can still be read of a damaged library. Rows are looked up one by one: a damaged page takes only its own.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/initial_state.h"
#include "runtime/store/quotations.h"
#include "runtime/store/schema.h"
#include "runtime/store/store_impl.h"

namespace runnel {
namespace {

constexpr std::int64_t kSmallestRow = 16;  // bytes of the file; a row needs more

struct SavedMessage {
  MessageInfo info;
  std::int64_t complete = 1;
  TrashId trash = 0;
};

struct SavedDeletion {
  std::int64_t at = 0;
  ConversationId conversation = 0;
  MessageId head = 0;
};

struct Saved {
  std::map<ConversationId, ConversationInfo> conversations;
  std::map<MessageId, SavedMessage> messages;
  std::map<TrashId, SavedDeletion> trash;
  std::map<ConversationId, std::string> drafts;
  std::map<ConversationId, std::string> settings;
  std::map<FolderId, FolderInfo> folders;
  std::map<ConversationId, FolderId> foldered;
  std::map<std::string, Snapshot> states;  // that conversations begin from
  std::map<ConversationId, std::string> beginnings;
  std::int64_t unreadable = 0;
};

Result<Database> open_damaged(const std::filesystem::path& file) {
  constexpr std::chrono::milliseconds kWait(1000);
  Result<Database> database = Database::open(file, kWait, Database::Access::read);
  // Its log may be what is damaged, or its folder for reading only.
  if (database && database->number("SELECT count(*) FROM sqlite_master")) return database;
  return Database::open(file, kWait, Database::Access::read_still);
}

// The largest id that `table` can hold; from what is still readable, else from the size of the file.
std::int64_t last_id(Database& database, const std::filesystem::path& file,
                     const std::string& table) {
  std::int64_t last = 0;
  bool known = false;
  for (const std::string& sql : {"SELECT seq FROM sqlite_sequence WHERE name = '" + table + "'",
                                 "SELECT max(id) FROM " + table}) {
    const auto number = database.number(sql);
    if (!number) continue;
    known = true;
    last = std::max(last, number->value_or(0));
  }
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  const std::int64_t most = error ? 0 : static_cast<std::int64_t>(bytes) / kSmallestRow;
  return known ? std::min(last, std::max<std::int64_t>(most, last < 1'000'000 ? last : 0)) : most;
}

// Calls `use` for every row of `sql` (with ?1 its id) that can be read. @return rows that cannot.
template <class Use>
Result<std::int64_t> each_row(Database& database, std::string_view sql, std::int64_t last,
                              const Use& use) {
  std::int64_t unreadable = 0;
  for (std::int64_t id = 1; id <= last; ++id) {
    RUNNEL_TRY(Statement rows, database.prepare(sql));
    const Result<bool> row = rows.bind(id).step();
    if (!row) ++unreadable;
    if (row && *row) use(rows);
  }
  return unreadable;
}

// The state of that name, by its index or, where that is damaged and leads to no row or another, without.
std::optional<Snapshot> read_state(Database& database, const std::string& hash) {
  for (const char* sql : {"SELECT snapshot FROM initial_states WHERE hash = ?1",
                          "SELECT snapshot FROM initial_states NOT INDEXED WHERE hash = ?1"}) {
    Result<Statement> rows = database.prepare(sql);
    if (!rows) continue;
    const Result<bool> row = rows->bind(hash).step();
    if (!row || !*row) continue;
    const auto bytes = rows->blob(0);
    if (SnapshotCache::name_of(bytes) != hash) continue;
    const Result<Snapshot> initial = Snapshot::from_bytes(bytes);
    if (initial && is_before_all(*initial)) return state_alone(*initial);
  }
  return std::nullopt;
}

void read_beginnings(Database& database, Saved& saved) {
  std::set<ConversationId> conversations;
  for (const auto& [id, conversation] : saved.conversations) conversations.insert(id);
  for (const auto& [id, message] : saved.messages) conversations.insert(message.info.conversation);
  std::set<std::string> lost;
  for (const ConversationId id : conversations) {
    Result<Statement> rows =
        database.prepare("SELECT state FROM beginnings WHERE conversation = ?1");
    if (!rows) return;
    const Result<bool> row = rows->bind(id).step();
    if (!row || !*row) continue;
    const std::string hash = rows->text(0);
    if (lost.contains(hash)) continue;
    if (!saved.states.contains(hash)) {
      const std::optional<Snapshot> state = read_state(database, hash);
      if (!state) {
        lost.insert(hash);
        continue;
      }
      saved.states.emplace(hash, *state);
    }
    saved.beginnings.emplace(id, hash);
  }
}

Result<Saved> read_all(const std::filesystem::path& file) {
  RUNNEL_TRY(Database database, open_damaged(file));
  RUNNEL_TRY(const auto ours, database.number("SELECT count(*) FROM sqlite_master WHERE name IN "
                                              "('conversations', 'messages')"));
  if (ours.value_or(0) != 2) {
    return fail(ErrorCode::malformed, printable(file.native()),
                ": no library of conversations can be recognised in it");
  }
  Saved saved;
  RUNNEL_TRY(const std::int64_t lost_conversations,
             each_row(database,
                      "SELECT id, name, created, updated, pinned, head, trash FROM conversations "
                      "WHERE id = ?1",
                      last_id(database, file, "conversations"), [&](const Statement& row) {
                        saved.conversations[row.integer(0)] = {.id = row.integer(0),
                                                               .name = row.text(1),
                                                               .created = row.integer(2),
                                                               .updated = row.integer(3),
                                                               .pinned = row.integer(4) != 0,
                                                               .head = row.integer(5),
                                                               .trash = row.integer(6)};
                      }));
  static_cast<void>(lost_conversations);  // their messages name them
  const auto named =
      database.number("SELECT count(*) FROM pragma_table_info('messages') WHERE name = 'name'");
  const std::string columns =
      "SELECT id, ifnull(parent, 0), conversation, role, text, created, complete, pinned, trash, " +
      std::string(named && named->value_or(0) > 0 ? "name" : "''") + " FROM messages WHERE id = ?1";
  RUNNEL_TRY(
      saved.unreadable,
      each_row(database, columns, last_id(database, file, "messages"), [&](const Statement& row) {
        SavedMessage message{.info = {.id = row.integer(0),
                                      .parent = row.integer(1),
                                      .conversation = row.integer(2),
                                      .role = row.text(3),
                                      .text = row.text(4),
                                      .created = row.integer(5),
                                      .pinned = row.integer(7) != 0,
                                      .name = row.text(9)},
                             .complete = row.integer(6),
                             .trash = row.integer(8)};
        const std::string& role = message.info.role;
        if (role != "user" && role != "assistant" && role != "system") return;
        saved.messages[message.info.id] = std::move(message);
      }));
  std::set<TrashId> deletions;
  for (const auto& [id, conversation] : saved.conversations) deletions.insert(conversation.trash);
  for (const auto& [id, message] : saved.messages) deletions.insert(message.trash);
  for (const TrashId id : deletions) {
    Result<Statement> rows = database.prepare("SELECT at, head FROM trash WHERE id = ?1");
    if (!rows) break;
    const Result<bool> row = rows->bind(id).step();
    if (row && *row) saved.trash[id] = {.at = rows->integer(0), .head = rows->integer(1)};
  }
  if (Result<Statement> rows = database.prepare("SELECT conversation, text FROM drafts")) {
    for (Result<bool> row = rows->step(); row && *row; row = rows->step())
      saved.drafts[rows->integer(0)] = rows->text(1);
  }
  if (Result<Statement> rows = database.prepare("SELECT conversation, text FROM settings")) {
    for (Result<bool> row = rows->step(); row && *row; row = rows->step())
      saved.settings[rows->integer(0)] = rows->text(1);
  }
  if (Result<Statement> rows = database.prepare("SELECT id, name, folded FROM folders")) {
    for (Result<bool> row = rows->step(); row && *row; row = rows->step()) {
      saved.folders[rows->integer(0)] = {
          .id = rows->integer(0), .name = rows->text(1), .folded = rows->integer(2) != 0};
    }
  }
  if (Result<Statement> rows = database.prepare("SELECT conversation, folder FROM foldered")) {
    for (Result<bool> row = rows->step(); row && *row; row = rows->step())
      saved.foldered[rows->integer(0)] = rows->integer(1);
  }
  read_beginnings(database, saved);
  if (Result<Statement> rows = database.prepare("SELECT message, text, ms FROM thoughts")) {
    for (Result<bool> row = rows->step(); row && *row; row = rows->step()) {
      const auto answer = saved.messages.find(rows->integer(0));
      if (answer == saved.messages.end()) continue;
      answer->second.info.thought = rows->text(1);
      answer->second.info.thought_ms = rows->integer(2);
    }
  }
  if (Result<Statement> rows = database.prepare("SELECT message, text FROM quotations")) {
    for (Result<bool> row = rows->step(); row && *row; row = rows->step()) {
      const auto question = saved.messages.find(rows->integer(0));
      if (question != saved.messages.end())
        question->second.info.quotations = quotations_from_text(rows->text(1));
    }
  }
  return saved;
}

// A conversation whose own row is lost is called by its first message.
std::string name_from(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() <= kLongest) return line;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
  return line.substr(0, end) + "…";
}

struct Writer {
  StoreImpl& impl;
  Saved& saved;
  bool keeps_ids = false;
  SalvageReport report = {};
  std::map<ConversationId, ConversationId> conversations = {};  // old id → new
  std::map<MessageId, MessageId> messages = {{0, 0}};
  std::map<TrashId, TrashId> trash = {{0, 0}};
  // New ids of the last message of an old conversation: of those that stand, and of all.
  std::map<ConversationId, MessageId> last = {};
  std::map<ConversationId, MessageId> last_of_all = {};
  std::map<ConversationId, bool> stands = {};  // has a message that is not deleted

  // The row that takes over `old`; 0: one of its own.
  std::int64_t id_for(std::int64_t old) const { return keeps_ids ? old : 0; }

  // What was deleted stays so, and is forgotten 30 days after the same moment.
  Result<TrashId> deletion(TrashId old, ConversationId of) {
    if (const auto made = trash.find(old); made != trash.end()) return made->second;
    // One whose own row is lost has all of its time again.
    if (!saved.trash.contains(old)) saved.trash[old].at = now_ms();
    saved.trash[old].conversation = of;
    RUNNEL_CHECK_OK(impl.database.run_with(
        "INSERT INTO trash(id, at, conversation, head) VALUES (NULLIF(?1, 0), ?2, 0, 0)",
        id_for(old), saved.trash[old].at));
    return trash[old] = impl.database.last_id();
  }

  Status conversation(const ConversationInfo& old) {
    RUNNEL_TRY(const TrashId deleted, deletion(old.trash, old.id));
    RUNNEL_CHECK_OK(impl.database.run_with(
        "INSERT INTO conversations(id, name, created, updated, pinned, trash) "
        "VALUES (NULLIF(?1, 0), ?2, ?3, ?4, ?5, ?6)",
        id_for(old.id), old.name, old.created, old.updated, old.pinned, deleted));
    conversations[old.id] = impl.database.last_id();
    if (deleted == 0) ++report.conversations;
    return {};
  }

  Status message(const SavedMessage& old) {
    const ConversationId of = old.info.conversation;
    if (!conversations.contains(of)) {
      saved.conversations[of] = {.id = of,
                                 .name = name_from(old.info.text),
                                 .created = old.info.created,
                                 .updated = old.info.created,
                                 .trash = stands.contains(of) ? 0 : old.trash};
      RUNNEL_CHECK_OK(conversation(saved.conversations[of]));
    }
    RUNNEL_TRY(const TrashId deleted, deletion(old.trash, of));
    const auto parent = messages.find(old.info.parent);
    const MessageId above = parent != messages.end() ? parent->second
                            : deleted == 0           ? last[of]
                                                     : last_of_all[of];
    RUNNEL_CHECK_OK(impl.database.run_with(
        "INSERT INTO messages(id, conversation, parent, role, text, created, complete, name, "
        "pinned, trash) VALUES (NULLIF(?1, 0), ?2, NULLIF(?3, 0), ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        id_for(old.info.id), conversations[of], above, old.info.role, old.info.text,
        old.info.created, old.complete, old.info.name, old.info.pinned, deleted));
    const MessageId made = impl.database.last_id();
    messages[old.info.id] = last_of_all[of] = made;
    if (deleted == 0) last[of] = made;
    if (deleted == 0 && saved.conversations[of].trash == 0) ++report.messages;
    RUNNEL_CHECK_OK(impl.keep_thought(made, old.info.thought, old.info.thought_ms));
    RUNNEL_CHECK_OK(impl.keep_quotations(made, old.info.quotations, [this](MessageId id) {
      const auto quoted = messages.find(id);
      return quoted == messages.end() ? 0 : quoted->second;
    }));
    return impl.index_words(made, old.info.text);
  }

  Status deletions() {
    for (const auto& [old, made] : trash) {
      if (old == 0) continue;
      const SavedDeletion& deletion = saved.trash[old];
      const auto head = messages.find(deletion.head);
      RUNNEL_CHECK_OK(impl.database.run_with(
          "UPDATE trash SET conversation = ?1, head = ?2 WHERE id = ?3",
          conversations[deletion.conversation], head == messages.end() ? 0 : head->second, made));
    }
    return {};
  }

  Status heads() {
    for (const auto& [old, made] : conversations) {
      const MessageId stood = saved.conversations[old].head;
      const auto message = saved.messages.find(stood);
      const bool deleted = message != saved.messages.end() && message->second.trash != 0;
      const auto head = stood == 0 || deleted ? messages.end() : messages.find(stood);
      RUNNEL_CHECK_OK(impl.database.run_with("UPDATE conversations SET head = ?1 WHERE id = ?2",
                                             head == messages.end() ? last[old] : head->second,
                                             made));
    }
    return {};
  }

  Status drafts() {
    for (const auto& [old, text] : saved.drafts) {
      std::int64_t made = 0;
      if (old != 0) {  // of a conversation, or typed in place of a message
        const auto& known = old > 0 ? conversations : messages;
        const auto found = known.find(old > 0 ? old : -old);
        if (found == known.end()) continue;
        made = old > 0 ? found->second : -found->second;
      }
      RUNNEL_CHECK_OK(impl.database.run_with(
          "INSERT OR IGNORE INTO drafts(conversation, text) VALUES (?1, ?2)", made, text));
    }
    return {};
  }

  Status settings() {
    for (const auto& [old, text] : saved.settings) {
      const auto made = conversations.find(old);
      if (made == conversations.end()) continue;
      RUNNEL_CHECK_OK(impl.database.run_with(
          "INSERT INTO settings(conversation, text) VALUES (?1, ?2)", made->second, text));
    }
    return {};
  }

  Status beginnings() {
    for (const auto& [old, hash] : saved.beginnings) {
      const auto made = conversations.find(old);
      const auto state = saved.states.find(hash);
      if (made != conversations.end() && state != saved.states.end())
        RUNNEL_CHECK_OK(impl.write_beginning(made->second, state->second));
    }
    return {};
  }

  Status folders() {
    std::map<FolderId, FolderId> made;
    for (const auto& [old, folder] : saved.folders) {
      RUNNEL_CHECK_OK(impl.database.run_with(
          "INSERT INTO folders(id, name, folded) VALUES (NULLIF(?1, 0), ?2, ?3)", id_for(old),
          folder.name, folder.folded));
      made[old] = impl.database.last_id();
    }
    for (const auto& [old, folder] : saved.foldered) {
      if (!conversations.contains(old) || !made.contains(folder)) continue;
      RUNNEL_CHECK_OK(
          impl.database.run_with("INSERT INTO foldered(conversation, folder) VALUES (?1, ?2)",
                                 conversations[old], made[folder]));
    }
    return {};
  }
};

}  // namespace

Result<SalvageReport> ConversationStore::salvage(const std::filesystem::path& file) {
  RUNNEL_TRY(Saved saved, read_all(file));
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(impl_->database));
  RUNNEL_TRY(const auto used,
             impl_->database.number("SELECT EXISTS (SELECT 1 FROM conversations) OR EXISTS (SELECT "
                                    "1 FROM trash) OR EXISTS (SELECT 1 FROM folders)"));
  Writer writer{.impl = *impl_, .saved = saved, .keeps_ids = used.value_or(1) == 0};
  for (const auto& [id, conversation] : saved.conversations)
    RUNNEL_CHECK_OK(writer.conversation(conversation));
  for (const auto& [id, message] : saved.messages) {
    if (message.trash == 0) writer.stands[message.info.conversation] = true;
  }
  for (const auto& [id, message] : saved.messages) RUNNEL_CHECK_OK(writer.message(message));
  RUNNEL_CHECK_OK(writer.heads());
  RUNNEL_CHECK_OK(writer.deletions());
  RUNNEL_CHECK_OK(writer.drafts());
  RUNNEL_CHECK_OK(writer.settings());
  RUNNEL_CHECK_OK(writer.folders());
  RUNNEL_CHECK_OK(writer.beginnings());
  RUNNEL_CHECK_OK(transaction.commit());
  writer.report.unreadable = saved.unreadable;
  return writer.report;
}

}  // namespace runnel
