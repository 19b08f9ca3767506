// SPDX-License-Identifier: Apache-2.0
// Formulas of answers: a subset of LaTeX, laid out and drawn here. What is outside of it is not drawn at all, so that
// its source can stand instead.
#pragma once

#include <QPainter>
#include <QPainterPath>
#include <QString>
#include <QVector>
#include <optional>

namespace runnel::chat {

/// A formula laid out: ink around a baseline. Lengths are pixels.
struct Formula {
  struct Mark {
    QTransform place;  // of its own baseline's left end
    QString text;
    QFont font;
    QPainterPath path;  // what is no text, filled
  };
  qreal width = 0;
  qreal ascent = 0;   // above the baseline
  qreal descent = 0;  // below it
  QVector<Mark> ink = {};

  /// Whether all of `source` (without its dollars or brackets) is in the subset: Greek and the usual symbols, scripts,
  /// fractions, binomials, roots, sums and integrals with limits, named functions, growing delimiters, matrices, cases,
  /// aligned equations, accents, alphabets and text. Needs no font. The time grows with its length alone.
  static bool fits(QStringView source);
  /// Nothing if it does not fit.
  /// @param display  as on a line of its own: limits above and below, large fractions
  static std::optional<Formula> layOut(QStringView source, qreal pixelSize, bool display);
  /// @param origin  the left end of the baseline
  void paint(QPainter& painter, const QPointF& origin, const QColor& colour) const;

  // How one is made of others; y grows downwards.
  Formula moved(qreal x, qreal y) const;
  void add(const Formula& other, qreal x, qreal y);
  void addCentred(const Formula& other, qreal y) { add(other, (width - other.width) / 2, y); }
};

}  // namespace runnel::chat
