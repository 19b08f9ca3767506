// SPDX-License-Identifier: Apache-2.0
// How a run goes, and the operators: members, slices, comparisons and arithmetic as Python has them.
#include <algorithm>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/text/jinja/template.h"

namespace runnel::jinja {

namespace {

constexpr int kMostValueDepth = 100;  // lists in lists

__extension__ using Wide = __int128;  // holds any sum and product of two integers

Value slice(Call& c) {
  const Value& object = c[0];
  if (!c.run.defined(object)) return {};
  if (!object.is<Text>() && !object.is<List>()) return c.run.wrong("a slice of " + object.type());
  for (std::size_t i = 1; i < c.arguments.size(); ++i)
    if (!c[i].as_integer() && !c[i].is_none())
      return c.run.wrong("a slice needs numbers, not " + c[i].type());
  const auto size = static_cast<std::int64_t>(*object.size());
  const std::int64_t step = std::clamp(c[3].as_integer().value_or(1), -size - 1, size + 1);
  if (step == 0) return c.run.wrong("a slice with step 0");
  const bool down = step < 0;
  const std::int64_t low = down ? -1 : 0, high = low + size;
  const auto bound = [&](const Value& part, std::int64_t otherwise) {
    if (!part.as_integer()) return otherwise;
    const std::int64_t i = std::max(*part.as_integer(), -size - 1);
    return std::clamp(i < 0 ? i + size : i, low, high);
  };
  const std::int64_t from = bound(c[1], down ? high : low), to = bound(c[2], down ? low : high);
  if (!c.run.charge(static_cast<std::size_t>(std::abs(to - from)) * sizeof(Value))) return {};
  const auto chosen = [&](const auto& all, auto out) {
    for (std::int64_t i = from; down ? i > to : i < to; i += step)
      out.push_back(all[static_cast<std::size_t>(i)]);
    return out;
  };
  if (object.is<Text>()) return chosen(*object.as<Text>(), Text());
  return List{chosen(object.as<List>()->items, std::vector<Value>()), object.as<List>()->tuple};
}

bool contains(Run& run, const Value& container, const Value& value) {
  if (container.is<Text>() && value.is<Text>())
    return run.charge(container.weight()) &&
           container.as<Text>()->find(*value.as<Text>()) != Text::npos;
  if (!container.is<List>() && !container.is<Dict>() && !container.is_undefined())
    run.wrong("cannot look for " + value.type() + " in " + container.type());
  const std::vector<Value> all = run.items(container);
  return std::ranges::any_of(all, [&](const Value& item) {
    return run.charge(std::min(item.weight(), value.weight())) && item == value;
  });
}

bool compare(Call& c, const std::string& sign) {
  const Value &a = c[0], &b = c[1];
  if (!c.run.charge(std::min(a.weight(), b.weight()))) return false;
  const std::partial_ordering found = a <=> b;
  if (sign == "==" || sign == "!=") return std::is_eq(found) == (sign == "==");
  if (c.run.defined(a) && c.run.defined(b) && found == std::partial_ordering::unordered)
    c.run.wrong("cannot order " + a.type() + " and " + b.type());
  return (sign[0] == '<' ? std::is_lt(found) : std::is_gt(found)) ||
         (sign.size() == 2 && std::is_eq(found));
}

/// Division rounds down.
template <class T>
T computed(std::string_view sign, T x, T y) {
  if (sign == "+") return x + y;
  if (sign == "-") return x - y;
  if (sign == "*") return x * y;
  T quotient = x / y;
  if constexpr (std::is_same_v<T, double>)
    quotient = std::floor(quotient);
  else if (x % y != 0 && (x < 0) != (y < 0))
    --quotient;
  return sign == "//" ? quotient : x - quotient * y;
}

Value arithmetic(Call& c, const std::string& sign) {
  const Value &a = c[0], &b = c[1];
  const auto x = a.as_real(), y = b.as_real();
  if (!c.run.defined(a) || !c.run.defined(b)) return {};
  if (!x || !y) return c.run.wrong("cannot apply " + sign + " to " + a.type() + " and " + b.type());
  if ((sign[0] == '/' || sign == "%") && *y == 0) return c.run.wrong("a division by 0");
  if (sign == "/") return *x / *y;
  if (!a.as_integer() || !b.as_integer()) return computed(sign, *x, *y);
  const Wide wide = computed<Wide>(sign, *a.as_integer(), *b.as_integer());
  const auto made = static_cast<std::int64_t>(wide);
  return made == wide ? made : c.run.wrong("a number beyond 64 bits");
}

Value add(Call& c) {
  const Value &a = c[0], &b = c[1];
  if (a.is<Text>() && b.is<Text>()) return c.text(0) + c.text(1);
  if (!a.is<List>() || !b.is<List>()) return arithmetic(c, "+");
  List joined{c.run.items(a), a.as<List>()->tuple};
  for (Value& item : c.run.items(b)) joined.items.push_back(std::move(item));
  return joined;
}

Value multiply(Call& c) {
  const Value& text = c[0];
  if (!text.is<Text>() || !c[1].as_integer()) return arithmetic(c, "*");
  const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(*c[1].as_integer(), 0));
  if (times > c.run.limits.bytes) return c.run.wrong("makes a text too large");
  Text out;
  if (!c.run.charge(times * std::max<std::uint64_t>(text.weight(), 1))) return {};
  for (std::uint64_t i = 0; i < times; ++i) out += *text.as<Text>();
  return out;
}

/// callee(arguments)
Value call(Call& c) {
  const Value callee = c[0];
  if (!c.run.defined(callee)) return {};
  if (!callee.is<Callable>()) return c.run.wrong(callee.type() + " cannot be called");
  c.arguments.erase(c.arguments.begin());
  return (*callee.as<Callable>())(c);
}

/// object.name(arguments)
Value call_method(Call& c) {
  const auto method = c.run.builtins.find(c[0].type() + "." + bytes_of(c.text(1)));
  const bool found = method != c.run.builtins.end();
  if (!found) c.arguments[0].second = item(c.run, c[0], c[1]);
  c.arguments.erase(c.arguments.begin() + 1);
  return found ? method->second(c) : call(c);
}

List list(Call& c, bool tuple) {
  List out{{}, tuple};
  for (auto& [name, value] : c.arguments) out.items.push_back(std::move(value));
  return out;
}

/// Made from keys and values in turn.
Value dict(Call& c) {
  Dict out;
  for (std::size_t i = 0; i < c.arguments.size() && c.run.charge(i); i += 2) {
    if (c[i].depth() > 0) return c.run.wrong("the key of a dict is a " + c[i].type());
    out.set(c[i], c[i + 1]);
  }
  return out;
}

}  // namespace

Value Node::operator()(Run& run) const { return part_ ? run.step(line_, *part_) : Value(); }

Value Run::wrong(const std::string& message, ErrorCode code) {
  if (!error_) error_ = fail(code, "chat template, line ", line_, ": ", message);
  return {};
}

bool Run::within(std::uint64_t most, std::uint64_t taken, const char* what, const char* unit) {
  if (taken > most) wrong(what + std::to_string(most) + unit);
  return !error_;
}

bool Run::charge(std::uint64_t bytes) {
  bytes_ += std::min(bytes, limits.bytes);
  return within(limits.bytes, bytes_, "writes or copies more than ", " bytes");
}

Value Run::step(int line, const Node::Part& part) {
  if (error_ || !within(limits.steps, ++steps_, "takes more than ", " steps") ||
      !within(limits.depth, depth_ + 1, "calls itself deeper than "))
    return {};
  line_ = line;
  ++depth_;
  Value value = part(*this);
  --depth_;
  within(kMostValueDepth, value.depth(), "nests values deeper than ");
  within(limits.bytes, value.weight(), "makes a value of more than ", " bytes");
  return error_ ? Value() : value;
}

bool Run::defined(const Value& value) {
  const Undefined* missing = value.as<Undefined>();
  if (value.is_undefined()) wrong(missing != nullptr ? missing->why : "a value is undefined");
  return !value.is_undefined();
}

Text Run::written(const Value& value) { return charge(value.weight()) ? value.written() : Text(); }

Text Run::needed(const Value& value) {
  if (!value.is<Text>()) wrong("expected a text, found " + value.type());
  return written(value);
}

std::vector<Value> Run::items(const Value& value) {
  std::vector<Value> all;
  if (!charge(value.size().value_or(0) * sizeof(Value))) return all;
  if (const List* list = value.as<List>()) {
    all = list->items;
  } else if (const Dict* dict = value.as<Dict>()) {
    for (const auto& [key, member] : dict->items) all.push_back(key);
  } else if (const Text* text = value.as<Text>()) {
    for (const char32_t c : *text) all.emplace_back(Text(1, c));
  } else if (!value.is_undefined()) {
    wrong("cannot go over " + value.type());
  }
  return all;
}

Value Run::variable(const std::string& name) const {
  for (const Scope* block = scope.get(); block != nullptr; block = block->outer.get())
    if (const auto found = block->variables.find(name); found != block->variables.end())
      return found->second;
  const auto function = builtins.find(name + "()");
  return function != builtins.end() ? Value(function->second)
                                    : Undefined{in_quotes(name) + " is undefined"};
}

const Value* Call::find(std::size_t index, std::string_view name) const {
  if (index < arguments.size() && arguments[index].first.empty()) return &arguments[index].second;
  for (const auto& [given, value] : arguments)
    if (!given.empty() && given == name) return &value;
  return nullptr;
}

Value Call::get(std::size_t index, std::string_view name, const Value& otherwise) const {
  const Value* found = find(index, name);
  return found != nullptr ? *found : otherwise;
}

const Value& Call::operator[](std::size_t index) const {
  return find(index) != nullptr ? *find(index) : missing;
}

Value item(Run& run, const Value& object, const Value& index) {
  if (!run.defined(object)) return {};
  const Dict* dict = object.is<Dict*>() ? *object.as<Dict*>() : object.as<Dict>();
  if (dict != nullptr && run.charge(dict->items.size()))
    if (const Value* found = dict->find(index)) return *found;
  if (const auto at = index.as_integer(); at && (object.is<Text>() || object.is<List>())) {
    const std::size_t i = static_cast<std::size_t>(*at) + (*at < 0 ? *object.size() : 0);
    if (i < object.size())
      return object.is<Text>() ? Value(Text(1, (*object.as<Text>())[i]))
                               : object.as<List>()->items[i];
  }
  return Undefined{object.type() + " has no member " + in_quotes(bytes_of(run.written(index)))};
}

void add_operators(Builtins& table) {
  for (const std::string sign : {"==", "!=", "<", "<=", ">", ">="})
    table[sign] = [sign](Call& c) { return compare(c, sign); };
  for (const std::string sign : {"-", "/", "//", "%"})
    table[sign] = [sign](Call& c) { return arithmetic(c, sign); };
  table["+"] = add;
  table["*"] = multiply;
  table["~"] = [](Call& c) { return c.text(0) + c.text(1); };
  table["in"] = [](Call& c) { return contains(c.run, c[1], c[0]); };
  table["not in"] = [](Call& c) { return !contains(c.run, c[1], c[0]); };
  table["not"] = [](Call& c) { return !c[0].truth(); };
  table["."] = [](Call& c) { return item(c.run, c[0], c[1]); };
  table["[:]"] = slice;
  table["()"] = call;
  table[".()"] = call_method;
  table["[,]"] = [](Call& c) { return list(c, false); };
  table["(,)"] = [](Call& c) { return list(c, true); };
  table["{:}"] = dict;
}

}  // namespace runnel::jinja
