// SPDX-License-Identifier: Apache-2.0
// The methods of Python's str, dict and list that chat templates call, and their functions.
#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>

#include "runtime/base/text.h"
#include "runtime/text/jinja/builtins.h"

namespace runnel::jinja {

namespace {

using Named = std::pair<std::string_view, Function>;
#define RUNNEL_JINJA                                                        \
  [[maybe_unused]] Interpreter &run, [[maybe_unused]] const Value &subject, \
      [[maybe_unused]] const Arguments &arguments

constexpr auto npos = std::string::npos;

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool is_letter(char c) { return upper(c) != lower(c) || static_cast<unsigned char>(c) >= 0x80; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

Value strip(Interpreter& run, const Value& subject, const Arguments& arguments, bool left,
            bool right) {
  const Value* chars = arguments.get(0, "chars");
  if (chars == nullptr || chars->is_none()) return Value(stripped(*subject.text(), left, right));
  if (chars->text() == nullptr) return run.wrong(std::string("cannot strip ") + chars->type());
  return Value(stripped(*subject.text(), left, right, &chars->text()->bytes()));
}

Value split(Interpreter& run, const Value& subject, const Arguments& arguments, bool right) {
  const Value* by = arguments.get(0, "sep");
  const Value* limit = arguments.get(1, "maxsplit");
  Text rest = *subject.text();
  std::int64_t left = limit != nullptr ? limit->as_integer().value_or(-1) : -1;
  const bool spaces = by == nullptr || by->is_none();
  if (!spaces && (by->text() == nullptr || by->text()->size() == 0))
    return run.wrong("an empty separator");
  List out;
  const std::string& bytes = subject.text()->bytes();
  std::size_t from = 0;
  std::size_t to = bytes.size();
  const auto keep = [&](std::size_t begin, std::size_t end) {
    out.items.emplace_back(subject.text()->part(begin, end - begin));
  };
  if (spaces) {
    if (right && left >= 0)
      return run.wrong("rsplit of white space with a limit is not known here",
                       ErrorCode::unsupported);
    while (from < to && space_size(bytes, from) > 0) from += space_size(bytes, from);
    while (from < to) {
      std::size_t end = from;
      while (end < to && space_size(bytes, end) == 0) end += character_size(bytes, end);
      if (left == 0) {
        out.items.emplace_back(subject.text()->part(from));
        break;
      }
      --left;
      keep(from, end);
      for (from = end; from < to && space_size(bytes, from) > 0;) from += space_size(bytes, from);
    }
    return out;
  }
  const std::string& mark = by->text()->bytes();
  for (; left != 0 && run.charge(sizeof(Value)); --left) {
    if (right) {
      const std::size_t at = to >= mark.size() ? bytes.rfind(mark, to - mark.size()) : npos;
      if (at == npos) break;
      keep(at + mark.size(), to);
      to = at;
    } else {
      const std::size_t at = bytes.find(mark, from);
      if (at == npos) break;
      keep(from, at);
      from = at + mark.size();
    }
  }
  keep(from, to);
  if (right) std::reverse(out.items.begin(), out.items.end());
  return out;
}

Value replace(RUNNEL_JINJA) {
  const Value* from = arguments.get(0, "old");
  const Value* to = arguments.get(1, "new");
  const Value* limit = arguments.get(2, "count");
  if (from == nullptr || to == nullptr) return run.wrong("replace needs two texts");
  const Text old = from->written();
  const Text made = to->written();
  std::int64_t left = limit != nullptr ? limit->as_integer().value_or(-1) : -1;
  const Text& text = *subject.text();
  Text out;
  std::size_t at = 0;
  for (; left != 0 && at <= text.size(); --left) {
    const std::size_t found = text.bytes().find(old.bytes(), at);
    if (found == npos || !run.charge(made.size() + 1)) break;
    out.append(text.part(at, found - at));
    out.append(made);
    at = found + old.size();
    if (old.size() > 0) continue;
    if (at >= text.size()) return Value(std::move(out));
    const std::size_t size = character_size(text.bytes(), at);  // between all characters
    out.append(text.part(at, size));
    at += size;
  }
  if (at < text.size()) out.append(text.part(at));
  return Value(std::move(out));
}

Value begins(Interpreter& run, const Value& subject, const Arguments& arguments, bool at_end) {
  if (arguments.positional.empty()) return run.wrong("startswith and endswith need a text");
  const Value& wanted = arguments.positional[0];
  const std::vector<Value> all = wanted.list() != nullptr ? run.items(wanted) : std::vector{wanted};
  const std::string& text = subject.text()->bytes();
  for (const Value& part : all) {
    if (part.text() == nullptr)
      return run.wrong(std::string("a text cannot start or end with ") + part.type());
    if (at_end ? text.ends_with(part.text()->bytes()) : text.starts_with(part.text()->bytes()))
      return Value(true);
  }
  return Value(false);
}

Value find(Interpreter& run, const Value& subject, const Arguments& arguments, bool last) {
  if (arguments.positional.size() != 1 || arguments.positional[0].text() == nullptr)
    return run.wrong("find needs one text");
  const std::string& text = subject.text()->bytes();
  const std::string& wanted = arguments.positional[0].text()->bytes();
  const std::size_t found = last ? text.rfind(wanted) : text.find(wanted);
  if (found == npos) return Value(std::int64_t{-1});
  return find_filter("length")(run, Value(subject.text()->part(0, found)), {});
}

Value lines(RUNNEL_JINJA) {
  const Value* keep = arguments.get(0, "keepends");
  const bool ends = keep != nullptr && keep->truth();
  const Text& text = *subject.text();
  List out;
  for (std::size_t at = 0; at < text.size() && run.charge(sizeof(Value));) {
    const std::size_t end = std::min(text.bytes().find_first_of("\n\r", at), text.size());
    const std::size_t next =
        std::min(end + (text.bytes().compare(end, 2, "\r\n") == 0 ? 2 : 1), text.size());
    out.items.emplace_back(text.part(at, (ends ? next : end) - at));
    at = next;
  }
  return out;
}

/// f of each byte and whether the one before was a letter.
template <class F>
Value cased(const Text& text, const F& f) {
  bool after_letter = false;
  return Value(text.mapped([&](char c) {
    const char out = f(c, after_letter);
    after_letter = is_letter(c);
    return out;
  }));
}

template <class F>
Value all_of(const Value& subject, const F& f) {
  const std::string& text = subject.text()->bytes();
  return Value(!text.empty() && std::all_of(text.begin(), text.end(), f));
}

constexpr Named kTextMethods[] = {
    {"capitalize",
     [](RUNNEL_JINJA) -> Value {
       bool first = true;
       return subject.text()->mapped(
           [&](char c) { return std::exchange(first, false) ? upper(c) : lower(c); });
     }},
    {"count",
     [](RUNNEL_JINJA) -> Value {
       const Value parts = split(run, subject, arguments, false);
       return run.failed() ? Value()
                           : Value(static_cast<std::int64_t>(parts.list()->items.size()) - 1);
     }},
    {"endswith", [](RUNNEL_JINJA) { return begins(run, subject, arguments, true); }},
    {"find", [](RUNNEL_JINJA) { return find(run, subject, arguments, false); }},
    {"isdigit", [](RUNNEL_JINJA) { return all_of(subject, is_digit); }},
    {"join",
     [](RUNNEL_JINJA) -> Value {
       if (arguments.positional.empty()) return run.wrong("join needs a list");
       Arguments mark;
       mark.positional.push_back(subject);
       return find_filter("join")(run, arguments.positional[0], mark);
     }},
    {"lower", [](RUNNEL_JINJA) -> Value { return subject.text()->mapped(lower); }},
    {"lstrip", [](RUNNEL_JINJA) { return strip(run, subject, arguments, true, false); }},
    {"removeprefix",
     [](RUNNEL_JINJA) -> Value {
       const bool has = begins(run, subject, arguments, false).truth();
       return has ? Value(subject.text()->part(arguments.positional[0].text()->size())) : subject;
     }},
    {"removesuffix",
     [](RUNNEL_JINJA) -> Value {
       const bool has = begins(run, subject, arguments, true).truth();
       if (!has) return subject;
       return Value(subject.text()->part(
           0, subject.text()->size() - arguments.positional[0].text()->size()));
     }},
    {"replace", replace},
    {"rsplit", [](RUNNEL_JINJA) { return split(run, subject, arguments, true); }},
    {"rstrip", [](RUNNEL_JINJA) { return strip(run, subject, arguments, false, true); }},
    {"split", [](RUNNEL_JINJA) { return split(run, subject, arguments, false); }},
    {"splitlines", lines},
    {"startswith", [](RUNNEL_JINJA) { return begins(run, subject, arguments, false); }},
    {"strip", [](RUNNEL_JINJA) { return strip(run, subject, arguments, true, true); }},
    {"title",
     [](RUNNEL_JINJA) {
       return cased(*subject.text(),
                    [](char c, bool after) { return after ? lower(c) : upper(c); });
     }},
    {"upper", [](RUNNEL_JINJA) -> Value { return subject.text()->mapped(upper); }},
};

constexpr Named kDictMethods[] = {
    {"copy", [](RUNNEL_JINJA) -> Value { return subject; }},
    {"get",
     [](RUNNEL_JINJA) -> Value {
       const Value* key = arguments.get(0, "key");
       const Value* otherwise = arguments.get(1, "default");
       const Value* found =
           key != nullptr && key->text() != nullptr ? subject.dict()->find(*key) : nullptr;
       return found != nullptr ? *found : otherwise != nullptr ? *otherwise : Value(nullptr);
     }},
    {"items", [](RUNNEL_JINJA) { return find_filter("items")(run, subject, {}); }},
    {"keys", [](RUNNEL_JINJA) { return find_filter("list")(run, subject, {}); }},
    {"values",
     [](RUNNEL_JINJA) -> Value {
       List out;
       for (const auto& [key, value] : subject.dict()->items) out.items.push_back(value);
       return out;
     }},
};

constexpr Named kListMethods[] = {
    {"count",
     [](RUNNEL_JINJA) -> Value {
       std::int64_t n = 0;
       for (const Value& value : subject.list()->items)
         if (!arguments.positional.empty() && equal(value, arguments.positional[0])) ++n;
       return Value(n);
     }},
    {"index",
     [](RUNNEL_JINJA) -> Value {
       const auto& items = subject.list()->items;
       for (std::size_t i = 0; i < items.size() && !arguments.positional.empty(); ++i)
         if (equal(items[i], arguments.positional[0])) return Value(static_cast<std::int64_t>(i));
       return run.wrong("index: the list does not have it");
     }},
};

Value range(RUNNEL_JINJA) {
  std::array<std::int64_t, 3> n = {0, 0, 1};
  const std::size_t given = arguments.positional.size();
  for (std::size_t i = 0; i < given; ++i) {
    const auto number = arguments.positional[i].as_integer();
    if (!number || i > 2) return run.wrong("range needs one to three numbers");
    n[given == 1 ? 1 : i] = *number;
  }
  if (given == 0 || n[2] == 0) return run.wrong("range needs an end, and a step other than 0");
  List out;
  for (std::int64_t i = n[0]; n[2] > 0 ? i < n[1] : i > n[1];) {
    if (!run.charge(sizeof(Value))) return {};
    out.items.emplace_back(i);
    if (__builtin_add_overflow(i, n[2], &i)) break;
  }
  return out;
}

Value strftime_now(RUNNEL_JINJA) {
  constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December"};
  constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
  const std::tm& now = run.now();
  const std::string format =
      arguments.positional.empty() ? "" : arguments.positional[0].written().bytes();
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const bool bare = i + 1 < format.size() && format[i + 1] == '-';  // without leading zeros
    i += bare ? 2 : 1;
    const char c = i < format.size() ? format[i] : ' ';
    const int hour = now.tm_hour % 12 == 0 ? 12 : now.tm_hour % 12;
    const std::string_view month = kMonths[static_cast<std::size_t>(now.tm_mon) % 12];
    const std::string_view day = kDays[static_cast<std::size_t>(now.tm_wday) % 7];
    const std::tuple<char, int, int> numbers[] = {
        {'Y', now.tm_year + 1900, 4}, {'y', now.tm_year % 100, 2}, {'m', now.tm_mon + 1, 2},
        {'d', now.tm_mday, 2},        {'H', now.tm_hour, 2},       {'I', hour, 2},
        {'M', now.tm_min, 2},         {'S', now.tm_sec, 2},        {'j', now.tm_yday + 1, 3}};
    const std::pair<char, std::string_view> names[] = {{'B', month},
                                                       {'b', month.substr(0, 3)},
                                                       {'A', day},
                                                       {'a', day.substr(0, 3)},
                                                       {'p', now.tm_hour < 12 ? "AM" : "PM"},
                                                       {'%', "%"}};
    const auto is_it = [c](const auto& known) { return std::get<0>(known) == c; };
    const auto* number = std::find_if(std::begin(numbers), std::end(numbers), is_it);
    const auto* name = std::find_if(std::begin(names), std::end(names), is_it);
    std::array<char, 16> digits{};
    if (number != std::end(numbers)) {
      (void)std::snprintf(digits.data(), digits.size(), "%0*d", bare ? 1 : std::get<2>(*number),
                          std::get<1>(*number));
      out += digits.data();
    } else if (name != std::end(names)) {
      out += name->second;
    } else {
      return run.wrong("strftime_now: %" + std::string(1, c) + " is not known here",
                       ErrorCode::unsupported);
    }
  }
  return Value(std::move(out));
}

constexpr Named kFunctions[] = {
    {"dict",
     [](RUNNEL_JINJA) -> Value {
       Dict out;
       if (!arguments.positional.empty() && arguments.positional[0].dict() != nullptr)
         out = *arguments.positional[0].dict();
       for (const auto& [name, value] : arguments.named) out.set(Value(name), value);
       return out;
     }},
    {"namespace", [](RUNNEL_JINJA) { return run.make_namespace(arguments); }},
    {"raise_exception",
     [](RUNNEL_JINJA) {
       return run.wrong(arguments.positional.empty()
                            ? "the template refuses"
                            : printable(arguments.positional[0].written().bytes(), 1000));
     }},
    {"range", range},
    {"strftime_now", strftime_now},
};

template <std::size_t N>
Function find_in(const Named (&table)[N], std::string_view name) {
  for (const auto& [known, function] : table)
    if (known == name) return function;
  return nullptr;
}

}  // namespace

Function find_function(std::string_view name) { return find_in(kFunctions, name); }

Function find_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr) return find_in(kTextMethods, name);
  if (self.dict() != nullptr) return find_in(kDictMethods, name);
  if (self.list() != nullptr) return find_in(kListMethods, name);
  return nullptr;
}

}  // namespace runnel::jinja
