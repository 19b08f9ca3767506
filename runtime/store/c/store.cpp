// SPDX-License-Identifier: Apache-2.0
// The library of conversations in the C API.
#include <chrono>
#include <cstddef>

#include "runtime/store/c/handles.h"

using namespace runnel;
using namespace runnel::c;

namespace {

runnel_store_options default_store_options() {
  const StoreSettings d;
  return {.size = sizeof(runnel_store_options),
          .file = nullptr,
          .budget_bytes = d.budget_bytes,
          .encoding = static_cast<int32_t>(d.encoding.state),
          .compress = d.encoding.compress,
          .busy_timeout_ms = d.busy_timeout.count()};
}

runnel_conversation_info to_c(const ConversationInfo& info) {
  return {.size = sizeof(runnel_conversation_info),
          .id = info.id,
          .name = info.name.c_str(),
          .created = info.created,
          .updated = info.updated,
          .messages = info.messages,
          .pinned = info.pinned,
          .head = info.head,
          .trash = info.trash};
}

runnel_message_info to_c(const MessageInfo& info) {
  return {.size = sizeof(runnel_message_info),
          .id = info.id,
          .parent = info.parent,
          .conversation = info.conversation,
          .role = info.role.c_str(),
          .text = info.text.c_str(),
          .bytes = info.text.size(),
          .created = info.created,
          .complete = info.complete,
          .pinned = info.pinned,
          .has_snapshot = info.has_snapshot,
          .name = info.name.c_str()};
}

runnel_trash_info to_c(const TrashInfo& info) {
  return {.size = sizeof(runnel_trash_info),
          .id = info.id,
          .at = info.at,
          .conversation = info.conversation,
          .whole = info.whole,
          .messages = info.messages,
          .name = info.name.c_str(),
          .excerpt = info.excerpt.c_str()};
}

runnel_branch_info to_c(const BranchInfo& info) {
  return {.size = sizeof(runnel_branch_info),
          .leaf = info.leaf,
          .fork = info.fork,
          .messages = info.messages,
          .updated = info.updated,
          .current = info.current,
          .preview = info.preview.c_str()};
}

runnel_search_hit to_c(const SearchHit& hit) {
  return {.size = sizeof(runnel_search_hit),
          .conversation = hit.conversation,
          .message = hit.message,
          .name = hit.name.c_str(),
          .role = hit.role.c_str(),
          .excerpt = hit.excerpt.c_str()};
}

// Gives what `list` (→ Result of a vector) has to `each`, until that is false.
template <class Each, class List>
runnel_status give_list(const runnel_store* store, Each each, void* user, runnel_error* error,
                        const List& list) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(store, "store"));
    RUNNEL_CHECK_OK(check_not_null(reinterpret_cast<const void*>(each), "each"));
    RUNNEL_TRY(const auto all, list(store->store));
    for (const auto& one : all) {
      const auto given = to_c(one);
      if (!each(&given, user)) break;
    }
    return {};
  });
}

// Runs `change` (→ Status) on the store.
template <class Change>
runnel_status change_store(runnel_store* store, runnel_error* error, const Change& change) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(store, "store"));
    return change(store->store);
  });
}

// The same of what says where the deleted is.
template <class Change>
runnel_status put_into_trash(runnel_store* store, runnel_trash_id* trash, runnel_error* error,
                             const Change& change) {
  return change_store(store, error, [&](ConversationStore& of) -> Status {
    RUNNEL_TRY(const TrashId id, change(of));
    if (trash != nullptr) *trash = id;
    return {};
  });
}

template <class Change>
runnel_status forget(runnel_store* store, runnel_forget_report* report, runnel_error* error,
                     const Change& change) {
  return change_store(store, error, [&](ConversationStore& of) -> Status {
    RUNNEL_CHECK_OK(check_report(report));
    RUNNEL_TRY(const ForgetReport done, change(of));
    return give_struct(report, runnel::c::to_c(done), "runnel_forget_report");
  });
}

// Copies out the text that `make` (→ Result of a string) makes.
template <class Make>
runnel_status give_text(char* text, size_t capacity, size_t* count, runnel_error* error,
                        const Make& make) {
  std::string made;
  const runnel_status status = guarded(error, [&]() -> Status {
    RUNNEL_TRY(made, make());
    return {};
  });
  if (status != RUNNEL_OK) return status;
  return copy_out(std::span<const char>(made), text, capacity, count, error);
}

}  // namespace

void runnel_store_options_init(runnel_store_options* options, size_t size) {
  init_struct(options, size, default_store_options());
}

void runnel_forget_report_init(runnel_forget_report* report, size_t size) {
  init_struct(report, size, runnel_forget_report{});
}

void runnel_salvage_report_init(runnel_salvage_report* report, size_t size) {
  init_struct(report, size, runnel_salvage_report{});
}

void runnel_store_usage_init(runnel_store_usage* usage, size_t size) {
  init_struct(usage, size, runnel_store_usage{});
}

runnel_status runnel_store_default_file(const char* xdg_data_home, const char* home, char* file,
                                        size_t capacity, size_t* count, runnel_error* error) {
  return give_text(file, capacity, count, error, [&]() -> Result<std::string> {
    return default_store_file(xdg_data_home != nullptr ? xdg_data_home : "",
                              home != nullptr ? home : "")
        .string();
  });
}

runnel_status runnel_store_open(const runnel_store_options* options, runnel_store** store,
                                runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(options, "options"));
    RUNNEL_CHECK_OK(check_not_null(store, "store"));
    RUNNEL_TRY(const runnel_store_options o,
               known_struct(options, default_store_options(), sizeof(runnel_store_options),
                            "runnel_store_options"));
    RUNNEL_CHECK_OK(check_not_null(o.file, "runnel_store_options.file"));
    if (o.encoding < RUNNEL_STATE_F32 || o.encoding > RUNNEL_STATE_INT8) {
      return fail(ErrorCode::invalid_argument, "encoding is ", o.encoding,
                  ", expected RUNNEL_STATE_F32, RUNNEL_STATE_F16 or RUNNEL_STATE_INT8");
    }
    if (o.busy_timeout_ms < 0) {
      return fail(ErrorCode::invalid_argument, "busy_timeout_ms is ", o.busy_timeout_ms,
                  ", expected 0 or more");
    }
    RUNNEL_TRY(
        ConversationStore opened,
        ConversationStore::open(
            {.file = o.file,
             .budget_bytes = o.budget_bytes,
             .encoding = {.state = static_cast<StateEncoding>(o.encoding), .compress = o.compress},
             .busy_timeout = std::chrono::milliseconds(o.busy_timeout_ms)}));
    *store = new runnel_store{std::move(opened)};
    return {};
  });
}

void runnel_store_free(runnel_store* store) { delete store; }

bool runnel_store_is_read_only(const runnel_store* store) {
  return store != nullptr && store->store.read_only();
}

runnel_status runnel_store_list(const runnel_store* store, bool with_trash,
                                runnel_on_conversation each, void* user, runnel_error* error) {
  return give_list(store, each, user, error,
                   [&](const ConversationStore& of) { return of.list(with_trash); });
}

runnel_status runnel_store_get(const runnel_store* store, runnel_conversation_id id,
                               runnel_on_conversation each, void* user, runnel_error* error) {
  return give_list(store, each, user, error,
                   [&](const ConversationStore& of) -> Result<std::vector<ConversationInfo>> {
                     RUNNEL_TRY(ConversationInfo info, of.info(id));
                     return std::vector<ConversationInfo>{std::move(info)};
                   });
}

runnel_status runnel_store_find(const runnel_store* store, const char* name,
                                runnel_conversation_id* id, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(store, "store"));
    RUNNEL_CHECK_OK(check_not_null(name, "name"));
    RUNNEL_CHECK_OK(check_not_null(id, "id"));
    RUNNEL_TRY(const std::optional<ConversationId> found, store->store.find(name));
    *id = found.value_or(0);
    return {};
  });
}

runnel_status runnel_store_tree(const runnel_store* store, runnel_conversation_id id,
                                runnel_on_message each, void* user, runnel_error* error) {
  return give_list(store, each, user, error,
                   [&](const ConversationStore& of) { return of.tree(id); });
}

runnel_status runnel_store_path(const runnel_store* store, runnel_message_id message,
                                runnel_on_message each, void* user, runnel_error* error) {
  return give_list(store, each, user, error,
                   [&](const ConversationStore& of) { return of.path(message); });
}

runnel_status runnel_store_branches(const runnel_store* store, runnel_conversation_id id,
                                    runnel_on_branch each, void* user, runnel_error* error) {
  return give_list(store, each, user, error,
                   [&](const ConversationStore& of) { return of.branches(id); });
}

runnel_status runnel_store_search(const runnel_store* store, const char* query, int32_t limit,
                                  runnel_on_hit each, void* user, runnel_error* error) {
  return give_list(store, each, user, error,
                   [&](const ConversationStore& of) -> Result<std::vector<SearchHit>> {
                     RUNNEL_CHECK_OK(check_not_null(query, "query"));
                     return of.search(query, limit);
                   });
}

runnel_status runnel_store_rename(runnel_store* store, runnel_conversation_id id, const char* name,
                                  runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) -> Status {
    RUNNEL_CHECK_OK(check_not_null(name, "name"));
    return of.rename(id, name);
  });
}

runnel_status runnel_store_pin(runnel_store* store, runnel_conversation_id id, bool pinned,
                               runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) { return of.pin(id, pinned); });
}

runnel_status runnel_store_pin_message(runnel_store* store, runnel_message_id id, bool pinned,
                                       runnel_error* error) {
  return change_store(store, error,
                      [&](ConversationStore& of) { return of.pin_message(id, pinned); });
}

runnel_status runnel_store_name_message(runnel_store* store, runnel_message_id id, const char* name,
                                        runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) -> Status {
    RUNNEL_CHECK_OK(check_not_null(name, "name"));
    return of.name_message(id, name);
  });
}

runnel_status runnel_store_set_head(runnel_store* store, runnel_conversation_id id,
                                    runnel_message_id message, runnel_error* error) {
  return change_store(store, error,
                      [&](ConversationStore& of) { return of.set_head(id, message); });
}

runnel_status runnel_store_trash_conversation(runnel_store* store, runnel_conversation_id id,
                                              runnel_trash_id* trash, runnel_error* error) {
  return put_into_trash(store, trash, error,
                        [&](ConversationStore& of) { return of.trash_conversation(id); });
}

runnel_status runnel_store_trash_after(runnel_store* store, runnel_message_id message,
                                       runnel_trash_id* trash, runnel_error* error) {
  return put_into_trash(store, trash, error,
                        [&](ConversationStore& of) { return of.trash_after(message); });
}

runnel_status runnel_store_trash_from(runnel_store* store, runnel_message_id message,
                                      runnel_trash_id* trash, runnel_error* error) {
  return put_into_trash(store, trash, error,
                        [&](ConversationStore& of) { return of.trash_from(message); });
}

runnel_status runnel_store_undo(runnel_store* store, runnel_trash_id trash, runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) { return of.undo(trash); });
}

runnel_status runnel_store_trash(const runnel_store* store, runnel_on_trash each, void* user,
                                 runnel_error* error) {
  return give_list(store, each, user, error,
                   [](const ConversationStore& of) { return of.trash(); });
}

runnel_status runnel_store_forget_conversation(runnel_store* store, runnel_conversation_id id,
                                               runnel_forget_report* report, runnel_error* error) {
  return forget(store, report, error,
                [&](ConversationStore& of) { return of.forget_conversation(id); });
}

runnel_status runnel_store_forget_after(runnel_store* store, runnel_message_id message,
                                        runnel_forget_report* report, runnel_error* error) {
  return forget(store, report, error,
                [&](ConversationStore& of) { return of.forget_after(message); });
}

runnel_status runnel_store_forget_trash(runnel_store* store, int64_t older_than_ms,
                                        runnel_forget_report* report, runnel_error* error) {
  return forget(store, report, error, [&](ConversationStore& of) {
    return of.forget_trash(std::chrono::milliseconds(older_than_ms));
  });
}

runnel_status runnel_store_forget_trash_entry(runnel_store* store, runnel_trash_id trash,
                                              runnel_forget_report* report, runnel_error* error) {
  return forget(store, report, error,
                [&](ConversationStore& of) { return of.forget_trash_entry(trash); });
}

// NOLINTNEXTLINE(readability-function-size): in C a text, a buffer and an error are many parameters
runnel_status runnel_store_export_markdown(const runnel_store* store, runnel_conversation_id id,
                                           runnel_message_id leaf, char* text, size_t capacity,
                                           size_t* count, runnel_error* error) {
  return give_text(text, capacity, count, error, [&]() -> Result<std::string> {
    RUNNEL_CHECK_OK(check_not_null(store, "store"));
    return store->store.export_markdown(id, leaf);
  });
}

runnel_status runnel_store_export_json(const runnel_store* store, runnel_conversation_id id,
                                       char* json, size_t capacity, size_t* count,
                                       runnel_error* error) {
  return give_text(json, capacity, count, error, [&]() -> Result<std::string> {
    RUNNEL_CHECK_OK(check_not_null(store, "store"));
    return store->store.export_json(id);
  });
}

runnel_status runnel_store_import_json(runnel_store* store, const char* json, size_t bytes,
                                       runnel_conversation_id* id, runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) -> Status {
    RUNNEL_TRY(const std::string_view given, text_of(json, bytes, "json"));
    RUNNEL_TRY(const ConversationId made, of.import_json(given));
    if (id != nullptr) *id = made;
    return {};
  });
}

runnel_status runnel_store_import_chats(runnel_store* store, const char* json, size_t bytes,
                                        void (*each)(runnel_conversation_id id, void* user),
                                        void* user, runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) -> Status {
    RUNNEL_TRY(const std::string_view given, text_of(json, bytes, "json"));
    RUNNEL_TRY(const std::vector<ConversationId> made, of.import_chats(given));
    if (each == nullptr) return {};
    for (const ConversationId id : made) each(id, user);
    return {};
  });
}

runnel_status runnel_store_salvage(runnel_store* store, const char* file,
                                   runnel_salvage_report* report, runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) -> Status {
    RUNNEL_CHECK_OK(check_not_null(file, "file"));
    RUNNEL_CHECK_OK(known_struct(report, runnel_salvage_report{}, sizeof(runnel_salvage_report),
                                 "runnel_salvage_report"));
    RUNNEL_TRY(const SalvageReport done, of.salvage(file));
    return give_struct(report,
                       runnel_salvage_report{.size = sizeof(runnel_salvage_report),
                                             .conversations = done.conversations,
                                             .messages = done.messages,
                                             .unreadable = done.unreadable},
                       "runnel_salvage_report");
  });
}

runnel_status runnel_store_get_usage(const runnel_store* store, runnel_store_usage* usage,
                                     runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(store, "store"));
    RUNNEL_CHECK_OK(check_not_null(usage, "usage"));
    RUNNEL_TRY(const StoreUsage now, store->store.usage());
    return give_struct(usage,
                       runnel_store_usage{.size = sizeof(runnel_store_usage),
                                          .snapshots = now.snapshots,
                                          .snapshot_bytes = now.snapshot_bytes,
                                          .pinned_bytes = now.pinned_bytes,
                                          .budget_bytes = now.budget_bytes,
                                          .database_bytes = now.database_bytes},
                       "runnel_store_usage");
  });
}

runnel_status runnel_store_set_budget(runnel_store* store, uint64_t bytes, runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) { return of.set_budget(bytes); });
}

runnel_status runnel_store_vacuum(runnel_store* store, runnel_error* error) {
  return change_store(store, error, [&](ConversationStore& of) { return of.vacuum(); });
}
