// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/run.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/text/jinja/lexer.h"

namespace runnel::jinja {

using Kind = Node::Kind;
constexpr int kMostValueDepth = 100;  // lists in lists

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer.get())
    if (const auto found = scope->variables.find(name); found != scope->variables.end())
      return &found->second;
  return nullptr;
}

Result<Text> Run::operator()(const Node& body,
                             std::vector<std::pair<std::string, Value>> variables) && {
  for (auto& [name, value] : variables) scope_->variables[name] = std::move(value);
  evaluate(body);
  if (error_) return *std::move(error_);
  return std::move(out_);
}

Value Run::wrong(const std::string& message, ErrorCode code) {
  if (!error_) error_ = error_at(line_, message, code);
  return {};
}

bool Run::charge(std::uint64_t bytes) {
  bytes_ += std::min(bytes, limits_.bytes);
  if (bytes_ > limits_.bytes)
    wrong("writes or copies more than " + std::to_string(limits_.bytes) + " bytes");
  return !failed();
}

Text Run::written(const Value& value) { return charge(value.weight()) ? value.written() : Text(); }

Value Run::evaluate(const Node& node) {
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
  if (value.weight() > limits_.bytes)
    return wrong("makes a value of more than " + std::to_string(limits_.bytes) + " bytes");
  return failed() ? Value() : value;
}

Value Run::evaluate_kind(const Node& node) {
  const auto kid = [&](std::size_t i) { return evaluate(*node.kids[i]); };
  switch (node.kind) {
    case Kind::constant:
      return node.value;
    case Kind::name:
      if (const Value* found = scope_->find(node.text)) return *found;
      if (is_function(node.text)) return Callable{node.text};
      return Undefined{in_quotes(node.text) + " is undefined"};
    case Kind::list: {
      List list{{}, node.text == "("};
      for (const auto& item : node.kids) list.items.push_back(evaluate(*item));
      return list;
    }
    case Kind::dict:
      return evaluate_dict(node);
    case Kind::item: {
      const Value object = kid(0);
      return item(object, kid(1));
    }
    case Kind::slice:
      return evaluate_slice(node);
    case Kind::call:
      return evaluate_call(node);
    case Kind::filter: {
      const Value subject = kid(0);
      return filter(node.text, subject, arguments_of(node));
    }
    case Kind::test: {
      const Value subject = kid(0);
      return test(node.text, subject, arguments_of(node));
    }
    case Kind::invert:
      return !kid(0).truth();
    case Kind::binary: {
      Value left = kid(0);
      if (node.text == "and" || node.text == "or")
        return left.truth() == (node.text == "or") ? left : kid(1);
      return binary(node.text, left, kid(1));
    }
    case Kind::compare:
      return evaluate_compare(node);
    case Kind::conditional:
      if (kid(1).truth()) return kid(0);
      return node.kids[2] ? kid(2) : Value(Undefined{"the condition has no else"});
    case Kind::captured:
      return captured(*node.kids[0]);
    default:
      execute(node);
      return {};
  }
}

Value Run::evaluate_dict(const Node& node) {
  Dict dict;
  for (std::size_t i = 0; i < node.kids.size() && charge(dict.items.size()); i += 2) {
    const Value key = evaluate(*node.kids[i]);
    if (key.list() != nullptr || key.dict() != nullptr) return wrong("the key of a dict is a list");
    dict.set(key, evaluate(*node.kids[i + 1]));
  }
  return dict;
}

Value Run::evaluate_slice(const Node& node) {
  const Value object = evaluate(*node.kids[0]);
  std::vector<Value> parts(3);
  for (std::size_t i = 1; i < node.kids.size(); ++i) {
    if (!node.kids[i]) continue;
    parts[i - 1] = evaluate(*node.kids[i]);
    if (!parts[i - 1].as_integer() && !parts[i - 1].is_none())
      return wrong("a slice needs numbers, not " + parts[i - 1].type());
  }
  return slice(object, parts[0], parts[1], parts[2]);
}

Value Run::evaluate_call(const Node& node) {
  const Node& callee = *node.kids[0];
  const bool of_object = callee.kind == Kind::item && callee.text == ".";
  const Value self = of_object ? evaluate(*callee.kids[0]) : Value();
  const Arguments arguments = arguments_of(node);
  if (of_object && !failed())
    if (std::optional<Value> made =
            method(callee.kids[1]->value.written().bytes(), self, arguments))
      return *std::move(made);
  const Value called = of_object ? item(self, callee.kids[1]->value) : evaluate(callee);
  if (failed()) return {};
  if (called.is_undefined()) return wrong(called.why_undefined());
  if (called.callable() == nullptr) return wrong(called.type() + " cannot be called");
  return called.callable()->macro != nullptr ? call_macro(*called.callable(), arguments)
                                             : function(called.callable()->name, arguments);
}

Arguments Run::arguments_of(const Node& node) {
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

Value Run::call_macro(const Callable& macro, const Arguments& arguments) {
  const std::string name = "the macro " + in_quotes(macro.name);
  const Node& node = *macro.macro;
  const std::size_t most = node.names.size();
  const std::shared_ptr<Scope> defined = macro.scope.lock();
  if (!defined) return wrong(name + " is called outside its block");
  if (arguments.positional.size() > most)
    return wrong(name + " takes at most " + std::to_string(most) + " arguments");
  for (const auto& [given, value] : arguments.named)
    if (std::find(node.names.begin(), node.names.end(), given) == node.names.end())
      return wrong(name + " has no parameter " + in_quotes(given));
  const auto outer = std::exchange(scope_, std::make_shared<Scope>(Scope{{}, defined}));
  const std::size_t first_default = most - (node.kids.size() - 1);
  for (std::size_t i = 0; i < most; ++i) {
    const Value missing = Undefined{"parameter " + in_quotes(node.names[i]) + " was not provided"};
    const Value* given = arguments.find(i, node.names[i]);
    scope_->variables[node.names[i]] = given != nullptr ? *given
                                       : i >= first_default
                                           ? evaluate(*node.kids[i - first_default])
                                           : missing;
  }
  Text text = captured(*node.kids.back());
  scope_ = outer;
  return text;
}

void Run::execute(const Node& node) {
  switch (node.kind) {
    case Kind::output:
      out_.append(written(evaluate(*node.kids[0])));
      return;
    case Kind::body:
      for (std::size_t i = 0; i < node.kids.size() && flow_ == Flow::on; ++i)
        evaluate(*node.kids[i]);
      return;
    case Kind::branch: {
      std::size_t i = 0;
      while (i + 1 < node.kids.size() && !evaluate(*node.kids[i]).truth()) i += 2;
      const Node* body = node.kids[std::min(i + 1, node.kids.size() - 1)].get();
      if (body != nullptr) evaluate(*body);
      return;
    }
    case Kind::loop:
      return execute_loop(node);
    case Kind::macro:
      scope_->variables[node.text] = Callable{node.text, &node, scope_};
      return;
    case Kind::leave:
    case Kind::next:
      flow_ = node.kind == Kind::next ? Flow::next : Flow::leave;
      return;
    default:
      return execute_set(node);
  }
}

void Run::execute_loop(const Node& node) {
  const std::shared_ptr<Scope> outer = scope_;
  const auto enter = [&](const Value& value) {
    scope_ = std::make_shared<Scope>(Scope{{}, outer});
    assign(node.names, value);
  };
  std::vector<Value> all = items(evaluate(*node.kids[0]));
  std::erase_if(all, [&](const Value& value) {
    if (!node.kids[1]) return false;
    enter(value);
    return !evaluate(*node.kids[1]).truth();
  });
  const std::size_t size = all.size();
  for (std::size_t i = 0; i < size && !failed() && flow_ != Flow::leave; ++i) {
    enter(all[i]);
    Dict loop{{{"index", i + 1},
               {"index0", i},
               {"revindex", size - i},
               {"revindex0", size - i - 1},
               {"length", size},
               {"first", i == 0},
               {"last", i + 1 == size}}};
    if (i > 0) loop.items.emplace_back("previtem", all[i - 1]);
    if (i + 1 < size) loop.items.emplace_back("nextitem", all[i + 1]);
    scope_->variables["loop"] = std::move(loop);
    evaluate(*node.kids[2]);
    if (flow_ == Flow::next) flow_ = Flow::on;
  }
  flow_ = Flow::on;
  scope_ = outer;
  if (size == 0 && node.kids[3]) evaluate(*node.kids[3]);
}

void Run::execute_set(const Node& node) {
  const Value value = evaluate(*node.kids[0]);
  if (node.text.empty()) return assign(node.names, value);
  const Value* target = scope_->find(node.text);
  if (target == nullptr || target->space() == nullptr) {
    wrong("cannot set a member of " + in_quotes(node.text) + ", which is no namespace");
  } else if (charge(target->space()->items.size())) {
    target->space()->set(node.names[0], value);
  }
}

void Run::assign(const std::vector<std::string>& names, const Value& value) {
  const std::vector<Value> values = names.size() == 1 ? std::vector{value} : items(value);
  if (values.size() != names.size())
    wrong("cannot take " + std::to_string(values.size()) + " values apart into " +
          std::to_string(names.size()));
  for (std::size_t i = 0; i < names.size() && !failed(); ++i)
    scope_->variables[names[i]] = values[i];
}

Text Run::captured(const Node& body) {
  Text outside = std::exchange(out_, Text());
  const std::shared_ptr<Scope> outer = scope_;
  scope_ = std::make_shared<Scope>(Scope{{}, outer});
  evaluate(body);
  scope_ = outer;
  return std::exchange(out_, std::move(outside));
}

}  // namespace runnel::jinja
