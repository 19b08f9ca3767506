// SPDX-License-Identifier: Apache-2.0
// The text of office documents: docx (Office Open XML) and odt (OpenDocument).
#pragma once

#include <string>
#include <string_view>

#include "app/chat/reader/outcome.h"

namespace runnel::reader {

class Package;

/// Appends paragraphs as lines with an empty one after each, headings with "#", items with "-" or their number, rows of
/// tables as "| a | b |", notes as "[1]" with their text at the end. What was deleted with changes tracked, comments,
/// headers and footers are left out.
Outcome docxText(Package& package, std::string& out);
Outcome odtText(Package& package, std::string& out);

/// Either, by what is in it.
Outcome officeText(std::string_view bytes, const Limits& limits, std::string& out);

}  // namespace runnel::reader
