// SPDX-License-Identifier: Apache-2.0
// Members, slices, comparisons and arithmetic, as Python has them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/text.h"
#include "runtime/text/jinja/run.h"

namespace runnel::jinja {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

}  // namespace

Value Run::item(const Value& object, const Value& index) {
  if (object.is_undefined()) return wrong(object.why_undefined());
  const Dict* dict = object.space() != nullptr ? object.space() : object.dict();
  if (dict != nullptr && charge(dict->items.size()))
    if (const Value* found = dict->find(index)) return *found;
  const auto at = index.as_integer();
  if (at && (object.list() != nullptr || object.text() != nullptr)) {
    const Value end = *at == -1 || *at == kMost ? Value() : Value(*at + 1);
    const std::vector<Value> one = items(slice(object, index, end, {}));
    if (!one.empty()) return one[0];
  }
  return Undefined{object.type() + " has no member " + in_quotes(written(index).bytes())};
}

Value Run::slice(const Value& object, const Value& start, const Value& stop, const Value& by) {
  const Text* text = object.text();
  if (object.is_undefined()) return wrong(object.why_undefined());
  if (text == nullptr && object.list() == nullptr) return wrong("a slice of " + object.type());
  if (text != nullptr && !charge(text->size() * sizeof(std::size_t))) return {};
  const auto starts = character_starts(text != nullptr ? text->bytes() : std::string_view());
  const auto size =
      static_cast<std::int64_t>(text != nullptr ? starts.size() - 1 : object.list()->items.size());
  const std::int64_t step =
      std::clamp<std::int64_t>(by.as_integer().value_or(1), -size - 1, size + 1);
  if (step == 0) return wrong("a slice with step 0");
  const auto bound = [&](const Value& part, std::int64_t otherwise) {
    if (!part.as_integer()) return otherwise;
    const std::int64_t i = std::max(*part.as_integer(), -size - 1);
    return std::clamp<std::int64_t>(i < 0 ? i + size : i, step < 0 ? -1 : 0,
                                    step < 0 ? size - 1 : size);
  };
  const std::int64_t from = bound(start, step < 0 ? size - 1 : 0);
  const std::int64_t to = bound(stop, step < 0 ? -1 : size);
  if (!charge(static_cast<std::size_t>(std::abs(to - from)) * sizeof(Value))) return {};
  const auto byte = [&](std::int64_t i) { return starts[static_cast<std::size_t>(i)]; };
  if (text != nullptr && step == 1)
    return from < to ? text->part(byte(from), byte(to) - byte(from)) : Text();
  Text characters;
  List chosen{{}, object.list() != nullptr && object.list()->tuple};
  for (std::int64_t i = from; step < 0 ? i > to : i < to; i += step) {
    if (text != nullptr) {
      characters.append(text->part(byte(i), byte(i + 1) - byte(i)));
    } else {
      chosen.items.push_back(object.list()->items[static_cast<std::size_t>(i)]);
    }
  }
  return text != nullptr ? Value(std::move(characters)) : Value(std::move(chosen));
}

std::vector<Value> Run::items(const Value& value) {
  std::vector<Value> out;
  if (const List* list = value.list()) {
    if (charge(list->items.size() * sizeof(Value))) out = list->items;
  } else if (const Dict* dict = value.dict()) {
    if (charge(dict->items.size() * sizeof(Value)))
      for (const auto& [key, member] : dict->items) out.push_back(key);
  } else if (const Text* text = value.text()) {
    for (std::size_t at = 0; at < text->size() && charge(sizeof(Text));) {
      const std::size_t size = character_size(text->bytes(), at);
      out.emplace_back(text->part(at, size));
      at += size;
    }
  } else if (!value.is_undefined()) {
    wrong("cannot go over " + value.type());
  }
  return out;
}

bool Run::contains(const Value& container, const Value& value) {
  if (const Text* text = container.text(); text != nullptr && value.text() != nullptr)
    return charge(text->size()) && text->bytes().find(value.text()->bytes()) != std::string::npos;
  if (const Dict* dict = container.dict())
    return charge(dict->items.size()) && dict->find(value) != nullptr;
  if (container.list() == nullptr && !container.is_undefined())
    wrong("cannot look for " + value.type() + " in " + container.type());
  const std::vector<Value> all = items(container);
  return std::any_of(all.begin(), all.end(),
                     [&](const Value& item) { return compare("==", item, value); });
}

bool Run::compare(std::string_view sign, const Value& a, const Value& b) {
  if (sign == "in" || sign == "not in") return contains(b, a) == (sign == "in");
  if (!charge(std::min(a.weight(), b.weight()))) return false;
  const std::partial_ordering found = order(a, b);
  if (sign == "==" || sign == "!=") return std::is_eq(found) == (sign == "==");
  if (a.is_undefined() || b.is_undefined()) {
    wrong((a.is_undefined() ? a : b).why_undefined());
  } else if (found == std::partial_ordering::unordered) {
    wrong("cannot order " + a.type() + " and " + b.type());
  }
  return (sign[0] == '<' ? std::is_lt(found) : std::is_gt(found)) ||
         (sign.size() == 2 && std::is_eq(found));
}

bool Run::evaluate_compare(const Node& node) {
  Value left = evaluate(*node.kids[0]);
  for (std::size_t i = 0; i < node.names.size(); ++i) {
    Value right = evaluate(*node.kids[i + 1]);
    if (!compare(node.names[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Run::binary(std::string_view sign, const Value& a, const Value& b) {
  const bool joins = sign == "~" || (sign == "+" && a.text() != nullptr && b.text() != nullptr);
  if (joins) {
    Text joined = written(a);
    joined.append(written(b));
    return joined;
  }
  if (a.is_undefined() || b.is_undefined())
    return wrong((a.is_undefined() ? a : b).why_undefined());
  if (sign == "+" && a.list() != nullptr && b.list() != nullptr) {
    List joined{items(a), a.list()->tuple};
    const std::vector<Value> more = items(b);
    joined.items.insert(joined.items.end(), more.begin(), more.end());
    return joined;
  }
  if (const Text* text = a.text(); sign == "*" && text != nullptr && b.as_integer()) {
    const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(*b.as_integer(), 0));
    if (times > limits_.bytes || !charge(times * std::max<std::size_t>(text->size(), 1)))
      return wrong("makes a text too large");
    Text out;
    for (std::uint64_t i = 0; i < times; ++i) out.append(*text);
    return out;
  }
  return arithmetic(sign, a, b);
}

Value Run::arithmetic(std::string_view sign, const Value& a, const Value& b) {
  const auto x = a.as_real();
  const auto y = b.as_real();
  const auto i = a.as_integer();
  const auto j = b.as_integer();
  if (!x || !y)
    return wrong("cannot apply " + std::string(sign) + " to " + a.type() + " and " + b.type());
  if ((sign == "/" || sign == "//" || sign == "%") && *y == 0) return wrong("a division by 0");
  if (sign == "/") return *x / *y;
  if (i && j) {
    std::int64_t out = 0;
    bool lost = sign == "+"   ? __builtin_add_overflow(*i, *j, &out)
                : sign == "-" ? __builtin_sub_overflow(*i, *j, &out)
                : sign == "*" ? __builtin_mul_overflow(*i, *j, &out)
                              : *j == -1 && *i == -kMost - 1;
    if (!lost && (sign == "//" || sign == "%")) {
      const bool down = *i % *j != 0 && (*i < 0) != (*j < 0);
      out = sign == "%" ? *i % *j + (down ? *j : 0) : *i / *j - (down ? 1 : 0);
    }
    return lost ? wrong("a number beyond 64 bits") : Value(out);
  }
  const double quotient = std::floor(*x / *y);
  return sign == "+"    ? *x + *y
         : sign == "-"  ? *x - *y
         : sign == "*"  ? *x * *y
         : sign == "//" ? quotient
                        : *x - quotient * *y;
}

}  // namespace runnel::jinja
