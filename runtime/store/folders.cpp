// SPDX-License-Identifier: Apache-2.0
// Folders of conversations, and a conversation said again under another system prompt.
#include <map>

#include "runnel/store.h"
#include "runtime/base/try.h"
#include "runtime/store/store_impl.h"

namespace runnel {
namespace {

Status expect_folder(Database& database, FolderId id) {
  if (database.changes() > 0) return {};
  return fail(ErrorCode::not_found, "folder ", id, ": is not there");
}

}  // namespace

Result<std::vector<FolderInfo>> ConversationStore::folders() const {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(Statement rows,
             impl_->database.prepare("SELECT id, name, folded FROM folders ORDER BY "
                                     "name COLLATE NOCASE, id"));
  std::vector<FolderInfo> list;
  for (;;) {
    RUNNEL_TRY(const bool row, rows.step());
    if (!row) return list;
    list.push_back({.id = rows.integer(0), .name = rows.text(1), .folded = rows.integer(2) != 0});
  }
}

Result<FolderId> ConversationStore::add_folder(std::string_view name) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(impl_->database.run_with("INSERT INTO folders(name) VALUES (?1)", name));
  return impl_->database.last_id();
}

Status ConversationStore::rename_folder(FolderId id, std::string_view name) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(impl_->database.run_with("UPDATE folders SET name = ?1 WHERE id = ?2", name, id));
  return expect_folder(impl_->database, id);
}

Status ConversationStore::fold_folder(FolderId id, bool folded) {
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_CHECK_OK(
      impl_->database.run_with("UPDATE folders SET folded = ?1 WHERE id = ?2", folded, id));
  return expect_folder(impl_->database, id);
}

Status ConversationStore::remove_folder(FolderId id) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->with_room([&]() -> Status {
    RUNNEL_TRY(Transaction transaction, Transaction::begin(impl_->database));
    RUNNEL_CHECK_OK(impl_->database.run_with("DELETE FROM foldered WHERE folder = ?1", id));
    RUNNEL_CHECK_OK(impl_->database.run_with("DELETE FROM folders WHERE id = ?1", id));
    RUNNEL_CHECK_OK(expect_folder(impl_->database, id));
    return transaction.commit();
  });
}

Status ConversationStore::put_into_folder(ConversationId id, FolderId folder) {
  const std::scoped_lock lock(impl_->mutex);
  Database& database = impl_->database;
  RUNNEL_TRY(Transaction transaction, Transaction::begin(database));
  RUNNEL_CHECK_OK(impl_->info(id));
  RUNNEL_CHECK_OK(database.run_with("DELETE FROM foldered WHERE conversation = ?1", id));
  if (folder != 0) {
    RUNNEL_CHECK_OK(
        database.run_with("INSERT INTO foldered(conversation, folder) SELECT ?1, id "
                          "FROM folders WHERE id = ?2",
                          id, folder));
    RUNNEL_CHECK_OK(expect_folder(database, folder));
  }
  return transaction.commit();
}

Result<MessageId> ConversationStore::begin_again(ConversationId id, MessageId leaf,
                                                 std::string_view system) {
  std::vector<MessageInfo> said;
  if (leaf != 0) {
    RUNNEL_TRY(said, path(leaf));
  }
  for (const MessageInfo& message : said) {
    if (message.conversation != id)
      return fail(ErrorCode::not_found, "message ", leaf, ": is none of conversation ", id);
  }
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(impl_->database));
  RUNNEL_CHECK_OK(impl_->check_stands(id, leaf));
  MessageId head = 0;
  if (!system.empty()) {
    RUNNEL_TRY(head, impl_->insert_message(
                         {.conversation = id, .role = "system", .text = std::string(system)}));
  }
  std::map<MessageId, MessageId> copies;
  for (const MessageInfo& message : said) {
    if (message.parent == 0 && message.role == "system") continue;
    RUNNEL_TRY(head, impl_->insert_message({.conversation = id,
                                            .parent = head,
                                            .role = message.role,
                                            .text = message.text,
                                            .complete = message.complete,
                                            .cut = message.cut,
                                            .thought = message.thought,
                                            .thought_ms = message.thought_ms}));
    copies[message.id] = head;
    RUNNEL_CHECK_OK(impl_->keep_quotations(head, message.quotations,
                                           [&copies](MessageId quoted) { return copies[quoted]; }));
  }
  if (head == 0) {
    RUNNEL_CHECK_OK(
        impl_->database.run_with("UPDATE conversations SET head = 0 WHERE id = ?1", id));
  }
  RUNNEL_CHECK_OK(transaction.commit());
  return head;
}

}  // namespace runnel
