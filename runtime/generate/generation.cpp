// SPDX-License-Identifier: Apache-2.0
// generate(): the loop on a session.
#include "runnel/generation.h"

#include <new>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/generate/answer_settler.h"
#include "runtime/generate/generation_loop.h"
#include "runtime/generate/session_source.h"
#include "runtime/model/session_impl.h"

namespace runnel {
namespace {

SamplerState to_state(const SamplingOptions& options) {
  return {.seed = options.seed,
          .temperature = options.temperature,
          .top_k = options.top_k,
          .top_p = options.top_p,
          .min_p = options.min_p,
          .repetition_penalty = options.repetition_penalty,
          .presence_penalty = options.presence_penalty,
          .frequency_penalty = options.frequency_penalty,
          .penalty_window = options.penalty_window,
          .dry = {.multiplier = options.dry_multiplier,
                  .base = options.dry_base,
                  .allowed_length = options.dry_allowed_length,
                  .range = options.dry_range,
                  .breakers = options.dry_breakers},
          .logit_bias = {options.logit_bias.begin(), options.logit_bias.end()}};
}

SamplingOptions to_options(const SamplerState& state) {
  return {.temperature = state.temperature,
          .top_k = state.top_k,
          .top_p = state.top_p,
          .min_p = state.min_p,
          .repetition_penalty = state.repetition_penalty,
          .presence_penalty = state.presence_penalty,
          .frequency_penalty = state.frequency_penalty,
          .penalty_window = state.penalty_window,
          .dry_multiplier = state.dry.multiplier,
          .dry_base = state.dry.base,
          .dry_allowed_length = state.dry.allowed_length,
          .dry_range = state.dry.range,
          .dry_breakers = state.dry.breakers,
          .logit_bias = {state.logit_bias.begin(), state.logit_bias.end()},
          .seed = state.seed};
}

}  // namespace

std::optional<SamplingOptions> last_sampling(const Session& session) {
  const std::optional<SamplerState>& state = session.impl().sampler();
  return state ? std::optional(to_options(*state)) : std::nullopt;
}

Status check_stop_strings(const Model& model, const GenerationOptions& options) {
  const AnswerForm& form = options.answer;
  const bool text =
      !options.stop.empty() || !form.stop.empty() || !form.opening.empty() || !form.follows.empty();
  if (!text || model.has_tokenizer()) return {};
  return fail(ErrorCode::unsupported,
              "stop strings need a tokenizer, and the model's file has none");
}

void keep_after_generation(Session& session, const GenerationOptions& options,
                           GenerationCarry carry) {
  session.impl().keep_generation(to_state(options.sampling), std::move(carry));
}

Result<GenerationResult> generate(Session& session, const GenerationOptions& options,
                                  const TextCallback& on_text, std::stop_token stop) try {
  RUNNEL_CHECK_OK(check_stop_strings(session.model(), options));
  GenerationCarry carry = session.impl().carry();
  RUNNEL_TRY(AnswerSettler settler, AnswerSettler::begin(session, options.answer));
  SessionSource source(session, &settler);
  AnswerRecord record;
  RUNNEL_TRY(GenerationResult result,
             run_generation(source, options, carry, on_text, stop, &record));
  RUNNEL_CHECK_OK(source.settle());
  if (!options.answer.follows.empty()) {
    RUNNEL_TRY(TranscriptEnd end, settler.settle(session, record));
    result.kept = std::move(end.tokens);
    carry.unread = std::move(end.unread);
  }
  keep_after_generation(session, options, std::move(carry));
  return result;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "generate: not enough memory for ", options.max_tokens,
              " tokens");
}

}  // namespace runnel
