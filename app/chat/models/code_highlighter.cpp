// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/code_highlighter.h"

#include <QSet>

namespace runnel::chat {
namespace {

// At the end of a line.
enum LineState { kPlain, kInBlockComment, kInLongString, kInLongSingleString };

bool isKeyword(const QString& word) {
  static const QSet<QString> words = [] {
    const QString all = QStringLiteral(
        "and as assert async await auto bool break case catch char class const constexpr continue "
        "def default del delete do double elif else end enum except export extends extern false "
        "False final finally float fn for foreach from func function global go goto if impl import "
        "in include int interface is lambda let long match mod module mut namespace new nil None "
        "not null nullptr or override package pass private protected pub public raise return self "
        "short signed sizeof static std string struct super switch template then this throw trait "
        "true True try type typedef typename union unsigned until use using var virtual void "
        "volatile where while with yield select insert update create table values set join on "
        "SELECT INSERT UPDATE CREATE TABLE VALUES SET FROM WHERE JOIN ON INTO ORDER BY GROUP echo "
        "fi done esac local");
    const QStringList list = all.split(u' ');
    return QSet<QString>(list.begin(), list.end());
  }();
  return words.contains(word);
}

bool inWord(QChar c) { return c.isLetterOrNumber() || c == u'_'; }

}  // namespace

CodeHighlighter::CodeHighlighter(QObject* parent) : QSyntaxHighlighter(parent) {
  connect(this, &CodeHighlighter::changed, this, &QSyntaxHighlighter::rehighlight);
}

void CodeHighlighter::setTarget(QQuickTextDocument* target) {
  if (target == m_target) return;
  m_target = target;
  setDocument(target != nullptr ? target->textDocument() : nullptr);
  Q_EMIT changed();
}

bool CodeHighlighter::hashComments() const {
  static const QSet<QString> hash = {QStringLiteral("python"),
                                     QStringLiteral("py"),
                                     QStringLiteral("sh"),
                                     QStringLiteral("bash"),
                                     QStringLiteral("shell"),
                                     QStringLiteral("ruby"),
                                     QStringLiteral("yaml"),
                                     QStringLiteral("toml"),
                                     QStringLiteral("cmake"),
                                     QStringLiteral("r"),
                                     QString()};
  return hash.contains(m_language.toLower());
}

bool CodeHighlighter::slashComments() const { return m_language.isEmpty() || !hashComments(); }

void CodeHighlighter::highlightBlock(const QString& text) {
  setCurrentBlockState(kPlain);
  if (m_language.isEmpty()) return;  // it is often no code
  qsizetype i = 0;
  const auto paint = [this](qsizetype from, qsizetype to, const QColor& colour) {
    setFormat(static_cast<int>(from), static_cast<int>(to - from), colour);
  };
  const auto blockComment = [&](qsizetype from) {
    const qsizetype end = text.indexOf(QStringLiteral("*/"), from);
    if (end < 0) setCurrentBlockState(kInBlockComment);
    const qsizetype to = end < 0 ? text.size() : end + 2;
    paint(from, to, m_comment);
    return to;
  };
  const auto longString = [&](QChar quote, qsizetype from, qsizetype inside) {
    const qsizetype end = text.indexOf(QString(3, quote), inside);
    if (end < 0) setCurrentBlockState(quote == u'"' ? kInLongString : kInLongSingleString);
    const qsizetype to = end < 0 ? text.size() : end + 3;
    paint(from, to, m_string);
    return to;
  };
  switch (previousBlockState()) {
    case kInBlockComment:
      i = blockComment(0);
      break;
    case kInLongString:
      i = longString(u'"', 0, 0);
      break;
    case kInLongSingleString:
      i = longString(u'\'', 0, 0);
      break;
    default:
      break;
  }
  while (i < text.size()) {
    const QChar c = text[i];
    const QStringView rest = QStringView(text).mid(i);
    if ((c == u'#' && hashComments()) || (slashComments() && rest.startsWith(u"//"))) {
      paint(i, text.size(), m_comment);
      return;
    }
    if (slashComments() && rest.startsWith(u"/*")) {
      i = blockComment(i);
    } else if (hashComments() && (rest.startsWith(u"\"\"\"") || rest.startsWith(u"'''"))) {
      i = longString(c, i, i + 3);
    } else if (c == u'"' || c == u'\'') {
      qsizetype end = i + 1;
      while (end < text.size() && text[end] != c) end += text[end] == u'\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      paint(i, end, m_string);
      i = end;
    } else if (c.isDigit()) {
      qsizetype end = i;
      while (end < text.size() && (inWord(text[end]) || text[end] == u'.')) ++end;
      paint(i, end, m_number);
      i = end;
    } else if (inWord(c)) {
      qsizetype end = i;
      while (end < text.size() && inWord(text[end])) ++end;
      if (isKeyword(text.mid(i, end - i))) paint(i, end, m_keyword);
      i = end;
    } else {
      ++i;
    }
  }
}

}  // namespace runnel::chat
