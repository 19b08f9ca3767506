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
  Q_PROPERTY(QString snapshotBytes READ snapshotBytes NOTIFY measured)
  Q_PROPERTY(QString databaseBytes READ databaseBytes NOTIFY measured)
  Q_PROPERTY(qint64 snapshots READ snapshots NOTIFY measured)

 public:
  enum Role {
    ConversationRole = Qt::UserRole + 1,
    MessageRole,  // 0: the conversation itself, else where the words were found
    NameRole,
    DetailRole,   // when, or the words found as styled text
    SectionRole,  // "pinned", "today", "week", "older"; "found" in a search
    PinnedRole
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
  Q_INVOKABLE void exportTo(qint64 conversation, const QString& file);  // .md or .json
  /// Where an export could go: a name that is free, in the user's documents.
  Q_INVOKABLE QString exportFile(qint64 conversation, bool json) const;
  Q_INVOKABLE bool fileExists(const QString& file) const;
  Q_INVOKABLE void importFrom(const QUrl& file);  // .rnlpack: a place; else chats
  /// Saves a place into `folder`, under a name that is free.
  Q_INVOKABLE void savePlace(qint64 conversation, qint64 message, const QString& folder);
  Q_INVOKABLE void measure();
  Q_INVOKABLE QString nameOf(qint64 conversation) const;

 Q_SIGNALS:
  void queryChanged();
  void countChanged();
  void measured();

 private:
  struct Row {
    qint64 conversation = 0;
    qint64 message = 0;
    QString name;
    QString detail;
    QString section;
    bool pinned = false;
    bool operator==(const Row&) const = default;
  };

  void show(QVector<Row> rows);
  QString freeName(const QDir& folder, qint64 conversation, const QString& suffix) const;
  void showConversations();

  ChatEngine& m_engine;
  QVector<ConversationRow> m_conversations;
  QVector<Row> m_rows;
  QString m_query;
  QTimer m_typing;
  bool m_ready = false;
  StoreNumbers m_numbers;
};

}  // namespace runnel::chat
