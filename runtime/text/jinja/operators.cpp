// SPDX-License-Identifier: Apache-2.0
// Slices, comparisons and arithmetic, as Python has them.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/text/jinja/interpreter.h"

namespace runnel::jinja {
namespace {

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

}  // namespace

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

}  // namespace runnel::jinja
