// SPDX-License-Identifier: Apache-2.0
// A template's source, read from front to back as chat templates are rendered: trim_blocks, lstrip_blocks, comments
// dropped. For parser.cpp alone.
#pragma once

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/jinja/value.h"
#include "runtime/text/utf8.h"

namespace runnel::jinja {

/// In a tag every reading goes past the white space behind it. The first error is kept and moves to the end, where every
/// loop ends.
class Scanner {
 public:
  /// @param source  UTF-8; lines end in \n, and the last line end is dropped.
  explicit Scanner(std::string_view source) {
    for (std::size_t i = 0; i < source.size(); ++i)
      if (source.substr(i, 2) != "\r\n") source_ += source[i] == '\r' ? '\n' : source[i];
    if (source_.ends_with('\n')) source_.pop_back();
  }

  int line() const { return taken_line_; }  // of what was taken last, from 1
  const std::optional<Error>& error() const { return error_; }
  bool closes() const { return closing_size() > 0; }  // whether the tag ends here
  bool ended() const { return at_ == source_.size(); }
  void wrong(const std::string& message, ErrorCode code = ErrorCode::malformed) {
    if (!error_) error_ = fail(code, "chat template, line ", line_, ": ", message);
    at_ = source_.size();
  }
  /// Says that `what` should stand here.
  void expected(const std::string& what) {
    const std::size_t size = ended() ? 0 : std::max(word_size(), utf8_step(rest()).length);
    const std::string found = source_.substr(at_, size);
    wrong("expected " + what + ", found " +
          (closes()        ? "the end of the tag"
           : found.empty() ? "the end"
                           : in_quotes(found)));
  }

  /// What stands before the next tag, comment or the end, less what the tags beside it take from it. Goes past a comment.
  Text take_text() {
    std::size_t open = at_;
    while (open < source_.size() && (source_[open] != '{' || !is_one_of("{%#", at(open + 1))))
      ++open;
    const bool line_starts = at_ == 0 || source_[at_ - 1] == '\n';
    const bool takes_indent = is_one_of("%#", at(open + 1)) && control(open + 2) == ' ';
    const Text all = marked_text(go(open - at_));
    Text text = stripped(all, control_ == '-', control(open + 2) == '-');
    const std::size_t line = text.rfind(U'\n') + 1;  // 0 if there is none
    if (takes_indent && (line > 0 || line_starts) &&
        stripped(text.substr(line), true, false).empty())
      text.resize(line);
    if (rest().starts_with("{#")) {
      go(control(at_ + 2) == ' ' ? 2 : 3);
      const std::size_t end = source_.find("#}", at_);
      if (end == source_.npos)
        wrong("the comment {# is not closed");
      else
        leave(end + 2 - at_, end > at_ ? control(end - 1) : ' ', true);
    }
    return text;
  }
  /// Begins a tag if `tag` ({{ or {%) stands here.
  bool opens(std::string_view tag) {
    if (!rest().starts_with(tag)) return false;
    closing_ = tag == "{{" ? "}}" : "%}";
    take(control(at_ + 2) == ' ' ? 2 : 3);
    return true;
  }
  /// Ends it.
  void close() {
    const std::size_t size = closing_size();
    if (size == 0) return expected("the end of the tag");
    leave(size, size == 3 ? at(at_) : ' ', closing_ == "%}");
  }

  /// Whether this word or sign stands here.
  bool sees(std::string_view name) const {
    return rest().starts_with(name) && (name == "}" || closing_size() == 0) &&
           !(is_word(name.back()) && is_word(at(at_ + name.size())));
  }
  bool takes(std::string_view name) {
    const bool there = sees(name);
    if (there) take(name.size());
    return there;
  }
  void expect(std::string_view name) {
    if (!takes(name)) expected("'" + std::string(name) + "'");
  }
  /// Empty if there is none here.
  std::string take_word() { return is_digit(at(at_)) ? "" : take(word_size()); }
  std::string take_name() {
    std::string word = take_word();
    if (word.empty()) expected("a name");
    return word;
  }
  /// The name and = before an argument. Nothing is taken if it has none.
  std::string take_argument_name() {
    const auto start = std::pair(at_, line_);
    std::string name = take_word();
    if (!name.empty() && takes("=") && at(at_) != '=') return name;
    if (!error_) std::tie(at_, line_) = start;
    return {};
  }
  /// A number, or one text or several.
  std::optional<Value> take_constant() {
    if (is_digit(at(at_))) return take_number();
    if (!is_one_of("'\"", at(at_))) return {};
    std::string text;
    while (is_one_of("'\"", at(at_))) text += take_string();
    return text;
  }

 private:
  static bool is_one_of(std::string_view all, char c) { return all.find(c) != all.npos; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char at(std::size_t i) const { return i < source_.size() ? source_[i] : ' '; }
  /// What - or + there says of the white space beside a tag; a space if it is neither.
  char control(std::size_t i) const { return is_one_of("-+", at(i)) ? at(i) : ' '; }
  std::size_t word_size() const {
    const std::string_view text = rest();
    return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_word) -
                                    text.begin());
  }
  /// Of what closes the tag here, with a sign before it; 0 if the tag goes on.
  std::size_t closing_size() const {
    const std::size_t sign = at(at_) == '-' || (at(at_) == '+' && closing_ == "%}") ? 1 : 0;
    return rest().substr(sign).starts_with(closing_) ? sign + 2 : 0;
  }

  /// Goes on, counting lines. @return what it went past
  std::string go(std::size_t size) {
    std::string taken(rest().substr(0, size));
    line_ += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    at_ += taken.size();
    return taken;
  }
  std::string take(std::size_t size) {
    std::string taken = go(size);
    taken_line_ = line_;
    for (Utf8Step c; !ended(); go(c.length))
      if (c = utf8_step(rest()); kSpaces.find(c.code_point) == kSpaces.npos) break;
    return taken;
  }
  /// Goes past the end of a tag. A block takes the line end behind it.
  void leave(std::size_t size, char its_control, bool block) {
    go(size);
    control_ = its_control;
    if (block && control_ == ' ' && at(at_) == '\n') go(1);
  }

  Value take_number() {
    const std::string_view text = rest();
    const auto digits = std::find_if_not(text.begin(), text.end(), is_digit) - text.begin();
    double real = 0;
    auto size = std::from_chars(text.data(), text.data() + text.size(), real).ptr - text.data();
    if (size == digits + 1) size = digits;  // the point of a member
    const std::string number = take(static_cast<std::size_t>(size));
    const auto integer = number_in<std::int64_t>(number);
    if (size == digits && !integer) wrong("the number " + number + " is too large");
    return integer ? Value(*integer) : Value(real);
  }
  /// With the escapes of Python.
  std::string take_string() {
    constexpr std::string_view kNames = "ntrabfv\\'\"";
    std::string text;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != source_[at_]; ++i) {
      const char c = at(i + 1);
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (source_[i] != '\\') {
        text += source_[i];
      } else if (++i; is_one_of(kNames, c)) {
        text += "\n\t\r\a\b\f\v\\'\""[kNames.find(c)];
      } else if (digits > 0) {
        const std::string hex = source_.substr(std::min(i + 1, source_.size()), digits);
        const auto code = number_in<std::uint32_t>(hex, 16);
        const bool good = hex.size() == digits && code && *code < 0x110000 && (*code >> 11) != 0x1b;
        good ? append_utf8(text, *code) : wrong("a broken escape in a text");
        i += digits;
      } else if (c != '\n') {
        text += {'\\', c};
      }
    }
    if (i >= source_.size()) wrong("a text is not closed");
    take(i + 1 - at_);
    return text;
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  int taken_line_ = 1;
  std::string_view closing_ = "}}";  // of the tag
  char control_ = ' ';               // of the end of the last tag
  std::optional<Error> error_;
};

}  // namespace runnel::jinja
