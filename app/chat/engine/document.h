// SPDX-License-Identifier: Apache-2.0
// Documents as a model reads them: what is one, and the text of those that this process reads itself.
#pragma once

#include <QString>
#include <functional>
#include <stop_token>

#include "app/chat/reader/outcome.h"

namespace runnel::chat {

/// The text of a document, or of a folder of sources.
struct Document {
  QString file;
  QString text;
  int files = 0;    // of a folder that are in its text; 0: it is no folder
  int leftOut = 0;  // of them, because they are no text in UTF-8 or too large
};

/// Why there is no text, in a sentence for the details.
struct NoDocument {
  QString file;
  reader::Why why = reader::Why::Damaged;
  QString reason;
};

enum class DocumentKind {
  None,
  Text,    // text and Markdown
  Office,  // PDF, docx and odt, which another process reads
  Folder
};

/// By its name.
DocumentKind documentKind(const QString& file);

/// Bounds on what is read of a folder.
struct FolderLimits {
  int files = 2000;
  int looked = 50'000;          // entries of folders, whatever they are
  qint64 fileBytes = 1 << 20;   // a larger one is left out: nobody wrote it
  qint64 textBytes = 16 << 20;  // of all together
  int depth = 24;
};

/// The text of a file in UTF-8, at most 16 MiB. Why::Io, TooLarge, Damaged, NoText.
reader::Outcome readTextFile(const QString& file, Document& document);

/// Text and sources below a folder in a stable order, each in a fence under its path as a heading. Left aside are hidden
/// files and folders, links, what is built (also folders that say so) and files of other kinds.
/// @param progress  the part that is read
/// @return NoText, TooLarge; an empty text if a stop was requested
reader::Outcome readFolder(const QString& folder, const FolderLimits& limits,
                           const std::function<void(double)>& progress, const std::stop_token& stop,
                           Document& document);

}  // namespace runnel::chat
