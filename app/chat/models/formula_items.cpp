// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/formula_items.h"

#include <QFontMetricsF>
#include <QImage>
#include <QPainter>
#include <QTextCursor>
#include <QTextDocument>
#include <QUrl>
#include <cmath>

#include "app/chat/models/markdown_blocks.h"

namespace runnel::chat {

constexpr int kSource = QTextFormat::UserProperty + 1;  // of a picture's format: what it shows

FormulaItem::FormulaItem(QQuickItem* parent) : QQuickPaintedItem(parent) {
  connect(this, &FormulaItem::changed, this, [this] {
    m_formula = Formula::layOut(formulaInside(m_source), m_pixelSize, true);
    setImplicitSize(m_formula ? std::ceil(m_formula->width) + 2 : 0,
                    m_formula ? std::ceil(m_formula->ascent + m_formula->descent) + 2 : 0);
    update();
  });
}

void FormulaItem::paint(QPainter* painter) {
  if (m_formula) m_formula->paint(*painter, {1, 1 + m_formula->ascent}, m_colour);
}

FormulaText::FormulaText(QObject* parent) : QObject(parent) {
  connect(this, &FormulaText::changed, this, [this] {
    QObject::disconnect(m_watched);
    if (m_target == nullptr || m_target->textDocument() == nullptr) return;
    m_watched = connect(m_target->textDocument(), &QTextDocument::contentsChanged, this,
                        &FormulaText::draw);
    draw();
  });
}

void FormulaText::draw() {
  if (m_drawing || m_formulas.isEmpty()) return;
  m_drawing = true;
  QTextDocument* document = m_target->textDocument();
  QTextCursor cursor(document);
  const int end = document->characterCount() - 1;
  for (int at = 0, number = 0; at < end && number < m_formulas.size(); ++at) {
    if (document->characterAt(at) != QChar::ObjectReplacementCharacter) continue;
    const QString& source = m_formulas.at(number++);
    cursor.setPosition(at);
    cursor.setPosition(at + 1, QTextCursor::KeepAnchor);
    const QString look =
        QStringLiteral("formula:%1/%2/%3/").arg(number).arg(m_pixelSize).arg(m_scale) +
        m_colour.name();
    const QTextImageFormat now = cursor.charFormat().toImageFormat();
    if (now.isValid() && now.name() == look && now.stringProperty(kSource) == source) continue;
    const auto formula = Formula::layOut(formulaInside(source), m_pixelSize, false);
    if (!formula) continue;
    // A picture in the middle of a line stands on half the height of an x: as much more above as below.
    QFont font = document->defaultFont();
    font.setPixelSize(qRound(m_pixelSize));
    const qreal lift = QFontMetricsF(font).xHeight() / 4;
    const qreal half = std::ceil(std::max(formula->ascent - lift, formula->descent + lift)) + 1;
    const QSizeF size(std::ceil(formula->width) + 2, 2 * half);
    QImage image((size * m_scale).toSize(), QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    QPainter painter(&image);
    painter.scale(m_scale, m_scale);
    formula->paint(painter, {1, half + lift}, m_colour);
    painter.end();
    document->addResource(QTextDocument::ImageResource, QUrl(look), image);
    QTextImageFormat format;
    format.setName(look);
    format.setWidth(size.width());
    format.setHeight(size.height());
    format.setVerticalAlignment(QTextCharFormat::AlignMiddle);
    format.setFont(font);
    format.setProperty(kSource, source);
    cursor.insertImage(format);
  }
  m_drawing = false;
  ++m_drawn;
  Q_EMIT drawnChanged();
}

QString FormulaText::text(int begin, int end) const {
  QString out;
  if (m_target == nullptr || m_target->textDocument() == nullptr) return out;
  QTextCursor cursor(m_target->textDocument());
  for (int at = begin; at < end; ++at) {
    const QChar c = cursor.document()->characterAt(at);
    if (c == QChar::ObjectReplacementCharacter) {
      cursor.setPosition(at + 1);
      out += cursor.charFormat().stringProperty(kSource);
    } else {
      out += c == QChar::ParagraphSeparator || c == QChar::LineSeparator ? QChar(u'\n') : c;
    }
  }
  return out;
}

}  // namespace runnel::chat
