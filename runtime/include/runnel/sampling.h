// SPDX-License-Identifier: Apache-2.0
// How the next token is chosen.
//
// Example, in a function that returns a Result:
//   runnel::SamplingOptions sampling = session.model().sampling();  // as the model's file recommends
//   sampling.dry_multiplier = 0.8F;
//   sampling.seed = 7;
//   if (runnel::Status valid = runnel::validate(sampling); !valid) return valid.error();
//   auto result = runnel::generate(session, {.sampling = sampling, .max_tokens = 20});
//   if (!result) return result.error();
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "runnel/export.h"
#include "runnel/result.h"
#include "runnel/types.h"

namespace runnel {

/// How the next token is chosen from the logits. Applied in this order: logit bias, penalties, DRY, temperature, top-k,
/// top-p, min-p, draw. Penalties and DRY look back on generated tokens alone, since the last prompt was read: what a user
/// said may be said again. The defaults are greedy.
struct SamplingOptions {
  float temperature = 0.0F;  ///< [0, inf); 0: greedy (the most likely token, ties to the lower id)
  std::int32_t top_k = 0;    ///< keep the k most likely; 0: all
  /// (0, 1]: keep the smallest set whose probability reaches it (arXiv:1904.09751)
  float top_p = 1.0F;
  /// [0, 1): drop what is less likely than min_p times the likeliest (arXiv:2407.01082)
  float min_p = 0.0F;
  /// (0, inf): divides positive and multiplies negative logits of generated tokens (arXiv:1909.05858)
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;   ///< subtracted once from the logit of a generated token
  float frequency_penalty = 0.0F;  ///< subtracted for each time a token was generated
  /// how many of the last generated tokens penalties see, [0, kMaxPenaltyWindow]
  std::int32_t penalty_window = 256;

  /// DRY ("do not repeat yourself"): where the last n generated tokens were generated before, and n is at least
  /// dry_allowed_length, the token that followed them there loses dry_multiplier * dry_base^(n - dry_allowed_length).
  /// [0, inf); 0: off
  float dry_multiplier = 0.0F;
  float dry_base = 1.75F;               ///< [1, inf)
  std::int32_t dry_allowed_length = 2;  ///< at least 1
  /// how many of the last generated tokens DRY sees, [0, kMaxPenaltyWindow]
  std::int32_t dry_range = 1024;
  /// Texts that a repetition does not reach over, so that lists and dialogues keep their form: a token whose text
  /// contains one of them ends what is compared, and is never made less likely. None empty.
  std::vector<std::string> dry_breakers =
      std::vector<std::string>(std::begin(kDryBreakers), std::end(kDryBreakers));

  std::map<TokenId, float> logit_bias;  ///< added to single logits; -inf forbids a token
  /// key of Philox4x32-10; the counter is the position: same seed, same text
  std::uint64_t seed = 0;

  static constexpr std::int32_t kMaxPenaltyWindow = 1024;  ///< tokens that a session remembers
  static constexpr const char* kDryBreakers[] = {"\n", ":", "\"", "*"};

  bool operator==(const SamplingOptions&) const = default;
};

/// A token and the natural logarithm of its probability; -inf if it could not come.
struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0F;

  bool operator==(const TokenLogprob&) const = default;
};

/// The probabilities at the place of one token.
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  ///< the likeliest, falling; of equal ones the lower id first

  bool operator==(const TokenLogprobs&) const = default;
};

/// Checks the ranges stated above.
/// @return invalid_argument naming the option, its value and its range.
RUNNEL_API Status validate(const SamplingOptions& options);

}  // namespace runnel
