// SPDX-License-Identifier: Apache-2.0
// Extracted text as a model should read it.
#pragma once

#include <string>
#include <string_view>

namespace runnel::reader {

/// UTF-8 with "\n" between lines and at most one empty line between paragraphs, without control characters and spaces at
/// the ends of lines. What is no UTF-8 becomes U+FFFD.
/// @param typeset  lines end where a page does: a word that was divided there is put together again
std::string tidy(std::string_view text, bool typeset);

}  // namespace runnel::reader
