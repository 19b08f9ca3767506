// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/formula_items.h"

#include <QFontMetricsF>
#include <QImage>
#include <QTextCursor>
#include <QTextDocument>
#include <QUrl>
#include <cmath>

#include "app/chat/models/formula.h"
#include "app/chat/models/markdown_blocks.h"

namespace runnel::chat {

constexpr int kSource = QTextFormat::UserProperty + 1;  // of a picture's format: what it shows

FormulaText::FormulaText(QObject* parent) : QObject(parent) {
  connect(this, &FormulaText::changed, this, [this] {
    if (m_target == nullptr || m_target->textDocument() == nullptr) return;
    connect(m_target->textDocument(), &QTextDocument::contentsChanged, this, &FormulaText::draw,
            Qt::UniqueConnection);
    draw();
  });
}

void FormulaText::draw() {
  if (m_drawing || m_formulas.isEmpty()) return;
  m_drawing = true;
  QTextDocument* document = m_target->textDocument();
  // A picture in the middle of a line stands on half the height of an x: as much more above as below. One on lines of
  // its own needs no more than its ink.
  QFont font = document->defaultFont();
  font.setPixelSize(qRound(m_pixelSize));
  const qreal lift = QFontMetricsF(font).xHeight() / 4;
  QTextCursor cursor(document);
  for (const QString& source : m_formulas) {
    cursor = document->find(QString(QChar::ObjectReplacementCharacter), cursor);
    if (cursor.isNull()) break;
    const QString look =
        QStringLiteral("formula:%1/%2/%3/").arg(cursor.position()).arg(m_pixelSize).arg(m_scale) +
        m_colour.name();
    const QTextImageFormat now = cursor.charFormat().toImageFormat();
    if (now.name() == look && now.stringProperty(kSource) == source) continue;
    const auto formula = Formula::layOut(formulaInside(source), m_pixelSize, m_display);
    if (!formula) continue;
    const qreal half = std::ceil(std::max(formula->ascent - lift, formula->descent + lift)) + 1;
    const qreal high = m_display ? formula->ascent + formula->descent + 2 : 2 * half;
    const qreal step = m_display ? 4 : 1;  // fours are whole pixels at a scale of 1.25 and 1.5 too
    const QSizeF size(step * std::ceil((formula->width + 2) / step), step * std::ceil(high / step));
    QImage image((size * m_scale).toSize(), QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    QPainter painter(&image);
    painter.scale(m_scale, m_scale);
    formula->paint(painter, {1, m_display ? formula->ascent + 1 : half + lift}, m_colour);
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
