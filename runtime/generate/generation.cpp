// SPDX-License-Identifier: Apache-2.0
// generate(): the loop on a session.
#include "runnel/generation.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/try.h"
#include "runtime/generate/answer_settler.h"
#include "runtime/generate/generation_loop.h"
#include "runtime/generate/session_source.h"
#include "runtime/model/session_impl.h"
#include "runtime/sampling/device_draws.h"
#include "runtime/sampling/sampler.h"

namespace runnel {
namespace {

std::vector<std::uint8_t> numbers(const std::vector<ChainSampler>& order) {
  std::vector<std::uint8_t> numbers;
  numbers.reserve(order.size());
  for (const ChainSampler sampler : order) numbers.push_back(static_cast<std::uint8_t>(sampler));
  return numbers;
}

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
          .chain = {.top_n_sigma = options.top_n_sigma,
                    .typical_p = options.typical_p,
                    .xtc_probability = options.xtc_probability,
                    .xtc_threshold = options.xtc_threshold,
                    .dynatemp_range = options.dynatemp_range,
                    .dynatemp_exponent = options.dynatemp_exponent,
                    .mirostat = options.mirostat,
                    .mirostat_tau = options.mirostat_tau,
                    .mirostat_eta = options.mirostat_eta,
                    .no_repeat_ngram = options.no_repeat_ngram,
                    .banned_texts = options.banned_texts,
                    .order = numbers(options.order)},
          .logit_bias = {options.logit_bias.begin(), options.logit_bias.end()}};
}

SamplingOptions to_options(const SamplerState& state) {
  const SamplerState::Chain& chain = state.chain;
  std::vector<ChainSampler> order;
  for (const std::uint8_t number : chain.order)
    order.push_back(static_cast<ChainSampler>(number));  // validate() refuses what is none
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
          .seed = state.seed,
          .top_n_sigma = chain.top_n_sigma,
          .typical_p = chain.typical_p,
          .xtc_probability = chain.xtc_probability,
          .xtc_threshold = chain.xtc_threshold,
          .dynatemp_range = chain.dynatemp_range,
          .dynatemp_exponent = chain.dynatemp_exponent,
          .mirostat = chain.mirostat,
          .mirostat_tau = chain.mirostat_tau,
          .mirostat_eta = chain.mirostat_eta,
          .no_repeat_ngram = chain.no_repeat_ngram,
          .banned_texts = chain.banned_texts,
          .order = std::move(order)};
}

}  // namespace

std::string why_not_drawn_ahead(const Model& model, const GenerationOptions& options) {
  const std::string_view device = model.info().device;
  const bool cuda = device.starts_with("cuda");
  if (!cuda && !device.starts_with("vulkan")) return std::string(device) + " draws on the host";
  if (options.on_logits) return "a callback sees the logits";
  if (options.logprobs >= 0) return "log-probabilities are asked for";
  return why_not_ahead(options.sampling, cuda ? DrawDevice::cuda : DrawDevice::vulkan);
}

Status add_text_bias(const Model& model, std::string_view text, float bias,
                     SamplingOptions& sampling) {
  if (text.empty())
    return fail(ErrorCode::invalid_argument, "a logit bias has an empty text, expected some");
  RUNNEL_TRY(std::vector<TokenId> tokens, model.encode(text));
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (const TokenId token : tokens) sampling.logit_bias[token] += bias;
  return {};
}

std::optional<SamplingOptions> last_sampling(const Session& session) {
  const std::optional<SamplerState>& state = impl_of(session).sampler();
  return state ? std::optional(to_options(*state)) : std::nullopt;
}

Result<std::shared_ptr<const Constraint>> last_constraint(const Session& session) {
  const std::optional<ConstraintState>& state = impl_of(session).carry().constraint;
  if (!state) return std::shared_ptr<const Constraint>();
  RUNNEL_TRY(std::shared_ptr<const Constraint> made,
             Constraint::compile(session.model(), {.kind = static_cast<ConstraintKind>(state->kind),
                                                   .text = state->source,
                                                   .strict = state->strict}));
  if (made->hash() != state->hash) {
    return fail(ErrorCode::malformed, "constraint: its hash is ", hexadecimal(made->hash()),
                ", the session has ", hexadecimal(state->hash));
  }
  return made;
}

Status check_for_model(const Model& model, const GenerationOptions& options) {
  if (options.constraint != nullptr &&
      options.constraint->model_fingerprint() != model.info().fingerprint) {
    return fail(ErrorCode::mismatch, "constraint: was compiled for the model with fingerprint ",
                hexadecimal(options.constraint->model_fingerprint()), ", this one has ",
                hexadecimal(model.info().fingerprint));
  }
  const AnswerForm& form = options.answer;
  const bool stops =
      !options.stop.empty() || !form.stop.empty() || !form.opening.empty() || !form.follows.empty();
  if (model.has_tokenizer() || (!stops && options.sampling.banned_texts.empty())) return {};
  return fail(ErrorCode::unsupported, stops ? "stop strings" : "banned texts",
              " need a tokenizer, and the model's file has none");
}

Status validate(const Model& model, const GenerationOptions& options) {
  RUNNEL_CHECK_OK(check_for_model(model, options));
  RUNNEL_CHECK_OK(check_options(options));
  return validate(options.sampling, static_cast<std::int32_t>(model.info().vocab_size));
}

void keep_after_generation(Session& session, const GenerationOptions& options,
                           GenerationCarry carry) {
  impl_of(session).keep_generation(to_state(options.sampling), std::move(carry));
}

Result<GenerationResult> generate(Session& session, const GenerationOptions& options,
                                  const TextCallback& on_text, std::stop_token stop) try {
  RUNNEL_CHECK_OK(check_for_model(session.model(), options));
  RUNNEL_CHECK_OK(impl_of(session).catch_up());
  GenerationCarry carry = impl_of(session).carry();
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
