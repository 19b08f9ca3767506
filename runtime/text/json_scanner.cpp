// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/json_scanner.h"

namespace runnel {
namespace {

bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool hex_digit(char c) { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

JsonScanner::State JsonScanner::push(char c) {
  if (state_ == State::wrong || !take(c)) {
    state_ = State::wrong;
  } else if (expects_ == Expects::nothing && part_ == Part::none) {
    state_ = State::done;
  }
  return state_;
}

bool JsonScanner::take(char c) {
  if (part_ == Part::text || part_ == Part::escape || part_ == Part::hex) return take_text(c);
  if (part_ == Part::word) {
    if (word_.front() != c) return false;
    word_.remove_prefix(1);
    if (word_.empty()) part_ = Part::none;
    return true;
  }
  if (part_ != Part::none) {
    bool again = false;  // the byte ends the number and is none of it
    if (!take_number(c, again)) return false;
    if (!again) return true;
    part_ = Part::none;
  }
  if (blank(c)) return true;
  switch (expects_) {
    case Expects::value:
      return begin_value(c);
    case Expects::value_or_end:
      return c == ']' ? close('[') : begin_value(c);
    case Expects::key_or_end:
      if (c == '}') return close('{');
      [[fallthrough]];
    case Expects::key:
      if (c != '"') return false;
      part_ = Part::text;
      key_ = true;
      return true;
    case Expects::colon:
      expects_ = Expects::value;
      return c == ':';
    case Expects::comma_or_end:
      if (c == '}') return close('{');
      if (c == ']') return close('[');
      expects_ = open_.back() == '{' ? Expects::key : Expects::value;
      return c == ',';
    case Expects::nothing:
      break;
  }
  return false;
}

bool JsonScanner::take_text(char c) {
  if (part_ == Part::escape) {
    part_ = c == 'u' ? Part::hex : Part::text;
    hex_ = 4;
    return std::string_view("\"\\/bfnrtu").find(c) != std::string_view::npos;
  }
  if (part_ == Part::hex) {
    if (--hex_ == 0) part_ = Part::text;
    return hex_digit(c);
  }
  if (c == '\\') {
    part_ = Part::escape;
  } else if (c == '"') {
    part_ = Part::none;
    if (key_) {
      expects_ = Expects::colon;
    } else {
      value_ended();
    }
    key_ = false;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    return false;
  }
  return true;
}

bool JsonScanner::take_number(char c, bool& again) {
  const bool is_digit = digit(c);
  const bool is_exponent = c == 'e' || c == 'E';
  switch (part_) {
    case Part::minus:
      part_ = c == '0' ? Part::zero : Part::whole;
      return is_digit;
    case Part::zero:
    case Part::whole:
      if (c == '.') {
        part_ = Part::point;
      } else if (is_exponent) {
        part_ = Part::exponent;
      } else if (is_digit) {
        return part_ == Part::whole;
      } else {
        again = true;
      }
      return true;
    case Part::point:
      part_ = Part::fraction;
      return is_digit;
    case Part::fraction:
      if (is_exponent) {
        part_ = Part::exponent;
      } else if (!is_digit) {
        again = true;
      }
      return true;
    case Part::exponent:
      part_ = is_digit ? Part::exponent_digits : Part::exponent_sign;
      return is_digit || c == '+' || c == '-';
    case Part::exponent_sign:
      part_ = Part::exponent_digits;
      return is_digit;
    case Part::exponent_digits:
      again = !is_digit;
      return true;
    default:
      return false;
  }
}

bool JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() == kMostDepth) return false;
    open_.push_back(c);
    expects_ = c == '{' ? Expects::key_or_end : Expects::value_or_end;
    return true;
  }
  if (open_.empty()) return false;
  value_ended();
  if (c == '"') {
    part_ = Part::text;
    return true;
  }
  if (digit(c) || c == '-') {
    part_ = c == '-' ? Part::minus : c == '0' ? Part::zero : Part::whole;
    return true;
  }
  for (const std::string_view word : {"true", "false", "null"}) {
    if (word.front() != c) continue;
    part_ = Part::word;
    word_ = word.substr(1);
    return true;
  }
  return false;
}

bool JsonScanner::close(char bracket) {
  if (open_.empty() || open_.back() != bracket) return false;
  open_.pop_back();
  value_ended();
  return true;
}

bool is_json_container(std::string_view text) {
  JsonScanner scanner;
  for (const char c : text) {
    if (scanner.push(c) == JsonScanner::State::wrong) return false;
  }
  return scanner.state() == JsonScanner::State::done;
}

}  // namespace runnel
