// SPDX-License-Identifier: Apache-2.0
// The messages in view: the way from the first message to where the talk stands, and the answer
// that is being written.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QAbstractListModel>

#include "app/chat/engine/chat_types.h"

namespace runnel::chat {

struct MessageRow {
  Message message;       // id 0: not stored yet
  int alternative = 0;   // which of them this is, from 0
  int alternatives = 1;  // messages of the same speaker at this place
  bool writing = false;  // text is still coming
};

class MessageModel : public QAbstractListModel {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.chat has it")
  Q_PROPERTY(int count READ rowCount NOTIFY countChanged)

 public:
  enum Role {
    IdRole = Qt::UserRole + 1,
    SpeakerRole,
    TextRole,
    NameRole,
    CreatedRole,
    CompleteRole,
    CutRole,  // "", "stopped", "length"
    PinnedRole,
    AlternativeRole,
    AlternativesRole,
    WritingRole,
    LastRole,
    ThoughtRole,
    ThoughtMsRole,
    QuotedRole  // [{message, text}]
  };
  Q_ENUM(Role)

  using QAbstractListModel::QAbstractListModel;

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QHash<int, QByteArray> roleNames() const override;

  /// Shows `rows`. What stays is changed in place, so that the view neither jumps nor flickers.
  void setRows(const QVector<MessageRow>& rows);
  void appendText(const QString& piece);  // to the last row
  void setThought(const QString& thought, qint64 ms);
  const MessageRow* row(int index) const;
  Q_INVOKABLE int rowOf(qint64 id) const;

 Q_SIGNALS:
  void countChanged();

 private:
  QVector<MessageRow> m_rows;
};

}  // namespace runnel::chat
