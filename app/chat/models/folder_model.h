// SPDX-License-Identifier: Apache-2.0
// What a folder holds, for the file picker: folders first, then the files of a kind. The disk is
// read in another thread, so a slow one does not hold the window up; rows come all at once.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QAbstractListModel>
#include <QFutureWatcher>
#include <QStringList>
#include <QVector>

namespace runnel::chat {

struct FolderEntry {
  QString name;
  QString path;
  bool folder = false;
  qint64 bytes = 0;  // of a file
};

class FolderModel : public QAbstractListModel {
  Q_OBJECT
  QML_ELEMENT
  Q_PROPERTY(QStringList patterns MEMBER m_patterns)  // as "*.gguf", of either case
  Q_PROPERTY(bool foldersOnly MEMBER m_foldersOnly)
  Q_PROPERTY(bool ready READ ready NOTIFY readyChanged)  // the rows are those of the folder

 public:
  enum Role { NameRole = Qt::UserRole, PathRole, FolderRole, BytesRole };

  explicit FolderModel(QObject* parent = nullptr);

  bool ready() const { return m_ready; }
  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QHash<int, QByteArray> roleNames() const override;

  /// Begins to read a folder; listed() comes when its rows are here. The last of several calls counts.
  Q_INVOKABLE void open(const QString& folder);
  Q_INVOKABLE int rowOf(const QString& path) const;  // -1: not here
  Q_INVOKABLE QStringList names() const;
  /// The next row from `row` on whose name begins with these letters, around the end; -1: none.
  Q_INVOKABLE int find(const QString& letters, int row) const;

 Q_SIGNALS:
  void readyChanged();
  void listed();

 private:
  void replace(const QVector<FolderEntry>& entries, bool ready);

  QStringList m_patterns = {QStringLiteral("*")};
  bool m_foldersOnly = false;
  bool m_ready = false;
  QVector<FolderEntry> m_entries;
  QFutureWatcher<QVector<FolderEntry>> m_reading;
};

}  // namespace runnel::chat
