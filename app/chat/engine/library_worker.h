// SPDX-License-Identifier: Apache-2.0
// Everything the app asks of stored conversations and of model files. Lives in a thread of its own,
// so that lists and searches do not wait for an answer that is being written.
#pragma once

#include <QHash>
#include <QObject>
#include <QTimer>
#include <chrono>
#include <memory>
#include <optional>

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
  void listTrash();
  void forgetTrash(qint64 trash);
  void setSettings(qint64 conversation, const QString& json);
  void beginAgain(qint64 conversation, qint64 leaf, const QString& system);
  void addFolder(const QString& name, qint64 conversation);
  void renameFolder(qint64 folder, const QString& name);
  void foldFolder(qint64 folder, bool folded);
  void removeFolder(qint64 folder);
  void putIntoFolder(qint64 conversation, qint64 folder);
  void setDraft(qint64 conversation, const QString& text);
  void readDrafts(const QHash<qint64, QString>& older);
  void replaceLibrary(Replace how);
  /// Stores what `request` says. @return what is left of it, nothing if that is all or failed.
  std::optional<AnswerRequest> store(const AnswerRequest& request);
  /// Looks twice a second whether somebody else has written, and now and then what was deleted 30 days ago: often, since
  /// a machine that sleeps does not count the hours.
  void watch(std::chrono::milliseconds forgetEvery = std::chrono::hours(1));
  void exportTo(qint64 conversation, const QString& file);
  void importFrom(const QString& file);
  void measure();
  void setBudget(quint64 bytes);
  void inspect(const QString& file);
  void listDevices();

 Q_SIGNALS:
  void foldersListed(const QVector<runnel::chat::FolderRow>& rows);
  void folderAdded(qint64 folder);
  void conversationsListed(const QVector<runnel::chat::ConversationRow>& rows);
  void treeRead(const runnel::chat::ConversationTree& tree);
  void searched(const QString& query, const QVector<runnel::chat::SearchResult>& results);
  void deleted(qint64 conversation, qint64 message, qint64 trash);
  void undone(qint64 conversation);
  void trashListed(const QVector<runnel::chat::DeletedRow>& rows);
  void draftsRead(const QHash<qint64, QString>& drafts);
  void changedElsewhere();
  void conversationGone(qint64 conversation);
  void libraryReplaced(const runnel::chat::Replaced& replaced);
  void userSaved(quint64 ticket, qint64 conversation, const runnel::chat::Message& message);
  void answered(quint64 ticket, const runnel::chat::AnswerReport& report);
  void answerFailed(quint64 ticket, const runnel::chat::Problem& problem);
  void exported(const QString& file);
  void imported(qint64 conversation, int chats);
  void storeMeasured(const runnel::chat::StoreNumbers& numbers);
  void inspected(const runnel::chat::ModelFacts& facts);
  void devicesListed(const QVector<runnel::chat::Device>& devices);
  void failed(const runnel::chat::Problem& problem);

 private:
  /// Runs `use(store)`; what fails becomes failed().
  template <class Use>
  void with(const Use& use, About about = About::Library, const QString& file = {});
  QString libraryFile() const;
  /// The library, or an error if another program put another one in its place in which ids are others'.
  Result<ConversationStore> current();
  void look();
  void forgetOld();

  std::shared_ptr<SharedStore> m_store;
  QTimer* m_watch = nullptr;
  QTimer* m_forget = nullptr;
  qint64 m_version = 0;
  int m_generation = 0;
  QHash<qint64, qint64> m_created;  // when the chats were that were listed last, by id
  bool m_draftFailed = false;       // said once
};

}  // namespace runnel::chat
