// SPDX-License-Identifier: Apache-2.0
// Text of a template that knows where it came from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"

namespace runnel::jinja {

/// UTF-8, and which of its bytes were given (by a message, a tool) rather than written by the template: special tokens
/// are looked for in the latter alone, so that no message can forge them.
class Text {
 public:
  using Range = ByteRange;

  Text() = default;
  explicit Text(std::string bytes, bool given = false) : bytes_(std::move(bytes)) {
    if (given && !bytes_.empty()) given_.push_back({0, bytes_.size()});
  }

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  /// Bytes that were given: ascending, never empty, never touching.
  const std::vector<Range>& given() const { return given_; }

  void append(const Text& other);
  void append(std::string_view written) { bytes_ += written; }
  Text part(std::size_t from, std::size_t size = std::string::npos) const;
  /// The same with each byte replaced by f(byte).
  template <class F>
  Text mapped(const F& f) const {
    Text out = *this;
    for (char& c : out.bytes_) c = f(c);
    return out;
  }

 private:
  std::string bytes_;
  std::vector<Range> given_;
};

/// Bytes of the character at `at` (1 to 4; 1 for a byte that is none).
std::size_t character_size(std::string_view text, std::size_t at);

/// Bytes of the white space (as Python's str.isspace) at `at`, 0 if there is none.
std::size_t space_size(std::string_view text, std::size_t at);

/// The part without white space, or without the characters of `chars`, at its ends.
Text stripped(const Text& text, bool left, bool right, const std::string* chars = nullptr);

/// Where each character begins, and the end; of no text nothing.
std::vector<std::size_t> character_starts(const Text* text);

}  // namespace runnel::jinja
