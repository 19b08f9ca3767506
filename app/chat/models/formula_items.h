// SPDX-License-Identifier: Apache-2.0
// Formulas in the views: one on lines of its own, and those among the words of a TextEdit.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QColor>
#include <QQuickPaintedItem>
#include <QQuickTextDocument>
#include <QStringList>

#include "app/chat/models/formula.h"

namespace runnel::chat {

/// A formula on lines of its own, as large as it is.
class FormulaItem : public QQuickPaintedItem {
  Q_OBJECT
  QML_ELEMENT
  Q_PROPERTY(QString source MEMBER m_source NOTIFY changed)  // with its delimiters
  Q_PROPERTY(qreal pixelSize MEMBER m_pixelSize NOTIFY changed)
  Q_PROPERTY(QColor colour MEMBER m_colour NOTIFY changed)

 public:
  explicit FormulaItem(QQuickItem* parent = nullptr);
  void paint(QPainter* painter) override;

 Q_SIGNALS:
  void changed();

 private:
  QString m_source;
  qreal m_pixelSize = 15;
  QColor m_colour = Qt::black;
  std::optional<Formula> m_formula;
};

/// Puts pictures of formulas in the places that the Markdown of a TextEdit has for them.
class FormulaText : public QObject {
  Q_OBJECT
  QML_ELEMENT
  Q_PROPERTY(QQuickTextDocument* target MEMBER m_target NOTIFY changed)
  Q_PROPERTY(QStringList formulas MEMBER m_formulas NOTIFY changed)  // in their order
  Q_PROPERTY(qreal pixelSize MEMBER m_pixelSize NOTIFY changed)
  Q_PROPERTY(qreal scale MEMBER m_scale NOTIFY changed)  // pixels of the screen for one here
  Q_PROPERTY(QColor colour MEMBER m_colour NOTIFY changed)
  Q_PROPERTY(int drawn MEMBER m_drawn NOTIFY drawnChanged)  // counts when pictures are drawn anew

 public:
  explicit FormulaText(QObject* parent = nullptr);

  /// The text from `begin` to `end` of the document, formulas as their source.
  Q_INVOKABLE QString text(int begin, int end) const;

 Q_SIGNALS:
  void changed();
  void drawnChanged();

 private:
  void draw();

  QQuickTextDocument* m_target = nullptr;
  QStringList m_formulas;
  qreal m_pixelSize = 15;
  qreal m_scale = 1;
  QColor m_colour = Qt::black;
  QMetaObject::Connection m_watched;
  bool m_drawing = false;
  int m_drawn = 0;
};

}  // namespace runnel::chat
