// SPDX-License-Identifier: Apache-2.0
// Shows going back and branching on a chat that is made for it: three steps, each done by the user.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QObject>
#include <QString>

#include "app/chat/models/chat_model.h"
#include "app/chat/models/library_model.h"

namespace runnel::chat {

class Tour : public QObject {
  Q_OBJECT
  QML_ELEMENT
  QML_UNCREATABLE("App.tour is it")
  Q_PROPERTY(Stage stage READ stage NOTIFY changed)
  Q_PROPERTY(bool active READ active NOTIFY changed)
  Q_PROPERTY(int step READ step NOTIFY changed)  // 1 to 3
  // True at the first start, until it was taken or refused.
  Q_PROPERTY(bool offered READ offered NOTIFY changed)
  Q_PROPERTY(qint64 place READ place NOTIFY changed)  // the message to go to now; 0: none

 public:
  enum Stage {
    Off,
    Ask,       // 1: a first question,
    AskMore,   // and a second
    GoBack,    // 2: to the first answer,
    AskOther,  // to ask something else
    Return,    // 3: to the first branch
    Done       // the chat is kept or deleted
  };
  Q_ENUM(Stage)

  Tour(ChatModel& chat, LibraryModel& library, Settings& settings, QObject* parent = nullptr);

  Stage stage() const { return m_stage; }
  bool active() const { return m_stage != Off; }
  int step() const { return m_stage <= AskMore ? 1 : m_stage <= AskOther ? 2 : 3; }
  bool offered() const;
  qint64 place() const;

  Q_INVOKABLE void begin();       // in a new chat
  Q_INVOKABLE void leave();       // its chat stays
  Q_INVOKABLE void removeChat();  // into "Recently deleted", and leave
  Q_INVOKABLE void refuse();      // it is not offered any more

 Q_SIGNALS:
  void changed();

 private:
  void look();
  void goOn(Stage stage, const QString& draft = {});
  void onConversation();

  ChatModel& m_chat;
  LibraryModel& m_library;
  Settings& m_settings;
  Stage m_stage = Off;
  qint64 m_conversation = 0;
  qint64 m_firstAnswer = 0;
  qint64 m_firstEnd = 0;  // of the branch that was left
  QString m_draft;        // what it wrote into the field
};

}  // namespace runnel::chat
