// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/lexer.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/utf8.h"

namespace runnel::jinja {

namespace {

constexpr auto npos = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_sign(char c) { return c == '-' || c == '+'; }

/// Lines end in \n, and the last line end is dropped.
std::string normalised(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i)
    if (source.substr(i, 2) != "\r\n") out += source[i] == '\r' ? '\n' : source[i];
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      const std::size_t open = find_tag(at_);
      add_text(open);
      if (open == npos) break;
      const char kind = source_[open + 1];
      at_ = open + 2;
      if (is_sign(at(at_))) ++at_;
      if (kind == '#') {
        const std::size_t end = source_.find("#}", at_);
        if (end == npos) return fail_here("the comment {# is not closed");
        after_tag(end > at_ ? source_[end - 1] : ' ', end + 2);
      } else {
        add(kind == '{' ? Token::Kind::output : Token::Kind::statement);
        RUNNEL_CHECK_OK(lex_tag(kind == '{' ? "}}" : "%}"));
      }
    }
    add(Token::Kind::end);
    return std::move(tokens_);
  }

 private:
  Error fail_here(const std::string& message) const { return error_at(line_, message); }
  char at(std::size_t i) const { return i < source_.size() ? source_[i] : ' '; }
  void add(Token::Kind kind, std::string text = {}, Value value = {}) {
    tokens_.push_back({kind, line_, std::move(text), std::move(value)});
  }
  /// Moves on, counting lines.
  void go(std::size_t to) {
    for (; at_ < to; ++at_) line_ += source_[at_] == '\n' ? 1 : 0;
  }

  std::size_t find_tag(std::size_t from) const {
    do from = source_.find('{', from);
    while (from != npos && std::string_view("{%#").find(at(++from)) == npos);
    return from == npos ? npos : from - 1;
  }

  /// The text before a tag (or the end), without what the tag takes away from it.
  void add_text(std::size_t open) {
    const std::size_t end = std::min(open, source_.size());
    Text text(source_.substr(at_, end - at_));
    const std::size_t line = text.bytes().rfind('\n') + 1;  // 0 if there is none
    if (open != npos && at(open + 2) == '-') {
      text = stripped(text, false, true);
    } else if (open != npos && at(open + 2) != '+' && source_[open + 1] != '{' &&
               (line > 0 || line_starts_) && skip_spaces(text.bytes(), line) == text.size()) {
      text = text.part(0, line);
    }
    if (text.size() > 0) add(Token::Kind::constant, {}, std::move(text));
    go(end);
    line_starts_ = false;
  }

  /// What the end of a tag with `sign` before it takes from the text behind, at `from`.
  void after_tag(char sign, std::size_t from, bool block = true) {
    const std::size_t to = sign == '-'                                ? skip_spaces(source_, from)
                           : sign != '+' && block && at(from) == '\n' ? from + 1
                                                                      : from;
    go(to);
    line_starts_ = to > from && source_[to - 1] == '\n';
  }

  Status lex_tag(std::string_view closing) {
    for (int brackets = 0;;) {
      go(skip_spaces(source_, at_));
      if (at_ >= source_.size())
        return fail_here("a tag is not closed: expected " + std::string(closing));
      const std::string_view rest = std::string_view(source_).substr(at_);
      const bool block = closing == "%}";
      const std::size_t sign = rest[0] == '-' || (rest[0] == '+' && block) ? 1 : 0;
      if (brackets == 0 && rest.substr(sign).starts_with(closing)) {
        add(Token::Kind::close);
        after_tag(sign > 0 ? rest[0] : ' ', at_ + sign + 2, block);
        return {};
      }
      if (is_digit(rest[0])) {
        RUNNEL_CHECK_OK(lex_number(rest));
      } else if (rest[0] == '"' || rest[0] == '\'') {
        RUNNEL_CHECK_OK(lex_string(rest));
      } else if (is_word(rest[0])) {
        const auto* const end = std::find_if_not(rest.begin(), rest.end(), is_word);
        add(Token::Kind::name, std::string(rest.begin(), end));
        at_ += tokens_.back().text.size();
      } else {
        RUNNEL_TRY(const std::string_view found, sign_of(rest));
        if (std::string_view("([{").find(found[0]) != npos) ++brackets;
        if (std::string_view(")]}").find(found[0]) != npos) --brackets;
        add(Token::Kind::sign, std::string(found));
        at_ += found.size();
      }
    }
  }

  Result<std::string_view> sign_of(std::string_view rest) const {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="})
      if (rest.starts_with(two)) return two;
    if (std::string_view("+-*/%~<>=.:|,()[]{}").find(rest[0]) != npos) return rest.substr(0, 1);
    return fail_here(in_quotes(rest.substr(0, character_size(rest, 0))) + " fits nowhere in a tag");
  }

  /// An integer, or a real if from_chars() reads further than the digits.
  Status lex_number(std::string_view rest) {
    const auto* const digits = std::find_if_not(rest.begin(), rest.end(), is_digit);
    double real = 0;
    const char* end = std::from_chars(rest.begin(), rest.end(), real).ptr;
    if (end == digits + 1) end = digits;  // the point of a member
    const std::string text(rest.begin(), end);
    const std::optional<std::int64_t> integer = number_in<std::int64_t>(text);
    if (end == digits && !integer) return fail_here("the number " + text + " is too large");
    add(Token::Kind::constant, text, integer ? Value(*integer) : Value(real));
    at_ += text.size();
    return {};
  }

  Status lex_string(std::string_view rest) {
    std::string out;
    std::size_t i = 1;
    for (; i < rest.size() && rest[i] != rest[0]; ++i) {
      if (rest[i] != '\\' || i + 1 >= rest.size()) {
        out += rest[i];
        continue;
      }
      constexpr std::string_view kNames = "ntrabfv\\'\"";
      const char c = rest[++i];
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (const std::size_t known = kNames.find(c); known != npos) {
        out += "\n\t\r\a\b\f\v\\'\""[known];
      } else if (digits > 0) {
        const std::string_view hex = rest.substr(i + 1, digits);
        const auto code = number_in<std::uint32_t>(hex, 16);
        if (hex.size() != digits || !code || *code > 0x10ffff || (*code >> 11) == 0x1b)
          return fail_here("a broken escape \\" + std::string(1, c) + " in a text");
        append_utf8(out, *code);
        i += digits;
      } else if (c != '\n') {
        out += {'\\', c};
      }
    }
    if (i >= rest.size()) return fail_here("a text is not closed");
    add(Token::Kind::constant, out, out);
    go(at_ + i + 1);
    return {};
  }

  const std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // what follows stands at the start of a line
  std::vector<Token> tokens_;
};

}  // namespace

Error error_at(int line, const std::string& message, ErrorCode code) {
  return fail(code, "chat template, line ", line, ": ", message);
}

Result<std::vector<Token>> lex(std::string_view source) {
  if (const std::size_t bad = first_invalid_utf8(source); bad != npos)
    return fail(ErrorCode::malformed, "chat template: byte ", bad, " is not UTF-8");
  return Lexer(normalised(source)).run();
}

}  // namespace runnel::jinja
