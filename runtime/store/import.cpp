// SPDX-License-Identifier: Apache-2.0
// Conversations from the JSON that export_json() or other programs write. Checked whole before anything is stored.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/base64.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/initial_state.h"
#include "runtime/store/foreign_chats.h"
#include "runtime/store/quotations.h"
#include "runtime/store/store_impl.h"
#include "runtime/text/json_file.h"

namespace runnel {
namespace {

using nlohmann::json;

std::int64_t integer_or(const json& object, const char* key, std::int64_t otherwise) {
  const json* value = member(object, key);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : otherwise;
}

Result<ImportedMessage> read_one(const json& entry, std::size_t number) {
  const auto wrong = [&](const auto&... parts) {
    return fail(ErrorCode::malformed, "message ", number, ": ", parts...);
  };
  if (!entry.is_object()) return wrong("is no object");
  const json* role = member(entry, "role");
  const json* text = member(entry, "text");
  if (role == nullptr || !role->is_string() || text == nullptr || !text->is_string()) {
    return wrong("expected the strings \"role\" and \"text\"");
  }
  ImportedMessage message{.role = role->get<std::string>(), .text = text->get<std::string>()};
  if (message.role != "user" && message.role != "assistant" && message.role != "system") {
    return wrong("role is ", in_quotes(message.role),
                 ", expected \"user\", \"assistant\" or \"system\"");
  }
  const std::int64_t parent = integer_or(entry, "parent", static_cast<std::int64_t>(number) - 1);
  if (parent < 0 || parent >= static_cast<std::int64_t>(number)) {
    return wrong("parent is ", parent, ", expected 0 to ", number - 1);
  }
  if (message.role == "system" && parent != 0) {
    return wrong("is a system message, expected only as the first of a branch");
  }
  message.parent = static_cast<std::size_t>(parent);
  message.created = integer_or(entry, "created", now_ms());
  const json* complete = member(entry, "complete");
  message.complete = complete == nullptr || !complete->is_boolean() || complete->get<bool>();
  if (const json* cut = member(entry, "cut"); cut != nullptr && !message.complete) {
    if (*cut == "stopped") message.cut = CutReason::stopped;
    if (*cut == "length") message.cut = CutReason::length;
  }
  const json* pinned = member(entry, "pinned");
  message.pinned = pinned != nullptr && pinned->is_boolean() && pinned->get<bool>();
  const json* name = member(entry, "name");
  if (name != nullptr && name->is_string()) message.name = name->get<std::string>();
  const json* thought = member(entry, "thought");
  if (thought != nullptr && thought->is_string()) message.thought = thought->get<std::string>();
  message.thought_ms = std::max<std::int64_t>(0, integer_or(entry, "thought_ms", 0));
  const json* quotations = member(entry, "quotations");
  if (quotations != nullptr && message.role == "user") {
    message.quotations = quotations_from(*quotations);
    const auto later = [&](const Quotation& q) {
      return q.message < 1 || q.message >= static_cast<std::int64_t>(number);
    };
    for (Quotation& quotation : message.quotations) {
      if (later(quotation)) quotation.message = 0;
    }
  }
  return message;
}

// The state that a conversation of our own began from.
Result<Snapshot> read_beginning(const json& text) {
  const auto bytes =
      text.is_string() ? from_base64(text.get_ref<const std::string&>()) : std::nullopt;
  if (!bytes) return fail(ErrorCode::malformed, "begins_from: is no base64");
  Result<Snapshot> snapshot = Snapshot::from_bytes(*bytes);
  if (!snapshot) return with_context(std::move(snapshot).error(), "begins_from: ");
  if (!is_before_all(*snapshot))
    return fail(ErrorCode::malformed, "begins_from: is no state before the first token");
  return state_alone(*snapshot);
}

Result<ImportedConversation> read_own(const json& root) {
  const json* format = member(root, "format");
  if (format == nullptr || *format != "runnel-conversation") {
    return fail(ErrorCode::malformed, "conversation: expected \"format\": \"runnel-conversation\"");
  }
  if (const std::int64_t version = integer_or(root, "version", 0); version != 1) {
    return fail(ErrorCode::unsupported, "conversation: version is ", version, ", expected 1");
  }
  const json* list = member(root, "messages");
  if (list == nullptr || !list->is_array()) {
    return fail(ErrorCode::malformed, "conversation: expected an array \"messages\"");
  }
  ImportedConversation read{.name = "imported", .created = integer_or(root, "created", now_ms())};
  for (const json& entry : *list) {
    RUNNEL_TRY(ImportedMessage message, read_one(entry, read.messages.size() + 1));
    read.messages.push_back(std::move(message));
  }
  const std::int64_t count = static_cast<std::int64_t>(read.messages.size());
  const std::int64_t head = integer_or(root, "head", count);
  if (head < 0 || head > count) {
    return fail(ErrorCode::malformed, "conversation: head is ", head, ", expected 0 to ", count);
  }
  read.head = static_cast<std::size_t>(head);
  const json* name = member(root, "name");
  if (name != nullptr && name->is_string()) read.name = name->get<std::string>();
  const json* settings = member(root, "settings");
  if (settings != nullptr && settings->is_string()) read.settings = settings->get<std::string>();
  if (const json* beginning = member(root, "begins_from"); beginning != nullptr) {
    RUNNEL_TRY(read.beginning, read_beginning(*beginning));
  }
  return read;
}

// In a transaction of the caller's.
Result<ConversationId> store_one(StoreImpl& impl, const ImportedConversation& read) {
  Database& database = impl.database;
  RUNNEL_CHECK_OK(
      database.run_with("INSERT INTO conversations(name, created, updated) VALUES (?1, ?2, ?3)",
                        read.name, read.created, read.updated != 0 ? read.updated : now_ms()));
  const ConversationId id = database.last_id();
  if (read.beginning) RUNNEL_CHECK_OK(impl.write_beginning(id, *read.beginning));
  std::vector<MessageId> ids = {0};
  for (const ImportedMessage& message : read.messages) {
    const MessageId parent = ids[message.parent];
    RUNNEL_CHECK_OK(database.run_with(
        "INSERT INTO messages(conversation, parent, role, text, created, complete, name, pinned) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        id, parent == 0 ? std::nullopt : std::optional(parent), message.role, message.text,
        message.created, completeness(message.complete, message.cut), message.name,
        message.pinned));
    ids.push_back(database.last_id());
    RUNNEL_CHECK_OK(impl.index_words(ids.back(), message.text));
    RUNNEL_CHECK_OK(impl.keep_thought(ids.back(), message.thought, message.thought_ms));
    RUNNEL_CHECK_OK(impl.keep_quotations(ids.back(), message.quotations, [&ids](MessageId quoted) {
      return ids[static_cast<std::size_t>(quoted)];
    }));
  }
  RUNNEL_CHECK_OK(
      database.run_with("UPDATE conversations SET head = ?1 WHERE id = ?2", ids[read.head], id));
  if (!read.settings.empty()) {
    RUNNEL_CHECK_OK(database.run_with("INSERT INTO settings(conversation, text) VALUES (?1, ?2)",
                                      id, read.settings));
  }
  return id;
}

Result<std::vector<ConversationId>> store_all(StoreImpl& impl,
                                              const std::vector<ImportedConversation>& all) {
  const std::scoped_lock lock(impl.mutex);
  RUNNEL_TRY(Transaction transaction, Transaction::begin(impl.database));
  std::vector<ConversationId> ids;
  for (const ImportedConversation& one : all) {
    RUNNEL_TRY(const ConversationId id, store_one(impl, one));
    ids.push_back(id);
  }
  RUNNEL_CHECK_OK(transaction.commit());
  return ids;
}

}  // namespace

Result<ConversationId> ConversationStore::import_json(std::string_view text) try {
  RUNNEL_TRY(const json root, parse_json(text, "conversation", {.unique_keys = true}));
  if (!root.is_object()) return fail(ErrorCode::malformed, "conversation: is no JSON object");
  RUNNEL_TRY(ImportedConversation read, read_own(root));
  RUNNEL_TRY(const auto ids, store_all(*impl_, {std::move(read)}));
  return ids[0];
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversation: not enough memory to import it");
}

Result<std::vector<ConversationId>> ConversationStore::import_chats(std::string_view text) try {
  RUNNEL_TRY(const json root, parse_json(text, "export", {.unique_keys = false}));
  if (root.is_object() && root.contains("format")) {
    RUNNEL_TRY(ImportedConversation own, read_own(root));
    return store_all(*impl_, {std::move(own)});
  }
  RUNNEL_TRY(const std::vector<ImportedConversation> read, read_foreign_chats(root));
  return store_all(*impl_, read);
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "conversations: not enough memory to import them");
}

}  // namespace runnel
