// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/text.h"

#include <algorithm>

#include "runtime/text/utf8.h"

namespace runnel::jinja {

namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }

}  // namespace

std::vector<Text::Range> Text::given() const {
  std::vector<Range> out;
  for (std::size_t end = 0, begin = 0; (begin = given_.find('\1', end)) != given_.npos;) {
    end = std::min(given_.find('\0', begin), size());
    out.push_back({begin, end});
  }
  return out;
}

std::size_t character_size(std::string_view text, std::size_t at) {
  const Utf8Step step = utf8_step(text.substr(at));
  return step.kind == Utf8Step::Kind::character ? step.length : 1;
}

std::size_t space_size(std::string_view text, std::size_t at) {
  const Utf8Step step = utf8_step(text.substr(at));
  if (step.kind != Utf8Step::Kind::character) return 0;
  const std::uint32_t c = step.code_point;
  const bool space = (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 ||
                     c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
                     c == 0x202f || c == 0x205f || c == 0x3000;
  return space ? step.length : 0;
}

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && space_size(text, at) > 0) at += space_size(text, at);
  return at;
}

std::vector<std::size_t> character_starts(std::string_view text) {
  std::vector<std::size_t> out = {0};
  while (out.back() < text.size()) out.push_back(out.back() + character_size(text, out.back()));
  return out;
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

Text stripped(const Text& text, bool left, bool right, const std::string* chars) {
  const std::string& bytes = text.bytes();
  const auto drops = [&](std::size_t at) {
    if (chars == nullptr) return space_size(bytes, at) > 0;
    return chars->find(bytes.substr(at, character_size(bytes, at))) != std::string::npos;
  };
  std::size_t from = 0;
  std::size_t to = bytes.size();
  while (left && from < to && drops(from)) from += character_size(bytes, from);
  for (std::size_t at = to; right && at > from;) {
    --at;
    if (!begins_character(bytes[at]) && at > from) continue;
    if (!drops(at)) break;
    to = at;
  }
  return text.part(from, to - from);
}

}  // namespace runnel::jinja
