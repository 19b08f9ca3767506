// SPDX-License-Identifier: Apache-2.0
// Deleting: into the trash, back from it, and for good. For good means that no page, index or log keeps a word: freed
// pages are zeroed (secure_delete), the word index is rewritten, the write-ahead log is emptied, unreferenced
// snapshots are removed; and all of it is synced.
#include <utility>

#include "runtime/base/try.h"
#include "runtime/store/store_impl.h"

namespace runnel {
namespace {

// The messages that follow ?1, at any distance.
constexpr std::string_view kAfter =
    "WITH RECURSIVE after(id) AS (SELECT id FROM messages WHERE parent = ?1 UNION "
    "SELECT m.id FROM messages m JOIN after ON m.parent = after.id) ";

// A deleted head moves back to the last message that is not deleted.
constexpr std::string_view kHeadIfLost =
    "UPDATE conversations SET head = ?1 WHERE id = ?2 AND head <> 0 AND NOT EXISTS("
    "SELECT 1 FROM messages m WHERE m.id = conversations.head AND m.trash = 0)";

struct Forgetting {
  StoreImpl& impl;
  ForgetReport report = {};
  std::vector<std::string> dropped = {};  // snapshots

  // `selection` selects ids of messages; ?1 is `value`.
  Status messages(std::string_view selection, std::int64_t value) {
    Database& database = impl.database;
    RUNNEL_CHECK_OK(database.run("PRAGMA defer_foreign_keys = ON"));  // children before parents
    RUNNEL_CHECK_OK(database.run_with(
        std::string(selection.starts_with("WITH") ? selection.substr(0, selection.rfind("SELECT"))
                                                  : "") +
            "DELETE FROM messages WHERE id IN (" +
            std::string(selection.substr(selection.rfind("SELECT"))) + ")",
        value));
    report.messages += database.changes();
    return {};
  }

  Status commit(Transaction transaction) {
    Database& database = impl.database;
    RUNNEL_CHECK_OK(impl.drop_unreferenced_snapshots(dropped));
    report.snapshots += static_cast<std::int64_t>(dropped.size());
    RUNNEL_CHECK_OK(database.run(
        "DELETE FROM initial_states WHERE NOT EXISTS(SELECT 1 FROM beginnings b WHERE b.state = "
        "initial_states.hash)"));
    // A deleted word stays in the index's older segments until they are merged: rebuild the index.
    RUNNEL_CHECK_OK(database.run("INSERT INTO words(words) VALUES ('rebuild')"));
    RUNNEL_CHECK_OK(database.run(
        "DELETE FROM trash WHERE NOT EXISTS(SELECT 1 FROM messages WHERE trash = trash.id) "
        "AND NOT EXISTS(SELECT 1 FROM conversations c WHERE c.trash = trash.id)"));
    // What was typed in place of a message that is gone.
    RUNNEL_CHECK_OK(
        database.run("DELETE FROM drafts WHERE conversation < 0 "
                     "AND NOT EXISTS(SELECT 1 FROM messages m WHERE m.id = -drafts.conversation)"));
    return transaction.commit();
  }

  // After the commit: files, and the log, in which the text still is.
  Status clean() {
    RUNNEL_CHECK_OK(impl.remove_files(dropped));
    RUNNEL_TRY(report.log_emptied, impl.with_room([this] { return impl.empty_log(); }));
    impl.keep_reserve();
    return impl.cache.sync();
  }
};

}  // namespace

Result<TrashId> ConversationStore::trash_conversation(ConversationId id) {
  const std::scoped_lock lock(impl_->mutex);
  Database& database = impl_->database;
  return impl_->with_room([&]() -> Result<TrashId> {
    RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
    RUNNEL_TRY(const ConversationInfo conversation, impl_->info(id));
    if (conversation.trash != 0) return conversation.trash;
    RUNNEL_CHECK_OK(
        database.run_with("INSERT INTO trash(at, conversation, head) VALUES (?1, ?2, ?3)", now_ms(),
                          id, conversation.head));
    const TrashId trash = database.last_id();
    RUNNEL_CHECK_OK(
        database.run_with("UPDATE conversations SET trash = ?1 WHERE id = ?2", trash, id));
    RUNNEL_CHECK_OK(transaction.commit());
    return trash;
  });
}

namespace {

// Puts what `selection` selects into the trash; ?1 is `message`. A head among it moves to `head`.
Result<TrashId> trash_messages(StoreImpl& impl, std::string_view selection, MessageId message,
                               bool and_itself) {
  const std::scoped_lock lock(impl.mutex);
  Database& database = impl.database;
  return impl.with_room([&]() -> Result<TrashId> {
    RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
    RUNNEL_TRY(const MessageInfo named, impl.message(message));
    RUNNEL_TRY(const ConversationInfo conversation, impl.info(named.conversation));
    RUNNEL_CHECK_OK(
        database.run_with("INSERT INTO trash(at, conversation, head) VALUES (?1, ?2, ?3)", now_ms(),
                          conversation.id, conversation.head));
    const TrashId trash = database.last_id();
    RUNNEL_CHECK_OK(database.run_with(
        std::string(kAfter) + "UPDATE messages SET trash = ?2 WHERE trash = 0 AND id IN (" +
            std::string(selection) + ")",
        message, trash));
    RUNNEL_CHECK_OK(
        database.run_with(kHeadIfLost, and_itself ? named.parent : message, conversation.id));
    RUNNEL_CHECK_OK(transaction.commit());
    return trash;
  });
}

}  // namespace

Result<TrashId> ConversationStore::trash_after(MessageId message) {
  return trash_messages(*impl_, "SELECT id FROM after", message, false);
}

Result<TrashId> ConversationStore::trash_from(MessageId message) {
  return trash_messages(*impl_, "SELECT id FROM after UNION SELECT ?1", message, true);
}

Status ConversationStore::undo(TrashId id) {
  const std::scoped_lock lock(impl_->mutex);
  Database& database = impl_->database;
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  RUNNEL_TRY(const auto conversation,
             database.number("SELECT conversation FROM trash WHERE id = ?1", id));
  if (id == 0 || !conversation) {
    return fail(ErrorCode::not_found, "deletion ", id, ": is not there, it may be final by now");
  }
  RUNNEL_CHECK_OK(database.run_with("UPDATE messages SET trash = 0 WHERE trash = ?1", id));
  RUNNEL_CHECK_OK(database.run_with("UPDATE conversations SET trash = 0 WHERE trash = ?1", id));
  RUNNEL_CHECK_OK(database.run_with(
      "UPDATE conversations SET head = (SELECT head FROM trash WHERE id = ?1) WHERE id = ?2 AND "
      "EXISTS(SELECT 1 FROM trash t JOIN messages m ON m.id = t.head "
      "WHERE t.id = ?1 AND m.trash = 0)",
      id, *conversation));
  RUNNEL_CHECK_OK(database.run_with("DELETE FROM trash WHERE id = ?1", id));
  return transaction.commit();
}

namespace {

// `change` deletes and commits with a new Forgetting, however often it takes.
template <class Change>
Result<ForgetReport> forget(StoreImpl& impl, Change change) {
  const std::scoped_lock lock(impl.mutex);
  Forgetting forgetting{.impl = impl};
  RUNNEL_CHECK_OK(impl.with_room([&]() -> Status {
    forgetting.report = {};
    forgetting.dropped.clear();
    RUNNEL_TRY(Transaction transaction, Transaction::begin(impl.database));
    return change(forgetting, std::move(transaction));
  }));
  RUNNEL_CHECK_OK(forgetting.clean());
  return forgetting.report;
}

}  // namespace

Result<ForgetReport> ConversationStore::forget_conversation(ConversationId id) {
  return forget(*impl_, [this, id](Forgetting& forgetting, Transaction transaction) -> Status {
    RUNNEL_CHECK_OK(impl_->info(id));
    RUNNEL_CHECK_OK(forgetting.messages("SELECT id FROM messages WHERE conversation = ?1", id));
    RUNNEL_CHECK_OK(impl_->database.run_with("DELETE FROM conversations WHERE id = ?1", id));
    RUNNEL_CHECK_OK(impl_->database.run_with("DELETE FROM drafts WHERE conversation = ?1", id));
    return forgetting.commit(std::move(transaction));
  });
}

Result<ForgetReport> ConversationStore::forget_after(MessageId message) {
  return forget(*impl_, [this, message](Forgetting& forgetting, Transaction transaction) -> Status {
    RUNNEL_TRY(const MessageInfo last, impl_->message(message));
    RUNNEL_CHECK_OK(forgetting.messages(std::string(kAfter) + "SELECT id FROM after", message));
    RUNNEL_CHECK_OK(impl_->database.run_with(kHeadIfLost, message, last.conversation));
    return forgetting.commit(std::move(transaction));
  });
}

namespace {

// Forgets the deletions t that `which` selects; ?1 is `value`.
Result<ForgetReport> forget_what(StoreImpl& impl, const std::string& which, std::int64_t value) {
  return forget(impl, [&](Forgetting& forgetting, Transaction transaction) -> Status {
    // What follows a deleted message was deleted with it or is in a later deletion: it goes too.
    RUNNEL_CHECK_OK(forgetting.messages(
        "WITH RECURSIVE old(id) AS (SELECT m.id FROM messages m JOIN trash t ON t.id = m.trash "
        "WHERE " +
            which +
            " UNION SELECT m.id FROM messages m JOIN conversations c ON c.id = "
            "m.conversation JOIN trash t ON t.id = c.trash WHERE " +
            which +
            " UNION SELECT m.id FROM messages m JOIN old ON m.parent = old.id) "
            "SELECT id FROM old",
        value));
    const std::string conversations =
        "(SELECT c.id FROM conversations c JOIN trash t ON t.id = c.trash WHERE " + which + ")";
    RUNNEL_CHECK_OK(
        impl.database.run_with("DELETE FROM drafts WHERE conversation IN " + conversations, value));
    RUNNEL_CHECK_OK(
        impl.database.run_with("DELETE FROM conversations WHERE id IN " + conversations, value));
    return forgetting.commit(std::move(transaction));
  });
}

}  // namespace

Result<ForgetReport> ConversationStore::forget_trash(std::chrono::milliseconds older_than) {
  const std::int64_t before = now_ms() - older_than.count();
  {
    const std::scoped_lock lock(impl_->mutex);
    RUNNEL_TRY(const auto any,
               impl_->database.number("SELECT 1 FROM trash WHERE at <= ?1", before));
    if (!any) return ForgetReport{};
  }
  return forget_what(*impl_, "t.at <= ?1", before);
}

Result<ForgetReport> ConversationStore::forget_trash_entry(TrashId id) {
  {
    const std::scoped_lock lock(impl_->mutex);
    RUNNEL_TRY(const auto there, impl_->database.number("SELECT 1 FROM trash WHERE id = ?1", id));
    if (!there) return fail(ErrorCode::not_found, "deletion ", id, ": is not there");
  }
  return forget_what(*impl_, "t.id = ?1", id);
}

Result<std::vector<TrashInfo>> ConversationStore::trash() const {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(Statement rows,
             impl_->database.prepare(
                 "SELECT t.id, t.at, t.conversation, c.trash = t.id, c.name, "
                 "(SELECT count(*) FROM messages m WHERE m.trash = t.id OR "
                 "(c.trash = t.id AND m.conversation = c.id AND m.trash = 0)), "
                 "(SELECT substr(m.text, 1, 200) FROM messages m WHERE (m.trash = t.id OR "
                 "(c.trash = t.id AND m.conversation = c.id)) AND m.role <> 'system' ORDER BY m.id "
                 "LIMIT 1) "
                 "FROM trash t JOIN conversations c ON c.id = t.conversation ORDER BY t.id DESC"));
  std::vector<TrashInfo> list;
  for (;;) {
    RUNNEL_TRY(const bool row, rows.step());
    if (!row) return list;
    list.push_back({.id = rows.integer(0),
                    .at = rows.integer(1),
                    .conversation = rows.integer(2),
                    .whole = rows.integer(3) != 0,
                    .messages = rows.integer(5),
                    .name = rows.text(4),
                    .excerpt = rows.text(6)});
  }
}

}  // namespace runnel
