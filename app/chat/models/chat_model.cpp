// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/chat_model.h"

#include <utility>

namespace runnel::chat {
namespace {

constexpr qsizetype kNameLength = 48;  // characters of the first message

QString nameFor(const QString& text) {
  const QString line = text.simplified();
  if (line.size() <= kNameLength) return line;
  const qsizetype space = line.lastIndexOf(QLatin1Char(' '), kNameLength);
  return line.left(space > kNameLength / 2 ? space : kNameLength) + QStringLiteral("…");
}

}  // namespace

ChatModel::ChatModel(ChatEngine& engine, Settings& settings, QObject* parent)
    : QObject(parent), m_engine(engine), m_settings(settings), m_draft(settings.draft(0)) {
  connect(&engine, &ChatEngine::treeRead, this, &ChatModel::onTree);
  connect(&engine, &ChatEngine::userSaved, this, &ChatModel::onUserSaved);
  connect(&engine, &ChatEngine::textWritten, this, &ChatModel::onText);
  connect(&engine, &ChatEngine::answered, this, &ChatModel::onAnswered);
  connect(&engine, &ChatEngine::answerFailed, this, &ChatModel::onFailed);
  connect(&engine, &ChatEngine::reading, this, [this](quint64 ticket, qint64 done, qint64 total) {
    if (ticket != m_turn.ticket) return;
    if (m_turn.state == Waiting) m_turn.state = Reading;
    m_turn.done = done;
    m_turn.total = total;
    Q_EMIT stateChanged();
  });
}

bool ChatModel::turnIsHere() const {
  if (m_turn.ticket == 0) return false;
  return m_turn.conversation != 0 ? m_turn.conversation == m_conversation
                                  : m_turn.here && m_conversation == 0;
}

ChatModel::State ChatModel::state() const { return turnIsHere() ? m_turn.state : Idle; }

double ChatModel::readingProgress() const {
  return m_turn.total > 0 ? static_cast<double>(m_turn.done) / static_cast<double>(m_turn.total)
                          : 0.0;
}

void ChatModel::setDraft(const QString& text) {
  if (text == m_draft) return;
  m_draft = text;
  m_settings.setDraft(m_conversation, text);
  Q_EMIT draftChanged();
}

// Opening and showing

void ChatModel::switchTo(qint64 conversation) {
  m_conversation = conversation;
  if (m_turn.ticket != 0 && m_turn.conversation == 0) m_turn.here = false;
  m_draft = m_settings.draft(conversation);
  m_last = {};
  m_settings.remember(QStringLiteral("conversation"), conversation);
  Q_EMIT conversationChanged();
  Q_EMIT draftChanged();
  Q_EMIT statisticsChanged();
  Q_EMIT stateChanged();
}

void ChatModel::open(qint64 conversation, qint64 message) {
  m_wanted = message;
  if (conversation == m_conversation && conversation != 0) {
    if (message != 0) showMessage(message);
    return;
  }
  switchTo(conversation);
  m_tree.clear();
  m_engine.readTree(conversation);
}

void ChatModel::startNew() {
  switchTo(0);
  m_tree.clear();
  m_title.clear();
  Q_EMIT titleChanged();
  showPath();
}

void ChatModel::reload() {
  if (m_conversation != 0) m_engine.readTree(m_conversation);
}

void ChatModel::forget() {
  if (turnIsHere()) stop();
  startNew();
}

void ChatModel::onTree(const ConversationTree& tree) {
  if (tree.id != m_conversation) return;
  const bool first = m_tree.all().isEmpty();
  m_tree.set(tree);
  if (m_title != tree.name) {
    m_title = tree.name;
    Q_EMIT titleChanged();
  }
  if (m_wanted != 0) {
    const qint64 wanted = std::exchange(m_wanted, 0);
    showPath();
    showMessage(wanted);
    return;
  }
  showPath();
  if (first) Q_EMIT opened();
}

void ChatModel::showPath() {
  QVector<MessageRow> rows;
  const bool here = turnIsHere();
  for (const qint64 id : m_tree.pathTo(here ? m_turn.after : m_tree.head())) {
    const QVector<qint64> alternatives = m_tree.alternativesOf(id);
    rows.push_back({.message = *m_tree.find(id),
                    .alternative = static_cast<int>(alternatives.indexOf(id)),
                    .alternatives = static_cast<int>(alternatives.size())});
  }
  if (here) {
    if (!m_turn.said.isEmpty())
      rows.push_back({.message = {.role = QStringLiteral("user"), .text = m_turn.said}});
    rows.push_back({.message = {.role = QStringLiteral("assistant"), .text = m_turn.written},
                    .writing = true});
  }
  m_messages.setRows(rows);
  m_timeline.show(m_tree);
  Q_EMIT pathChanged();
}

bool ChatModel::wentBack() const {
  return !turnIsHere() && !m_tree.childrenOf(m_tree.head()).isEmpty();
}

bool ChatModel::unanswered() const {
  const Message* head = m_tree.find(m_tree.head());
  return !turnIsHere() && head != nullptr && head->role == QStringLiteral("user");
}

bool ChatModel::lengthKnown() const {
  return m_last.position > 0 && m_last.answer.id == m_tree.head();
}

qint64 ChatModel::length() const {
  if (lengthKnown()) return m_last.position;
  constexpr qint64 kCharactersOfAToken = 4;  // of English and German text, about
  qint64 characters = 0;
  for (const qint64 id : m_tree.pathTo(m_tree.head())) characters += m_tree.find(id)->text.size();
  return (characters + kCharactersOfAToken - 1) / kCharactersOfAToken;
}

// Talking

void ChatModel::begin(qint64 after, const QString& text) {
  m_turn = {.ticket = ++m_tickets, .conversation = m_conversation, .after = after, .said = text};
  AnswerRequest request{.ticket = m_turn.ticket,
                        .conversation = m_conversation,
                        .after = after,
                        .text = text,
                        .sampling = m_settings.sampling(),
                        .maxTokens = m_settings.maxTokens};
  if (m_conversation == 0) {
    request.name = nameFor(text);
    request.system = m_settings.systemPrompt;
  }
  m_engine.answer(request);
  Q_EMIT stateChanged();
  showPath();
  Q_EMIT bringIntoView(m_messages.rowCount() - 1);
}

bool ChatModel::send() {
  const QString text = m_draft.trimmed();
  if (text.isEmpty() || busy()) return false;
  setDraft({});
  begin(m_tree.head(), text);
  return true;
}

void ChatModel::stop() {
  if (!busy()) return;
  m_turn.state = Stopping;
  m_engine.stop();
  Q_EMIT stateChanged();
}

void ChatModel::regenerate(qint64 answer) {
  const Message* message = m_tree.find(answer);
  if (busy() || message == nullptr || message->role != QStringLiteral("assistant")) return;
  begin(message->parent, {});
}

void ChatModel::answerAgain() {
  if (!busy() && unanswered()) begin(m_tree.head(), {});
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
  begin(old->parent, text.trimmed());
}

void ChatModel::onUserSaved(quint64 ticket, qint64 conversation, const Message& message) {
  if (ticket != m_turn.ticket) return;
  const bool here = turnIsHere();
  const bool made = m_turn.conversation == 0;
  m_turn.conversation = conversation;
  m_turn.after = message.id;
  m_turn.said.clear();
  if (here) {
    if (made) {
      m_conversation = conversation;
      m_title = nameFor(message.text);
      m_settings.remember(QStringLiteral("conversation"), conversation);
      m_settings.setDraft(conversation, m_draft);
      m_settings.setDraft(0, {});
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

void ChatModel::onText(quint64 ticket, const QString& piece) {
  if (ticket != m_turn.ticket) return;
  m_turn.written += piece;
  if (m_turn.state == Waiting || m_turn.state == Reading) {
    m_turn.state = Writing;
    Q_EMIT stateChanged();
  }
  if (turnIsHere()) m_messages.appendText(piece);
}

void ChatModel::endTurn() {
  m_turn = {};
  Q_EMIT stateChanged();
}

void ChatModel::onAnswered(quint64 ticket, const AnswerReport& report) {
  if (ticket != m_turn.ticket) return;
  const bool here = turnIsHere();
  if (here) {
    if (report.answer.id != 0) {
      m_tree.add(report.answer);
    } else {
      m_tree.setHead(report.answer.parent);
    }
    m_last = report;
  }
  endTurn();
  if (here) {
    showPath();
    Q_EMIT statisticsChanged();
    Q_EMIT answered(report.answer.text);
  }
  if (!report.warning.isEmpty()) Q_EMIT warned(report.warning);
  Q_EMIT libraryChanged();
}

void ChatModel::onFailed(quint64 ticket, const Problem& problem) {
  if (ticket != m_turn.ticket) return;
  const bool here = turnIsHere();
  const QString said = m_turn.said;
  endTurn();
  if (here) {
    // What was not stored goes back to where it was typed.
    if (!said.isEmpty() && m_draft.isEmpty()) setDraft(said);
    showPath();
    reload();
  }
  if (problem.code != ErrorCode::cancelled) Q_EMIT failed(problem);
}

// Going through the tree

void ChatModel::setHead(qint64 message) {
  if (busy() && turnIsHere()) return;
  m_tree.setHead(message);
  if (m_conversation != 0) m_engine.setHead(m_conversation, message);
  showPath();
}

void ChatModel::rewind(qint64 message) {
  if (!m_tree.contains(message) || (busy() && turnIsHere())) return;
  setHead(message);
  Q_EMIT bringIntoView(m_messages.rowCount() - 1);
}

void ChatModel::returnToEnd() {
  if (busy() && turnIsHere()) return;
  setHead(m_tree.newestEndOf(m_tree.head()));
  Q_EMIT bringIntoView(m_messages.rowCount() - 1);
}

void ChatModel::showMessage(qint64 message) {
  if (!m_tree.contains(message)) return;
  if (!m_tree.isAncestor(message, m_tree.head())) setHead(m_tree.newestEndOf(message));
  Q_EMIT bringIntoView(m_messages.rowOf(message));
}

void ChatModel::showAlternative(qint64 message, int step) {
  const QVector<qint64> alternatives = m_tree.alternativesOf(message);
  const qsizetype at = alternatives.indexOf(message) + step;
  if (at < 0 || at >= alternatives.size() || (busy() && turnIsHere())) return;
  setHead(m_tree.newestEndOf(alternatives.at(at)));
  Q_EMIT bringIntoView(m_messages.rowOf(alternatives.at(at)));
}

void ChatModel::pin(qint64 message, bool pinned) {
  Message* found = m_tree.find(message);
  if (found == nullptr) return;
  found->pinned = pinned;
  m_engine.pinMessage(message, pinned);
  showPath();
}

void ChatModel::nameMessage(qint64 message, const QString& name) {
  Message* found = m_tree.find(message);
  if (found == nullptr) return;
  found->name = name.simplified();
  m_engine.nameMessage(message, found->name);
  showPath();
}

void ChatModel::deleteFrom(qint64 message) {
  if (!m_tree.contains(message) || (busy() && turnIsHere())) return;
  m_engine.deleteFrom(m_conversation, message);  // the tree comes back without it
}

QString ChatModel::textOf(qint64 message) const {
  const Message* found = m_tree.find(message);
  return found == nullptr ? QString() : found->text;
}

qint64 ChatModel::lastWithAlternatives() const {
  const QVector<qint64> path = m_tree.pathTo(m_tree.head());
  for (auto id = path.crbegin(); id != path.crend(); ++id) {
    if (m_tree.alternativesOf(*id).size() > 1) return *id;
  }
  return 0;
}

QVariantList ChatModel::alternativesOf(qint64 message) const {
  QVariantList list;
  for (const qint64 id : m_tree.alternativesOf(message)) {
    list.push_back(QVariantMap{{QStringLiteral("id"), id},
                               {QStringLiteral("text"), m_tree.find(id)->text},
                               {QStringLiteral("shown"), m_tree.isAncestor(id, m_tree.head())},
                               {QStringLiteral("number"), list.size() + 1}});
  }
  return list;
}

}  // namespace runnel::chat
