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
#include <string_view>
#include <vector>

#include "runnel/export.h"
#include "runnel/result.h"
#include "runnel/types.h"

namespace runnel {

/// A sampler of the chain, see SamplingOptions::order.
enum class ChainSampler : std::uint8_t {
  penalties,  ///< repetition_penalty, presence_penalty, frequency_penalty
  dry,
  top_n_sigma,
  temperature,  ///< dynamic temperature, too
  top_k,
  typical,
  top_p,
  min_p,
  xtc,
};

/// llama.cpp's names: penalties, dry, top_n_sigma, temperature, top_k, typ_p, top_p, min_p, xtc.
RUNNEL_API std::string_view to_string(ChainSampler sampler);

/// "top_k;top_p;temperature" → the samplers. Besides to_string()'s names: "-" for "_", typical and typical_p, temp,
/// top_nsigma.
/// @return invalid_argument for an unknown name, one that comes twice, or none at all.
RUNNEL_API Result<std::vector<ChainSampler>> parse_sampler_order(std::string_view names);

/// How the next token is chosen from the logits. First what is added or forbidden whatever the chain says: logit bias,
/// repeated n-grams, banned texts. Then the chain in its order, unless `order` says another: penalties, DRY,
/// top-n-sigma, temperature, top-k, typical, top-p, min-p, XTC. Then the draw. Penalties, DRY, n-grams and banned texts
/// look back on generated tokens alone, since the last prompt was read: what a user said may be said again. The defaults
/// are greedy.
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

  /// Keep the tokens whose logit is at least max - top_n_sigma * sigma, with sigma the standard deviation of the logits
  /// of all candidates (arXiv:2411.07641), which is taken of floor(4096 logit), from -1,024 to 1,024, so that every device
  /// finds the same.
  /// (0, inf); 0 or -1: off
  float top_n_sigma = 0.0F;
  /// (0, 1]: locally typical sampling: keep the tokens whose -ln p is nearest to the entropy of the distribution, as few
  /// as reach this probability (arXiv:2202.00666); 1: off
  float typical_p = 1.0F;
  /// XTC, "exclude top choices" (p-e-w, text-generation-webui pull request 6335): with this probability, where two or more
  /// tokens are at least as likely as xtc_threshold, all of those go but the least likely one. [0, 1]; 0: off
  float xtc_probability = 0.0F;
  float xtc_threshold = 0.1F;  ///< [0, 1]; above 0.5 there are never two
  /// Dynamic temperature (kalomaze, as in llama.cpp): t = low + (high - low) * (H / ln n)^dynatemp_exponent, where H is
  /// the entropy of the n candidates, low = max(0, temperature - dynatemp_range), high = temperature + dynatemp_range.
  /// [0, inf); 0: off. It sees what samplers before it left: to follow llama.cpp, put temperature last in `order`.
  float dynatemp_range = 0.0F;
  float dynatemp_exponent = 1.0F;  ///< [0, inf)

  /// 2: Mirostat 2.0 (arXiv:2007.14966): tokens of a surprise -log2 p above mu go; after each token mu loses
  /// mirostat_eta * (its surprise among those left - mirostat_tau). mu begins at 2 * mirostat_tau with each prompt. In
  /// place of top-n-sigma, top-k, typical, top-p, min-p and XTC, which are off then. 0: off
  std::int32_t mirostat = 0;
  float mirostat_tau = 5.0F;  ///< [0, inf): the surprise wanted, in bits
  float mirostat_eta = 0.1F;  ///< [0, 1]: how fast mu follows

  /// Forbids what would be the second time that so many generated tokens follow one another (no_repeat_ngram_size of
  /// Hugging Face's transformers). [0, kMaxPenaltyWindow], of the last kMaxPenaltyWindow tokens; 0: off
  std::int32_t no_repeat_ngram = 0;
  /// Texts that are never generated, whatever tokens they would be made of: a token that would complete one is
  /// forbidden. Bytes are compared, so case counts. At most kMostBannedTexts, each of 1 to kMostBannedBytes bytes.
  std::vector<std::string> banned_texts = {};
  /// The chain: what is not in it is off (without temperature it is 1). Each sampler once; empty: the order above.
  std::vector<ChainSampler> order = {};

  static constexpr std::int32_t kMaxPenaltyWindow = 1024;  ///< tokens that a session remembers
  static constexpr std::size_t kMostBannedTexts = 256;
  static constexpr std::size_t kMostBannedBytes = 256;
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
