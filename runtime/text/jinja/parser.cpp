// SPDX-License-Identifier: Apache-2.0
// From source to nodes by recursive descent: each function reads a construct and gives the node that runs it.
#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/jinja/scanner.h"
#include "runtime/text/jinja/template.h"
#include "runtime/text/utf8.h"

namespace runnel::jinja {

namespace {

using Words = std::initializer_list<std::string_view>;
using Names = std::vector<std::string>;
using NamedNodes = std::vector<std::pair<std::string, Node>>;
constexpr int kMostDepth = 200;  // published templates stay below 40

/// How strongly operators bind.
enum Strength { kOr, kAnd, kNot, kComparison, kSum, kJoin, kProduct };
/// Those between two values. What begins with another stands before it.
using Operator = std::pair<std::string_view, Strength>;
constexpr Operator kOperators[] = {{"or", kOr},          {"and", kAnd},       {"==", kComparison},
                                   {"!=", kComparison},  {"<=", kComparison}, {">=", kComparison},
                                   {"<", kComparison},   {">", kComparison},  {"in", kComparison},
                                   {"not", kComparison}, {"+", kSum},         {"-", kSum},
                                   {"~", kJoin},         {"//", kProduct},    {"*", kProduct},
                                   {"/", kProduct},      {"%", kProduct}};

/// What `part` gives, run as a block: with variables of its own, which hide those of `outer`.
template <class Part>
auto in_block(Run& run, std::shared_ptr<Scope> outer, const Part& part) {
  const auto around = std::exchange(run.scope, std::make_shared<Scope>(Scope{std::move(outer)}));
  auto made = part();
  run.scope = around;
  return made;
}

Value assign(Run& run, const Names& names, const Value& value) {
  const std::vector<Value> values = names.size() == 1 ? std::vector{value} : run.items(value);
  if (values.size() != names.size())
    return run.wrong("cannot take " + std::to_string(values.size()) + " values apart into " +
                     std::to_string(names.size()));
  for (std::size_t i = 0; i < names.size(); ++i) run.scope->variables[names[i]] = values[i];
  return {};
}

Value set_member(Run& run, const std::string& space, const std::string& name, const Value& value) {
  const Value target = run.variable(space);
  if (target.space() == nullptr)
    return run.wrong("cannot set a member of " + in_quotes(space) + ", which is no namespace");
  if (run.charge((*target.space())->items.size())) (*target.space())->set(name, value);
  return {};
}

/// The `loop` of the round with item `i`.
Dict loop_at(const std::vector<Value>& all, std::size_t i) {
  const std::size_t left = all.size() - i;
  Dict loop;
  loop.items = {{"index", i + 1},
                {"index0", i},
                {"revindex", left},
                {"revindex0", left - 1},
                {"length", all.size()},
                {"first", i == 0},
                {"last", left == 1},
                {"previtem", i > 0 ? all[i - 1] : Value()},
                {"nextitem", left > 1 ? all[i + 1] : Value()}};
  return loop;
}

/// @param parameters  with their defaults
/// @param defined     where the macro was defined; null if that block has ended
Value call_macro(const Call& call, const std::string& macro, const NamedNodes& parameters,
                 const Node& body, const std::shared_ptr<Scope>& defined) {
  Run& run = call.run;
  const std::string name = "the macro " + in_quotes(macro);
  if (!defined) return run.wrong(name + " is called outside its block");
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const std::string given(call.arguments[i].first);
    const bool known = given.empty()
                           ? i < parameters.size()
                           : std::any_of(parameters.begin(), parameters.end(),
                                         [&](const auto& one) { return one.first == given; });
    if (!known)
      return run.wrong(name + " has no parameter " +
                       (given.empty() ? std::to_string(i + 1) : in_quotes(given)));
  }
  return in_block(run, defined, [&] {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [parameter, otherwise] = parameters[i];
      const Value* given = call.find(i, parameter);
      const Value missing = Undefined{"parameter " + in_quotes(parameter) + " was not provided"};
      run.scope->variables[parameter] = given != nullptr ? *given
                                        : otherwise      ? otherwise(run)
                                                         : missing;
    }
    return body(run);
  });
}

class Parser : Scanner {
 public:
  /// `builtins`: outlives what is parsed.
  Parser(std::string_view source, const Builtins& builtins)
      : Scanner(source), builtins_(builtins) {}

  Result<Node> run() {
    Node body = parse_body({});
    if (error()) return *error();
    return body;
  }

 private:
  /// Counts how deep the constructs and nodes that are being parsed stand in one another.
  void deepen() {
    if (++depth_ > kMostDepth) wrong("nested deeper than " + std::to_string(kMostDepth));
  }
  /// At its end a construct with its nodes counts no more.
  struct Nesting {
    int& depth;
    const int before;
    ~Nesting() { depth = before; }
  };
  Nesting nested() {
    deepen();
    return {depth_, depth_ - 1};
  }

  Node node(Node::Part part) {
    deepen();
    return {line(), std::move(part)};
  }
  Node constant(Value value) const {
    return {line(), [value](Run&) { return value; }};
  }
  /// A call of what is built in.
  Node call(const std::string& name, const std::vector<Node>& first, NamedNodes others = {}) {
    NamedNodes all;
    for (const Node& value : first) all.emplace_back("", value);
    all.insert(all.end(), others.begin(), others.end());
    const auto found = builtins_.find(name);
    const Callable* const builtin = found != builtins_.end() ? &found->second : nullptr;
    return node([name, all, builtin](Run& run) {
      Call made{run, {}};
      made.arguments.reserve(all.size());
      for (const auto& [argument, value] : all) made.arguments.emplace_back(argument, value(run));
      const bool known = builtin != nullptr && !run.error();
      return known ? (*builtin)(made) : run.call(name, std::move(made.arguments));
    });
  }

  /// Before what stands between commas, up to `closing`. @return whether there is more
  bool more(std::string_view closing, bool first) {
    if (!first && !sees(closing)) expect(",");
    return !takes(closing) && !error();
  }
  bool sees_one_of(Words words) const {
    return std::any_of(words.begin(), words.end(), [this](auto word) { return sees(word); });
  }

  // --- statements

  /// Until {% word %} with one of `ends`, whose word is left to be taken.
  Node parse_body(Words ends) {
    const Nesting nesting = nested();
    std::vector<Node> parts;
    for (;;) {
      if (Text text = take_text(); !text.empty()) parts.push_back(output(constant(text)));
      if (opens("{{")) {
        parts.push_back(output(parse_tuple()));
        close();
      } else if (opens("{%")) {
        if (sees_one_of(ends)) break;
        parts.push_back(parse_statement());
      } else {
        if (ends.size() > 0) expected("{% " + std::string(*ends.begin()) + " %}");
        break;
      }
    }
    return node([parts](Run& run) {
      for (std::size_t i = 0; i < parts.size() && run.flow == Run::Flow::on; ++i) parts[i](run);
      return Value();
    });
  }
  Node output(Node value) const {
    return {line(), [value](Run& run) {
              run.out += run.written(value(run));
              return Value();
            }};
  }
  /// The rest of a tag, and what follows up to {% last %}.
  Node parse_block(std::string_view last) {
    close();
    Node body = parse_body({last});
    expect(last);
    close();
    return body;
  }
  /// The same, as the text that it writes.
  Node parse_captured(std::string_view last) {
    return node([body = parse_block(last)](Run& run) {
      Text outside = std::exchange(run.out, Text());
      in_block(run, run.scope, [&] { return body(run); });
      return std::exchange(run.out, std::move(outside));
    });
  }
  /// [{% else %} …] {% last %}, of which the first {% is taken already.
  Node parse_else(std::string_view last) {
    if (takes("else")) return parse_block(last);
    expect(last);
    close();
    return {};
  }

  Node parse_statement() {
    const Nesting nesting = nested();
    const std::string word = take_name();
    if (word == "if") return parse_if();
    if (word == "for") return parse_for();
    if (word == "set") return parse_set();
    if (word == "macro") return parse_macro();
    if (word == "generation") return parse_block("endgeneration");
    if (word.starts_with("end") || word == "else" || word == "elif") {
      wrong("'" + word + "' closes nothing");
    } else if (word != "break" && word != "continue") {
      wrong("the statement " + in_quotes(word) + " is not known here", ErrorCode::unsupported);
    } else if (loops_ == 0) {
      wrong("'" + word + "' outside a loop");
    }
    close();
    return node([flow = word == "break" ? Run::Flow::leave : Run::Flow::next](Run& run) {
      run.flow = flow;
      return Value();
    });
  }

  Node parse_if() {
    std::vector<std::pair<Node, Node>> branches;
    do {
      Node condition = parse_tuple(false);
      close();
      branches.emplace_back(condition, parse_body({"endif", "elif", "else"}));
    } while (takes("elif"));
    return node([branches, otherwise = parse_else("endif")](Run& run) {
      for (const auto& [condition, body] : branches)
        if (condition(run).truth()) return body(run);
      return otherwise(run);
    });
  }

  Names parse_targets() {
    Names names;
    const bool bracket = takes("(");
    do names.push_back(take_name());
    while (takes(","));
    if (bracket) expect(")");
    return names;
  }
  Node parse_for() {
    const Names names = parse_targets();
    expect("in");
    const Node iterated = parse_tuple(false);
    const Node condition = takes("if") ? parse_expression() : Node();
    close();
    ++loops_;
    const Node body = parse_body({"endfor", "else"});
    --loops_;
    const Node otherwise = parse_else("endfor");
    return node([names, iterated, condition, body, otherwise](Run& run) {
      std::vector<Value> all = run.items(iterated(run));
      std::erase_if(all, [&](const Value& value) {
        return condition && !in_block(run, run.scope, [&] {
                 assign(run, names, value);
                 return condition(run).truth();
               });
      });
      for (std::size_t i = 0; i < all.size() && !run.error(); ++i) {
        in_block(run, run.scope, [&] {
          assign(run, names, all[i]);
          run.scope->variables["loop"] = loop_at(all, i);
          return body(run);
        });
        if (std::exchange(run.flow, Run::Flow::on) == Run::Flow::leave) break;
      }
      return all.empty() ? otherwise(run) : Value();
    });
  }

  Node parse_set() {
    const Names names = parse_targets();
    const std::string member = takes(".") ? take_name() : "";
    const bool block = !takes("=");
    const Node value = block ? parse_captured("endset") : parse_tuple();
    if (!block) close();
    return node([names, member, value](Run& run) {
      const Value made = value(run);
      return member.empty() ? assign(run, names, made) : set_member(run, names[0], member, made);
    });
  }

  Node parse_macro() {
    const std::string name = take_name();
    NamedNodes parameters;
    expect("(");
    for (bool first = true; more(")", first); first = false) {
      const std::string parameter = take_name();
      const Node otherwise = takes("=") ? parse_expression() : Node();
      if (!first && parameters.back().second && !otherwise)
        wrong("a parameter without default after one with a default");
      parameters.emplace_back(parameter, otherwise);
    }
    const int loops = std::exchange(loops_, 0);
    const Node body = parse_captured("endmacro");
    loops_ = loops;
    return node([name, parameters, body](Run& run) {
      const std::weak_ptr<Scope> defined = run.scope;  // no ring
      run.scope->variables[name] = Callable([name, parameters, body, defined](Call& call) {
        return call_macro(call, name, parameters, body, defined.lock());
      });
      return Value();
    });
  }

  // --- expressions

  /// Expressions between commas; one without a comma is itself.
  Node parse_tuple(bool conditional = true) {
    const Nesting nesting = nested();
    const auto parse = [&] { return conditional ? parse_expression() : parse_binary(kOr); };
    std::vector<Node> items = {parse()};
    if (!sees(",")) return items[0];
    while (takes(",") && !closes() && !sees(")")) items.push_back(parse());
    return call("(,)", items);
  }

  Node parse_expression() {
    const Nesting nesting = nested();
    Node value = parse_binary(kOr);
    while (takes("if")) {
      const Node condition = parse_binary(kOr);
      const Node otherwise =
          takes("else") ? parse_expression() : constant(Undefined{"the condition has no else"});
      value = node([value, condition, otherwise](Run& run) {
        return condition(run).truth() ? value(run) : otherwise(run);
      });
    }
    return value;
  }

  /// With operators of at least this strength.
  Node parse_binary(int least) {
    const Nesting nesting = nested();
    Node left = least <= kNot && takes("not") ? call("not", {parse_binary(kNot)}) : parse_unary();
    Node compared;  // b of a < b, which may go on with < c
    while (const Operator* found = take_operator(least)) {
      const auto& [sign, strength] = *found;
      if (sign == "not") expect("in");
      Node right = parse_binary(strength + 1);
      const bool joins = strength <= kAnd || compared;
      const Node next = strength == kComparison ? right : Node();
      if (strength > kAnd)
        right =
            call(sign == "not" ? "not in" : std::string(sign), {compared ? compared : left, right});
      left = joins ? logic(left, right, sign == "or") : right;
      compared = next;
    }
    return left;
  }
  /// Null if there is none of this strength or more.
  const Operator* take_operator(int least) {
    const auto* const end = std::end(kOperators);
    const auto* const found = std::find_if(std::begin(kOperators), end, [&](const Operator& one) {
      return one.second >= least && takes(one.first);
    });
    return found != end ? found : nullptr;
  }
  /// `and` or `or`
  Node logic(Node left, Node right, bool is_or) {
    return node([left, right, is_or](Run& run) {
      const Value value = left(run);
      return value.truth() == is_or ? value : right(run);
    });
  }

  Node parse_unary(bool filters = true) {
    const Nesting nesting = nested();
    Node value;
    if (takes("-")) {
      value = call("-", {constant(std::int64_t{0}), parse_unary(false)});
    } else {
      value = takes("+") ? parse_unary(false) : parse_operand();
      if (!value) expected("an expression");
    }
    return parse_postfix(value, filters);
  }

  /// Null if none begins here.
  Node parse_operand() {
    if (auto value = take_constant()) return constant(*std::move(value));
    if (takes("true") || takes("True")) return constant(true);
    if (takes("false") || takes("False")) return constant(false);
    if (takes("none") || takes("None")) return constant(nullptr);
    if (takes("[")) return call("[,]", {}, parse_list("]"));
    if (takes("{")) return call("{:}", {}, parse_list("}"));
    if (takes("(")) {
      if (takes(")")) return call("(,)", {});
      Node value = parse_tuple();
      expect(")");
      return value;
    }
    const std::string name = take_word();
    if (name.empty()) return {};
    return {line(), [name](Run& run) { return run.variable(name); }};
  }
  /// Arguments, items, or keys and values, whose opening bracket is taken already.
  NamedNodes parse_list(std::string_view closing) {
    NamedNodes out;
    for (bool first = true; more(closing, first); first = false) {
      if (sees("*")) wrong("* before an argument is not known here", ErrorCode::unsupported);
      const std::string name = closing == ")" ? take_argument_name() : "";
      out.emplace_back(name, parse_expression());
      if (closing != "}") continue;
      expect(":");
      out.emplace_back("", parse_expression());
    }
    return out;
  }

  /// What stands behind a value.
  Node parse_postfix(Node value, bool filters) {
    for (;;) {
      if (takes(".")) {
        const auto index = take_constant();
        const Node member = constant(index ? *index : Value(take_name()));
        value =
            takes("(") ? call(".()", {value, member}, parse_list(")")) : call(".", {value, member});
      } else if (takes("[")) {
        value = parse_subscript(value);
      } else if (takes("(")) {
        value = call("()", {value}, parse_list(")"));
      } else if (filters && takes("|")) {
        const std::string name = "|" + take_name();
        value = call(name, {value}, takes("(") ? parse_list(")") : NamedNodes());
      } else if (filters && takes("is")) {
        value = parse_test(value);
      } else {
        return value;
      }
    }
  }
  Node parse_subscript(Node object) {
    if (sees("]")) expected("an expression");
    std::vector<Node> parts = {object};
    do parts.push_back(sees(":") || sees("]") ? constant(nullptr) : parse_expression());
    while (parts.size() < 4 && takes(":"));
    expect("]");
    if (parts.size() == 2) return call(".", parts);
    parts.resize(4, constant(nullptr));
    return call("[:]", parts);
  }
  /// The rest of `is test`, whose argument may stand without brackets.
  Node parse_test(Node value) {
    const bool inverted = takes("not");
    const std::string name = "is " + take_name();
    NamedNodes arguments;
    if (takes("(")) {
      arguments = parse_list(")");
    } else if (!sees_one_of({"else", "or", "and", "if", "is"})) {
      if (const Node argument = parse_operand())
        arguments.emplace_back("", parse_postfix(argument, false));
    }
    const Node tested = call(name, {value}, arguments);
    return inverted ? call("not", {tested}) : tested;
  }

  const Builtins& builtins_;
  int depth_ = 0;
  int loops_ = 0;  // fors around this statement
};

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMostBytes)
    return fail(ErrorCode::invalid_argument, "chat template: has ", source.size(),
                " bytes, at most ", kMostBytes, " are read");
  if (const std::size_t bad = first_invalid_utf8(source); bad != source.npos)
    return fail(ErrorCode::malformed, "chat template: byte ", bad, " is not UTF-8");
  auto builtins = std::make_shared<const Builtins>(make_builtins());
  RUNNEL_TRY(Node body, Parser(source, *builtins).run());
  return Template(std::move(builtins), std::move(body));
}

Result<Text> Template::render(std::vector<std::pair<std::string, Value>> variables,
                              const std::tm& now, Limits limits) const {
  Run run(*builtins_, limits, now);
  for (auto& [name, value] : variables) run.scope->variables[name] = std::move(value);
  body_(run);
  if (run.error()) return *run.error();
  return std::move(run.out);
}

}  // namespace runnel::jinja
