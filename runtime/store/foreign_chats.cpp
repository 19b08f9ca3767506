// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/foreign_chats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/store/store_impl.h"

namespace runnel {

using nlohmann::json;

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

namespace {

// A message of either program, with its place in the tree.
struct Node {
  std::string parent;  // empty: none
  std::string role;    // empty: nothing to keep
  std::string text;
  std::int64_t created = 0;
};
using Nodes = std::map<std::string, Node>;

std::string text_or(const json& object, const char* key, const std::string& otherwise = {}) {
  const json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : otherwise;
}

// Milliseconds from seconds or milliseconds since 1970.
std::int64_t time_or(const json& object, const char* key, std::int64_t otherwise) {
  constexpr double kMilliseconds = 1e11;  // as seconds these would be the year 5138
  constexpr double kLatest = 1e14;
  const json* value = member(object, key);
  if (value == nullptr || !value->is_number()) return otherwise;
  const double number = value->get<double>();
  if (!std::isfinite(number) || number <= 0 || number > kLatest) return otherwise;
  return static_cast<std::int64_t>(number < kMilliseconds ? number * 1000 : number);
}

bool is_role(const std::string& role) {
  return role == "user" || role == "assistant" || role == "system";
}

// The nearest node from `id` upwards that is kept; empty: none.
std::string kept_from(const Nodes& nodes, std::string id) {
  for (std::size_t steps = 0; steps <= nodes.size(); ++steps) {
    const auto node = nodes.find(id);
    if (node == nodes.end()) return {};
    if (!node->second.role.empty()) return id;
    id = node->second.parent;
  }
  return {};  // a ring
}

// Parents before children, else in the order of time; what hangs on a ring is left out.
ImportedConversation in_order(const Nodes& nodes, const std::string& current) {
  std::map<std::string, std::vector<std::string>> children;
  for (const auto& [id, node] : nodes) {
    if (!node.role.empty()) children[kept_from(nodes, node.parent)].push_back(id);
  }
  ImportedConversation conversation;
  std::map<std::string, std::size_t> places{{"", 0}};
  using Waiting = std::pair<std::int64_t, std::string>;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> ready;
  for (const std::string& id : children[""]) ready.emplace(nodes.at(id).created, id);
  while (!ready.empty()) {
    const std::string id = ready.top().second;
    ready.pop();
    const Node& node = nodes.at(id);
    const std::size_t parent = places[kept_from(nodes, node.parent)];
    if (node.role == "system" && parent != 0) {
      places[id] = parent;  // only the first of a branch can be one
    } else {
      conversation.messages.push_back(
          {.parent = parent, .role = node.role, .text = node.text, .created = node.created});
      places[id] = conversation.messages.size();
    }
    for (const std::string& child : children[id]) ready.emplace(nodes.at(child).created, child);
  }
  const auto head = places.find(kept_from(nodes, current));
  conversation.head =
      head != places.end() && head->second != 0 ? head->second : conversation.messages.size();
  return conversation;
}

// "content": {"parts": ["…"]} or {"text": "…"}.
std::string parts_of(const json& message) {
  std::string text;
  const json* content = member(message, "content");
  if (content == nullptr) return text;
  const json* parts = member(*content, "parts");
  if (parts == nullptr || !parts->is_array()) return text;
  for (const json& part : *parts) {
    if (!part.is_string()) continue;
    if (!text.empty()) text += '\n';
    text += part.get<std::string>();
  }
  return text;
}

Nodes nodes_of_chatgpt(const json& mapping, std::int64_t created) {
  Nodes nodes;
  for (const auto& [id, entry] : mapping.items()) {
    Node node{.parent = text_or(entry, "parent"), .created = created};
    const json* message = member(entry, "message");
    if (message != nullptr && message->is_object()) {
      const json* author = member(*message, "author");
      const std::string role = author != nullptr ? text_or(*author, "role") : std::string();
      const json* metadata = member(*message, "metadata");
      const json* hidden =
          metadata != nullptr ? member(*metadata, "is_visually_hidden_from_conversation") : nullptr;
      node.text = parts_of(*message);
      node.created = time_or(*message, "create_time", created);
      if (is_role(role) && !node.text.empty() && (hidden == nullptr || *hidden != true))
        node.role = role;
    }
    nodes[id] = std::move(node);
  }
  return nodes;
}

Nodes nodes_of_open_webui(const json& messages, std::int64_t created) {
  Nodes nodes;
  for (const auto& [id, entry] : messages.items()) {
    Node node{.parent = text_or(entry, "parentId"),
              .text = text_or(entry, "content"),
              .created = time_or(entry, "timestamp", created)};
    const std::string role = text_or(entry, "role");
    if (is_role(role) && !node.text.empty()) node.role = role;
    nodes[id] = std::move(node);
  }
  return nodes;
}

// One chat of either program; nothing if it is none.
std::optional<ImportedConversation> read_chat(const json& entry) {
  const json* chat = member(entry, "chat");
  const json& owui = chat != nullptr ? *chat : entry;
  const json* history = member(owui, "history");
  const json* mapping = member(entry, "mapping");
  const json* messages = history != nullptr ? member(*history, "messages") : nullptr;
  ImportedConversation read;
  std::int64_t created = now_ms();
  if (mapping != nullptr && mapping->is_object()) {
    created = time_or(entry, "create_time", created);
    read = in_order(nodes_of_chatgpt(*mapping, created), text_or(entry, "current_node"));
    read.updated = time_or(entry, "update_time", created);
  } else if (messages != nullptr && messages->is_object()) {
    created = time_or(entry, "created_at", time_or(owui, "timestamp", created));
    read = in_order(nodes_of_open_webui(*messages, created), text_or(*history, "currentId"));
    read.updated = time_or(entry, "updated_at", created);
  } else {
    return std::nullopt;
  }
  read.created = created;
  read.name = text_or(entry, "title", text_or(owui, "title", "imported"));
  return read;
}

}  // namespace

Result<std::vector<ImportedConversation>> read_foreign_chats(const json& root) {
  std::vector<ImportedConversation> chats;
  const auto unknown = [] {
    return fail(ErrorCode::malformed,
                "this is no export of chats of Runnel, ChatGPT or Open WebUI");
  };
  if (!root.is_array() && !root.is_object()) return unknown();
  const json list = root.is_array() ? root : json::array({root});
  for (const json& entry : list) {
    std::optional<ImportedConversation> chat = read_chat(entry);
    if (!chat) return unknown();
    if (!chat->messages.empty()) chats.push_back(*std::move(chat));
  }
  if (chats.empty()) return fail(ErrorCode::malformed, "this export holds no message");
  return chats;
}

}  // namespace runnel
