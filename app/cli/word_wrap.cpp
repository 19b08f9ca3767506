// SPDX-License-Identifier: Apache-2.0
#include "app/cli/word_wrap.h"

namespace runnel::cli {

void WordWrap::end_word(std::string& out) {
  if (word_.empty()) return;
  const std::size_t width = spaces_.size() + word_width_;
  if (column_ > 0 && column_ + width > columns_ && word_width_ <= columns_) {
    out += "\n" + word_;
    column_ = word_width_;
  } else {
    out += spaces_ + word_;
    column_ += width;
    // A word longer than the line is broken by the terminal.
    if (column_ > columns_) column_ = (column_ - 1) % columns_ + 1;
  }
  spaces_.clear();
  word_.clear();
  word_width_ = 0;
}

std::string WordWrap::push(std::string_view text) {
  if (columns_ == 0) return std::string(text);
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      end_word(out);
      out += '\n';
      column_ = 0;
      spaces_.clear();
    } else if (c == ' ' || c == '\t') {
      end_word(out);
      spaces_ += c == '\t' ? "    " : " ";
    } else {
      word_ += c;
      if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) ++word_width_;
    }
  }
  return out;
}

std::string WordWrap::finish() {
  std::string out;
  end_word(out);
  spaces_.clear();
  return out;
}

}  // namespace runnel::cli
