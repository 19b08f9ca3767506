// SPDX-License-Identifier: Apache-2.0
// Where the bars beside the quotations of a TextEdit stand that are no blocks of their own: those in the items of lists.
#pragma once

#include <QtQml/qqmlregistration.h>

#include <QObject>
#include <QQuickTextDocument>
#include <QVariantList>

namespace runnel::chat {

class QuotationBars : public QObject {
  Q_OBJECT
  QML_ELEMENT
  Q_PROPERTY(QQuickTextDocument* target MEMBER m_target NOTIFY changed)
  Q_PROPERTY(int depth MEMBER m_depth NOTIFY changed)  // how deep all of it is quoted
  /// A QRectF for each quotation beyond that depth: its left is where the words around it begin, and it is as wide as
  /// what is quoted stands in from there.
  Q_PROPERTY(QVariantList bars READ bars NOTIFY barsChanged)

 public:
  explicit QuotationBars(QObject* parent = nullptr);

  QVariantList bars() const { return m_bars; }

 Q_SIGNALS:
  void changed();
  void barsChanged();

 private:
  void attach();
  void findLater();  // once for all changes until then: not while the text is laid out
  void find();

  QQuickTextDocument* m_target = nullptr;
  QTextDocument* m_watched = nullptr;
  int m_depth = 0;
  QVariantList m_bars;
  bool m_due = false;
};

}  // namespace runnel::chat
