// SPDX-License-Identifier: Apache-2.0
// What stands before the items of lists in office documents: "-", or the number as the document shows it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace runnel::reader {

constexpr std::size_t kListLevels = 9;  // of docx, and of the ten of odt

struct ListLevel {
  enum class Numeral { None, Decimal, SmallLetter, CapitalLetter, SmallRoman, CapitalRoman };
  Numeral numeral = Numeral::None;  // that of a bullet
  int start = 1;
  std::string label;  // "%2" in it is the number of the second level: "%1.%2."
};
using ListLevels = std::array<ListLevel, kListLevels>;

/// The items of one list. One of an outer level lets those inside begin anew.
class ListCounter {
 public:
  /// Counts an item of `level`, from 0; the inmost where there are not so many.
  /// @return what stands before it
  std::string next(const ListLevels& levels, std::size_t level);
  /// The next item of `level` has this number.
  void restart(std::size_t level, int number);

 private:
  std::array<std::optional<int>, kListLevels> m_last;
};

/// A number up to this is read; no list is that long.
constexpr int kMostItems = 1'000'000'000;

}  // namespace runnel::reader
