// SPDX-License-Identifier: Apache-2.0
// Chooses the next token: a pure function of logits, generated tokens, options and position.
//
//   RUNNEL_TRY(Sampler sampler, Sampler::create(options, vocab_size));
//   RUNNEL_TRY(TokenId token, sampler.sample(session.logits(), generated, session.position()));
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runnel/result.h"
#include "runnel/sampling.h"
#include "runnel/types.h"
#include "runtime/sampling/candidates.h"
#include "runtime/sampling/dry.h"
#include "runtime/sampling/forbidden.h"
#include "runtime/sampling/token_mask.h"

namespace runnel {

/// Whether this is the order that SamplingOptions documents.
bool is_usual_order(const std::vector<ChainSampler>& order);

/// The order of `options`; the usual one where they name none. Valid as long as `options`.
std::span<const ChainSampler> order_of(const SamplingOptions& options);

/// As validate() of sampling.h, and that biases are of tokens in [0, vocab_size).
Status validate(const SamplingOptions& options, std::int32_t vocab_size);

/// Options checked once and the memory that sampling needs, so that a token allocates nothing.
/// Keeps no state between tokens but mirostat's mu: the draw depends on seed and position alone. Used by one thread at a
/// time.
class Sampler {
 public:
  /// @return invalid_argument for an option outside its range or a bias of a token outside [0, vocab_size); unsupported
  ///         for banned texts without `piece`
  /// @param piece  texts of tokens, for DRY's breakers and banned texts; empty: there are none
  static Result<Sampler> create(const SamplingOptions& options, std::int32_t vocab_size,
                                PieceOf piece = {});

  /// @param logits    [vocab_size]. NaN counts as -inf; a +inf is certain (the lowest id among several).
  /// @param recent    tokens generated since the last prompt, oldest first; the last penalty_window of them count, for
  ///                  DRY the last dry_range.
  /// @param position  tokens consumed so far: the counter of the draw.
  /// @param mask      [vocab_size] the tokens that may come, before anything else is chosen; null: all.
  /// @return invalid_argument if logits have another size or leave no token to choose.
  Result<TokenId> sample(std::span<const float> logits, std::span<const TokenId> recent,
                         std::uint64_t position, const TokenMask* mask = nullptr);

  /// In place of sample(), for the only token that may come.
  void sample_certain() { surprise_ = 0.0F; }

  /// The token that sample() gave last was taken: mirostat's mu follows its surprise.
  void took();

  /// Mirostat's mu, in bits; none without mirostat.
  std::optional<float> mirostat_mu() const { return mirostat_ ? std::optional(mu_) : std::nullopt; }
  /// As a generation before this one left it.
  void set_mirostat_mu(float mu) { mu_ = mu; }

  /// Tokens whose logits DRY lowers after `recent`, each once. Valid until the next call or sample().
  std::span<const Dry::Loss> dry_losses(std::span<const TokenId> recent) {
    return dry_.losses(recent);
  }

  /// What sample() draws from: each token that can be drawn and its probability, by ascending id.
  /// For tests and display.
  /// @param position  as of sample(), which says whether XTC comes into play
  Result<std::vector<std::pair<TokenId, double>>> distribution(std::span<const float> logits,
                                                               std::span<const TokenId> recent,
                                                               std::uint64_t position = 0,
                                                               const TokenMask* mask = nullptr);

 private:
  Sampler(const SamplingOptions& options, std::int32_t vocab_size, PieceOf piece);

  // Leaves the tokens that can be drawn in candidates_ with their cut; a token without draw if it is certain.
  Result<TokenId> prepare(std::span<const float> logits, std::span<const TokenId> recent,
                          std::uint64_t position, const TokenMask* mask);
  // The same by any chain.
  void set_chain(const SamplingOptions& options);
  void run_chain(std::span<const TokenId> recent, std::uint64_t position);
  void run(ChainSampler sampler, std::span<const TokenId> recent, std::uint64_t position);
  void change_logits(ChainSampler sampler, std::span<const TokenId> recent);
  std::span<const float> adjust(std::span<const float> logits, std::span<const TokenId> recent,
                                const TokenMask* mask);
  void penalise(std::span<const TokenId> recent);
  void keep_top_k(std::span<const float> logits);
  void apply_top_p();
  TokenId token_at(std::size_t index) const;

  static constexpr TokenId kDraw = -1;  // of prepare(): nothing is certain, draw

  std::int32_t vocab_size_ = 0;
  float inverse_temperature_ = 0.0F;  // 0: greedy
  std::uint32_t min_weight_ = 1;      // min-p as a weight
  std::int32_t top_k_ = 0;            // 0: all
  float top_p_ = 1.0F;
  float repetition_penalty_ = 1.0F, inverse_penalty_ = 1.0F;
  float presence_penalty_ = 0.0F;
  float frequency_penalty_ = 0.0F;
  std::size_t penalty_window_ = 0;  // 0: no penalties
  std::uint64_t seed_ = 0;
  std::vector<std::pair<TokenId, float>> bias_;
  Dry dry_;
  std::size_t ngram_ = 0;  // 0: repeated n-grams are not forbidden
  BannedTexts banned_;

  // Where the passes for the usual options are not enough: a chain in any order.
  bool general_ = false;
  std::vector<ChainSampler> chain_;
  Candidates list_;  // while a chain runs
  float temperature_ = 0.0F, dynatemp_range_ = 0.0F, dynatemp_exponent_ = 1.0F;
  float top_n_sigma_ = 0.0F, typical_p_ = 1.0F, min_p_ = 0.0F;
  float xtc_probability_ = 0.0F, xtc_threshold_ = 0.1F;
  bool mirostat_ = false;
  float tau_ = 0.0F, eta_ = 0.0F, mu_ = 0.0F;
  float surprise_ = 0.0F;  // of the token drawn last, in bits

  std::vector<float> adjusted_;         // [vocab] logits after bias and penalties
  std::vector<std::uint16_t> counts_;   // [vocab] occurrences in the window; zero between calls
  std::vector<std::uint64_t> top_;      // the most likely so far, see keep_top_k
  std::size_t top_limit_ = 0;           // its most elements
  std::vector<TokenId> ids_;            // the top_k tokens by ascending id
  std::vector<float> top_logits_;       // their logits
  std::vector<std::uint32_t> weights_;  // [vocab, or ids_.size() with top_k]
  std::vector<std::uint32_t> scratch_;  // as weights_
  std::span<const std::uint32_t> candidates_;  // into weights_, or of list_
  std::uint32_t cut_ = 1;                      // candidates below it are out
};

}  // namespace runnel
