// SPDX-License-Identifier: Apache-2.0
// The filters, tests, methods and functions that chat templates use, as Jinja and Python (for tojson and strftime_now
// the transformers library) define them. Upper and lower case are ASCII's.
#include <locale.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/text/jinja/run.h"

namespace runnel::jinja {

namespace {

constexpr auto npos = std::string::npos;
constexpr std::int64_t kEach = -1;  // no limit
constexpr std::int64_t kLast = -1;

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return upper(c) != lower(c) || static_cast<unsigned char>(c) >= 0x80; }

/// Upper case where a word begins: behind bytes that are not inside(byte).
template <class Inside>
Text cased(const Text& text, const Inside& inside) {
  bool within = false;
  return text.mapped([&](char c) {
    const char out = within ? lower(c) : upper(c);
    within = inside(c);
    return out;
  });
}

/// The text that an argument must be.
std::string needed(Run& run, const Value& argument) {
  if (argument.text() != nullptr) return run.written(argument).bytes();
  run.wrong("expected a text, found " + argument.type());
  return {};
}

/// As many spaces as `width` says, up to 1000; or the text that it is.
Text margin(const Value& width) {
  const std::int64_t size = std::clamp<std::int64_t>(width.as_integer().value_or(0), 0, 1000);
  return width.text() != nullptr ? *width.text()
                                 : Text(std::string(static_cast<std::size_t>(size), ' '));
}

/// The parts of a text between its marks, or for no mark its words; at most `limit` marks count, from the right if so
/// asked.
std::vector<Value> split(Run& run, const Text& text, const std::string& mark,
                         std::int64_t limit = kEach, bool right = false) {
  std::vector<Value> out;
  const std::string& bytes = text.bytes();
  std::size_t from = mark.empty() ? skip_spaces(bytes, 0) : 0;
  std::size_t to = bytes.size();
  for (; mark.empty() && from < to && run.charge(sizeof(Value)); --limit) {
    std::size_t end = limit == 0 ? to : from;
    while (end < to && space_size(bytes, end) == 0) end += character_size(bytes, end);
    out.emplace_back(text.part(from, end - from));
    from = skip_spaces(bytes, end);
  }
  for (; !mark.empty() && limit != 0 && run.charge(sizeof(Value)); --limit) {
    const std::size_t at = !right             ? bytes.find(mark, from)
                           : to < mark.size() ? npos
                                              : bytes.rfind(mark, to - mark.size());
    if (at == npos) break;
    const std::size_t after = at + mark.size();
    out.emplace_back(right ? text.part(after, to - after) : text.part(from, at - from));
    (right ? to : from) = right ? at : after;
  }
  if (!mark.empty()) out.emplace_back(text.part(from, to - from));
  if (right) std::reverse(out.begin(), out.end());
  return out;
}

Value split_method(Run& run, const Text& text, const Arguments& a, bool right) {
  const Value mark = a.get(0, "sep", nullptr);
  const std::int64_t limit = a.get(1, "maxsplit").as_integer().value_or(kEach);
  if (mark.text() != nullptr && mark.text()->size() == 0) return run.wrong("an empty separator");
  if (mark.is_none() && right && limit >= 0)
    return run.wrong("rsplit of white space with a limit is not known here",
                     ErrorCode::unsupported);
  return List{
      split(run, text, mark.is_none() ? "" : needed(run, mark), limit, right && !mark.is_none())};
}

Value lines(Run& run, const Text& text, bool keep_ends) {
  List out;
  for (std::size_t at = 0; at < text.size() && run.charge(sizeof(Value));) {
    const std::size_t end = std::min(text.bytes().find_first_of("\n\r", at), text.size());
    const std::size_t mark = text.bytes().compare(end, 2, "\r\n") == 0 ? 2 : 1;
    out.items.emplace_back(text.part(at, end - at + (keep_ends ? mark : 0)));
    at = end + mark;
  }
  return out;
}

Value strip(Run& run, const Text& text, const Arguments& a, bool left, bool right) {
  const Value chars = a.get(0, "chars", nullptr);
  if (chars.is_none()) return stripped(text, left, right);
  const std::string dropped = needed(run, chars);
  return stripped(text, left, right, &dropped);
}

Value replace(Run& run, const Text& text, const Arguments& a) {
  const Text old = run.written(a.get(0, "old"));
  const Text made = run.written(a.get(1, "new"));
  std::int64_t left = a.get(2, "count").as_integer().value_or(kEach);
  Text out;
  std::size_t at = 0;
  for (; left != 0 && at <= text.size(); --left) {
    const std::size_t found = text.bytes().find(old.bytes(), at);
    if (found == npos || !run.charge(made.size() + 1)) break;
    out.append(text.part(at, found - at));
    out.append(made);
    at = found + old.size();
    if (old.size() > 0) continue;  // else between all characters
    const std::size_t size = at < text.size() ? character_size(text.bytes(), at) : 1;
    out.append(text.part(std::min(at, text.size()), size));
    at += size;
  }
  if (at < text.size()) out.append(text.part(at));
  return out;
}

/// Bytes of the text asked for (of the first that fits, of several) if the text begins or ends with it.
std::optional<std::size_t> affix(Run& run, const std::string& text, const Value& wanted,
                                 bool at_end) {
  for (const Value& value : wanted.list() != nullptr ? run.items(wanted) : std::vector{wanted}) {
    const std::string part = needed(run, value);
    if (at_end ? text.ends_with(part) : text.starts_with(part)) return part.size();
  }
  return {};
}

/// a.b.0 of a value, as `attribute=` says.
Value path(Run& run, Value value, const Value& attribute) {
  if (attribute.text() == nullptr) return run.item(value, attribute);
  for (const Value& name : split(run, *attribute.text(), ".")) {
    const auto index = number_in<std::int64_t>(name.text()->bytes());
    value = run.item(value, index ? Value(*index) : name);
  }
  return value;
}

Value join(Run& run, const Value& list, const Text& between, const Value& attribute = {}) {
  Text out;
  const std::vector<Value> all = run.items(list);
  for (std::size_t i = 0; i < all.size() && run.charge(between.size()); ++i) {
    if (i > 0) out.append(between);
    out.append(run.written(attribute.is_undefined() ? all[i] : path(run, all[i], attribute)));
  }
  return out;
}

Value sorted(Run& run, const Value& list, const Value& attribute, const Value& reverse,
             const Value& case_sensitive) {
  std::vector<std::pair<Value, Value>> keyed;
  if (!run.charge(std::min<std::uint64_t>(list.weight(), ~0U) * 16)) return {};
  for (const Value& value : run.items(list)) {
    Value key = attribute.is_undefined() ? value : path(run, value, attribute);
    if (key.text() != nullptr && !case_sensitive.truth()) key = key.text()->mapped(lower);
    if (!keyed.empty() && order(keyed[0].first, key) == std::partial_ordering::unordered)
      return run.wrong("cannot order what is to be sorted");
    keyed.emplace_back(std::move(key), value);
  }
  const bool down = reverse.truth();
  std::stable_sort(keyed.begin(), keyed.end(), [down](const auto& x, const auto& y) {
    return std::is_lt(down ? order(y.first, x.first) : order(x.first, y.first));
  });
  List out;
  for (auto& [key, value] : keyed) out.items.push_back(std::move(value));
  return out;
}

/// Names and values of a dict as tuples.
Value pairs(Run& run, const Value& dict) {
  List out;
  if (dict.dict() == nullptr && !dict.is_undefined())
    return run.wrong("cannot take the items of " + dict.type());
  if (dict.dict() != nullptr && run.charge(dict.weight()))
    for (const auto& [key, value] : dict.dict()->items)
      out.items.emplace_back(List{{key, value}, true});
  return out;
}

Arguments without_first(Arguments a) {
  if (!a.positional.empty()) a.positional.erase(a.positional.begin());
  return a;
}

/// select, reject: (test, arguments of it), and selectattr, rejectattr: (name of a member, the same).
Value selected(Run& run, const Value& list, const Arguments& a, bool of_member, bool wanted) {
  const Arguments tested = of_member ? without_first(a) : a;
  const Arguments rest = without_first(tested);
  List out;
  for (const Value& value : list.truth() ? run.items(list) : std::vector<Value>()) {
    Value part = of_member ? path(run, value, a.get(0)) : value;
    if (!tested.positional.empty()) part = run.test(needed(run, tested.get(0)), part, rest);
    if (part.truth() == wanted) out.items.push_back(value);
  }
  return out;
}

/// map(filter, arguments of it) or map(attribute=, default=)
Value mapped(Run& run, const Value& list, const Arguments& a) {
  const Value attribute = a.get(npos, "attribute");
  const Arguments rest = without_first(a);
  List out;
  for (const Value& value : list.truth() ? run.items(list) : std::vector<Value>()) {
    Value made = attribute.is_undefined() ? run.filter(needed(run, a.get(0)), value, rest)
                                          : path(run, value, attribute);
    if (made.is_undefined() && !attribute.is_undefined()) made = a.get(npos, "default", made);
    out.items.push_back(std::move(made));
    if (run.failed()) break;
  }
  return out;
}

Value indented(Run& run, const Text& text, const Arguments& a) {
  const Text by = margin(a.get(0, "width", std::int64_t{4}));
  const bool first = a.get(1, "first").truth();
  const bool blank = a.get(2, "blank").truth();
  const std::vector<Value> lines = split(run, text, "\n");
  Text out;
  for (std::size_t i = 0; i < lines.size() && run.charge(by.size()); ++i) {
    if (i > 0) out.append("\n");
    if (i == 0 ? first : blank || lines[i].truth()) out.append(by);
    out.append(*lines[i].text());
  }
  return out;
}

Value to_json(Run& run, const Value& value, const Arguments& a) {
  Style style{.json = true};
  style.ascii = a.get(0, "ensure_ascii").truth();
  style.sorted = a.get(3, "sort_keys").truth();
  if (const Value indent = a.get(1, "indent", nullptr); !indent.is_none()) {
    style.indent = margin(indent).bytes();
    style.comma = ",";
  }
  if (const Value marks = a.get(2, "separators"); marks.list() != nullptr) {
    style.comma = needed(run, run.item(marks, std::int64_t{0}));
    style.colon = needed(run, run.item(marks, std::int64_t{1}));
  }
  const std::size_t per_item =
      style.comma.size() + style.colon.size() +
      style.indent.value_or("").size() * static_cast<std::size_t>(value.depth() + 1);
  if (!run.charge(value.weight() * (1 + per_item))) return {};
  std::optional<Text> out = write(value, style);
  return out ? Value(*std::move(out)) : run.wrong("tojson cannot write " + value.type());
}

/// int and float: of a number or of a text.
Value number(Run& run, const Value& value, const Value& otherwise, bool whole) {
  const std::string text =
      stripped(value.text() != nullptr ? *value.text() : Text(), true, true).bytes();
  const auto integer = value.text() != nullptr ? number_in<std::int64_t>(text) : value.as_integer();
  const auto real = value.text() != nullptr ? number_in<double>(text) : value.as_real();
  if (whole && integer) return *integer;
  if (!real) return otherwise;
  if (!whole) return *real;
  return std::fabs(*real) < 9e18 ? Value(static_cast<std::int64_t>(*real))
                                 : run.wrong("a number beyond 64 bits");
}

Value extreme(Run& run, const Value& list, bool largest) {
  Value best = Undefined{"an empty list has no largest item"};
  for (const Value& value : run.items(list))
    if (best.is_undefined() || run.compare(largest ? ">" : "<", value, best)) best = value;
  return best;
}

Value range(Run& run, const Arguments& a) {
  std::vector<std::int64_t> n;
  for (const Value& value : a.positional)
    if (const auto number = value.as_integer()) n.push_back(*number);
  if (n.size() != a.positional.size() || n.empty() || n.size() > 3)
    return run.wrong("range needs one to three numbers");
  if (n.size() == 1) n.insert(n.begin(), 0);
  if (n.size() == 2) n.push_back(1);
  if (n[2] == 0) return run.wrong("range needs a step other than 0");
  List out;
  for (std::int64_t i = n[0]; (n[2] > 0 ? i < n[1] : i > n[1]) && run.charge(sizeof(Value));) {
    out.items.emplace_back(i);
    if (__builtin_add_overflow(i, n[2], &i)) break;
  }
  return out;
}

Dict members(const Value& from, const Arguments& a) {
  Dict out = from.dict() != nullptr ? *from.dict() : Dict{};
  for (const auto& [name, value] : a.named) out.set(name, value);
  return out;
}

/// A method of texts that is a filter, too.
std::optional<Value> shared_method(Run& run, const std::string& name, const Text& text,
                                   const Arguments& a) {
  if (name == "lower") return text.mapped(lower);
  if (name == "upper") return text.mapped(upper);
  if (name == "capitalize") return cased(text, [](char) { return true; });
  if (name == "replace") return replace(run, text, a);
  return {};
}

std::optional<Value> text_method(Run& run, const std::string& name, const Text& text,
                                 const Arguments& a) {
  const std::string& bytes = text.bytes();
  const Value first = a.get(0);
  if (name == "strip") return strip(run, text, a, true, true);
  if (name == "lstrip") return strip(run, text, a, true, false);
  if (name == "rstrip") return strip(run, text, a, false, true);
  if (name == "split") return split_method(run, text, a, false);
  if (name == "rsplit") return split_method(run, text, a, true);
  if (name == "splitlines") return lines(run, text, a.get(0, "keepends").truth());
  if (name == "startswith") return affix(run, bytes, first, false).has_value();
  if (name == "endswith") return affix(run, bytes, first, true).has_value();
  if (name == "removeprefix") return text.part(affix(run, bytes, first, false).value_or(0));
  if (name == "removesuffix")
    return text.part(0, text.size() - affix(run, bytes, first, true).value_or(0));
  if (name == "title") return cased(text, is_letter);
  if (name == "join") return join(run, first, text);
  if (name == "count") return split(run, text, needed(run, first)).size() - 1;
  if (name == "isdigit") return !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), is_digit);
  if (name == "find") {
    const std::size_t at = bytes.find(needed(run, first));
    return at == npos ? Value(std::int64_t{-1}) : Value(character_count(bytes.substr(0, at)));
  }
  return shared_method(run, name, text, a);
}

std::optional<Value> dict_method(Run& run, const std::string& name, const Value& dict,
                                 const Arguments& a) {
  if (name == "items") return pairs(run, dict);
  if (name == "keys") return List{run.items(dict)};
  if (name == "values") {
    List out;
    for (const auto& [key, value] : dict.dict()->items) out.items.push_back(value);
    return out;
  }
  const Value* found = dict.dict()->find(a.get(0));
  if (name == "get") return found != nullptr ? *found : a.get(1, "default", nullptr);
  return {};
}

/// What is written of a value, filtered.
std::optional<Value> text_filter(Run& run, const std::string& name, const Text& text,
                                 const Arguments& a) {
  constexpr std::string_view kBetween = "-({[< \t\n\r\f\v";
  if (name == "string" || name == "safe") return text;
  if (name == "trim") return strip(run, text, a, true, true);
  if (name == "indent") return indented(run, text, a);
  if (name == "title")
    return cased(text, [&](char c) { return kBetween.find(c) == kBetween.npos; });
  return shared_method(run, name, text, a);
}

std::optional<Value> list_filter(Run& run, const std::string& name, const Value& list,
                                 const Arguments& a) {
  if (name == "select" || name == "reject") return selected(run, list, a, false, name == "select");
  if (name == "selectattr" || name == "rejectattr")
    return selected(run, list, a, true, name == "selectattr");
  if (name == "map") return mapped(run, list, a);
  if (name == "join") return join(run, list, run.written(a.get(0, "d")), a.get(1, "attribute"));
  if (name == "sort")
    return sorted(run, list, a.get(2, "attribute"), a.get(0, "reverse"),
                  a.get(1, "case_sensitive"));
  if (name == "dictsort") {
    const std::int64_t by = std::is_eq(order(a.get(1, "by"), "value")) ? 1 : 0;
    return sorted(run, pairs(run, list), by, a.get(2, "reverse"), a.get(0, "case_sensitive"));
  }
  if (name == "items") return pairs(run, list);
  if (name == "max" || name == "min") return extreme(run, list, name == "max");
  const auto all = [&] { return run.items(list); };
  if (name == "list") return List{all()};
  if (name == "first" || name == "last")
    return run.item(List{all()}, name == "first" ? std::int64_t{0} : kLast);
  if (name == "length" || name == "count")
    return list.text() != nullptr   ? character_count(list.text()->bytes())
           : list.list() != nullptr ? list.list()->items.size()
                                    : all().size();
  if (name == "reverse")
    return run.slice(list.text() != nullptr ? list : List{all()}, {}, {}, kLast);
  return {};
}

}  // namespace

std::optional<Value> Run::method(const std::string& name, const Value& self, const Arguments& a) {
  if (self.text() != nullptr && charge(self.weight()))
    return text_method(*this, name, *self.text(), a);
  return self.dict() != nullptr ? dict_method(*this, name, self, a) : std::nullopt;
}

Value Run::filter(const std::string& name, const Value& subject, const Arguments& a) {
  if (failed() || (subject.text() != nullptr && !charge(subject.weight()))) return {};
  if (name == "tojson") return to_json(*this, subject, a);
  if (name == "int") return number(*this, subject, a.get(0, "default", std::int64_t{0}), true);
  if (name == "float") return number(*this, subject, a.get(0, "default", 0.0), false);
  if (name == "default" || name == "d") {
    const bool empty = a.get(1, "boolean").truth() && !subject.truth();
    return subject.is_undefined() || empty ? a.get(0, "default_value", "") : subject;
  }
  std::optional<Value> made = list_filter(*this, name, subject, a);
  if (!made) made = text_filter(*this, name, written(subject), a);
  if (made) return *std::move(made);
  return wrong("the filter " + in_quotes(name) + " is not known here", ErrorCode::unsupported);
}

bool Run::test(const std::string& name, const Value& subject, const Arguments& a) {
  constexpr std::array<std::array<std::string_view, 4>, 4> kComparisons = {
      {{"==", "eq", "equalto"}, {"!=", "ne"}, {">", "gt", "greaterthan"}, {"<", "lt", "lessthan"}}};
  const bool contained = subject.list() != nullptr || subject.dict() != nullptr;
  if (name == "defined") return !subject.is_undefined();
  if (name == "undefined") return subject.is_undefined();
  if (name == "none") return subject.is_none();
  if (name == "string") return subject.text() != nullptr;
  if (name == "mapping") return subject.dict() != nullptr;
  if (name == "boolean") return subject.boolean() != nullptr;
  if (name == "true" || name == "false")
    return subject.boolean() != nullptr && *subject.boolean() == (name == "true");
  if (name == "integer") return subject.integer() != nullptr;
  if (name == "float") return subject.real() != nullptr;
  if (name == "number") return subject.as_real().has_value();
  if (name == "iterable" || name == "sequence")
    return contained || subject.text() != nullptr || subject.is_undefined();
  if (name == "odd" || name == "even")
    return binary("%", subject, std::int64_t{2}).truth() == (name == "odd");
  if (name == "divisibleby") return !binary("%", subject, a.get(0)).truth();
  if (name == "in") return compare("in", subject, a.get(0));
  for (const auto& names : kComparisons)
    if (std::find(names.begin(), names.end(), name) != names.end())
      return compare(names[0], subject, a.get(0));
  wrong("the test " + in_quotes(name) + " is not known here", ErrorCode::unsupported);
  return false;
}

bool Run::is_function(std::string_view name) {
  constexpr std::string_view kNames[] = {"dict", "namespace", "raise_exception", "range",
                                         "strftime_now"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Value Run::function(const std::string& name, const Arguments& a) {
  const Value first = a.get(0);
  if (name == "range") return range(*this, a);
  if (name == "dict") return members(first, a);
  if (name == "namespace")
    return charge(sizeof(Dict)) ? Value(&spaces_.emplace_back(members(first, a))) : Value();
  const std::string text = written(first).bytes();
  if (name == "raise_exception") return wrong(printable(text, 1000));
  const locale_t english = newlocale(LC_ALL_MASK, "C", nullptr);
  std::array<char, 1024> out{};
  const std::size_t size = strftime_l(out.data(), out.size(), text.c_str(), &now_, english);
  freelocale(english);
  if (size == 0 && !text.empty())
    return wrong("strftime_now: more than " + std::to_string(out.size()) + " bytes");
  return std::string(out.data());
}

}  // namespace runnel::jinja
