// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/chat_model.h"

#include <QCoreApplication>
#include <QFile>
#include <QFileInfo>
#include <algorithm>
#include <cmath>
#include <utility>

namespace runnel::chat {
namespace {

/// A prompt that nobody would write by hand: it is shown in part, and not edited.
constexpr qsizetype kLongestPrompt = 20'000;  // characters

}  // namespace

ChatModel::ChatModel(ChatEngine& engine, Settings& settings, QObject* parent)
    : QObject(parent),
      m_engine(engine),
      m_settings(settings),
      m_drafts(engine),
      m_own(settings),
      m_readRate(settings.recall(QStringLiteral("readRate"), 0).toDouble()) {
  connect(&m_drafts, &Drafts::read, this, &ChatModel::draftChanged);
  connect(&engine, &ChatEngine::conversationGone, this, [this](qint64 conversation) {
    if (conversation == m_conversation) forget();
  });
  connect(&engine, &ChatEngine::treeRead, this, &ChatModel::onTree);
  connect(&engine, &ChatEngine::userSaved, this, &ChatModel::onUserSaved);
  connect(&engine, &ChatEngine::reminded, this, [this](quint64, const Message& question) {
    Message* known = m_tree.find(question.id);
    if (known == nullptr) return;  // of another chat
    known->quoted = question.quoted;
    showPath();
  });
  connect(&engine, &ChatEngine::textWritten, this, &ChatModel::onText);
  connect(&engine, &ChatEngine::thoughtWritten, this, &ChatModel::onThought);
  connect(&engine, &ChatEngine::tryWritten, this,
          [this](quint64 ticket, int which, const QString& piece) {
            if (ticket != m_turn.ticket || which < 0 || which >= m_tries.size()) return;
            writingBegan();
            m_tries[which] += piece;
            Q_EMIT aside();
          });
  connect(&engine, &ChatEngine::refused, this, &ChatModel::onRefused);
  connect(&engine, &ChatEngine::conversationsListed, this,
          [this](const QVector<ConversationRow>& rows) {
            for (const ConversationRow& row : rows) {
              if (row.id != m_conversation || row.name == m_title) continue;
              m_title = row.name;
              Q_EMIT titleChanged();
            }
          });
  constexpr int kKeepMs = 400;
  m_keeping.setSingleShot(true);
  m_keeping.setInterval(kKeepMs);
  connect(&m_keeping, &QTimer::timeout, this, &ChatModel::saveOwn);
  connect(&m_own, &ChatSettings::chosen, this, [this] {
    if (!m_keeping.isActive()) m_keeping.start();
    for (Queued& queued : m_queue) {
      if (queued.conversation == m_conversation) queued.own = m_own.own();
    }
    Q_EMIT modelWanted();
  });
  connect(&m_own, &ChatSettings::changed, this, &ChatModel::answerFormChanged);
  connect(&settings, &Settings::changed, this, &ChatModel::pathChanged);  // the system prompt
  connect(&engine, &ChatEngine::libraryReplaced, this, &ChatModel::onReplaced);
  connect(&engine, &ChatEngine::modelLoaded, this, [this] {
    m_counted.clear();  // it counts otherwise
    Q_EMIT pathChanged();
  });
  connect(&engine, &ChatEngine::answered, this, &ChatModel::onAnswered);
  connect(&engine, &ChatEngine::answerFailed, this, &ChatModel::onFailed);
  connect(&engine, &ChatEngine::reading, this, [this](quint64 ticket, qint64 done, qint64 total) {
    if (ticket != m_turn.ticket) return;
    if (m_turn.state == Waiting) m_turn.state = Reading;
    if (!m_turn.reading.isValid() || done < m_turn.done) {
      m_turn.reading.start();
      m_turn.before = done;
    }
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

int ChatModel::secondsLeft() const {
  const qint64 read = m_turn.done - m_turn.before;
  if (!m_turn.reading.isValid() || read <= 0) return -1;
  const double seconds = static_cast<double>(m_turn.reading.elapsed()) / 1000.0;
  return static_cast<int>(std::ceil(seconds * static_cast<double>(m_turn.total - m_turn.done) /
                                    static_cast<double>(read)));
}

void ChatModel::setDraft(const QString& text) {
  if (text == draft()) return;
  m_drafts.set(m_conversation, text);
  Q_EMIT draftChanged();
}

void ChatModel::saveDraft() {
  if (m_keeping.isActive()) saveOwn();
  m_drafts.save();
}

QString ChatModel::editOf(qint64 message) const {
  return message > 0 ? m_drafts.of(-message) : QString();
}

void ChatModel::keepEdit(qint64 message, const QString& text) {
  if (message > 0 && text != editOf(message)) m_drafts.set(-message, text);
}

void ChatModel::saveOwn() {
  m_keeping.stop();
  if (m_conversation != 0) m_engine.setSettings(m_conversation, m_own.own().toJson());
}

// Opening and showing

void ChatModel::switchTo(qint64 conversation) {
  saveDraft();
  m_conversation = conversation;
  m_back.clear();
  m_forward.clear();
  if (m_turn.ticket != 0 && m_turn.conversation == 0) m_turn.here = false;
  m_last = {};
  const auto queue = std::find_if(m_queue.cbegin(), m_queue.cend(),
                                  [&](const Queued& q) { return q.conversation == conversation; });
  m_own.show(queue != m_queue.cend() ? queue->own : OwnSettings());  // until its tree comes
  m_ownKnown = conversation == 0;
  m_system = queue != m_queue.cend() ? queue->system : std::nullopt;
  m_settings.remember(QStringLiteral("conversation"), conversation);
  Q_EMIT conversationChanged();
  Q_EMIT draftChanged();
  Q_EMIT statisticsChanged();
  Q_EMIT stateChanged();
}

void ChatModel::open(qint64 conversation, qint64 message) {
  m_wanted = message;
  if (conversation == m_conversation && conversation != 0) {
    if (message != 0) lookFor(message);
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
  Q_EMIT modelWanted();
}

void ChatModel::reload() {
  if (m_conversation != 0) m_engine.readTree(m_conversation);
}

void ChatModel::reloadInPlace() {
  if (turnIsHere()) return;  // what it writes is seen at its end
  m_keepsHead = true;
  reload();
}

void ChatModel::onReplaced(const Replaced& replaced) {
  m_counted.clear();
  if (replaced.how != Replace::Anew) {
    reloadInPlace();
    return;
  }
  // What these numbers stand for is gone. What was typed stays with who typed it.
  QStringList typed{m_turn.said, draft()};
  for (const Queued& queued : std::as_const(m_queue)) {
    if (queued.conversation != m_conversation) typed += m_drafts.of(queued.conversation);
  }
  typed.removeIf([](const QString& text) { return text.trimmed().isEmpty(); });
  m_queue.clear();
  if (busy()) {
    m_engine.stop();
    endTurn();
  }
  m_keeping.stop();
  m_drafts.forgetAllBut(typed.join(QStringLiteral("\n\n")));
  startNew();
}

void ChatModel::forget() {
  if (turnIsHere()) stop();
  startNew();
}

void ChatModel::onTree(const ConversationTree& tree) {
  if (tree.id != m_conversation) return;
  const bool first = m_tree.all().isEmpty();
  const bool wasEnd = m_tree.childrenOf(m_tree.head()).isEmpty();
  const qint64 before = m_tree.head();
  m_tree.set(tree);
  if (!m_keeping.isActive()) showOwn(OwnSettings::from(tree.settings));
  if (std::exchange(m_keepsHead, false) && m_tree.contains(before)) {
    // Who stood at an end goes on with what another window said there.
    m_tree.setHead(wasEnd ? m_tree.newestEndOf(before) : before);
  }
  if (m_title != tree.name) {
    m_title = tree.name;
    Q_EMIT titleChanged();
  }
  if (m_wanted != 0) {
    const qint64 wanted = std::exchange(m_wanted, 0);
    showPath();
    lookFor(wanted);
    return;
  }
  showPath();
  if (first) Q_EMIT opened();
}

void ChatModel::showPath() {
  QVector<MessageRow> rows;
  const bool here = turnIsHere() && !turnIsAside();
  const bool resumes = here && m_turn.act == Act::Resume;
  for (const qint64 id : m_tree.pathTo(here ? m_turn.after : m_tree.head())) {
    const QVector<qint64> alternatives = m_tree.alternativesOf(id);
    rows.push_back({.message = *m_tree.find(id),
                    .alternative = static_cast<int>(alternatives.indexOf(id)),
                    .alternatives = static_cast<int>(alternatives.size())});
  }
  if (resumes && !rows.isEmpty()) {
    rows.last().message.text += m_turn.written;
    if (!m_turn.thought.isEmpty()) {
      rows.last().message.thought = m_turn.thought;
      rows.last().message.thoughtMs = m_turn.thoughtMs;
    }
    rows.last().writing = true;
  } else if (here && m_turn.act == Act::Write) {
    rows.push_back({.message = {.role = QStringLiteral("assistant"), .text = m_turn.said}});
  } else if (here) {
    if (!m_turn.said.isEmpty())
      rows.push_back({.message = {.role = QStringLiteral("user"), .text = m_turn.said}});
    rows.push_back({.message = {.role = QStringLiteral("assistant"),
                                .text = m_turn.written,
                                .thought = m_turn.thought,
                                .thoughtMs = m_turn.thoughtMs},
                    .writing = true});
  }
  m_messages.setRows(rows);
  m_timeline.show(m_tree);
  Q_EMIT pathChanged();
}

bool ChatModel::wentBack() const {
  return (!turnIsHere() || turnIsAside()) && !m_tree.childrenOf(m_tree.head()).isEmpty();
}

bool ChatModel::unanswered() const {
  const Message* head = m_tree.find(m_tree.head());
  return !turnIsHere() && head != nullptr && head->role == QStringLiteral("user");
}

bool ChatModel::lengthKnown() const { return m_counted.contains(m_tree.head()); }

qint64 ChatModel::length() const {
  return lengthKnown() ? m_counted.value(m_tree.head()) : m_tree.tokensTo(m_tree.head());
}

// What a chat has of its own

void ChatModel::showOwn(const OwnSettings& own) {
  m_own.show(own);
  m_ownKnown = true;
  Q_EMIT modelWanted();
}

void ChatModel::keepOwn(qint64 conversation, const OwnSettings& own) {
  for (Queued& queued : m_queue) {
    if (queued.conversation == conversation) queued.own = own;
  }
  if (conversation == m_conversation) {
    m_keeping.stop();
    m_own.show(own);
    Q_EMIT modelWanted();
  }
  if (conversation != 0) m_engine.setSettings(conversation, own.toJson());
}

void ChatModel::setForm(const ReplyForm& form) {
  const OwnSettings before = m_own.own();
  if (form == before.form) return;
  m_chosen = {.conversation = m_conversation, .form = form, .before = before};
  OwnSettings own = before;
  own.form = form;
  keepOwn(m_conversation, own);
  if (form.kind != ReplyForm::Free) m_engine.check(form);
}

void ChatModel::onRefused(const ReplyForm& form, const Problem& problem) {
  if (form == m_chosen.before.form) m_chosen.before.form = {};
  if (form == m_chosen.form) {
    const Chosen chosen = std::exchange(m_chosen, {});
    OwnSettings own = chosen.conversation == m_conversation ? m_own.own() : chosen.before;
    own.form = chosen.before.form;
    keepOwn(chosen.conversation, own);
  }
  Q_EMIT failed(problem);
}

void ChatModel::answerBySchema(const QString& file) {
  constexpr qint64 kMostBytes = (1 << 20) + 1;  // one more than the library takes: it says so
  QFile source(file);
  if (!source.open(QIODevice::ReadOnly)) {
    Q_EMIT failed({.code = ErrorCode::io,
                   .message = source.errorString(),
                   .about = About::Form,
                   .file = QFileInfo(file).fileName()});
    return;
  }
  setForm({.kind = ReplyForm::Schema,
           .name = QFileInfo(file).fileName(),
           .schema = QString::fromUtf8(source.read(kMostBytes))});
}

QVector<qint64> ChatModel::answersInView() const {
  QVector<qint64> answers;
  for (const qint64 id : m_tree.pathTo(m_tree.head())) {
    if (m_tree.find(id)->role == QStringLiteral("assistant")) answers.push_back(id);
  }
  return answers;
}

QString ChatModel::systemPrompt() const {
  if (m_conversation == 0) return m_system.value_or(m_settings.systemPrompt);
  const QVector<qint64> path = m_tree.pathTo(m_tree.head());
  const Message* first = path.isEmpty() ? nullptr : m_tree.find(path.first());
  if (first == nullptr || first->role != QStringLiteral("system")) return {};
  return first->text.left(kLongestPrompt);
}

bool ChatModel::beginsWithDocument() const {
  const QVector<qint64> path = m_tree.pathTo(m_tree.head());
  const Message* first = path.isEmpty() ? nullptr : m_tree.find(path.first());
  return first != nullptr && first->role == QStringLiteral("system") &&
         (!first->name.isEmpty() || first->text.size() > kLongestPrompt);
}

bool ChatModel::setSystemPrompt(const QString& text) {
  if (text == systemPrompt() || turnIsHere() || beginsWithDocument()) return false;
  if (m_conversation == 0) {
    m_system = text;
    Q_EMIT pathChanged();
  } else {
    m_engine.beginAgain(m_conversation, m_tree.head(), text);
  }
  return true;
}

// Going through the tree

void ChatModel::moved() {
  m_back.push_back(m_tree.head());
  m_forward.clear();
}

void ChatModel::goBack() {
  if (m_back.isEmpty() || turnIsHere()) return;
  const qint64 to = m_back.takeLast();
  m_forward.push_back(m_tree.head());
  m_tree.setHead(to);
  if (m_conversation != 0) m_engine.setHead(m_conversation, m_tree.head());
  showPath();
  Q_EMIT bringIntoView(m_messages.rowCount() - 1);
}

void ChatModel::goForward() {
  if (m_forward.isEmpty() || turnIsHere()) return;
  const qint64 to = m_forward.takeLast();
  m_back.push_back(m_tree.head());
  m_tree.setHead(to);
  if (m_conversation != 0) m_engine.setHead(m_conversation, m_tree.head());
  showPath();
  Q_EMIT bringIntoView(m_messages.rowCount() - 1);
}

bool ChatModel::look(qint64 message) {
  const int row = m_messages.rowOf(message);
  if (row < 0) return false;
  Q_EMIT bringIntoView(row);
  return true;
}

void ChatModel::lookFor(qint64 message) {
  if (!look(message) && m_tree.contains(message)) Q_EMIT foundBeside(message);
}

void ChatModel::setHead(qint64 message) {
  if (busy() && turnIsHere()) return;
  if (message != m_tree.head()) moved();
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

QVariantMap ChatModel::whatGoes(qint64 message) const {
  int messages = 0;
  int branches = 0;
  int pinned = 0;
  for (const Message& m : m_tree.all()) {
    if (m.id != message && (m.id < message || !m_tree.isAncestor(message, m.id))) continue;
    ++messages;
    if (m_tree.childrenOf(m.id).isEmpty()) ++branches;
    if (m.pinned) ++pinned;
  }
  return {{QStringLiteral("messages"), messages},
          {QStringLiteral("branches"), branches},
          {QStringLiteral("pinned"), pinned}};
}

double ChatModel::secondsFor(qint64 tokens) const {
  return m_readRate > 0 ? static_cast<double>(tokens) / m_readRate : 0.0;
}

QString ChatModel::roleOf(qint64 message) const {
  const Message* found = m_tree.find(message);
  return found == nullptr ? QString() : found->role;
}

QString ChatModel::textOf(qint64 message) const {
  const Message* found = m_tree.find(message);
  return found == nullptr ? QString() : found->text;
}

QString ChatModel::thoughtOf(qint64 message) const {
  const Message* found = m_tree.find(message);
  return found == nullptr ? QString() : found->thought;
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
