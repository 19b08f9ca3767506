// SPDX-License-Identifier: Apache-2.0
// Names are llama.cpp's where it has them; those of DRY are its options'.
#include "runtime/model/sampling_keys.h"

#include <algorithm>
#include <limits>
#include <string>

#include "runnel/session.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

constexpr std::string_view kPrefix = "general.sampling.";
constexpr const char* kBreakers = "general.sampling.dry_sequence_breakers";

struct FloatKey {
  const char* key;
  float SamplingOptions::*member;
};
constexpr FloatKey kFloats[] = {
    {"general.sampling.temp", &SamplingOptions::temperature},
    {"general.sampling.top_p", &SamplingOptions::top_p},
    {"general.sampling.min_p", &SamplingOptions::min_p},
    {"general.sampling.penalty_repeat", &SamplingOptions::repetition_penalty},
    {"general.sampling.penalty_present", &SamplingOptions::presence_penalty},
    {"general.sampling.penalty_freq", &SamplingOptions::frequency_penalty},
    {"general.sampling.dry_multiplier", &SamplingOptions::dry_multiplier},
    {"general.sampling.dry_base", &SamplingOptions::dry_base},
};

struct IntKey {
  const char* key;
  std::int32_t SamplingOptions::*member;
  bool window;  // -1 is as far as can be looked back
};
constexpr IntKey kInts[] = {
    {"general.sampling.top_k", &SamplingOptions::top_k, false},
    {"general.sampling.penalty_last_n", &SamplingOptions::penalty_window, true},
    {"general.sampling.dry_allowed_length", &SamplingOptions::dry_allowed_length, false},
    {"general.sampling.dry_penalty_last_n", &SamplingOptions::dry_range, true},
};

}  // namespace

SamplingOptions default_sampling() {
  SamplingOptions options;
  options.temperature = 0.7F;
  options.top_p = 0.95F;
  options.repetition_penalty = 1.15F;
  return options;
}

Result<SamplingOptions> sampling_from_gguf(const GgufFile& file) {
  const bool any = file.find(kBreakers) != nullptr ||
                   std::ranges::any_of(kFloats, [&](const auto& k) { return file.find(k.key); }) ||
                   std::ranges::any_of(kInts, [&](const auto& k) { return file.find(k.key); });
  if (!any) return default_sampling();
  SamplingOptions options;
  options.temperature = default_sampling().temperature;
  for (const FloatKey& k : kFloats) {
    RUNNEL_TRY(const double value, file.get_float(k.key, double{options.*k.member}));
    constexpr double kMost = std::numeric_limits<float>::max();
    if (!(value >= -kMost && value <= kMost)) {
      return fail(ErrorCode::malformed, k.key, " is ", value, ", expected a finite number");
    }
    options.*k.member = static_cast<float>(value);
  }
  for (const IntKey& k : kInts) {
    RUNNEL_TRY(std::int64_t value, file.get_int(k.key, std::int64_t{options.*k.member}));
    constexpr auto kWindow = static_cast<std::int64_t>(Session::kHistoryWindow);
    if (k.window && (value == -1 || value > kWindow)) value = kWindow;
    if (!std::in_range<std::int32_t>(value)) {
      return fail(ErrorCode::malformed, k.key, " is ", value, ", expected a number below 2^31");
    }
    options.*k.member = static_cast<std::int32_t>(value);
  }
  RUNNEL_TRY(const std::vector<std::string>* breakers, file.get_array<std::string>(kBreakers));
  if (breakers != nullptr) options.dry_breakers = *breakers;
  if (Status valid = validate(options); !valid) {
    return fail(ErrorCode::malformed, kPrefix, "*: ", valid.error().message);
  }
  return options;
}

Status set_sampling_key(std::string_view assignment, GgufWriter& writer) {
  const std::size_t equals = assignment.find('=');
  const std::string key = std::string(kPrefix) + std::string(assignment.substr(0, equals));
  const std::string text(equals == std::string_view::npos ? std::string_view()
                                                          : assignment.substr(equals + 1));
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const bool number = !text.empty() && used == text.size();
  for (const FloatKey& k : kFloats) {
    if (key != k.key || !number) continue;
    writer.set(key, static_cast<float>(value));
    return {};
  }
  for (const IntKey& k : kInts) {
    const auto whole = static_cast<std::int32_t>(std::clamp(value, -1.0, 1e9));
    if (key != k.key || !number || static_cast<double>(whole) != value) continue;
    writer.set(key, whole);
    return {};
  }
  return fail(ErrorCode::invalid_argument, in_quotes(assignment),
              ": expected NAME=VALUE with a number and one of ", sampling_key_names());
}

std::string_view sampling_key_names() {
  return "temp, top_k, top_p, min_p, penalty_repeat, penalty_present, penalty_freq, "
         "penalty_last_n, dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n";
}

}  // namespace runnel
