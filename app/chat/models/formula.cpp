// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/formula.h"

#include <QFontMetricsF>
#include <QHash>
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

// Whether `word` is one of `words`, which stand between spaces.
bool isOneOf(const QString& word, QStringView words) { return words.contains(u' ' + word + u' '); }

/// Reads a source and lays it out in one go; with a size of 0 it only reads.
class FormulaBuilder {
 public:
  FormulaBuilder(QStringView source, qreal pixelSize, bool display)
      : m_text(source), m_size(pixelSize), m_display(display) {}

  std::optional<Formula> build() {
    if (m_text.trimmed().isEmpty()) return std::nullopt;
    Formula whole = rows();
    if (m_failed || !atEnd()) return std::nullopt;
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
  bool takeCommand(QStringView name) {
    if (command() != name) return false;
    m_at += name.size() + 1;
    return true;
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

  Formula glyphs(QStringView text, bool italic, bool bold = false) const {
    if (m_size == 0) return {};
    QFont font;
    font.setFamilies({QStringLiteral("STIX Two Text"), QStringLiteral("Noto Serif"),
                      QStringLiteral("DejaVu Serif"), QStringLiteral("serif")});
    font.setPixelSize(std::max(1, qRound(m_size)));
    font.setItalic(italic);
    font.setBold(bold);
    const QFontMetricsF metrics(font);
    const QString words = text.toString();
    const QRectF ink = metrics.tightBoundingRect(words);
    qreal width = metrics.horizontalAdvance(words);
    if (italic) width = std::max(width, ink.right());  // what leans over counts
    return {width, -ink.top(), ink.bottom(), {{{}, words, font, {}}}};
  }
  Formula space(qreal ems) const { return {ems * m_size}; }
  // A line along the baseline.
  Formula rule(qreal width) const {
    if (m_size == 0) return {};
    const qreal half = kRule * m_size / 2;
    QPainterPath path;
    path.addRect(0, -half, width, 2 * half);
    return {width, half, half, {{{}, {}, {}, path}}};
  }
  // Its middle stands on the axis.
  Formula onAxis(const Formula& box) const {
    return box.moved(0, (box.ascent - box.descent) / 2 - kAxis * m_size);
  }
  Formula enlarged(const QString& text, qreal by) {
    const QScopedValueRollback size(m_size, m_size * by);
    return glyphs(text, false);
  }
  // A delimiter as high as what stands beside it: its glyph, made longer.
  Formula delimiter(const QString& mark, qreal ascent, qreal descent) const {
    if (mark == u".") return space(0.1);
    Formula box = glyphs(mark, false);
    const qreal axis = kAxis * m_size;
    const qreal half = std::max(ascent - axis, descent + axis) + 0.08 * m_size;
    if (box.ink.isEmpty() || half < 0.72 * m_size) return box;
    const qreal stretch = 2 * half / (box.ascent + box.descent);
    box.ink[0].place.scale(1, stretch);
    box.ascent *= stretch;
    box.descent *= stretch;
    return onAxis(box);
  }
  Formula fenced(const QString& left, const Formula& inner, const QString& right) const {
    Formula box = delimiter(left, inner.ascent, inner.descent);
    box.add(inner, box.width, 0);
    box.add(delimiter(right, inner.ascent, inner.descent), box.width, 0);
    return box;
  }
  Formula stacked(const Formula& base, const Formula& above, const Formula& below) const {
    const qreal space = 0.12 * m_size;
    Formula box;
    box.width = std::max({base.width, above.width, below.width});
    box.addCentred(base, 0);
    box.addCentred(above, -(base.ascent + space + above.descent));
    box.addCentred(below, base.descent + space + below.ascent);
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
    if (cells.size() > 1 && last.size() == 1 && last[0].width == 0) cells.removeLast();
    return arranged(cells, sides.isEmpty() ? QStringLiteral("c") : sides, equations);
  }
  Formula arranged(const QVector<QVector<Formula>>& cells, const QString& sides,
                   bool equations) const {
    QVector<qreal> widths;
    for (const QVector<Formula>& line : cells) {
      widths.resize(std::max(widths.size(), line.size()));
      for (qsizetype c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].width);
    }
    Formula box;
    qreal y = 0;
    for (const QVector<Formula>& line : cells) {
      qreal ascent = 0.7 * m_size, descent = 0.25 * m_size, x = 0;
      for (const Formula& cell : line) {
        ascent = std::max(ascent, cell.ascent);
        descent = std::max(descent, cell.descent);
      }
      y += ascent + (y > 0 ? 0.3 * m_size : 0);
      for (qsizetype c = 0; c < line.size(); ++c) {
        const QChar side = sides.at(c % sides.size());
        const qreal spare = widths[c] - line[c].width;
        box.add(line[c], x + (side == u'l' ? 0 : side == u'r' ? spare : spare / 2), y);
        box.width = std::max(box.width, x + widths[c]);
        x += widths[c] + (!equations ? 0.9 : c % 2 == 0 ? 0.1 : 1.5) * m_size;
      }
      y += descent;
    }
    box.descent = y;
    return onAxis(box);
  }

  // Atoms side by side, up to what ends a group, a cell or a line.
  Formula row() {
    const QScopedValueRollback depth(m_depth, m_depth + 1);
    if (m_depth > kDeepest) return fail();
    Formula line;
    AtomKind before = AtomKind::Open;
    while (true) {
      skipSpace();
      const QString name = command();
      if (atEnd() || peek() == u'}' || peek() == u'&' || isOneOf(name, u" \\ right end ")) break;
      if (isOneOf(name, u" displaystyle textstyle ")) {
        m_display = name == u"displaystyle";
        m_at += name.size() + 1;
        continue;
      }
      Atom atom = scripts(this->atom());
      if (m_failed) return {};
      if (atom.kind == AtomKind::Binary && before != AtomKind::Ordinary &&
          before != AtomKind::Close)
        atom.kind = AtomKind::Ordinary;  // a sign
      line.add(atom.box, line.width + gap(before, atom.kind) * m_size, 0);
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
    Formula& box = base.box;
    while (!m_failed) {
      skipSpace();
      if (takeCommand(u"limits")) {
        base.limits = true;
      } else if (takeCommand(u"nolimits")) {
        base.limits = false;
      } else if (take(u"'")) {
        Formula prime = glyphs(u"′", false);
        prime.ascent = std::min(prime.ascent, 0.7 * m_size);
        box.add(prime, box.width, 0);
      } else if (peek() == u'^' || peek() == u'_') {
        std::optional<Formula>& script = peek() == u'^' ? above : below;
        if (script) return {fail()};
        ++m_at;
        script = part(1);
      } else {
        break;
      }
    }
    if (!above && !below) return base;
    const Formula over = above.value_or(Formula()), under = below.value_or(Formula());
    if (base.limits) {
      box = stacked(box, over, under);
      return base;
    }
    const qreal start = box.width + 0.03 * m_size;
    const qreal up = std::max(box.ascent - 0.32 * m_size, 0.42 * m_size) + over.descent * 0.5;
    const qreal apart = above ? over.descent + 0.15 * m_size - up : -0.45 * m_size;
    const qreal down = std::max({box.descent + 0.1 * m_size, 0.2 * m_size, under.ascent + apart});
    box.add(over, start, -up);
    box.add(under, base.large ? start - 0.12 * m_size : start, down);
    box.width += 0.05 * m_size;
    return base;
  }
  // An argument that is never in display, so many levels of scripts further in, 0 or 1.
  Formula part(int levels) {
    const bool shrinks = levels > 0 && m_level < kLevels;
    const QScopedValueRollback display(m_display, false);
    const QScopedValueRollback level(m_level, m_level + levels);
    const QScopedValueRollback size(m_size, shrinks ? m_size * kScript : m_size);
    return argument();
  }
  // "{…}" or one atom.
  Formula argument() {
    skipSpace();
    if (peek().isDigit()) return glyphs(m_text.mid(m_at++, 1), false, m_bold);  // one alone
    return atom().box;
  }

  Atom atom() {
    const QScopedValueRollback depth(m_depth, m_depth + 1);
    const QChar c = peek();
    if (atEnd() || m_depth > kDeepest || QStringView(u"}^_&#%$").contains(c)) return {fail()};
    if (c == u'\\') return commanded();
    const qsizetype begin = m_at++;
    if (c == u'{') {
      const QScopedValueRollback display(m_display);
      const Formula group = row();
      return {take(u"}") ? group : fail()};
    }
    while (c.isDigit() && (peek().isDigit() || peek() == u'.')) ++m_at;
    if (const FormulaSymbol found = formulaSymbol(c); !found.text.isEmpty()) return symbol(found);
    if (c.isHighSurrogate() && !atEnd()) ++m_at;
    const bool variable = c.isLetter() && c.unicode() < 0x250;
    return {glyphs(m_text.mid(begin, m_at - begin), variable && !m_upright, m_bold)};
  }
  Atom symbol(const FormulaSymbol& symbol) {
    if (symbol.kind == AtomKind::Space) return {space(symbol.text.toDouble())};
    if (symbol.kind == AtomKind::Accent) return {accented(symbol.text)};
    const bool large = symbol.look == SymbolLook::Enlarged;
    const bool italic = symbol.look == SymbolLook::Italic && !m_upright;
    return {large ? onAxis(enlarged(symbol.text, m_display ? 1.6 : 1.15))
                  : glyphs(symbol.text, italic, m_bold),
            symbol.kind, symbol.limits && m_display, large};
  }

  Atom commanded() {
    const QString name = command();
    m_at += name.size() + 1;
    if (const FormulaSymbol found = formulaSymbol(u'\\' + name); !found.text.isEmpty())
      return symbol(found);
    if (isOneOf(name, u" frac dfrac tfrac cfrac ")) return {fraction(name)};
    if (name == u"binom") return {fenced(u"("_qs, fraction(name), u")"_qs)};
    if (name == u"sqrt") return {root()};
    if (name == u"left") return {leftRight()};
    if (name == u"begin") return {environment()};
    if (isOneOf(name, u" text textrm mbox operatorname textbf textit ")) {
      const QString words = rawArgument();
      if (words.contains(u'$') || words.contains(u'\\')) return {fail()};
      return {glyphs(words, name == u"textit", name == u"textbf"),
              name == u"operatorname" ? AtomKind::Large : AtomKind::Ordinary};
    }
    if (isOneOf(name, u" mathrm mathbf boldsymbol bm mathit ")) {
      const QScopedValueRollback bold(m_bold, m_bold || !isOneOf(name, u" mathrm mathit "));
      const QScopedValueRollback upright(m_upright, isOneOf(name, u" mathrm mathbf "));
      return {argument()};
    }
    if (isOneOf(name, u" mathbb mathcal mathfrak ")) {
      QString letters;
      const QString written = peek() == u'{' ? rawArgument() : m_text.mid(m_at++, 1).toString();
      for (const QChar letter : written) letters += formulaAlphabet(name, letter);
      return {letters.isEmpty() ? fail() : glyphs(letters, false)};
    }
    if (isOneOf(name, u" overset stackrel underset overline underline ")) {
      const bool line = name.endsWith(u"line");
      const Formula script = line ? Formula() : part(1);
      const Formula base = argument();
      const Formula mark = line ? rule(base.width) : script;
      return {name.startsWith(u"under") ? stacked(base, {}, mark) : stacked(base, mark, {}),
              name == u"stackrel" ? AtomKind::Relation : AtomKind::Ordinary};
    }
    static const QStringList sizes = QStringLiteral("big Big bigg Bigg").split(u' ');
    const bool left = name.endsWith(u'l'), right = name.endsWith(u'r');
    if (const qsizetype step = sizes.indexOf(name.chopped(left || right ? 1 : 0)); step >= 0) {
      const qreal half = (0.75 + 0.35 * static_cast<qreal>(step)) * m_size, axis = kAxis * m_size;
      const AtomKind kind = left ? AtomKind::Open : right ? AtomKind::Close : AtomKind::Ordinary;
      return {delimiter(fence(), half + axis, half - axis), kind};
    }
    return {fail()};
  }

  // Two parts around a line on the axis, which a binomial leaves out.
  Formula fraction(const QString& name) {
    const bool large = isOneOf(name, u" dfrac cfrac ") || (m_display && name != u"tfrac");
    const Formula above = part(large ? 0 : 1);
    const Formula below = part(large ? 0 : 1);
    const qreal width = std::max(above.width, below.width) + 0.1 * m_size;
    Formula line = rule(width).moved(0.05 * m_size, -kAxis * m_size);
    line.width += 0.05 * m_size;
    if (name == u"binom") line.ink.clear();
    return stacked(line, above, below);
  }

  Formula root() {
    skipSpace();
    Formula index;
    if (take(u"[")) {
      const qsizetype close = m_text.indexOf(u']', m_at);
      if (close < 0) return fail();
      const QScopedValueRollback text(m_text, m_text.left(close));
      const QScopedValueRollback display(m_display, false);
      const QScopedValueRollback size(m_size, m_size * kScript * kScript);
      index = rows();
      if (m_failed || !atEnd()) return fail();
      m_at = close + 1;
    }
    const Formula inner = argument();
    if (m_size == 0) return {};
    const qreal top = std::max(inner.ascent, 0.6 * m_size) + 0.14 * m_size;
    const qreal bottom = std::max(inner.descent, 0.05 * m_size);
    const qreal foot = bottom + 0.03 * m_size, arm = foot - (foot + top) * 0.42;
    const qreal hook = 0.55 * m_size, right = hook + inner.width;
    QPainterPath path(QPointF(0.05 * m_size, arm));
    path.lineTo(0.16 * m_size, arm - 0.06 * m_size);
    path.lineTo(0.3 * m_size, foot);
    path.lineTo(hook, -top);
    path.lineTo(right + 0.08 * m_size, -top);
    const qreal line = kRule * m_size;
    const QPen pen(Qt::black, line, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin);
    Formula sign{right + 0.12 * m_size, top + line, foot};
    sign.ink.push_back({{}, {}, {}, QPainterPathStroker(pen).createStroke(path)});
    sign.add(inner, hook + 0.02 * m_size, 0);
    Formula box;
    if (index.width > 0) box.add(index, 0, -(top - bottom) / 2 - 0.1 * m_size);
    box.add(sign, std::max(0.0, index.width - 0.3 * m_size), 0);
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
    if (!takeCommand(u"right")) return fail();
    return fenced(left, inner, fence());
  }

  Formula environment() {
    const QString whole = rawArgument();
    // Each with its two delimiters and the sides of its columns.
    static const QStringList known =
        u"matrix ..c pmatrix ()c bmatrix []c Bmatrix {}c vmatrix ||c Vmatrix ‖‖c array ..c "
        u"cases {.l aligned ..rl align ..rl split ..rl gathered ..c equation ..c"_qs.split(u' ');
    const QString name = whole.endsWith(u'*') ? whole.chopped(1) : whole;
    const qsizetype at = known.indexOf(name);
    if (at % 2 != 0) return fail();
    const QString& marks = known.at(at + 1);
    const QString sides = name == u"array" ? rawArgument().remove(u' ') : marks.mid(2);
    for (const QChar side : sides)
      if (!QStringView(u"lcr").contains(side)) return fail();
    const bool equations = marks.endsWith(u"rl");
    const QScopedValueRollback display(m_display, m_display && equations);
    const Formula inner = rows(sides, equations);
    if (!takeCommand(u"end") || rawArgument() != whole) return fail();
    return fenced(marks.left(1), inner, marks.mid(1, 1));
  }

  Formula accented(const QString& mark) {
    Formula box = argument();
    const qreal width = box.width, above = std::max(box.ascent, 0.45 * m_size) + 0.12 * m_size;
    const qreal lean = 0.06 * m_size;  // its ink begins where the letter ends, and letters lean
    const Formula over = enlarged(mark, mark == u"→" ? 0.7 : 1);
    box.add(over, (width - over.width) / 2 + lean, lean - above - over.descent);
    box.width = width;
    return box;
  }

  QStringView m_text;
  qsizetype m_at = 0;
  bool m_failed = false;
  int m_depth = 0;  // of what nests
  qreal m_size;
  int m_level = 0;  // of scripts
  bool m_display, m_bold = false, m_upright = false;
};

}  // namespace

bool Formula::fits(QStringView source) { return layOut(source, 0, false).has_value(); }

std::optional<Formula> Formula::layOut(QStringView source, qreal pixelSize, bool display) {
  return FormulaBuilder(source, pixelSize, display).build();
}

Formula Formula::moved(qreal x, qreal y) const {
  Formula moved = *this;
  for (Mark& mark : moved.ink) mark.place *= QTransform::fromTranslate(x, y);
  moved.width += x;
  moved.ascent -= y;
  moved.descent += y;
  return moved;
}

void Formula::add(const Formula& other, qreal x, qreal y) {
  Formula moved = other.moved(x, y);
  ink += std::move(moved.ink);
  width = std::max(width, moved.width);
  if (other.ascent == 0 && other.descent == 0 && other.ink.isEmpty()) return;  // a space
  ascent = std::max(ascent, moved.ascent);
  descent = std::max(descent, moved.descent);
}

void Formula::paint(QPainter& painter, const QPointF& origin, const QColor& colour) const {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(colour);
  const QTransform whole = QTransform::fromTranslate(origin.x(), origin.y()) * painter.transform();
  for (const Mark& mark : ink) {
    painter.setTransform(mark.place * whole);
    painter.setFont(mark.font);
    painter.drawText(QPointF(), mark.text);
    painter.fillPath(mark.path, colour);
  }
  painter.restore();
}

}  // namespace runnel::chat
