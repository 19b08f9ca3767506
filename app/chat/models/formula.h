// SPDX-License-Identifier: Apache-2.0
// Formulas of answers: a subset of LaTeX, laid out and drawn here. What is outside of it is not drawn at all, so that
// its source can stand instead.
#pragma once

#include <QColor>
#include <QPainterPath>
#include <QString>
#include <QVector>
#include <optional>

class QPainter;

namespace runnel::chat {

/// How a formula looks.
struct FormulaLook {
  qreal pixelSize = 15;
  bool display = false;  // on a line of its own: limits above and below, large fractions
};

/// A formula laid out: glyphs and strokes around a baseline. Lengths are pixels.
class Formula {
 public:
  /// Whether all of `source` (without its dollars or brackets) is in the subset: Greek and the usual symbols, scripts,
  /// fractions, binomials, roots, sums and integrals with limits, named functions, growing delimiters, matrices, cases,
  /// aligned equations, accents, alphabets and text. Needs no font. The time grows with its length alone.
  static bool fits(QStringView source);
  /// Nothing if it does not fit.
  static std::optional<Formula> layOut(QStringView source, const FormulaLook& look);

  qreal width() const { return m_width; }
  qreal ascent() const { return m_ascent; }    // above the baseline
  qreal descent() const { return m_descent; }  // below it
  /// @param origin  the left end of the baseline
  void paint(QPainter& painter, const QPointF& origin, const QColor& colour) const;

 private:
  friend class FormulaBuilder;

  struct Glyphs {
    QPointF at;  // the baseline's left end
    QString text;
    qreal pixelSize = 0;
    bool italic = false;
    bool bold = false;
    qreal stretch = 1;  // upwards and downwards
  };
  struct Stroke {
    QPainterPath path;
    qreal thickness = 0;  // 0: filled
  };

  void add(const Formula& other, qreal x, qreal y);  // y downwards
  void addCentred(const Formula& other, qreal y) { add(other, (m_width - other.m_width) / 2, y); }

  qreal m_width = 0;
  qreal m_ascent = 0;
  qreal m_descent = 0;
  QVector<Glyphs> m_glyphs;
  QVector<Stroke> m_strokes;
};

}  // namespace runnel::chat
