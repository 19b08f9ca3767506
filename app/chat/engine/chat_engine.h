// SPDX-License-Identifier: Apache-2.0
// What the window asks of the engine and what comes back. Nothing here blocks: calls return at
// once, answers come as signals on the caller's thread.
#pragma once

#include <QObject>

#include "app/chat/engine/chat_types.h"

namespace runnel::chat {

class ChatEngine : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

  // Models. A model replaces the one before; a load that fails or is cancelled leaves that one.
  /// @param window  window slots; 0, or no fewer than the file has: all of the file's
  virtual void loadModel(const QString& file, const QString& device, int threads, int window) = 0;
  virtual void cancelLoading() = 0;
  virtual void inspect(const QString& file) = 0;
  virtual void listDevices() = 0;

  // Answers. One at a time; stop() ends the one that runs and keeps what it wrote.
  virtual void answer(const AnswerRequest& request) = 0;
  virtual void stop() = 0;

  // The library of conversations.
  virtual void listConversations() = 0;
  virtual void readTree(qint64 conversation) = 0;
  virtual void search(const QString& query) = 0;
  virtual void rename(qint64 conversation, const QString& name) = 0;
  virtual void pinConversation(qint64 conversation, bool pinned) = 0;
  virtual void setHead(qint64 conversation, qint64 message) = 0;
  virtual void pinMessage(qint64 message, bool pinned) = 0;
  virtual void nameMessage(qint64 message, const QString& name) = 0;
  virtual void deleteConversation(qint64 conversation) = 0;
  virtual void deleteFrom(qint64 conversation, qint64 message) = 0;
  virtual void undoDelete(qint64 conversation, qint64 trash) = 0;
  virtual void emptyTrash() = 0;
  virtual void exportTo(qint64 conversation, const QString& file) = 0;  // by suffix: .md, .json
  virtual void importFrom(const QString& file) = 0;
  virtual void measureStore() = 0;
  virtual void setBudget(quint64 bytes) = 0;

 Q_SIGNALS:
  void loadProgress(double fraction);
  void modelLoaded(const runnel::chat::LoadedModel& model);
  void modelFailed(const runnel::chat::Problem& problem);  // cancelled among them
  void inspected(const runnel::chat::ModelFacts& facts);
  void devicesListed(const QVector<runnel::chat::Device>& devices);

  void reading(quint64 ticket, qint64 done, qint64 total);  // tokens of a message, or again
  void userSaved(quint64 ticket, qint64 conversation, const runnel::chat::Message& message);
  void textWritten(quint64 ticket, const QString& piece);  // at most 30 a second
  void answered(quint64 ticket, const runnel::chat::AnswerReport& report);
  void answerFailed(quint64 ticket, const runnel::chat::Problem& problem);

  void conversationsListed(const QVector<runnel::chat::ConversationRow>& rows);
  void treeRead(const runnel::chat::ConversationTree& tree);
  void searched(const QString& query, const QVector<runnel::chat::SearchResult>& results);
  void deleted(qint64 conversation, qint64 message, qint64 trash);  // message 0: all of it
  void undone(qint64 conversation);
  void exported(const QString& file);
  void imported(qint64 conversation);
  void storeMeasured(const runnel::chat::StoreNumbers& numbers);
  void libraryFailed(const runnel::chat::Problem& problem);
};

}  // namespace runnel::chat
