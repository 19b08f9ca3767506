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
  /// Whether the loaded model can answer so; refused() comes if not.
  virtual void check(const runnel::chat::ReplyForm& form) = 0;

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
  virtual void listTrash() = 0;
  virtual void forgetTrash(qint64 trash) = 0;  // for good; 0: what was deleted 30 days ago
  /// Keeps a conversation's own settings, a JSON object; empty: none.
  virtual void setSettings(qint64 conversation, const QString& json) = 0;
  /// Says the branch up to `leaf` again under another system prompt, as a new branch; the tree comes with it.
  virtual void beginAgain(qint64 conversation, qint64 leaf, const QString& system) = 0;
  // Folders of conversations.
  virtual void addFolder(const QString& name, qint64 conversation) = 0;  // put into it; 0: none
  virtual void renameFolder(qint64 folder, const QString& name) = 0;
  virtual void foldFolder(qint64 folder, bool folded) = 0;
  virtual void removeFolder(qint64 folder) = 0;  // its conversations stay
  virtual void putIntoFolder(qint64 conversation, qint64 folder) = 0;
  /// Keeps what was typed; empty: forgets it. `conversation` 0: of the chat not begun yet.
  virtual void setDraft(qint64 conversation, const QString& text) = 0;
  /// Takes over drafts from where they were kept before, then gives all of them.
  virtual void readDrafts(const QHash<qint64, QString>& older) = 0;
  /// Another library instead of this one, whose file is kept. Where it lies nothing can be written, the new one is made
  /// among the user's own files, else among temporary ones.
  virtual void replaceLibrary(runnel::chat::Replace how) = 0;
  virtual void exportTo(qint64 conversation, const QString& file) = 0;  // by suffix: .md, .json
  virtual void importFrom(const QString& file) = 0;
  /// A place as one file (.rnlpack), and such a file, or a state to begin from (.snap), as a new conversation.
  virtual void savePlace(qint64 conversation, qint64 message, const QString& file) = 0;
  virtual void openPlace(const QString& file) = 0;
  /// A new conversation that begins with all that was said up to a message; placeOpened() comes.
  virtual void beginFrom(qint64 conversation, qint64 message, const QString& name) = 0;
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
  void reminded(quint64 ticket, const runnel::chat::Message& question);  // has what is read again
  void textWritten(quint64 ticket, const QString& piece);                // at most 30 a second
  void thoughtWritten(quint64 ticket, const QString& piece);             // before the answer
  void tryWritten(quint64 ticket, int which, const QString& piece);      // of one of three answers
  void answered(quint64 ticket, const runnel::chat::AnswerReport& report);
  void answerFailed(quint64 ticket, const runnel::chat::Problem& problem);

  void refused(const runnel::chat::ReplyForm& form, const runnel::chat::Problem& problem);

  void foldersListed(const QVector<runnel::chat::FolderRow>& rows);  // before the conversations
  void folderAdded(qint64 folder);
  void conversationsListed(const QVector<runnel::chat::ConversationRow>& rows);
  void treeRead(const runnel::chat::ConversationTree& tree);
  void searched(const QString& query, const QVector<runnel::chat::SearchResult>& results);
  void deleted(qint64 conversation, qint64 message, qint64 trash);  // message 0: all of it
  void undone(qint64 conversation);
  void trashListed(const QVector<runnel::chat::DeletedRow>& rows);  // the newest first
  void draftsRead(const QHash<qint64, QString>& drafts);
  void changedElsewhere();                     // another program wrote to the library
  void conversationGone(qint64 conversation);  // it was to be read and is not there
  void libraryReplaced(const runnel::chat::Replaced& replaced);
  void exported(const QString& file);
  void imported(qint64 conversation, int chats);  // the last of them
  /// @param toRead  tokens, about: of another model's place, which is read when the talk goes on; 0: it goes on at once
  void placeOpened(qint64 conversation, qint64 toRead);
  void storeMeasured(const runnel::chat::StoreNumbers& numbers);
  void libraryFailed(const runnel::chat::Problem& problem);
};

}  // namespace runnel::chat
