// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/word_marker.h"

#include <QRegularExpression>
#include <QTextDocument>

namespace runnel::chat {
namespace {

const QRegularExpression& word() {
  static const QRegularExpression expression(QStringLiteral("[\\p{L}\\p{N}]+"),
                                             QRegularExpression::UseUnicodePropertiesOption);
  return expression;
}

}  // namespace

QSet<QString> wordsOf(const QString& text) {
  QSet<QString> words;
  for (auto match = word().globalMatch(text); match.hasNext();)
    words.insert(match.next().captured().toLower());
  return words;
}

WordMarker::WordMarker(QObject* parent) : QSyntaxHighlighter(parent) {
  connect(this, &WordMarker::changed, this, &WordMarker::attach);
}

void WordMarker::setTarget(QQuickTextDocument* target) {
  m_target = target;
  Q_EMIT changed();
}

void WordMarker::setOthers(const QStringList& others) {
  m_others = others;
  m_known.clear();
  for (const QString& text : others) m_known += wordsOf(text);
  Q_EMIT changed();
}

void WordMarker::attach() {
  QTextDocument* wanted =
      m_target != nullptr && !m_others.isEmpty() ? m_target->textDocument() : nullptr;
  if (wanted != document()) setDocument(wanted);
  if (wanted != nullptr) rehighlight();
}

void WordMarker::highlightBlock(const QString& text) {
  for (auto match = word().globalMatch(text); match.hasNext();) {
    const QRegularExpressionMatch found = match.next();
    if (m_known.contains(found.captured().toLower())) continue;
    QTextCharFormat format;
    format.setBackground(m_ground);
    setFormat(static_cast<int>(found.capturedStart()), static_cast<int>(found.capturedLength()),
              format);
  }
}

}  // namespace runnel::chat
