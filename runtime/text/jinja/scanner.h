// SPDX-License-Identifier: Apache-2.0
// A template's source, read from front to back: texts, and in tags words, signs and constants. For parser.cpp alone.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/jinja/value.h"

namespace runnel::jinja {

/// Reads as chat templates are rendered: trim_blocks, lstrip_blocks, comments dropped. In a tag every reading goes past
/// the white space behind it. The first error is kept and moves to the end, where every loop ends.
class Scanner {
 public:
  /// @param source  UTF-8; lines end in \n, and the last line end is dropped.
  explicit Scanner(std::string_view source) {
    const Text all = marked_text(source);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all.compare(i, 2, U"\r\n") != 0) source_ += all[i] == U'\r' ? U'\n' : all[i];
    if (source_.ends_with(U'\n')) source_.pop_back();
  }

  int line() const { return taken_line_; }  // of what was taken last, from 1
  const std::optional<Error>& error() const { return error_; }
  void wrong(const std::string& message, ErrorCode code = ErrorCode::malformed) {
    if (!error_) error_ = fail(code, "chat template, line ", line_, ": ", message);
    at_ = source_.size();
  }
  /// Says that `what` should stand here.
  void expected(const std::string& what) {
    const Text found = source_.substr(at_, std::max<std::size_t>(word_size(), 1));
    wrong("expected " + what + ", found " +
          (closes()        ? "the end of the tag"
           : found.empty() ? "the end"
                           : in_quotes(bytes_of(found))));
  }

  /// What stands before the next tag or the end, without what the tag takes from it.
  Text take_text() {
    Text out;
    for (;;) {
      const std::size_t open = next_tag();
      out += text_before(open);
      go(open - at_);
      if (!stands("{#")) return out;
      go(opening_size());
      const std::size_t end = source_.find(U"#}", at_);
      if (end == Text::npos) {
        wrong("the comment {# is not closed");
      } else {
        const char32_t sign = end > at_ ? at(end - 1) : U' ';
        leave_tag(end + 2 - at_, sign);
      }
    }
  }
  /// Begins a tag if `tag` ({{ or {%) stands here.
  bool opens(std::string_view tag) {
    if (!stands(tag)) return false;
    closing_ = tag == "{{" ? "}}" : "%}";
    take(opening_size());
    return true;
  }
  /// Whether the tag ends here.
  bool closes() const { return closing_size() > 0; }
  /// Ends it.
  void close() {
    const std::size_t size = closing_size();
    if (size == 0) return expected("the end of the tag");
    // A line end behind {{ }} stays.
    leave_tag(size, size == 3 ? at(at_) : closing_ == "}}" ? U'+' : U' ');
  }

  /// Whether this word or sign stands here.
  bool sees(std::string_view text) const {
    if (!stands(text) || (text != "}" && closes())) return false;
    return !is_word(static_cast<unsigned char>(text.back())) || word_size() == text.size();
  }
  bool takes(std::string_view text) {
    const bool there = sees(text);
    if (there) take(text.size());
    return there;
  }
  void expect(std::string_view text) {
    if (!takes(text)) expected("'" + std::string(text) + "'");
  }
  /// Empty if there is none here.
  std::string take_word() {
    const std::size_t size = is_digit(at(at_)) ? 0 : word_size();
    std::string word = bytes_of(source_.substr(at_, size));
    take(size);
    return word;
  }
  std::string take_name() {
    std::string word = take_word();
    if (word.empty()) expected("a name");
    return word;
  }
  /// The name and = before an argument. Nothing is taken if it has none.
  std::string take_argument_name() {
    const auto start = std::pair(at_, line_);
    std::string name = take_word();
    if (!name.empty() && takes("=") && at(at_) != U'=') return name;
    if (!error_) std::tie(at_, line_) = start;
    return {};
  }
  /// A number, or one text or several.
  std::optional<Value> take_constant() {
    if (is_digit(at(at_))) return take_number();
    if (!is_quote(at(at_))) return {};
    Text text;
    while (is_quote(at(at_))) text += take_string();
    return text;
  }

 private:
  static bool is_sign(char32_t c) { return c == U'-' || c == U'+'; }
  static bool is_quote(char32_t c) { return c == U'"' || c == U'\''; }
  static bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
  static bool is_word(char32_t c) {
    return is_digit(c) || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || c == U'_';
  }

  char32_t at(std::size_t i) const { return i < source_.size() ? source_[i] : U' '; }
  bool stands(std::string_view text, std::size_t behind = 0) const {
    return source_.size() - at_ >= behind + text.size() &&
           std::equal(text.begin(), text.end(), source_.data() + at_ + behind);
  }
  std::size_t word_size() const {
    std::size_t size = 0;
    while (is_word(at(at_ + size))) ++size;
    return size;
  }
  /// Of what opens a tag or a comment here, with a sign behind it.
  std::size_t opening_size() const { return is_sign(at(at_ + 2)) ? 3 : 2; }
  /// Of what closes the tag here, with a sign before it; 0 if the tag goes on.
  std::size_t closing_size() const {
    const std::size_t sign = at(at_) == U'-' || (at(at_) == U'+' && closing_ == "%}") ? 1 : 0;
    return stands(closing_, sign) ? sign + 2 : 0;
  }
  std::size_t next_tag() const {
    std::size_t open = at_;
    while (open < source_.size() &&
           (source_[open] != U'{' || Text(U"{%#").find(at(open + 1)) == Text::npos))
      ++open;
    return open;
  }
  Text text_before(std::size_t open) const {
    Text text = source_.substr(at_, open - at_);
    if (at(open + 2) == U'-') return stripped(text, false, true);
    const bool line_starts = at_ == 0 || at(at_ - 1) == U'\n';
    const std::size_t line = text.rfind(U'\n') + 1;  // 0 if there is none
    if ((at(open + 1) == U'%' || at(open + 1) == U'#') && at(open + 2) != U'+' &&
        (line > 0 || line_starts) && stripped(text.substr(line), true, false).empty())
      text.resize(line);
    return text;
  }

  /// Goes on, counting lines.
  void go(std::size_t size) {
    for (; size > 0 && at_ < source_.size(); --size) line_ += source_[at_++] == U'\n' ? 1 : 0;
  }
  void take(std::size_t size) {
    go(size);
    taken_line_ = line_;
    while (at_ < source_.size() && is_space(source_[at_])) go(1);
  }
  /// Goes past the end of a tag, before which there is a sign, and past what it takes from the text behind.
  void leave_tag(std::size_t size, char32_t sign) {
    if (sign == U'-') return take(size);
    go(size);
    if (sign != U'+' && at(at_) == U'\n') go(1);
  }

  Value take_number() {
    const std::size_t end = source_.find_first_not_of(U"0123456789.eE+-", at_);
    const std::string rest = bytes_of(source_.substr(at_, end - at_));
    const auto digits = std::find_if_not(rest.begin(), rest.end(), is_digit) - rest.begin();
    double real = 0;
    auto size = std::from_chars(rest.data(), rest.data() + rest.size(), real).ptr - rest.data();
    if (size == digits + 1) size = digits;  // the point of a member
    const std::string number = rest.substr(0, static_cast<std::size_t>(size));
    const auto integer = number_in<std::int64_t>(number);
    if (size == digits && !integer) wrong("the number " + number + " is too large");
    take(number.size());
    return integer ? Value(*integer) : Value(real);
  }
  /// With the escapes of Python.
  Text take_string() {
    constexpr std::u32string_view kNames = U"ntrabfv\\'\"";
    Text out;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != source_[at_]; ++i) {
      if (source_[i] != U'\\') {
        out += source_[i];
        continue;
      }
      const char32_t c = at(++i);
      const std::size_t digits = c == U'x' ? 2 : c == U'u' ? 4 : c == U'U' ? 8 : 0;
      if (const std::size_t known = kNames.find(c); known != kNames.npos) {
        out += U"\n\t\r\a\b\f\v\\'\""[known];
      } else if (digits > 0) {
        const std::string hex = bytes_of(source_.substr(i + 1, digits));
        const auto code = number_in<std::uint32_t>(hex, 16);
        if (hex.size() != digits || !code || *code > 0x10ffff || (*code >> 11) == 0x1b)
          wrong("a broken escape in a text");
        out += static_cast<char32_t>(code.value_or(0));
        i += digits;
      } else if (c != U'\n') {
        out += {U'\\', c};
      }
    }
    if (i >= source_.size()) wrong("a text is not closed");
    take(i + 1 - at_);
    return out;
  }

  Text source_;
  std::size_t at_ = 0;
  int line_ = 1;
  int taken_line_ = 1;
  std::string_view closing_ = "}}";  // of the tag
  std::optional<Error> error_;
};

}  // namespace runnel::jinja
