// SPDX-License-Identifier: Apache-2.0
// Generating text: stop conditions and the loop; how tokens are drawn is in sampling.h.
//
// Example, in a function that returns a Result:
//   runnel::GenerationOptions options{.sampling = {.temperature = 0.7F, .top_p = 0.95F, .seed = 1},
//                                     .max_tokens = 200};
//   auto show = [](std::string_view text) {
//     std::cout << text;
//     return true;
//   };
//   auto result = runnel::generate(session, options, show);
//   if (!result) return result.error();
//   if (result->reason == runnel::FinishReason::length) std::cout << "…\n";
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "runnel/chat.h"
#include "runnel/constraint.h"
#include "runnel/export.h"
#include "runnel/result.h"
#include "runnel/sampling.h"
#include "runnel/session.h"
#include "runnel/types.h"

namespace runnel {

/// Sees the logits [vocab] from which the next token will be chosen, and may change them:
/// custom constraints (grammars, forbidden words). -inf forbids a token. `generated` are this
/// generation's tokens so far. Called on the generating thread, before bias and penalties.
/// Returning false ends the generation before that token.
using LogitsCallback =
    std::function<bool(std::span<float> logits, std::span<const TokenId> generated)>;

/// Receives text as it comes: whole UTF-8 characters only, never part of a stop string. Returning false stops.
using TextCallback = std::function<bool(std::string_view text)>;

/// Receives what GenerationOptions::logprobs asks for, before the text of the token is shown.
using LogprobsCallback = std::function<void(const TokenLogprobs&)>;

/// When to stop, and how to sample.
struct GenerationOptions {
  SamplingOptions sampling;
  std::uint64_t max_tokens = 256;  ///< most tokens to generate; 0 generates none
  std::vector<std::string> stop;   ///< generation ends before any of these texts; UTF-8, none empty
  bool ignore_end = false;         ///< go on after an end-of-text token
  LogitsCallback on_logits;        ///< empty: the model's logits as they are
  /// For an answer in a chat, by Model::answer_form(): its opening is read first, its stop texts are added to `stop`,
  /// its thought goes to `on_thought`. If it says what follows an answer, the session is left where a reading of the
  /// transcript up to the answer's end would leave it: an end token, what was consumed of a stop text and the thought
  /// are undone (a copy of the state is kept for that), and so is a token that a reading would join with what follows.
  /// Such an answer is complete: a later generate() does not go on with it.
  AnswerForm answer;
  TextCallback on_thought;  ///< empty: the thought is in the result only

  /// Give the log-probability of each token and of the `logprobs` likeliest at its place: 0 to kMostLogprobs, -1: none.
  /// Tokens are then not drawn ahead on the device.
  std::int32_t logprobs = -1;
  /// Those of what was drawn from, after bias, penalties, temperature and what the chain cuts off; else the model's own
  bool logprobs_of_draw = false;
  LogprobsCallback on_logprobs = {};

  /// What the answer must be, compiled for the session's model; null: anything. Tokens that do not fit are left out before
  /// any candidate is chosen, special tokens among them, and the text ends only where it is whole (`ignore_end` is
  /// refused). With `answer` a thought before the answer is free. A generation that was cut goes on where it was, if the
  /// next one has the same constraint. Devices draw ahead as without.
  std::shared_ptr<const Constraint> constraint = {};

  static constexpr std::int32_t kMostLogprobs = 20;
};

/// Why a generation ended.
enum class FinishReason {
  end,        ///< the model produced an end token (consumed by the session)
  stop_text,  ///< a stop string appeared
  length,     ///< max_tokens were generated
  cancelled,  ///< stop was requested
  callback,   ///< a callback returned false
};

struct GenerationResult {
  FinishReason reason = FinishReason::length;
  /// what was generated and consumed by the session, an end token included
  std::vector<TokenId> tokens;
  /// the tokens by which the session stands further than before: `tokens`, or what of the transcript
  /// GenerationOptions::answer leaves; Session::unread_text() is the rest of its text
  std::vector<TokenId> kept;
  std::string text;     ///< all of the text handed to the callback
  std::string thought;  ///< the thought before it, with GenerationOptions::answer
  /// Text after it that was not shown because a stop string may have begun; empty after `end` and
  /// `stop_text`. The next generate() on the same session begins with it. A caller that ends here may show it.
  std::string held_back;
  std::vector<TokenLogprobs> logprobs;  ///< of each of `tokens`, if asked for
};

/// Continues `session` (which must have consumed at least one token) and leaves it after the last
/// generated token. A requested stop leaves it after the last whole token.
/// After another's length, cancel or callback a generation continues exactly as that one would have continued.
/// @return invalid_argument for an option outside its range or an empty session; unsupported for
///         stop strings without a tokenizer; device if the driver failed.
RUNNEL_API Result<GenerationResult> generate(Session& session, const GenerationOptions& options,
                                             const TextCallback& on_text = {},
                                             std::stop_token stop = {});

/// What generate() refuses of `options` on a session of `model` that is not empty: to be asked before anything is read
/// or kept for an answer.
/// @return as generate()
RUNNEL_API Status validate(const Model& model, const GenerationOptions& options);

/// Receives the text of one of several answers, in [0, n); as TextCallback.
using AnswerCallback = std::function<bool(std::size_t answer, std::string_view text)>;

/// Most answers of generate_several().
inline constexpr std::size_t kMostAnswers = 16;

/// `n` continuations of `session`, which stays where it is: what came before is read once, and each pass computes a
/// token of all that go on. Answer i is what generate() gives on a fork with the seed of `options` plus i, but that
/// nothing is drawn ahead. Callbacks of `options` are called for every answer.
/// @param n  1 to kMostAnswers
/// @return as generate(), for each answer; invalid_argument for n; out_of_memory for their states.
/// Uses the session as its const methods do: not while another thread feeds it.
RUNNEL_API Result<std::vector<GenerationResult>> generate_several(
    const Session& session, std::size_t n, const GenerationOptions& options,
    const AnswerCallback& on_text = {}, std::stop_token stop = {});

/// The mean log-probability of a result's tokens, by which the best of several is chosen; 0 if it has none.
RUNNEL_API double mean_logprob(const GenerationResult& result);

/// How generate() draws tokens with these options: "" if the device draws ahead of the text; else why each is drawn on
/// the host before the next is computed: "typ_p is drawn on the host".
RUNNEL_API std::string why_not_drawn_ahead(const Model& model, const GenerationOptions& options);

/// `sampling.logit_bias` of each token of `text` <- itself + `bias`, each token once: as the text is split when it stands
/// alone, so " word" and "word" are different tokens.
/// @return unsupported without a tokenizer; malformed if `text` is not UTF-8; invalid_argument if it is empty
RUNNEL_API Status add_text_bias(const Model& model, std::string_view text, float bias,
                                SamplingOptions& sampling);

/// The constraint of the last generate() on this session, or of the one its snapshot came with, if that was cut before
/// the text was whole: with it generate() goes on where that stopped. Null: there was none.
/// @return as Constraint::compile()
RUNNEL_API Result<std::shared_ptr<const Constraint>> last_constraint(const Session& session);

/// The sampling options of the last generate() on this session, or those its snapshot came with;
/// nothing before that. With them and the same stop strings generate() continues as if it had never stopped.
RUNNEL_API std::optional<SamplingOptions> last_sampling(const Session& session);

}  // namespace runnel
