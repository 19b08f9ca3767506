// SPDX-License-Identifier: Apache-2.0
// Values of a template: what Python would hold.
#pragma once

#include <compare>
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

/// What a name or a member that is not there gives: empty when written, an error when used.
struct Undefined {
  std::string why;
};

/// Lists and dicts never change once made, so values are shared freely and never form a ring.
class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(std::size_t size) : data_(static_cast<std::int64_t>(size)) {}
  Value(double value) : data_(value) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(const char* written) : Value(Text(std::string(written))) {}
  Value(std::string written) : Value(Text(std::move(written))) {}
  Value(List list);
  Value(Dict dict);
  Value(Callable callable);
  /// {% set ns = namespace() %}: the one thing that changes. Owned by the run, so that rings do not leak.
  Value(Dict* space) : data_(space) {}

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  const std::string& why_undefined() const { return std::get<Undefined>(data_).why; }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data_); }
  const Text* text() const { return pointee<Text>(); }
  const List* list() const { return pointee<List>(); }
  const Dict* dict() const { return pointee<Dict>(); }
  const Callable* callable() const { return pointee<Callable>(); }
  Dict* space() const {
    Dict* const* found = std::get_if<Dict*>(&data_);
    return found != nullptr ? *found : nullptr;
  }

  /// An integer, or a boolean as 0 or 1.
  std::optional<std::int64_t> as_integer() const;
  /// A number of any kind.
  std::optional<double> as_real() const;
  bool truth() const;
  /// Lists and dicts around the innermost value.
  int depth() const;
  /// About the bytes it is written with, and the steps that comparing it takes. What is in there twice counts twice.
  std::uint64_t weight() const;
  /// Python's name of the type, for messages.
  std::string type() const;
  /// As {{ }} writes it.
  Text written() const;

 private:
  template <class T>
  const T* pointee() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&data_);
    return found != nullptr ? found->get() : nullptr;
  }
  std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>,
               std::shared_ptr<const Callable>, Dict*>
      data_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;  // written with round brackets
  int depth = 1;       // depth and weight are set by Value
  std::uint64_t weight = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order they were put there
  int depth = 1;                               // depth and weight are set by Value
  std::uint64_t weight = 1;

  const Value* find(const Value& key) const;
  void set(const Value& key, Value value);
};

/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The one at `index` or of `name`; null if it was not passed.
  const Value* find(std::size_t index, std::string_view name) const;
  /// The same; `otherwise` if it was not passed.
  Value get(std::size_t index, std::string_view name = {}, const Value& otherwise = {}) const;
};

struct Node;
struct Scope;

/// A macro, or a function by name.
struct Callable {
  std::string name;
  const Node* macro = nullptr;
  std::weak_ptr<Scope> scope = {};  // where the macro was defined
};

/// Equivalent if Python's == holds, less or greater if < or > does, unordered if the two have no order.
std::partial_ordering order(const Value& a, const Value& b);

/// How values are written: as Python's repr(), or as json.dumps() does.
struct Style {
  bool json = false;
  bool ascii = false;  // characters beyond ASCII as \uXXXX
  bool sorted = false;
  std::optional<std::string> indent = {};  // of one level; none: all on one line
  std::string comma = ", ";
  std::string colon = ": ";
};
/// @return nothing if there is something in it that JSON has not.
std::optional<Text> write(const Value& value, const Style& style = {});

}  // namespace runnel::jinja
