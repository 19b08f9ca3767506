// SPDX-License-Identifier: Apache-2.0
// Messages with their boundaries in and out of the database; the byte budget.
#include "runtime/store/store_impl.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/base/system_error.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/store/quotations.h"

namespace runnel {
namespace {

std::vector<TokenId> tokens_of(const std::vector<std::byte>& blob) {
  std::vector<TokenId> tokens(blob.size() / sizeof(TokenId));
  if (!tokens.empty()) std::memcpy(tokens.data(), blob.data(), tokens.size() * sizeof(TokenId));
  return tokens;
}

// Values of messages.complete; 0: cut short, for an unknown reason.
constexpr std::int64_t kComplete = 1;
constexpr std::int64_t kStopped = 2;
constexpr std::int64_t kLength = 3;

constexpr std::uint64_t kReserveSlack = 256 * 1024;  // until it grows again

}  // namespace

std::filesystem::path beside(std::filesystem::path file, const char* suffix) {
  file += suffix;
  return file;
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t completeness(bool complete, CutReason cut) {
  if (complete) return kComplete;
  return cut == CutReason::stopped ? kStopped : cut == CutReason::length ? kLength : 0;
}

MessageInfo read_message(const Statement& row) {
  return {.id = row.integer(0),
          .parent = row.integer(1),
          .conversation = row.integer(2),
          .role = row.text(3),
          .text = row.text(4),
          .created = row.integer(5),
          .complete = row.integer(6) == kComplete,
          .pinned = row.integer(7) != 0,
          .has_snapshot = row.integer(8) != 0,
          .name = row.text(9),
          .cut = row.integer(6) == kStopped  ? CutReason::stopped
                 : row.integer(6) == kLength ? CutReason::length
                                             : CutReason::none,
          .thought = row.text(10),
          .thought_ms = row.integer(11),
          .quotations = quotations_from_text(row.text(12))};
}

ConversationStore::Impl::Impl(Database opened, StoreSettings chosen, bool only_reads)
    : database(std::move(opened)),
      cache(beside(chosen.file, ".snapshots"), &FileSystem::real()),
      reserve(beside(chosen.file, ".reserve")),
      options(std::move(chosen)),
      read_only(only_reads) {}

Result<ConversationId> ConversationStore::Impl::new_conversation(std::string_view name) {
  const std::scoped_lock lock(mutex);
  const std::int64_t now = now_ms();
  RUNNEL_CHECK_OK(database.run_with(
      "INSERT INTO conversations(name, created, updated) VALUES (?1, ?2, ?3)", name, now, now));
  return database.last_id();
}

Status ConversationStore::Impl::put_beginning(ConversationId conversation,
                                              const Snapshot& initial) {
  const std::scoped_lock lock(mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  RUNNEL_CHECK_OK(write_beginning(conversation, initial));
  return transaction.commit();
}

Status ConversationStore::Impl::write_beginning(ConversationId conversation,
                                                const Snapshot& initial) {
  const std::vector<float>& state = data_of(initial).state;
  if (!std::ranges::all_of(state, [](float v) { return std::isfinite(v); })) {
    return fail(ErrorCode::malformed,
                "the state that the conversation begins from has a number that is not finite");
  }
  RUNNEL_TRY(const std::vector<std::byte> bytes,
             initial.to_bytes({.compress = options.encoding.compress}));
  const std::string hash = SnapshotCache::name_of(bytes);
  RUNNEL_CHECK_OK(
      database.run_with("INSERT OR IGNORE INTO initial_states(hash, snapshot) VALUES (?1, ?2)",
                        hash, std::span<const std::byte>(bytes)));
  return database.run_with(
      "INSERT OR REPLACE INTO beginnings(conversation, model, history, state) "
      "VALUES (?1, ?2, ?3, ?4)",
      conversation, initial.model_fingerprint(), data_of(initial).history_hash, hash);
}

Result<std::optional<Snapshot>> ConversationStore::Impl::any_beginning(
    ConversationId conversation) {
  RUNNEL_TRY(Statement rows,
             database.prepare("SELECT state FROM beginnings WHERE conversation = ?1"));
  RUNNEL_TRY(const bool row, rows.bind(conversation).step());
  if (!row) return std::optional<Snapshot>();
  RUNNEL_TRY(Snapshot initial, read_state(rows.text(0)));
  return std::optional(std::move(initial));
}

Result<Beginning> ConversationStore::Impl::beginning(ConversationId conversation,
                                                     std::uint64_t model) {
  const std::scoped_lock lock(mutex);
  RUNNEL_TRY(Statement rows, database.prepare("SELECT history, state FROM beginnings WHERE "
                                              "conversation = ?1 AND model = ?2"));
  RUNNEL_TRY(const bool row, rows.bind(conversation, model).step());
  if (!row) return Beginning{};
  return Beginning{static_cast<std::uint64_t>(rows.integer(0)), rows.text(1)};
}

Result<Snapshot> ConversationStore::Impl::read_state(const std::string& hash) {
  RUNNEL_TRY(Statement rows,
             database.prepare("SELECT snapshot FROM initial_states WHERE hash = ?1"));
  RUNNEL_TRY(const bool row, rows.bind(hash).step());
  Result<Snapshot> initial =
      row ? Snapshot::from_bytes(rows.blob(0))
          : Result<Snapshot>(fail(ErrorCode::malformed, "the library has none of hash ", hash));
  if (!initial) {
    return with_context(std::move(initial).error(),
                        "the state that the conversation began from cannot be read: ");
  }
  return initial;
}

Result<Snapshot> ConversationStore::Impl::read_beginning(const Beginning& beginning) {
  const std::scoped_lock lock(mutex);
  return read_state(beginning.state);
}

Status ConversationStore::Impl::check_stands(ConversationId conversation, MessageId parent) {
  // Another process may have deleted this one's head.
  RUNNEL_TRY(
      const auto stands,
      database.number("SELECT 1 FROM conversations WHERE id = ?1 AND trash = 0 AND (?2 = 0 OR "
                      "EXISTS(SELECT 1 FROM messages WHERE id = ?2 AND trash = 0))",
                      conversation, parent));
  if (stands) return {};
  return fail(ErrorCode::not_found, "conversation ", conversation,
              ": it or the message this follows was deleted");
}

Result<MessageId> ConversationStore::Impl::insert_message(const NewMessage& message) {
  const std::int64_t now = now_ms();
  RUNNEL_CHECK_OK(
      database.run_with("INSERT INTO messages(conversation, parent, role, text, created, complete) "
                        "VALUES (?1, NULLIF(?2, 0), ?3, ?4, ?5, ?6)",
                        message.conversation, message.parent, message.role, message.text, now,
                        completeness(message.complete, message.cut)));
  const MessageId id = database.last_id();
  RUNNEL_CHECK_OK(index_words(id, message.text));
  RUNNEL_CHECK_OK(keep_thought(id, message.thought, message.thought_ms));
  RUNNEL_CHECK_OK(
      database.run_with("UPDATE conversations SET head = ?1, updated = ?2 WHERE id = ?3", id, now,
                        message.conversation));
  return id;
}

Status ConversationStore::Impl::keep_thought(MessageId message, std::string_view thought,
                                             std::int64_t ms) {
  if (thought.empty()) return {};
  return database.run_with("INSERT OR REPLACE INTO thoughts(message, ms, text) VALUES (?1, ?2, ?3)",
                           message, ms, thought);
}

Status ConversationStore::Impl::keep_quotations(MessageId message,
                                                std::span<const Quotation> quotations,
                                                const RenameMessage& rename) {
  if (quotations.empty()) return {};
  return database.run_with("INSERT OR REPLACE INTO quotations(message, text) VALUES (?1, ?2)",
                           message, text_of(quotations, rename));
}

Result<MessageId> ConversationStore::Impl::insert_messages(ConversationId conversation,
                                                           std::span<const ChatMessage> messages) {
  const std::scoped_lock lock(mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  MessageId last = 0;
  for (const ChatMessage& message : messages) {
    RUNNEL_TRY(last, insert_message({.conversation = conversation,
                                     .parent = last,
                                     .role = message.role,
                                     .text = message.content}));
  }
  RUNNEL_CHECK_OK(transaction.commit());
  return last;
}

Result<MessageId> ConversationStore::Impl::add_message(const NewMessage& message,
                                                       const NewBoundary& boundary,
                                                       std::string& warning) {
  const std::scoped_lock lock(mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  RUNNEL_CHECK_OK(check_stands(message.conversation, message.parent));
  RUNNEL_TRY(const MessageId id, insert_message(message));
  RUNNEL_CHECK_OK(write_boundary(id, boundary, warning));
  std::vector<std::string> dropped;
  RUNNEL_CHECK_OK(evict(dropped, id));
  RUNNEL_CHECK_OK(transaction.commit());
  static_cast<void>(remove_files(dropped));
  return id;
}

Status ConversationStore::Impl::extend_message(const MessageInfo& message,
                                               const NewBoundary& boundary, std::string& warning) {
  const std::scoped_lock lock(mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  RUNNEL_CHECK_OK(check_stands(message.conversation, message.id));
  RUNNEL_CHECK_OK(database.run_with(
      "INSERT INTO words(words, rowid, text) SELECT 'delete', id, text FROM messages WHERE id = ?1",
      message.id));
  RUNNEL_CHECK_OK(database.run_with("UPDATE messages SET text = ?2, complete = ?3 WHERE id = ?1",
                                    message.id, message.text,
                                    completeness(message.complete, message.cut)));
  RUNNEL_CHECK_OK(index_words(message.id, message.text));
  RUNNEL_CHECK_OK(keep_thought(message.id, message.thought, message.thought_ms));
  RUNNEL_CHECK_OK(database.run_with("DELETE FROM boundaries WHERE message = ?1", message.id));
  RUNNEL_CHECK_OK(database.run_with("UPDATE conversations SET updated = ?1 WHERE id = ?2", now_ms(),
                                    message.conversation));
  RUNNEL_CHECK_OK(write_boundary(message.id, boundary, warning));
  std::vector<std::string> dropped;
  RUNNEL_CHECK_OK(drop_unreferenced_snapshots(dropped));
  RUNNEL_CHECK_OK(evict(dropped, message.id));
  RUNNEL_CHECK_OK(transaction.commit());
  static_cast<void>(remove_files(dropped));
  return {};
}

Result<bool> ConversationStore::Impl::has_children(MessageId message) {
  const std::scoped_lock lock(mutex);
  RUNNEL_TRY(const auto child,
             database.number("SELECT 1 FROM messages WHERE parent = ?1 LIMIT 1", message));
  return child.has_value();
}

Status ConversationStore::Impl::put_boundary(MessageId message, const NewBoundary& boundary,
                                             std::string& warning) {
  const std::scoped_lock lock(mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  RUNNEL_CHECK_OK(write_boundary(message, boundary, warning));
  std::vector<std::string> dropped;
  RUNNEL_CHECK_OK(evict(dropped, message));
  RUNNEL_CHECK_OK(transaction.commit());
  static_cast<void>(remove_files(dropped));
  return {};
}

Status ConversationStore::Impl::write_boundary(MessageId message, const NewBoundary& boundary,
                                               std::string& warning) {
  std::optional<std::string> name;
  if (!boundary.snapshot.empty()) {
    name = SnapshotCache::name_of(boundary.snapshot);
    RUNNEL_TRY(const auto there, database.number("SELECT 1 FROM snapshots WHERE hash = ?1", *name));
    Status written;
    if (!there) written = cache.write(*name, boundary.snapshot);
    if (!written) {
      warning = "the state was not saved and will be read again from its tokens: " +
                written.error().message;
      name.reset();
    } else {
      RUNNEL_CHECK_OK(
          database.run_with("INSERT INTO snapshots(hash, bytes, used) "
                            "VALUES (?1, ?2, (SELECT ifnull(max(used), 0) + 1 FROM snapshots)) "
                            "ON CONFLICT(hash) DO UPDATE SET used = excluded.used",
                            *name, static_cast<std::uint64_t>(boundary.snapshot.size())));
    }
  }
  return database.run_with(
      "INSERT OR REPLACE INTO boundaries(message, model, tokens, position, history, snapshot) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
      message, boundary.model, std::as_bytes(std::span(boundary.tokens)), boundary.position,
      boundary.history, name);
}

Status ConversationStore::Impl::evict(std::vector<std::string>& dropped, MessageId just_written) {
  RUNNEL_TRY(const auto used, database.number("SELECT sum(bytes) FROM snapshots"));
  std::uint64_t total = static_cast<std::uint64_t>(used.value_or(0));
  if (total <= options.budget_bytes) return {};
  {
    RUNNEL_TRY(Statement oldest, database.prepare("SELECT s.hash, s.bytes FROM snapshots s "
                                                  "WHERE NOT " +
                                                  std::string(kPinned) +
                                                  " AND NOT EXISTS(SELECT 1 FROM boundaries b "
                                                  "WHERE b.snapshot = s.hash AND b.message = ?1) "
                                                  "ORDER BY s.used"));
    oldest.bind(just_written);
    while (total > options.budget_bytes) {
      RUNNEL_TRY(const bool row, oldest.step());
      if (!row) break;
      dropped.push_back(oldest.text(0));
      total -= static_cast<std::uint64_t>(oldest.integer(1));
    }
  }
  return clear_rows(dropped);
}

Status ConversationStore::Impl::clear_rows(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    RUNNEL_CHECK_OK(
        database.run_with("UPDATE boundaries SET snapshot = NULL WHERE snapshot = ?1", name));
    RUNNEL_CHECK_OK(database.run_with("DELETE FROM snapshots WHERE hash = ?1", name));
  }
  return {};
}

std::uint64_t ConversationStore::Impl::reserve_bytes() {
  const auto pages = database.number("PRAGMA page_count");
  const auto page = database.number("PRAGMA page_size");
  const std::uint64_t bytes =
      pages && page ? static_cast<std::uint64_t>(pages->value_or(0) * page->value_or(0)) : 0;
  return bytes + bytes / 4 + kReserveSlack;
}

void ConversationStore::Impl::keep_reserve() {
  if (!read_only) reserve.keep(reserve_bytes());
}

std::vector<std::string> ConversationStore::Impl::drop_files(std::uint64_t bytes) {
  std::vector<std::string> dropped;
  // No other process may save one of them again meanwhile; nothing is written, so it needs no room.
  const Result<Transaction> transaction = Transaction::begin(database);
  if (!transaction) return dropped;
  Result<Statement> oldest = database.prepare("SELECT s.hash, s.bytes FROM snapshots s WHERE NOT " +
                                              std::string(kPinned) + " ORDER BY s.used");
  if (!oldest) return dropped;
  for (std::uint64_t freed = 0; freed < bytes;) {
    const Result<bool> row = oldest->step();
    if (!row || !*row || !cache.remove(oldest->text(0))) break;
    dropped.push_back(oldest->text(0));
    freed += static_cast<std::uint64_t>(oldest->integer(1));
  }
  return dropped;
}

bool Room::find() {
  if (!impl_.database.lacked_space()) return false;
  if (tried_ == 0) {
    // Pages go to the log once, not whenever the cache is full: their bytes are what is reserved.
    static_cast<void>(impl_.database.run("PRAGMA cache_spill = OFF"));
    tried_ = 1;
    if (impl_.reserve.release()) return true;
  }
  if (tried_ == 1) {
    tried_ = 2;
    dropped_ = impl_.drop_files(impl_.reserve_bytes());
    return !dropped_.empty();
  }
  return false;
}

// What fails here is made good when the library is opened or its snapshots are read.
Room::~Room() {
  if (tried_ == 0) return;
  if (!dropped_.empty()) static_cast<void>(impl_.drop_rows(dropped_));
  static_cast<void>(impl_.database.run("PRAGMA cache_spill = ON"));
  static_cast<void>(impl_.empty_log());
  impl_.keep_reserve();
}

Status ConversationStore::Impl::drop_rows(const std::vector<std::string>& names) {
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  RUNNEL_CHECK_OK(clear_rows(names));
  return transaction.commit();
}

Status ConversationStore::Impl::remove_files(const std::vector<std::string>& dropped) {
  if (dropped.empty()) return {};
  // Inside a transaction, so that no other process saves one of these snapshots again meanwhile.
  RUNNEL_TRY(const Transaction transaction, Transaction::begin(database));
  for (const std::string& name : dropped) {
    RUNNEL_TRY(const auto named, database.number("SELECT 1 FROM snapshots WHERE hash = ?1", name));
    if (!named) RUNNEL_CHECK_OK(cache.remove(name));
  }
  return {};
}

Status ConversationStore::Impl::drop_unreferenced_snapshots(std::vector<std::string>& dropped) {
  {
    RUNNEL_TRY(Statement rows,
               database.prepare("SELECT hash FROM snapshots s WHERE NOT EXISTS(SELECT 1 FROM "
                                "boundaries b WHERE b.snapshot = s.hash)"));
    for (;;) {
      RUNNEL_TRY(const bool row, rows.step());
      if (!row) break;
      dropped.push_back(rows.text(0));
    }
  }
  for (const std::string& name : dropped) {
    RUNNEL_CHECK_OK(database.run_with("DELETE FROM snapshots WHERE hash = ?1", name));
  }
  return {};
}

Status ConversationStore::Impl::set_head(ConversationId conversation, MessageId head) {
  const std::scoped_lock lock(mutex);
  RUNNEL_CHECK_OK(database.run_with(
      "UPDATE conversations SET head = ?1 WHERE id = ?2 AND (?1 = 0 OR EXISTS(SELECT 1 FROM "
      "messages WHERE id = ?1 AND conversation = ?2 AND trash = 0))",
      head, conversation));
  if (database.changes() == 0) {
    return fail(ErrorCode::not_found, "message ", head, ": is none of conversation ", conversation);
  }
  return {};
}

Result<std::vector<PathStep>> ConversationStore::Impl::read_path(MessageId message,
                                                                 std::uint64_t model) {
  std::vector<PathStep> path;
  if (message == 0) return path;
  const std::scoped_lock lock(mutex);
  RUNNEL_TRY(
      Statement rows,
      database.prepare(
          "WITH RECURSIVE way(id) AS (SELECT id FROM messages WHERE id = ?1 AND trash = 0 UNION "
          "SELECT m.parent FROM messages m JOIN way ON m.id = way.id "
          "WHERE m.parent IS NOT NULL) SELECT " +
          std::string(kMessageColumns) +
          ", x.tokens, x.position, x.history, x.snapshot, "
          "NOT EXISTS(SELECT 1 FROM boundaries y WHERE y.message = m.id) FROM way "
          "JOIN messages m ON m.id = way.id "
          "LEFT JOIN boundaries x ON x.message = m.id AND x.model = ?2 ORDER BY m.id"));
  rows.bind(message, model);
  for (;;) {
    RUNNEL_TRY(const bool row, rows.step());
    if (!row) break;
    PathStep step{.message = read_message(rows)};
    constexpr int kOthers = kMessageColumnCount;  // columns from here on
    step.has_tokens = !rows.is_null(kOthers);
    step.tokens = tokens_of(rows.blob(kOthers));
    step.position = static_cast<std::uint64_t>(rows.integer(kOthers + 1));
    step.history = static_cast<std::uint64_t>(rows.integer(kOthers + 2));
    step.snapshot = rows.text(kOthers + 3);
    step.never_read = rows.integer(kOthers + 4) != 0;
    path.push_back(std::move(step));
  }
  if (path.empty()) return fail(ErrorCode::not_found, "message ", message, ": is not there");
  return path;
}

std::optional<Snapshot> ConversationStore::Impl::read_snapshot(const std::string& name) {
  const std::scoped_lock lock(mutex);
  Result<Snapshot> snapshot = cache.read(name);
  if (snapshot) {
    // Only the order of dropping depends on it: a busy database is no reason not to open.
    static_cast<void>(database.run_with(
        "UPDATE snapshots SET used = (SELECT max(used) + 1 FROM snapshots) WHERE hash = ?1 "
        "AND used < (SELECT max(used) FROM snapshots)",
        name));
    return *std::move(snapshot);
  }
  const ErrorCode code = snapshot.error().code;
  const bool useless = code == ErrorCode::not_found || code == ErrorCode::malformed ||
                       code == ErrorCode::unsupported;
  if (useless) {
    if (Result<Transaction> transaction = Transaction::begin(database)) {
      if (clear_rows({name}) && transaction->commit()) static_cast<void>(remove_files({name}));
    }
  }
  return std::nullopt;
}

std::optional<Snapshot> ConversationStore::Impl::find_start(std::uint64_t model,
                                                            std::uint64_t history,
                                                            std::span<const TokenId> tokens) {
  std::string name;
  {
    const std::scoped_lock lock(mutex);
    Result<Statement> rows = database.prepare(
        "SELECT b.snapshot FROM boundaries b JOIN messages m ON m.id = b.message "
        "WHERE b.model = ?1 AND b.history = ?2 AND b.tokens = ?3 AND b.snapshot IS NOT NULL "
        "AND m.parent IS NULL LIMIT 1");
    if (!rows) return std::nullopt;
    rows->bind(model, history, std::as_bytes(tokens));
    const Result<bool> row = rows->step();
    if (!row || !*row) return std::nullopt;
    name = rows->text(0);
  }
  return read_snapshot(name);
}

Result<MessageInfo> ConversationStore::Impl::message(MessageId id) {
  RUNNEL_TRY(Statement rows, database.prepare("SELECT " + std::string(kMessageColumns) +
                                              " FROM messages m WHERE m.id = ?1"));
  RUNNEL_TRY(const bool row, rows.bind(id).step());
  if (!row) return fail(ErrorCode::not_found, "message ", id, ": is not there");
  return read_message(rows);
}

Status ConversationStore::Impl::index_words(MessageId id, std::string_view text) {
  return database.run_with("INSERT INTO words(rowid, text) VALUES (?1, ?2)", id, text);
}

Result<bool> ConversationStore::Impl::empty_log() {
  RUNNEL_TRY(const auto busy, database.number("PRAGMA wal_checkpoint(TRUNCATE)"));
  // SQLite leaves it to the system when the shortened log reaches the disk.
  const std::filesystem::path log = beside(options.file, "-wal");
  const FileSystem& system = cache.system();
  const int fd = system.open(log, O_RDONLY | O_CLOEXEC, 0);
  if (fd >= 0) {
    const int error_number = system.fsync(fd) == 0 ? 0 : errno;
    system.close(fd);
    if (error_number != 0) return system_error(log, "sync", error_number);
  } else if (errno != ENOENT) {
    return system_error(log, "open", errno);
  }
  return busy.value_or(1) == 0;
}

}  // namespace runnel
