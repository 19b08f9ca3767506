// SPDX-License-Identifier: Apache-2.0
// The conversation as a rail: every message in the order of time, every way the talk took a lane.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QAbstractListModel>
#include <QDate>
#include <QSet>
#include <QVariantList>

#include "app/chat/models/message_tree.h"

namespace runnel::chat {

class TimelineModel : public QAbstractListModel {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.chat has it")
  Q_PROPERTY(int count READ rowCount NOTIFY changed)
  Q_PROPERTY(int lanes READ lanes NOTIFY changed)
  Q_PROPERTY(int headRow READ headRow NOTIFY changed)
  Q_PROPERTY(qint64 headMessage READ headMessage NOTIFY changed)

 public:
  enum Role {
    IdRole = Qt::UserRole + 1,
    SpeakerRole,
    ExcerptRole,
    NameRole,
    PinnedRole,
    LaneRole,
    OnPathRole,    // on the way that is in view
    HeadRole,      // where the talk stands
    DayRole,       // of the first row of a day: the day; else invalid
    CostRole,      // tokens to read for going there, about; 0: none
    HiddenRole,    // messages of this branch that are folded away
    FoldableRole,  // a branch beside the way in view begins here, with more messages
    LinesRole,     // list of {lane, up, down, upOnPath, downOnPath}
    TurnsRole      // list of {to, onPath}: lanes that begin here
  };
  Q_ENUM(Role)

  using QAbstractListModel::QAbstractListModel;

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QHash<int, QByteArray> roleNames() const override;

  /// Branches beside the way in view that have three messages and more are folded to their first, until unfolded.
  void show(const MessageTree& tree);
  /// Tokens to read there, about; 0: instant.
  Q_INVOKABLE qint64 costOf(double message) const {
    return m_costs.value(static_cast<qint64>(message));
  }
  Q_INVOKABLE void toggleFold(qint64 message);  // of the branch that begins there
  int lanes() const { return m_lanes; }
  int headRow() const { return m_headRow; }
  qint64 headMessage() const { return m_tree.head(); }

 Q_SIGNALS:
  void changed();

 private:
  struct Line {
    bool up = false;
    bool down = false;
    bool upOnPath = false;
    bool downOnPath = false;
    bool operator==(const Line&) const = default;
  };
  struct Turn {
    int to = 0;
    bool onPath = false;
    bool operator==(const Turn&) const = default;
  };
  struct Row {
    qint64 id = 0;
    QString speaker;
    QString excerpt;
    QString name;
    bool pinned = false;
    int lane = 0;
    bool onPath = false;
    bool head = false;
    QDate day;  // null: the same as above
    qint64 cost = 0;
    int hidden = 0;
    bool foldable = false;
    QVector<Line> lines;  // by lane
    QVector<Turn> turns;
    bool operator==(const Row&) const = default;
  };

  QVector<Row> layOut(const MessageTree& tree, int& lanes);

  MessageTree m_tree;
  QHash<qint64, qint64> m_costs;  // of each place, also where it is folded
  QSet<qint64> m_toggled;  // first messages of branches that are not as they would be by themselves
  QVector<Row> m_rows;
  int m_lanes = 1;
  int m_headRow = -1;
};

}  // namespace runnel::chat
