// SPDX-License-Identifier: Apache-2.0
// Values of a template: what Python would hold.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/text/jinja/text.h"

namespace runnel::jinja {

struct List;
struct Dict;
struct Callable;
struct Namespace;
struct Loop;

/// What a name or a member that is not there gives: empty when written, an error when used.
struct Undefined {
  std::string name;
};

/// Lists and dicts never change once made, so values are shared freely and never form a ring.
class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(const char* written) : Value(Text(std::string(written))) {}
  Value(std::string written) : Value(Text(std::move(written))) {}
  Value(List list);
  Value(Dict dict);
  Value(Callable callable);
  Value(Namespace* space) : data_(space) {}
  Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  const Undefined* undefined() const { return std::get_if<Undefined>(&data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data_); }
  const Text* text() const { return pointee<const Text>(); }
  const List* list() const { return pointee<const List>(); }
  const Dict* dict() const { return pointee<const Dict>(); }
  const Callable* callable() const { return pointee<const Callable>(); }
  Loop* loop() const { return pointee<Loop>(); }
  Namespace* space() const {
    const auto* found = std::get_if<Namespace*>(&data_);
    return found != nullptr ? *found : nullptr;
  }

  /// An integer, or a boolean as 0 or 1.
  std::optional<std::int64_t> as_integer() const;
  /// A number of any kind.
  std::optional<double> as_real() const;
  bool truth() const;
  /// Lists and dicts around the innermost value.
  int depth() const;
  /// Python's name of the type, for messages.
  const char* type() const;
  /// Whether any text within was given.
  bool given() const;
  /// As {{ }} writes it.
  Text written() const;

 private:
  template <class T>
  T* pointee() const {
    const auto* found = std::get_if<std::shared_ptr<T>>(&data_);
    return found != nullptr ? found->get() : nullptr;
  }
  std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>,
               std::shared_ptr<const Callable>, Namespace*, std::shared_ptr<Loop>>
      data_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;  // written with round brackets
  int depth = 1;       // set by Value
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order they were put there
  int depth = 1;                               // set by Value

  const Value* find(const Value& key) const;
  void set(const Value& key, Value value);
};

/// {% set ns = namespace() %}: the one thing that changes. Owned by the run, so that rings do not leak.
struct Namespace {
  Dict members;
};

/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The one at `index` or of `name`; null if it was not passed.
  const Value* get(std::size_t index, std::string_view name) const;
};

/// `loop` in a for.
struct Loop {
  std::vector<Value> items;
  std::size_t at = 0;
};

struct Node;
struct Scope;

/// A macro, a method of a value, or a function by name.
struct Callable {
  std::string name;
  std::shared_ptr<const Value> self;  // of a method
  const Node* macro = nullptr;
  std::weak_ptr<Scope> scope;  // where the macro was defined
};

/// Python's ==.
bool equal(const Value& a, const Value& b);
/// Python's <, or nothing if the two have no order.
std::optional<bool> less(const Value& a, const Value& b);
/// Python's repr().
void write_repr(const Value& value, std::string& out);
std::string real_repr(double value);

struct JsonStyle {
  bool ascii = false;  // characters beyond ASCII as \uXXXX
  bool sorted = false;
  std::optional<std::string> indent;  // of one level; none: all on one line
  std::string comma = ", ";
  std::string colon = ": ";
};
/// Python's json.dumps(). @return false if there is something in it that JSON has not.
bool write_json(const Value& value, const JsonStyle& style, std::string& out, int level = 0);

}  // namespace runnel::jinja
