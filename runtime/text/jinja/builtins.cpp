// SPDX-License-Identifier: Apache-2.0
// The filters, tests, methods and functions that chat templates use, as Jinja and Python (for tojson and strftime_now
// the transformers library) define them. Upper and lower case are ASCII's.
#include <locale.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/number.h"
#include "runtime/base/text.h"
#include "runtime/text/jinja/template.h"

namespace runnel::jinja {

namespace {

constexpr auto npos = Text::npos;
constexpr std::int64_t kEach = -1;     // no limit
constexpr char32_t kStart = 0x110000;  // stands before the first character

bool is_latin(char32_t c) { return (code_point(c) | 32) >= U'a' && (code_point(c) | 32) <= U'z'; }

// Behind which characters there are lower-case ones.
bool always(char32_t) { return true; }
bool never(char32_t) { return false; }
bool not_at_start(char32_t c) { return c != kStart; }
bool behind_letters(char32_t c) { return is_latin(c) || (c >= 0x80 && c != kStart); }
bool in_word(char32_t c) { return c != kStart && TextView(U"-({[< \t\n\r\f\v").find(c) == npos; }

/// Lower case behind the characters that `lower` says, upper case behind others.
Text cased(Text text, bool (*lower)(char32_t)) {
  char32_t before = kStart;
  for (char32_t& c : text) {
    const bool low = lower(std::exchange(before, code_point(c)));
    if (is_latin(c)) c = low ? c | 32 : c & ~char32_t{32};
  }
  return text;
}

/// What `make` gives for each of `all`.
template <class Items, class Make>
List listed(const Items& all, const Make& make) {
  List out;
  for (const auto& one : all) out.items.push_back(std::invoke(make, one));
  return out;
}

/// As many spaces as the argument says, up to 1000; or the text that it is.
Text margin(const Value& width) {
  const std::int64_t size = std::clamp<std::int64_t>(width.as_integer().value_or(0), 0, 1000);
  return width.is<Text>() ? *width.as<Text>() : Text(static_cast<std::size_t>(size), U' ');
}

/// The parts between marks, or between white space if there is no mark. At most `limit` marks count.
std::vector<Text> split(Run& run, const Text& text, const std::optional<Text>& mark,
                        std::int64_t limit = kEach) {
  std::vector<Text> out;
  for (std::size_t from = 0, at = 0, to = 0; to != npos; --limit) {
    if (!mark) from = at = text.find_first_not_of(kSpaces, from);
    if (from == npos) break;
    to = npos;
    if (limit != 0 && run.charge(sizeof(Value)))
      to = mark ? text.find(*mark, at) : text.find_first_of(kSpaces, at);
    out.push_back(text.substr(from, to - from));
    from = to + (mark ? mark->size() : 0);
    at = from + (from == to ? 1 : 0);  // nothing as a mark stands between all characters
  }
  return out;
}

Text joined(Run& run, const std::vector<Text>& parts, const Text& between) {
  Text out;
  if (!run.charge(parts.size() * between.size())) return out;
  for (const Text& part : parts) out += &part == &parts.front() ? part : between + part;
  return out;
}

template <class Sequence>
Sequence turned(Sequence sequence) {
  std::ranges::reverse(sequence);
  return sequence;
}

/// split and rsplit, which does the same with all turned round.
Value split_method(Call& c, bool right) {
  const auto as_asked = [right](auto all) { return right ? turned(std::move(all)) : all; };
  std::optional<Text> mark;
  if (!c.get(1, "sep", nullptr).is_none()) mark = as_asked(c.needed(1, "sep"));
  if (mark && mark->empty()) return c.run.wrong("an empty separator");
  const auto limit = c.get(2, "maxsplit").as_integer().value_or(kEach);
  return listed(as_asked(split(c.run, as_asked(c.text(0)), mark, limit)), as_asked);
}

Value split_lines(Call& c) {
  const Text text = c.text(0);
  const bool keep_ends = c.flag(1, "keepends");
  List out;
  for (std::size_t at = 0; at < text.size() && c.run.charge(sizeof(Value));) {
    const std::size_t end = std::min(text.find_first_of(U"\n\r", at), text.size());
    const std::size_t next = end + (text.compare(end, 2, U"\r\n") == 0 ? 2 : 1);
    out.items.emplace_back(text.substr(at, (keep_ends ? next : end) - at));
    at = next;
  }
  return out;
}

Value strip(Call& c, bool left, bool right) {
  if (c.get(1, "chars", nullptr).is_none()) return stripped(c.text(0), left, right);
  return stripped(c.text(0), left, right, c.needed(1, "chars"));
}

Value replace(Call& c) {
  const std::int64_t limit = c.get(3, "count").as_integer().value_or(kEach);
  return joined(c.run, split(c.run, c.text(0), c.text(1, "old"), limit), c.text(2, "new"));
}

/// The text without the first of the texts asked for that it begins, or ends, with; nothing if there is none.
std::optional<Text> without(Call& c, bool at_end) {
  const Text text = c.text(0);
  for (const Value& one : c[1].is<List>() ? c.run.items(c[1]) : std::vector{c[1]}) {
    const Text part = c.run.needed(one);
    if (at_end ? text.ends_with(part) : text.starts_with(part))
      return text.substr(at_end ? 0 : part.size(), text.size() - part.size());
  }
  return {};
}

/// a.b.0 of a value, as `attribute=` says.
Value path(Run& run, Value value, const Value& attribute) {
  if (!attribute.is<Text>()) return item(run, value, attribute);
  for (const Text& name : split(run, *attribute.as<Text>(), U".")) {
    const auto index = number_in<std::int64_t>(bytes_of(name));
    value = item(run, value, index ? Value(*index) : Value(name));
  }
  return value;
}

Value join(Run& run, const Value& list, const Text& between, const Value& attribute = {}) {
  std::vector<Text> parts;
  for (const Value& value : run.items(list))
    parts.push_back(run.written(attribute.is_undefined() ? value : path(run, value, attribute)));
  return joined(run, parts, between);
}

/// By a member if `attribute` is one; upper and lower case are the same unless `exact`.
List sorted(Run& run, const Value& list, const Value& attribute, bool down, bool exact) {
  std::vector<Member> keyed;
  if (!run.charge(std::min<std::uint64_t>(list.weight(), ~0U) * 16)) return {};
  for (const Value& value : run.items(list)) {
    Value key = attribute.is_undefined() ? value : path(run, value, attribute);
    if (key.is<Text>() && !exact) key = cased(*key.as<Text>(), always);
    if (!keyed.empty() && (keyed[0].first <=> key) == std::partial_ordering::unordered)
      run.wrong("cannot order " + keyed[0].first.type() + " and " + key.type());
    keyed.emplace_back(std::move(key), value);
  }
  const auto before = [down](const Value& x, const Value& y) { return down ? y < x : x < y; };
  std::ranges::stable_sort(keyed, before, &Member::first);
  return listed(keyed, &Member::second);
}

Value first(const std::vector<Value>& items) {
  return items.empty() ? Undefined{"an empty list has no item"} : items[0];
}

/// Names and values of a dict as tuples.
Value pairs(Run& run, const Value& dict) {
  if (dict.is_undefined()) return List{};
  if (!dict.is<Dict>()) return run.wrong("cannot take the items of " + dict.type());
  if (!run.charge(dict.weight())) return {};
  return listed(dict.as<Dict>()->items, [](const auto& one) {
    return List{{one.first, one.second}, true};
  });
}

/// The filter or test that argument `i` names, with the arguments behind it, of a value.
Value apply(Call& c, const char* kind, std::size_t i, const Value& value) {
  Arguments arguments = {{"", value}};
  for (std::size_t k = i + 1; k < c.arguments.size(); ++k) arguments.push_back(c.arguments[k]);
  Call applied{c.run, std::move(arguments)};
  return builtin(c.run.builtins, kind + bytes_of(c.needed(i)))(applied);
}

/// The items of a list; none of what is false.
std::vector<Value> items_if_any(Call& c) {
  return c[0].truth() ? c.run.items(c[0]) : std::vector<Value>();
}

/// select, reject: (test, arguments of it), and selectattr, rejectattr: (name of a member, the same).
List selected(Call& c, bool of_member, bool wanted) {
  const std::size_t test = of_member ? 2 : 1;
  List out{items_if_any(c)};
  std::erase_if(out.items, [&](const Value& value) {
    const Value part = of_member ? path(c.run, value, c[1]) : value;
    return (c.arguments.size() > test ? apply(c, "is ", test, part) : part).truth() != wanted;
  });
  return out;
}

/// map(filter, arguments of it) or map(attribute=, default=)
List map(Call& c) {
  const Value* attribute = c.find(npos, "attribute");
  return listed(items_if_any(c), [&](const Value& value) {
    if (attribute == nullptr) return apply(c, "|", 1, value);
    const Value made = path(c.run, value, *attribute);
    return made.is_undefined() ? c.get(npos, "default", made) : made;
  });
}

Value indent(Call& c) {
  const Text by = margin(c.get(1, "width", std::int64_t{4}));
  std::vector<Text> lines = split(c.run, c.text(0), U"\n");
  if (!c.run.charge(lines.size() * by.size())) return {};
  for (Text& line : lines)
    if (&line == &lines.front() ? c.flag(2, "first") : !line.empty() || c.flag(3, "blank"))
      line.insert(0, by);
  return joined(c.run, lines, U"\n");
}

Value to_json(Call& c) {
  Style style{.json = true, .ascii = c.flag(1, "ensure_ascii"), .sorted = c.flag(4, "sort_keys")};
  if (const Value indent = c.get(2, "indent", nullptr); !indent.is_none()) {
    style.indent = margin(indent);
    style.comma = U",";
  }
  if (const Value marks = c.get(3, "separators"); marks.is<List>()) {
    style.comma = c.run.written(item(c.run, marks, std::int64_t{0}));
    style.colon = c.run.written(item(c.run, marks, std::int64_t{1}));
  }
  const Value& value = c[0];
  const std::size_t per_item =
      style.comma.size() + style.colon.size() +
      style.indent.value_or(U"").size() * static_cast<std::size_t>(value.depth() + 1);
  if (!c.run.charge(value.weight() * (1 + per_item))) return {};
  std::optional<Text> out = write(value, style);
  return out ? Value(*std::move(out)) : c.run.wrong("tojson cannot write " + value.type());
}

/// int and float: of a number or of a text.
Value number(Call& c, bool whole) {
  const Value& value = c[0];
  const std::string text = value.is<Text>() ? bytes_of(stripped(c.text(0), true, true)) : "";
  const auto integer = value.is<Text>() ? number_in<std::int64_t>(text) : value.as_integer();
  const auto real = value.is<Text>() ? number_in<double>(text) : value.as_real();
  if (whole && integer) return *integer;
  if (!real) return c.get(1, "default", whole ? Value(std::int64_t{0}) : Value(0.0));
  if (!whole) return *real;
  return std::fabs(*real) < 9e18 ? Value(static_cast<std::int64_t>(*real))
                                 : c.run.wrong("a number beyond 64 bits");
}

bool is_multiple(Call& c, const Value& of) {
  Call division{c.run, {{"", c[0]}, {"", of}}};
  return !c.run.builtins.at("%")(division).truth();
}

Value range(Call& c) {
  const std::size_t count = c.arguments.size();
  const auto from = count > 1 ? c[0].as_integer() : 0;
  const auto to = c[count > 1 ? 1 : 0].as_integer();
  const auto step = count > 2 ? c[2].as_integer() : 1;
  if (!from || !to || !step || *step == 0 || count > 3)
    return c.run.wrong("range needs one to three numbers, and a step other than 0");
  List out;
  for (std::int64_t i = *from; (*step > 0 ? i < *to : i > *to) && c.run.charge(sizeof(Value));) {
    out.items.emplace_back(i);
    if (__builtin_add_overflow(i, *step, &i)) break;
  }
  return out;
}

/// For dict() and namespace(): what is in a dict, and the named arguments.
Dict members(Call& c) {
  Dict out = c[0].is<Dict>() ? *c[0].as<Dict>() : Dict{};
  for (const auto& [name, value] : c.arguments)
    if (!name.empty()) out.set(std::string(name), value);
  return out;
}

Value strftime_now(Call& c) {
  const std::string format = bytes_of(c.text(0));
  const locale_t english = newlocale(LC_ALL_MASK, "C", nullptr);
  std::array<char, 1024> out{};
  const std::size_t size = strftime_l(out.data(), out.size(), format.c_str(), &c.run.now, english);
  freelocale(english);
  if (size == 0 && !format.empty())
    return c.run.wrong("strftime_now: more than " + std::to_string(out.size()) + " bytes");
  return std::string(out.data());
}

}  // namespace

Builtins make_builtins() {
  Builtins table;
  add_operators(table);

  table["range()"] = range;
  table["dict()"] = [](Call& c) { return members(c); };
  table["namespace()"] = [](Call& c) {
    return c.run.charge(sizeof(Dict)) ? Value(&c.run.spaces.emplace_back(members(c))) : Value();
  };
  table["raise_exception()"] = [](Call& c) {
    return c.run.wrong(printable(bytes_of(c.text(0)), 1000));
  };
  table["strftime_now()"] = strftime_now;

  // methods, some of which are filters, too
  table["str.strip"] = table["|trim"] = [](Call& c) { return strip(c, true, true); };
  table["str.lstrip"] = [](Call& c) { return strip(c, true, false); };
  table["str.rstrip"] = [](Call& c) { return strip(c, false, true); };
  table["str.split"] = [](Call& c) { return split_method(c, false); };
  table["str.rsplit"] = [](Call& c) { return split_method(c, true); };
  table["str.splitlines"] = split_lines;
  table["str.startswith"] = [](Call& c) { return without(c, false).has_value(); };
  table["str.endswith"] = [](Call& c) { return without(c, true).has_value(); };
  table["str.removeprefix"] = [](Call& c) { return without(c, false).value_or(c.text(0)); };
  table["str.removesuffix"] = [](Call& c) { return without(c, true).value_or(c.text(0)); };
  table["str.lower"] = table["|lower"] = [](Call& c) { return cased(c.text(0), always); };
  table["str.upper"] = table["|upper"] = [](Call& c) { return cased(c.text(0), never); };
  table["str.capitalize"] = [](Call& c) { return cased(c.text(0), not_at_start); };
  table["|capitalize"] = table["str.capitalize"];
  table["str.title"] = [](Call& c) { return cased(c.text(0), behind_letters); };
  table["|title"] = [](Call& c) { return cased(c.text(0), in_word); };
  table["str.replace"] = table["|replace"] = replace;
  table["str.join"] = [](Call& c) { return join(c.run, c[1], c.text(0)); };
  table["str.count"] = [](Call& c) { return split(c.run, c.text(0), c.needed(1)).size() - 1; };
  table["str.isdigit"] = [](Call& c) {
    return c[0].truth() && c.text(0).find_first_not_of(U"0123456789") == npos;
  };
  table["str.find"] = [](Call& c) { return c.text(0).find(c.needed(1)); };  // npos is -1
  table["dict.items"] = table["|items"] = [](Call& c) { return pairs(c.run, c[0]); };
  table["dict.keys"] = table["|list"] = [](Call& c) { return List{c.run.items(c[0])}; };
  table["dict.values"] = [](Call& c) { return listed(c[0].as<Dict>()->items, &Member::second); };
  table["dict.get"] = [](Call& c) {
    const Value* found = c[0].as<Dict>()->find(c[1]);
    return found != nullptr ? *found : c.get(2, "default", nullptr);
  };

  // filters
  table["|string"] = table["|safe"] = [](Call& c) { return c.text(0); };
  table["|indent"] = indent;
  table["|tojson"] = to_json;
  table["|int"] = [](Call& c) { return number(c, true); };
  table["|float"] = [](Call& c) { return number(c, false); };
  table["|default"] = table["|d"] = [](Call& c) {
    const bool empty = c.flag(2, "boolean") && !c[0].truth();
    return c[0].is_undefined() || empty ? c.get(1, "default_value", "") : c[0];
  };
  table["|select"] = [](Call& c) { return selected(c, false, true); };
  table["|reject"] = [](Call& c) { return selected(c, false, false); };
  table["|selectattr"] = [](Call& c) { return selected(c, true, true); };
  table["|rejectattr"] = [](Call& c) { return selected(c, true, false); };
  table["|map"] = map;
  table["|join"] = [](Call& c) { return join(c.run, c[0], c.text(1, "d"), c.get(2, "attribute")); };
  table["|sort"] = [](Call& c) {
    return sorted(c.run, c[0], c.get(3, "attribute"), c.flag(1, "reverse"),
                  c.flag(2, "case_sensitive"));
  };
  table["|dictsort"] = [](Call& c) {
    const std::int64_t by = c.text(2, "by") == U"value" ? 1 : 0;
    return sorted(c.run, pairs(c.run, c[0]), by, c.flag(3, "reverse"), c.flag(1, "case_sensitive"));
  };
  table["|max"] = [](Call& c) { return first(sorted(c.run, c[0], {}, true, false).items); };
  table["|min"] = [](Call& c) { return first(sorted(c.run, c[0], {}, false, false).items); };
  table["|first"] = [](Call& c) { return first(c.run.items(c[0])); };
  table["|last"] = [](Call& c) { return first(turned(c.run.items(c[0]))); };
  table["|length"] = table["|count"] = [](Call& c) {
    return c[0].size() ? *c[0].size() : c.run.items(c[0]).size();
  };
  table["|reverse"] = [](Call& c) {
    return c[0].is<Text>() ? Value(turned(c.text(0))) : List{turned(c.run.items(c[0]))};
  };

  // tests
  table["is defined"] = [](Call& c) { return !c[0].is_undefined(); };
  table["is undefined"] = [](Call& c) { return c[0].is_undefined(); };
  table["is none"] = [](Call& c) { return c[0].is_none(); };
  table["is string"] = [](Call& c) { return c[0].is<Text>(); };
  table["is mapping"] = [](Call& c) { return c[0].is<Dict>(); };
  table["is boolean"] = [](Call& c) { return c[0].is<bool>(); };
  table["is true"] = [](Call& c) { return c[0].is<bool>() && c[0].truth(); };
  table["is false"] = [](Call& c) { return c[0].is<bool>() && !c[0].truth(); };
  table["is integer"] = [](Call& c) { return c[0].is<std::int64_t>(); };
  table["is float"] = [](Call& c) { return c[0].is<double>(); };
  table["is number"] = [](Call& c) { return c[0].as_real().has_value(); };
  table["is iterable"] =
      table["is sequence"] = [](Call& c) { return c[0].size() || c[0].is_undefined(); };
  table["is divisibleby"] = [](Call& c) { return is_multiple(c, c[1]); };
  table["is even"] = [](Call& c) { return is_multiple(c, std::int64_t{2}); };
  table["is odd"] = [](Call& c) { return !is_multiple(c, std::int64_t{2}); };
  table["is in"] = table["in"];
  table["is eq"] = table["is equalto"] = table["is =="] = table["=="];
  table["is ne"] = table["is !="] = table["!="];
  table["is gt"] = table["is greaterthan"] = table["is >"] = table[">"];
  table["is lt"] = table["is lessthan"] = table["is <"] = table["<"];
  return table;
}

Callable builtin(const Builtins& table, const std::string& name) {
  if (const auto found = table.find(name); found != table.end()) return found->second;
  return [name](Call& c) {
    const bool filter = name.starts_with('|');
    return c.run.wrong((filter ? "the filter " : "the test ") +
                           in_quotes(name.substr(filter ? 1 : 3)) + " is not known here",
                       ErrorCode::unsupported);
  };
}

}  // namespace runnel::jinja
