// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/sampling_keys.h"

#include <algorithm>
#include <limits>
#include <string>

#include "runnel/session.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {

SamplingOptions default_sampling() {
  SamplingOptions options;
  options.temperature = 0.3F;
  options.min_p = 0.1F;
  options.dry_multiplier = 0.8F;
  // Code, formulas and numbers must often be said exactly again.
  options.dry_breakers = {"  ", "\t", "\"", "\\", "="};
  for (char digit = '0'; digit <= '9'; ++digit) options.dry_breakers.emplace_back(1, digit);
  return options;
}

Result<SamplingOptions> sampling_from_gguf(const GgufFile& file) {
  const bool any =
      file.find(kSamplingBreakers) != nullptr ||
      std::ranges::any_of(kSamplingFloats, [&](const auto& k) { return file.find(k.key); }) ||
      std::ranges::any_of(kSamplingInts, [&](const auto& k) { return file.find(k.key); });
  if (!any) return default_sampling();
  SamplingOptions options;
  options.temperature = default_sampling().temperature;
  for (const SamplingFloat& k : kSamplingFloats) {
    RUNNEL_TRY(const double value, file.get_float(k.key, double{options.*k.member}));
    constexpr double kMost = std::numeric_limits<float>::max();
    if (!(value >= -kMost && value <= kMost)) {
      return fail(ErrorCode::malformed, k.key, " is ", value, ", expected a finite number");
    }
    options.*k.member = static_cast<float>(value);
  }
  for (const SamplingInt& k : kSamplingInts) {
    RUNNEL_TRY(std::int64_t value, file.get_int(k.key, std::int64_t{options.*k.member}));
    constexpr auto kWindow = static_cast<std::int64_t>(Session::kHistoryWindow);
    if (k.window && (value == -1 || value > kWindow)) value = kWindow;
    if (!std::in_range<std::int32_t>(value)) {
      return fail(ErrorCode::malformed, k.key, " is ", value, ", expected a number below 2^31");
    }
    options.*k.member = static_cast<std::int32_t>(value);
  }
  RUNNEL_TRY(const std::vector<std::string>* breakers,
             file.get_array<std::string>(kSamplingBreakers));
  if (breakers != nullptr) options.dry_breakers = *breakers;
  if (Status valid = validate(options); !valid) {
    return fail(ErrorCode::malformed, kSamplingPrefix, "*: ", valid.error().message);
  }
  return options;
}

}  // namespace runnel
