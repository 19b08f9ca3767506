// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/interpreter.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/lexer.h"

namespace runnel::jinja {

using Kind = Node::Kind;

namespace {

constexpr int kMostValueDepth = 100;  // lists in lists

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
