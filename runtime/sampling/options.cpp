// SPDX-License-Identifier: Apache-2.0
// The ranges of sampling options, and the names of samplers.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "runnel/sampling.h"
#include "runtime/base/text.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A number option: low <= value <= high, or open where it says so. NaN is in no range.
struct FloatRange {
  const char* name;
  float SamplingOptions::*member;
  float low, high;
  bool low_open, high_open;
  const char* expected;
};

constexpr FloatRange kFloats[] = {
    {"temperature", &SamplingOptions::temperature, 0, kInf, false, true,
     "a finite number from 0 (greedy) up"},
    {"top_p", &SamplingOptions::top_p, 0, 1, true, false, "more than 0 and at most 1"},
    {"min_p", &SamplingOptions::min_p, 0, 1, false, true, "at least 0 and less than 1"},
    {"repetition_penalty", &SamplingOptions::repetition_penalty, 0, kInf, true, true,
     "a finite number above 0 (1: none)"},
    {"presence_penalty", &SamplingOptions::presence_penalty, -kInf, kInf, true, true,
     "a finite number (0: none)"},
    {"frequency_penalty", &SamplingOptions::frequency_penalty, -kInf, kInf, true, true,
     "a finite number (0: none)"},
    {"dry_multiplier", &SamplingOptions::dry_multiplier, 0, kInf, false, true,
     "a finite number from 0 (off) up"},
    {"dry_base", &SamplingOptions::dry_base, 1, kInf, false, true, "a finite number of at least 1"},
    {"typical_p", &SamplingOptions::typical_p, 0, 1, true, false,
     "more than 0 and at most 1 (off)"},
    {"xtc_probability", &SamplingOptions::xtc_probability, 0, 1, false, false, "0 (off) to 1"},
    {"xtc_threshold", &SamplingOptions::xtc_threshold, 0, 1, false, false, "0 to 1"},
    {"dynatemp_range", &SamplingOptions::dynatemp_range, 0, kInf, false, true,
     "a finite number from 0 (off) up"},
    {"dynatemp_exponent", &SamplingOptions::dynatemp_exponent, 0, kInf, false, true,
     "a finite number from 0 up"},
    {"mirostat_tau", &SamplingOptions::mirostat_tau, 0, kInf, false, true,
     "a finite number from 0 up"},
    {"mirostat_eta", &SamplingOptions::mirostat_eta, 0, 1, false, false, "0 to 1"},
};

struct IntRange {
  const char* name;
  std::int32_t SamplingOptions::*member;
  std::int32_t low, high;
  const char* expected;
};

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kWindow = SamplingOptions::kMaxPenaltyWindow;

constexpr IntRange kInts[] = {
    {"top_k", &SamplingOptions::top_k, 0, kMost, "0 (all) or a positive number"},
    {"penalty_window", &SamplingOptions::penalty_window, 0, kWindow, "0 to 1024"},
    {"dry_allowed_length", &SamplingOptions::dry_allowed_length, 1, kMost, "at least 1"},
    {"dry_range", &SamplingOptions::dry_range, 0, kWindow, "0 to 1024"},
    {"no_repeat_ngram", &SamplingOptions::no_repeat_ngram, 0, kWindow, "0 (off) to 1024"},
};
static_assert(kWindow == 1024, "as the texts above say");

Status check_texts(const SamplingOptions& options) {
  for (const std::string& breaker : options.dry_breakers) {
    if (breaker.empty()) {
      return fail(ErrorCode::invalid_argument,
                  "dry_breakers has an empty text, expected at least one character");
    }
  }
  if (options.banned_texts.size() > SamplingOptions::kMostBannedTexts) {
    return fail(ErrorCode::invalid_argument, "banned_texts has ", options.banned_texts.size(),
                " texts, expected at most ", std::size_t{SamplingOptions::kMostBannedTexts});
  }
  for (const std::string& text : options.banned_texts) {
    if (text.empty() || text.size() > SamplingOptions::kMostBannedBytes) {
      return fail(ErrorCode::invalid_argument, "banned_texts has a text of ", text.size(),
                  " bytes, expected 1 to ", std::size_t{SamplingOptions::kMostBannedBytes});
    }
  }
  return {};
}

struct Name {
  ChainSampler sampler;
  std::string_view name, other, another;  // the first is to_string()'s
};

constexpr Name kNames[] = {
    {ChainSampler::penalties, "penalties", "", ""},
    {ChainSampler::dry, "dry", "", ""},
    {ChainSampler::top_n_sigma, "top_n_sigma", "top_nsigma", ""},
    {ChainSampler::temperature, "temperature", "temp", ""},
    {ChainSampler::top_k, "top_k", "", ""},
    {ChainSampler::typical, "typ_p", "typical", "typical_p"},
    {ChainSampler::top_p, "top_p", "", ""},
    {ChainSampler::min_p, "min_p", "", ""},
    {ChainSampler::xtc, "xtc", "", ""},
};

Status check_order(const std::vector<ChainSampler>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto number = static_cast<std::size_t>(order[i]);
    if (number >= std::size(kNames)) {
      return fail(ErrorCode::invalid_argument, "order has sampler ", number, ", expected 0 to ",
                  std::size(kNames) - 1);
    }
    if (std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), order[i]) !=
        order.begin() + static_cast<std::ptrdiff_t>(i)) {
      return fail(ErrorCode::invalid_argument, "order has ", to_string(order[i]),
                  " twice, expected each sampler once");
    }
  }
  return {};
}

}  // namespace

Status validate(const SamplingOptions& options) {
  for (const FloatRange& r : kFloats) {
    const float value = options.*r.member;
    const bool above = r.low_open ? value > r.low : value >= r.low;
    const bool below = r.high_open ? value < r.high : value <= r.high;
    if (!above || !below)
      return fail(ErrorCode::invalid_argument, r.name, " is ", value, ", expected ", r.expected);
  }
  for (const IntRange& r : kInts) {
    const std::int32_t value = options.*r.member;
    if (value < r.low || value > r.high)
      return fail(ErrorCode::invalid_argument, r.name, " is ", value, ", expected ", r.expected);
  }
  const float sigma = options.top_n_sigma;
  if (!(sigma == -1.0F || (sigma >= 0.0F && sigma < kInf))) {
    return fail(ErrorCode::invalid_argument, "top_n_sigma is ", sigma,
                ", expected a finite number above 0, or 0 or -1 (off)");
  }
  if (options.mirostat != 0 && options.mirostat != 2) {
    return fail(ErrorCode::invalid_argument, "mirostat is ", options.mirostat,
                ", expected 0 (off) or 2");
  }
  for (const auto& [token, bias] : options.logit_bias) {
    if (std::isnan(bias) || bias == kInf) {
      return fail(ErrorCode::invalid_argument, "logit_bias of token ", token, " is ", bias,
                  ", expected a finite number or -inf");
    }
  }
  RUNNEL_CHECK_OK(check_texts(options));
  return check_order(options.order);
}

std::string_view to_string(ChainSampler sampler) {
  for (const Name& known : kNames) {
    if (known.sampler == sampler) return known.name;
  }
  return "unknown";
}

Result<std::vector<ChainSampler>> parse_sampler_order(std::string_view names) {
  std::vector<ChainSampler> order;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(';'), names.size());
    std::string name(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
    std::replace(name.begin(), name.end(), '-', '_');
    const auto* const found =
        std::find_if(std::begin(kNames), std::end(kNames), [&name](const Name& known) {
          return !name.empty() &&
                 (name == known.name || name == known.other || name == known.another);
        });
    if (found == std::end(kNames)) {
      std::string all;
      for (const Name& known : kNames) all += (all.empty() ? "" : ", ") + std::string(known.name);
      return fail(ErrorCode::invalid_argument, "the order of samplers has ",
                  in_quotes(name.substr(0, 40)), ", expected names of ", all);
    }
    order.push_back(found->sampler);
  }
  if (order.empty()) {
    return fail(ErrorCode::invalid_argument,
                "the order of samplers is empty, expected names with ; between them");
  }
  RUNNEL_CHECK_OK(check_order(order));
  return order;
}

}  // namespace runnel
