// SPDX-License-Identifier: Apache-2.0
// Text of a template that knows where it came from.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
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
  explicit Text(std::string bytes, bool given = false)
      : bytes_(std::move(bytes)), given_(bytes_.size(), given ? 1 : 0) {}

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  /// Bytes that were given: ascending, never empty, never touching.
  std::vector<Range> given() const;

  void append(const Text& other) {
    bytes_ += other.bytes_;
    given_ += other.given_;
  }
  void append(std::string_view written) { append(Text(std::string(written))); }
  Text part(std::size_t from, std::size_t size = std::string::npos) const {
    Text out(bytes_.substr(from, size));
    out.given_ = given_.substr(from, size);
    return out;
  }
  /// The same with each byte replaced by f(byte).
  template <class F>
  Text mapped(const F& f) const {
    Text out = *this;
    for (char& c : out.bytes_) c = f(c);
    return out;
  }

 private:
  std::string bytes_;
  std::string given_;  // for each byte 1 or 0
};

/// Bytes of the character at `at` (1 to 4; 1 for a byte that is none).
std::size_t character_size(std::string_view text, std::size_t at);
/// Bytes of the white space (as Python's str.isspace) at `at`, 0 if there is none.
std::size_t space_size(std::string_view text, std::size_t at);
/// Past the white space at `at`.
std::size_t skip_spaces(std::string_view text, std::size_t at);
std::size_t character_count(std::string_view text);
/// Where each character begins, and the end.
std::vector<std::size_t> character_starts(std::string_view text);
/// The part without white space, or without the characters of `chars`, at its ends.
Text stripped(const Text& text, bool left, bool right, const std::string* chars = nullptr);

/// The number that is all of `text`, if it is one that a T holds. `base`: for integers, 10 if left out.
template <class T, class... Base>
std::optional<T> number_in(std::string_view text, Base... base) {
  T number{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, base...);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace runnel::jinja
