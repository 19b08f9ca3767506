// SPDX-License-Identifier: Apache-2.0
// The generation loop without the session it runs on: what generate() does, on any source of logits; as a whole, or
// one token at a time for callers that run several at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/generation.h"
#include "runnel/result.h"
#include "runnel/types.h"
#include "runtime/generate/answer_settler.h"
#include "runtime/generate/constraint_walk.h"
#include "runtime/generate/stop_detector.h"
#include "runtime/generate/thought_splitter.h"
#include "runtime/model/generation_carry.h"
#include "runtime/sampling/sampler.h"
#include "runtime/text/utf8_stream.h"

namespace runnel {

/// Where tokens come from and go to: a session, or a script in a test.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::span<const float> logits() const = 0;  // [vocab] after the last token
  /// Those since the last prompt, oldest first.
  virtual std::span<const TokenId> generated_tokens() const = 0;
  virtual std::uint64_t position() const = 0;
  virtual Status step(std::span<const TokenId> tokens) = 0;  // consumes them in one pass
  virtual Status mark(std::size_t /*taken*/) { return {}; }  // as AnswerSettler::mark()

  /// Asks the source to draw the tokens after `first` itself, ahead of the loop; from then on
  /// queue() and drawn() take the place of step(), until settle(). False: it does not.
  /// @param masked  what is queued draws its token when it is given a mask
  virtual Result<bool> draw_ahead(TokenId /*first*/, const SamplingOptions&, bool /*masked*/) {
    return false;
  }
  virtual Status queue() { return {}; }                  // begins to consume the token drawn last
  virtual Status mask(const TokenMask&) { return {}; }   // of what was queued last
  virtual Result<TokenId> drawn() { return TokenId{}; }  // the token queued last, once it is known
  virtual Status settle() { return {}; }  // stands after the token queued last; logits() are its

  virtual std::string_view piece(TokenId token) const = 0;  // its bytes, empty for special tokens
  virtual bool is_end(TokenId token) const = 0;
};

/// Whether the options, but for those of the sampler, are within their ranges.
Status check_options(const GenerationOptions& options);

/// One generation, a token at a time:
///
///   while (true) {
///     RUNNEL_TRY(std::optional<TokenId> token, generation.choose(logits, generated, position, stop));
///     if (!token) break;
///     … the model consumes it …
///     generation.took(*token, is_end, piece);
///   }
///   result = generation.finish(carry);
///
/// A token allocates nothing once the text of the result has grown to its size.
class TokenLoop {
 public:
  /// `options` and `on_text` must outlive it.
  /// @param vocab_size  logits of a token; 0: the session is empty, which is an error.
  /// @param piece       texts of tokens, which DRY's breakers are found in; empty: there are none
  static Result<TokenLoop> create(const GenerationOptions& options, std::size_t vocab_size,
                                  const GenerationCarry& carry, const TextCallback& on_text,
                                  PieceOf piece = {});

  /// The next token, or none if the generation is over.
  Result<std::optional<TokenId>> choose(std::span<const float> logits,
                                        std::span<const TokenId> generated, std::uint64_t position,
                                        bool stop_requested);

  /// The next token, if the constraint leaves no other and nothing asks for its logits: the same as choose() would give.
  /// None: choose(), if it is not over().
  std::optional<TokenId> forced(bool stop_requested);

  /// Whether another token follows; ends the generation if not.
  Result<bool> goes_on(bool stop_requested);

  bool constrained() const { return walk_.has_value(); }

  /// With a constraint: which tokens may come next. Valid until a token is taken.
  Result<const TokenMask*> mask() { return walk_->mask(); }

  /// The same behind `token`, for which took() follows: before its text is shown, which may take any time.
  Result<const TokenMask*> mask_behind(TokenId token, bool is_end, std::string_view piece);

  /// The model has consumed `token`, whose bytes are `piece`: shows its text.
  void took(TokenId token, bool is_end, std::string_view piece);

  bool over() const { return over_; }
  /// The caller ends it.
  void leave() { end(FinishReason::callback); }

  // For an answer that is settled when it is over.

  /// Whether an end token need not be consumed, and a mark be set before `piece` is.
  bool settles() const { return !options_->answer.follows.empty(); }
  bool wants_mark(std::string_view piece) const;
  std::size_t taken() const { return result_.tokens.size(); }
  /// After finish().
  AnswerRecord take_record();

  /// The result, and what the next generation begins with.
  GenerationResult finish(GenerationCarry& carry);

 private:
  TokenLoop(const GenerationOptions& options, const TextCallback& on_text, Sampler sampler);
  void show(std::string_view text);
  void show_parts(const ThoughtSplitter::Text& parts);
  void finish_answer();
  bool rewrites() const;
  void record(TokenId token, std::size_t bytes);
  bool may_take_more(bool stop_requested);
  void walk(TokenId token, bool is_end, std::string_view piece);
  void end(FinishReason reason);
  void end_text();

  const GenerationOptions* options_;
  const TextCallback* on_text_;
  Sampler sampler_;
  std::optional<ConstraintWalk> walk_;
  bool walked_ = false;       // by the token that took() comes for
  bool forces_ = false;       // forced tokens need no logits
  Utf8Stream characters_;     // bytes → whole characters
  StopDetector detector_;     // → text free of stop strings
  ThoughtSplitter splitter_;  // → thought and answer
  AnswerRecord record_;       // of an answer that is settled
  TokenLogprobs chosen_;      // of the token chosen last, if asked for
  std::vector<float> own_;    // [vocab] the logits that on_logits may change; empty without it
  GenerationResult result_;
  bool refused_ = false;
  bool over_ = false;
};

/// generate() on `source`. Draws a token, lets the source consume it, then shows its text: whatever
/// ends the loop, the source stands after the last token of the result, and `carry` holds what of
/// their text was not shown yet. An answer that is settled need not have consumed its end token.
/// @param record  of an answer that is settled
Result<GenerationResult> run_generation(TokenSource& source, const GenerationOptions& options,
                                        GenerationCarry& carry, const TextCallback& on_text,
                                        const std::stop_token& stop,
                                        AnswerRecord* record = nullptr);

}  // namespace runnel
