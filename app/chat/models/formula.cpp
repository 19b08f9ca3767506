// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/formula.h"

#include <QFontMetricsF>
#include <QHash>
#include <QPainter>
#include <QPolygonF>
#include <QScopedValueRollback>
#include <QStringList>
#include <algorithm>

#include "app/chat/models/formula_symbols.h"

namespace runnel::chat {
namespace {

// Shares of the font size, after the habits of TeX's fonts.
constexpr qreal kAxis = 0.26;   // the height of a minus above the baseline
constexpr qreal kRule = 0.055;  // thickness of a fraction's line
constexpr qreal kScript = 0.72;
constexpr int kLevels = 2;     // scripts of scripts of scripts are not smaller
constexpr int kDeepest = 100;  // of what nests, so that no source can exhaust the stack

QFont fontOf(qreal pixelSize, bool italic, bool bold) {
  QFont font;
  font.setFamilies({QStringLiteral("STIX Two Text"), QStringLiteral("Noto Serif"),
                    QStringLiteral("DejaVu Serif"), QStringLiteral("serif")});
  font.setPixelSize(std::max(1, qRound(pixelSize)));
  font.setItalic(italic);
  font.setBold(bold);
  return font;
}

// Whether `word` is one of `words`, which stand between spaces.
bool isOneOf(const QString& word, QStringView words) { return words.contains(u' ' + word + u' '); }

}  // namespace

/// Reads a source and lays it out in one go; with `measure` off it only reads.
class FormulaBuilder {
 public:
  FormulaBuilder(QStringView source, const FormulaLook& look, bool measure)
      : m_text(source), m_measure(measure), m_size(look.pixelSize), m_display(look.display) {}

  std::optional<Formula> build() {
    Formula whole = rows();
    if (m_failed || m_at < m_text.size()) return std::nullopt;
    return whole;
  }

 private:
  struct Atom {
    Formula box;
    AtomKind kind = AtomKind::Ordinary;
    bool limits = false;
    bool large = false;
  };

  // Reading

  Formula fail() {
    m_failed = true;
    m_at = m_text.size();
    return {};
  }
  bool atEnd() const { return m_at >= m_text.size(); }
  QChar peek() const { return atEnd() ? QChar() : m_text[m_at]; }
  void skipSpace() {
    while (peek().isSpace()) ++m_at;
  }
  // The name of the command here, without moving; a character that is no letter is a name of its own.
  QString command() const {
    if (peek() != u'\\' || m_at + 1 >= m_text.size()) return {};
    qsizetype end = m_at + 1;
    while (end < m_text.size() && m_text[end].isLetter() && m_text[end].unicode() < 128) ++end;
    return m_text.mid(m_at + 1, std::max<qsizetype>(1, end - m_at - 1)).toString();
  }
  bool take(QStringView words) {
    if (!m_text.mid(m_at).startsWith(words)) return false;
    m_at += words.size();
    return true;
  }
  // The name of the command here if it is one of `names`, which stand between spaces.
  QString takeCommand(QStringView names) {
    const QString name = command();
    if (!isOneOf(name, names)) return {};
    m_at += name.size() + 1;
    return name;
  }
  // "{…}" as it is written.
  QString rawArgument() {
    skipSpace();
    int open = 0;
    for (const qsizetype begin = m_at + 1; !atEnd(); ++m_at) {
      if (peek() == u'{') ++open;
      if (peek() == u'}') --open;
      if (open == 0 && m_at < begin) break;  // it does not begin with one
      if (open == 0) return m_text.mid(begin, m_at++ - begin).toString();
      if (peek() == u'\\') ++m_at;
    }
    fail();
    return {};
  }

  // Boxes

  Formula glyphs(const QString& text, bool italic, bool bold = false) const {
    Formula box;
    if (!m_measure) return box;
    const QFontMetricsF metrics(fontOf(m_size, italic, bold));
    const QRectF ink = metrics.tightBoundingRect(text);
    box.m_width = metrics.horizontalAdvance(text);
    if (italic) box.m_width = std::max(box.m_width, ink.right());  // what leans over counts
    box.m_ascent = -ink.top();
    box.m_descent = ink.bottom();
    box.m_glyphs.push_back({{0, 0}, text, m_size, italic, bold});
    return box;
  }
  // Its middle stands on the axis.
  Formula enlarged(const QString& text, qreal by) {
    const qreal axis = kAxis * m_size;
    const QScopedValueRollback size(m_size, m_size * by);
    const Formula box = glyphs(text, false);
    Formula moved;
    moved.add(box, 0, (box.m_ascent - box.m_descent) / 2 - axis);
    return moved;
  }
  Formula space(qreal ems) const {
    Formula box;
    box.m_width = ems * m_size;
    return box;
  }
  void rule(Formula& box, qreal x, qreal y, qreal width) const {
    QPainterPath path;
    path.addRect(x, y - kRule * m_size / 2, width, kRule * m_size);
    box.m_strokes.push_back({path, 0});
  }
  // A delimiter as high as what stands beside it: its glyph, made longer.
  Formula delimiter(const QString& mark, qreal ascent, qreal descent) const {
    if (mark == u".") return space(0.1);
    Formula box = glyphs(mark, false);
    const qreal axis = kAxis * m_size;
    const qreal half = std::max(ascent - axis, descent + axis) + 0.08 * m_size;
    const qreal ink = box.m_ascent + box.m_descent;
    if (!m_measure || half < 0.72 * m_size || ink <= 0) return box;
    Formula::Glyphs& glyph = box.m_glyphs[0];
    glyph.stretch = 2 * half / ink;
    glyph.at.setY(half - axis - box.m_descent * glyph.stretch);
    box.m_ascent = half + axis;
    box.m_descent = half - axis;
    return box;
  }
  Formula fenced(const QString& left, const Formula& inner, const QString& right) const {
    Formula box = delimiter(left, inner.m_ascent, inner.m_descent);
    box.add(inner, box.m_width, 0);
    box.add(delimiter(right, inner.m_ascent, inner.m_descent), box.m_width, 0);
    return box;
  }
  Formula stacked(const Formula& base, const std::optional<Formula>& above,
                  const std::optional<Formula>& below) const {
    const qreal space = 0.13 * m_size;
    Formula box;
    box.m_width = std::max({base.m_width, above ? above->m_width : 0, below ? below->m_width : 0});
    box.addCentred(base, 0);
    if (above) box.addCentred(*above, -(base.m_ascent + space + above->m_descent));
    if (below) box.addCentred(*below, base.m_descent + space + below->m_ascent);
    return box;
  }

  // Grammar

  // Rows and cells up to the end or what closes them. `sides`: where the cells of each column stand, again from the
  // first after the last; without it there are no columns, but lines may follow each other.
  Formula rows(const QString& sides = {}, bool equations = false) {
    QVector<QVector<Formula>> cells(1);
    while (!m_failed) {
      cells.last().push_back(row());
      if (take(u"&")) {
        if (sides.isEmpty()) return fail();
      } else if (take(u"\\\\")) {
        skipSpace();
        if (peek() == u'[') return fail();  // distances between lines
        cells.push_back({});
      } else {
        break;
      }
    }
    if (m_failed) return {};
    if (sides.isEmpty() && cells.size() == 1) return cells[0][0];
    const auto& last = cells.last();
    if (cells.size() > 1 && last.size() == 1 && last[0].m_width == 0) cells.removeLast();
    return arranged(cells, sides.isEmpty() ? QStringLiteral("c") : sides, equations);
  }
  Formula arranged(const QVector<QVector<Formula>>& cells, const QString& sides,
                   bool equations) const {
    QVector<qreal> widths;
    for (const QVector<Formula>& line : cells) {
      widths.resize(std::max(widths.size(), line.size()));
      for (qsizetype c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].m_width);
    }
    const auto gapAfter = [&](qsizetype c) {
      return (!equations ? 0.9 : c % 2 == 0 ? 0.1 : 1.5) * m_size;
    };
    Formula box;
    qreal y = 0, width = 0;
    for (const QVector<Formula>& line : cells) {
      qreal ascent = 0.7 * m_size, descent = 0.25 * m_size, x = 0;
      for (const Formula& cell : line) {
        ascent = std::max(ascent, cell.m_ascent);
        descent = std::max(descent, cell.m_descent);
      }
      y += ascent + (y > 0 ? 0.3 * m_size : 0);
      for (qsizetype c = 0; c < line.size(); ++c) {
        const QChar side = sides.at(c % sides.size());
        const qreal spare = widths[c] - line[c].m_width;
        box.add(line[c], x + (side == u'l' ? 0 : side == u'r' ? spare : spare / 2), y);
        width = std::max(width, x + widths[c]);
        x += widths[c] + gapAfter(c);
      }
      y += descent;
    }
    Formula middle;
    middle.add(box, 0, -y / 2 - kAxis * m_size);
    middle.m_width = width;
    middle.m_ascent = y / 2 + kAxis * m_size;
    middle.m_descent = y / 2 - kAxis * m_size;
    return middle;
  }

  // Atoms side by side, up to what ends a group, a cell or a line.
  Formula row() {
    const QScopedValueRollback depth(m_depth, m_depth + 1);
    if (m_depth > kDeepest) return fail();
    Formula line;
    AtomKind before = AtomKind::Open;
    while (true) {
      skipSpace();
      if (atEnd() || peek() == u'}' || peek() == u'&') break;
      if (isOneOf(command(), u" \\ right end ")) break;
      if (const QString style = takeCommand(u" displaystyle textstyle "); !style.isEmpty()) {
        m_display = style == u"displaystyle";
        continue;
      }
      Atom atom = scripts(this->atom());
      if (m_failed) return {};
      if (atom.kind == AtomKind::Binary && before != AtomKind::Ordinary &&
          before != AtomKind::Close)
        atom.kind = AtomKind::Ordinary;  // a sign
      line.add(atom.box, line.m_width + gap(before, atom.kind) * m_size, 0);
      before = atom.kind;
    }
    return line;
  }
  qreal gap(AtomKind left, AtomKind right) const {
    using enum AtomKind;
    if (left == Open || right == Close || (left == Large && right == Open)) return 0;
    if (left == Large || right == Large) return 0.17;
    if (m_level > 0) return 0;
    if (left == Punctuation) return 0.17;
    if (left == Relation || right == Relation) return 0.28;
    return left == Binary || right == Binary ? 0.22 : 0;
  }

  // What follows a base above and below.
  Atom scripts(Atom base) {
    std::optional<Formula> above, below;
    QString primes;
    while (!m_failed) {
      skipSpace();
      if (const QString name = takeCommand(u" limits nolimits "); !name.isEmpty()) {
        base.limits = name == u"limits";
      } else if (take(u"'")) {
        primes += QChar(0x2032);
      } else if (peek() == u'^' || peek() == u'_') {
        std::optional<Formula>& script = peek() == u'^' ? above : below;
        if (script) return {.box = fail()};
        ++m_at;
        script = smaller();
      } else {
        break;
      }
    }
    Formula& box = base.box;
    if (!primes.isEmpty()) {
      Formula marks = glyphs(primes, false);
      marks.m_ascent = std::min(marks.m_ascent, 0.7 * m_size);
      box.add(marks, box.m_width, 0);
    }
    if (!above && !below) return base;
    if (base.limits && (m_display || !base.large)) {
      box = stacked(box, above, below);
      return base;
    }
    const qreal start = box.m_width + 0.03 * m_size;
    qreal down = std::max(box.m_descent + 0.1 * m_size, 0.2 * m_size);
    if (below && !above) down = std::max(down, below->m_ascent - 0.45 * m_size);
    if (above) {
      const qreal up =
          std::max(box.m_ascent - 0.32 * m_size, 0.42 * m_size) + above->m_descent * 0.5;
      const qreal between = up - above->m_descent + down - (below ? below->m_ascent : 0);
      down += std::max(0.0, 0.15 * m_size - between);
      box.add(*above, start, -up);
    }
    if (below) box.add(*below, base.large ? start - 0.12 * m_size : start, down);
    box.m_width += 0.05 * m_size;
    return base;
  }
  // An argument at the size of scripts.
  Formula smaller() {
    const QScopedValueRollback display(m_display, false);
    const QScopedValueRollback level(m_level, m_level + 1);
    const QScopedValueRollback size(m_size, m_level <= kLevels ? m_size * kScript : m_size);
    return argument();
  }
  // "{…}" or one atom.
  Formula argument() {
    skipSpace();
    if (peek().isDigit()) return glyphs(QString(m_text[m_at++]), false, m_bold);  // one alone
    return atom().box;
  }
  Formula group() {
    ++m_at;
    const QScopedValueRollback display(m_display);
    Formula inner = row();
    return take(u"}") ? inner : fail();
  }

  Atom atom() {
    const QScopedValueRollback depth(m_depth, m_depth + 1);
    const QChar c = peek();
    if (atEnd() || m_depth > kDeepest || QStringView(u"}^_&#%$").contains(c))
      return {.box = fail()};
    if (c == u'{') return {.box = group()};
    if (c == u'\\') return commanded();
    const qsizetype begin = m_at++;
    if (c == u'~') return {.box = space(0.28)};
    if (c.isDigit()) {
      while (peek().isDigit() || peek() == u'.') ++m_at;
      return {.box = glyphs(m_text.mid(begin, m_at - begin).toString(), false, m_bold)};
    }
    if (const FormulaSymbol found = formulaSymbol(c); !found.text.isEmpty()) return symbol(found);
    if (c.isHighSurrogate() && !atEnd()) ++m_at;
    const bool variable = c.isLetter() && c.unicode() < 0x250;
    return {.box =
                glyphs(m_text.mid(begin, m_at - begin).toString(), variable && !m_upright, m_bold)};
  }
  Atom symbol(const FormulaSymbol& symbol) {
    const bool large = symbol.look == SymbolLook::Enlarged;
    const bool italic = symbol.look == SymbolLook::Italic && !m_upright;
    return {.box = large ? enlarged(symbol.text, m_display ? 1.6 : 1.15)
                         : glyphs(symbol.text, italic, m_bold),
            .kind = symbol.kind,
            .limits = symbol.limits && (large || m_display),
            .large = large};
  }

  Atom commanded() {
    const QString name = command();
    if (name.isEmpty()) return {.box = fail()};
    m_at += name.size() + 1;
    if (const FormulaSymbol found = formulaSymbol(u'\\' + name); !found.text.isEmpty())
      return symbol(found);
    static const QHash<QString, qreal> spaces = {{u","_qs, 0.17},  {u":"_qs, 0.22}, {u";"_qs, 0.28},
                                                 {u"!"_qs, -0.17}, {u" "_qs, 0.28}, {u"quad"_qs, 1},
                                                 {u"qquad"_qs, 2}};
    if (spaces.contains(name)) return {.box = space(spaces.value(name))};
    if (isOneOf(name, u" frac dfrac tfrac cfrac ")) return {.box = fraction(name, true)};
    if (name == u"binom") return {.box = fenced(u"("_qs, fraction(name, false), u")"_qs)};
    if (name == u"sqrt") return {.box = root()};
    if (name == u"left") return {.box = leftRight()};
    if (name == u"begin") return {.box = environment()};
    if (isOneOf(name, u" text textrm mbox operatorname textbf textit ")) {
      const QString words = rawArgument();
      if (words.contains(u'$') || words.contains(u'\\')) return {.box = fail()};
      return {.box = glyphs(words, name == u"textit", name == u"textbf"),
              .kind = name == u"operatorname" ? AtomKind::Large : AtomKind::Ordinary};
    }
    if (isOneOf(name, u" mathrm mathbf boldsymbol bm mathit ")) {
      const QScopedValueRollback bold(m_bold, m_bold || !isOneOf(name, u" mathrm mathit "));
      const QScopedValueRollback upright(m_upright, isOneOf(name, u" mathrm mathbf "));
      return {.box = argument()};
    }
    if (isOneOf(name, u" mathbb mathcal mathfrak ")) {
      QString letters;
      const QString written =
          peek() == u'{' ? rawArgument() : QString(atEnd() ? QChar() : m_text[m_at++]);
      for (const QChar letter : written) letters += formulaAlphabet(name, letter);
      return {.box = letters.isEmpty() ? fail() : glyphs(letters, false)};
    }
    if (isOneOf(name, u" overset stackrel underset ")) {
      const std::optional<Formula> script = smaller();
      const Formula base = argument();
      return {.box = name == u"underset" ? stacked(base, {}, script) : stacked(base, script, {}),
              .kind = name == u"stackrel" ? AtomKind::Relation : AtomKind::Ordinary};
    }
    static const QStringList sizes = QStringLiteral("big Big bigg Bigg").split(u' ');
    const QChar side = name.back();
    const bool sided = side == u'l' || side == u'r';
    if (const qsizetype step = sizes.indexOf(sided ? name.chopped(1) : name); step >= 0) {
      const qreal half = (0.75 + 0.35 * static_cast<qreal>(step)) * m_size;
      return {.box = delimiter(fence(), half + kAxis * m_size, half - kAxis * m_size),
              .kind = !sided         ? AtomKind::Ordinary
                      : side == u'l' ? AtomKind::Open
                                     : AtomKind::Close};
    }
    return {.box = accent(name)};
  }

  Formula fraction(const QString& name, bool line) {
    const bool large = isOneOf(name, u" dfrac cfrac ") || (m_display && name != u"tfrac");
    const auto part = [this, large] {
      if (!large) return smaller();
      const QScopedValueRollback display(m_display, false);
      return argument();
    };
    const Formula above = part();
    const Formula below = part();
    const qreal axis = kAxis * m_size, side = 0.1 * m_size;
    const qreal space = 0.12 * m_size + kRule * m_size / 2;
    Formula box;
    box.m_width = std::max(above.m_width, below.m_width) + 2 * side;
    box.addCentred(above, -axis - space - above.m_descent);
    box.addCentred(below, -axis + space + below.m_ascent);
    if (line) rule(box, side / 2, -axis, box.m_width - side);
    return box;
  }

  Formula root() {
    skipSpace();
    Formula index;
    if (take(u"[")) {
      const qsizetype close = m_text.indexOf(u']', m_at);
      if (close < 0) return fail();
      FormulaBuilder builder(m_text.mid(m_at, close - m_at), {m_size * kScript * kScript},
                             m_measure);
      builder.m_depth = m_depth;
      index = builder.rows();
      if (builder.m_failed || !builder.atEnd()) return fail();
      m_at = close + 1;
    }
    const Formula inner = argument();
    const qreal line = kRule * m_size, top = std::max(inner.m_ascent, 0.6 * m_size) + 0.14 * m_size;
    const qreal bottom = std::max(inner.m_descent, 0.05 * m_size);
    const qreal hook = 0.55 * m_size, before = std::max(0.0, index.m_width - 0.3 * m_size);
    const qreal foot = bottom + 0.03 * m_size, half = (foot + top) * 0.42;
    Formula box;
    if (index.m_width > 0) box.add(index, 0, -(top - bottom) / 2 - 0.1 * m_size);
    QPainterPath path;
    path.addPolygon(QPolygonF({QPointF(before + 0.05 * m_size, foot - half),
                               QPointF(before + 0.16 * m_size, foot - half - 0.06 * m_size),
                               QPointF(before + 0.3 * m_size, foot), QPointF(before + hook, -top),
                               QPointF(before + hook + inner.m_width + 0.08 * m_size, -top)}));
    box.m_strokes.push_back({path, line});
    box.add(inner, before + hook + 0.02 * m_size, 0);
    box.m_width = before + hook + inner.m_width + 0.12 * m_size;
    box.m_ascent = std::max(box.m_ascent, top + line);
    box.m_descent = std::max(box.m_descent, foot);
    return box;
  }

  // The delimiter written here.
  QString fence() {
    skipSpace();
    const QString name = command();
    QString mark = name.isEmpty() ? QString(peek()) : formulaSymbol(u'\\' + name).text;
    m_at += name.size() + 1;
    if (mark == u"<") mark = QChar(0x27E8);
    if (mark == u">") mark = QChar(0x27E9);
    const QStringView known = name.isEmpty() ? u"()[]|./⟨⟩" : u"{}⟨⟩⌊⌋⌈⌉|‖[]";
    if (mark.isEmpty() || !known.contains(mark)) fail();
    return mark;
  }
  Formula leftRight() {
    const QString left = fence();
    const Formula inner = row();
    if (!take(u"\\right")) return fail();
    return fenced(left, inner, fence());
  }

  Formula environment() {
    const QString whole = rawArgument();
    // Each with its two delimiters and the sides of its columns.
    static const QStringList known =
        QString::fromUtf8(
            "matrix ..c pmatrix ()c bmatrix []c Bmatrix {}c vmatrix ||c Vmatrix ‖‖c array ..c "
            "cases {.l aligned ..rl align ..rl split ..rl gathered ..c equation ..c")
            .split(u' ');
    const QString name = whole.endsWith(u'*') ? whole.chopped(1) : whole;
    const qsizetype at = known.indexOf(name);
    if (at % 2 != 0) return fail();
    const QString& marks = known.at(at + 1);
    QString sides;
    if (name == u"array") {
      for (const QChar c : rawArgument()) {
        if (!QStringView(u"lcr ").contains(c)) return fail();
        if (c != u' ') sides += c;
      }
    }
    const bool equations = marks.endsWith(u"rl");
    const QScopedValueRollback display(m_display, m_display && equations);
    const Formula inner = rows(sides.isEmpty() ? marks.mid(2) : sides, equations);
    if (!take(u"\\end") || rawArgument() != whole) return fail();
    return fenced(marks.left(1), inner, marks.mid(1, 1));
  }

  Formula accent(const QString& name) {
    static const QStringList marks =
        QString::fromUtf8("hat ˆ widehat ˆ tilde ˜ widetilde ˜ dot ˙ ddot ¨ vec → bar ¯")
            .split(u' ');
    const bool over = name == u"overline", under = name == u"underline";
    const qsizetype which = marks.indexOf(name);
    if (which < 0 && !over && !under) return fail();
    const Formula inner = argument();
    Formula box = inner;
    const qreal above = std::max(inner.m_ascent, 0.45 * m_size) + 0.12 * m_size;
    if (over || under) {
      rule(box, 0, over ? -above : inner.m_descent + 0.12 * m_size, inner.m_width);
      (over ? box.m_ascent : box.m_descent) += 0.2 * m_size;
      return box;
    }
    const qreal lean = 0.06 * m_size;  // its ink begins where the letter ends, and letters lean
    const QScopedValueRollback size(m_size, name == u"vec" ? m_size * 0.7 : m_size);
    const Formula mark = glyphs(marks.at(which + 1), false);
    box.add(mark, (inner.m_width - mark.m_width) / 2 + lean, -above - mark.m_descent + lean);
    box.m_width = inner.m_width;
    return box;
  }

  const QStringView m_text;
  const bool m_measure;
  qsizetype m_at = 0;
  bool m_failed = false;
  int m_depth = 0;  // of what nests
  qreal m_size;
  int m_level = 0;  // of scripts
  bool m_display, m_bold = false, m_upright = false;
};

bool Formula::fits(QStringView source) {
  return !source.trimmed().isEmpty() && FormulaBuilder(source, {}, false).build().has_value();
}

std::optional<Formula> Formula::layOut(QStringView source, const FormulaLook& look) {
  if (source.trimmed().isEmpty()) return std::nullopt;
  return FormulaBuilder(source, look, true).build();
}

void Formula::add(const Formula& other, qreal x, qreal y) {
  for (Glyphs g : other.m_glyphs) {
    g.at += QPointF(x, y);
    m_glyphs.push_back(std::move(g));
  }
  for (const Stroke& s : other.m_strokes)
    m_strokes.push_back({s.path.translated(x, y), s.thickness});
  m_width = std::max(m_width, x + other.m_width);
  if (other.m_ascent == 0 && other.m_descent == 0 && other.m_glyphs.isEmpty()) return;  // a space
  m_ascent = std::max(m_ascent, other.m_ascent - y);
  m_descent = std::max(m_descent, other.m_descent + y);
}

void Formula::paint(QPainter& painter, const QPointF& origin, const QColor& colour) const {
  painter.save();
  painter.translate(origin);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(colour);
  for (const Glyphs& g : m_glyphs) {
    painter.setFont(fontOf(g.pixelSize, g.italic, g.bold));
    painter.save();
    painter.translate(g.at);
    painter.scale(1, g.stretch);
    painter.drawText(QPointF(), g.text);
    painter.restore();
  }
  for (const Stroke& s : m_strokes) {
    if (s.thickness == 0)
      painter.fillPath(s.path, colour);
    else
      painter.strokePath(s.path,
                         QPen(colour, s.thickness, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  }
  painter.restore();
}

}  // namespace runnel::chat
