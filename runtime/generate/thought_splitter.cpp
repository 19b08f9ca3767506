// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/thought_splitter.h"

#include <utility>

namespace runnel {
namespace {

constexpr std::string_view kBegin = "<think>";
constexpr std::string_view kEnd = "</think>";
constexpr std::string_view kSpaces = " \t\r\n";

void drop_leading_spaces(std::string& text) {
  text.erase(0, std::min(text.find_first_not_of(kSpaces), text.size()));
}

/// Bytes at the end of `text` that may begin kEnd, and white space before them.
std::size_t open_end(std::string_view text) {
  std::size_t n = std::min(text.size(), kEnd.size() - 1);
  while (n > 0 && !kEnd.starts_with(text.substr(text.size() - n))) --n;
  const std::size_t last = text.substr(0, text.size() - n).find_last_not_of(kSpaces);
  return text.size() - (last == text.npos ? 0 : last + 1);
}

}  // namespace

void ThoughtSplitter::take_thought(Text& out) {
  const std::size_t end = held_.find(kEnd);
  const bool closed = end != std::string::npos;
  std::string rest = closed ? held_.substr(end + kEnd.size()) : std::string();
  if (closed) held_.resize(end);
  if (!thought_begun_) drop_leading_spaces(held_);
  const std::size_t keep =
      closed ? held_.size() - (held_.find_last_not_of(kSpaces) + 1) : open_end(held_);
  out.thought.append(held_, 0, held_.size() - keep);
  thought_begun_ = thought_begun_ || !out.thought.empty();
  if (closed) {
    held_ = std::move(rest);
    part_ = Part::gap;
  } else {
    held_.erase(0, held_.size() - keep);
  }
}

void ThoughtSplitter::open(std::string_view opening) {
  if (part_ != Part::start || opening.empty()) return;
  has_thought_ = true;
  const std::string_view tags = opening.substr(0, opening.find_last_not_of(kSpaces) + 1);
  tag_open_ = !tags.ends_with('>');
  const bool closed =
      tags.ends_with(kEnd) || (tag_open_ && tags.ends_with(kEnd.substr(0, kEnd.size() - 1)));
  part_ = closed ? Part::gap : Part::thought;
}

ThoughtSplitter::Text ThoughtSplitter::push(std::string_view piece) {
  Text out;
  if (tag_open_ && !piece.empty()) {
    tag_open_ = false;
    if (piece.front() == '>') piece.remove_prefix(1);
  }
  if (part_ == Part::all || part_ == Part::answer) {
    out.answer = piece;
    return out;
  }
  held_ += piece;
  if (part_ == Part::start) {
    drop_leading_spaces(held_);
    if (held_.starts_with(kBegin)) {
      held_.erase(0, kBegin.size());
      part_ = Part::thought;
      has_thought_ = true;
    } else if (!kBegin.starts_with(held_)) {
      part_ = Part::gap;
    }
  }
  if (part_ == Part::thought) take_thought(out);
  if (part_ == Part::gap) {
    drop_leading_spaces(held_);
    if (!held_.empty()) {
      out.answer = std::exchange(held_, {});
      part_ = Part::answer;
    }
  }
  return out;
}

ThoughtSplitter::Text ThoughtSplitter::finish() {
  Text out;
  (part_ == Part::thought ? out.thought : out.answer) = std::exchange(held_, {});
  return out;
}

}  // namespace runnel
