// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/interpreter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/base/text.h"
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/lexer.h"

namespace runnel::jinja {

using Kind = Node::Kind;

namespace {

constexpr int kMostValueDepth = 100;  // lists in lists

/// Python's range of a slice over `size` items.
std::vector<std::size_t> slice_indices(std::int64_t size, const std::array<Value, 3>& parts,
                                       std::int64_t step) {
  const auto bound = [&](const Value& part, std::int64_t otherwise) {
    if (!part.as_integer()) return otherwise;
    const std::int64_t i = *part.as_integer() < 0 ? std::max(*part.as_integer(), -size - 1) + size
                                                  : *part.as_integer();
    return std::clamp<std::int64_t>(i, step < 0 ? -1 : 0, step < 0 ? size - 1 : size);
  };
  std::vector<std::size_t> out;
  const std::int64_t stop = bound(parts[1], step < 0 ? -1 : size);
  for (std::int64_t i = bound(parts[0], step < 0 ? size - 1 : 0); step < 0 ? i > stop : i < stop;
       i += step)
    out.push_back(static_cast<std::size_t>(i));
  return out;
}

/// Where each character begins, and the end.
std::vector<std::size_t> character_starts(const Text* text) {
  std::vector<std::size_t> out;
  if (text == nullptr) return out;
  for (std::size_t at = 0; at < text->size(); at += character_size(text->bytes(), at))
    out.push_back(at);
  out.push_back(text->size());
  return out;
}

}  // namespace

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, old] : variables) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer.get())
    for (const auto& [known, value] : scope->variables)
      if (known == name) return &value;
  return nullptr;
}

Value Interpreter::wrong(const std::string& message, ErrorCode code) {
  if (!error_) error_ = error_at(line_, message, code);
  return {};
}

bool Interpreter::charge(std::uint64_t bytes) {
  bytes_ += std::min(bytes, limits_.bytes);
  if (bytes_ > limits_.bytes)
    wrong("writes or copies more than " + std::to_string(limits_.bytes) + " bytes");
  return !failed();
}

Result<Text> Interpreter::run(const Node& body,
                              std::vector<std::pair<std::string, Value>> variables) {
  scope_ = std::make_shared<Scope>();
  scope_->variables = std::move(variables);
  Text out;
  out_ = &out;
  execute(body);
  scope_.reset();
  if (error_) return *std::move(error_);
  return out;
}

// --- statements

Interpreter::Flow Interpreter::execute(const Node& node) {
  if (failed()) return Flow::leave;
  if (++steps_ > limits_.steps) {
    wrong("takes more than " + std::to_string(limits_.steps) + " steps");
  } else if (depth_ >= limits_.depth) {
    wrong("calls itself deeper than " + std::to_string(limits_.depth));
  }
  if (failed()) return Flow::leave;
  line_ = node.line;
  ++depth_;
  const Flow flow = execute_kind(node);
  --depth_;
  return failed() ? Flow::leave : flow;
}

Interpreter::Flow Interpreter::execute_kind(const Node& node) {
  switch (node.kind) {
    case Kind::text:
      if (charge(node.value.text()->size())) out_->append(*node.value.text());
      return Flow::on;
    case Kind::output: {
      const Text text = evaluate(*node.kids[0]).written();
      if (charge(text.size())) out_->append(text);
      return Flow::on;
    }
    case Kind::body:
      for (const auto& kid : node.kids)
        if (const Flow flow = execute(*kid); flow != Flow::on) return flow;
      return Flow::on;
    case Kind::branch:
      return execute_branch(node);
    case Kind::loop:
      return execute_loop(node);
    case Kind::macro:
      scope_->set(node.text, Callable{node.text, nullptr, &node, scope_});
      return Flow::on;
    case Kind::filter_block: {
      const Node& filter = *node.kids[0];
      const Text text =
          apply(true, filter.text, Value(captured(*node.kids[1])), arguments_of(filter)).written();
      if (charge(text.size())) out_->append(text);
      return Flow::on;
    }
    case Kind::leave:
      return Flow::leave;
    case Kind::next:
      return Flow::next;
    default:
      execute_set(node);
      return Flow::on;
  }
}

Interpreter::Flow Interpreter::execute_branch(const Node& node) {
  std::size_t i = 0;
  for (; i + 1 < node.kids.size(); i += 2)
    if (evaluate(*node.kids[i]).truth()) return execute(*node.kids[i + 1]);
  return i < node.kids.size() ? execute(*node.kids[i]) : Flow::on;
}

Interpreter::Flow Interpreter::execute_loop(const Node& node) {
  const std::shared_ptr<Scope> outer = scope_;
  auto loop = std::make_shared<Loop>();
  const auto enter = [&](const Value& value) {
    scope_ = std::make_shared<Scope>(Scope{{}, outer});
    assign(node.names, value);
  };
  for (const Value& value : items(evaluate(*node.kids[0]))) {
    if (node.kids[1]) enter(value);
    if (!node.kids[1] || evaluate(*node.kids[1]).truth()) loop->items.push_back(value);
  }
  for (; loop->at < loop->items.size() && !failed(); ++loop->at) {
    enter(loop->items[loop->at]);
    scope_->set("loop", Value(loop));
    if (execute(*node.kids[2]) == Flow::leave) break;
  }
  scope_ = outer;
  if (!loop->items.empty() || node.kids.size() < 4) return Flow::on;
  return execute(*node.kids[3]);
}

void Interpreter::assign(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) return scope_->set(names[0], value);
  const std::vector<Value> values = items(value);
  if (values.size() != names.size()) {
    wrong("cannot take " + std::to_string(values.size()) + " values apart into " +
          std::to_string(names.size()));
    return;
  }
  for (std::size_t i = 0; i < names.size(); ++i) scope_->set(names[i], values[i]);
}

void Interpreter::execute_set(const Node& node) {
  Value value;
  if (node.kind == Kind::set) {
    value = evaluate(*node.kids[0]);
  } else {
    value = Value(captured(*node.kids[0]));
    if (const Node* filter = node.kids[1].get())
      value = apply(true, filter->text, value, arguments_of(*filter));
  }
  if (node.text.empty()) return assign(node.names, value);
  const Value* target = scope_->find(node.text);
  if (target != nullptr && target->space() != nullptr) {
    target->space()->members.set(Value(node.names[0]), value);
  } else {
    wrong("cannot set a member of " + in_quotes(node.text) + ", which is no namespace");
  }
}

Text Interpreter::captured(const Node& body) {
  Text text;
  Text* const out = std::exchange(out_, &text);
  const std::shared_ptr<Scope> outer = scope_;
  scope_ = std::make_shared<Scope>(Scope{{}, outer});
  execute(body);
  scope_ = outer;
  out_ = out;
  return text;
}

// --- expressions

Value Interpreter::evaluate(const Node& node) {
  if (failed()) return {};
  if (++steps_ > limits_.steps)
    return wrong("takes more than " + std::to_string(limits_.steps) + " steps");
  if (depth_ >= limits_.depth)
    return wrong("calls itself deeper than " + std::to_string(limits_.depth));
  line_ = node.line;
  ++depth_;
  Value value = evaluate_kind(node);
  --depth_;
  if (value.depth() > kMostValueDepth)
    return wrong("nests values deeper than " + std::to_string(kMostValueDepth));
  return failed() ? Value() : value;
}

Value Interpreter::evaluate_kind(const Node& node) {
  const auto kid = [&](std::size_t i) { return evaluate(*node.kids[i]); };
  switch (node.kind) {
    case Kind::constant:
      return node.value;
    case Kind::name:
      return name_value(node);
    case Kind::list:
      return list_value(node);
    case Kind::dict:
      return dict_value(node);
    case Kind::attribute:
      return member(kid(0), node.text);
    case Kind::item: {
      const Value object = kid(0);
      return item(object, kid(1));
    }
    case Kind::slice:
      return slice_value(node);
    case Kind::call: {
      const Value callee = kid(0);
      return call(callee, arguments_of(node));
    }
    case Kind::filter:
    case Kind::test: {
      const Value subject = kid(0);
      return apply(node.kind == Kind::filter, node.text, subject, arguments_of(node));
    }
    case Kind::negate: {
      const Value value = kid(0);
      if (value.real() != nullptr) return Value(-*value.real());
      return number_value("-", Value(std::int64_t{0}), value);
    }
    case Kind::invert:
      return Value(!kid(0).truth());
    case Kind::both: {
      Value left = kid(0);
      return left.truth() ? kid(1) : left;
    }
    case Kind::either: {
      Value left = kid(0);
      return left.truth() ? left : kid(1);
    }
    case Kind::binary: {
      const Value left = kid(0);
      return binary_value(node.text, left, kid(1));
    }
    case Kind::compare:
      return compare_value(node);
    default:  // conditional
      if (kid(1).truth()) return kid(0);
      return node.kids[2] ? kid(2) : Value(Undefined{"the condition has no else"});
  }
}

Value Interpreter::name_value(const Node& node) {
  if (const Value* found = scope_->find(node.text)) return *found;
  if (find_function(node.text) != nullptr) return Callable{node.text, nullptr, nullptr, {}};
  return Undefined{in_quotes(node.text) + " is undefined"};
}

Value Interpreter::list_value(const Node& node) {
  List list;
  list.tuple = node.text == "(";
  for (const auto& kid : node.kids) list.items.push_back(evaluate(*kid));
  return list;
}

Value Interpreter::dict_value(const Node& node) {
  Dict dict;
  for (std::size_t i = 0; i < node.kids.size() && !failed(); i += 2) {
    const Value key = evaluate(*node.kids[i]);
    if (key.list() != nullptr || key.dict() != nullptr) return wrong("the key of a dict is a list");
    dict.set(key, evaluate(*node.kids[i + 1]));
  }
  return dict;
}

Value Interpreter::slice_value(const Node& node) {
  const Value object = evaluate(*node.kids[0]);
  std::array<Value, 3> parts;
  for (std::size_t i = 0; i < 3; ++i)
    if (node.kids[i + 1]) parts[i] = evaluate(*node.kids[i + 1]);
  for (std::size_t i = 0; i < 3; ++i)
    if (node.kids[i + 1] && !parts[i].as_integer() && !parts[i].is_none())
      return wrong(std::string("a slice needs numbers, not ") + parts[i].type());
  const std::int64_t step = parts[2].as_integer().value_or(1);
  if (step == 0 || step == std::numeric_limits<std::int64_t>::min())
    return wrong("a slice with step 0");
  if (object.text() == nullptr && object.list() == nullptr)
    return wrong(object.is_undefined() ? object.undefined()->name
                                       : std::string("a slice of ") + object.type());
  const Text* text = object.text();
  const std::vector<std::size_t> starts = character_starts(text);
  const auto size =
      static_cast<std::int64_t>(text != nullptr ? starts.size() - 1 : object.list()->items.size());
  if (!charge(static_cast<std::uint64_t>(size) * sizeof(Value))) return {};
  const std::vector<std::size_t> chosen =
      slice_indices(size, parts, std::clamp<std::int64_t>(step, -size - 1, size + 1));
  if (text == nullptr) {
    List list;
    list.tuple = object.list()->tuple;
    for (const std::size_t i : chosen) list.items.push_back(object.list()->items[i]);
    return list;
  }
  if (chosen.empty()) return Value("");
  const std::size_t from = starts[chosen.front()];
  if (step == 1) return Value(text->part(from, starts[chosen.back() + 1] - from));
  Text out;
  for (const std::size_t i : chosen) out.append(text->part(starts[i], starts[i + 1] - starts[i]));
  return Value(std::move(out));
}

bool Interpreter::contains(const Value& container, const Value& value) {
  const Text* text = value.text();
  if (container.text() != nullptr && text != nullptr) {
    return charge(container.text()->size()) &&
           container.text()->bytes().find(text->bytes()) != std::string::npos;
  }
  if (container.dict() != nullptr)
    return charge(container.dict()->items.size()) && container.dict()->find(value) != nullptr;
  if (container.list() != nullptr || container.is_undefined()) {
    const std::vector<Value> all = items(container);
    return std::any_of(all.begin(), all.end(), [&](const Value& v) { return equal(v, value); });
  }
  wrong(std::string("cannot look for ") + value.type() + " in " + container.type());
  return false;
}

Value Interpreter::compare_value(const Node& node) {
  Value left = evaluate(*node.kids[0]);
  for (std::size_t i = 0; i < node.names.size(); ++i) {
    const Value right = evaluate(*node.kids[i + 1]);
    const std::string& sign = node.names[i];
    bool holds = false;
    if (sign == "==" || sign == "!=") {
      holds = equal(left, right) == (sign == "==");
    } else if (sign == "in" || sign == "not in") {
      holds = contains(right, left) == (sign == "in");
    } else {
      const bool swapped = sign[0] == '>';
      const std::optional<bool> below = swapped ? less(right, left) : less(left, right);
      if (left.is_undefined() || right.is_undefined())
        return wrong((left.is_undefined() ? left : right).undefined()->name);
      if (!below) return wrong(std::string("cannot order ") + left.type() + " and " + right.type());
      holds = *below || (sign.size() == 2 && equal(left, right));
    }
    if (!holds || failed()) return Value(false);
    left = right;
  }
  return Value(true);
}

Value Interpreter::binary_value(const std::string& sign, const Value& a, const Value& b) {
  if (sign == "~") {
    Text joined = a.written();
    const Text right = b.written();
    if (!charge(joined.size() + right.size())) return {};
    joined.append(right);
    return Value(std::move(joined));
  }
  if (a.is_undefined() || b.is_undefined())
    return wrong((a.is_undefined() ? a : b).undefined()->name);
  if (sign == "+" && a.text() != nullptr && b.text() != nullptr) {
    if (!charge(a.text()->size() + b.text()->size())) return {};
    Text joined = *a.text();
    joined.append(*b.text());
    return Value(std::move(joined));
  }
  if (sign == "+" && a.list() != nullptr && b.list() != nullptr) {
    List joined = *a.list();
    if (!charge((joined.items.size() + b.list()->items.size()) * sizeof(Value))) return {};
    joined.items.insert(joined.items.end(), b.list()->items.begin(), b.list()->items.end());
    return joined;
  }
  if (sign == "*" && a.text() != nullptr && b.as_integer()) {
    const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(*b.as_integer(), 0));
    if (times > limits_.bytes || !charge(times * std::max<std::size_t>(a.text()->size(), 1)))
      return wrong("makes a text too large");
    Text out;
    for (std::uint64_t i = 0; i < times; ++i) out.append(*a.text());
    return Value(std::move(out));
  }
  return number_value(sign, a, b);
}

Value Interpreter::number_value(const std::string& sign, const Value& a, const Value& b) {
  const auto x = a.as_real();
  const auto y = b.as_real();
  if (!x || !y) return wrong("cannot apply " + sign + " to " + a.type() + " and " + b.type());
  if ((sign == "/" || sign == "//" || sign == "%") && *y == 0) return wrong("a division by 0");
  if (sign == "/") return Value(*x / *y);
  const auto i = a.as_integer();
  const auto j = b.as_integer();
  if (i && j && (sign != "**" || *j >= 0)) {
    std::int64_t out = 0;
    bool lost = false;
    if (sign == "+") lost = __builtin_add_overflow(*i, *j, &out);
    if (sign == "-") lost = __builtin_sub_overflow(*i, *j, &out);
    if (sign == "*") lost = __builtin_mul_overflow(*i, *j, &out);
    if (sign == "//" || sign == "%") {
      lost = *j == -1 && *i == std::numeric_limits<std::int64_t>::min();
      if (!lost) {
        const std::int64_t rest = *i % *j;
        const bool down = rest != 0 && (rest < 0) != (*j < 0);
        out = sign == "%" ? rest + (down ? *j : 0) : *i / *j - (down ? 1 : 0);
      }
    }
    if (sign == "**") {
      out = 1;
      for (std::int64_t n = 0; n < std::min<std::int64_t>(*j, 64) && !lost; ++n)
        lost = __builtin_mul_overflow(out, *i, &out);
      if (*j > 64 && (*i > 1 || *i < -1)) lost = true;
      if (*j > 64 && *i == -1) out = *j % 2 == 0 ? 1 : -1;
    }
    return lost ? wrong("a number beyond 64 bits") : Value(out);
  }
  if (sign == "+") return Value(*x + *y);
  if (sign == "-") return Value(*x - *y);
  if (sign == "*") return Value(*x * *y);
  if (sign == "**") return Value(std::pow(*x, *y));
  const double quotient = std::floor(*x / *y);
  return Value(sign == "//" ? quotient : *x - quotient * *y);
}

// --- members, calls

Value Interpreter::member(const Value& object, std::string_view name) {
  if (object.is_undefined()) return wrong(object.undefined()->name);
  const Namespace* space = object.space();
  if (space == nullptr && find_method(object, name) != nullptr)
    return Callable{std::string(name), std::make_shared<const Value>(object), nullptr, {}};
  if (object.loop() != nullptr) return item(object, Value(std::string(name)));
  if (const Dict* dict = space != nullptr ? &space->members : object.dict()) {
    if (!charge(dict->items.size())) return {};
    if (const Value* found = dict->find(Value(std::string(name)))) return *found;
  }
  return Undefined{std::string(object.type()) + " has no member " + in_quotes(name)};
}

Value Interpreter::item(const Value& object, const Value& index) {
  if (object.is_undefined()) return wrong(object.undefined()->name);
  if (const Loop* loop = object.loop(); loop != nullptr && index.text() != nullptr) {
    const std::string& name = index.text()->bytes();
    const auto at = static_cast<std::int64_t>(loop->at);
    const auto size = static_cast<std::int64_t>(loop->items.size());
    const std::pair<std::string_view, std::int64_t> numbers[] = {
        {"index", at + 1}, {"index0", at}, {"revindex", size - at}, {"revindex0", size - at - 1},
        {"length", size},
    };
    for (const auto& [known, value] : numbers)
      if (known == name) return Value(value);
    if (name == "first") return Value(at == 0);
    if (name == "last") return Value(at == size - 1);
    if (name == "previtem" && at > 0) return loop->items[loop->at - 1];
    if (name == "nextitem" && at + 1 < size) return loop->items[loop->at + 1];
    return Undefined{"loop has no member " + in_quotes(name)};
  }
  const Dict* dict = object.space() != nullptr ? &object.space()->members : object.dict();
  if (dict != nullptr && charge(dict->items.size()))
    if (const Value* found = dict->find(index)) return *found;
  if (index.text() != nullptr) return member(object, index.text()->bytes());
  const auto at = index.as_integer();
  const Text* text = object.text();
  if (at && (object.list() != nullptr || text != nullptr)) {
    const std::vector<std::size_t> starts = character_starts(text);
    if (!charge(starts.size())) return {};
    const std::size_t size = text != nullptr ? starts.size() - 1 : object.list()->items.size();
    const auto i = static_cast<std::size_t>(*at) + (*at < 0 ? size : 0);
    if (i < size)
      return text != nullptr ? Value(text->part(starts[i], starts[i + 1] - starts[i]))
                             : object.list()->items[i];
  }
  return Undefined{std::string(object.type()) + " has no item " +
                   in_quotes(index.written().bytes())};
}

std::vector<Value> Interpreter::items(const Value& value) {
  std::vector<Value> out;
  if (const List* list = value.list()) {
    if (charge(list->items.size() * sizeof(Value))) out = list->items;
  } else if (value.dict() != nullptr) {
    if (charge(value.dict()->items.size() * sizeof(Value)))
      for (const auto& [name, member] : value.dict()->items) out.emplace_back(name);
  } else if (const Text* text = value.text()) {
    for (std::size_t at = 0; at < text->size() && charge(sizeof(Text));) {
      const std::size_t size = character_size(text->bytes(), at);
      out.emplace_back(text->part(at, size));
      at += size;
    }
  } else if (!value.is_undefined()) {
    wrong(std::string("cannot go over ") + value.type());
  }
  return out;
}

Arguments Interpreter::arguments_of(const Node& node) {
  Arguments out;
  for (std::size_t i = 0; i < node.names.size(); ++i) {
    Value value = evaluate(*node.kids[i + 1]);
    if (node.names[i].empty()) {
      out.positional.push_back(std::move(value));
    } else {
      out.named.emplace_back(node.names[i], std::move(value));
    }
  }
  return out;
}

Value Interpreter::apply(bool filter, const std::string& name, const Value& subject,
                         const Arguments& arguments) {
  if (failed()) return {};
  const Function function = filter ? find_filter(name) : find_test(name);
  if (function != nullptr) {
    if (filter && subject.text() != nullptr && !charge(subject.text()->size())) return {};
    return function(*this, subject, arguments);
  }
  return wrong(
      std::string("the ") + (filter ? "filter " : "test ") + in_quotes(name) + " is not known here",
      ErrorCode::unsupported);
}

Value Interpreter::make_namespace(const Arguments& arguments) {
  if (!charge(sizeof(Namespace))) return {};
  Namespace& made = spaces_.emplace_back();
  if (!arguments.positional.empty() && arguments.positional[0].dict() != nullptr)
    made.members = *arguments.positional[0].dict();
  for (const auto& [name, value] : arguments.named) made.members.set(Value(name), value);
  return Value(&made);
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  if (failed()) return {};
  const Callable* target = callee.callable();
  if (target == nullptr)
    return wrong(callee.is_undefined() ? callee.undefined()->name
                                       : std::string(callee.type()) + " cannot be called");
  if (target->macro != nullptr) return call_macro(*target, std::move(arguments));
  const Value self = target->self ? *target->self : Value();
  if (self.text() != nullptr && !charge(self.text()->size())) return {};
  const Function function =
      target->self ? find_method(self, target->name) : find_function(target->name);
  return function(*this, self, arguments);
}

Value Interpreter::call_macro(const Callable& macro, Arguments arguments) {
  const std::shared_ptr<Scope> defined = macro.scope.lock();
  if (!defined) return wrong("the macro " + in_quotes(macro.name) + " is called outside its block");
  const Node& node = *macro.macro;
  const std::size_t most = node.names.size();
  if (arguments.positional.size() > most)
    return wrong("the macro " + in_quotes(macro.name) + " takes at most " + std::to_string(most) +
                 " arguments");
  const std::shared_ptr<Scope> outer =
      std::exchange(scope_, std::make_shared<Scope>(Scope{{}, defined}));
  const std::size_t first_default = most - (node.kids.size() - 1);
  for (std::size_t i = 0; i < most; ++i) {
    const Value* given = arguments.get(i, node.names[i]);
    Value value = Undefined{"parameter " + in_quotes(node.names[i]) + " was not provided"};
    if (given != nullptr) {
      value = *given;
    } else if (i >= first_default) {
      value = evaluate(*node.kids[i - first_default]);
    }
    scope_->set(node.names[i], std::move(value));
  }
  for (const auto& [name, value] : arguments.named) {
    if (std::find(node.names.begin(), node.names.end(), name) == node.names.end())
      wrong("the macro " + in_quotes(macro.name) + " has no parameter " + in_quotes(name));
  }
  Text text = captured(*node.kids.back());
  scope_ = outer;
  return Value(std::move(text));
}

}  // namespace runnel::jinja
