// SPDX-License-Identifier: Apache-2.0
// Recursive descent. The first error is kept and moves to the last token, where every loop ends.
#include "runtime/text/jinja/parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/jinja/lexer.h"

namespace runnel::jinja {

namespace {

using Kind = Node::Kind;
using NodePtr = std::unique_ptr<Node>;
using Words = std::initializer_list<std::string_view>;
constexpr int kMostDepth = 200;  // published templates stay below 40

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<NodePtr> run() {
    NodePtr body = parse_body({});
    if (error_) return *std::move(error_);
    return body;
  }

 private:
  const Token& peek() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool sees(std::string_view sign) const { return peek().is(Token::Kind::sign, sign); }
  bool sees_word(std::string_view word) const { return peek().is(Token::Kind::name, word); }
  bool takes(std::string_view sign) { return sees(sign) && (++at_, true); }
  bool takes_word(std::string_view word) { return sees_word(word) && (++at_, true); }

  void wrong(const std::string& message, ErrorCode code = ErrorCode::malformed) {
    if (!error_) error_ = error_at(peek().line, message, code);
    at_ = tokens_.size() - 1;
  }
  void expected(const std::string& what) {
    wrong("expected " + what + ", found " +
          (peek().kind == Token::Kind::close ? "the end of the tag"
           : peek().kind == Token::Kind::end ? "the end"
                                             : in_quotes(peek().text)));
  }
  void expect(std::string_view sign) {
    if (!takes(sign)) expected("'" + std::string(sign) + "'");
  }
  void expect_word(std::string_view word) {
    if (!takes_word(word)) expected("'" + std::string(word) + "'");
  }
  void close() {
    if (peek().kind != Token::Kind::close) return expected("the end of the tag");
    ++at_;
  }
  void end(std::string_view word) {
    expect_word(word);
    close();
  }
  std::string name() {
    if (peek().kind == Token::Kind::name) return take().text;
    expected("a name");
    return {};
  }

  template <class... Kids>
  NodePtr make(Kind kind, std::string text, Kids... kids) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = peek().line;
    node->text = std::move(text);
    (add(*node, std::move(kids)), ...);
    return node;
  }
  void add(Node& node, NodePtr kid) {
    if (kid) node.depth = std::max(node.depth, kid->depth + 1);
    if (kid && node.kids.empty()) node.line = std::min(node.line, kid->line);
    node.kids.push_back(std::move(kid));
    if (node.depth > kMostDepth) too_deep();
  }
  void too_deep() { wrong("nested deeper than " + std::to_string(kMostDepth)); }

  /// Counts what is being parsed.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : depth_(parser.nesting_) {
      if (++depth_ > kMostDepth) parser.too_deep();
    }
    ~Nesting() { --depth_; }

   private:
    int& depth_;
  };

  // --- statements

  /// Until {% word %} with one of `ends`, whose word is left to be taken.
  NodePtr parse_body(Words ends) {
    const Nesting nesting(*this);
    NodePtr body = make(Kind::body, {});
    for (;;) {
      if (peek().kind == Token::Kind::text) {
        NodePtr text = make(Kind::text, {});
        text->value = Value(take().text);
        add(*body, std::move(text));
      } else if (peek().kind == Token::Kind::output) {
        ++at_;
        add(*body, make(Kind::output, {}, parse_tuple(true)));
        close();
      } else if (peek().kind == Token::Kind::statement) {
        ++at_;
        if (std::find(ends.begin(), ends.end(), peek().text) != ends.end()) return body;
        add(*body, parse_statement());
      } else {
        if (ends.size() > 0) expected("{% " + std::string(*ends.begin()) + " %}");
        return body;
      }
    }
  }
  NodePtr parse_block(std::string_view last) {
    close();
    NodePtr body = parse_body({last});
    end(last);
    return body;
  }

  NodePtr parse_statement() {
    const std::string word = name();
    if (word == "if") return parse_if();
    if (word == "for") return parse_for();
    if (word == "set") return parse_set();
    if (word == "macro") return parse_macro();
    if (word == "generation") return parse_block("endgeneration");
    if (word == "filter") {
      NodePtr filter = parse_filters(nullptr, true);
      return make(Kind::filter_block, {}, std::move(filter), parse_block("endfilter"));
    }
    NodePtr node = make(word == "break" ? Kind::leave : Kind::next, {});
    if (word == "break" || word == "continue") {
      if (loops_ == 0) wrong("'" + word + "' outside a loop");
      close();
    } else if (word.starts_with("end") || word == "else" || word == "elif") {
      wrong("'" + word + "' closes nothing");
    } else {
      wrong("the statement " + in_quotes(word) + " is not known here", ErrorCode::unsupported);
    }
    return node;
  }

  NodePtr parse_if() {
    NodePtr node = make(Kind::branch, {});
    do {
      add(*node, parse_tuple(false));
      close();
      add(*node, parse_body({"endif", "elif", "else"}));
    } while (takes_word("elif"));
    if (takes_word("else")) add(*node, parse_rest("endif"));
    end("endif");
    return node;
  }
  /// {% else %} up to its end, which is left to be taken.
  NodePtr parse_rest(std::string_view last) {
    close();
    return parse_body({last});
  }

  std::vector<std::string> parse_targets() {
    std::vector<std::string> names;
    const bool bracket = takes("(");
    do names.push_back(name());
    while (takes(",") && peek().kind == Token::Kind::name);
    if (bracket) expect(")");
    return names;
  }

  NodePtr parse_for() {
    NodePtr node = make(Kind::loop, {});
    node->names = parse_targets();
    expect_word("in");
    add(*node, parse_tuple(false));
    add(*node, takes_word("if") ? parse_expression() : nullptr);
    close();
    ++loops_;
    add(*node, parse_body({"endfor", "else"}));
    --loops_;
    if (takes_word("else")) add(*node, parse_rest("endfor"));
    end("endfor");
    return node;
  }

  NodePtr parse_set() {
    NodePtr node = make(Kind::set, {});
    node->names = parse_targets();
    if (takes(".")) {
      node->text = node->names[0];
      node->names[0] = name();
    }
    if (takes("=")) {
      add(*node, parse_tuple(true));
      close();
      return node;
    }
    node->kind = Kind::set_block;
    NodePtr filter = takes("|") ? parse_filters(nullptr, true) : nullptr;
    add(*node, parse_block("endset"));
    add(*node, std::move(filter));
    return node;
  }

  void parse_parameters(Node& macro) {
    expect("(");
    while (!takes(")") && !error_) {
      macro.names.push_back(name());
      if (takes("=")) {
        add(macro, parse_expression());
      } else if (!macro.kids.empty()) {
        wrong("a parameter without default after one with a default");
      }
      if (!sees(")")) expect(",");
    }
  }
  NodePtr parse_macro() {
    NodePtr node = make(Kind::macro, name());
    parse_parameters(*node);
    const int loops = std::exchange(loops_, 0);
    add(*node, parse_block("endmacro"));
    loops_ = loops;
    return node;
  }

  // --- expressions

  /// Expressions between commas; one without a comma is itself.
  NodePtr parse_tuple(bool conditional) {
    NodePtr first = conditional ? parse_expression() : parse_or();
    if (!sees(",")) return first;
    NodePtr tuple = make(Kind::list, "(", std::move(first));
    while (takes(",") && peek().kind != Token::Kind::close && !sees(")"))
      add(*tuple, conditional ? parse_expression() : parse_or());
    return tuple;
  }

  NodePtr parse_expression() {
    const Nesting nesting(*this);
    NodePtr value = parse_or();
    while (takes_word("if")) {
      NodePtr condition = parse_or();
      NodePtr otherwise = takes_word("else") ? parse_expression() : nullptr;
      value =
          make(Kind::conditional, {}, std::move(value), std::move(condition), std::move(otherwise));
    }
    return value;
  }
  NodePtr parse_or() {
    NodePtr left = parse_and();
    while (takes_word("or")) left = make(Kind::either, {}, std::move(left), parse_and());
    return left;
  }
  NodePtr parse_and() {
    NodePtr left = parse_not();
    while (takes_word("and")) left = make(Kind::both, {}, std::move(left), parse_not());
    return left;
  }
  NodePtr parse_not() {
    const Nesting nesting(*this);
    return takes_word("not") ? make(Kind::invert, {}, parse_not()) : parse_compare();
  }

  std::string take_comparison() {
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"})
      if (takes(sign)) return std::string(sign);
    if (takes_word("in")) return "in";
    if (!sees_word("not") || !after().is(Token::Kind::name, "in")) return {};
    at_ += 2;
    return "not in";
  }
  NodePtr parse_compare() {
    NodePtr left = parse_binary(0);
    std::string sign = take_comparison();
    if (sign.empty()) return left;
    NodePtr node = make(Kind::compare, {}, std::move(left));
    for (; !sign.empty(); sign = take_comparison()) {
      node->names.push_back(sign);
      add(*node, parse_binary(0));
    }
    return node;
  }
  /// Operators from the weakest (level 0) to the strongest.
  NodePtr parse_binary(std::size_t level) {
    constexpr std::string_view kLevels[][4] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
    if (level == std::size(kLevels)) return parse_unary(true);
    NodePtr left = parse_binary(level + 1);
    for (;;) {
      const auto* const sign =
          std::find_if(std::begin(kLevels[level]), std::end(kLevels[level]),
                       [this](std::string_view known) { return !known.empty() && takes(known); });
      if (sign == std::end(kLevels[level])) return left;
      left = make(Kind::binary, std::string(*sign), std::move(left), parse_binary(level + 1));
    }
  }
  NodePtr parse_unary(bool filters) {
    const Nesting nesting(*this);
    NodePtr node = takes("-")   ? make(Kind::negate, {}, parse_unary(false))
                   : takes("+") ? parse_unary(false)
                                : parse_primary();
    node = parse_postfix(std::move(node));
    return filters ? parse_filters(std::move(node), false) : std::move(node);
  }

  template <class T>
  Value parse_number(const std::string& text) {
    T number = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
      wrong("the number " + text + " is too large");
    return Value(number);
  }

  NodePtr parse_primary() {
    NodePtr node = make(Kind::constant, {});
    if (peek().kind == Token::Kind::name) {
      const std::string word = take().text;
      if (word == "true" || word == "True" || word == "false" || word == "False") {
        node->value = word == "true" || word == "True";
      } else if (word == "none" || word == "None") {
        node->value = nullptr;
      } else {
        node->kind = Kind::name;
        node->text = word;
      }
    } else if (peek().kind == Token::Kind::string) {
      std::string text;
      while (peek().kind == Token::Kind::string) text += take().text;
      node->value = Value(std::move(text));
    } else if (peek().kind == Token::Kind::integer) {
      node->value = parse_number<std::int64_t>(take().text);
    } else if (peek().kind == Token::Kind::real) {
      node->value = parse_number<double>(take().text);
    } else if (takes("(")) {
      if (takes(")")) return make(Kind::list, "(");
      node = parse_tuple(true);
      expect(")");
    } else if (sees("[") || sees("{")) {
      const bool dict = take().text == "{";
      const std::string_view closing = dict ? "}" : "]";
      node->kind = dict ? Kind::dict : Kind::list;
      while (!takes(closing) && !error_) {
        add(*node, parse_expression());
        if (dict) {
          expect(":");
          add(*node, parse_expression());
        }
        if (!sees(closing)) expect(",");
      }
    } else {
      expected("an expression");
    }
    return node;
  }

  NodePtr parse_postfix(NodePtr node) {
    for (;;) {
      if (takes(".")) {
        if (peek().kind == Token::Kind::integer) {
          node = make(Kind::item, {}, std::move(node), parse_primary());
        } else {
          node = make(Kind::attribute, name(), std::move(node));
        }
      } else if (takes("[")) {
        node = parse_subscript(std::move(node));
      } else if (sees("(")) {
        node = make(Kind::call, {}, std::move(node));
        parse_arguments(*node);
      } else {
        return node;
      }
    }
  }
  NodePtr parse_subscript(NodePtr object) {
    std::array<NodePtr, 3> parts;
    std::size_t colons = 0;
    for (;; ++colons) {
      if (!sees(":") && !sees("]")) parts[colons] = parse_expression();
      if (colons == 2 || !takes(":")) break;
    }
    expect("]");
    if (colons == 0 && !parts[0]) wrong("an empty subscript");
    if (colons == 0) return make(Kind::item, {}, std::move(object), std::move(parts[0]));
    return make(Kind::slice, {}, std::move(object), std::move(parts[0]), std::move(parts[1]),
                std::move(parts[2]));
  }
  void parse_arguments(Node& node) {
    expect("(");
    while (!takes(")") && !error_) {
      if (sees("*") || sees("**"))
        wrong("* before an argument is not known here", ErrorCode::unsupported);
      const bool named = peek().kind == Token::Kind::name && after().is(Token::Kind::sign, "=");
      node.names.push_back(named ? take().text : "");
      if (named) take();
      add(node, parse_expression());
      if (!sees(")")) expect(",");
    }
  }

  /// | filter, is [not] test. With `first` a filter's name comes next, without a |.
  NodePtr parse_filters(NodePtr node, bool first) {
    for (;; first = false) {
      if (first || takes("|")) {
        node = make(Kind::filter, name(), std::move(node));
        if (sees("(")) parse_arguments(*node);
      } else if (takes_word("is")) {
        node = parse_test(std::move(node));
      } else if (sees("(")) {
        node = make(Kind::call, {}, std::move(node));
        parse_arguments(*node);
      } else {
        return node;
      }
    }
  }
  NodePtr parse_test(NodePtr node) {
    const bool inverted = takes_word("not");
    node = make(Kind::test, name(), std::move(node));
    const Token& next = peek();
    const bool word = next.kind == Token::Kind::name && next.text != "else" && next.text != "or" &&
                      next.text != "and" && next.text != "if" && next.text != "is";
    if (sees("(")) {
      parse_arguments(*node);
    } else if (word || sees("[") || sees("{") || next.kind == Token::Kind::string ||
               next.kind == Token::Kind::integer || next.kind == Token::Kind::real) {
      add(*node, parse_postfix(parse_primary()));
      node->names.emplace_back();
    }
    return inverted ? make(Kind::invert, {}, std::move(node)) : std::move(node);
  }

  const std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // fors around this statement
  std::optional<Error> error_;
};

}  // namespace

Result<NodePtr> parse(std::string_view source) {
  RUNNEL_TRY(std::vector<Token> tokens, lex(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace runnel::jinja
