// SPDX-License-Identifier: Apache-2.0
// Values for templates from JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/jinja/template.h"

namespace runnel::test {

using OrderedJson = nlohmann::ordered_json;

inline jinja::Value jinja_value(const OrderedJson& json, bool given) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return marked_text(json.get<std::string>(), given);
  if (json.is_array()) {
    jinja::List list;
    for (const OrderedJson& item : json) list.items.push_back(jinja_value(item, given));
    return list;
  }
  if (!json.is_object()) return nullptr;
  jinja::Dict dict;
  for (const auto& [name, item] : json.items())
    dict.items.emplace_back(marked_text(name), jinja_value(item, given));
  return dict;
}

inline std::vector<std::pair<std::string, jinja::Value>> jinja_variables(const OrderedJson& json,
                                                                         bool given = false) {
  std::vector<std::pair<std::string, jinja::Value>> out;
  for (const auto& [name, item] : json.items()) out.emplace_back(name, jinja_value(item, given));
  return out;
}

/// 7 March 2026, a Saturday, 09:05:02: what jinja_reference.py takes for now.
inline std::tm jinja_now() {
  std::tm now{};
  now.tm_year = 126;
  now.tm_mon = 2;
  now.tm_mday = 7;
  now.tm_wday = 6;
  now.tm_yday = 65;
  now.tm_hour = 9;
  now.tm_min = 5;
  now.tm_sec = 2;
  return now;
}

}  // namespace runnel::test
