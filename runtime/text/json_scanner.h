// SPDX-License-Identifier: Apache-2.0
// Follows a JSON value byte by byte: whether it is one so far, how deep it stands, and where it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace runnel {

/// One value, an object or a list. Bytes of texts are not checked to be UTF-8.
class JsonScanner {
 public:
  static constexpr std::size_t kMostDepth = 64;

  enum class State { more, done, wrong };
  /// What may come where no text, number or word has begun.
  enum class Expects : std::uint8_t {
    value,
    value_or_end,  // of a list
    key,
    key_or_end,  // of an object
    colon,
    comma_or_end,
    nothing,  // it is whole
  };

  /// The next byte. After done only white space may come.
  State push(char c);

  State state() const { return state_; }
  Expects expects() const { return expects_; }
  /// Objects and lists that are open.
  std::size_t depth() const { return open_.size(); }
  /// In a text, a number or a word, of which more bytes may come.
  bool inside() const { return part_ != Part::none; }

 private:
  enum class Part : std::uint8_t {
    none,
    text,
    escape,
    hex,
    minus,
    zero,
    whole,
    point,
    fraction,
    exponent,
    exponent_sign,
    exponent_digits,
    word,
  };

  bool take(char c);
  bool take_text(char c);
  bool take_number(char c, bool& again);
  bool begin_value(char c);
  bool close(char bracket);
  void value_ended() { expects_ = open_.empty() ? Expects::nothing : Expects::comma_or_end; }

  State state_ = State::more;
  Expects expects_ = Expects::value;
  Part part_ = Part::none;
  bool key_ = false;       // the text is one
  int hex_ = 0;            // digits to come
  std::string_view word_;  // rest of it
  std::vector<char> open_;
};

/// Whether `text` is one JSON object or list, nested at most JsonScanner::kMostDepth deep. Only the quotes of its texts
/// are looked at.
bool is_json_container(std::string_view text);

}  // namespace runnel
