// SPDX-License-Identifier: Apache-2.0
#include "app/chat/reader/list_numbers.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace runnel::reader {
namespace {

using Numeral = ListLevel::Numeral;

/// a to z, then aa to zz.
std::string letters(int number, char first) {
  const auto times = static_cast<std::size_t>(number - 1) / 26 + 1;
  return std::string(times, static_cast<char>(first + (number - 1) % 26));
}

std::string roman(int number, bool small) {
  constexpr std::pair<int, std::string_view> kSigns[] = {
      {1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"},
      {40, "XL"},  {10, "X"},   {9, "IX"},  {5, "V"},    {4, "IV"},  {1, "I"}};
  std::string out;
  for (const auto& [value, sign] : kSigns) {
    for (; number >= value; number -= value) out += sign;
  }
  if (small) {
    for (char& c : out) c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string numeralOf(int number, Numeral numeral) {
  constexpr int kMostLetters = 26 * 5;
  constexpr int kMostRoman = 3999;
  const bool lettered = number > 0 && number <= kMostLetters;
  const bool latin = number > 0 && number <= kMostRoman;
  switch (numeral) {
    case Numeral::SmallLetter:
      if (lettered) return letters(number, 'a');
      break;
    case Numeral::CapitalLetter:
      if (lettered) return letters(number, 'A');
      break;
    case Numeral::SmallRoman:
      if (latin) return roman(number, true);
      break;
    case Numeral::CapitalRoman:
      if (latin) return roman(number, false);
      break;
    case Numeral::None:
    case Numeral::Decimal:
      break;
  }
  return std::to_string(number);
}

}  // namespace

std::string ListCounter::next(const ListLevels& levels, std::size_t level) {
  level = std::min(level, kListLevels - 1);
  const ListLevel& own = levels[level];
  std::optional<int>& last = m_last[level];
  last = last ? std::min(*last, kMostItems) + 1 : own.start;
  std::fill(m_last.begin() + static_cast<std::ptrdiff_t>(level) + 1, m_last.end(), std::nullopt);
  if (own.numeral == Numeral::None) return "-";
  std::string mark;
  for (std::size_t i = 0; i < own.label.size(); ++i) {
    const char c = own.label[i];
    const char digit = c == '%' && i + 1 < own.label.size() ? own.label[i + 1] : '\0';
    if (digit < '1' || digit > '9') {
      mark += c;
      continue;
    }
    ++i;
    const auto place = static_cast<std::size_t>(digit - '1');
    const ListLevel& shown = levels[place];
    mark += numeralOf(m_last[place].value_or(shown.start), shown.numeral);
  }
  return mark.empty() ? "-" : mark;
}

void ListCounter::restart(std::size_t level, int number) {
  m_last[std::min(level, kListLevels - 1)] = number - 1;
}

}  // namespace runnel::reader
