// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/message_model.h"

#include <QDateTime>

namespace runnel::chat {
namespace {

// A row that was being sent or written becomes the stored message without leaving its place.
bool samePlace(const MessageRow& a, const MessageRow& b) {
  return a.message.role == b.message.role && (a.message.id == b.message.id || a.message.id == 0);
}

}  // namespace

int MessageModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

QVariant MessageModel::data(const QModelIndex& index, int role) const {
  const MessageRow* found = row(index.row());
  if (found == nullptr) return {};
  switch (role) {
    case IdRole:
      return found->message.id;
    case SpeakerRole:
      return found->message.role;
    case TextRole:
    case Qt::DisplayRole:
      return found->message.text;
    case NameRole:
      return found->message.name;
    case CreatedRole:
      return QDateTime::fromMSecsSinceEpoch(found->message.created);
    case CompleteRole:
      return found->message.complete;
    case CutRole:
      return found->message.cut == Cut::Stopped  ? QStringLiteral("stopped")
             : found->message.cut == Cut::Length ? QStringLiteral("length")
                                                 : QString();
    case PinnedRole:
      return found->message.pinned;
    case AlternativeRole:
      return found->alternative;
    case AlternativesRole:
      return found->alternatives;
    case WritingRole:
      return found->writing;
    case LastRole:
      return index.row() == m_rows.size() - 1;
    case ThoughtRole:
      return found->message.thought;
    case ThoughtMsRole:
      return found->message.thoughtMs;
    case QuotedRole: {
      QVariantList list;
      for (const Quoted& quoted : found->message.quoted) {
        list.push_back(QVariantMap{{QStringLiteral("message"), quoted.message},
                                   {QStringLiteral("text"), quoted.text}});
      }
      return list;
    }
    default:
      return {};
  }
}

QHash<int, QByteArray> MessageModel::roleNames() const {
  return {{IdRole, "messageId"},
          {SpeakerRole, "speaker"},
          {TextRole, "text"},
          {NameRole, "name"},
          {CreatedRole, "created"},
          {CompleteRole, "complete"},
          {CutRole, "cut"},
          {PinnedRole, "pinned"},
          {AlternativeRole, "alternative"},
          {WritingRole, "writing"},
          {AlternativesRole, "alternatives"},
          {LastRole, "last"},
          {ThoughtRole, "thought"},
          {ThoughtMsRole, "thoughtMs"},
          {QuotedRole, "quoted"}};
}

void MessageModel::setRows(const QVector<MessageRow>& rows) {
  const qsizetype before = m_rows.size();
  qsizetype same = 0;
  while (same < before && same < rows.size() && samePlace(m_rows.at(same), rows.at(same))) ++same;
  if (same < before) {
    beginRemoveRows({}, static_cast<int>(same), static_cast<int>(before) - 1);
    m_rows.resize(same);
    endRemoveRows();
  }
  for (qsizetype i = 0; i < same; ++i) m_rows[i] = rows.at(i);
  if (rows.size() > same) {
    beginInsertRows({}, static_cast<int>(same), static_cast<int>(rows.size()) - 1);
    m_rows += rows.mid(same);
    endInsertRows();
  }
  if (same > 0) Q_EMIT dataChanged(index(0), index(static_cast<int>(same) - 1));
  if (before != m_rows.size()) Q_EMIT countChanged();
}

void MessageModel::appendText(const QString& piece) {
  if (m_rows.isEmpty()) return;
  m_rows.last().message.text += piece;
  const QModelIndex last = index(static_cast<int>(m_rows.size()) - 1);
  Q_EMIT dataChanged(last, last, {TextRole});
}

void MessageModel::setThought(const QString& thought, qint64 ms) {
  if (m_rows.isEmpty()) return;
  m_rows.last().message.thought = thought;
  m_rows.last().message.thoughtMs = ms;
  const QModelIndex last = index(static_cast<int>(m_rows.size()) - 1);
  Q_EMIT dataChanged(last, last, {ThoughtRole, ThoughtMsRole});
}

const MessageRow* MessageModel::row(int index) const {
  return index >= 0 && index < m_rows.size() ? &m_rows.at(index) : nullptr;
}

int MessageModel::rowOf(qint64 id) const {
  for (int i = 0; i < static_cast<int>(m_rows.size()); ++i) {
    if (m_rows.at(i).message.id == id) return i;
  }
  return -1;
}

}  // namespace runnel::chat
