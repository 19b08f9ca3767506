// SPDX-License-Identifier: Apache-2.0
// The list of conversations, or what a search over all messages found.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QAbstractListModel>
#include <QDir>
#include <QTimer>

#include "app/chat/engine/chat_engine.h"

namespace runnel::chat {

class LibraryModel : public QAbstractListModel {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.library is it")
  Q_PROPERTY(QString query READ query WRITE setQuery NOTIFY queryChanged)
  Q_PROPERTY(bool searching READ searching NOTIFY queryChanged)
  Q_PROPERTY(int count READ rowCount NOTIFY countChanged)
  Q_PROPERTY(bool ready READ ready NOTIFY countChanged)
  Q_PROPERTY(QVariantList folders READ folders NOTIFY countChanged)  // {id, name}
  Q_PROPERTY(QString snapshotBytes READ snapshotBytes NOTIFY measured)
  Q_PROPERTY(QString databaseBytes READ databaseBytes NOTIFY measured)
  Q_PROPERTY(qint64 snapshots READ snapshots NOTIFY measured)

 public:
  enum Role {
    ConversationRole = Qt::UserRole + 1,
    MessageRole,  // 0: the conversation itself, else where the words were found
    NameRole,
    DetailRole,   // when, or the words found as styled text
    SectionRole,  // "pinned", "folders", "today", "week", "older"; "names", "found" in a search
    PinnedRole,
    FolderRole,      // the folder that this is, or that the chat is in; 0: none
    FolderNameRole,  // its name
    FoldedRole,      // of a folder: its chats are not listed
    ChatsRole        // of a folder: how many there are; -1: this is no folder
  };
  Q_ENUM(Role)

  explicit LibraryModel(ChatEngine& engine, QObject* parent = nullptr);

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QHash<int, QByteArray> roleNames() const override;

  QString query() const { return m_query; }
  void setQuery(const QString& query);
  bool searching() const { return !m_query.trimmed().isEmpty(); }
  bool ready() const { return m_ready; }  // the list was read at least once
  QString snapshotBytes() const;
  QString databaseBytes() const;
  qint64 snapshots() const { return static_cast<qint64>(m_numbers.snapshots); }

  Q_INVOKABLE void refresh();
  Q_INVOKABLE void rename(qint64 conversation, const QString& name);
  Q_INVOKABLE void pin(qint64 conversation, bool pinned);
  Q_INVOKABLE void remove(qint64 conversation);
  QVariantList folders() const;
  /// Makes a folder, and puts a chat into it unless `conversation` is 0.
  Q_INVOKABLE void addFolder(const QString& name, qint64 conversation = 0);
  Q_INVOKABLE void renameFolder(qint64 folder, const QString& name);
  Q_INVOKABLE void foldFolder(qint64 folder, bool folded);
  Q_INVOKABLE void removeFolder(qint64 folder);                        // its chats stay
  Q_INVOKABLE void putIntoFolder(qint64 conversation, qint64 folder);  // 0: into none
  Q_INVOKABLE qint64 folderOf(qint64 conversation) const;
  Q_INVOKABLE int rowOfFolder(qint64 folder) const;  // -1: not listed
  /// The folder that row `row` stands for or in; of a row outside of them 0, of none -1.
  Q_INVOKABLE qint64 folderAt(int row) const;
  Q_INVOKABLE void exportTo(qint64 conversation, const QString& file);  // .md or .json
  /// Where an export could go: a name that is free, in the user's documents.
  Q_INVOKABLE QString exportFile(qint64 conversation, bool json) const;
  Q_INVOKABLE bool fileExists(const QString& file) const;
  Q_INVOKABLE void importFrom(const QUrl& file);  // a place, or else chats
  static bool isPlace(const QString& file);       // .rnlpack, or .snap: a state to begin from
  /// Saves a place into `folder`, under a name that is free.
  Q_INVOKABLE void savePlace(qint64 conversation, qint64 message, const QString& folder);
  Q_INVOKABLE void measure();
  Q_INVOKABLE QString nameOf(qint64 conversation) const;

 Q_SIGNALS:
  void queryChanged();
  void countChanged();
  void folderAdded(qint64 folder);  // and listed
  void measured();

 private:
  struct Row {
    qint64 conversation = 0;
    qint64 message = 0;
    QString name;
    QString detail;
    QString section;
    bool pinned = false;
    qint64 folder = 0;
    QString folderName = {};
    bool folded = false;
    int chats = -1;
    bool operator==(const Row&) const = default;
    bool isSame(const Row& other) const {
      return conversation == other.conversation && message == other.message &&
             (conversation != 0 || folder == other.folder);
    }
  };

  void show(QVector<Row> rows);
  QString freeName(const QDir& folder, qint64 conversation, const QString& suffix) const;
  void showConversations();
  QString folderName(qint64 folder) const;

  ChatEngine& m_engine;
  QVector<FolderRow> m_folders;  // by name
  QVector<ConversationRow> m_conversations;
  QVector<Row> m_rows;
  QString m_query;
  QTimer m_typing;
  bool m_ready = false;
  StoreNumbers m_numbers;
};

}  // namespace runnel::chat
