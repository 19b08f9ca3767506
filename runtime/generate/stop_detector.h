// SPDX-License-Identifier: Apache-2.0
// Finds stop strings in text that comes in pieces, and holds back text that could still become one.
//
//   StopDetector detector({"\nUser:"});
//   show(detector.push(piece));              // never any part of a stop string
//   if (detector.stopped()) …                // else, at the end of the text:
//   show(detector.finish());
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace runnel {

/// What it shows does not depend on where the pieces are cut. The text ends at the first byte that
/// completes a stop string, and before the longest of those it completes. Time per byte is constant
/// for each stop string.
class StopDetector {
 public:
  /// @param stops  stop strings; empty ones are ignored.
  explicit StopDetector(const std::vector<std::string>& stops);

  /// Takes the next piece and returns the text that may be shown now: what was held back and can no
  /// longer become a stop string, then the piece up to what is held back now. After stopped() it
  /// returns nothing. The view is valid until the next non-const call.
  std::string_view push(std::string_view piece);

  /// Whether a stop string was found.
  bool stopped() const { return stopped_; }

  /// The text held back: a beginning of some stop string. Pushing it into a fresh detector gives this one's state.
  std::string_view held() const { return held_; }

  /// The text ended: returns what was held back and starts over.
  std::string_view finish();

 private:
  // One stop string with the failure links of Knuth, Morris and Pratt.
  struct Pattern {
    std::string text;
    // border[n]: longest proper prefix of text[0, n) that is also its suffix; border[0] 0
    std::vector<std::size_t> border;
    std::size_t matched = 0;  // longest prefix of text that the input ends with
    void advance(char next);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  std::string shown_;  // what the last push returned
  bool stopped_ = false;
};

}  // namespace runnel
