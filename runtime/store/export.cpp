// SPDX-License-Identifier: Apache-2.0
// A conversation as Markdown for people and as JSON for programs (import.cpp reads it).
#include <array>
#include <cstdio>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/base64.h"
#include "runtime/base/try.h"
#include "runtime/store/quotations.h"
#include "runtime/store/remind.h"
#include "runtime/store/store_impl.h"

namespace runnel {
namespace {

std::string utc(std::int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm fields = {};
  if (::gmtime_r(&seconds, &fields) == nullptr) return "?";
  std::array<char, 32> text = {};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &fields);
  return text.data();
}

std::string_view speaker(const std::string& role) {
  if (role == "user") return "You";
  if (role == "assistant") return "Assistant";
  return "Context";
}

}  // namespace

Result<std::string> ConversationStore::export_markdown(ConversationId id, MessageId leaf) const {
  RUNNEL_TRY(const ConversationInfo conversation, info(id));
  if (leaf == 0) leaf = conversation.head;
  std::vector<MessageInfo> messages;
  if (leaf != 0) {
    RUNNEL_TRY(messages, path(leaf));
  }
  std::string out = "# " + conversation.name + "\n\n" + utc(conversation.created) + "\n";
  for (const MessageInfo& message : messages) {
    if (message.conversation != id) {
      return fail(ErrorCode::not_found, "message ", leaf, ": is none of conversation ", id);
    }
    out += "\n## ";
    out += speaker(message.role);
    out += "\n\n" + with_quotations(message.quotations, message.text) + "\n";
    if (!message.complete) out += "\n*(cut short)*\n";
  }
  return out;
}

Result<std::string> ConversationStore::export_json(ConversationId id,
                                                   std::string_view settings) const {
  RUNNEL_TRY(const ConversationInfo conversation, info(id));
  RUNNEL_TRY(const std::vector<MessageInfo> messages, tree(id));
  using nlohmann::json;
  json list = json::array();
  std::map<MessageId, std::int64_t> number{{0, 0}};  // ids in the file count from 1
  for (const MessageInfo& message : messages) {
    const std::int64_t own = static_cast<std::int64_t>(number.size());
    number.emplace(message.id, own);
    json entry = {{"id", own},
                  {"parent", number[message.parent]},
                  {"role", message.role},
                  {"text", message.text},
                  {"created", message.created}};
    if (!message.complete) entry["complete"] = false;
    if (message.cut == CutReason::stopped) entry["cut"] = "stopped";
    if (message.cut == CutReason::length) entry["cut"] = "length";
    if (message.pinned) entry["pinned"] = true;
    if (!message.name.empty()) entry["name"] = message.name;
    if (!message.thought.empty()) {
      entry["thought"] = message.thought;
      entry["thought_ms"] = message.thought_ms;
    }
    if (!message.quotations.empty()) {
      entry["quotations"] = json_of(message.quotations, [&](MessageId quoted) {
        const auto found = number.find(quoted);
        return found == number.end() ? 0 : found->second;
      });
    }
    list.push_back(std::move(entry));
  }
  json out = {{"format", "runnel-conversation"},   {"version", 1},
              {"name", conversation.name},         {"created", conversation.created},
              {"head", number[conversation.head]}, {"messages", std::move(list)}};
  if (!settings.empty()) out["settings"] = settings;
  const std::scoped_lock lock(impl_->mutex);
  RUNNEL_TRY(const std::optional<Snapshot> beginning, impl_->any_beginning(id));
  if (beginning) {
    RUNNEL_TRY(const std::vector<std::byte> bytes, beginning->to_bytes({.compress = true}));
    out["begins_from"] = to_base64(bytes);
  }
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace runnel
