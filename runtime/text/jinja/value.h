// SPDX-License-Identifier: Apache-2.0
// Values of a template: what Python would hold.
#pragma once

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
using TextView = std::basic_string_view<char32_t, MarkedCharacters>;

/// What Python's str.isspace takes for white space.
constexpr TextView kSpaces =
    U"\t\n\v\f\r\x1c\x1d\x1e\x1f "
    U"\x85\xa0\x1680\x2000\x2001\x2002\x2003\x2004\x2005\x2006\x2007\x2008\x2009\x200a"
    U"\x2028\x2029\x202f\x205f\x3000";
/// Without the characters of `dropped` at its ends.
Text stripped(const Text& text, bool left, bool right, TextView dropped = kSpaces);

class Value;
struct Call;

/// What a name or a member that is not there gives: empty when written, an error when used.
struct Undefined {
  std::string why;
};
struct List {
  std::vector<Value> items;
  bool tuple = false;  // written with round brackets
};
using Member = std::pair<Value, Value>;
struct Dict {
  std::vector<Member> items;  // in the order they were put there

  const Value* find(const Value& key) const;
  void set(const Value& key, Value value);
};
/// A macro, or what is built in.
using Callable = std::function<Value(Call&)>;

/// Lists and dicts never change once made, so values are shared freely and never form a ring. The one thing that changes
/// is a namespace(): a Dict* that the run owns, so that its rings do not leak.
class Value {
  template <class T>
  using Shared = std::shared_ptr<const T>;

 public:
  Value() : weight_(0) {}  // undefined, as statements give: written for nothing
  Value(Undefined undefined) : data_(std::make_shared<Undefined>(std::move(undefined))) {}
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(std::size_t size) : data_(static_cast<std::int64_t>(size)) {}
  Value(double value) : data_(value) {}
  Value(Text text) : weight_(text.size()), data_(std::make_shared<Text>(std::move(text))) {}
  Value(const char* written) : Value(marked_text(written)) {}
  Value(const std::string& written) : Value(marked_text(written)) {}
  Value(List list);
  Value(Dict dict);
  Value(Callable callable) : data_(std::make_shared<Callable>(std::move(callable))) {}
  Value(Dict* space) : data_(space) {}

  /// What it holds; null if that is no T.
  template <class T>
  const T* as() const {
    if constexpr (std::is_scalar_v<T>)
      return std::get_if<T>(&data_);
    else if (const auto* held = std::get_if<Shared<T>>(&data_))
      return held->get();
    else
      return nullptr;
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<std::conditional_t<std::is_scalar_v<T>, T, Shared<T>>>(data_);
  }
  bool is_none() const { return is<std::nullptr_t>(); }
  bool is_undefined() const { return is<Undefined>(); }
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
  /// As Python has ==, < and >; unordered if the two have no order.
  friend std::partial_ordering operator<=>(const Value& a, const Value& b);
  friend bool operator==(const Value& a, const Value& b) { return std::is_eq(a <=> b); }

 private:
  void hold(const Value& item);

  int depth_ = 0;
  std::uint64_t weight_ = 8;
  std::variant<Shared<Undefined>, std::nullptr_t, bool, std::int64_t, double, Shared<Text>,
               Shared<List>, Shared<Dict>, Shared<Callable>, Dict*>
      data_;
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
