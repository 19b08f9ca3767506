// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/timeline_model.h"

#include <QSet>
#include <algorithm>

namespace runnel::chat {
namespace {

constexpr qsizetype kExcerptLength = 90;  // characters; a rail shows fewer

QString excerptOf(const QString& text) { return text.left(kExcerptLength).simplified(); }

}  // namespace

int TimelineModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

QHash<int, QByteArray> TimelineModel::roleNames() const {
  return {{IdRole, "messageId"},  {SpeakerRole, "speaker"}, {ExcerptRole, "excerpt"},
          {NameRole, "name"},     {PinnedRole, "pinned"},   {LaneRole, "lane"},
          {OnPathRole, "onPath"}, {HeadRole, "head"},       {LinesRole, "lines"},
          {TurnsRole, "turns"}};
}

QVariant TimelineModel::data(const QModelIndex& index, int role) const {
  if (index.row() < 0 || index.row() >= m_rows.size()) return {};
  const Row& row = m_rows.at(index.row());
  switch (role) {
    case IdRole:
      return row.id;
    case SpeakerRole:
      return row.speaker;
    case ExcerptRole:
    case Qt::DisplayRole:
      return row.excerpt;
    case NameRole:
      return row.name;
    case PinnedRole:
      return row.pinned;
    case LaneRole:
      return row.lane;
    case OnPathRole:
      return row.onPath;
    case HeadRole:
      return row.head;
    case LinesRole: {
      QVariantList list;
      for (int lane = 0; lane < static_cast<int>(row.lines.size()); ++lane) {
        const Line& line = row.lines.at(lane);
        if (!line.up && !line.down) continue;
        list.push_back(QVariantMap{{QStringLiteral("lane"), lane},
                                   {QStringLiteral("up"), line.up},
                                   {QStringLiteral("down"), line.down},
                                   {QStringLiteral("upOnPath"), line.upOnPath},
                                   {QStringLiteral("downOnPath"), line.downOnPath}});
      }
      return list;
    }
    case TurnsRole: {
      QVariantList list;
      for (const Turn& turn : row.turns) {
        list.push_back(
            QVariantMap{{QStringLiteral("to"), turn.to}, {QStringLiteral("onPath"), turn.onPath}});
      }
      return list;
    }
    default:
      return {};
  }
}

QVector<TimelineModel::Row> TimelineModel::layOut(const MessageTree& tree, int& lanes) {
  const QVector<qint64> path = tree.pathTo(tree.head());
  const QSet<qint64> onPath(path.begin(), path.end());
  QVector<Row> rows;
  QHash<qint64, int> rowOf;
  QHash<qint64, int> continued;  // parent → how many lanes it has led to
  lanes = 0;
  for (const Message& message : tree.all()) {
    if (message.role == QStringLiteral("system")) continue;
    const int at = static_cast<int>(rows.size());
    const auto above = rowOf.constFind(message.parent);
    const bool first = above == rowOf.constEnd();
    const bool goesOn = !first && continued[message.parent]++ == 0;
    const int lane = goesOn ? rows.at(*above).lane : lanes++;
    const bool active = onPath.contains(message.id);
    rows.push_back({.id = message.id,
                    .speaker = message.role,
                    .excerpt = excerptOf(message.text),
                    .name = message.name,
                    .pinned = message.pinned,
                    .lane = lane,
                    .onPath = active,
                    .head = message.id == tree.head()});
    rowOf.insert(message.id, at);
    if (first) continue;
    const auto lineAt = [&rows, lane](int row) -> Line& {
      QVector<Line>& lines = rows[row].lines;
      if (lines.size() <= lane) lines.resize(lane + 1);
      return lines[lane];
    };
    if (!goesOn) rows[*above].turns.push_back({lane, active});
    for (int row = *above; row <= at; ++row) {
      Line& line = lineAt(row);
      if (row > *above) {
        line.up = true;
        line.upOnPath |= active;
      }
      if (row < at) {
        line.down = true;
        line.downOnPath |= active;
      }
    }
  }
  return rows;
}

void TimelineModel::show(const MessageTree& tree) {
  int lanes = 0;
  QVector<Row> rows = layOut(tree, lanes);
  const int common = static_cast<int>(std::min(rows.size(), m_rows.size()));
  const bool other = common > 0 && rows.first().id != m_rows.first().id;
  if (other || rows.isEmpty()) {
    beginResetModel();
    m_rows = std::move(rows);
    endResetModel();
  } else {
    if (m_rows.size() > common) {
      beginRemoveRows({}, common, static_cast<int>(m_rows.size()) - 1);
      m_rows.resize(common);
      endRemoveRows();
    }
    for (int i = 0; i < common; ++i) {
      if (m_rows.at(i) == rows.at(i)) continue;
      m_rows[i] = rows.at(i);
      Q_EMIT dataChanged(index(i), index(i));
    }
    if (rows.size() > common) {
      beginInsertRows({}, common, static_cast<int>(rows.size()) - 1);
      m_rows = std::move(rows);
      endInsertRows();
    }
  }
  m_lanes = std::max(1, lanes);
  m_headRow = -1;
  for (int i = 0; i < static_cast<int>(m_rows.size()); ++i) {
    if (m_rows.at(i).head) m_headRow = i;
  }
  Q_EMIT changed();
}

}  // namespace runnel::chat
