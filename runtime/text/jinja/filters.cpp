// SPDX-License-Identifier: Apache-2.0
// The filters and tests that chat templates use, as Jinja (and for tojson the transformers library) defines them.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/text/jinja/builtins.h"

namespace runnel::jinja {

namespace {

using Named = std::pair<std::string_view, Function>;
#define RUNNEL_JINJA                                                        \
  [[maybe_unused]] Interpreter &run, [[maybe_unused]] const Value &subject, \
      [[maybe_unused]] const Arguments &arguments

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

/// a.b.0 of a value, as `attribute=` says.
Value path(Interpreter& run, Value value, const Value& attribute) {
  if (attribute.text() == nullptr) return run.item(value, attribute);
  const std::string& names = attribute.text()->bytes();
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t dot = std::min(names.find('.', at), names.size());
    const std::string name = names.substr(at, dot - at);
    std::int64_t index = 0;
    const bool number = std::from_chars(name.data(), name.data() + name.size(), index).ptr ==
                        name.data() + name.size();
    value = run.item(value, number && !name.empty() ? Value(index) : Value(name));
    at = dot + 1;
  }
  return value;
}

Value sorted(Interpreter& run, std::vector<Value> values, const Arguments& a, bool by_item) {
  const Value* attribute = by_item ? nullptr : a.get(2, "attribute");
  const Value* reverse = a.get(by_item ? 2 : 0, "reverse");
  const Value* cased = a.get(by_item ? 0 : 1, "case_sensitive");
  const Value* by = by_item ? a.get(1, "by") : nullptr;
  const bool second = by != nullptr && by->text() != nullptr && by->text()->bytes() == "value";
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& value : values) {
    Value key = by_item                ? value.list()->items[second ? 1 : 0]
                : attribute != nullptr ? path(run, value, *attribute)
                                       : value;
    if (key.text() != nullptr && !(cased != nullptr && cased->truth()))
      key = Value(key.text()->mapped(lower));
    keyed.emplace_back(std::move(key), std::move(value));
  }
  for (std::size_t i = 1; i < keyed.size(); ++i)
    if (!less(keyed[0].first, keyed[i].first))
      return run.wrong("cannot order what is to be sorted");
  const bool down = reverse != nullptr && reverse->truth();
  std::stable_sort(keyed.begin(), keyed.end(), [down](const auto& x, const auto& y) {
    return (down ? less(y.first, x.first) : less(x.first, y.first)).value_or(false);
  });
  List out;
  for (auto& [key, value] : keyed) out.items.push_back(std::move(value));
  return out;
}

/// select, reject, selectattr, rejectattr.
Value selected(Interpreter& run, const Value& subject, const Arguments& a, bool attribute,
               bool wanted) {
  const std::size_t skip = attribute ? 1 : 0;
  if (attribute && a.positional.empty()) return run.wrong("selectattr needs the name of a member");
  Arguments rest;
  if (a.positional.size() > skip + 1)
    rest.positional.assign(a.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1,
                           a.positional.end());
  List out;
  if (!subject.truth()) return out;
  for (const Value& value : run.items(subject)) {
    const Value tested = attribute ? path(run, value, a.positional[0]) : value;
    const bool holds =
        a.positional.size() > skip
            ? run.apply(false, a.positional[skip].written().bytes(), tested, rest).truth()
            : tested.truth();
    if (holds == wanted) out.items.push_back(value);
  }
  return out;
}

Value mapped(RUNNEL_JINJA) {
  const Value* attribute = arguments.get(99, "attribute");
  const Value* otherwise = arguments.get(99, "default");
  if (attribute == nullptr && arguments.positional.empty()) return run.wrong("map needs a filter");
  Arguments rest;
  if (attribute == nullptr) {
    rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
    rest.named = arguments.named;
  }
  List out;
  if (!subject.truth()) return out;
  for (const Value& value : run.items(subject)) {
    Value made = attribute != nullptr
                     ? path(run, value, *attribute)
                     : run.apply(true, arguments.positional[0].written().bytes(), value, rest);
    if (attribute != nullptr && made.is_undefined() && otherwise != nullptr) made = *otherwise;
    out.items.push_back(std::move(made));
    if (run.failed()) break;
  }
  return out;
}

Value extreme(Interpreter& run, const Value& subject, bool largest) {
  const std::vector<Value> all = run.items(subject);
  Value best = Undefined{"an empty list has no largest item"};
  for (const Value& value : all)
    if (best.is_undefined() || (largest ? less(best, value) : less(value, best)).value_or(false))
      best = value;
  return best;
}

Value to_json(RUNNEL_JINJA) {
  JsonStyle style;
  const auto flag = [&](std::size_t i, const char* name) {
    const Value* value = arguments.get(i, name);
    return value != nullptr && value->truth();
  };
  style.ascii = flag(0, "ensure_ascii");
  style.sorted = flag(3, "sort_keys");
  if (const Value* indent = arguments.get(1, "indent"); indent != nullptr && !indent->is_none()) {
    const auto width = indent->as_integer();
    style.indent =
        width ? std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(*width, 0, 64)), ' ')
              : indent->written().bytes();
    style.comma = ",";
  }
  if (const Value* marks = arguments.get(2, "separators");
      marks != nullptr && marks->list() != nullptr) {
    if (marks->list()->items.size() != 2) return run.wrong("tojson: separators has not two texts");
    style.comma = marks->list()->items[0].written().bytes();
    style.colon = marks->list()->items[1].written().bytes();
  }
  std::string out;
  if (!write_json(subject, style, out))
    return run.wrong(std::string("tojson cannot write ") + subject.type());
  if (!run.charge(out.size())) return {};
  return Value(Text(std::move(out), subject.given()));
}

Value join(RUNNEL_JINJA) {
  const Value* mark = arguments.get(0, "d");
  const Value* attribute = arguments.get(1, "attribute");
  const Text between = mark != nullptr ? mark->written() : Text();
  Text out;
  bool first = true;
  for (const Value& value : run.items(subject)) {
    if (!first) out.append(between);
    first = false;
    const Text part = (attribute != nullptr ? path(run, value, *attribute) : value).written();
    if (!run.charge(part.size() + between.size())) return {};
    out.append(part);
  }
  return Value(std::move(out));
}

Value indented(RUNNEL_JINJA) {
  const Value* width = arguments.get(0, "width");
  const Value* first = arguments.get(1, "first");
  const Value* blank = arguments.get(2, "blank");
  const std::int64_t size = width != nullptr ? width->as_integer().value_or(0) : 4;
  const Text by =
      width != nullptr && width->text() != nullptr
          ? *width->text()
          : Text(std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(size, 0, 1000)),
                             ' '));
  const Text text = subject.written();
  Text out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.bytes().find('\n', at), text.size());
    const bool wanted = at == 0 ? first != nullptr && first->truth()
                                : end > at || (blank != nullptr && blank->truth());
    if (!run.charge(by.size() + end - at)) return {};
    if (wanted) out.append(by);
    out.append(text.part(at, end - at + 1));
    at = end + 1;
  }
  return Value(std::move(out));
}

Value title(const Text& text) {
  bool begins = true;
  return Value(text.mapped([&begins](char c) {
    const char out = begins ? upper(c) : lower(c);
    begins = std::string_view("-({[< \t\n\r\f\v").find(c) != std::string_view::npos;
    return out;
  }));
}

Value to_number(Interpreter& run, const Value& subject, const Arguments& a, bool whole) {
  const Value* otherwise = a.get(0, "default");
  double real = 0;
  if (const auto number = subject.as_real()) {
    if (whole && subject.as_integer()) return Value(*subject.as_integer());
    real = *number;
  } else {
    const Text text = stripped(subject.written(), true, true);
    const char* begin = text.bytes().data();
    const char* end = begin + text.size();
    if (begin != end && *begin == '+') ++begin;
    std::int64_t integer = 0;
    if (const auto read = std::from_chars(begin, end, integer);
        whole && read.ec == std::errc() && read.ptr == end)
      return Value(integer);
    const auto read = std::from_chars(begin, end, real);
    if (read.ec != std::errc() || read.ptr != end)
      return otherwise != nullptr ? *otherwise : whole ? Value(std::int64_t{0}) : Value(0.0);
  }
  if (!whole) return Value(real);
  if (!(std::fabs(real) < 9e18)) return run.wrong("a number beyond 64 bits");
  return Value(static_cast<std::int64_t>(real));
}

Value end_of(RUNNEL_JINJA, bool last) {
  const std::vector<Value> all = run.items(subject);
  if (all.empty()) return Undefined{"an empty list has no first item"};
  return last ? all.back() : all.front();
}

Value listed(RUNNEL_JINJA) { return List{run.items(subject)}; }

Value pairs(RUNNEL_JINJA) {
  List out;
  if (subject.dict() == nullptr && !subject.is_undefined())
    return run.wrong(std::string("cannot take the items of ") + subject.type());
  for (const Value& key : run.items(subject))
    out.items.push_back(List{{key, *subject.dict()->find(key)}, true});
  return out;
}

Value length(RUNNEL_JINJA) {
  if (subject.dict() != nullptr)
    return Value(static_cast<std::int64_t>(subject.dict()->items.size()));
  if (subject.list() != nullptr)
    return Value(static_cast<std::int64_t>(subject.list()->items.size()));
  if (subject.text() == nullptr) return Value(static_cast<std::int64_t>(run.items(subject).size()));
  std::int64_t size = 0;
  for (std::size_t at = 0; at < subject.text()->size(); ++size)
    at += character_size(subject.text()->bytes(), at);
  return Value(size);
}

Value reversed(RUNNEL_JINJA) {
  std::vector<Value> all = run.items(subject);
  std::reverse(all.begin(), all.end());
  if (subject.text() == nullptr) return List{std::move(all)};
  Text out;
  for (const Value& value : all) out.append(*value.text());
  return Value(std::move(out));
}

/// A method of texts as a filter.
Value as_method(Interpreter& run, const Value& subject, const Arguments& arguments,
                const char* name) {
  const Value text(subject.written());
  return find_method(text, name)(run, text, arguments);
}

constexpr Named kFilters[] = {
    {"capitalize", [](RUNNEL_JINJA) { return as_method(run, subject, arguments, "capitalize"); }},
    {"default",
     [](RUNNEL_JINJA) -> Value {
       const Value* flag = arguments.get(1, "boolean");
       const Value* value = arguments.get(0, "default_value");
       const bool replaced =
           subject.is_undefined() || (flag != nullptr && flag->truth() && !subject.truth());
       return !replaced ? subject : value != nullptr ? *value : Value("");
     }},
    {"dictsort",
     [](RUNNEL_JINJA) -> Value {
       const Value all = pairs(run, subject, arguments);
       return run.failed() ? Value() : sorted(run, all.list()->items, arguments, true);
     }},
    {"first", [](RUNNEL_JINJA) { return end_of(run, subject, arguments, false); }},
    {"float", [](RUNNEL_JINJA) { return to_number(run, subject, arguments, false); }},
    {"indent", indented},
    {"int", [](RUNNEL_JINJA) { return to_number(run, subject, arguments, true); }},
    {"items", pairs},
    {"join", join},
    {"last", [](RUNNEL_JINJA) { return end_of(run, subject, arguments, true); }},
    {"length", length},
    {"list", listed},
    {"lower", [](RUNNEL_JINJA) -> Value { return subject.written().mapped(lower); }},
    {"map", mapped},
    {"max", [](RUNNEL_JINJA) { return extreme(run, subject, true); }},
    {"min", [](RUNNEL_JINJA) { return extreme(run, subject, false); }},
    {"reject", [](RUNNEL_JINJA) { return selected(run, subject, arguments, false, false); }},
    {"rejectattr", [](RUNNEL_JINJA) { return selected(run, subject, arguments, true, false); }},
    {"replace", [](RUNNEL_JINJA) { return as_method(run, subject, arguments, "replace"); }},
    {"reverse", reversed},
    {"safe", [](RUNNEL_JINJA) -> Value { return subject.written(); }},
    {"select", [](RUNNEL_JINJA) { return selected(run, subject, arguments, false, true); }},
    {"selectattr", [](RUNNEL_JINJA) { return selected(run, subject, arguments, true, true); }},
    {"sort", [](RUNNEL_JINJA) { return sorted(run, run.items(subject), arguments, false); }},
    {"string", [](RUNNEL_JINJA) -> Value { return subject.written(); }},
    {"title", [](RUNNEL_JINJA) { return title(subject.written()); }},
    {"tojson", to_json},
    {"trim", [](RUNNEL_JINJA) { return as_method(run, subject, arguments, "strip"); }},
    {"upper", [](RUNNEL_JINJA) -> Value { return subject.written().mapped(upper); }},
};

bool is_integer(const Value& value) { return value.integer() != nullptr; }
Value first_of(const Arguments& arguments) {
  return arguments.positional.empty() ? Value() : arguments.positional[0];
}

constexpr Named kTests[] = {
    {"boolean", [](RUNNEL_JINJA) -> Value { return subject.boolean() != nullptr; }},
    {"defined", [](RUNNEL_JINJA) -> Value { return !subject.is_undefined(); }},
    {"divisibleby",
     [](RUNNEL_JINJA) -> Value {
       const auto by = first_of(arguments).as_integer();
       if (!by || *by == 0 || !subject.as_integer())
         return run.wrong("divisibleby needs two numbers");
       return *by == -1 || *subject.as_integer() % *by == 0;
     }},
    {"equalto", [](RUNNEL_JINJA) -> Value { return equal(subject, first_of(arguments)); }},
    {"even",
     [](RUNNEL_JINJA) -> Value { return is_integer(subject) && *subject.integer() % 2 == 0; }},
    {"false",
     [](RUNNEL_JINJA) -> Value { return subject.boolean() != nullptr && !*subject.boolean(); }},
    {"float", [](RUNNEL_JINJA) -> Value { return subject.real() != nullptr; }},
    {"greaterthan",
     [](RUNNEL_JINJA) -> Value { return less(first_of(arguments), subject).value_or(false); }},
    {"in", [](RUNNEL_JINJA) -> Value { return run.contains(first_of(arguments), subject); }},
    {"integer", [](RUNNEL_JINJA) -> Value { return is_integer(subject); }},
    {"iterable",
     [](RUNNEL_JINJA) -> Value {
       return subject.text() != nullptr || subject.list() != nullptr || subject.dict() != nullptr ||
              subject.is_undefined();
     }},
    {"lessthan",
     [](RUNNEL_JINJA) -> Value { return less(subject, first_of(arguments)).value_or(false); }},
    {"mapping", [](RUNNEL_JINJA) -> Value { return subject.dict() != nullptr; }},
    {"ne", [](RUNNEL_JINJA) -> Value { return !equal(subject, first_of(arguments)); }},
    {"none", [](RUNNEL_JINJA) -> Value { return subject.is_none(); }},
    {"number", [](RUNNEL_JINJA) -> Value { return subject.as_real().has_value(); }},
    {"odd",
     [](RUNNEL_JINJA) -> Value { return is_integer(subject) && *subject.integer() % 2 != 0; }},
    {"sequence",
     [](RUNNEL_JINJA) -> Value {
       return subject.text() != nullptr || subject.list() != nullptr || subject.dict() != nullptr ||
              subject.is_undefined();
     }},
    {"string", [](RUNNEL_JINJA) -> Value { return subject.text() != nullptr; }},
    {"true",
     [](RUNNEL_JINJA) -> Value { return subject.boolean() != nullptr && *subject.boolean(); }},
    {"undefined", [](RUNNEL_JINJA) -> Value { return subject.is_undefined(); }},
};

constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"count", "length"},   {"d", "default"},  {"eq", "equalto"},
    {"==", "equalto"},     {"!=", "ne"},      {">", "greaterthan"},
    {"gt", "greaterthan"}, {"<", "lessthan"}, {"lt", "lessthan"},
};

template <std::size_t N>
Function find(const Named (&table)[N], std::string_view name) {
  for (const auto& [other, known] : kOtherNames)
    if (other == name) name = known;
  for (const auto& [known, function] : table)
    if (known == name) return function;
  return nullptr;
}

}  // namespace

Function find_filter(std::string_view name) { return find(kFilters, name); }
Function find_test(std::string_view name) { return find(kTests, name); }

}  // namespace runnel::jinja
