// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/jinja/value.h"

#include <array>
#include <cmath>
#include <cstdio>

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

class Writer {
 public:
  explicit Writer(const Style& style) : style_(style) {}

  /// @return false if there is something in it that JSON has not.
  bool write(const Value& value, int level = 0) {
    const bool json = style_.json;
    if (value.text() != nullptr) {
      write_text(*value.text());
    } else if (const List* list = value.list()) {
      const bool tuple = list->tuple && !json;
      const Text close = !tuple ? U"]" : list->items.size() == 1 ? U",)" : U")";
      return write_items(list->items, tuple ? U"(" : U"[", close, level,
                         [&](const Value& item) { return write(item, level + 1); });
    } else if (const Dict* dict = value.dict()) {
      auto items = dict->items;
      if (style_.sorted)
        std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
          return std::is_lt(order(a.first, b.first));
        });
      return write_items(items, U"{", U"}", level, [&](const auto& item) {
        const Text quote = json && item.first.text() == nullptr ? U"\"" : U"";
        out_ += quote;
        const bool good = write(item.first);
        out_ += quote + style_.colon;
        return good && write(item.second, level + 1);
      });
    } else if (value.boolean() != nullptr) {
      out_ += *value.boolean() ? (json ? U"true" : U"True") : (json ? U"false" : U"False");
    } else if (value.integer() != nullptr) {
      out_ += marked_text(std::to_string(*value.integer()));
    } else if (value.real() != nullptr) {
      out_ += real_repr(*value.real(), json);
    } else {
      out_ += json ? U"null" : value.is_undefined() ? U"Undefined" : marked_text(value.type());
      return !json || value.is_none();
    }
    return true;
  }

  /// All of it is given if some is: who gave a key chose the marks around it, too.
  Text text() && {
    for (char32_t& c : out_) c |= given_;
    return std::move(out_);
  }

 private:
  template <class Items, class WriteItem>
  bool write_items(const Items& items, const Text& open, const Text& close, int level,
                   const WriteItem& write_item) {
    const auto new_line = [&](int depth) {
      if (!style_.indent || items.empty()) return;
      out_ += U'\n';
      while (depth-- > 0) out_ += *style_.indent;
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

  void write_text(const Text& text) {
    const bool apostrophe = text.find(U'\'') != text.npos && text.find(U'"') == text.npos;
    const char32_t quote = style_.json || apostrophe ? U'"' : U'\'';
    const Text special = style_.json ? U"\\\n\r\t\b\f" : U"\\\n\r\t";
    out_ += quote;
    for (const char32_t marked : text) {
      const char32_t c = code_point(marked);
      given_ |= marked & kGiven;
      if (const std::size_t known = special.find(c); known != special.npos) {
        out_ += {U'\\', U"\\nrtbf"[known]};
      } else if (c == quote) {
        out_ += {U'\\', c};
      } else if (is_escaped(c)) {
        write_escape(c);
      } else {
        out_ += c;
      }
    }
    out_ += quote;
  }

  bool is_escaped(char32_t c) const {
    if (style_.json) return c < 32 || (style_.ascii && c > 126);
    return c < 32 || (c >= 127 && c < 161) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
           (c != 32 && is_space(c));
  }

  void write_escape(char32_t c) {
    if (c >= 0x10000) {
      write_escape(0xd800 + ((c - 0x10000) >> 10));
      c = 0xdc00 + ((c - 0x10000) & 0x3ff);
    }
    std::array<char, 16> out{};
    const char* format = style_.json || c > 255 ? "\\u%04x" : "\\x%02x";
    (void)std::snprintf(out.data(), out.size(), format, static_cast<unsigned>(c));
    out_ += marked_text(out.data());
  }

  const Style& style_;
  Text out_;
  char32_t given_ = 0;
};

}  // namespace

bool is_space(char32_t c) {
  c = code_point(c);
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

Text stripped(const Text& text, bool left, bool right, const Text* dropped) {
  const auto stays = [dropped](char32_t c) {
    return dropped != nullptr ? dropped->find(c) == Text::npos : !is_space(c);
  };
  const auto from = left ? std::find_if(text.begin(), text.end(), stays) : text.begin();
  const auto behind = std::make_reverse_iterator(from);
  return {from, right ? std::find_if(text.rbegin(), behind, stays).base() : text.end()};
}

Value::Value(List list) : depth_(1), weight_(1) {
  for (const Value& item : list.items) hold(item);
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) : depth_(1), weight_(1 + dict.items.size() * dict.items.size()) {
  for (const auto& [key, item] : dict.items) {
    hold(key);
    hold(item);
  }
  data_ = std::make_shared<const Dict>(std::move(dict));
}

void Value::hold(const Value& item) {
  depth_ = std::max(depth_, 1 + item.depth_);
  weight_ += std::min(1 + item.weight_, ~weight_);
}

std::string Value::why_undefined() const {
  const Undefined* undefined = pointee<Undefined>();
  return undefined != nullptr ? undefined->why : "a value is undefined";
}

std::optional<std::int64_t> Value::as_integer() const {
  if (boolean() != nullptr) return *boolean() ? 1 : 0;
  return integer() != nullptr ? std::optional(*integer()) : std::nullopt;
}

std::optional<double> Value::as_real() const {
  if (real() != nullptr) return *real();
  const auto number = as_integer();
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

std::optional<std::size_t> Value::size() const {
  if (text() != nullptr) return text()->size();
  if (list() != nullptr) return list()->items.size();
  return dict() != nullptr ? std::optional(dict()->items.size()) : std::nullopt;
}

bool Value::truth() const {
  if (const auto number = as_real()) return *number != 0;
  if (const auto items = size()) return *items > 0;
  return !is_undefined() && !is_none();
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

std::partial_ordering order(const Value& a, const Value& b) {
  using Order = std::partial_ordering;
  if (const auto x = a.as_integer(), y = b.as_integer(); x && y) return *x <=> *y;
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x <=> *y;
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() <=> *b.text();
  if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr) {
    if (x->tuple != y->tuple) return Order::unordered;
    return std::lexicographical_compare_three_way(x->items.begin(), x->items.end(),
                                                  y->items.begin(), y->items.end(), order);
  }
  bool same = a.data_ == b.data_ || (a.is_undefined() && b.is_undefined());
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
