// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/message_tree.h"

#include <algorithm>

namespace runnel::chat {

qint64 tokensOf(const Message& message) {
  constexpr qint64 kCharactersOfAToken = 4;
  constexpr qint64 kOfATurn = 4;
  return message.text.size() / kCharactersOfAToken + kOfATurn;
}

qint64 MessageTree::tokensTo(qint64 id) const {
  qint64 tokens = 0;
  for (const qint64 message : pathTo(id)) tokens += tokensOf(*find(message));
  return tokens;
}

void MessageTree::clear() {
  m_messages.clear();
  m_index.clear();
  m_children.clear();
  m_head = 0;
}

void MessageTree::set(const ConversationTree& tree) {
  clear();
  for (const Message& message : tree.messages) add(message);
  setHead(tree.head);
}

void MessageTree::add(const Message& message) {
  if (contains(message.id)) return;
  m_index.insert(message.id, m_messages.size());
  m_children[message.parent].push_back(message.id);
  m_messages.push_back(message);
  m_head = message.id;
}

const Message* MessageTree::find(qint64 id) const {
  const auto at = m_index.constFind(id);
  return at == m_index.constEnd() ? nullptr : &m_messages.at(*at);
}

Message* MessageTree::find(qint64 id) {
  const auto at = m_index.constFind(id);
  return at == m_index.constEnd() ? nullptr : &m_messages[*at];
}

QVector<qint64> MessageTree::pathTo(qint64 id) const {
  QVector<qint64> path;
  for (const Message* at = find(id); at != nullptr; at = find(at->parent)) path.push_back(at->id);
  std::reverse(path.begin(), path.end());
  return path;
}

QVector<qint64> MessageTree::alternativesOf(qint64 id) const {
  QVector<qint64> same;
  const Message* message = find(id);
  if (message == nullptr) return same;
  for (const qint64 sibling : m_children.value(message->parent)) {
    if (find(sibling)->role == message->role) same.push_back(sibling);
  }
  return same;
}

qint64 MessageTree::newestEndOf(qint64 id) const {
  // The newest end is below the child whose descendants hold the largest id.
  qint64 newest = id;
  for (const Message& message : m_messages) {
    if (message.id > newest && isAncestor(id, message.id)) newest = message.id;
  }
  return newest;
}

bool MessageTree::isAncestor(qint64 ancestor, qint64 id) const {
  if (ancestor == 0) return true;
  // Parents have smaller ids, so the way up ends soon.
  for (const Message* at = find(id); at != nullptr && at->id >= ancestor; at = find(at->parent)) {
    if (at->id == ancestor) return true;
  }
  return false;
}

}  // namespace runnel::chat
