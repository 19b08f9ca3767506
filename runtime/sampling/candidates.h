// SPDX-License-Identifier: Apache-2.0
// The tokens that may come next, while the samplers of a chain take them away in any order.
//
// Probabilities are the integer weights of token_weights.h, so that what is cut does not depend on how sums are formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runnel/types.h"

namespace runnel {

/// Candidates by ascending id: no sampler reorders them, and of equal ones the lower id counts as likelier. Every
/// function but begin() needs at least one candidate and leaves at least one. One thread at a time.
class Candidates {
 public:
  Candidates() = default;
  /// Memory for so many tokens.
  explicit Candidates(std::size_t vocab);

  /// All tokens of `logits` [vocab] but those of NaN and -inf, at temperature 1.
  void begin(std::span<const float> logits);

  /// Their logits have changed to those of `logits` [vocab]; those of NaN and -inf go, which may leave none.
  void reread(std::span<const float> logits);

  std::size_t size() const { return ids_.size(); }
  std::span<const TokenId> ids() const { return ids_; }

  /// What logits are multiplied by, all in all.
  float inverse_temperature() const { return inverse_temperature_; }
  /// Temperature 1 again, after the logits themselves were multiplied.
  void forget_temperature() { inverse_temperature_ = 1.0F, weighed_ = false; }

  /// Divides by a temperature, 0 (only the likeliest stays) or more.
  void heat(float temperature);

  /// The temperature of SamplingOptions::dynatemp_range.
  float dynamic_temperature(float temperature, float range, float exponent);

  // What the options of these names say.
  void keep_top_k(std::size_t k);
  void keep_top_n_sigma(float n);
  void keep_typical(float p);
  void keep_top_p(float p);
  void keep_min_p(float p);
  void exclude_top_choices(float threshold);
  /// Those of a surprise of at most `mu` bits; the likeliest at least.
  void keep_unsurprising(double mu);

  /// Their weights, not all of them 0, in the order of ids().
  std::span<const std::uint32_t> weights();
  /// Sum of weights(), at least 1.
  std::uint64_t total();

 private:
  void weigh();
  void keep_best();
  double log_probability(std::size_t i, double log_total) const;
  /// Keeps index i if keep(i); asked once each, in order.
  template <class Keep>
  void keep_if(const Keep& keep);

  std::vector<TokenId> ids_;
  std::vector<float> logits_;  // as the model gives them, or after penalties; not divided
  std::vector<std::uint32_t> weights_, scratch_;
  std::vector<std::uint64_t> keys_;
  std::vector<double> ranks_;
  float inverse_temperature_ = 1.0F;
  bool weighed_ = false;  // weights_ are of the logits and the temperature
  float max_ = 0.0F;      // the logit that weighs kWeightOne, of a token that may be gone by now
};

}  // namespace runnel
