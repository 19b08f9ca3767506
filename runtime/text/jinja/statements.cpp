// SPDX-License-Identifier: Apache-2.0
// What the statements of a template do.
#include <string>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/text/jinja/interpreter.h"

namespace runnel::jinja {

using Kind = Node::Kind;

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

}  // namespace runnel::jinja
