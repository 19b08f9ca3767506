// SPDX-License-Identifier: Apache-2.0
// State packs: a system prompt and documents read once, to begin conversations with.
#include <new>
#include <optional>
#include <utility>

#include "runnel/conversation.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"
#include "runtime/model/initial_state.h"
#include "runtime/store/replay.h"

namespace runnel {

Result<Snapshot> make_pack(const std::shared_ptr<const Model>& model, std::string_view system,
                           std::span<const std::string> documents,
                           const ReplayOptions& replay) try {
  std::string text(system);
  for (const std::string& document : documents) {
    if (!text.empty()) text += "\n\n";
    text += document;
  }
  if (text.empty()) {
    return fail(ErrorCode::invalid_argument,
                "state pack: expected a system prompt or a document, got neither");
  }
  RUNNEL_TRY(Session session, Session::create(model));
  RUNNEL_TRY(std::vector<TokenId> tokens, encode_system(*model, text));
  if (tokens.empty()) {
    return fail(ErrorCode::unsupported,
                "state pack: this model's chat format cannot read a system prompt by itself");
  }
  RUNNEL_CHECK_OK(feed(session, tokens, replay));
  RUNNEL_TRY(const Snapshot snapshot, session.snapshot());
  auto data = std::make_shared<SnapshotData>(data_of(snapshot));
  data->context = {.messages = {{"system", std::move(text)}}, .tokens = std::move(tokens)};
  return make_snapshot(std::move(data));
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "state pack: not enough memory");
}

Status check_messages(std::span<const ChatMessage> messages) {
  if (messages.empty()) {
    return fail(ErrorCode::invalid_argument,
                "state pack: has no messages to begin a conversation with");
  }
  for (const ChatMessage& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      return fail(ErrorCode::malformed, "state pack: a message is of \"", message.role,
                  "\", expected system, user or assistant");
    }
  }
  return {};
}

Result<ConversationId> ConversationStore::add_pack(const Snapshot& pack,
                                                   std::string_view name) try {
  const std::vector<ChatMessage>& messages = data_of(pack).context.messages;
  const bool before_all = is_before_all(pack);
  if (!before_all) RUNNEL_CHECK_OK(check_messages(messages));
  const std::optional<Snapshot> initial =
      before_all ? std::optional(state_alone(pack)) : initial_state_of(pack);
  RUNNEL_TRY(const ConversationId id, impl_->new_conversation(std::string(name)));
  Status kept;
  if (initial) kept = impl_->put_beginning(id, *initial);
  if (kept && !messages.empty()) {
    if (const Result<MessageId> last = impl_->insert_messages(id, messages); !last)
      kept = last.error();
  }
  if (kept) return id;
  static_cast<void>(forget_conversation(id));
  return kept.error();
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "state pack: not enough memory");
}

}  // namespace runnel
