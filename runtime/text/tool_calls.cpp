// SPDX-License-Identifier: Apache-2.0
// Tells calls of tools from the text of an answer, byte by byte.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runnel/tools.h"
#include "runtime/text/json_scanner.h"
#include "runtime/text/utf8.h"

namespace runnel {
namespace {

using Kind = ToolEvent::Kind;

constexpr std::string_view kArguments = "[ARGS]";
constexpr std::string_view kCallId = "[CALL_ID]";
constexpr std::size_t kMostHead = 256;  // bytes of a name and an id before arguments

bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Bytes at the end of `text` that may begin `tag`.
std::size_t open_end(std::string_view text, std::string_view tag) {
  std::size_t n = tag.empty() ? 0 : std::min(text.size(), tag.size() - 1);
  while (n > 0 && !tag.starts_with(text.substr(text.size() - n))) --n;
  return n;
}

/// The text of a JSON string with its quotes; nothing if it is none.
std::string unquoted(std::string_view json) {
  const auto value = nlohmann::json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool is_object(std::string_view json) { return json.starts_with('{') && is_json_container(json); }

}  // namespace

struct ToolCallReader::Impl {
  enum class At : std::uint8_t {
    start,    // of an answer that may be a call: white space
    text,     // outside of calls
    list,     // where a list of calls or a call is to begin
    head,     // a name, before arguments
    object,   // in a call's object
    raw,      // in its arguments, which stand alone
    closing,  // behind it, where its closing tag is to come
    next,     // behind it, where a list goes on or ends
    broken,   // up to its closing tag
  };

  explicit Impl(ToolFormat of)
      : format(std::move(of)), at(format.style == ToolStyle::bare ? At::start : At::text) {}

  const ToolFormat format;
  At at;
  std::vector<ToolEvent> events;
  std::string held;       // outside of calls: what may begin one, and white space before it
  bool said = false;      // there was text
  std::size_t calls = 0;  // begun
  bool called = false;    // one was begun or was broken
  // What is known of the call.
  std::string raw;         // all of it so far
  std::size_t object = 0;  // where its object begins in `raw`
  bool listed = false;     // it is one of a list
  std::string tail;        // behind its object
  std::string reason;
  JsonScanner scanner;
  std::string key;
  enum class Value : std::uint8_t { none, name, arguments, other };
  Value value = Value::none;
  std::size_t from = 0;  // of the key or value under way in `raw`
  bool in_key = false;
  bool begun = false;  // its name was given
  std::string name;
  std::string arguments;  // up to now
  std::size_t given = 0;  // bytes of them that were given

  void emit(Kind kind, std::string_view text) {
    const bool joins = kind == Kind::text || kind == Kind::arguments;
    if (joins && text.empty()) return;
    if (joins && !events.empty() && events.back().kind == kind) {
      events.back().text += text;
      return;
    }
    events.push_back({.kind = kind, .text = std::string(text), .call = calls > 0 ? calls - 1 : 0});
  }

  // ---- outside of calls ----

  void say(std::string_view text) {
    if (text.empty()) return;
    if (!said && called)
      text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (text.empty()) return;
    said = true;
    emit(Kind::text, text);
  }

  void take_text(char c) {
    held += c;
    const std::string& open = format.open;
    if (open.empty()) {
      say(std::exchange(held, {}));
      return;
    }
    if (held.ends_with(open)) {
      std::string before = held.substr(0, held.size() - open.size());
      const std::size_t last = before.find_last_not_of(" \t\r\n");
      before.resize(last == before.npos ? 0 : last + 1);
      say(before);
      held.clear();
      begin_call(open);
      at = format.style == ToolStyle::tagged  ? At::object
           : format.style == ToolStyle::named ? At::head
                                              : At::list;
      return;
    }
    std::size_t keep = open_end(held, open);
    while (keep < held.size() && blank(held[held.size() - keep - 1])) ++keep;
    say(std::string_view(held).substr(0, held.size() - keep));
    held.erase(0, held.size() - keep);
  }

  void begin_call(std::string_view opening) {
    raw = opening;
    object = raw.size();
    listed = false;
    begin_object();
  }

  void begin_object() {
    tail.clear();
    scanner = JsonScanner();
    key.clear();
    value = Value::none;
    in_key = begun = false;
    name.clear();
    arguments.clear();
    given = 0;
  }

  // ---- in a call ----

  void fail(std::string why) {
    reason = std::move(why);
    if (format.style == ToolStyle::bare && !begun) {
      // Some other answer that begins with a brace.
      const std::string all = std::exchange(raw, {});
      at = At::text;
      for (const char c : all) take_text(c);
      return;
    }
    at = At::broken;
    called = true;
    if (raw_ends()) give_up();
  }

  bool raw_ends() const { return !format.close.empty() && raw.ends_with(format.close); }

  void give_up() {
    called = true;
    ToolEvent broken{.kind = Kind::broken,
                     .text = std::exchange(raw, {}),
                     .call = calls > 0 ? calls - 1 : 0,
                     .reason = std::exchange(reason, {}),
                     .begun = begun};
    if (!begun) broken.call = calls;
    events.push_back(std::move(broken));
    begun = false;
    at = At::text;
  }

  void fail_here() { fail("does not parse at byte " + std::to_string(raw.size() - 1)); }

  void begin_named() {
    begun = called = true;
    ++calls;
    emit(Kind::begin, name);
    give_arguments();
  }

  void give_arguments() {
    if (!begun) return;
    emit(Kind::arguments, std::string_view(arguments).substr(given));
    given = arguments.size();
  }

  // A byte of the object of a call.
  void take_object(char c) {
    const std::size_t here = raw.size();
    raw += c;
    if (raw.size() == object + 1 && blank(c)) {
      object = raw.size();  // white space before it
      return;
    }
    const std::size_t depth = scanner.depth();
    const JsonScanner::Expects expects = scanner.expects();
    const bool inside = scanner.inside();
    const JsonScanner::State state = scanner.push(c);
    if (state == JsonScanner::State::wrong || (depth == 0 && c != '{')) return fail_here();
    if (depth == 1 && !inside && c == '"' &&
        (expects == JsonScanner::Expects::key || expects == JsonScanner::Expects::key_or_end)) {
      in_key = true;
      from = here;
    } else if (in_key && !scanner.inside()) {
      in_key = false;
      key = unquoted(std::string_view(raw).substr(from));
    } else if (depth == 1 && !inside && expects == JsonScanner::Expects::value && !blank(c)) {
      const bool of_arguments = key == "arguments" || key == "parameters";
      value = key == "name" ? Value::name : of_arguments ? Value::arguments : Value::other;
      from = here;
    }
    if (!take_value(c)) return;
    if (state == JsonScanner::State::done) object_ended();
  }

  // What the byte is to the value under way. False: it was the call's end.
  bool take_value(char c) {
    if (value == Value::none) return true;
    const char first = raw[from];
    const bool ended = scanner.depth() <= 1 && !scanner.inside() &&
                       scanner.expects() != JsonScanner::Expects::value;
    const bool known = value != Value::other;
    if (value == Value::name && first != '"') return fail_here(), false;
    if (value == Value::arguments && first == '{') {
      if (from + 1 == raw.size() && !arguments.empty()) return fail_here(), false;
      arguments += c;
      if (!begun && !name.empty()) begin_named();
      give_arguments();
    }
    if (!ended) return true;
    const std::string_view text = std::string_view(raw).substr(from);
    const Value was = std::exchange(value, Value::none);
    if (!known) return true;
    if (was == Value::name) {
      std::string said_name = unquoted(text);
      if (!name.empty() || said_name.empty()) return fail_here(), false;
      name = std::move(said_name);
      // An answer that is no call may have a "name", too.
      if (format.style != ToolStyle::bare || !arguments.empty()) begin_named();
    } else if (first == '"') {  // JSON within a text
      if (!arguments.empty()) return fail_here(), false;
      arguments = unquoted(text);
      if (!is_object(arguments)) return fail_here(), false;
      if (!begun && !name.empty()) begin_named();
      give_arguments();
    } else if (first != '{' && text != "null") {
      return fail_here(), false;
    }
    return true;
  }

  void object_ended() {
    if (!begun) return fail("has no \"name\"");
    if (arguments.empty()) {
      arguments = "{}";
      give_arguments();
    }
    if (first_invalid_utf8(raw) != std::string_view::npos) return fail("is not UTF-8");
    if (format.style == ToolStyle::tagged) {
      at = At::closing;
    } else if (listed) {
      at = At::next;
    } else {
      call_ended();
    }
  }

  void call_ended() {
    emit(Kind::end, {});
    raw.clear();
    tail.clear();
    begun = false;
    at = format.style == ToolStyle::bare ? At::start : At::text;
  }

  void take_closing(char c) {
    raw += c;
    tail += c;
    if (tail.size() == 1 && blank(c)) {
      tail.clear();
    } else if (tail == format.close) {
      call_ended();
    } else if (!format.close.starts_with(tail)) {
      fail("goes on behind its object");
    }
  }

  void take_next(char c) {
    raw += c;
    if (blank(c)) return;
    if (c == ']') return call_ended();
    if (c != ',') return fail_here();
    emit(Kind::end, {});
    raw.clear();
    object = 0;
    begin_object();
    at = At::object;
  }

  void take_list(char c) {
    if (c == '[' && !listed) {
      raw += c;
      listed = true;
      object = raw.size();
    } else if (c == '{') {
      object = raw.size();
      at = At::object;
      take_object(c);
    } else if (blank(c)) {
      raw += c;
      object = raw.size();
    } else {
      raw += c;
      fail_here();
    }
  }

  void take_head(char c) {
    raw += c;
    const std::string_view head = std::string_view(raw).substr(object);
    if (head.size() > kMostHead) return fail("has no " + std::string(kArguments));
    if (!head.ends_with(kArguments)) return;
    std::string_view called_name = head.substr(0, head.size() - kArguments.size());
    called_name = called_name.substr(0, called_name.find(kCallId));
    while (!called_name.empty() && blank(called_name.front())) called_name.remove_prefix(1);
    while (!called_name.empty() && blank(called_name.back())) called_name.remove_suffix(1);
    if (called_name.empty() || first_invalid_utf8(called_name) != std::string_view::npos)
      return fail("has no name");
    name = called_name;
    begin_named();
    at = At::raw;
  }

  void take_raw(char c) {
    raw += c;
    if (arguments.empty() && blank(c)) return;
    if (scanner.push(c) == JsonScanner::State::wrong || (arguments.empty() && c != '{'))
      return fail_here();
    arguments += c;
    give_arguments();
    if (scanner.state() != JsonScanner::State::done) return;
    if (first_invalid_utf8(raw) != std::string_view::npos) return fail("is not UTF-8");
    call_ended();
  }

  void take_start(char c) {
    if (c == '{') {
      held.clear();
      begin_call({});
      at = At::object;
      take_object(c);
    } else if (blank(c) || (called && c == ';')) {
      held += c;
    } else {
      at = At::text;
      say(std::exchange(held, {}));
      take_text(c);
    }
  }

  void take(char c) {
    switch (at) {
      case At::start:
        return take_start(c);
      case At::text:
        return take_text(c);
      case At::list:
        return take_list(c);
      case At::head:
        return take_head(c);
      case At::object:
        return take_object(c);
      case At::raw:
        return take_raw(c);
      case At::closing:
        return take_closing(c);
      case At::next:
        return take_next(c);
      case At::broken:
        raw += c;
        if (raw_ends()) give_up();
        return;
    }
  }

  void finish(bool cut) {
    switch (at) {
      case At::start:
      case At::text: {
        const bool spaces = held.find_first_not_of(" \t\r\n;") == held.npos;
        if (!(called && spaces)) say(held);
        held.clear();
        return;
      }
      case At::closing:  // its object is whole, and only the tag is missing
      case At::next:
        return call_ended();
      case At::broken:
        return give_up();
      case At::object:
        if (format.style == ToolStyle::bare && !begun) return say(std::exchange(raw, {}));
        break;
      case At::list:
      case At::head:
      case At::raw:
        break;
    }
    reason = cut ? "was cut" : "ends before it is whole";
    give_up();
  }
};

std::string_view to_string(ToolStyle style) {
  switch (style) {
    case ToolStyle::none:
      return "none";
    case ToolStyle::tagged:
      return "tagged";
    case ToolStyle::bare:
      return "bare";
    case ToolStyle::list:
      return "list";
    case ToolStyle::named:
      return "named";
  }
  return {};
}

ToolCallReader::ToolCallReader(ToolFormat format)
    : impl_(std::make_unique<Impl>(std::move(format))) {}
ToolCallReader::ToolCallReader(ToolCallReader&&) noexcept = default;
ToolCallReader& ToolCallReader::operator=(ToolCallReader&&) noexcept = default;
ToolCallReader::~ToolCallReader() = default;

std::vector<ToolEvent> ToolCallReader::push(std::string_view text) {
  for (const char c : text) impl_->take(c);
  return std::exchange(impl_->events, {});
}

std::vector<ToolEvent> ToolCallReader::finish(bool cut) {
  impl_->finish(cut);
  return std::exchange(impl_->events, {});
}

ToolAnswer read_tool_calls(const ToolFormat& format, std::string_view text, bool cut) {
  ToolCallReader reader(format);
  std::vector<ToolEvent> events = reader.push(text);
  std::ranges::move(reader.finish(cut), std::back_inserter(events));
  ToolAnswer answer;
  ToolCall call;
  for (ToolEvent& event : events) {
    switch (event.kind) {
      case Kind::text:
        answer.text += event.text;
        break;
      case Kind::begin:
        call = {.id = {}, .name = std::move(event.text), .arguments = {}};
        break;
      case Kind::arguments:
        call.arguments += event.text;
        break;
      case Kind::end:
        answer.calls.push_back(std::exchange(call, {}));
        break;
      case Kind::broken:
        answer.broken.push_back({std::move(event.text), std::move(event.reason)});
        break;
    }
  }
  return answer;
}

}  // namespace runnel
