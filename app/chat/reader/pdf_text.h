// SPDX-License-Identifier: Apache-2.0
// The text of PDF files: by Qt PDF where the program was built with it, else by poppler's pdftotext as a process.
#pragma once

#include <string>
#include <string_view>

#include "app/chat/reader/outcome.h"

namespace runnel::reader {

/// Appends pages with an empty line after each. Call it in the sandbox.
/// @return NotSupported without Qt PDF
Outcome pdfText(std::string_view bytes, const Limits& limits, const Progress& progress,
                std::string& out);

/// Whether pdfText() is of use.
bool hasQtPdf();

/// Appends what pdftotext writes of the file that standard input is. It runs in a sandbox of its own, under the limits of
/// this process, which enters the sandbox before it reads a byte of that.
/// @return NotSupported if there is no such program
Outcome pdfTextByProgram(const Limits& limits, std::string& out);

}  // namespace runnel::reader
