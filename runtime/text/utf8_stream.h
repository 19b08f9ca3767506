// SPDX-License-Identifier: Apache-2.0
// Tokens may end inside characters: holds bytes back until a UTF-8 character is complete.
//
//   Utf8Stream stream;
//   while (...) show(stream.push(tokenizer.piece(token, first, false)));
//   show(stream.flush());
#pragma once

#include <string>
#include <string_view>

#include "runnel/result.h"

namespace runnel {

/// Joins bytes to whole characters. What can no longer become a character is given as U+FFFD, once
/// for each maximal subpart, so that the text does not depend on where the bytes were split. Not thread-safe.
class Utf8Stream {
 public:
  /// Takes `bytes` and returns the characters that are now complete: always UTF-8, maybe empty.
  /// Valid until the next call.
  std::string_view push(std::string_view bytes);

  /// Ends the text: what is still held back becomes one U+FFFD. The stream is empty afterwards.
  std::string flush();

  /// Bytes held back: at most 3, the beginning of a character. With restore() the stream continues as if it had never
  /// stopped.
  const std::string& carry() const { return carry_; }

  /// @return malformed unless `carry` is empty or the proper beginning of a character.
  Status restore(std::string_view carry);

 private:
  std::string carry_;
  std::string joined_;  // of a push: carry and new bytes, and what is whole of them
  std::string whole_;
};

}  // namespace runnel
