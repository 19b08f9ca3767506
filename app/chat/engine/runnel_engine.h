// SPDX-License-Identifier: Apache-2.0
// The engine of the app: two threads, one that computes and one that keeps the library.
#pragma once

#include <QDeadlineTimer>
#include <QThread>
#include <filesystem>
#include <stop_token>

#include "app/chat/engine/chat_engine.h"

namespace runnel::chat {

class GenerationWorker;
class LibraryWorker;

class RunnelEngine : public ChatEngine {
  Q_OBJECT

 public:
  RunnelEngine(std::filesystem::path library, quint64 budgetBytes, QObject* parent = nullptr);
  ~RunnelEngine() override;

  /// Stops what runs and ends the threads: after this it takes no more calls. What the library was asked for is done;
  /// text of an answer is stored.
  /// @return false if something still computes at `until`; the process can end all the same, nothing would be lost.
  bool leave(QDeadlineTimer until);

  void loadModel(const QString& file, const QString& device, int threads, int window) override;
  void cancelLoading() override;
  void inspect(const QString& file) override;
  void listDevices() override;
  void answer(const AnswerRequest& request) override;
  void stop() override;
  void check(const ReplyForm& form) override;
  void listConversations() override;
  void readTree(qint64 conversation) override;
  void search(const QString& query) override;
  void rename(qint64 conversation, const QString& name) override;
  void pinConversation(qint64 conversation, bool pinned) override;
  void setHead(qint64 conversation, qint64 message) override;
  void pinMessage(qint64 message, bool pinned) override;
  void nameMessage(qint64 message, const QString& name) override;
  void deleteConversation(qint64 conversation) override;
  void deleteFrom(qint64 conversation, qint64 message) override;
  void undoDelete(qint64 conversation, qint64 trash) override;
  void listTrash() override;
  void forgetTrash(qint64 trash) override;
  void setSettings(qint64 conversation, const QString& json) override;
  void beginAgain(qint64 conversation, qint64 leaf, const QString& system) override;
  void addFolder(const QString& name, qint64 conversation) override;
  void renameFolder(qint64 folder, const QString& name) override;
  void foldFolder(qint64 folder, bool folded) override;
  void removeFolder(qint64 folder) override;
  void putIntoFolder(qint64 conversation, qint64 folder) override;
  void setDraft(qint64 conversation, const QString& text) override;
  void readDrafts(const QHash<qint64, QString>& older) override;
  void replaceLibrary(Replace how) override;
  void exportTo(qint64 conversation, const QString& file) override;
  void importFrom(const QString& file) override;
  void savePlace(qint64 conversation, qint64 message, const QString& file) override;
  void openPlace(const QString& file) override;
  void beginFrom(qint64 conversation, qint64 message, const QString& name) override;
  void measureStore() override;
  void setBudget(quint64 bytes) override;

 private:
  template <class Call>
  void inLibrary(Call call);

  bool m_left = false;  // the library's thread has ended
  QThread m_generationThread;
  QThread m_libraryThread;
  GenerationWorker* m_generation;  // belong to their threads
  LibraryWorker* m_library;
  // One source per request: a stop can neither be lost nor hit the next one.
  std::stop_source m_loading{std::nostopstate};
  std::stop_source m_answering{std::nostopstate};
};

}  // namespace runnel::chat
