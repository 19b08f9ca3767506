// SPDX-License-Identifier: Apache-2.0
#include "app/chat/reader/tidy.h"

#include <cstdint>
#include <vector>

namespace runnel::reader {
namespace {

constexpr char32_t kBad = 0xFFFD;
// PDFium's mark of a hyphen at the end of a line, which it joins with the next.
constexpr char32_t kDivided = 0xFFFE;

/// The character that `text` begins with, and its bytes are taken off.
char32_t next(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 && first < 0xF5   ? 3
                   : first >= 0xE0 && first < 0xF0 ? 2
                   : first >= 0xC2 && first < 0xE0 ? 1
                                                   : 0;
  if (more == 0 || text.size() < static_cast<std::size_t>(more)) return kBad;
  char32_t c = first & (0x3FU >> more);
  for (int i = 0; i < more; ++i) {
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
    if ((byte & 0xC0U) != 0x80U) return kBad;
    c = c << 6U | (byte & 0x3FU);
  }
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  if (c < kLeast[more] || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) return kBad;
  text.remove_prefix(static_cast<std::size_t>(more));
  return c;
}

void append(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6U);
    put(0x80 | (c & 0x3FU));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12U);
    put(0x80 | (c >> 6U & 0x3FU));
    put(0x80 | (c & 0x3FU));
  } else {
    put(0xF0 | c >> 18U);
    put(0x80 | (c >> 12U & 0x3FU));
    put(0x80 | (c >> 6U & 0x3FU));
    put(0x80 | (c & 0x3FU));
  }
}

/// Whether it is a small letter of an alphabet in which words are divided.
bool isSmall(char32_t c) {
  return (c >= U'a' && c <= U'z') || (c >= 0xDF && c <= 0xFF && c != 0xF7) ||
         (c >= 0x100 && c < 0x180 && c % 2 == 1) || (c >= 0x3AC && c <= 0x3CE) ||
         (c >= 0x430 && c <= 0x45F);
}
bool isLetter(char32_t c) {
  return isSmall(c) || (c >= U'A' && c <= U'Z') || (c >= 0xC0 && c < 0x180) ||
         (c >= 0x386 && c <= 0x42F);
}

class Tidier {
 public:
  Tidier(std::string& out, bool typeset) : m_out(out), m_typeset(typeset) {}

  void add(char32_t c, char32_t following) {
    if (c == kDivided) {
      if (!isSmall(following)) add(U'-', following);
      return;
    }
    if (c == U'\n') {
      if (m_typeset && m_before == U'-' && isLetter(m_beforeThat) && isSmall(following) &&
          m_ends == 0) {
        m_out.pop_back();  // the hyphen
        m_before = m_beforeThat;
        m_spaces.clear();
        return;
      }
      m_spaces.clear();
      ++m_ends;
      return;
    }
    if (c == U' ' || c == U'\t' || c == 0xA0) {
      m_spaces += c == U'\t' ? '\t' : ' ';
      return;
    }
    if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0xFEFF || c == 0xFFFF) return;
    if (m_ends > 0 && !m_out.empty()) m_out += m_ends > 1 ? "\n\n" : "\n";
    m_ends = 0;
    m_out += m_spaces;
    m_beforeThat = m_spaces.empty() ? m_before : U' ';
    m_spaces.clear();
    append(m_out, c);
    m_before = c;
  }

 private:
  std::string& m_out;
  const bool m_typeset;
  std::string m_spaces;  // not written yet
  std::size_t m_ends = 0;
  char32_t m_before = 0;
  char32_t m_beforeThat = 0;
};

}  // namespace

std::string tidy(std::string_view text, bool typeset) {
  std::string out;
  out.reserve(text.size());
  Tidier tidier(out, typeset);
  const auto take = [&text]() -> char32_t {
    if (text.empty()) return 0;
    const char32_t c = next(text);
    if (c == U'\r') {
      if (text.starts_with('\n')) text.remove_prefix(1);
      return U'\n';
    }
    return c;
  };
  char32_t c = take();
  bool more = true;
  for (std::string_view rest = text; more; rest = text) {
    more = !rest.empty();
    const char32_t following = take();
    if (c == U'\f') {
      tidier.add(U'\n', 0);
      tidier.add(U'\n', 0);
    } else {
      tidier.add(c, following);
    }
    c = following;
  }
  if (!out.empty()) out += '\n';
  return out;
}

}  // namespace runnel::reader
