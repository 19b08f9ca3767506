// SPDX-License-Identifier: Apache-2.0
// A lexer for the part of Jinja that chat templates are written in.
#include "runtime/text/jinja_reader.h"

#include <utility>

#include "runtime/base/try.h"

namespace runnel {

namespace {

constexpr std::size_t kMaxTemplate = 64 * 1024;

/// The end of the tag that begins at `from` ({{, {% or {#), past its closing; npos if it is not
/// closed. String literals may contain the closing.
std::size_t tag_end(std::string_view source, std::size_t from) {
  const char kind = source[from + 1];
  const char closing = kind == '{' ? '}' : kind;
  char quote = 0;
  for (std::size_t i = from + 2; i + 1 < source.size(); ++i) {
    const char c = source[i];
    if (quote != 0) {
      if (c == '\\')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (kind != '#' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == closing && source[i + 1] == '}') {
      return i + 2;
    }
  }
  return std::string_view::npos;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// A token of an expression: a string literal (its value), a word, or one punctuation character.
struct Lexeme {
  enum class Kind { string, word, sign };
  Kind kind = Kind::sign;
  std::string text;
};

Result<std::vector<Lexeme>> lex(std::string_view code) {
  std::vector<Lexeme> out;
  for (std::size_t i = 0; i < code.size();) {
    const char c = code[i];
    if (is_space(c)) {
      ++i;
    } else if (c == '\'' || c == '"') {
      std::string value;
      for (++i; i < code.size() && code[i] != c; ++i) {
        if (code[i] != '\\') {
          value.push_back(code[i]);
          continue;
        }
        if (++i == code.size()) break;
        switch (code[i]) {
          case 'n':
            value.push_back('\n');
            break;
          case 't':
            value.push_back('\t');
            break;
          case 'r':
            value.push_back('\r');
            break;
          case '\\':
          case '\'':
          case '"':
            value.push_back(code[i]);
            break;
          default:
            return fail(ErrorCode::unsupported, "chat template: escape '\\", code[i],
                        "' in a string");
        }
      }
      if (i >= code.size())
        return fail(ErrorCode::malformed, "chat template: a string is not closed");
      ++i;
      out.push_back({Lexeme::Kind::string, std::move(value)});
    } else if (is_word(c)) {
      const std::size_t from = i;
      while (i < code.size() && is_word(code[i])) ++i;
      out.push_back({Lexeme::Kind::word, std::string(code.substr(from, i - from))});
    } else {
      out.push_back({Lexeme::Kind::sign, std::string(1, c)});
      ++i;
    }
  }
  return out;
}

/// Lexemes back to text in one spelling.
std::string spell(const std::vector<Lexeme>& lexemes, std::size_t from, std::size_t to) {
  std::string out;
  bool after_word = false;
  for (std::size_t i = from; i < to; ++i) {
    const Lexeme& l = lexemes[i];
    const bool is_member = l.kind == Lexeme::Kind::sign && l.text == "[" && i + 2 < to &&
                           i > from && lexemes[i + 1].kind == Lexeme::Kind::string &&
                           lexemes[i + 2].text == "]" && lexemes[i + 2].kind == Lexeme::Kind::sign;
    if (is_member) {
      out += "." + lexemes[i + 1].text;
      i += 2;
      after_word = true;
      continue;
    }
    if (l.kind == Lexeme::Kind::string) {
      out += "'" + l.text + "'";
    } else {
      if (l.kind == Lexeme::Kind::word && after_word) out += ' ';
      out += l.text;
    }
    after_word = l.kind == Lexeme::Kind::word;
  }
  return out;
}

class Steps {
 public:
  void text(std::string_view text) {
    if (text.empty()) return;
    if (!steps_.empty() && steps_.back().kind == JinjaStep::Kind::text) {
      steps_.back().text += text;
    } else {
      steps_.push_back({JinjaStep::Kind::text, std::string(text)});
    }
  }

  Status output(std::string_view code) {
    RUNNEL_TRY(const std::vector<Lexeme> lexemes, lex(code));
    std::size_t from = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= lexemes.size(); ++i) {
      const bool is_sign = i < lexemes.size() && lexemes[i].kind == Lexeme::Kind::sign;
      if (is_sign && (lexemes[i].text == "(" || lexemes[i].text == "[")) ++depth;
      if (is_sign && (lexemes[i].text == ")" || lexemes[i].text == "]")) --depth;
      const bool ends = i == lexemes.size() || (depth == 0 && is_sign && lexemes[i].text == "+");
      if (!ends) continue;
      if (i == from) return fail(ErrorCode::malformed, "chat template: an empty operand in {{ }}");
      if (i == from + 1 && lexemes[from].kind == Lexeme::Kind::string) {
        text(lexemes[from].text);
      } else {
        steps_.push_back({JinjaStep::Kind::expression, spell(lexemes, from, i)});
      }
      from = i + 1;
    }
    return {};
  }

  Status statement(std::string_view code) {
    RUNNEL_TRY(const std::vector<Lexeme> lexemes, lex(code));
    steps_.push_back({JinjaStep::Kind::statement, spell(lexemes, 0, lexemes.size())});
    return {};
  }

  std::vector<JinjaStep> take() { return std::move(steps_); }

 private:
  std::vector<JinjaStep> steps_;
};

}  // namespace

Result<std::vector<JinjaStep>> read_jinja(std::string_view source) {
  if (source.size() > kMaxTemplate)
    return fail(ErrorCode::unsupported, "chat template: has ", source.size(), " bytes, at most ",
                kMaxTemplate, " are read");
  if (source.ends_with('\n')) source.remove_suffix(1);  // Jinja drops one newline at the end
  Steps steps;
  bool trim_left = false;  // the tag before ended in "-"
  bool after_block = false;
  for (std::size_t at = 0; at <= source.size();) {
    std::size_t open = source.find('{', at);
    while (open != std::string_view::npos &&
           (open + 1 >= source.size() ||
            (source[open + 1] != '{' && source[open + 1] != '%' && source[open + 1] != '#')))
      open = source.find('{', open + 1);
    std::string_view literal = source.substr(at, open == std::string_view::npos ? open : open - at);
    if (trim_left) {
      while (!literal.empty() && is_space(literal.front())) literal.remove_prefix(1);
    } else if (after_block && literal.starts_with('\n')) {
      literal.remove_prefix(1);
    }
    if (open == std::string_view::npos) {
      steps.text(literal);
      break;
    }
    const std::size_t end = tag_end(source, open);
    if (end == std::string_view::npos)
      return fail(ErrorCode::malformed, "chat template: the tag at byte ", open, " is not closed");
    const bool is_block = source[open + 1] != '{';
    std::string_view code = source.substr(open + 2, end - open - 4);
    if (code.starts_with('-')) {
      code.remove_prefix(1);
      while (!literal.empty() && is_space(literal.back())) literal.remove_suffix(1);
    } else if (is_block) {
      std::string_view kept = literal;
      while (kept.ends_with(' ') || kept.ends_with('\t')) kept.remove_suffix(1);
      if (kept.ends_with('\n') || (kept.empty() && (at == 0 || after_block))) literal = kept;
    }
    trim_left = code.ends_with('-');
    if (trim_left) code.remove_suffix(1);
    after_block = is_block;
    steps.text(literal);
    if (source[open + 1] == '{') {
      RUNNEL_CHECK_OK(steps.output(trimmed(code)));
    } else if (source[open + 1] == '%') {
      RUNNEL_CHECK_OK(steps.statement(trimmed(code)));
    }
    at = end;
  }
  return steps.take();
}

}  // namespace runnel
