// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/drafts.h"

namespace runnel::chat {

Drafts::Drafts(ChatEngine& engine, QObject* parent) : QObject(parent), m_engine(engine) {
  constexpr int kKeepMs = 400;  // what a crash may cost of what was typed
  m_keeping.setSingleShot(true);
  m_keeping.setInterval(kKeepMs);
  connect(&m_keeping, &QTimer::timeout, this,
          [this] { m_engine.setDraft(m_pending, of(m_pending)); });
  connect(&engine, &ChatEngine::draftsRead, this, &Drafts::onRead);
}

void Drafts::set(qint64 conversation, const QString& text) {
  if (conversation != m_pending) save();
  m_texts.insert(conversation, text);
  m_pending = conversation;
  if (!m_keeping.isActive()) m_keeping.start();
}

void Drafts::save() {
  if (!m_keeping.isActive()) return;  // the library has it
  m_keeping.stop();
  m_engine.setDraft(m_pending, of(m_pending));
}

QString Drafts::take(qint64 conversation) {
  if (conversation == m_pending) m_keeping.stop();
  return m_texts.take(conversation);
}

void Drafts::move(qint64 from, qint64 to) {
  const bool typed = from == m_pending && m_keeping.isActive();
  const QString text = take(from);
  if (text.isEmpty() && !typed) return;
  if (!text.isEmpty()) {
    m_texts.insert(to, text);
    m_engine.setDraft(to, text);
  }
  m_engine.setDraft(from, {});
}

void Drafts::forgetAllBut(const QString& text) {
  m_keeping.stop();
  m_texts.clear();
  if (!text.isEmpty()) set(0, text);
  save();
}

void Drafts::giveBack(qint64 conversation, const QString& said) {
  QString text = of(conversation);
  if (text != said) text = text.trimmed().isEmpty() ? said : said + QStringLiteral("\n\n") + text;
  m_texts.insert(conversation, text);
  if (conversation == m_pending) m_keeping.stop();
  m_engine.setDraft(conversation, text);
}

void Drafts::onRead(const QHash<qint64, QString>& drafts) {
  for (auto draft = drafts.cbegin(); draft != drafts.cend(); ++draft) {
    if (!m_texts.contains(draft.key())) m_texts.insert(draft.key(), *draft);  // typed since
  }
  Q_EMIT read();
}

}  // namespace runnel::chat
