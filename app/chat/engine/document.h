// SPDX-License-Identifier: Apache-2.0
// Documents that are plain text, as a model reads them.
#pragma once

#include <QString>

#include "runnel/result.h"

namespace runnel::chat {

/// Whether a file of this name is a document that is read: text and Markdown.
bool isDocument(const QString& file);

/// The text of a document, at most 16 MiB of UTF-8.
/// @return io; malformed if it is not UTF-8, larger, or has no text
Result<QString> readDocumentText(const QString& file);

}  // namespace runnel::chat
