// SPDX-License-Identifier: Apache-2.0
// From source to nodes by recursive descent: each function reads a construct and gives the node that runs it.
#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/jinja/scanner.h"
#include "runtime/text/jinja/template.h"

namespace runnel::jinja {

namespace {

using Words = std::initializer_list<std::string_view>;
using Names = std::vector<std::string>;
using Nodes = std::vector<Node>;
constexpr int kMostDepth = 200;  // published templates stay below 20

/// How strongly what stands behind a value binds it. kSign: - before one.
enum Strength { kIf, kOr, kAnd, kNot, kComparison, kSum, kJoin, kProduct, kFilter, kSign, kMember };
using Operator = std::pair<std::string_view, Strength>;
/// What begins with another stands before it.
constexpr Operator kOperators[] = {
    {"if", kIf},         {"or", kOr},         {"and", kAnd},       {"not", kComparison},
    {"in", kComparison}, {"==", kComparison}, {"!=", kComparison}, {"<=", kComparison},
    {"<", kComparison},  {">=", kComparison}, {">", kComparison},  {"+", kSum},
    {"-", kSum},         {"~", kJoin},        {"*", kProduct},     {"//", kProduct},
    {"/", kProduct},     {"%", kProduct},     {"|", kFilter},      {"is", kFilter},
    {".", kMember},      {"[", kMember},      {"(", kMember}};

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

/// The `loop` of the round with item `i`.
Dict loop_at(const std::vector<Value>& all, std::size_t i) {
  const std::size_t left = all.size() - i;
  return {{{"index", i + 1},
           {"index0", i},
           {"revindex", left},
           {"revindex0", left - 1},
           {"length", all.size()},
           {"first", i == 0},
           {"last", left == 1},
           {"previtem", i > 0 ? all[i - 1] : Value()},
           {"nextitem", left > 1 ? all[i + 1] : Value()}}};
}

class Parser : public Scanner {
 public:
  Parser(std::string_view source, const Builtins& builtins)
      : Scanner(source), builtins_(builtins) {}

  /// Up to the end; or, if it is that of a construct, the rest of its tag and what follows up to {% word %} with one of
  /// `ends`. The first of them, which ends the construct, is taken with its tag; the word of another is left.
  Node parse_body(Words ends = {}) {
    const int depth = depth_;
    deepen();
    if (ends.size() > 0) close();
    Nodes parts;
    while (!ended()) {
      if (Text text = take_text(); !text.empty()) parts.push_back(constant(text));
      if (opens("{{")) {
        parts.push_back(parse_tuple());
        close();
      } else if (opens("{%")) {
        if (sees_one_of(ends)) break;
        parts.push_back(parse_statement());
      }
    }
    if (ends.size() > 0 && ended()) expected("{% " + std::string(*ends.begin()) + " %}");
    if (ends.size() > 0 && takes(*ends.begin())) close();
    depth_ = depth;
    return node([parts](Run& run) {
      for (std::size_t i = 0; i < parts.size() && run.flow == Run::Flow::on; ++i)
        run.out += run.written(parts[i](run));
      return Value();
    });
  }

 private:
  bool sees_one_of(Words words) const {
    return std::ranges::any_of(words, [this](auto word) { return sees(word); });
  }
  /// One more construct or node inside another.
  void deepen() {
    if (++depth_ > kMostDepth) wrong("nested deeper than " + std::to_string(kMostDepth));
  }
  Node node(Node::Part part) const { return {line(), std::move(part)}; }
  Node constant(const Value& value) const {
    return node([value](Run&) { return value; });
  }
  /// A call of what is built in.
  Node call(const std::string& name, const Nodes& arguments) {
    return node([arguments, called = builtin(builtins_, name)](Run& run) {
      Call made{run, {}};
      made.arguments.reserve(arguments.size());
      for (const Node& argument : arguments)
        made.arguments.emplace_back(argument.name, argument(run));
      return run.error() ? Value() : called(made);
    });
  }

  // --- statements

  /// What parse_body({last}) writes, as a text.
  Node parse_captured(std::string_view last) {
    return node([body = parse_body({last})](Run& run) {
      Text outside = std::exchange(run.out, Text());
      in_block(run, run.scope, [&] { return body(run); });
      return std::exchange(run.out, std::move(outside));
    });
  }
  Node parse_statement() {
    const std::string word = take_name();
    if (word == "if") return parse_if();
    if (word == "for") return parse_for();
    if (word == "set") return parse_set();
    if (word == "macro") return parse_macro();
    if (word == "generation") return parse_body({"endgeneration"});
    if (word.starts_with("end") || word == "else" || word == "elif")
      wrong("'" + word + "' closes nothing");
    if (word != "break" && word != "continue")
      wrong("the statement " + in_quotes(word) + " is not known here", ErrorCode::unsupported);
    if (loops_ == 0) wrong("'" + word + "' outside a loop");
    close();
    return node([flow = word == "break" ? Run::Flow::leave : Run::Flow::next](Run& run) {
      run.flow = flow;
      return Value();
    });
  }

  Node parse_if() {
    std::vector<std::pair<Node, Node>> branches;
    do {
      const Node condition = parse_tuple(kOr);
      branches.emplace_back(condition, parse_body({"endif", "elif", "else"}));
    } while (takes("elif"));
    const Node otherwise = takes("else") ? parse_body({"endif"}) : Node();
    return node([branches, otherwise](Run& run) {
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
    const Node iterated = parse_tuple(kOr);
    const Node condition = takes("if") ? parse(kIf) : Node();
    ++loops_;
    const Node body = parse_body({"endfor", "else"});
    --loops_;
    const Node otherwise = takes("else") ? parse_body({"endfor"}) : Node();
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
      if (member.empty()) return assign(run, names, made);
      const Value target = run.variable(names[0]);
      Dict* const* space = target.as<Dict*>();
      if (space == nullptr)
        return run.wrong("cannot set a member of " + in_quotes(names[0]) +
                         ", which is no namespace");
      if (run.charge((*space)->items.size())) (*space)->set(member, made);
      return Value();
    });
  }

  Node parse_macro() {
    const std::string name = take_name();
    Nodes parameters;
    bool optional = false;
    expect("(");
    while (!takes(")") && !error()) {
      const std::string parameter = take_name();
      if (optional && !sees("=")) wrong("a parameter without default after one with a default");
      optional = takes("=");
      parameters.push_back(optional ? parse(kIf) : Node());
      parameters.back().name = parameter;
      if (!sees(")")) expect(",");
    }
    const int loops = std::exchange(loops_, 0);
    const Node body = parse_captured("endmacro");
    loops_ = loops;
    return node([title = "the macro " + in_quotes(name), name, parameters, body](Run& run) {
      const std::weak_ptr<Scope> defined = run.scope;  // no ring
      run.scope->variables[name] = Callable([title, parameters, body, defined](Call& call) {
        const std::shared_ptr<Scope> around = defined.lock();
        if (!around) return call.run.wrong(title + " is called outside its block");
        return in_block(call.run, around, [&] {
          std::size_t taken = 0;
          for (std::size_t i = 0; i < parameters.size(); ++i) {
            const Node& otherwise = parameters[i];
            const Value* given = call.find(i, otherwise.name);
            taken += given != nullptr ? 1 : 0;
            Value value = Undefined{"parameter " + in_quotes(otherwise.name) + " was not provided"};
            if (given != nullptr || otherwise) value = given ? *given : otherwise(call.run);
            call.run.scope->variables[otherwise.name] = value;
          }
          if (taken < call.arguments.size())
            return call.run.wrong(title + " has no parameter for one of the arguments");
          return body(call.run);
        });
      });
      return Value();
    });
  }

  // --- expressions

  /// Expressions between commas; one without a comma is itself.
  Node parse_tuple(int least = kIf) {
    Nodes items = {parse(least)};
    if (!sees(",")) return items[0];
    while (takes(",") && !closes() && !sees(")")) items.push_back(parse(least));
    return call("(,)", items);
  }

  /// With operators of at least this strength.
  Node parse(int least) {
    const int depth = depth_;
    deepen();
    Node value = least <= kNot && takes("not") ? call("not", {parse(kNot)})
                 : takes("-") ? call("-", {constant(std::int64_t{0}), parse(kSign)})
                 : takes("+") ? parse(kSign)
                              : parse_operand();
    if (!value) expected("an expression");
    value = parse_behind(value, least);
    depth_ = depth;
    return value;
  }

  /// Null if none begins here.
  Node parse_operand() {
    if (auto value = take_constant()) return constant(*std::move(value));
    if (takes("true") || takes("True")) return constant(true);
    if (takes("false") || takes("False")) return constant(false);
    if (takes("none") || takes("None")) return constant(nullptr);
    if (takes("[")) return call("[,]", parse_list("]"));
    if (takes("{")) return call("{:}", parse_list("}"));
    if (takes("(")) {
      if (takes(")")) return call("(,)", {});
      Node value = parse_tuple();
      expect(")");
      return value;
    }
    const std::string name = take_word();
    if (name.empty()) return {};
    return node([name](Run& run) { return run.variable(name); });
  }
  /// Arguments, items, or keys and values, whose opening bracket is taken already, behind those of `list`.
  Nodes parse_list(std::string_view closing, Nodes list = {}) {
    while (!takes(closing) && !error()) {
      if (sees("*")) wrong("* before an argument is not known here", ErrorCode::unsupported);
      const std::string name = closing == ")" ? take_argument_name() : "";
      list.push_back(parse(kIf));
      list.back().name = name;
      if (closing == "}") {
        expect(":");
        list.push_back(parse(kIf));
      }
      if (!sees(closing)) expect(",");
    }
    return list;
  }

  /// What stands behind a value.
  Node parse_behind(Node value, int least) {
    Node compared;  // b of a < b, which may go on with < c
    while (const Operator* found = take_operator(least)) {
      const auto [sign, strength] = *found;
      if (sign == "if") {
        const Node condition = parse(kOr);
        const Node otherwise =
            takes("else") ? parse(kIf) : constant(Undefined{"the condition has no else"});
        value = node([value, condition, otherwise](Run& run) {
          return condition(run).truth() ? value(run) : otherwise(run);
        });
      } else if (sign == "|") {
        const std::string name = "|" + take_name();
        value = call(name, takes("(") ? parse_list(")", {value}) : Nodes{value});
      } else if (sign == "is") {
        value = parse_test(value);
      } else if (sign == ".") {
        const auto index = take_constant();
        const Nodes parts = {value, constant(index ? *index : Value(take_name()))};
        value = takes("(") ? call(".()", parse_list(")", parts)) : call(".", parts);
      } else if (sign == "[") {
        value = parse_subscript(value);
      } else if (sign == "(") {
        value = call("()", parse_list(")", {value}));
      } else {
        if (sign == "not") expect("in");
        Node right = parse(strength + 1);
        const Node next = strength == kComparison ? right : Node();
        const std::string name = sign == "not" ? "not in" : std::string(sign);
        if (strength > kAnd) right = call(name, {compared ? compared : value, right});
        value = compared || strength <= kAnd ? logic(value, right, sign == "or") : right;
        compared = next;
      }
      deepen();
    }
    return value;
  }
  /// Null if there is none of this strength or more.
  const Operator* take_operator(int least) {
    for (const Operator& one : kOperators)
      if (one.second >= least && takes(one.first)) return &one;
    return nullptr;
  }
  /// `and` or `or`
  Node logic(Node left, Node right, bool is_or) {
    return node([left, right, is_or](Run& run) {
      const Value value = left(run);
      return value.truth() == is_or ? value : right(run);
    });
  }
  Node parse_subscript(Node object) {
    if (sees("]")) expected("an expression");
    Nodes parts = {object};
    do parts.push_back(sees(":") || sees("]") ? constant(nullptr) : parse(kIf));
    while (parts.size() < 4 && takes(":"));
    expect("]");
    return call(parts.size() == 2 ? "." : "[:]", parts);
  }
  /// The rest of `is test`, whose argument may stand without brackets.
  Node parse_test(Node value) {
    const bool inverted = takes("not");
    const std::string name = "is " + take_name();
    Nodes arguments = {value};
    const bool ends = sees_one_of({"else", "or", "and", "if", "is"});
    if (takes("("))
      arguments = parse_list(")", arguments);
    else if (const Node argument = ends ? Node() : parse_operand())
      arguments.push_back(parse_behind(argument, kMember));
    const Node tested = call(name, arguments);
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
  Parser parser(source, *builtins);
  Node body = parser.parse_body();
  if (parser.error()) return *parser.error();
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
