// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/model/sampling_keys.h"
#include "runtime/text/json_file.h"

namespace runnel {
namespace {

Error expected_assignment(std::string_view assignment) {
  std::string names;
  const auto add = [&names](std::string_view key) {
    names += (names.empty() ? "" : ", ") + std::string(key.substr(kSamplingPrefix.size()));
  };
  for (const SamplingFloat& k : kSamplingFloats) add(k.key);
  for (const SamplingInt& k : kSamplingInts) add(k.key);
  add(kSamplingBreakers);
  return fail(ErrorCode::invalid_argument, in_quotes(assignment),
              ": expected NAME=VALUE with one of ", names);
}

}  // namespace

Status set_sampling_key(std::string_view assignment, GgufWriter& writer) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) return expected_assignment(assignment);
  const std::string key = std::string(kSamplingPrefix) + std::string(assignment.substr(0, equals));
  const Result<nlohmann::json> value = parse_json(assignment.substr(equals + 1), assignment);
  if (!value) return expected_assignment(assignment);
  for (const SamplingFloat& k : kSamplingFloats) {
    if (key != k.key || !value->is_number()) continue;
    writer.set(key, value->get<float>());
    return {};
  }
  for (const SamplingInt& k : kSamplingInts) {
    constexpr std::int64_t kMost = 1'000'000'000;
    if (key != k.key || !value->is_number_integer()) continue;
    if (const auto whole = value->get<std::int64_t>(); whole >= -kMost && whole <= kMost) {
      writer.set(key, static_cast<std::int32_t>(whole));
      return {};
    }
  }
  if (key == kSamplingBreakers && value->is_array()) {
    std::vector<std::string> texts;
    for (const nlohmann::json& text : *value) {
      if (!text.is_string()) return expected_assignment(assignment);
      texts.push_back(text.get<std::string>());
    }
    writer.set(key, GgufArray(std::move(texts)));
    return {};
  }
  return expected_assignment(assignment);
}

}  // namespace runnel
