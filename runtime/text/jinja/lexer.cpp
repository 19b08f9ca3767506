// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/jinja/text.h"
#include "runtime/text/utf8.h"

namespace runnel::jinja {

namespace {

constexpr auto npos = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Lines end in \n, and the last line end is dropped.
std::string normalised(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      std::size_t open = source_.find('{', at_);
      while (open != npos && (open + 1 >= source_.size() ||
                              std::string_view("{%#").find(source_[open + 1]) == npos))
        open = source_.find('{', open + 1);
      add_text(open);
      if (open == npos) break;
      at_ = open + 2;
      const char kind = source_[open + 1];
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
      if (kind == '#') {
        const std::size_t end = source_.find("#}", at_);
        if (end == npos) return fail_here("the comment {# is not closed");
        count_lines(end);
        const bool trim = source_[end - 1] == '-' && end > at_;
        at_ = end + 2;
        after_tag(trim, source_[end - 1] == '+' && end > at_ - 2);
      } else {
        RUNNEL_TRY(const bool raw, take_raw(kind));
        if (raw) continue;
        add(kind == '{' ? Token::Kind::output : Token::Kind::statement, "");
        RUNNEL_CHECK_OK(lex_tag(kind == '{' ? "}}" : "%}"));
      }
    }
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  Error fail_here(const std::string& message) const { return error_at(line_, message); }
  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text)});
  }
  void count_lines(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  }

  /// The text before a tag (or the end), without what the tag takes away from it.
  void add_text(std::size_t open) {
    const std::size_t end = std::min(open, source_.size());
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    const char sign = open != npos && open + 2 < source_.size() ? source_[open + 2] : ' ';
    if (sign == '-') {
      const Text kept = stripped(Text(std::string(text)), false, true);
      text = text.substr(0, kept.size());
    } else if (open != npos && sign != '+' && source_[open + 1] != '{') {
      const std::size_t newline = text.rfind('\n');
      const std::size_t from = newline == npos ? 0 : newline + 1;
      const std::string last(text.substr(from));
      if ((from > 0 || line_starts_) && stripped(Text(last), true, false).size() == 0)
        text = text.substr(0, from);
    }
    if (!text.empty()) add(Token::Kind::text, std::string(text));
    count_lines(end);
    line_starts_ = false;
  }

  /// What the end of a tag takes from the text after it.
  void after_tag(bool trim, bool keep) {
    const std::size_t from = at_;
    std::size_t to = at_;
    if (trim) {
      while (to < source_.size() && space_size(source_, to) > 0) to += space_size(source_, to);
    } else if (!keep && to < source_.size() && source_[to] == '\n') {
      ++to;
    }
    count_lines(to);
    at_ = to;
    line_starts_ = to > from && source_[to - 1] == '\n';
  }

  std::size_t skip_spaces(std::size_t at) const {
    while (at < source_.size() && space_size(source_, at) > 0) at += space_size(source_, at);
    return at;
  }

  /// After `at`: [spaces] word [spaces] [-+] %}. @return past it, or npos.
  std::size_t word_tag(std::size_t at, std::string_view word) const {
    at = skip_spaces(at);
    if (source_.compare(at, word.size(), word) != 0) return npos;
    at = skip_spaces(at + word.size());
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    return source_.compare(at, 2, "%}") == 0 ? at + 2 : npos;
  }

  /// {% raw %}…{% endraw %} as text.
  Result<bool> take_raw(char kind) {
    const std::size_t begin = kind == '%' ? word_tag(at_, "raw") : npos;
    if (begin == npos) return false;
    const bool trims = source_[begin - 3] == '-';
    at_ = begin;
    after_tag(trims, source_[begin - 3] == '+');
    for (std::size_t open = source_.find("{%", at_); open != npos;
         open = source_.find("{%", open + 2)) {
      std::size_t inside = open + 2;
      if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) ++inside;
      const std::size_t end = word_tag(inside, "endraw");
      if (end == npos) continue;
      add_text(open);
      at_ = end;
      after_tag(source_[end - 3] == '-', source_[end - 3] == '+');
      return true;
    }
    return fail_here("{% raw %} is not closed");
  }

  Status lex_tag(std::string_view closing) {
    int brackets = 0;
    for (;;) {
      const std::size_t from = skip_spaces(at_);
      count_lines(from);
      at_ = from;
      if (at_ >= source_.size())
        return fail_here("a tag is not closed: expected " + std::string(closing));
      const std::string_view rest = std::string_view(source_).substr(at_);
      const bool minus = rest[0] == '-' || (rest[0] == '+' && closing == "%}");
      if (brackets == 0 &&
          (rest.starts_with(closing) || (minus && rest.substr(1).starts_with(closing)))) {
        add(Token::Kind::close, "");
        at_ += minus ? 3 : 2;
        const bool block = closing == "%}";
        after_tag(minus && rest[0] == '-', !block || (minus && rest[0] == '+'));
        return {};
      }
      if (is_digit(rest[0])) {
        lex_number(rest);
      } else if (is_word(rest[0])) {
        std::size_t size = 1;
        while (size < rest.size() && is_word(rest[size])) ++size;
        add(Token::Kind::name, std::string(rest.substr(0, size)));
        at_ += size;
      } else if (rest[0] == '"' || rest[0] == '\'') {
        RUNNEL_CHECK_OK(lex_string(rest));
      } else {
        RUNNEL_TRY(const std::string_view sign, sign_of(rest));
        if (std::string_view("([{").find(sign[0]) != npos) ++brackets;
        if (std::string_view(")]}").find(sign[0]) != npos) --brackets;
        add(Token::Kind::sign, std::string(sign));
        at_ += sign.size();
      }
    }
  }

  Result<std::string_view> sign_of(std::string_view rest) const {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="})
      if (rest.starts_with(two)) return two;
    if (std::string_view("+-*/%~<>=.:|,()[]{}").find(rest[0]) != npos) return rest.substr(0, 1);
    return fail_here(in_quotes(rest.substr(0, character_size(rest, 0))) + " fits nowhere in a tag");
  }

  void lex_number(std::string_view rest) {
    std::size_t size = 0;
    const auto digits = [&] {
      while (size < rest.size() && (is_digit(rest[size]) || rest[size] == '_')) ++size;
    };
    digits();
    bool real = false;
    if (size + 1 < rest.size() && rest[size] == '.' && is_digit(rest[size + 1])) {
      real = true;
      ++size;
      digits();
    }
    if (size < rest.size() && (rest[size] == 'e' || rest[size] == 'E')) {
      std::size_t exponent = size + 1;
      if (exponent < rest.size() && (rest[exponent] == '+' || rest[exponent] == '-')) ++exponent;
      if (exponent < rest.size() && is_digit(rest[exponent])) {
        real = true;
        size = exponent;
        digits();
      }
    }
    std::string text(rest.substr(0, size));
    std::erase(text, '_');
    add(real ? Token::Kind::real : Token::Kind::integer, std::move(text));
    at_ += size;
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
      constexpr std::string_view kMeant = "\n\t\r\a\b\f\v\\'\"";
      const char c = rest[++i];
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      if (const std::size_t known = kNames.find(c); known != npos) {
        out += kMeant[known];
      } else if (digits > 0) {
        std::uint32_t code = 0;
        const std::string_view hex = rest.substr(i + 1, digits);
        const auto [end, wrong] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
        const bool scalar = code <= 0x10ffff && (code < 0xd800 || code >= 0xe000);
        if (wrong != std::errc() || end != hex.data() + digits || !scalar)
          return fail_here("a broken escape \\" + std::string(1, c) + " in a text");
        append_utf8(out, code);
        i += digits;
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    if (i >= rest.size()) return fail_here("a text is not closed");
    add(Token::Kind::string, std::move(out));
    count_lines(at_ + i);
    at_ += i + 1;
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
