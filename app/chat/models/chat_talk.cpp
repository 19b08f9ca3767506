// SPDX-License-Identifier: Apache-2.0
// The talk: what is sent, and what the engine tells of the answer.
#include <QCoreApplication>
#include <QFileInfo>
#include <algorithm>
#include <utility>

#include "app/chat/models/chat_model.h"

namespace runnel::chat {
namespace {

constexpr qsizetype kNameLength = 48;  // characters of the first message

QString nameFor(const QString& text) {
  QString line = text.simplified();
  if (line.size() <= kNameLength) return line;
  const qsizetype space = line.lastIndexOf(QLatin1Char(' '), kNameLength);
  return line.left(space > kNameLength / 2 ? space : kNameLength) + QStringLiteral("…");
}

}  // namespace

void ChatModel::begin(AnswerRequest request, const OwnSettings& own,
                      const std::optional<QString>& system) {
  request.ticket = ++m_tickets;
  request.sampling = m_settings.sampling(own.sampling, own.seed);
  request.maxTokens = own.maxTokens > 0 ? own.maxTokens : m_settings.maxTokens;
  request.form = own.form;
  request.remind = m_settings.remind;
  if (request.conversation == 0) {
    if (request.name.isEmpty()) request.name = nameFor(request.text);
    request.system = system.value_or(m_settings.systemPrompt);
  }
  m_turn = {.ticket = request.ticket,
            .conversation = request.conversation,
            .after = request.after,
            .said = request.text,
            .here = m_conversation == 0,
            .act = request.act,
            .fromDraft = request.fromDraft,
            .own = own};
  Q_EMIT modelWanted();  // a model that is loaded first answers
  m_engine.answer(request);
  Q_EMIT stateChanged();
  if (!turnIsHere() || turnIsAside()) return;
  showPath();
  Q_EMIT bringIntoView(m_messages.rowCount() - 1);
}

bool ChatModel::queued() const {
  return std::any_of(m_queue.cbegin(), m_queue.cend(),
                     [this](const Queued& q) { return q.conversation == m_conversation; });
}

bool ChatModel::send() {
  const QString text = draft().trimmed();
  if (text.isEmpty() || turnIsHere() || queued()) return false;
  if (busy()) {
    saveDraft();
    m_queue.push_back({m_conversation, m_tree.head(), m_own.own(), m_system});
    Q_EMIT stateChanged();
    return true;
  }
  m_drafts.take(m_conversation);
  Q_EMIT draftChanged();
  begin({.conversation = m_conversation, .after = m_tree.head(), .text = text, .fromDraft = true});
  return true;
}

void ChatModel::unqueue() {
  m_queue.removeIf([this](const Queued& q) { return q.conversation == m_conversation; });
  Q_EMIT stateChanged();
}

void ChatModel::sendQueued() {
  while (!busy() && !m_queue.isEmpty()) {
    const Queued next = m_queue.takeFirst();
    if (next.conversation == m_conversation) {
      send();
      continue;
    }
    const QString text = m_drafts.take(next.conversation).trimmed();
    if (text.isEmpty()) continue;
    begin({.conversation = next.conversation, .after = next.after, .text = text, .fromDraft = true},
          next.own, next.system);
  }
}

void ChatModel::stop() {
  if (!turnIsHere()) return;
  m_turn.state = Stopping;
  m_engine.stop();
  Q_EMIT stateChanged();
}

void ChatModel::regenerate(qint64 answer) {
  const Message* message = m_tree.find(answer);
  if (busy() || message == nullptr || message->role != QStringLiteral("assistant")) return;
  begin({.conversation = m_conversation, .after = message->parent});
}

void ChatModel::resume(qint64 answer) {
  const Message* message = m_tree.find(answer);
  if (busy() || message == nullptr || message->complete || answer != m_tree.head()) return;
  begin({.conversation = m_conversation, .after = answer, .act = Act::Resume});
}

void ChatModel::editAnswer(qint64 answer, const QString& text) {
  const Message* old = m_tree.find(answer);
  if (busy() || old == nullptr || old->role != QStringLiteral("assistant") ||
      text.trimmed().isEmpty() || text == old->text)
    return;
  begin({.conversation = m_conversation, .after = old->parent, .text = text, .act = Act::Write});
}

bool ChatModel::tryThree(qint64 message) {
  const Message* found = m_tree.find(message);
  if (busy() || found == nullptr || found->role == QStringLiteral("system")) return false;
  m_triedAfter = found->role == QStringLiteral("user") ? message : found->parent;
  m_tries = {QString(), QString(), QString()};
  Q_EMIT aside();
  begin({.conversation = m_conversation,
         .after = m_triedAfter,
         .act = Act::Try,
         .head = m_tree.head()});
  return true;
}

void ChatModel::keepTry(int which) {
  const QString text = m_tries.value(which);
  if (busy() || text.trimmed().isEmpty() || !m_tree.contains(m_triedAfter)) return;
  begin({.conversation = m_conversation, .after = m_triedAfter, .text = text, .act = Act::Write});
}

bool ChatModel::readDocument(const QString& file, const QString& text) {
  if (busy()) return false;
  startNew();
  begin({.text = text,
         .name = QCoreApplication::translate("Runnel", "After %1").arg(QFileInfo(file).fileName()),
         .act = Act::Read});
  return true;
}

bool ChatModel::beginFrom(qint64 message) {
  const Message* place = m_tree.find(message);
  if (busy() || place == nullptr) return false;
  m_engine.beginFrom(m_conversation, message, place->name.isEmpty() ? m_title : place->name);
  return true;
}

bool ChatModel::askAside(const QString& question) {
  if (busy() || m_conversation == 0 || question.trimmed().isEmpty()) return false;
  m_told.clear();
  Q_EMIT aside();
  begin({.conversation = m_conversation,
         .after = m_tree.head(),
         .text = question.trimmed(),
         .act = Act::Ask,
         .head = m_tree.head()});
  return true;
}

void ChatModel::answerAgain() {
  if (!busy() && unanswered()) begin({.conversation = m_conversation, .after = m_tree.head()});
}

void ChatModel::answerLastAgain() {
  if (unanswered()) {
    answerAgain();
  } else {
    regenerate(m_tree.head());
  }
}

void ChatModel::edit(qint64 message, const QString& text) {
  const Message* old = m_tree.find(message);
  if (busy() || old == nullptr || old->role != QStringLiteral("user") || text.trimmed().isEmpty())
    return;
  begin({.conversation = m_conversation, .after = old->parent, .text = text.trimmed()});
}

void ChatModel::onUserSaved(quint64 ticket, qint64 conversation, const Message& message) {
  if (ticket != m_turn.ticket) return;
  const bool here = turnIsHere();
  const bool made = m_turn.conversation == 0;
  m_turn.conversation = conversation;
  m_turn.after = message.id;
  m_turn.said.clear();
  // What was chosen for a new chat, also while the message was being stored.
  const QString own = (here ? m_own.own() : m_turn.own).toJson();
  if (made && !own.isEmpty()) m_engine.setSettings(conversation, own);
  if (here) {
    if (made) {
      if (m_chosen.conversation == 0) m_chosen.conversation = conversation;
      m_conversation = conversation;
      m_system.reset();
      m_title = nameFor(message.text);
      m_settings.remember(QStringLiteral("conversation"), conversation);
      m_drafts.move(0, conversation);
      Q_EMIT conversationChanged();
      Q_EMIT titleChanged();
      // A system prompt was stored before it; the tree comes with it.
      if (message.parent != 0) m_engine.readTree(conversation);
    }
    m_tree.add(message);
    showPath();
  }
  if (made) Q_EMIT libraryChanged();
}

void ChatModel::writingBegan() {
  if (m_turn.state != Waiting && m_turn.state != Reading) return;
  m_turn.state = Writing;
  Q_EMIT stateChanged();
}

void ChatModel::onThought(quint64 ticket, const QString& piece) {
  if (ticket != m_turn.ticket) return;
  if (!m_turn.thinking.isValid()) m_turn.thinking.start();
  m_turn.thought += piece;
  writingBegan();
  if (turnIsHere() && !turnIsAside()) m_messages.setThought(m_turn.thought, 0);
}

void ChatModel::onText(quint64 ticket, const QString& piece) {
  if (ticket != m_turn.ticket) return;
  const bool thought = m_turn.written.isEmpty() && m_turn.thinking.isValid();
  m_turn.written += piece;
  writingBegan();
  if (thought) {
    m_turn.thoughtMs = m_turn.thinking.elapsed();
    if (turnIsHere() && !turnIsAside()) m_messages.setThought(m_turn.thought, m_turn.thoughtMs);
  }
  if (m_turn.act == Act::Ask) {
    m_told += piece;
    Q_EMIT aside();
  } else if (turnIsHere()) {
    m_messages.appendText(piece);
  }
}

void ChatModel::endTurn() {
  m_turn = {};
  Q_EMIT stateChanged();
  Q_EMIT modelWanted();
}

void ChatModel::onAnswered(quint64 ticket, const AnswerReport& report) {
  if (ticket != m_turn.ticket) return;
  constexpr qint64 kEnoughToTell = 64;  // tokens
  const qint64 read = report.read + report.again + report.relaid;
  if (read >= kEnoughToTell && report.firstTokenMs > 0) {
    m_readRate = static_cast<double>(read) * 1000.0 / report.firstTokenMs;
    m_settings.remember(QStringLiteral("readRate"), qRound(m_readRate));
  }
  if (turnIsAside()) {
    if (m_turn.act == Act::Try) m_tries = report.tries;
    endTurn();
    Q_EMIT aside();
    sendQueued();
    return;
  }
  const bool here = turnIsHere();
  if (report.answer.id != 0 && report.position > 0)
    m_counted.insert(report.answer.id, report.position);
  if (here) {
    if (Message* known = m_tree.find(report.answer.id); known != nullptr) {
      *known = report.answer;  // it went on
    } else if (report.answer.id != 0) {
      m_tree.add(report.answer);
    } else {
      m_tree.setHead(report.answer.parent);
    }
    for (const qint64 id : report.instant) {
      if (Message* saved = m_tree.find(id); saved != nullptr) saved->instant = true;
    }
    if (m_turn.act != Act::Write) m_last = report;
  }
  endTurn();
  if (here) {
    showPath();
    Q_EMIT statisticsChanged();
    Q_EMIT answered(report.answer.text);
  }
  if (!report.warning.isEmpty()) Q_EMIT warned(report.warning);
  Q_EMIT libraryChanged();
  sendQueued();
}

void ChatModel::onFailed(quint64 ticket, const Problem& problem) {
  if (ticket != m_turn.ticket) return;
  const bool here = turnIsHere();
  const Turn turn = std::exchange(m_turn, {});
  endTurn();
  // What was not stored goes back to where it was typed.
  const bool typed = turn.act == Act::Answer || turn.act == Act::Write;
  if (typed && !turn.said.isEmpty()) {
    m_drafts.giveBack(turn.conversation, turn.said);
    Q_EMIT draftChanged();
  }
  if (here) {
    showPath();
    reload();
  }
  if (problem.code != ErrorCode::cancelled) Q_EMIT failed(problem);
  sendQueued();
}

}  // namespace runnel::chat
