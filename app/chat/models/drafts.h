// SPDX-License-Identifier: Apache-2.0
// What was typed and not sent, of every chat; kept in the library while it is typed.
#pragma once

#include <QHash>
#include <QObject>
#include <QTimer>

#include "app/chat/engine/chat_engine.h"

namespace runnel::chat {

/// Chat 0 is the one that is not begun yet; chat -N is what is typed in place of message N.
class Drafts : public QObject {
  Q_OBJECT

 public:
  explicit Drafts(ChatEngine& engine, QObject* parent = nullptr);

  QString of(qint64 conversation) const { return m_texts.value(conversation); }
  /// The library has it soon after, however long the typing goes on without a pause.
  void set(qint64 conversation, const QString& text);
  /// What was typed last goes to the library now.
  void save();
  /// It is being sent: the library forgets it when it has stored the message, not before.
  QString take(qint64 conversation);
  /// The chat was made while something was typed for it.
  void move(qint64 from, qint64 to);
  /// Chats of other numbers are what there is now; `text` was typed for one that is not begun yet.
  void forgetAllBut(const QString& text);
  /// A message that was not stored, before what was typed since.
  void giveBack(qint64 conversation, const QString& said);

 Q_SIGNALS:
  void read();  // from the library

 private:
  void onRead(const QHash<qint64, QString>& drafts);

  ChatEngine& m_engine;
  QHash<qint64, QString> m_texts;
  QTimer m_keeping;      // until the library has what was typed
  qint64 m_pending = 0;  // the chat that it was typed for
};

}  // namespace runnel::chat
