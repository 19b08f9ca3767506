// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/library_model.h"

#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QLocale>
#include <QRegularExpression>
#include <QStandardPaths>
#include <QUrl>
#include <algorithm>

namespace runnel::chat {
namespace {

constexpr int kSearchAfterMs = 120;  // of no typing

QString sectionOf(const QDateTime& when, const QDate& today) {
  const qint64 days = when.date().daysTo(today);
  if (days <= 0) return QStringLiteral("today");
  return days < 7 ? QStringLiteral("week") : QStringLiteral("older");
}

QString whenText(const QDateTime& when, const QDate& today) {
  const QLocale locale;
  if (when.date() == today) return locale.toString(when.time(), QLocale::ShortFormat);
  if (when.date().daysTo(today) < 7) return locale.dayName(when.date().dayOfWeek());
  return locale.toString(when.date(), QLocale::ShortFormat);
}

// « » around matches become bold; everything else is shown as it is.
QString styled(const QString& excerpt) {
  QString html = excerpt.simplified().toHtmlEscaped();
  html.replace(QChar(0xAB), QStringLiteral("<b>"));
  html.replace(QChar(0xBB), QStringLiteral("</b>"));
  return html;
}

}  // namespace

LibraryModel::LibraryModel(ChatEngine& engine, QObject* parent)
    : QAbstractListModel(parent), m_engine(engine) {
  m_typing.setSingleShot(true);
  m_typing.setInterval(kSearchAfterMs);
  connect(&m_typing, &QTimer::timeout, this, [this] { m_engine.search(m_query.trimmed()); });
  connect(&engine, &ChatEngine::foldersListed, this,
          [this](const QVector<FolderRow>& rows) { m_folders = rows; });
  connect(&engine, &ChatEngine::folderAdded, this, &LibraryModel::folderAdded);
  connect(&engine, &ChatEngine::conversationsListed, this,
          [this](const QVector<ConversationRow>& rows) {
            m_conversations = rows;
            std::stable_sort(m_conversations.begin(), m_conversations.end(),
                             [](const auto& a, const auto& b) { return a.pinned && !b.pinned; });
            m_ready = true;
            if (searching()) {
              m_engine.search(m_query.trimmed());
            } else {
              showConversations();
            }
          });
  connect(&engine, &ChatEngine::searched, this,
          [this](const QString& query, const QVector<SearchResult>& results) {
            if (query != m_query.trimmed()) return;  // the user typed on
            QVector<Row> rows;
            for (const ConversationRow& c : m_conversations) {
              if (c.name.contains(query, Qt::CaseInsensitive))
                rows.push_back({c.id,
                                0,
                                c.name,
                                {},
                                QStringLiteral("names"),
                                c.pinned,
                                c.folder,
                                folderName(c.folder)});
            }
            for (const SearchResult& hit : results) {
              rows.push_back({hit.conversation, hit.message, hit.name, styled(hit.excerpt),
                              QStringLiteral("found"), false});
            }
            show(rows);
          });
  connect(&engine, &ChatEngine::storeMeasured, this, [this](const StoreNumbers& numbers) {
    m_numbers = numbers;
    Q_EMIT measured();
  });
}

int LibraryModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

QHash<int, QByteArray> LibraryModel::roleNames() const {
  return {{ConversationRole, "conversation"},
          {MessageRole, "message"},
          {NameRole, "name"},
          {DetailRole, "detail"},
          {SectionRole, "section"},
          {PinnedRole, "pinned"},
          {FolderRole, "folder"},
          {FolderNameRole, "folderName"},
          {FoldedRole, "folded"},
          {ChatsRole, "chats"}};
}

QVariant LibraryModel::data(const QModelIndex& index, int role) const {
  if (index.row() < 0 || index.row() >= m_rows.size()) return {};
  const Row& row = m_rows.at(index.row());
  switch (role) {
    case ConversationRole:
      return row.conversation;
    case MessageRole:
      return row.message;
    case NameRole:
    case Qt::DisplayRole:
      return row.name;
    case DetailRole:
      return row.detail;
    case SectionRole:
      return row.section;
    case PinnedRole:
      return row.pinned;
    case FolderRole:
      return row.folder;
    case FolderNameRole:
      return row.folderName;
    case FoldedRole:
      return row.folded;
    case ChatsRole:
      return row.chats;
    default:
      return {};
  }
}

void LibraryModel::setQuery(const QString& query) {
  if (query == m_query) return;
  m_query = query;
  Q_EMIT queryChanged();
  if (searching()) {
    m_typing.start();
  } else {
    m_typing.stop();
    showConversations();
  }
}

QString LibraryModel::folderName(qint64 folder) const {
  for (const FolderRow& f : m_folders) {
    if (f.id == folder) return f.name;
  }
  return {};
}

void LibraryModel::showConversations() {
  const QDate today = QDate::currentDate();
  const auto chat = [&today](const ConversationRow& c) -> Row {
    const QDateTime when = QDateTime::fromMSecsSinceEpoch(c.updated);
    return {c.id,
            0,
            c.name,
            whenText(when, today),
            c.pinned ? QStringLiteral("pinned") : sectionOf(when, today),
            c.pinned};
  };
  QVector<Row> pinned, inFolders, others;
  for (const FolderRow& f : m_folders) {
    const qsizetype at = inFolders.size();
    int chats = 0;
    inFolders.push_back({.name = f.name,
                         .section = QStringLiteral("folders"),
                         .folder = f.id,
                         .folderName = f.name,
                         .folded = f.folded});
    for (const ConversationRow& c : m_conversations) {
      if (c.folder != f.id) continue;
      ++chats;
      if (f.folded) continue;
      Row row = chat(c);
      row.section = QStringLiteral("folders");
      row.folder = f.id;
      row.folderName = f.name;
      inFolders.push_back(row);
    }
    inFolders[at].chats = chats;
  }
  for (const ConversationRow& c : m_conversations) {
    // One whose folder was deleted elsewhere is in none.
    if (c.folder == 0 || folderName(c.folder).isEmpty()) (c.pinned ? pinned : others) << chat(c);
  }
  show(pinned + inFolders + others);
}

void LibraryModel::show(QVector<Row> rows) {
  if (rows == m_rows) {
    Q_EMIT countChanged();  // it may be ready now
    return;
  }
  // What stands before and after the change stays, with its focus and its place on the screen.
  const auto same = [](const Row& a, const Row& b) { return a.isSame(b); };
  const qsizetype before =
      std::mismatch(m_rows.cbegin(), m_rows.cend(), rows.cbegin(), rows.cend(), same).first -
      m_rows.cbegin();
  const qsizetype most = std::min(m_rows.size(), rows.size()) - before;
  qsizetype after = 0;
  while (after < most &&
         m_rows.at(m_rows.size() - 1 - after).isSame(rows.at(rows.size() - 1 - after)))
    ++after;
  const qsizetype gone = m_rows.size() - before - after;
  const qsizetype come = rows.size() - before - after;
  const int at = static_cast<int>(before);
  if (gone > 0) {
    beginRemoveRows({}, at, at + static_cast<int>(gone) - 1);
    m_rows.remove(before, gone);
    endRemoveRows();
  }
  if (come > 0) {
    beginInsertRows({}, at, at + static_cast<int>(come) - 1);
    for (qsizetype i = 0; i < come; ++i) m_rows.insert(before + i, rows.at(before + i));
    endInsertRows();
  }
  m_rows = std::move(rows);
  if (!m_rows.isEmpty()) Q_EMIT dataChanged(index(0), index(static_cast<int>(m_rows.size()) - 1));
  Q_EMIT countChanged();
}

QVariantList LibraryModel::folders() const {
  QVariantList list;
  for (const FolderRow& f : m_folders) {
    list.push_back(QVariantMap{{QStringLiteral("id"), f.id}, {QStringLiteral("name"), f.name}});
  }
  return list;
}

void LibraryModel::addFolder(const QString& name, qint64 conversation) {
  const QString line = name.simplified();
  if (!line.isEmpty()) m_engine.addFolder(line, conversation);
}

void LibraryModel::renameFolder(qint64 folder, const QString& name) {
  const QString line = name.simplified();
  if (!line.isEmpty()) m_engine.renameFolder(folder, line);
}

void LibraryModel::foldFolder(qint64 folder, bool folded) { m_engine.foldFolder(folder, folded); }

void LibraryModel::removeFolder(qint64 folder) { m_engine.removeFolder(folder); }

void LibraryModel::putIntoFolder(qint64 conversation, qint64 folder) {
  if (conversation != 0 && folder != folderOf(conversation))
    m_engine.putIntoFolder(conversation, folder);
}

qint64 LibraryModel::folderOf(qint64 conversation) const {
  for (const ConversationRow& c : m_conversations) {
    if (c.id == conversation) return c.folder;
  }
  return 0;
}

int LibraryModel::rowOfFolder(qint64 folder) const {
  for (int row = 0; row < static_cast<int>(m_rows.size()); ++row) {
    if (m_rows.at(row).chats >= 0 && m_rows.at(row).folder == folder) return row;
  }
  return -1;
}

qint64 LibraryModel::folderAt(int row) const {
  return row >= 0 && row < m_rows.size() ? m_rows.at(row).folder : -1;
}

void LibraryModel::refresh() { m_engine.listConversations(); }
void LibraryModel::measure() { m_engine.measureStore(); }

void LibraryModel::rename(qint64 conversation, const QString& name) {
  const QString line = name.simplified();
  if (!line.isEmpty()) m_engine.rename(conversation, line);
}

void LibraryModel::pin(qint64 conversation, bool pinned) {
  m_engine.pinConversation(conversation, pinned);
}

void LibraryModel::remove(qint64 conversation) { m_engine.deleteConversation(conversation); }

void LibraryModel::exportTo(qint64 conversation, const QString& file) {
  m_engine.exportTo(conversation, file);
}

bool LibraryModel::fileExists(const QString& file) const { return QFileInfo::exists(file); }

QString LibraryModel::exportFile(qint64 conversation, bool json) const {
  QDir folder(QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation));
  if (!folder.exists()) folder = QDir::home();
  return freeName(folder, conversation, json ? QStringLiteral(".json") : QStringLiteral(".md"));
}

QString LibraryModel::freeName(const QDir& folder, qint64 conversation,
                               const QString& suffix) const {
  static const QRegularExpression unfit(QStringLiteral("[^\\p{L}\\p{N}]+"),
                                        QRegularExpression::UseUnicodePropertiesOption);
  QString name = nameOf(conversation).replace(unfit, QStringLiteral("-")).left(60);
  while (name.endsWith(u'-')) name.chop(1);
  if (name.isEmpty()) name = QStringLiteral("chat");
  QString file = folder.filePath(name + suffix);
  for (int n = 2; fileExists(file); ++n)
    file = folder.filePath(QStringLiteral("%1-%2").arg(name).arg(n) + suffix);
  return file;
}

bool LibraryModel::isPlace(const QString& file) {
  return file.endsWith(QStringLiteral(".rnlpack"), Qt::CaseInsensitive) ||
         file.endsWith(QStringLiteral(".snap"), Qt::CaseInsensitive);
}

void LibraryModel::importFrom(const QUrl& file) {
  const QString path = file.isLocalFile() ? file.toLocalFile() : file.toString();
  if (isPlace(path)) {
    m_engine.openPlace(path);
  } else {
    m_engine.importFrom(path);
  }
}

void LibraryModel::savePlace(qint64 conversation, qint64 message, const QString& folder) {
  m_engine.savePlace(conversation, message,
                     freeName(QDir(folder), conversation, QStringLiteral(".rnlpack")));
}

QString LibraryModel::nameOf(qint64 conversation) const {
  for (const ConversationRow& c : m_conversations) {
    if (c.id == conversation) return c.name;
  }
  return {};
}

QString LibraryModel::snapshotBytes() const {
  return QLocale().formattedDataSize(static_cast<qint64>(m_numbers.snapshotBytes), 1,
                                     QLocale::DataSizeSIFormat);
}

QString LibraryModel::databaseBytes() const {
  return QLocale().formattedDataSize(static_cast<qint64>(m_numbers.databaseBytes), 1,
                                     QLocale::DataSizeSIFormat);
}

}  // namespace runnel::chat
