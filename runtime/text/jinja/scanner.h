// SPDX-License-Identifier: Apache-2.0
// A template's source, read from front to back as chat templates are rendered: trim_blocks, lstrip_blocks, comments
// dropped. For parser.cpp alone.
#pragma once

#include <algorithm>

#include "runtime/base/number.h"
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
    std::string found = ended() ? "the end" : "the end of the tag";
    if (!ended() && !closes())
      found = in_quotes(rest().substr(0, std::max(size_of(kWord), utf8_step(rest()).length)));
    wrong("expected " + what + ", found " + found);
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
    if (rest().starts_with("{#") && rest().find("#}", 2) == std::string_view::npos)
      wrong("the comment {# is not closed");
    if (opens("{#")) {
      while (!closes()) go(1);
      close();
    }
    return text;
  }
  /// Begins a tag if `tag` ({{, {% or {#) stands here.
  bool opens(std::string_view tag) {
    if (!rest().starts_with(tag)) return false;
    closing_ = tag == "{{" ? "}}" : tag == "{%" ? "%}" : "#}";
    take(control(at_ + 2) == ' ' ? 2 : 3);
    return true;
  }
  /// Ends it. All but {{ }} take the line end behind them.
  void close() {
    const std::size_t size = closing_size();
    if (size == 0) return expected("the end of the tag");
    control_ = size == 3 ? at(at_) : ' ';
    go(size);
    if (closing_ != "}}" && control_ == ' ' && at(at_) == '\n') go(1);
    closing_ = "";
  }

  /// Whether this word or sign stands here, in a tag.
  bool sees(std::string_view name) const {
    return rest().starts_with(name) && (name == "}" || closing_size() == 0) &&
           !(is_one_of(kWord, name.back()) && is_one_of(kWord, at(at_ + name.size())));
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
  std::string take_word() { return is_one_of(kDigits, at(at_)) ? "" : take(size_of(kWord)); }
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
    std::tie(at_, line_) = start;
    return {};
  }
  /// A number, or one text or several.
  std::optional<Value> take_constant() {
    if (is_one_of(kDigits, at(at_))) return take_number();
    if (!is_one_of("'\"", at(at_))) return {};
    std::string text;
    while (is_one_of("'\"", at(at_))) text += take_string();
    return text;
  }

 private:
  static constexpr std::string_view kDigits = "0123456789";
  static constexpr std::string_view kWord =
      "0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  static bool is_one_of(std::string_view all, char c) { return all.find(c) != all.npos; }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char at(std::size_t i) const { return i < source_.size() ? source_[i] : ' '; }
  /// What - or + there says of the white space beside a tag; a space if it is neither.
  char control(std::size_t i) const { return is_one_of("-+", at(i)) ? at(i) : ' '; }
  /// The length of what stands here and consists of these characters.
  std::size_t size_of(std::string_view characters) const {
    return std::min(rest().find_first_not_of(characters), rest().size());
  }
  /// The length of what closes the tag here, with a sign before it; 0 if the tag goes on.
  std::size_t closing_size() const {
    const std::size_t sign = at(at_) == '-' || (at(at_) == '+' && closing_ != "}}") ? 1 : 0;
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

  Value take_number() {
    const std::string_view text = rest();
    const std::size_t digits = size_of(kDigits);
    double real = 0;
    const char* const end = std::from_chars(text.data(), text.data() + text.size(), real).ptr;
    auto size = static_cast<std::size_t>(end - text.data());
    if (size == digits + 1) size = digits;  // the point of a member
    const std::string number = take(size);
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
        const std::string hex = source_.substr(i + 1, digits);
        if (hex.size() < digits || !append_utf8_of_digits(text, hex))
          wrong("a broken escape in a text");
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
  std::string_view closing_;  // of the tag; empty outside of tags, where nothing is seen
  char control_ = ' ';        // of the end of the last tag
  std::optional<Error> error_;
};

}  // namespace runnel::jinja
