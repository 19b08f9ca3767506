// SPDX-License-Identifier: Apache-2.0
// The messages of one conversation as a tree with a place where the talk stands. Knows no Qt model.
#pragma once

#include <QHash>
#include <QVector>

#include "app/chat/engine/chat_types.h"

namespace runnel::chat {

/// Tokens that a message takes, about: of English and German text, with what a template writes around it.
qint64 tokensOf(const Message& message);

class MessageTree {
 public:
  void set(const ConversationTree& tree);
  void clear();

  /// Adds a message after one that is there (or at the beginning) and moves the head to it.
  void add(const Message& message);

  bool contains(qint64 id) const { return m_index.contains(id); }
  const Message* find(qint64 id) const;
  Message* find(qint64 id);
  const QVector<Message>& all() const { return m_messages; }  // parents before children

  qint64 head() const { return m_head; }
  void setHead(qint64 id) { m_head = contains(id) ? id : 0; }

  QVector<qint64> pathTo(qint64 id) const;  // from the first message
  qint64 tokensTo(qint64 id) const;         // of all of them, about
  QVector<qint64> childrenOf(qint64 id) const { return m_children.value(id); }
  /// Messages of one speaker at the same place, the message itself among them, oldest first.
  QVector<qint64> alternativesOf(qint64 id) const;
  /// Where one arrives from `id` by taking the newest way at every fork.
  qint64 newestEndOf(qint64 id) const;
  bool isAncestor(qint64 ancestor, qint64 id) const;

 private:
  QVector<Message> m_messages;
  QHash<qint64, qsizetype> m_index;           // id → place in m_messages
  QHash<qint64, QVector<qint64>> m_children;  // 0: first messages
  qint64 m_head = 0;
};

}  // namespace runnel::chat
