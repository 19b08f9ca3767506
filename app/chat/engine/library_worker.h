// SPDX-License-Identifier: Apache-2.0
// Everything the app asks of stored conversations and of model files. Lives in a thread of its own,
// so that lists and searches do not wait for an answer that is being written.
#pragma once

#include <QObject>
#include <memory>

#include "app/chat/engine/chat_types.h"
#include "app/chat/engine/shared_store.h"

namespace runnel::chat {

class LibraryWorker : public QObject {
  Q_OBJECT

 public:
  explicit LibraryWorker(std::shared_ptr<SharedStore> store) : m_store(std::move(store)) {}

  void list();
  void readTree(qint64 conversation);
  void search(const QString& query);
  void rename(qint64 conversation, const QString& name);
  void pinConversation(qint64 conversation, bool pinned);
  void setHead(qint64 conversation, qint64 message);
  void pinMessage(qint64 id, bool pinned);
  void nameMessage(qint64 id, const QString& name);
  void deleteConversation(qint64 conversation);
  void deleteFrom(qint64 conversation, qint64 id);
  void undoDelete(qint64 conversation, qint64 trash);
  void emptyTrash();
  void exportTo(qint64 conversation, const QString& file);
  void importFrom(const QString& file);
  void measure();
  void setBudget(quint64 bytes);
  void inspect(const QString& file);
  void listDevices();

 Q_SIGNALS:
  void conversationsListed(const QVector<runnel::chat::ConversationRow>& rows);
  void treeRead(const runnel::chat::ConversationTree& tree);
  void searched(const QString& query, const QVector<runnel::chat::SearchResult>& results);
  void deleted(qint64 conversation, qint64 message, qint64 trash);
  void undone(qint64 conversation);
  void exported(const QString& file);
  void imported(qint64 conversation);
  void storeMeasured(const runnel::chat::StoreNumbers& numbers);
  void inspected(const runnel::chat::ModelFacts& facts);
  void devicesListed(const QVector<runnel::chat::Device>& devices);
  void failed(const runnel::chat::Problem& problem);

 private:
  /// Runs `use(store)`; what fails becomes failed().
  template <class Use>
  void with(const Use& use);

  std::shared_ptr<SharedStore> m_store;
};

}  // namespace runnel::chat
