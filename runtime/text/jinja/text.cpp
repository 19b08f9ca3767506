// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/text.h"

#include <algorithm>

#include "runtime/text/utf8.h"

namespace runnel::jinja {

void Text::append(const Text& other) {
  const std::size_t base = bytes_.size();
  bytes_ += other.bytes_;
  for (const Range& range : other.given_) {
    if (!given_.empty() && given_.back().end == base + range.begin) {
      given_.back().end = base + range.end;
    } else {
      given_.push_back({base + range.begin, base + range.end});
    }
  }
}

Text Text::part(std::size_t from, std::size_t size) const {
  Text out(bytes_.substr(from, size));
  const std::size_t end = from + out.size();
  for (const Range& range : given_) {
    const Range cut = {std::max(range.begin, from), std::min(range.end, end)};
    if (cut.begin < cut.end) out.given_.push_back({cut.begin - from, cut.end - from});
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

Text stripped(const Text& text, bool left, bool right, const std::string* chars) {
  const std::string& bytes = text.bytes();
  const auto drops = [&](std::size_t at) -> std::size_t {
    if (chars == nullptr) return space_size(bytes, at);
    const std::size_t size = character_size(bytes, at);
    return chars->find(bytes.substr(at, size)) == std::string::npos ? 0 : size;
  };
  std::size_t from = 0;
  std::size_t to = bytes.size();
  while (left && from < to) {
    const std::size_t size = drops(from);
    if (size == 0) break;
    from += size;
  }
  while (right && to > from) {
    std::size_t at = to - 1;
    while (at > from && (static_cast<unsigned char>(bytes[at]) & 0xc0U) == 0x80) --at;
    if (drops(at) == 0) break;
    to = at;
  }
  return text.part(from, to - from);
}

std::vector<std::size_t> character_starts(const Text* text) {
  std::vector<std::size_t> out;
  if (text == nullptr) return out;
  for (std::size_t at = 0; at < text->size(); at += character_size(text->bytes(), at))
    out.push_back(at);
  out.push_back(text->size());
  return out;
}

}  // namespace runnel::jinja
