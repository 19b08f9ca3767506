// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "runtime/text/utf8.h"

namespace runnel::jinja {

namespace {

std::string hex(const char* format, std::uint32_t code) {
  std::array<char, 16> out{};
  (void)std::snprintf(out.data(), out.size(), format, code);
  return out.data();
}

void write_text_repr(const std::string& text, std::string& out) {
  const bool doubled = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = doubled ? '"' : '\'';
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(std::string_view(text).substr(at));
    const std::uint32_t c = step.code_point;
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += text[at];
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (c < 32 || (c >= 127 && c < 161) || c == 0xad) {
      out += hex("\\x%02x", c);
    } else if (c != 32 && (space_size(text, at) > 0 || (c >= 0x200b && c <= 0x200f))) {
      out += hex("\\u%04x", c);
    } else {
      out.append(text, at, step.length);
    }
    at += step.length;
  }
  out += quote;
}

void write_json_text(const std::string& text, bool ascii, std::string& out) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(std::string_view(text).substr(at));
    const std::uint32_t c = step.code_point;
    constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
    const std::size_t known = c < 128 ? kShort.find(static_cast<char>(c)) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out += '\\';
      out += "\"\\bfnrt"[known];
    } else if (c < 32 || (ascii && c > 126 && c < 0x10000)) {
      out += hex("\\u%04x", c);
    } else if (ascii && c >= 0x10000) {
      out += hex("\\u%04x", 0xd800 + ((c - 0x10000) >> 10));
      out += hex("\\u%04x", 0xdc00 + ((c - 0x10000) & 0x3ff));
    } else {
      out.append(text, at, step.length);
    }
    at += step.length;
  }
  out += '"';
}

int depth_of(const Value& value) { return value.depth(); }

}  // namespace

Value::Value(List list) {
  for (const Value& item : list.items) list.depth = std::max(list.depth, 1 + depth_of(item));
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  for (const auto& [name, item] : dict.items) dict.depth = std::max(dict.depth, 1 + depth_of(item));
  data_ = std::make_shared<const Dict>(std::move(dict));
}

Value::Value(Callable callable) : data_(std::make_shared<const Callable>(std::move(callable))) {}

std::optional<std::int64_t> Value::as_integer() const {
  if (const bool* flag = boolean()) return *flag ? 1 : 0;
  if (const std::int64_t* number = integer()) return *number;
  return {};
}

std::optional<double> Value::as_real() const {
  if (const double* number = real()) return *number;
  if (const auto number = as_integer()) return static_cast<double>(*number);
  return {};
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (const auto number = as_real()) return *number != 0;
  if (text() != nullptr) return text()->size() > 0;
  if (list() != nullptr) return !list()->items.empty();
  if (dict() != nullptr) return !dict()->items.empty();
  return true;
}

int Value::depth() const {
  if (list() != nullptr) return list()->depth;
  if (dict() != nullptr) return dict()->depth;
  return callable() != nullptr && callable()->self ? 1 + callable()->self->depth() : 0;
}

const char* Value::type() const {
  constexpr std::array kNames = {"undefined", "None", "bool",     "int",       "float", "str",
                                 "list",      "dict", "function", "namespace", "loop"};
  return list() != nullptr && list()->tuple ? "tuple" : kNames[data_.index()];
}

bool Value::given() const {
  if (text() != nullptr) return !text()->given().empty();
  if (list() != nullptr)
    return std::any_of(list()->items.begin(), list()->items.end(),
                       [](const Value& item) { return item.given(); });
  if (dict() != nullptr)
    return std::any_of(dict()->items.begin(), dict()->items.end(),
                       [](const auto& item) { return item.first.given() || item.second.given(); });
  return false;
}

Text Value::written() const {
  if (text() != nullptr) return *text();
  if (is_undefined()) return {};
  std::string out;
  write_repr(*this, out);
  return Text(std::move(out), given());
}

const Value* Dict::find(const Value& key) const {
  for (const auto& [known, value] : items)
    if (equal(known, key)) return &value;
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  for (auto& [known, old] : items) {
    if (!equal(known, key)) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(key, std::move(value));
}

const Value* Arguments::get(std::size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

bool equal(const Value& a, const Value& b) {
  if (const auto x = a.as_integer(), y = b.as_integer(); x && y) return *x == *y;
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x == *y;
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() == b.text()->bytes();
  if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr)
    return x->tuple == y->tuple &&
           std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), equal);
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr)
    return x->items.size() == y->items.size() &&
           std::all_of(x->items.begin(), x->items.end(), [y](const auto& item) {
             const Value* other = y->find(item.first);
             return other != nullptr && equal(item.second, *other);
           });
  if (a.space() != nullptr || b.space() != nullptr) return a.space() == b.space();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

std::optional<bool> less(const Value& a, const Value& b) {
  if (const auto x = a.as_integer(), y = b.as_integer(); x && y) return *x < *y;
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x < *y;
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() < b.text()->bytes();
  const List* x = a.list();
  const List* y = b.list();
  if (x == nullptr || y == nullptr) return {};
  for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i)
    if (!equal(x->items[i], y->items[i])) return less(x->items[i], y->items[i]);
  return x->items.size() < y->items.size();
}

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 400> out{};
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(out.data(), out.data() + out.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string text(out.data(), end);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void write_repr(const Value& value, std::string& out) {
  if (value.text() != nullptr) {
    write_text_repr(value.text()->bytes(), out);
  } else if (const List* list = value.list()) {
    out += list->tuple ? '(' : '[';
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) out += ", ";
      write_repr(list->items[i], out);
    }
    if (list->tuple && list->items.size() == 1) out += ',';
    out += list->tuple ? ')' : ']';
  } else if (const Dict* dict = value.dict()) {
    out += '{';
    for (std::size_t i = 0; i < dict->items.size(); ++i) {
      if (i > 0) out += ", ";
      write_repr(dict->items[i].first, out);
      out += ": ";
      write_repr(dict->items[i].second, out);
    }
    out += '}';
  } else if (value.boolean() != nullptr) {
    out += *value.boolean() ? "True" : "False";
  } else if (value.integer() != nullptr) {
    out += std::to_string(*value.integer());
  } else if (value.real() != nullptr) {
    out += real_repr(*value.real());
  } else {
    out += value.is_undefined() ? "Undefined" : value.type();
  }
}

bool write_json(const Value& value, const JsonStyle& style, std::string& out, int level) {
  const auto new_line = [&](int depth) {
    if (!style.indent) return;
    out += '\n';
    for (int i = 0; i < depth; ++i) out += *style.indent;
  };
  if (value.text() != nullptr) {
    write_json_text(value.text()->bytes(), style.ascii, out);
  } else if (const List* list = value.list()) {
    out += '[';
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) out += style.comma;
      new_line(level + 1);
      if (!write_json(list->items[i], style, out, level + 1)) return false;
    }
    if (!list->items.empty()) new_line(level);
    out += ']';
  } else if (const Dict* dict = value.dict()) {
    std::vector<const std::pair<Value, Value>*> items;
    items.reserve(dict->items.size());
    for (const auto& item : dict->items) items.push_back(&item);
    if (style.sorted)
      std::stable_sort(items.begin(), items.end(), [](const auto* a, const auto* b) {
        return less(a->first, b->first).value_or(false);
      });
    out += '{';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style.comma;
      new_line(level + 1);
      std::string key;
      if (items[i]->first.text() != nullptr) {
        key = items[i]->first.text()->bytes();
      } else if (!write_json(items[i]->first, style, key)) {
        return false;
      }
      write_json_text(key, style.ascii, out);
      out += style.colon;
      if (!write_json(items[i]->second, style, out, level + 1)) return false;
    }
    if (!items.empty()) new_line(level);
    out += '}';
  } else if (value.boolean() != nullptr || value.is_none()) {
    out += value.is_none() ? "null" : *value.boolean() ? "true" : "false";
  } else if (const auto number = value.as_real()) {
    const bool finite = std::isfinite(*number);
    if (value.integer() != nullptr || finite) {
      write_repr(value, out);
    } else {
      out += std::isnan(*number) ? "NaN" : *number < 0 ? "-Infinity" : "Infinity";
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace runnel::jinja
