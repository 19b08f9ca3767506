// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "runtime/text/utf8.h"

namespace runnel::jinja {

namespace {

std::string real_repr(double value, bool json) {
  if (std::isnan(value)) return json ? "NaN" : "nan";
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (json ? "Infinity" : "inf");
  std::array<char, 400> out{};
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const char* end = std::to_chars(out.data(), out.data() + out.size(), value,
                                  plain ? std::chars_format::fixed : std::chars_format::scientific)
                        .ptr;
  std::string text(static_cast<const char*>(out.data()), end);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

class Writer {
 public:
  explicit Writer(const Style& style) : style_(style) {}

  /// @return false if there is something in it that JSON has not.
  bool write(const Value& value, int level = 0) {
    if (value.text() != nullptr) {
      given_ |= !value.text()->given().empty();
      write_text(value.text()->bytes());
    } else if (const List* list = value.list()) {
      const bool round = list->tuple && !style_.json;
      const bool lone = round && list->items.size() == 1;
      return write_items(list->items, round ? "(" : "[",
                         lone    ? ",)"
                         : round ? ")"
                                 : "]",
                         level, [&](const Value& item) { return write(item, level + 1); });
    } else if (const Dict* dict = value.dict()) {
      auto items = dict->items;
      if (style_.sorted)
        std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
          return std::is_lt(order(a.first, b.first));
        });
      return write_items(items, "{", "}", level, [&](const auto& item) {
        if (!write_key(item.first)) return false;
        out_ += style_.colon;
        return write(item.second, level + 1);
      });
    } else if (value.boolean() != nullptr) {
      out_ += style_.json ? (*value.boolean() ? "true" : "false")
                          : (*value.boolean() ? "True" : "False");
    } else if (value.integer() != nullptr) {
      out_ += std::to_string(*value.integer());
    } else if (value.real() != nullptr) {
      out_ += real_repr(*value.real(), style_.json);
    } else {
      out_ += style_.json ? "null" : value.is_undefined() ? "Undefined" : value.type();
      return !style_.json || value.is_none();
    }
    return true;
  }

  Text text() && { return Text(std::move(out_), given_); }

 private:
  template <class Items, class WriteItem>
  bool write_items(const Items& items, const char* open, const char* close, int level,
                   const WriteItem& write_item) {
    const auto new_line = [&](int depth) {
      if (style_.indent && !items.empty()) out_ += '\n';
      for (int i = 0; style_.indent && !items.empty() && i < depth; ++i) out_ += *style_.indent;
    };
    out_ += open;
    for (const auto& item : items) {
      if (&item != &items.front()) out_ += style_.comma;
      new_line(level + 1);
      if (!write_item(item)) return false;
    }
    new_line(level);
    out_ += close;
    return true;
  }

  /// JSON's keys are texts.
  bool write_key(const Value& key) {
    if (!style_.json || key.text() != nullptr) return write(key);
    Writer plain(style_);
    const bool good = plain.write(key);
    write_text(plain.out_);
    return good;
  }

  void write_text(const std::string& text) {
    const bool apostrophe = text.find('\'') != text.npos && text.find('"') == text.npos;
    const char quote = style_.json || apostrophe ? '"' : '\'';
    const std::string_view special = style_.json ? "\\\n\r\t\b\f" : "\\\n\r\t";
    out_ += quote;
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Step step = utf8_step(std::string_view(text).substr(at));
      const std::size_t known = special.find(text[at]);
      if (text[at] == quote || known != special.npos) {
        out_ += '\\';
        out_ += text[at] == quote ? quote : "\\nrtbf"[known];
      } else if (is_escaped(text, at, step.code_point)) {
        escape(step.code_point);
      } else {
        out_.append(text, at, step.length);
      }
      at += step.length;
    }
    out_ += quote;
  }

  bool is_escaped(const std::string& text, std::size_t at, std::uint32_t c) const {
    if (style_.json) return c < 32 || (style_.ascii && c > 126);
    return c < 32 || (c >= 127 && c < 161) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
           (c != 32 && space_size(text, at) > 0);
  }

  void escape(std::uint32_t c) {
    std::array<char, 16> out{};
    if (c >= 0x10000) {
      escape(0xd800 + ((c - 0x10000) >> 10));
      c = 0xdc00 + ((c - 0x10000) & 0x3ff);
    }
    const char* format = style_.json || c > 255 ? "\\u%04x" : "\\x%02x";
    (void)std::snprintf(out.data(), out.size(), format, c);
    out_ += out.data();
  }

  const Style& style_;
  std::string out_;
  bool given_ = false;
};

std::uint64_t sum(std::uint64_t a, std::uint64_t b) { return a + std::min(b, ~a); }

template <class Container>
void contain(Container& container, const Value& item) {
  container.depth = std::max(container.depth, 1 + item.depth());
  container.weight = sum(container.weight, 1 + item.weight());
}

}  // namespace

Value::Value(List list) {
  for (const Value& item : list.items) contain(list, item);
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [key, item] : dict.items) {
    contain(dict, key);
    contain(dict, item);
  }
  dict.weight = sum(dict.weight, dict.items.size() * dict.items.size());
  data_ = std::make_shared<const Dict>(std::move(dict));
}

Value::Value(Callable callable) : data_(std::make_shared<const Callable>(std::move(callable))) {}

std::optional<std::int64_t> Value::as_integer() const {
  if (boolean() != nullptr) return *boolean() ? 1 : 0;
  return integer() != nullptr ? std::optional(*integer()) : std::nullopt;
}

std::optional<double> Value::as_real() const {
  if (real() != nullptr) return *real();
  const auto number = as_integer();
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

bool Value::truth() const {
  if (const auto number = as_real()) return *number != 0;
  if (text() != nullptr) return text()->size() > 0;
  if (list() != nullptr) return !list()->items.empty();
  if (dict() != nullptr) return !dict()->items.empty();
  return !is_undefined() && !is_none();
}

int Value::depth() const {
  return list() != nullptr ? list()->depth : dict() != nullptr ? dict()->depth : 0;
}

std::uint64_t Value::weight() const {
  if (text() != nullptr) return text()->size();
  return list() != nullptr ? list()->weight : dict() != nullptr ? dict()->weight : 8;
}

std::string Value::type() const {
  constexpr std::array kNames = {"undefined", "None", "bool", "int",      "float",
                                 "str",       "list", "dict", "function", "namespace"};
  return list() != nullptr && list()->tuple ? "tuple" : kNames[data_.index()];
}

Text Value::written() const {
  if (text() != nullptr) return *text();
  return is_undefined() ? Text() : *write(*this);
}

const Value* Dict::find(const Value& key) const {
  for (const auto& [known, value] : items)
    if (std::is_eq(order(known, key))) return &value;
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  for (auto& [known, old] : items) {
    if (!std::is_eq(order(known, key))) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(key, std::move(value));
}

const Value* Arguments::find(std::size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

Value Arguments::get(std::size_t index, std::string_view name, const Value& otherwise) const {
  const Value* found = find(index, name);
  return found != nullptr ? *found : otherwise;
}

std::partial_ordering order(const Value& a, const Value& b) {
  using Order = std::partial_ordering;
  if (const auto x = a.as_integer(), y = b.as_integer(); x && y) return *x <=> *y;
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x <=> *y;
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() <=> b.text()->bytes();
  if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr) {
    if (x->tuple != y->tuple) return Order::unordered;
    return std::lexicographical_compare_three_way(x->items.begin(), x->items.end(),
                                                  y->items.begin(), y->items.end(), order);
  }
  bool same = a.is_none() ? b.is_none() : a.is_undefined() && b.is_undefined();
  if (a.space() != nullptr) same = a.space() == b.space();
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr)
    same = x->items.size() == y->items.size() &&
           std::all_of(x->items.begin(), x->items.end(), [y](const auto& item) {
             const Value* other = y->find(item.first);
             return other != nullptr && std::is_eq(order(item.second, *other));
           });
  return same ? Order::equivalent : Order::unordered;
}

std::optional<Text> write(const Value& value, const Style& style) {
  Writer writer(style);
  if (!writer.write(value)) return {};
  return std::move(writer).text();
}

}  // namespace runnel::jinja
