// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/markdown_blocks.h"

#include <QRegularExpression>
#include <algorithm>

#include "app/chat/models/formula.h"

namespace runnel::chat {
namespace {

// "```cpp", "~~~": how a fence begins, else an empty match.
struct Fence {
  QChar mark;
  qsizetype length = 0;
  QString language;
};

Fence fenceOf(QStringView line) {
  qsizetype indent = 0;
  while (indent < line.size() && line[indent] == u' ') ++indent;
  if (indent > 3 || indent == line.size()) return {};
  const QChar mark = line[indent];
  if (mark != u'`' && mark != u'~') return {};
  qsizetype end = indent;
  while (end < line.size() && line[end] == mark) ++end;
  const QString rest = line.mid(end).trimmed().toString();
  if (end - indent < 3 || (mark == u'`' && rest.contains(u'`'))) return {};
  return {mark, end - indent, rest.section(QLatin1Char(' '), 0, 0)};
}

bool beginsListItem(QStringView line) {
  static const QRegularExpression item(QStringLiteral("^\\s*([-*+]|\\d{1,9}[.)])\\s+\\S"));
  return item.match(line.toString()).hasMatch();
}

// How often a line is quoted: "> > x" is 2.
int quotationOf(QStringView line) {
  int depth = 0;
  for (qsizetype at = 0, spaces = 0; at < line.size() && spaces <= 3; ++at) {
    if (line[at] == u'>') {
      ++depth;
      spaces = 0;
    } else if (line[at] == u' ') {
      ++spaces;
    } else {
      break;
    }
  }
  return depth;
}

/// Without as many marks of a quotation.
QStringView unquoted(QStringView line, int depth) {
  while (depth-- > 0) line = line.mid(line.indexOf(u'>') + 1);
  return line;
}

/// Whether a line of a list is quoted in its item, and may be that item's first one.
bool isQuotedInItem(QStringView line) {
  static const QRegularExpression quoted(QStringLiteral("^\\s*(([-*+]|\\d{1,9}[.)])\\s+)*>"));
  return quoted.match(line.toString()).hasMatch();
}

/// Whether a line within a paragraph is more of it, and no heading nor the rule under one.
bool goesOn(const QString& line) {
  static const QRegularExpression other(QStringLiteral("^\\s*(#{1,6}\\s|=+\\s*$|-+\\s*$|>)"));
  return !other.match(line).hasMatch();
}

bool isTableRule(QStringView line) {
  static const QRegularExpression rule(
      QStringLiteral("^\\s*\\|?\\s*:?-+:?\\s*(\\|\\s*:?-+:?\\s*)+\\|?\\s*$"));
  static const QRegularExpression ofOneColumn(QStringLiteral("^\\s*\\|\\s*:?-+:?\\s*\\|\\s*$"));
  const QString text = line.toString();
  return rule.match(text).hasMatch() || ofOneColumn.match(text).hasMatch();
}

// "left", "center" or "right" of each column; empty where the rule says nothing.
QStringList alignmentsOf(const QString& rule) {
  QString line = rule.trimmed();
  if (line.startsWith(u'|')) line.remove(0, 1);
  if (line.endsWith(u'|')) line.chop(1);
  QStringList alignments;
  for (const QString& part : line.split(u'|')) {
    const QString cell = part.trimmed();
    const bool left = cell.startsWith(u':');
    const bool right = cell.endsWith(u':');
    alignments.push_back(left && right ? QStringLiteral("center")
                         : right       ? QStringLiteral("right")
                         : left        ? QStringLiteral("left")
                                       : QString());
  }
  return alignments;
}

// A line break that was written is one that is seen.
QString withBreaks(const QStringList& lines) {
  QString out;
  for (qsizetype i = 0; i < lines.size(); ++i) {
    out += lines[i];
    if (i + 1 == lines.size()) break;
    if (!lines[i].isEmpty() && !lines[i + 1].isEmpty()) out += QStringLiteral("  ");
    out += u'\n';
  }
  return out;
}

// As it is written, whatever Markdown means by it.
QString verbatim(QStringView text) {
  QString out;
  for (const QChar c : text) {
    if (QStringView(u"\\`*_{}[]()#+-.!|<>~$&").contains(c)) out += u'\\';
    out += c;
  }
  return out;
}

// HTML and images would be interpreted: "<" and "!" before "[" become plain, but not inside `code`. Formulas become
// places that `formulas` tells of; one that cannot be drawn stands as it is written.
QString madeSafe(const QString& prose, QStringList* formulas = nullptr) {
  QString out;
  out.reserve(prose.size() + 16);
  bool code = false;
  for (qsizetype i = 0; i < prose.size(); ++i) {
    const QChar c = prose[i];
    if (!code && (c == u'\\' || c == u'$')) {
      if (const qsizetype length = formulaAt(prose, i); length > 0) {
        const QStringView source = QStringView(prose).mid(i, length);
        if (formulas != nullptr && Formula::fits(formulaInside(source))) {
          formulas->push_back(source.toString());
          out += QChar::ObjectReplacementCharacter;
        } else {
          out += verbatim(source);
        }
        i += length - 1;
        continue;
      }
    }
    if (c == u'\\' && !code && i + 1 < prose.size()) {
      // Before a bracket, a brace or a distance it is LaTeX whose end is not there, or that has none.
      if (QStringView(u"()[]{},;:").contains(prose[i + 1])) out += c;
      out += c;
      out += prose[++i];
      continue;
    }
    if (c == QChar::ObjectReplacementCharacter) {
      out += QChar::ReplacementCharacter;
      continue;
    }
    if (c == u'`' && (code || prose.indexOf(u'`', i + 1) > 0)) code = !code;
    if (!code && (c == u'<' || (c == u'!' && i + 1 < prose.size() && prose[i + 1] == u'[')))
      out += u'\\';
    out += c;
  }
  return out;
}

QStringList cellsOf(QString line) {
  line = line.trimmed();
  if (line.startsWith(u'|')) line.remove(0, 1);
  if (line.endsWith(u'|')) line.chop(1);
  QStringList cells;
  for (const QString& cell : line.split(u'|')) cells.push_back(madeSafe(cell.trimmed()));
  return cells;
}

class Splitter {
 public:
  QVector<MarkdownBlock> split(const QString& text) {
    const QStringList lines = text.split(u'\n');
    for (qsizetype i = 0; i < lines.size(); ++i) {
      const QString& line = lines[i];
      if (const Fence fence = fenceOf(line); fence.length > 0) {
        i = takeCode(lines, i, fence);
      } else if (line.contains(u'|') && i + 1 < lines.size() && isTableRule(lines[i + 1])) {
        i = takeTable(lines, i);
      } else if (const qsizetype last = takeFormula(lines, i); last >= 0) {
        i = last;
      } else {
        takeProse(line);
      }
    }
    endProse();
    return std::move(m_blocks);
  }

 private:
  qsizetype takeCode(const QStringList& lines, qsizetype at, const Fence& fence) {
    endProse();
    QStringList code;
    qsizetype i = at + 1;
    for (; i < lines.size(); ++i) {
      const Fence close = fenceOf(lines[i]);
      if (close.mark == fence.mark && close.length >= fence.length && close.language.isEmpty())
        break;
      code.push_back(lines[i]);
    }
    m_blocks.push_back(
        {.kind = MarkdownBlock::Code, .text = code.join(u'\n'), .language = fence.language});
    return i;
  }

  qsizetype takeTable(const QStringList& lines, qsizetype at) {
    endProse();
    MarkdownBlock table{.kind = MarkdownBlock::Table, .cells = cellsOf(lines[at])};
    table.columns = static_cast<int>(table.cells.size());
    table.alignments = alignmentsOf(lines[at + 1]);
    table.alignments.resize(table.columns);
    qsizetype i = at + 2;
    for (; i < lines.size() && lines[i].contains(u'|'); ++i) {
      QStringList cells = cellsOf(lines[i]);
      cells.resize(table.columns);
      table.cells += cells;
    }
    m_blocks.push_back(table);
    return i - 1;
  }

  // A formula that has its lines for itself. @return the last of them, -1 if none begins here
  qsizetype takeFormula(const QStringList& lines, qsizetype at) {
    constexpr qsizetype kMostLines = 60;
    const QString first = lines[at].trimmed();
    const bool dollars = first.startsWith(u"$$");
    if (!dollars && !first.startsWith(u"\\[")) return -1;
    const QStringView close = dollars ? QStringView(u"$$") : QStringView(u"\\]");
    QString source;
    for (qsizetype i = at; i < lines.size() && i - at < kMostLines; ++i) {
      if (lines[i].trimmed().isEmpty()) return -1;
      source += (i == at ? QString() : QStringLiteral("\n")) + lines[i].trimmed();
      const qsizetype end = source.indexOf(close, 2);
      if (end < 0) continue;
      if (end + 2 != source.size() || !Formula::fits(formulaInside(source))) return -1;
      endProse();
      m_blocks.push_back({.kind = MarkdownBlock::Formula, .text = source});
      return i;
    }
    return -1;
  }

  // A paragraph a block, but a list is one: its numbers go on over empty lines. A quotation is one as well, and so is
  // one in it; a line without its marks is not quoted.
  void takeProse(const QString& line) {
    if (line.trimmed().isEmpty()) {
      m_gap = !m_prose.isEmpty();
      return;
    }
    const bool belongs = m_list && (beginsListItem(line) || line.startsWith(u' '));
    const int quotation = belongs ? m_quotation : quotationOf(line);
    if ((m_gap && !belongs) || quotation != m_quotation) endProse();
    m_quotation = quotation;
    if (m_gap && belongs) m_prose.push_back({});
    m_gap = false;
    if (m_prose.isEmpty()) m_list = m_items = m_quotedInItem = false;
    m_list |= beginsListItem(line);
    // Qt takes a quotation for an item of its own, with the next number, unless an empty line is before it.
    const QStringView inside = unquoted(line, quotation);
    const bool item = beginsListItem(inside);
    m_items |= item;
    const bool quotedInItem = m_items && isQuotedInItem(inside);
    if (quotedInItem && !m_quotedInItem && !item && !m_prose.last().isEmpty())
      m_prose.push_back(QString(quotation, u'>'));
    m_quotedInItem = quotedInItem;
    // A line break in an item would be an item of its own to Qt, with the next number.
    if (m_items && !item && !quotedInItem && quotation == 0 && !m_prose.last().isEmpty() &&
        goesOn(line)) {
      m_prose.last() += QChar::LineSeparator + line.trimmed();
      return;
    }
    m_prose.push_back(line);
  }

  void endProse() {
    if (!m_prose.isEmpty()) {
      MarkdownBlock prose{.kind = MarkdownBlock::Prose, .quotation = m_quotation};
      prose.text = madeSafe(withBreaks(m_prose), &prose.formulas);
      m_blocks.push_back(prose);
    }
    m_prose.clear();
    m_gap = m_list = false;
  }

  QVector<MarkdownBlock> m_blocks;
  QStringList m_prose;
  bool m_gap = false;
  bool m_list = false;
  bool m_items = false;         // of a list, which may be quoted as a whole
  bool m_quotedInItem = false;  // the line before
  int m_quotation = 0;
};

}  // namespace

qsizetype formulaAt(QStringView text, qsizetype at) {
  constexpr qsizetype kLongest = 2000;
  const QStringView rest = text.mid(at, kLongest);
  const auto closedBy = [&rest](QStringView open, QStringView close) -> qsizetype {
    if (!rest.startsWith(open)) return 0;
    const qsizetype end = rest.indexOf(close, open.size());
    return end < 0 ? 0 : end + close.size();
  };
  if (const qsizetype length = closedBy(u"\\(", u"\\)")) return length;
  if (const qsizetype length = closedBy(u"\\[", u"\\]")) return length;
  if (rest.startsWith(u"$$")) return closedBy(u"$$", u"$$");
  if (!rest.startsWith(u'$') || rest.size() < 3 || rest[1].isSpace()) return 0;
  for (qsizetype i = 1; i < rest.size(); ++i) {
    if (rest[i] == u'\n' || rest[i] == QChar::LineSeparator) return 0;
    if (rest[i] == u'\\') {
      ++i;
      continue;
    }
    if (rest[i] != u'$') continue;
    const bool digitAfter = i + 1 < rest.size() && rest[i + 1].isDigit();
    return rest[i - 1].isSpace() || digitAfter ? 0 : i + 1;
  }
  return 0;
}

QStringView formulaInside(QStringView formula) {
  const qsizetype mark = formula.startsWith(u'$') && !formula.startsWith(u"$$") ? 1 : 2;
  return formula.size() < 2 * mark ? QStringView() : formula.mid(mark, formula.size() - 2 * mark);
}

namespace {

// The length of the JSON object that `text` begins with, all of it while that is not whole yet; 0: it begins with none.
qsizetype jsonLength(QStringView text) {
  qsizetype at = 0;
  while (at < text.size() && text[at].isSpace()) ++at;
  if (at >= text.size() || text[at] != u'{') return 0;
  qsizetype next = at + 1;
  while (next < text.size() && text[next].isSpace()) ++next;
  if (next < text.size() && text[next] != u'"' && text[next] != u'}') return 0;
  int open = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const QChar c = text[at];
    if (quoted && c == u'\\') {
      ++at;
    } else if (c == u'"') {
      quoted = !quoted;
    } else if (!quoted && (c == u'{' || c == u'[')) {
      ++open;
    } else if (!quoted && (c == u'}' || c == u']') && --open == 0) {
      return at + 1;
    }
  }
  return text.size();
}

}  // namespace

QVector<MarkdownBlock> splitMarkdown(const QString& text) {
  const qsizetype json = jsonLength(text);
  if (json == 0) return Splitter().split(text);
  QVector<MarkdownBlock> blocks = {{.kind = MarkdownBlock::Code,
                                    .text = text.left(json).trimmed(),
                                    .language = QStringLiteral("json")}};
  if (json < text.size()) blocks += Splitter().split(text.mid(json));
  return blocks;
}

int MarkdownBlocks::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_blocks.size());
}

QHash<int, QByteArray> MarkdownBlocks::roleNames() const {
  return {{KindRole, "kind"},         {TextRole, "text"},          {LanguageRole, "language"},
          {CellsRole, "cells"},       {ColumnsRole, "columns"},    {AlignmentsRole, "alignments"},
          {FormulasRole, "formulas"}, {QuotationRole, "quotation"}};
}

QVariant MarkdownBlocks::data(const QModelIndex& index, int role) const {
  if (index.row() < 0 || index.row() >= m_blocks.size()) return {};
  const MarkdownBlock& block = m_blocks.at(index.row());
  switch (role) {
    case KindRole:
      return static_cast<int>(block.kind);
    case TextRole:
    case Qt::DisplayRole:
      return block.text;
    case LanguageRole:
      return block.language;
    case CellsRole:
      return block.cells;
    case ColumnsRole:
      return block.columns;
    case AlignmentsRole:
      return block.alignments;
    case FormulasRole:
      return block.formulas;
    case QuotationRole:
      return block.quotation;
    default:
      return {};
  }
}

void MarkdownBlocks::setText(const QString& text) {
  if (text == m_text) return;
  m_text = text;
  QVector<MarkdownBlock> blocks = splitMarkdown(text);
  qsizetype common = 0;
  const qsizetype both = std::min(blocks.size(), m_blocks.size());
  while (common < both && blocks.at(common).kind == m_blocks.at(common).kind) ++common;
  if (common < m_blocks.size()) {
    beginRemoveRows({}, static_cast<int>(common), static_cast<int>(m_blocks.size()) - 1);
    m_blocks.resize(common);
    endRemoveRows();
  }
  for (qsizetype i = 0; i < common; ++i) {
    if (m_blocks.at(i) == blocks.at(i)) continue;
    m_blocks[i] = blocks.at(i);
    Q_EMIT dataChanged(index(static_cast<int>(i)), index(static_cast<int>(i)));
  }
  if (common < blocks.size()) {
    beginInsertRows({}, static_cast<int>(common), static_cast<int>(blocks.size()) - 1);
    m_blocks = std::move(blocks);
    endInsertRows();
  }
  Q_EMIT textChanged();
}

}  // namespace runnel::chat
