// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/sentences.h"

#include <algorithm>

namespace runnel {
namespace {

constexpr std::size_t kLongLine = 50;     // bytes: a line that may have been broken for its length
constexpr std::size_t kAbbreviation = 3;  // letters before a full stop that may end no sentence

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool inside_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Whether the full stop at `at` belongs to "Mr.", "J." or "3.".
bool is_abbreviation(std::string_view text, std::size_t begin, std::size_t at) {
  std::size_t word = at;
  while (word > begin && !is_space(text[word - 1])) --word;
  const std::string_view letters = text.substr(word, at - word);
  if (letters.empty() || letters.size() > kAbbreviation) return false;
  if (letters.size() == 1) return is_upper(letters[0]) || is_digit(letters[0]);
  return is_upper(letters[0]) && letters.find_first_of("aeiou") == std::string_view::npos;
}

// Behind a sentence that ends with the character at `at`: closing quotes and brackets belong to it.
std::size_t behind_end(std::string_view text, std::size_t at) {
  std::size_t next = at + 1;
  while (next < text.size() && (text[next] == '"' || text[next] == '\'' || text[next] == ')' ||
                                text[next] == '.' || text[next] == '!' || text[next] == '?'))
    ++next;
  return next;
}

// Whether it is one of the full stops of scripts without spaces: 。！？
bool is_wide_stop(std::string_view text, std::size_t at) {
  const std::string_view three = text.substr(at, 3);
  return three == "\xe3\x80\x82" || three == "\xef\xbc\x81" || three == "\xef\xbc\x9f";
}

}  // namespace

std::vector<Sentence> sentences_of(std::string_view text) {
  std::vector<Sentence> sentences;
  bool paragraph = true;
  std::size_t begin = 0;
  std::size_t line = 0;  // where this line begins
  const auto end_at = [&](std::size_t end) {
    while (begin < end && is_space(text[begin])) ++begin;
    std::size_t last = end;
    while (last > begin && is_space(text[last - 1])) --last;
    if (begin < last) {
      sentences.push_back({{begin, last}, paragraph});
      paragraph = false;
    }
    begin = end;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') {
      const bool empty = text.find_first_not_of(" \t\r", line) >= at;
      const bool goes_on =
          !empty && at - line >= kLongLine && at + 1 < text.size() && is_lower(text[at + 1]);
      if (!goes_on) end_at(at);
      if (empty) paragraph = true;
      line = at + 1;
    } else if (c == '.' || c == '!' || c == '?') {
      const std::size_t next = behind_end(text, at);
      const bool ends = next >= text.size() || is_space(text[next]);
      if (ends && !(c == '.' && is_abbreviation(text, begin, at))) {
        end_at(next);
        at = next - 1;
      }
    } else if (is_wide_stop(text, at)) {
      end_at(at + 3);
      at += 2;
    } else if (at - begin >= kLongestSentence) {
      const std::size_t space = text.find_last_of(" \t", at);
      std::size_t cut = space != std::string_view::npos && space > begin ? space : at;
      while (cut > begin + 1 && inside_character(text[cut])) --cut;
      end_at(cut);
    }
  }
  end_at(text.size());
  return sentences;
}

}  // namespace runnel
