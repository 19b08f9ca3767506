// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/marked_text.h"

#include "runtime/text/utf8.h"

namespace runnel {

namespace {

constexpr char32_t kNoCharacter = 0xdc00;  // to 0xdcff: a byte

void append_bytes(std::string& out, char32_t c) {
  if ((code_point(c) & ~char32_t{0xff}) == kNoCharacter) {
    out += static_cast<char>(c & 0xff);
  } else {
    append_utf8(out, code_point(c));
  }
}

}  // namespace

MarkedText marked_text(std::string_view utf8, bool given) {
  MarkedText out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    const Utf8Step step = utf8_step(utf8);
    const bool whole = step.kind == Utf8Step::Kind::character;
    const char32_t byte = kNoCharacter | static_cast<unsigned char>(utf8[0]);
    out += static_cast<char32_t>((whole ? step.code_point : byte) | (given ? kGiven : 0));
    utf8.remove_prefix(whole ? step.length : 1);
  }
  return out;
}

std::string bytes_of(const MarkedText& text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) append_bytes(out, c);
  return out;
}

std::vector<ByteRange> given_in(const MarkedText& text) {
  std::vector<ByteRange> out;
  std::string bytes;
  for (const char32_t c : text) {
    const std::size_t begin = bytes.size();
    append_bytes(bytes, c);
    if ((c & kGiven) == 0) continue;
    if (out.empty() || out.back().end < begin) out.push_back({begin, begin});
    out.back().end = bytes.size();
  }
  return out;
}

}  // namespace runnel
