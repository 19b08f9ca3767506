// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/gbnf.h"

#include <algorithm>

namespace runnel {
namespace {

constexpr std::string_view kNothing = "\"\" ";
constexpr std::string_view kAnyCharacter = "[\\x01-\\U0010FFFF]";

/// Behind what begins at `from` and ends with `close`, which a backslash hides.
std::size_t behind(std::string_view text, std::size_t from, char close) {
  std::size_t at = from + 1;
  while (at < text.size() && text[at] != close) at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

}  // namespace

std::string complete_gbnf(std::string_view text) {
  std::string all;
  all.reserve(text.size() + text.size() / 8);
  char before = 0;  // the last character that counts; = for ::=
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    std::size_t end = i + 1;
    if (c == '#') {
      end = std::min(text.find('\n', i), text.size());
    } else if (c == '"') {
      end = behind(text, i, '"');
    } else if (c == '[') {
      end = behind(text, i, ']');
    }
    const bool begins = before == '=' || before == '|';
    if ((c == '|' && (begins || before == '(')) || (c == ')' && begins)) all += kNothing;
    all += c == '.' ? kAnyCharacter : text.substr(i, end - i);
    if (c != '#' && c != ' ' && c != '\t' && c != '\n' && c != '\r') before = c;
    i = end;
  }
  if (before == '|') all += kNothing;
  return all;
}

}  // namespace runnel
