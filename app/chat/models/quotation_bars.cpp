// SPDX-License-Identifier: Apache-2.0
#include "app/chat/models/quotation_bars.h"

#include <QAbstractTextDocumentLayout>
#include <QTextBlock>
#include <QTextDocument>
#include <QTextLayout>
#include <algorithm>
#include <utility>
#include <vector>

namespace runnel::chat {
namespace {

constexpr qreal kIndent = 40;  // as Qt moves the text of a quotation in

/// Where the words of a block that is laid out begin.
qreal leftOf(const QTextBlock& block) {
  return block.layout()->lineCount() > 0 ? block.layout()->lineAt(0).x() : 0;
}

}  // namespace

QuotationBars::QuotationBars(QObject* parent) : QObject(parent) {
  connect(this, &QuotationBars::changed, this, &QuotationBars::attach);
}

void QuotationBars::attach() {
  QTextDocument* document = m_target != nullptr ? m_target->textDocument() : nullptr;
  if (document != m_watched) {
    if (m_watched != nullptr) {
      disconnect(m_watched, nullptr, this, nullptr);
      disconnect(m_watched->documentLayout(), nullptr, this, nullptr);
    }
    m_watched = document;
    if (document != nullptr) {
      connect(document, &QTextDocument::contentsChanged, this, &QuotationBars::findLater);
      connect(document->documentLayout(), &QAbstractTextDocumentLayout::documentSizeChanged, this,
              &QuotationBars::findLater);
      connect(document, &QObject::destroyed, this, [this] { m_watched = nullptr; });
    }
  }
  findLater();
}

void QuotationBars::findLater() {
  if (std::exchange(m_due, true)) return;
  QMetaObject::invokeMethod(this, &QuotationBars::find, Qt::QueuedConnection);
}

void QuotationBars::find() {
  m_due = false;
  std::vector<QRectF> bars;
  std::vector<std::size_t> open;  // of the block before, the outmost first
  if (m_watched != nullptr) {
    QTextBlock before;
    for (QTextBlock block = m_watched->begin(); block.isValid();
         before = std::exchange(block, block.next())) {
      const int level = block.blockFormat().intProperty(QTextFormat::BlockQuoteLevel) - m_depth;
      const auto deep = static_cast<std::size_t>(std::max(level, 0));
      const std::size_t deepBefore = open.size();
      open.resize(std::min(deep, deepBefore));
      if (deep == 0) continue;
      const QRectF place = m_watched->documentLayout()->blockBoundingRect(block);
      for (std::size_t i = 0; i < deep; ++i) {
        // A list that is quoted stands further in than its quotation, one with a quotation less far.
        const qreal left = leftOf(block) - kIndent * static_cast<qreal>(deep - i);
        if (i < open.size()) {
          QRectF& bar = bars[open[i]];
          bar.moveLeft(std::min(bar.left(), left));
          bar.setBottom(place.bottom());
          continue;
        }
        const qreal around =
            before.isValid() ? leftOf(before) + kIndent * static_cast<qreal>(i - deepBefore) : left;
        open.push_back(bars.size());
        bars.emplace_back(std::min(left, around), place.top(), kIndent, place.height());
      }
    }
  }
  QVariantList found;
  for (const QRectF& bar : bars) found.push_back(bar);
  if (found == m_bars) return;
  m_bars = std::move(found);
  Q_EMIT barsChanged();
}

}  // namespace runnel::chat
