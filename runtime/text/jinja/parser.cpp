// SPDX-License-Identifier: Apache-2.0
// From source to tree by recursive descent. The first error is kept and moves to the last token, where every loop ends.

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/jinja/lexer.h"
#include "runtime/text/jinja/template.h"

namespace runnel::jinja {

namespace {

using Kind = Node::Kind;
using NodePtr = std::unique_ptr<Node>;
using Words = std::initializer_list<std::string_view>;
constexpr int kMostDepth = 200;  // published templates stay below 40

/// Operators between two values, from the weakest to the strongest.
constexpr std::string_view kOperators[][4] = {{"or"},     {"and"}, {},
                                              {"+", "-"}, {"~"},   {"*", "/", "//", "%"}};
constexpr std::size_t kComparison = 2;  // a level of its own kind, with `not` before it

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<NodePtr> run() {
    NodePtr body = parse_body({});
    if (error_) return *std::move(error_);
    return body;
  }

 private:
  const Token& peek(std::size_t i = 0) const {
    return tokens_[std::min(at_ + i, tokens_.size() - 1)];
  }
  bool is(Token::Kind kind, std::size_t i = 0) const { return peek(i).kind == kind; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  /// A word or a sign.
  bool sees(std::string_view text, std::size_t i = 0) const {
    return (is(Token::Kind::name, i) || is(Token::Kind::sign, i)) && peek(i).text == text;
  }
  bool takes(std::string_view text) { return sees(text) && (++at_, true); }
  bool takes(Token::Kind kind) { return is(kind) && (++at_, true); }

  void wrong(const std::string& message, ErrorCode code = ErrorCode::malformed) {
    if (!error_) error_ = error_at(peek().line, message, code);
    at_ = tokens_.size() - 1;
  }
  void expected(const std::string& what) {
    const bool end = is(Token::Kind::close) || is(Token::Kind::end);
    const std::string found = is(Token::Kind::close) ? "the end of the tag" : "the end";
    wrong("expected " + what + ", found " + (end ? found : in_quotes(peek().text)));
  }
  void expect(std::string_view text) {
    if (!takes(text)) expected("'" + std::string(text) + "'");
  }
  void close() {
    if (!takes(Token::Kind::close)) expected("the end of the tag");
  }
  std::string name() {
    if (is(Token::Kind::name)) return take().text;
    expected("a name");
    return {};
  }
  /// Before what stands between commas, up to `closing`. @return whether there is more
  bool more(std::string_view closing, bool first) {
    if (!first && !sees(closing)) expect(",");
    return !takes(closing) && !error_;
  }

  template <class... Kids>
  NodePtr make(Kind kind, std::string text = {}, Kids... kids) {
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
    check_depth(node.depth);
  }
  void check_depth(int depth) {
    if (depth > kMostDepth) wrong("nested deeper than " + std::to_string(kMostDepth));
  }

  /// Counts what is being parsed.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : depth_(parser.nesting_) { parser.check_depth(++depth_); }
    ~Nesting() { --depth_; }

   private:
    int& depth_;
  };

  // --- statements

  /// Until {% word %} with one of `ends`, whose word is left to be taken.
  NodePtr parse_body(Words ends) {
    const Nesting nesting(*this);
    NodePtr body = make(Kind::body);
    for (;;) {
      if (is(Token::Kind::constant)) {
        add(*body, make(Kind::output, {}, parse_primary()));
      } else if (takes(Token::Kind::output)) {
        add(*body, make(Kind::output, {}, parse_tuple()));
        close();
      } else if (takes(Token::Kind::statement)) {
        if (std::any_of(ends.begin(), ends.end(), [&](auto end) { return sees(end); })) return body;
        add(*body, parse_statement());
      } else {
        if (ends.size() > 0) expected("{% " + std::string(*ends.begin()) + " %}");
        return body;
      }
    }
  }
  /// The rest of a tag, and what follows up to {% last %}.
  NodePtr parse_block(std::string_view last) {
    close();
    NodePtr body = parse_body({last});
    expect(last);
    close();
    return body;
  }
  /// [{% else %} …] {% last %}, of which the first {% is taken already.
  NodePtr parse_else(std::string_view last) {
    if (takes("else")) return parse_block(last);
    expect(last);
    close();
    return nullptr;
  }

  NodePtr parse_statement() {
    const std::string word = name();
    if (word == "if") return parse_if();
    if (word == "for") return parse_for();
    if (word == "set") return parse_set();
    if (word == "macro") return parse_macro();
    if (word == "generation") return parse_block("endgeneration");
    if (word == "break" || word == "continue") {
      if (loops_ == 0) wrong("'" + word + "' outside a loop");
      close();
    } else if (word.starts_with("end") || word == "else" || word == "elif") {
      wrong("'" + word + "' closes nothing");
    } else {
      wrong("the statement " + in_quotes(word) + " is not known here", ErrorCode::unsupported);
    }
    return make(word == "break" ? Kind::leave : Kind::next);
  }

  NodePtr parse_if() {
    NodePtr node = make(Kind::branch);
    do {
      add(*node, parse_tuple(false));
      close();
      add(*node, parse_body({"endif", "elif", "else"}));
    } while (takes("elif"));
    add(*node, parse_else("endif"));
    return node;
  }

  std::vector<std::string> parse_targets() {
    std::vector<std::string> names;
    const bool bracket = takes("(");
    do names.push_back(name());
    while (takes(",") && is(Token::Kind::name));
    if (bracket) expect(")");
    return names;
  }
  NodePtr parse_for() {
    NodePtr node = make(Kind::loop);
    node->names = parse_targets();
    expect("in");
    add(*node, parse_tuple(false));
    add(*node, takes("if") ? parse_expression() : nullptr);
    close();
    ++loops_;
    add(*node, parse_body({"endfor", "else"}));
    --loops_;
    add(*node, parse_else("endfor"));
    return node;
  }

  NodePtr parse_set() {
    NodePtr node = make(Kind::set);
    node->names = parse_targets();
    if (takes(".")) node->text = std::exchange(node->names[0], name());
    if (takes("=")) {
      add(*node, parse_tuple());
      close();
    } else {
      add(*node, make(Kind::captured, {}, parse_block("endset")));
    }
    return node;
  }
  NodePtr parse_macro() {
    NodePtr node = make(Kind::macro, name());
    expect("(");
    for (bool first = true; more(")", first); first = false) {
      node->names.push_back(name());
      if (takes("=")) {
        add(*node, parse_expression());
      } else if (!node->kids.empty()) {
        wrong("a parameter without default after one with a default");
      }
    }
    const int loops = std::exchange(loops_, 0);
    add(*node, parse_block("endmacro"));
    loops_ = loops;
    return node;
  }

  // --- expressions

  /// Expressions between commas; one without a comma is itself.
  NodePtr parse_tuple(bool conditional = true) {
    const auto parse = [&] { return conditional ? parse_expression() : parse_binary(0); };
    NodePtr first = parse();
    if (!sees(",")) return first;
    NodePtr tuple = make(Kind::list, "(", std::move(first));
    while (takes(",") && !is(Token::Kind::close) && !sees(")")) add(*tuple, parse());
    return tuple;
  }

  NodePtr parse_expression() {
    const Nesting nesting(*this);
    NodePtr value = parse_binary(0);
    while (takes("if")) {
      NodePtr condition = parse_binary(0);
      NodePtr otherwise = takes("else") ? parse_expression() : nullptr;
      value =
          make(Kind::conditional, {}, std::move(value), std::move(condition), std::move(otherwise));
    }
    return value;
  }
  /// From the level of kOperators on.
  NodePtr parse_binary(std::size_t level) {
    if (level == std::size(kOperators)) return parse_unary(true);
    if (level == kComparison) return parse_not();
    NodePtr left = parse_binary(level + 1);
    for (;;) {
      const auto* const sign =
          std::find_if(std::begin(kOperators[level]), std::end(kOperators[level]),
                       [this](std::string_view known) { return !known.empty() && takes(known); });
      if (sign == std::end(kOperators[level])) return left;
      left = make(Kind::binary, std::string(*sign), std::move(left), parse_binary(level + 1));
    }
  }
  NodePtr parse_not() {
    const Nesting nesting(*this);
    if (takes("not")) return make(Kind::invert, {}, parse_not());
    NodePtr node = make(Kind::compare, {}, parse_binary(kComparison + 1));
    for (std::string sign = comparison(); !sign.empty(); sign = comparison()) {
      node->names.push_back(sign);
      add(*node, parse_binary(kComparison + 1));
    }
    return node->names.empty() ? std::move(node->kids[0]) : std::move(node);
  }
  std::string comparison() {
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">", "in"})
      if (takes(sign)) return std::string(sign);
    if (!sees("not") || !sees("in", 1)) return {};
    at_ += 2;
    return "not in";
  }
  NodePtr parse_unary(bool filters) {
    const Nesting nesting(*this);
    NodePtr node;
    if (takes("-")) {
      node = make(Kind::constant);
      node->value = std::int64_t{0};
      node = make(Kind::binary, "-", std::move(node), parse_unary(false));
    } else {
      node = takes("+") ? parse_unary(false) : parse_primary();
    }
    node = parse_postfix(std::move(node));
    return filters ? parse_filters(std::move(node)) : std::move(node);
  }

  NodePtr parse_primary() {
    NodePtr node = make(Kind::constant);
    if (is(Token::Kind::name)) {
      node->text = take().text;
      const std::string& word = node->text;
      if (word == "true" || word == "True" || word == "false" || word == "False") {
        node->value = word == "true" || word == "True";
      } else if (word == "none" || word == "None") {
        node->value = nullptr;
      } else {
        node->kind = Kind::name;
      }
    } else if (is(Token::Kind::constant)) {
      node->value = take().value;
      while (node->value.text() != nullptr && is(Token::Kind::constant) && peek().value.text())
        node->value = node->value.text()->bytes() + take().value.text()->bytes();
    } else if (takes("(")) {
      if (takes(")")) return make(Kind::list, "(");
      node = parse_tuple();
      expect(")");
    } else if (sees("[") || sees("{")) {
      const bool dict = take().text == "{";
      node->kind = dict ? Kind::dict : Kind::list;
      for (bool first = true; more(dict ? "}" : "]", first); first = false) {
        add(*node, parse_expression());
        if (dict) expect(":");
        if (dict) add(*node, parse_expression());
      }
    } else {
      expected("an expression");
    }
    return node;
  }

  NodePtr parse_postfix(NodePtr node) {
    for (;;) {
      if (takes(".")) {
        NodePtr index = make(Kind::constant);
        index->value = is(Token::Kind::constant) ? take().value : Value(name());
        node = make(Kind::item, ".", std::move(node), std::move(index));
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
    NodePtr node = make(Kind::item, {}, std::move(object));
    for (int colons = 0;; ++colons) {
      add(*node, sees(":") || sees("]") ? nullptr : parse_expression());
      if (colons == 2 || !takes(":")) break;
      node->kind = Kind::slice;
    }
    expect("]");
    if (node->kind == Kind::item && !node->kids[1]) wrong("an empty subscript");
    return node;
  }
  void parse_arguments(Node& node) {
    expect("(");
    for (bool first = true; more(")", first); first = false) {
      if (sees("*") || sees("**"))
        wrong("* before an argument is not known here", ErrorCode::unsupported);
      const bool named = is(Token::Kind::name) && sees("=", 1);
      node.names.push_back(named ? take().text : "");
      if (named) take();
      add(node, parse_expression());
    }
  }

  /// | filter, is [not] test
  NodePtr parse_filters(NodePtr node) {
    for (;;) {
      if (takes("|")) {
        node = make(Kind::filter, name(), std::move(node));
        if (sees("(")) parse_arguments(*node);
      } else if (takes("is")) {
        const bool inverted = takes("not");
        node = parse_test(std::move(node));
        if (inverted) node = make(Kind::invert, {}, std::move(node));
      } else if (sees("(")) {
        node = make(Kind::call, {}, std::move(node));
        parse_arguments(*node);
      } else {
        return node;
      }
    }
  }
  NodePtr parse_test(NodePtr node) {
    node = make(Kind::test, name(), std::move(node));
    const bool ends = sees("else") || sees("or") || sees("and") || sees("if") || sees("is");
    if (sees("(")) {
      parse_arguments(*node);
    } else if (sees("[") || sees("{") || is(Token::Kind::constant) ||
               (is(Token::Kind::name) && !ends)) {
      add(*node, parse_postfix(parse_primary()));
      node->names.emplace_back();
    }
    return node;
  }

  const std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // fors around this statement
  std::optional<Error> error_;
};

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMostBytes)
    return fail(ErrorCode::invalid_argument, "chat template: has ", source.size(),
                " bytes, at most ", kMostBytes, " are read");
  RUNNEL_TRY(std::vector<Token> tokens, lex(source));
  RUNNEL_TRY(NodePtr body, Parser(std::move(tokens)).run());
  return Template(std::move(body));
}

Result<Text> Template::render(std::vector<std::pair<std::string, Value>> variables,
                              const std::tm& now, Limits limits) const {
  return Run(limits, now)(*body_, std::move(variables));
}

}  // namespace runnel::jinja
