// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/timeline_model.h"

#include <QDateTime>
#include <algorithm>

namespace runnel::chat {
namespace {

constexpr qsizetype kExcerptLength = 90;  // characters; a rail shows fewer

constexpr int kFolded = 3;  // messages of a branch that is folded by itself

QString excerptOf(const QString& text) { return text.left(kExcerptLength).simplified(); }

}  // namespace

int TimelineModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

QHash<int, QByteArray> TimelineModel::roleNames() const {
  return {{IdRole, "messageId"},  {SpeakerRole, "speaker"},  {ExcerptRole, "excerpt"},
          {NameRole, "name"},     {PinnedRole, "pinned"},    {LaneRole, "lane"},
          {OnPathRole, "onPath"}, {HeadRole, "head"},        {LinesRole, "lines"},
          {TurnsRole, "turns"},   {DayRole, "day"},          {CostRole, "cost"},
          {HiddenRole, "hidden"}, {FoldableRole, "foldable"}};
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
    case DayRole:
      return row.day.isValid() ? QVariant(row.day.startOfDay()) : QVariant();
    case CostRole:
      return row.cost;
    case HiddenRole:
      return row.hidden;
    case FoldableRole:
      return row.foldable;
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
  m_costs.clear();
  QHash<qint64, qint64> begins;  // message beside the way in view → the first of its branch
  QHash<qint64, int> sizes;      // of these branches
  for (const Message& message : tree.all()) {
    m_costs[message.id] = message.instant ? 0 : m_costs.value(message.parent) + tokensOf(message);
    if (onPath.contains(message.id)) continue;
    begins[message.id] = begins.value(message.parent, message.id);
    ++sizes[begins[message.id]];
  }
  const auto folded = [&](qint64 first) {
    return (sizes.value(first) >= kFolded) != m_toggled.contains(first);
  };
  QDate day;
  for (const Message& message : tree.all()) {
    // A document that was read has a name; what else begins a chat is no place.
    if (message.role == QStringLiteral("system") && message.name.isEmpty()) continue;
    const qint64 branch = begins.value(message.id);
    if (branch != 0 && branch != message.id && folded(branch)) continue;
    const int at = static_cast<int>(rows.size());
    const int above = rowOf.value(message.parent, -1);
    const bool first = above < 0;
    const bool goesOn = !first && continued[message.parent]++ == 0;
    const int lane = goesOn ? rows.at(above).lane : lanes++;
    const bool active = onPath.contains(message.id);
    rows.push_back({.id = message.id,
                    .speaker = message.role,
                    .excerpt = excerptOf(message.text),
                    .name = message.name,
                    .pinned = message.pinned,
                    .lane = lane,
                    .onPath = active,
                    .head = message.id == tree.head(),
                    .cost = m_costs.value(message.id),
                    .hidden = branch == message.id && folded(branch) ? sizes.value(branch) - 1 : 0,
                    .foldable = branch == message.id && sizes.value(branch) > 1});
    if (message.created > 0) {
      const QDate written = QDateTime::fromMSecsSinceEpoch(message.created).date();
      if (written != day) rows.last().day = day = written;
    }
    rowOf.insert(message.id, at);
    if (first) continue;
    const auto lineAt = [&rows, lane](int row) -> Line& {
      QVector<Line>& lines = rows[row].lines;
      if (lines.size() <= lane) lines.resize(lane + 1);
      return lines[lane];
    };
    if (!goesOn) rows[above].turns.push_back({lane, active});
    for (int row = above; row <= at; ++row) {
      Line& line = lineAt(row);
      if (row > above) {
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

void TimelineModel::toggleFold(qint64 message) {
  if (!m_toggled.remove(message)) m_toggled.insert(message);
  show(MessageTree(m_tree));
}

void TimelineModel::show(const MessageTree& tree) {
  m_tree = tree;
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
