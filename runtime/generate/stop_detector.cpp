// SPDX-License-Identifier: Apache-2.0
// Stop strings by Knuth, Morris and Pratt: the automaton's state is exactly what must be held back.
#include "runtime/generate/stop_detector.h"

#include <algorithm>

namespace runnel {

void StopDetector::Pattern::advance(char next) {
  if (matched == text.size()) matched = border[matched];
  while (matched > 0 && text[matched] != next) matched = border[matched];
  if (text[matched] == next) ++matched;
}

StopDetector::StopDetector(const std::vector<std::string>& stops) {
  for (const std::string& text : stops) {
    if (text.empty()) continue;
    Pattern pattern{
        .text = text, .border = std::vector<std::size_t>(text.size() + 1), .matched = 0};
    for (std::size_t n = 1; n < text.size(); ++n) {
      // The border of text[0, n + 1) is what the automaton has matched after reading text[1, n + 1).
      pattern.advance(text[n]);
      pattern.border[n + 1] = pattern.matched;
    }
    pattern.matched = 0;
    patterns_.push_back(std::move(pattern));
  }
}

std::string_view StopDetector::push(std::string_view piece) {
  shown_.clear();
  if (stopped_) return {};
  if (patterns_.empty()) {
    shown_ = piece;
    return shown_;
  }
  shown_ = held_;
  std::size_t hold = held_.size();
  for (const char next : piece) {
    shown_ += next;
    hold = 0;
    std::size_t found = 0;
    for (Pattern& pattern : patterns_) {
      pattern.advance(next);
      hold = std::max(hold, pattern.matched);
      if (pattern.matched == pattern.text.size()) found = std::max(found, pattern.matched);
    }
    if (found > 0) {
      stopped_ = true;
      held_.clear();
      shown_.resize(shown_.size() - found);
      return shown_;
    }
  }
  held_.assign(shown_, shown_.size() - hold, hold);
  shown_.resize(shown_.size() - hold);
  return shown_;
}

std::string_view StopDetector::finish() {
  shown_ = std::move(held_);
  held_.clear();
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  stopped_ = false;
  return shown_;
}

}  // namespace runnel
