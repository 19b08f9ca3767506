// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/formula.h"

#include <QFontMetricsF>
#include <QHash>
#include <QPainter>
#include <QStringList>
#include <algorithm>
#include <cmath>
#include <utility>

#include "app/chat/models/formula_symbols.h"

namespace runnel::chat {
namespace {

// Shares of the font size, after the habits of TeX's fonts.
constexpr qreal kAxis = 0.26;   // the height of a minus above the baseline
constexpr qreal kRule = 0.055;  // thickness of a fraction's line
constexpr qreal kScript = 0.72;
constexpr int kLevels = 2;  // scripts of scripts of scripts are not smaller

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
    Formula whole = rows(Table::Plain, {});
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
  enum class Table { Plain, Centred, Cases, Aligned };

  // Everything that nests counts, so that no source can exhaust the stack.
  class Deeper {
   public:
    explicit Deeper(FormulaBuilder& builder) : m_builder(builder) {
      constexpr int kDeepest = 100;
      if (++m_builder.m_depth > kDeepest) m_builder.fail();
    }
    ~Deeper() { --m_builder.m_depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    FormulaBuilder& m_builder;
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
    while (!atEnd() && m_text[m_at].isSpace()) ++m_at;
  }
  // The name of the command here, without moving; a character that is no letter is a name of its own.
  QString command() const {
    if (peek() != u'\\' || m_at + 1 >= m_text.size()) return {};
    qsizetype end = m_at + 1;
    const auto letter = [this](qsizetype i) {
      return (m_text[i] >= u'a' && m_text[i] <= u'z') || (m_text[i] >= u'A' && m_text[i] <= u'Z');
    };
    while (end < m_text.size() && letter(end)) ++end;
    if (end == m_at + 1) ++end;
    return m_text.mid(m_at + 1, end - m_at - 1).toString();
  }
  bool take(QStringView words) {
    if (!m_text.mid(m_at).startsWith(words)) return false;
    m_at += words.size();
    return true;
  }
  // "{…}" as it is written.
  QString rawArgument() {
    skipSpace();
    if (!take(u"{")) {
      fail();
      return {};
    }
    const qsizetype begin = m_at;
    int open = 1;
    for (; !atEnd(); ++m_at) {
      if (m_text[m_at] == u'\\') {
        ++m_at;
        continue;
      }
      if (m_text[m_at] == u'{') ++open;
      if (m_text[m_at] == u'}' && --open == 0) return m_text.mid(begin, m_at++ - begin).toString();
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
    box.m_glyphs.push_back(
        {.at = {0, 0}, .text = text, .pixelSize = m_size, .italic = italic, .bold = bold});
    return box;
  }
  Formula enlarged(const QString& text, qreal by) {
    const qreal size = std::exchange(m_size, m_size * by);
    Formula box = glyphs(text, false);
    m_size = size;
    // Its middle stands on the axis.
    return centred(std::move(box));
  }
  Formula centred(Formula box) const {
    const qreal down = (box.m_ascent - box.m_descent) / 2 - kAxis * m_size;
    Formula moved;
    moved.add(box, 0, down);
    moved.m_width = box.m_width;
    return moved;
  }
  Formula space(qreal ems) const {
    Formula box;
    box.m_width = ems * m_size;
    return box;
  }
  static void stroke(Formula& box, const QPainterPath& path, qreal thickness) {
    box.m_strokes.push_back({path, thickness});
  }
  void rule(Formula& box, qreal x, qreal y, qreal width) const {
    QPainterPath path;
    path.addRect(x, y - kRule * m_size / 2, width, kRule * m_size);
    stroke(box, path, 0);
  }

  // A delimiter as high as what stands beside it: its glyph, made longer.
  Formula delimiter(const QString& mark, qreal ascent, qreal descent) const {
    if (mark == u".") return space(0.1);
    Formula box = glyphs(mark, false);
    if (!m_measure) return box;
    const qreal axis = kAxis * m_size;
    const qreal half = std::max(ascent - axis, descent + axis) + 0.08 * m_size;
    const qreal ink = box.m_ascent + box.m_descent;
    if (half < 0.72 * m_size || ink <= 0) return box;
    Formula::Glyphs& glyph = box.m_glyphs[0];
    glyph.stretch = 2 * half / ink;
    glyph.at.setY(half - axis - box.m_descent * glyph.stretch);
    box.m_ascent = half + axis;
    box.m_descent = half - axis;
    return box;
  }

  // Grammar

  // Rows and cells up to the end or what closes them. Outside of tables lines may follow each other.
  Formula rows(Table table, const QString& columns) {
    const Deeper deeper(*this);
    QVector<QVector<Formula>> cells(1);
    while (!m_failed) {
      cells.last().push_back(row());
      if (take(u"&")) {
        if (table == Table::Plain) return fail();
      } else if (command() == u"\\") {
        m_at += 2;
        skipSpace();
        if (peek() == u'[') return fail();  // distances between lines
        cells.push_back({});
      } else {
        break;
      }
    }
    if (m_failed) return {};
    if (cells.size() == 1 && cells[0].size() == 1 && table == Table::Plain) return cells[0][0];
    return arrange(cells, table, columns);
  }
  Formula arrange(const QVector<QVector<Formula>>& cells, Table table, const QString& columns) {
    qsizetype count = 0;
    for (const QVector<Formula>& line : cells) count = std::max(count, line.size());
    QVector<qreal> widths(count, 0);
    for (const QVector<Formula>& line : cells) {
      for (qsizetype c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].m_width);
    }
    const auto align = [&](qsizetype c) {
      if (table == Table::Cases) return QChar(u'l');
      if (table == Table::Aligned) return QChar(c % 2 == 0 ? u'r' : u'l');
      return c < columns.size() ? columns.at(c) : QChar(u'c');
    };
    Formula box;
    qreal y = 0;
    for (qsizetype r = 0; r < cells.size(); ++r) {
      qreal ascent = 0.7 * m_size, descent = 0.25 * m_size;
      for (const Formula& cell : cells[r]) {
        ascent = std::max(ascent, cell.m_ascent);
        descent = std::max(descent, cell.m_descent);
      }
      if (cells[r].size() == 1 && cells[r][0].m_width == 0 && r + 1 == cells.size() && r > 0)
        break;  // nothing after the last "\\"
      y += ascent + (r > 0 ? 0.3 * m_size : 0);
      qreal x = 0;
      for (qsizetype c = 0; c < cells[r].size(); ++c) {
        const qreal spare = widths[c] - cells[r][c].m_width;
        box.add(cells[r][c], x + (align(c) == u'l' ? 0 : align(c) == u'r' ? spare : spare / 2), y);
        x += widths[c] + (table == Table::Aligned ? (c % 2 == 0 ? 0.1 : 1.5) : 0.9) * m_size;
      }
      y += descent;
    }
    qreal width = 0;
    for (qsizetype c = 0; c < count; ++c)
      width += widths[c] + (c + 1 == count            ? 0
                            : table == Table::Aligned ? (c % 2 == 0 ? 0.1 : 1.5) * m_size
                                                      : 0.9 * m_size);
    Formula middle;
    middle.add(box, 0, -y / 2 - kAxis * m_size);
    middle.m_width = width;
    middle.m_ascent = y / 2 + kAxis * m_size;
    middle.m_descent = y / 2 - kAxis * m_size;
    return middle;
  }

  // Atoms side by side, up to what ends a group, a cell or a line.
  Formula row() {
    const Deeper deeper(*this);
    Formula line;
    AtomKind before = AtomKind::Open;
    while (!m_failed) {
      skipSpace();
      if (atEnd() || peek() == u'}' || peek() == u'&') break;
      const QString name = command();
      if (name == u"\\" || name == u"right" || name == u"end") break;
      if (styleSwitch(name)) continue;
      Atom atom = scripts(this->atom());
      if (m_failed) return {};
      const bool ends = before == AtomKind::Open || before == AtomKind::Binary ||
                        before == AtomKind::Relation || before == AtomKind::Punctuation ||
                        before == AtomKind::Large;
      if (atom.kind == AtomKind::Binary && ends) atom.kind = AtomKind::Ordinary;  // a sign
      line.add(atom.box, line.m_width + gap(before, atom.kind) * m_size, 0);
      before = atom.kind;
    }
    return line;
  }
  bool styleSwitch(const QString& name) {
    if (name != u"displaystyle" && name != u"textstyle") return false;
    m_display = name == u"displaystyle";
    m_at += name.size() + 1;
    return true;
  }
  qreal gap(AtomKind left, AtomKind right) const {
    if (left == AtomKind::Open || right == AtomKind::Close) return 0;
    if (left == AtomKind::Large || right == AtomKind::Large)
      return right == AtomKind::Open && left == AtomKind::Large ? 0 : 0.17;
    if (m_level > 0) return 0;
    if (left == AtomKind::Punctuation) return 0.17;
    if (left == AtomKind::Relation || right == AtomKind::Relation) return 0.28;
    if (left == AtomKind::Binary || right == AtomKind::Binary) return 0.22;
    return 0;
  }

  // What follows a base above and below.
  Atom scripts(Atom base) {
    Formula above, below;
    bool hasAbove = false, hasBelow = false;
    QString primes;
    while (!m_failed) {
      skipSpace();
      const QString name = command();
      if (name == u"limits" || name == u"nolimits") {
        base.limits = name == u"limits";
        m_at += name.size() + 1;
      } else if (peek() == u'\'') {
        ++m_at;
        primes += QChar(0x2032);
      } else if (peek() == u'^' && !hasAbove) {
        ++m_at;
        above = smaller();
        hasAbove = true;
      } else if (peek() == u'_' && !hasBelow) {
        ++m_at;
        below = smaller();
        hasBelow = true;
      } else if (peek() == u'^' || peek() == u'_') {
        fail();
      } else {
        break;
      }
    }
    if (!primes.isEmpty()) {
      Formula marks = glyphs(primes, false);
      marks.m_ascent = std::min(marks.m_ascent, 0.7 * m_size);
      base.box.add(marks, base.box.m_width, 0);
    }
    if (!hasAbove && !hasBelow) return base;
    if (base.limits && (m_display || !base.large)) {
      base.box = stacked(base.box, hasAbove ? &above : nullptr, hasBelow ? &below : nullptr);
      return base;
    }
    const Formula& b = base.box;
    Formula box = b;
    const qreal start = b.m_width + 0.03 * m_size;
    qreal up = std::max(b.m_ascent - 0.32 * m_size, 0.42 * m_size) + above.m_descent * 0.5;
    qreal down = std::max(b.m_descent + 0.1 * m_size, 0.2 * m_size);
    if (hasAbove && hasBelow) {
      const qreal between = (up - above.m_descent) + (down - below.m_ascent);
      if (between < 0.15 * m_size) down += 0.15 * m_size - between;
    } else if (hasBelow) {
      down = std::max(down, below.m_ascent - 0.45 * m_size);
    }
    if (hasAbove) box.add(above, start, -up);
    if (hasBelow) box.add(below, base.large ? start - 0.12 * m_size : start, down);
    box.m_width += 0.05 * m_size;
    base.box = std::move(box);
    return base;
  }
  Formula stacked(const Formula& base, const Formula* above, const Formula* below) const {
    const qreal width =
        std::max({base.m_width, above ? above->m_width : 0, below ? below->m_width : 0});
    const qreal space = 0.13 * m_size;
    Formula box;
    box.add(base, (width - base.m_width) / 2, 0);
    if (above)
      box.add(*above, (width - above->m_width) / 2, -(base.m_ascent + space + above->m_descent));
    if (below)
      box.add(*below, (width - below->m_width) / 2, base.m_descent + space + below->m_ascent);
    box.m_width = width;
    return box;
  }

  // Runs `make` at the size of scripts.
  template <class Make>
  Formula inScript(const Make& make) {
    const qreal size = m_size;
    const int level = m_level;
    const bool display = std::exchange(m_display, false);
    if (++m_level <= kLevels) m_size *= kScript;
    Formula made = make();
    m_size = size;
    m_level = level;
    m_display = display;
    return made;
  }
  Formula smaller() {
    return inScript([this] { return argument(); });
  }

  // "{…}" or one atom.
  Formula argument() {
    const Deeper deeper(*this);
    skipSpace();
    if (m_failed || atEnd()) return fail();
    if (peek() == u'{') return group();
    if (peek().isDigit()) return glyphs(QString(m_text[m_at++]), false, m_bold);  // one alone
    return atom().box;
  }
  Formula group() {
    ++m_at;
    const bool display = m_display;
    Formula inner = row();
    m_display = display;
    if (!take(u"}")) return fail();
    return inner;
  }

  Atom symbol(const FormulaSymbol& symbol) {
    if (symbol.kind == AtomKind::Large)
      return {.box = enlarged(symbol.text, m_display ? 1.6 : 1.15),
              .kind = AtomKind::Large,
              .limits = symbol.limits,
              .large = true};
    return {.box = glyphs(symbol.text, symbol.italic && !m_upright, m_bold), .kind = symbol.kind};
  }

  Atom atom() {
    const Deeper deeper(*this);
    if (m_failed || atEnd()) return {.box = fail()};
    const QChar c = peek();
    if (c == u'{') return {.box = group()};
    if (c == u'\\') return commanded();
    if (c == u'}' || c == u'^' || c == u'_' || c == u'&' || c == u'#' || c == u'%' || c == u'$')
      return {.box = fail()};
    ++m_at;
    if (c == u'~') return {.box = space(0.28)};
    if (c.isDigit()) {
      const qsizetype begin = m_at - 1;
      while (!atEnd() && (peek().isDigit() || peek() == u'.')) ++m_at;
      return {.box = glyphs(m_text.mid(begin, m_at - begin).toString(), false, m_bold)};
    }
    if (c == u'-') return symbol({u"−"_qs, AtomKind::Binary});
    if (c == u'*') return symbol({u"∗"_qs, AtomKind::Binary});
    if (c == u'+') return symbol({QString(c), AtomKind::Binary});
    if (QStringView(u"=<>:≤≥≠≈∈→⇒⇔").contains(c)) return symbol({QString(c), AtomKind::Relation});
    if (c == u'(' || c == u'[') return symbol({QString(c), AtomKind::Open});
    if (c == u')' || c == u']' || c == u'!' || c == u'?')
      return symbol({QString(c), AtomKind::Close});
    if (c == u',' || c == u';') return symbol({QString(c), AtomKind::Punctuation});
    QString text(c);
    if (c.isHighSurrogate() && !atEnd()) text += m_text[m_at++];
    const bool variable = c.isLetter() && c.unicode() < 0x250;
    return {.box = glyphs(text, variable && !m_upright, m_bold)};
  }

  Atom commanded() {
    const QString name = command();
    if (name.isEmpty()) return {.box = fail()};
    m_at += name.size() + 1;
    if (const FormulaSymbol found = formulaSymbol(name); !found.text.isEmpty())
      return symbol(found);
    bool limits = false;
    if (isFormulaFunction(name, &limits))
      return {.box = glyphs(name, false, m_bold),
              .kind = AtomKind::Large,
              .limits = limits && m_display};
    if (const std::optional<qreal> ems = spaceOf(name)) return {.box = space(*ems)};
    if (isOneOf(name, u" frac dfrac tfrac cfrac ")) return {.box = fraction(name, true)};
    if (name == u"binom") {
      const Formula inner = fraction(name, false);
      return {.box = fenced(u"("_qs, inner, u")"_qs)};
    }
    if (name == u"sqrt") return {.box = root()};
    if (name == u"left") return {.box = leftRight()};
    if (name == u"begin") return {.box = environment()};
    return styled(name);
  }
  static std::optional<qreal> spaceOf(const QString& name) {
    static const QHash<QString, qreal> spaces = {{u","_qs, 0.17},  {u":"_qs, 0.22}, {u";"_qs, 0.28},
                                                 {u"!"_qs, -0.17}, {u" "_qs, 0.28}, {u"quad"_qs, 1},
                                                 {u"qquad"_qs, 2}};
    const auto found = spaces.constFind(name);
    return found == spaces.constEnd() ? std::nullopt : std::optional<qreal>(*found);
  }

  // Text, alphabets, accents and what stands above or below.
  Atom styled(const QString& name) {
    if (isOneOf(name, u" text textrm mbox operatorname textbf textit ")) {
      const QString words = rawArgument();
      if (words.contains(u'$') || words.contains(u'\\')) return {.box = fail()};
      return {.box = glyphs(words, name == u"textit", name == u"textbf"),
              .kind = name == u"operatorname" ? AtomKind::Large : AtomKind::Ordinary};
    }
    if (isOneOf(name, u" mathrm mathbf boldsymbol bm mathit ")) {
      const bool bold = std::exchange(m_bold, m_bold || !isOneOf(name, u" mathrm mathit "));
      const bool upright = std::exchange(m_upright, name == u"mathrm" || name == u"mathbf");
      Formula box = argument();
      m_bold = bold;
      m_upright = upright;
      return {.box = box};
    }
    if (isOneOf(name, u" mathbb mathcal mathfrak ")) {
      QString letters;
      const QString written =
          peek() == u'{' ? rawArgument() : QString(atEnd() ? QChar() : m_text[m_at++]);
      for (const QChar letter : written) letters += formulaAlphabet(name, letter);
      return {.box = letters.isEmpty() ? fail() : glyphs(letters, false)};
    }
    if (isOneOf(name, u" overset stackrel underset ")) {
      const Formula script = smaller();
      const Formula base = argument();
      const bool under = name == u"underset";
      return {.box = stacked(base, under ? nullptr : &script, under ? &script : nullptr),
              .kind = name == u"stackrel" ? AtomKind::Relation : AtomKind::Ordinary};
    }
    static const QStringList sizes = QStringLiteral("big Big bigg Bigg").split(u' ');
    QString size = name;
    const bool sided = size.endsWith(u'l') || size.endsWith(u'r');
    if (sided) size.chop(1);
    if (const qsizetype step = sizes.indexOf(size); step >= 0) {
      const qreal half = (0.75 + 0.35 * static_cast<qreal>(step)) * m_size;
      const QString mark = fence();
      return {.box = delimiter(mark, half + kAxis * m_size, half - kAxis * m_size),
              .kind = !sided                ? AtomKind::Ordinary
                      : name.endsWith(u'l') ? AtomKind::Open
                                            : AtomKind::Close};
    }
    return {.box = accent(name)};
  }

  Formula fraction(const QString& name, bool line) {
    const bool large = name == u"dfrac" || name == u"cfrac" || (m_display && name != u"tfrac");
    const auto part = [this, large] {
      if (!large) return smaller();
      const bool display = std::exchange(m_display, false);
      Formula made = argument();
      m_display = display;
      return made;
    };
    const Formula above = part();
    const Formula below = part();
    if (m_failed) return {};
    const qreal axis = kAxis * m_size, space = 0.12 * m_size + kRule * m_size / 2,
                side = 0.1 * m_size;
    const qreal width = std::max(above.m_width, below.m_width) + 2 * side;
    Formula box;
    box.add(above, (width - above.m_width) / 2, -axis - space - above.m_descent);
    box.add(below, (width - below.m_width) / 2, -axis + space + below.m_ascent);
    if (line) rule(box, side / 2, -axis, width - side);
    box.m_width = width;
    return box;
  }

  Formula root() {
    skipSpace();
    Formula index;
    if (take(u"[")) {
      const qsizetype close = m_text.indexOf(u']', m_at);
      if (close < 0) return fail();
      const QStringView inside = m_text.mid(m_at, close - m_at);
      FormulaBuilder builder(inside, {m_size * kScript * kScript, false}, m_measure);
      builder.m_depth = m_depth;
      std::optional<Formula> built = builder.build();
      if (!built) return fail();
      index = std::move(*built);
      m_at = close + 1;
    }
    const Formula inner = argument();
    const qreal line = kRule * m_size, top = std::max(inner.m_ascent, 0.6 * m_size) + 0.14 * m_size;
    const qreal bottom = std::max(inner.m_descent, 0.05 * m_size);
    const qreal hook = 0.55 * m_size, before = std::max(0.0, index.m_width - 0.3 * m_size);
    Formula box;
    if (index.m_width > 0) box.add(index, 0, -(top - bottom) / 2 - 0.1 * m_size);
    QPainterPath path;
    const qreal foot = bottom + 0.03 * m_size, half = (foot + top) * 0.42;
    path.moveTo(before + 0.05 * m_size, foot - half);
    path.lineTo(before + 0.16 * m_size, foot - half - 0.06 * m_size);
    path.lineTo(before + 0.3 * m_size, foot);
    path.lineTo(before + hook, -top);
    path.lineTo(before + hook + inner.m_width + 0.08 * m_size, -top);
    stroke(box, path, line);
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
    if (name.isEmpty()) {
      if (atEnd()) return fail(), QString();
      const QChar c = m_text[m_at++];
      if (c == u'<') return QString(QChar(0x27E8));
      if (c == u'>') return QString(QChar(0x27E9));
      if (!QStringView(u"()[]|./").contains(c)) fail();
      return QString(c);
    }
    m_at += name.size() + 1;
    const QString text = formulaSymbol(name).text;
    if (!QStringView(u"{}⟨⟩⌊⌋⌈⌉|‖[]").contains(text) || text.isEmpty()) fail();
    return text;
  }
  Formula fenced(const QString& left, const Formula& inner, const QString& right) const {
    Formula box = delimiter(left, inner.m_ascent, inner.m_descent);
    box.add(inner, box.m_width, 0);
    box.add(delimiter(right, inner.m_ascent, inner.m_descent), box.m_width, 0);
    return box;
  }
  Formula leftRight() {
    const QString left = fence();
    const Formula inner = row();
    if (command() != u"right") return fail();
    m_at += 6;
    const QString right = fence();
    return m_failed ? Formula() : fenced(left, inner, right);
  }

  Formula environment() {
    QString name = rawArgument();
    const QString whole = name;
    if (name.endsWith(u'*')) name.chop(1);
    QString columns;
    if (name == u"array") {
      for (const QChar c : rawArgument()) {
        if (c == u'l' || c == u'c' || c == u'r')
          columns += c;
        else if (!c.isSpace())
          return fail();
      }
    }
    // Each with its two delimiters.
    static const QString known = QStringLiteral(
        " matrix .. pmatrix () bmatrix [] Bmatrix {} vmatrix || Vmatrix ‖‖ array .. cases {. "
        "aligned .. align .. split .. gathered .. equation .. ");
    const qsizetype at = known.indexOf(u' ' + name + u' ');
    if (at < 0 || name.contains(u' ') || name.size() < 5) return fail();
    const QString marks = known.mid(at + name.size() + 2, 2);
    const Table table = name == u"cases"                          ? Table::Cases
                        : isOneOf(name, u" aligned align split ") ? Table::Aligned
                                                                  : Table::Centred;
    const bool display = m_display;
    if (table != Table::Aligned) m_display = false;
    Formula inner = rows(table, columns);
    m_display = display;
    if (m_failed || !take(u"\\end") || rawArgument() != whole) return fail();
    return fenced(marks.left(1), inner, marks.mid(1, 1));
  }

  Formula accent(const QString& name) {
    static const QStringList marks =
        QString::fromUtf8("hat ˆ widehat ˆ tilde ˜ widetilde ˜ dot ˙ ddot ¨ vec → bar ¯")
            .split(u' ');
    const bool line = isOneOf(name, u" overline underline ");
    const qsizetype which = marks.indexOf(name);
    if (which < 0 && !line) return fail();
    const Formula inner = argument();
    Formula box = inner;
    const qreal above = std::max(inner.m_ascent, 0.45 * m_size) + 0.12 * m_size;
    if (line) {
      rule(box, 0, name == u"overline" ? -above : inner.m_descent + 0.12 * m_size, inner.m_width);
      (name == u"overline" ? box.m_ascent : box.m_descent) += 0.2 * m_size;
      return box;
    }
    const qreal size = std::exchange(m_size, name == u"vec" ? m_size * 0.7 : m_size);
    const Formula mark = glyphs(marks.at(which + 1), false);
    m_size = size;
    // Its ink begins where the letter ends, and a little to the right, as letters lean.
    box.add(mark, (inner.m_width - mark.m_width) / 2 + 0.06 * m_size,
            -above - mark.m_descent + 0.06 * m_size);
    box.m_width = inner.m_width;
    return box;
  }

  const QStringView m_text;
  const bool m_measure;
  qsizetype m_at = 0;
  qreal m_size;
  bool m_display;
  bool m_bold = false;
  bool m_upright = false;
  bool m_failed = false;
  int m_level = 0;
  int m_depth = 0;
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
