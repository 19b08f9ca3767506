// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/folder_model.h"

#include <QDir>
#include <QPromise>
#include <QThreadPool>
#include <algorithm>
#include <memory>

namespace runnel::chat {
namespace {

QVector<FolderEntry> read(const QString& folder, const QStringList& patterns, bool foldersOnly) {
  QDir::Filters filters = QDir::AllDirs | QDir::NoDotAndDotDot;
  if (!foldersOnly) filters |= QDir::Files;
  QVector<FolderEntry> entries;
  for (const QFileInfo& info : QDir(folder).entryInfoList(
           patterns, filters, QDir::Name | QDir::IgnoreCase | QDir::DirsFirst))
    entries.push_back({.name = info.fileName(),
                       .path = info.absoluteFilePath(),
                       .folder = info.isDir(),
                       .bytes = info.isDir() ? 0 : info.size()});
  return entries;
}

}  // namespace

FolderModel::FolderModel(QObject* parent) : QAbstractListModel(parent) {
  connect(&m_reading, &QFutureWatcherBase::finished, this, [this] {
    if (m_reading.future().resultCount() == 0) return;
    replace(m_reading.result(), true);
    Q_EMIT listed();
  });
}

int FolderModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_entries.size());
}

QHash<int, QByteArray> FolderModel::roleNames() const {
  return {{NameRole, "fileName"},
          {PathRole, "filePath"},
          {FolderRole, "fileIsDir"},
          {BytesRole, "fileSize"}};
}

QVariant FolderModel::data(const QModelIndex& index, int role) const {
  if (index.row() < 0 || index.row() >= m_entries.size()) return {};
  const FolderEntry& entry = m_entries.at(index.row());
  switch (role) {
    case NameRole:
    case Qt::DisplayRole:
      return entry.name;
    case PathRole:
      return entry.path;
    case FolderRole:
      return entry.folder;
    case BytesRole:
      return static_cast<double>(entry.bytes);
    default:
      return {};
  }
}

void FolderModel::open(const QString& folder) {
  replace({}, false);  // nobody shall click what is of another folder
  const auto promise = std::make_shared<QPromise<QVector<FolderEntry>>>();
  m_reading.setFuture(promise->future());  // what is still read for another one is dropped
  promise->start();
  QThreadPool::globalInstance()->start(
      [promise, folder, patterns = m_patterns, foldersOnly = m_foldersOnly] {
        promise->addResult(read(folder, patterns, foldersOnly));
        promise->finish();
      });
}

int FolderModel::rowOf(const QString& path) const {
  const auto found = std::find_if(m_entries.cbegin(), m_entries.cend(),
                                  [&](const FolderEntry& entry) { return entry.path == path; });
  return found == m_entries.cend() ? -1 : static_cast<int>(found - m_entries.cbegin());
}

QStringList FolderModel::names() const {
  QStringList names;
  for (const FolderEntry& entry : m_entries) names.push_back(entry.name);
  return names;
}

int FolderModel::find(const QString& letters, int row) const {
  const int count = rowCount();
  for (int i = 0; i < count; ++i) {
    const int at = (std::max(row, 0) + i) % count;
    if (m_entries.at(at).name.startsWith(letters, Qt::CaseInsensitive)) return at;
  }
  return -1;
}

void FolderModel::replace(const QVector<FolderEntry>& entries, bool ready) {
  beginResetModel();
  m_entries = entries;
  endResetModel();
  if (m_ready == ready) return;
  m_ready = ready;
  Q_EMIT readyChanged();
}

}  // namespace runnel::chat
