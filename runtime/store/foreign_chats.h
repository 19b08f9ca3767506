// SPDX-License-Identifier: Apache-2.0
// Conversations as other programs export them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runnel/result.h"
#include "runnel/snapshot.h"
#include "runnel/store.h"

namespace runnel {

struct ImportedMessage {
  std::size_t parent = 0;  // 1, 2 … among the messages; 0: none
  std::string role;
  std::string text;
  std::int64_t created = 0;
  bool complete = true;
  CutReason cut = CutReason::none;
  bool pinned = false;
  std::string name;
  std::string thought;
  std::int64_t thought_ms = 0;
  std::vector<Quotation> quotations;  // of messages by their numbers in the file
};

struct ImportedConversation {
  std::string name;
  std::int64_t created = 0;
  std::int64_t updated = 0;  // 0: now
  std::size_t head = 0;      // as ImportedMessage::parent
  std::vector<ImportedMessage> messages;
  std::string settings = {};               // of ConversationStore::settings()
  std::optional<Snapshot> beginning = {};  // state_alone(); none: the empty state
};

/// The member of that name, null if `object` is none or lacks it.
const nlohmann::json* member(const nlohmann::json& object, const char* key);

/// All chats of a ChatGPT export (conversations.json) or an Open WebUI export. Tool calls, hidden messages and what is
/// no text are left out; what followed them follows the message before.
/// @return malformed if it is neither.
Result<std::vector<ImportedConversation>> read_foreign_chats(const nlohmann::json& root);

}  // namespace runnel
