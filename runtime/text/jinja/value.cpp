// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/value.h"

#include <array>
#include <charconv>
#include <cmath>

#include "runtime/base/text.h"

namespace runnel::jinja {

namespace {

Text real_repr(double value, bool json) {
  if (std::isnan(value)) return json ? U"NaN" : U"nan";
  if (std::isinf(value)) return (value < 0 ? U"-" : U"") + Text(json ? U"Infinity" : U"inf");
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::array<char, 400> out{};
  const Text text(out.begin(), std::to_chars(out.begin(), out.end(), value, format).ptr);
  return plain && text.find(U'.') == Text::npos ? text + U".0" : text;
}

struct Writer {
  const Style& style;
  Text out = {};
  char32_t given = 0;    // the mark of all texts
  bool writable = true;  // as JSON

  void write(const Value& value, int level = 0) {
    const bool json = style.json;
    if (const Text* text = value.as<Text>()) {
      write_text(*text);
    } else if (const List* list = value.as<List>()) {
      const bool tuple = list->tuple && !json;
      const Text close = !tuple ? U"]" : list->items.size() == 1 ? U",)" : U")";
      write_items(list->items, tuple ? U"(" : U"[", close, level,
                  [&](const Value& item) { write(item, level + 1); });
    } else if (const Dict* dict = value.as<Dict>()) {
      auto items = dict->items;
      if (style.sorted) std::ranges::stable_sort(items, std::less<>(), &Member::first);
      write_items(items, U"{", U"}", level, [&](const auto& item) {
        const Text quote = json && !item.first.template is<Text>() ? U"\"" : U"";
        out += quote;
        write(item.first);
        out += quote + style.colon;
        write(item.second, level + 1);
      });
    } else if (const bool* truth = value.as<bool>()) {
      out += *truth ? (json ? U"true" : U"True") : (json ? U"false" : U"False");
    } else if (const auto integer = value.as_integer()) {
      out += marked_text(std::to_string(*integer));
    } else if (const auto real = value.as_real()) {
      out += real_repr(*real, json);
    } else {
      out += json ? U"null" : value.is_undefined() ? U"Undefined" : marked_text(value.type());
      writable = writable && value.is_none();
    }
  }

  template <class Items, class WriteItem>
  void write_items(const Items& items, const Text& open, const Text& close, int level,
                   const WriteItem& write_item) {
    const auto new_line = [&](int depth) {
      if (!style.indent || items.empty()) return;
      out += U'\n';
      while (depth-- > 0) out += *style.indent;
    };
    out += open;
    for (const auto& item : items) {
      if (&item != &items.front()) out += style.comma;
      new_line(level + 1);
      write_item(item);
    }
    new_line(level);
    out += close;
  }

  void write_text(const Text& text) {
    const bool apostrophe = text.find(U'\'') != text.npos && text.find(U'"') == text.npos;
    const Text quote = style.json || apostrophe ? U"\"" : U"'";
    const Text special = quote + (style.json ? U"\\\n\r\t\b\f" : U"\\\n\r\t");
    out += quote;
    for (const char32_t marked : text) {
      const char32_t c = code_point(marked);
      given |= marked & kGiven;
      if (const std::size_t known = special.find(c); known != special.npos) {
        out += {U'\\', (quote + U"\\nrtbf")[known]};
      } else if (style.json ? c < 32 || (style.ascii && c > 126) : is_escaped(c)) {
        write_escape(c);
      } else {
        out += c;
      }
    }
    out += quote;
  }

  static bool is_escaped(char32_t c) {
    return c < 32 || (c >= 127 && c < 161) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
           (c != 32 && kSpaces.find(c) != kSpaces.npos);
  }

  void write_escape(char32_t c) {
    if (c >= 0x10000) {
      write_escape(0xd800 + ((c - 0x10000) >> 10));
      c = 0xdc00 + ((c - 0x10000) & 0x3ff);
    }
    const std::string digits = hexadecimal(c);
    const bool wide = style.json || c > 255;
    out += (wide ? U"\\u" : U"\\x") + Text((wide ? 4 : 2) - digits.size(), U'0');
    out += marked_text(digits);
  }
};

}  // namespace

Text stripped(const Text& text, bool left, bool right, TextView dropped) {
  const std::size_t from = left ? std::min(text.find_first_not_of(dropped), text.size()) : 0;
  const std::size_t to = right ? text.find_last_not_of(dropped) + 1 : text.size();
  return text.substr(from, std::max(from, to) - from);
}

Value::Value(List list) : depth_(1), weight_(1) {
  for (const Value& item : list.items) hold(item);
  data_ = std::make_shared<List>(std::move(list));
}

Value::Value(Dict dict) : depth_(1), weight_(1 + dict.items.size() * dict.items.size()) {
  for (const auto& [key, item] : dict.items) {
    hold(key);
    hold(item);
  }
  data_ = std::make_shared<Dict>(std::move(dict));
}

void Value::hold(const Value& item) {
  depth_ = std::max(depth_, 1 + item.depth_);
  weight_ += std::min(1 + item.weight_, ~weight_);
}

std::optional<std::int64_t> Value::as_integer() const {
  if (is<bool>()) return *as<bool>() ? 1 : 0;
  return is<std::int64_t>() ? std::optional(*as<std::int64_t>()) : std::nullopt;
}

std::optional<double> Value::as_real() const {
  if (is<double>()) return *as<double>();
  const auto number = as_integer();
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

std::optional<std::size_t> Value::size() const {
  if (is<Text>()) return as<Text>()->size();
  if (is<List>()) return as<List>()->items.size();
  return is<Dict>() ? std::optional(as<Dict>()->items.size()) : std::nullopt;
}

bool Value::truth() const {
  if (const auto number = as_real()) return *number != 0;
  if (const auto items = size()) return *items > 0;
  return !is_undefined() && !is_none();
}

std::string Value::type() const {
  constexpr std::array kNames = {"undefined", "None", "bool", "int",      "float",
                                 "str",       "list", "dict", "function", "namespace"};
  return is<List>() && as<List>()->tuple ? "tuple" : kNames[data_.index()];
}

Text Value::written() const {
  if (is<Text>()) return *as<Text>();
  return is_undefined() ? Text() : *write(*this);
}

const Value* Dict::find(const Value& key) const {
  const auto found = std::ranges::find(items, key, &Member::first);
  return found != items.end() ? &found->second : nullptr;
}

void Dict::set(const Value& key, Value value) {
  const auto found = std::ranges::find(items, key, &Member::first);
  if (found != items.end())
    found->second = std::move(value);
  else
    items.emplace_back(key, std::move(value));
}

std::partial_ordering operator<=>(const Value& a, const Value& b) {
  using Order = std::partial_ordering;
  if (const auto x = a.as_integer(), y = b.as_integer(); x && y) return *x <=> *y;
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x <=> *y;
  if (a.is<Text>() && b.is<Text>()) return *a.as<Text>() <=> *b.as<Text>();
  if (const List* x = a.as<List>(), *y = b.as<List>(); x && y && x->tuple == y->tuple)
    return x->items <=> y->items;
  bool same = a.data_ == b.data_ || (a.is_undefined() && b.is_undefined());
  if (const Dict* x = a.as<Dict>(), *y = b.as<Dict>(); x && y)
    same =
        x->items.size() == y->items.size() && std::ranges::all_of(x->items, [y](const auto& item) {
          const Value* other = y->find(item.first);
          return other != nullptr && item.second == *other;
        });
  return same ? Order::equivalent : Order::unordered;
}

std::optional<Text> write(const Value& value, const Style& style) {
  Writer writer{style};
  writer.write(value);
  if (style.json && !writer.writable) return {};
  // All of it is given if some is: who gave a key chose the marks around it, too.
  for (char32_t& c : writer.out) c |= writer.given;
  return std::move(writer.out);
}

}  // namespace runnel::jinja
