// SPDX-License-Identifier: Apache-2.0
// Opens a library, lists what it holds, makes small changes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "runnel/store.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/system_error.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/store/schema.h"
#include "runtime/store/store_impl.h"
#include "runtime/store/take_place.h"

namespace runnel {
namespace {

constexpr std::size_t kPreviewBytes = 80;
constexpr std::uint64_t kIndexBytes = 40 * 1024;  // SQLite makes a file of 32 KiB to open a log

// SQLite would make the file with the process's umask; its log files take their mode from it.
Status make_private(const std::filesystem::path& file) {
  if (!file.has_filename()) {
    return fail(ErrorCode::invalid_argument, "'", printable(file.native()),
                "': names no file for the conversations");
  }
  if (file.has_parent_path()) {
    std::filesystem::path made;
    for (const auto& part : file.parent_path()) {
      made /= part;
      if (::mkdir(made.c_str(), 0700) == 0) {
        // What is said to be saved must not be lost with the folder it is in.
        RUNNEL_CHECK_OK(sync_directory(directory_of(made)));
        continue;
      }
      struct stat info = {};
      if (::stat(made.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
      return system_error(made, "make this folder", errno == EEXIST ? ENOTDIR : errno);
    }
  }
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(file, "open", errno);
  struct stat info = {};
  const bool wide = ::fstat(fd, &info) == 0 && (info.st_mode & 0077) != 0;
  const int changed = wide ? ::fchmod(fd, 0600) : 0;
  const int error_number = errno;
  ::close(fd);
  if (changed != 0) return system_error(file, "make private", error_number);
  return {};
}

std::string preview_of(const std::string& text) {
  if (text.size() <= kPreviewBytes) return text;
  std::size_t end = kPreviewBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

constexpr const char* kConversation =
    "SELECT c.id, c.name, c.created, c.updated, c.pinned, c.head, c.trash, "
    "(SELECT count(*) FROM messages m WHERE m.conversation = c.id AND m.trash = 0), "
    "ifnull((SELECT f.folder FROM foldered f WHERE f.conversation = c.id), 0) "
    "FROM conversations c ";

ConversationInfo read_conversation(const Statement& row) {
  return {.id = row.integer(0),
          .name = row.text(1),
          .created = row.integer(2),
          .updated = row.integer(3),
          .messages = row.integer(7),
          .pinned = row.integer(4) != 0,
          .head = row.integer(5),
          .trash = row.integer(6),
          .folder = row.integer(8)};
}

Status expect_change(Database& database, const char* what, std::int64_t id) {
  if (database.changes() > 0) return {};
  return fail(ErrorCode::not_found, what, " ", id, ": is not there");
}

}  // namespace

std::filesystem::path default_store_file(std::string_view xdg_data_home, std::string_view home) {
  // The XDG base directory specification: a relative path is to be ignored.
  const std::filesystem::path data = xdg_data_home.starts_with('/')
                                         ? std::filesystem::path(xdg_data_home)
                                         : std::filesystem::path(home) / ".local" / "share";
  return data / "runnel" / "conversations.db";
}

namespace {

// Whether the file is there and cannot be changed: it, its folder or their disk is for reading only.
bool only_readable(const std::filesystem::path& file) {
  const std::filesystem::path folder = directory_of(file);
  const auto refused = [](const std::filesystem::path& path) {
    return ::access(path.c_str(), W_OK) != 0 && (errno == EROFS || errno == EACCES);
  };
  return ::access(file.c_str(), R_OK) == 0 && (refused(file) || refused(folder));
}

Result<Database> open_to_read(const StoreSettings& options) {
  const auto open = [&](Database::Access access) -> Result<Database> {
    RUNNEL_TRY(Database database, Database::open(options.file, options.busy_timeout, access));
    RUNNEL_CHECK_OK(check_schema(database, options.file));
    return database;
  };
  Result<Database> database = open(Database::Access::read);
  if (database || database.error().code != ErrorCode::io) return database;
  // SQLite wants to make files beside it. They are of no use if there is nothing in its log.
  std::error_code error;
  const std::uintmax_t log = std::filesystem::file_size(beside(options.file, "-wal"), error);
  return error || log == 0 ? open(Database::Access::read_still) : std::move(database);
}

Result<Database> open_to_write(const StoreSettings& options) {
  RUNNEL_CHECK_OK(make_private(options.file));
  bool full = false;
  const auto open = [&](bool alone) -> Result<Database> {
    RUNNEL_TRY(Database database, Database::open(options.file, options.busy_timeout));
    Status ready;
    if (alone) ready = database.run("PRAGMA locking_mode = EXCLUSIVE");
    if (ready) ready = prepare_schema(database, options.file, options.busy_timeout);
    full = database.lacked_space();
    if (!ready) return std::move(ready).error();
    return database;
  };
  Result<Database> database = open(false);
  if (!database && full && Reserve(beside(options.file, ".reserve")).release(kIndexBytes))
    database = open(false);
  // Who has it alone needs no file beside it to share the log's index with others.
  if (!database && full) database = open(true);
  return database;
}

}  // namespace

Result<ConversationStore> ConversationStore::open(StoreSettings options) try {
  const bool read_only = only_readable(options.file);
  if (!read_only) RUNNEL_CHECK_OK(tidy_places(options.file));
  RUNNEL_TRY(Database database, read_only ? open_to_read(options) : open_to_write(options));
  auto impl = std::make_shared<Impl>(std::move(database), std::move(options), read_only);
  if (read_only) return ConversationStore(std::move(impl));
  // What a crash left: files without a row, and a log with text that was deleted since.
  {
    RUNNEL_TRY(Transaction transaction, Transaction::begin(impl->database));
    std::set<std::string> names;
    RUNNEL_TRY(Statement rows, impl->database.prepare("SELECT hash FROM snapshots"));
    for (;;) {
      RUNNEL_TRY(const bool row, rows.step());
      if (!row) break;
      names.insert(rows.text(0));
    }
    impl->cache.sweep(names);
  }
  impl->database.set_wait(std::chrono::milliseconds(0));  // not for others that are reading
  const Result<bool> emptied = impl->empty_log();
  if (!emptied && !impl->database.lacked_space()) return emptied.error();
  impl->database.set_wait(impl->options.busy_timeout);
  impl->keep_reserve();
  return ConversationStore(std::move(impl));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversations: not enough memory");
}

bool ConversationStore::read_only() const { return impl_->read_only; }

Result<ConversationInfo> ConversationStore::Impl::info(ConversationId id) {
  RUNNEL_TRY(Statement rows, database.prepare(std::string(kConversation) + "WHERE c.id = ?1"));
  RUNNEL_TRY(const bool row, rows.bind(id).step());
  if (!row) return fail(ErrorCode::not_found, "conversation ", id, ": is not there");
  return read_conversation(rows);
}

Result<std::vector<ConversationInfo>> ConversationStore::list(bool with_trash) const {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(Statement rows,
             impl_->database.prepare(std::string(kConversation) +
                                     "WHERE ?1 OR c.trash = 0 ORDER BY c.updated DESC, c.id DESC"));
  rows.bind(with_trash);
  std::vector<ConversationInfo> list;
  for (;;) {
    RUNNEL_TRY(const bool row, rows.step());
    if (!row) return list;
    list.push_back(read_conversation(rows));
  }
}

Result<ConversationInfo> ConversationStore::info(ConversationId id) const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->info(id);
}

Result<std::optional<ConversationId>> ConversationStore::find(std::string_view name) const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->database.number(
      "SELECT id FROM conversations WHERE name = ?1 AND trash = 0 ORDER BY updated DESC, id DESC",
      name);
}

Status ConversationStore::rename(ConversationId id, std::string_view name) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(
      impl_->database.run_with("UPDATE conversations SET name = ?1 WHERE id = ?2", name, id));
  return expect_change(impl_->database, "conversation", id);
}

Status ConversationStore::pin(ConversationId id, bool pinned) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(
      impl_->database.run_with("UPDATE conversations SET pinned = ?1 WHERE id = ?2", pinned, id));
  return expect_change(impl_->database, "conversation", id);
}

Status ConversationStore::pin_message(MessageId id, bool pinned) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(
      impl_->database.run_with("UPDATE messages SET pinned = ?1 WHERE id = ?2", pinned, id));
  return expect_change(impl_->database, "message", id);
}

Status ConversationStore::name_message(MessageId id, std::string_view name) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(
      impl_->database.run_with("UPDATE messages SET name = ?1 WHERE id = ?2", name, id));
  return expect_change(impl_->database, "message", id);
}

Status ConversationStore::set_head(ConversationId id, MessageId message) {
  return impl_->set_head(id, message);
}

Result<MessageInfo> ConversationStore::add(const NewText& text) {
  if (text.role != "user" && text.role != "assistant") {
    return fail(ErrorCode::invalid_argument, "message: its role is ", in_quotes(text.role),
                ", expected \"user\" or \"assistant\"");
  }
  const std::scoped_lock lock(impl_->mutex);
  Database& database = impl_->database;
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  NewMessage message{.conversation = text.conversation,
                     .parent = text.parent,
                     .role = text.role,
                     .text = text.text};
  if (text.conversation == 0) {
    const std::int64_t now = now_ms();
    RUNNEL_CHECK_OK(
        database.run_with("INSERT INTO conversations(name, created, updated) VALUES (?1, ?2, ?3)",
                          text.name, now, now));
    message.conversation = database.last_id();
    if (!text.system.empty()) {
      RUNNEL_TRY(message.parent, impl_->insert_message({.conversation = message.conversation,
                                                        .parent = 0,
                                                        .role = "system",
                                                        .text = text.system}));
    }
  } else {
    RUNNEL_CHECK_OK(impl_->check_stands(message.conversation, message.parent));
  }
  RUNNEL_TRY(const MessageId id, impl_->insert_message(message));
  if (text.from_draft) {
    RUNNEL_CHECK_OK(
        database.run_with("DELETE FROM drafts WHERE conversation = ?1", text.conversation));
  }
  RUNNEL_TRY(MessageInfo stored, impl_->message(id));
  RUNNEL_CHECK_OK(transaction.commit());
  return stored;
}

Status ConversationStore::set_draft(ConversationId id, std::string_view text) {
  const std::scoped_lock lock(impl_->mutex);
  if (text.empty())
    return impl_->database.run_with("DELETE FROM drafts WHERE conversation = ?1", id);
  return impl_->database.run_with(
      "INSERT OR REPLACE INTO drafts(conversation, text) VALUES (?1, ?2)", id, text);
}

Result<std::vector<DraftInfo>> ConversationStore::drafts() const {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<DraftInfo> list;
  // A library that is only read may be older than drafts are.
  RUNNEL_TRY(const auto kept,
             impl_->database.number("SELECT 1 FROM sqlite_master WHERE name = 'drafts'"));
  if (!kept) return list;
  RUNNEL_TRY(Statement rows, impl_->database.prepare("SELECT conversation, text FROM drafts"));
  for (;;) {
    RUNNEL_TRY(const bool row, rows.step());
    if (!row) return list;
    list.push_back({.conversation = rows.integer(0), .text = rows.text(1)});
  }
}

Result<bool> ConversationStore::set_quotations(MessageId id,
                                               const std::vector<Quotation>& quotations) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(impl_->database));
  RUNNEL_TRY(const MessageInfo message, impl_->message(id));
  if (message.role != "user") {
    return fail(ErrorCode::invalid_argument, "message ", id,
                ": is not a user's, expected one to read quotations before");
  }
  RUNNEL_TRY(const auto read,
             impl_->database.number("SELECT 1 FROM boundaries WHERE message = ?1 LIMIT 1", id));
  if (read) return false;
  RUNNEL_CHECK_OK(impl_->database.run_with("DELETE FROM quotations WHERE message = ?1", id));
  RUNNEL_CHECK_OK(impl_->keep_quotations(id, quotations));
  RUNNEL_CHECK_OK(transaction.commit());
  return true;
}

Status ConversationStore::set_settings(ConversationId id, std::string_view text) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(impl_->info(id));
  if (text.empty())
    return impl_->database.run_with("DELETE FROM settings WHERE conversation = ?1", id);
  return impl_->database.run_with(
      "INSERT OR REPLACE INTO settings(conversation, text) VALUES (?1, ?2)", id, text);
}

Result<std::string> ConversationStore::settings(ConversationId id) const {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(Statement rows,
             impl_->database.prepare("SELECT text FROM settings WHERE conversation = ?1"));
  RUNNEL_TRY(const bool row, rows.bind(id).step());
  return row ? rows.text(0) : std::string();
}

Result<std::int64_t> ConversationStore::version_seen() const {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(const auto version, impl_->database.number("PRAGMA data_version"));
  return version.value_or(0);
}

Result<std::vector<MessageInfo>> ConversationStore::tree(ConversationId id) const {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(impl_->info(id));
  RUNNEL_TRY(Statement rows,
             impl_->database.prepare(
                 "SELECT " + std::string(kMessageColumns) +
                 " FROM messages m WHERE m.conversation = ?1 AND m.trash = 0 ORDER BY m.id"));
  rows.bind(id);
  std::vector<MessageInfo> list;
  for (;;) {
    RUNNEL_TRY(const bool row, rows.step());
    if (!row) return list;
    list.push_back(read_message(rows));
  }
}

Result<std::vector<MessageInfo>> ConversationStore::path(MessageId message) const {
  RUNNEL_TRY(std::vector<PathStep> steps, impl_->read_path(message, 0));
  std::vector<MessageInfo> path;
  path.reserve(steps.size());
  for (PathStep& step : steps) path.push_back(std::move(step.message));
  return path;
}

Result<std::vector<BranchInfo>> ConversationStore::branches(ConversationId id) const {
  RUNNEL_TRY(const std::vector<MessageInfo> messages, tree(id));
  RUNNEL_TRY(const ConversationInfo conversation, info(id));
  std::map<MessageId, const MessageInfo*> by_id;
  std::map<MessageId, int> children;  // 0: how many begin a branch
  for (const MessageInfo& message : messages) {
    by_id[message.id] = &message;
    ++children[message.parent];
  }
  std::vector<BranchInfo> branches;
  for (const MessageInfo& leaf : messages) {
    if (children.contains(leaf.id)) continue;
    BranchInfo branch{.leaf = leaf.id, .updated = leaf.created};
    const MessageInfo* first_own = &leaf;
    bool forked = false;
    for (const MessageInfo* at = &leaf;;) {
      ++branch.messages;
      if (!forked) first_own = at;
      if (!forked && children[at->parent] > 1) {
        forked = true;
        branch.fork = at->parent;
      }
      const auto parent = by_id.find(at->parent);
      if (parent == by_id.end()) break;
      at = parent->second;
    }
    branch.preview = preview_of(first_own->text);
    // If the head lies before the end of several branches, none of them is the current one.
    branch.current = conversation.head == leaf.id;
    branches.push_back(std::move(branch));
  }
  std::stable_sort(branches.begin(), branches.end(), [](const BranchInfo& a, const BranchInfo& b) {
    return a.updated != b.updated ? a.updated > b.updated : a.leaf > b.leaf;
  });
  return branches;
}

Result<StoreUsage> ConversationStore::usage() const {
  const std::scoped_lock lock(impl_->mutex);
  StoreUsage usage{.budget_bytes = impl_->options.budget_bytes};
  Database& database = impl_->database;
  RUNNEL_TRY(const auto count, database.number("SELECT count(*) FROM snapshots"));
  RUNNEL_TRY(const auto bytes, database.number("SELECT sum(bytes) FROM snapshots"));
  RUNNEL_TRY(const auto pinned, database.number("SELECT sum(s.bytes) FROM snapshots s WHERE " +
                                                std::string(Impl::kPinned)));
  RUNNEL_TRY(const auto pages, database.number("PRAGMA page_count"));
  RUNNEL_TRY(const auto page_bytes, database.number("PRAGMA page_size"));
  usage.snapshots = static_cast<std::uint64_t>(count.value_or(0));
  usage.snapshot_bytes = static_cast<std::uint64_t>(bytes.value_or(0));
  usage.pinned_bytes = static_cast<std::uint64_t>(pinned.value_or(0));
  usage.database_bytes = static_cast<std::uint64_t>(pages.value_or(0) * page_bytes.value_or(0));
  return usage;
}

Status ConversationStore::set_budget(std::uint64_t bytes) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->options.budget_bytes = bytes;
  std::vector<std::string> dropped;
  Status kept = impl_->with_room([&]() -> Status {
    dropped.clear();
    RUNNEL_TRY(Transaction transaction, Transaction::begin(impl_->database));
    RUNNEL_CHECK_OK(impl_->evict(dropped));
    return transaction.commit();
  });
  if (kept) static_cast<void>(impl_->remove_files(dropped));
  return kept;
}

Status ConversationStore::vacuum() {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->with_room([&]() -> Status {
    RUNNEL_CHECK_OK(impl_->database.run("VACUUM"));
    RUNNEL_CHECK_OK(impl_->empty_log());
    return {};
  });
}

}  // namespace runnel
