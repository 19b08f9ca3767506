// SPDX-License-Identifier: Apache-2.0
#include "app/chat/reader/pdf_text.h"

#if RUNNEL_QT_PDF
#include <QBuffer>
#include <QPdfDocument>
#include <QPdfSelection>
#endif

namespace runnel::reader {

#if RUNNEL_QT_PDF

bool hasQtPdf() { return true; }

Outcome pdfText(std::string_view bytes, const Limits& limits, const Progress& progress,
                std::string& out) {
  QByteArray content = QByteArray::fromRawData(bytes.data(), static_cast<qsizetype>(bytes.size()));
  QBuffer file(&content);
  file.open(QIODevice::ReadOnly);
  QPdfDocument document;
  document.load(&file);
  switch (document.error()) {
    case QPdfDocument::Error::None:
      break;
    case QPdfDocument::Error::IncorrectPassword:
      return {Why::Encrypted, "opens with a password only"};
    case QPdfDocument::Error::UnsupportedSecurityScheme:
      return {Why::Encrypted, "is encrypted in a way that is not known"};
    default:
      return {Why::Damaged, "is no PDF file that can be read"};
  }
  const int pages = document.pageCount();
  for (int page = 0; page < pages; ++page) {
    progress(page, pages);
    out += document.getAllText(page).text().toStdString();
    out += "\n\n";
    // Its own end of the text is what the caller refuses.
    if (out.size() > limits.textBytes * 2) break;
  }
  progress(pages, pages);
  return {};
}

#else

bool hasQtPdf() { return false; }

Outcome pdfText(std::string_view, const Limits&, const Progress&, std::string&) {
  return {Why::NotSupported, "is a PDF file, and this program was built without Qt PDF"};
}

#endif

}  // namespace runnel::reader
