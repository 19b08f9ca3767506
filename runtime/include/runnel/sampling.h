// SPDX-License-Identifier: Apache-2.0
// Sampling options: how the next token is chosen from the logits.
//
// Example, in a function that returns a Result:
//   runnel::SamplingOptions sampling{.temperature = 0.7F, .top_p = 0.95F, .seed = 1};
//   if (auto valid = runnel::validate(sampling); !valid) return valid.error();
#pragma once

#include <cstdint>
#include <map>

#include "runnel/export.h"
#include "runnel/result.h"
#include "runnel/types.h"

namespace runnel {

/// How the next token is chosen from the logits. Applied in this order: logit bias, penalties,
/// temperature, top-k, top-p, min-p, draw. The defaults are greedy.
struct SamplingOptions {
  float temperature = 0.0F;  ///< [0, inf); 0: greedy (the most likely token, ties to the lower id)
  std::int32_t top_k = 0;    ///< keep the k most likely; 0: all
  /// (0, 1]: keep the smallest set whose probability reaches it (arXiv:1904.09751)
  float top_p = 1.0F;
  /// [0, 1): drop what is less likely than min_p times the likeliest (arXiv:2407.01082)
  float min_p = 0.0F;
  /// (0, inf): divides positive and multiplies negative logits of recent tokens (arXiv:1909.05858)
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;   ///< subtracted once from the logit of a recent token
  float frequency_penalty = 0.0F;  ///< subtracted for each occurrence of a recent token
  /// how many recent tokens penalties see, [0, kMaxPenaltyWindow]
  std::int32_t penalty_window = 256;
  std::map<TokenId, float> logit_bias;  ///< added to single logits; -inf forbids a token
  /// key of Philox4x32-10; the counter is the position: same seed, same text
  std::uint64_t seed = 0;

  static constexpr std::int32_t kMaxPenaltyWindow = 1024;  ///< tokens that a session remembers
};

/// Checks the ranges stated above.
/// @return invalid_argument naming the option, its value and its range.
RUNNEL_API Status validate(const SamplingOptions& options);

}  // namespace runnel
