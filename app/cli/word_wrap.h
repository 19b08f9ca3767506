// SPDX-License-Identifier: Apache-2.0
// Breaks streamed text between words, where a terminal would break inside them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace runnel::cli {

/// A word is held back until it is whole; everything else passes as it comes, and so do line breaks and indentation.
class WordWrap {
 public:
  /// @param columns  width of the terminal; 0: passes everything.
  explicit WordWrap(std::size_t columns) : columns_(columns) {}

  /// Takes whole UTF-8 characters; returns what can be shown.
  std::string push(std::string_view text);

  /// The last word.
  std::string finish();

 private:
  void end_word(std::string& out);

  std::size_t columns_;
  std::size_t column_ = 0;  // where the cursor is
  std::string spaces_;      // before the held word
  std::string word_;
  std::size_t word_width_ = 0;  // in characters; wide ones count once
};

}  // namespace runnel::cli
