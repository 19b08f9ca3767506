// SPDX-License-Identifier: Apache-2.0
// Values of a template: what Python would hold.
#pragma once

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/text/marked_text.h"

namespace runnel::jinja {

using Text = MarkedText;

/// As Python's str.isspace.
bool is_space(char32_t c);
/// Without white space, or without the characters of `dropped`, at its ends.
Text stripped(const Text& text, bool left, bool right, const Text* dropped = nullptr);

/// The number that is all of `text`, if it is one that a T holds. `base`: for integers, 10 if left out.
template <class T, class... Base>
std::optional<T> number_in(std::string_view text, Base... base) {
  T number{};
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, number, base...);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

class Run;
class Value;
struct Call;
struct Dict;
struct List;

/// Of a call; the name, which the template holds, is empty before a positional one.
using Arguments = std::vector<std::pair<std::string_view, Value>>;
/// A macro, or what is built in.
using Callable = std::function<Value(Call&)>;

/// What a name or a member that is not there gives: empty when written, an error when used.
struct Undefined {
  std::string why;
};

/// Lists and dicts never change once made, so values are shared freely and never form a ring.
class Value {
 public:
  Value() = default;  // undefined
  Value(Undefined undefined) : data_(std::make_shared<const Undefined>(std::move(undefined))) {}
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(std::size_t size) : data_(static_cast<std::int64_t>(size)) {}
  Value(double value) : data_(value) {}
  Value(Text text) : weight_(text.size()), data_(std::make_shared<const Text>(std::move(text))) {}
  Value(const char* written) : Value(marked_text(written)) {}
  Value(const std::string& written) : Value(marked_text(written)) {}
  Value(List list);
  Value(Dict dict);
  Value(Callable callable) : data_(std::make_shared<const Callable>(std::move(callable))) {}
  /// {% set ns = namespace() %}: the one thing that changes. Owned by the run, so that rings do not leak.
  Value(Dict* space) : data_(space) {}

  // Null if it is something else.
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const Text* text() const { return pointee<Text>(); }
  const List* list() const { return pointee<List>(); }
  const Dict* dict() const { return pointee<Dict>(); }
  const Callable* callable() const { return pointee<Callable>(); }
  Dict* const* space() const { return std::get_if<Dict*>(&data_); }

  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  bool is_undefined() const { return data_.index() == 0; }
  std::string why_undefined() const;
  /// An integer, or a boolean as 0 or 1.
  std::optional<std::int64_t> as_integer() const;
  /// A number of any kind.
  std::optional<double> as_real() const;
  /// The characters of a text, the items of a list or a dict.
  std::optional<std::size_t> size() const;
  bool truth() const;
  /// Lists and dicts around the innermost value.
  int depth() const { return depth_; }
  /// About the characters it is written with, and the steps that comparing it takes. What is in there twice counts
  /// twice.
  std::uint64_t weight() const { return weight_; }
  /// Python's name of the type.
  std::string type() const;
  /// As {{ }} writes it.
  Text written() const;

  /// Equivalent if Python's == holds, less or greater if < or > does, unordered if the two have no order.
  friend std::partial_ordering order(const Value& a, const Value& b);

 private:
  template <class T>
  const T* pointee() const {
    const auto* found = std::get_if<std::shared_ptr<const T>>(&data_);
    return found != nullptr ? found->get() : nullptr;
  }
  void hold(const Value& item);

  int depth_ = 0;
  std::uint64_t weight_ = 8;
  std::variant<std::shared_ptr<const Undefined>, std::nullptr_t, bool, std::int64_t, double,
               std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<const Callable>, Dict*>
      data_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;  // written with round brackets
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order they were put there

  const Value* find(const Value& key) const;
  void set(const Value& key, Value value);
};

/// How values are written: as Python's repr(), or as json.dumps() does.
struct Style {
  bool json = false;
  bool ascii = false;  // characters beyond ASCII as \uXXXX
  bool sorted = false;
  std::optional<Text> indent = {};  // of one level; none: all on one line
  Text comma = U", ";
  Text colon = U": ";
};
/// @return nothing if there is something in it that JSON has not.
std::optional<Text> write(const Value& value, const Style& style = {});

}  // namespace runnel::jinja
