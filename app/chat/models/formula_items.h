// SPDX-License-Identifier: Apache-2.0
// Formulas in the views: pictures in the text of a TextEdit.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QColor>
#include <QQuickTextDocument>
#include <QStringList>

namespace runnel::chat {

/// Puts pictures of formulas in the places that the text of a TextEdit has for them.
class FormulaText : public QObject {
  Q_OBJECT
  QML_ELEMENT
  Q_PROPERTY(QQuickTextDocument* target MEMBER m_target NOTIFY changed)
  Q_PROPERTY(QStringList formulas MEMBER m_formulas NOTIFY changed)  // in their order
  Q_PROPERTY(bool display MEMBER m_display NOTIFY changed)           // on lines of their own
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
  bool m_display = false;
  qreal m_pixelSize = 15;
  qreal m_scale = 1;
  QColor m_colour = Qt::black;
  bool m_drawing = false;
  int m_drawn = 0;
};

}  // namespace runnel::chat
