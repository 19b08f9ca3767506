// SPDX-License-Identifier: Apache-2.0
// What runnel_remind tells and asks: templates that were looked at while thresholds were chosen, and others for the report.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace runnel::remind_bench {

/// Something told, with {} for the value, and the question about it.
struct Template {
  std::string_view told;
  std::string_view asked;
};

struct Kind {
  std::string_view name;
  std::span<const Template> tuned;
  std::span<const Template> held_out;
};

/// Names, numbers, objects.
std::span<const Kind> kinds();

/// Questions and requests about nothing that was said.
std::span<const std::string_view> nothing_past(bool tuned);

std::span<const std::string_view> people();
std::span<const std::string_view> looks();
std::span<const std::string_view> things();

}  // namespace runnel::remind_bench
