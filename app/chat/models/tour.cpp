// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/tour.h"

#include <QCoreApplication>

namespace runnel::chat {
namespace {

constexpr int kLongestAnswer = 96;  // tokens: a tour does not wait for a long one

QString words(const char* text) { return QCoreApplication::translate("Tour", text); }

}  // namespace

Tour::Tour(ChatModel& chat, LibraryModel& library, Settings& settings, QObject* parent)
    : QObject(parent), m_chat(chat), m_library(library), m_settings(settings) {
  connect(&chat, &ChatModel::conversationChanged, this, &Tour::onConversation);
  connect(&chat, &ChatModel::pathChanged, this, &Tour::look);
  connect(&chat, &ChatModel::stateChanged, this, &Tour::look);
  connect(&library, &LibraryModel::countChanged, this, &Tour::changed);
}

bool Tour::offered() const {
  return !active() && m_library.ready() && !m_library.searching() && m_library.rowCount() == 0 &&
         !m_settings.recall(QStringLiteral("tour"), false).toBool();
}

qint64 Tour::place() const {
  if (m_stage == GoBack) return m_firstAnswer;
  return m_stage == Return ? m_firstEnd : 0;
}

void Tour::begin() {
  m_conversation = m_firstAnswer = m_firstEnd = 0;
  m_stage = Off;  // a chat that is left now is of no tour
  m_chat.startNew();
  m_chat.setSystemPrompt(words(QT_TRANSLATE_NOOP("Tour", "Answer in one short sentence.")));
  m_chat.own()->chooseMaxTokens(kLongestAnswer);
  goOn(Ask, words(QT_TRANSLATE_NOOP("Tour", "Suggest a name for a small boat.")));
}

void Tour::goOn(Stage stage, const QString& draft) {
  m_stage = stage;
  m_draft = draft;
  if (!draft.isEmpty()) m_chat.setDraft(draft);
  Q_EMIT changed();
}

void Tour::onConversation() {
  if (!active()) return;
  const qint64 now = m_chat.conversation();
  if (m_conversation == 0 && now != 0 && m_chat.state() != ChatModel::Idle) {
    m_conversation = now;  // its first message is stored
    m_library.rename(now, words(QT_TRANSLATE_NOOP("Tour", "A short tour")));
  } else if (now != m_conversation) {
    leave();
  }
}

void Tour::look() {
  if (!active() || m_conversation == 0 || m_chat.conversation() != m_conversation ||
      m_chat.state() != ChatModel::Idle)
    return;
  const QVector<qint64> answers = m_chat.answersInView();
  const qint64 end = answers.isEmpty() ? 0 : answers.last();
  switch (m_stage) {
    case Ask:
      if (answers.size() != 1) return;
      m_firstAnswer = end;
      return goOn(AskMore, words(QT_TRANSLATE_NOOP("Tour", "Which colour suits it?")));
    case AskMore:
      if (answers.size() != 2) return;
      m_firstEnd = end;
      return goOn(GoBack);
    case GoBack:
      if (m_chat.head() != m_firstAnswer) return;
      return goOn(AskOther, words(QT_TRANSLATE_NOOP("Tour", "What should I take along on it?")));
    case AskOther:
      if (answers.size() != 2 || end == m_firstEnd) return;
      return goOn(Return);
    case Return:
      if (m_chat.head() == m_firstEnd) goOn(Done);
      return;
    case Off:
    case Done:
      return;
  }
}

void Tour::leave() {
  if (!active()) return;
  // What the user typed stays.
  if (!m_draft.isEmpty() && m_chat.draft() == m_draft) m_chat.setDraft({});
  refuse();
}

void Tour::refuse() {
  m_settings.remember(QStringLiteral("tour"), true);
  goOn(Off);
}

void Tour::removeChat() {
  const qint64 conversation = m_conversation;
  leave();
  if (conversation != 0) m_library.remove(conversation);
}

}  // namespace runnel::chat
