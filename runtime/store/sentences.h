// SPDX-License-Identifier: Apache-2.0
// The sentences of a text: up to a full stop or the end of a line, none longer than is worth reading again.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/text.h"

namespace runnel {

struct Sentence {
  ByteRange range;         // without spaces around it, never empty
  bool paragraph = false;  // it begins one: an empty line comes before it, or nothing
};

/// In their order. A line that was only broken for its length goes on; a longer sentence than kLongestSentence is cut
/// between words.
std::vector<Sentence> sentences_of(std::string_view text);

inline constexpr std::size_t kLongestSentence = 600;  // bytes, 100 to 200 tokens

}  // namespace runnel
