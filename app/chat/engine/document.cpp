// SPDX-License-Identifier: Apache-2.0
#include "app/chat/engine/document.h"

#include <QFile>
#include <QFileInfo>
#include <QStringDecoder>
#include <QStringList>

#include "runtime/base/try.h"

namespace runnel::chat {

bool isDocument(const QString& file) {
  static const QStringList kinds = {QStringLiteral("txt"), QStringLiteral("text"),
                                    QStringLiteral("md"), QStringLiteral("markdown")};
  return kinds.contains(QFileInfo(file).suffix().toLower());
}

Result<QString> readDocumentText(const QString& name) {
  constexpr qint64 kLargest = 16LL << 20;
  QFile file(name);
  if (!file.open(QIODevice::ReadOnly))
    return fail(ErrorCode::io, name.toStdString(), ": ", file.errorString().toStdString());
  if (file.size() > kLargest) {
    return fail(ErrorCode::malformed, name.toStdString(), ": has ", file.size(),
                " bytes, expected at most ", kLargest);
  }
  QStringDecoder decoder(QStringDecoder::Utf8);
  const QString text = decoder(file.readAll());
  if (decoder.hasError() || text.contains(QChar(0)))
    return fail(ErrorCode::malformed, name.toStdString(), ": is no text in UTF-8");
  if (text.trimmed().isEmpty())
    return fail(ErrorCode::malformed, name.toStdString(), ": has no text to read");
  return text;
}

}  // namespace runnel::chat
