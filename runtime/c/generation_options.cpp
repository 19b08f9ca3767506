// SPDX-License-Identifier: Apache-2.0
#include "runtime/c/generation_options.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace runnel::c {
namespace {

// Before the members of DRY came.
constexpr std::size_t kLeastOptions = offsetof(runnel_generation_options, dry_multiplier);

}  // namespace

void put_sampling(const SamplingOptions& s, const SamplingTexts& texts,
                  runnel_generation_options& o) {
  const std::span<const char* const> breakers = texts.breakers.pointers();
  const std::span<const char* const> banned = texts.banned.pointers();
  o.temperature = s.temperature;
  o.top_k = s.top_k;
  o.top_p = s.top_p;
  o.min_p = s.min_p;
  o.repetition_penalty = s.repetition_penalty;
  o.presence_penalty = s.presence_penalty;
  o.frequency_penalty = s.frequency_penalty;
  o.penalty_window = s.penalty_window;
  o.dry_multiplier = s.dry_multiplier;
  o.dry_base = s.dry_base;
  o.dry_allowed_length = s.dry_allowed_length;
  o.dry_range = s.dry_range;
  o.dry_breakers = breakers.data();
  o.dry_breaker_count = breakers.size();
  o.top_n_sigma = s.top_n_sigma;
  o.typical_p = s.typical_p;
  o.xtc_probability = s.xtc_probability;
  o.xtc_threshold = s.xtc_threshold;
  o.dynatemp_range = s.dynatemp_range;
  o.dynatemp_exponent = s.dynatemp_exponent;
  o.mirostat = s.mirostat;
  o.mirostat_tau = s.mirostat_tau;
  o.mirostat_eta = s.mirostat_eta;
  o.no_repeat_ngram = s.no_repeat_ngram;
  o.banned_texts = banned.data();
  o.banned_text_count = banned.size();
  o.samplers = texts.order.empty() ? nullptr : texts.order.c_str();
}

runnel_generation_options default_options() {
  runnel_generation_options o{};
  const GenerationOptions d;
  o.size = sizeof(o);
  o.max_tokens = d.max_tokens;
  o.seed = d.sampling.seed;
  put_sampling(d.sampling, SamplingTexts(), o);  // no text is banned, the order is the usual one
  o.dry_breakers = SamplingOptions::kDryBreakers;
  o.dry_breaker_count = std::size(SamplingOptions::kDryBreakers);
  return o;
}

Result<runnel_generation_options> known_options(const runnel_generation_options* options) {
  return known_struct(options, default_options(), kLeastOptions, "runnel_generation_options");
}

Result<GenerationOptions> to_options(const runnel_generation_options& o, const Model& model) {
  GenerationOptions wanted{.sampling = {.temperature = o.temperature,
                                        .top_k = o.top_k,
                                        .top_p = o.top_p,
                                        .min_p = o.min_p,
                                        .repetition_penalty = o.repetition_penalty,
                                        .presence_penalty = o.presence_penalty,
                                        .frequency_penalty = o.frequency_penalty,
                                        .penalty_window = o.penalty_window,
                                        .dry_multiplier = o.dry_multiplier,
                                        .dry_base = o.dry_base,
                                        .dry_allowed_length = o.dry_allowed_length,
                                        .dry_range = o.dry_range,
                                        .dry_breakers = {},
                                        .logit_bias = {},
                                        .seed = o.seed,
                                        .top_n_sigma = o.top_n_sigma,
                                        .typical_p = o.typical_p,
                                        .xtc_probability = o.xtc_probability,
                                        .xtc_threshold = o.xtc_threshold,
                                        .dynatemp_range = o.dynatemp_range,
                                        .dynatemp_exponent = o.dynatemp_exponent,
                                        .mirostat = o.mirostat,
                                        .mirostat_tau = o.mirostat_tau,
                                        .mirostat_eta = o.mirostat_eta,
                                        .no_repeat_ngram = o.no_repeat_ngram},
                           .max_tokens = o.max_tokens,
                           .stop = {},
                           .ignore_end = o.ignore_end,
                           .on_logits = {}};
  RUNNEL_TRY(const std::span<const runnel_logit_bias> biases,
             span_of(o.logit_bias, o.logit_bias_count, "logit_bias"));
  for (const runnel_logit_bias& b : biases) wanted.sampling.logit_bias[b.token] = b.bias;
  RUNNEL_TRY(const std::span<const char* const> breakers,
             span_of(o.dry_breakers, o.dry_breaker_count, "dry_breakers"));
  for (const char* text : breakers) {
    RUNNEL_CHECK_OK(check_not_null(text, "a breaker of DRY"));
    wanted.sampling.dry_breakers.emplace_back(text);
  }
  RUNNEL_TRY(const std::span<const char* const> banned,
             span_of(o.banned_texts, o.banned_text_count, "banned_texts"));
  for (const char* text : banned) {
    RUNNEL_CHECK_OK(check_not_null(text, "a banned text"));
    wanted.sampling.banned_texts.emplace_back(text);
  }
  if (o.samplers != nullptr) {
    RUNNEL_TRY(wanted.sampling.order, parse_sampler_order(o.samplers));
  }
  RUNNEL_TRY(const std::span<const runnel_text_bias> text_biases,
             span_of(o.text_bias, o.text_bias_count, "text_bias"));
  for (const runnel_text_bias& b : text_biases) {
    RUNNEL_CHECK_OK(check_not_null(b.text, "the text of a bias"));
    RUNNEL_CHECK_OK(add_text_bias(model, b.text, b.bias, wanted.sampling));
  }
  RUNNEL_TRY(const std::span<const char* const> stops,
             span_of(o.stop_texts, o.stop_text_count, "stop_texts"));
  for (const char* text : stops) {
    RUNNEL_CHECK_OK(check_not_null(text, "a stop text"));
    wanted.stop.emplace_back(text);
  }
  if (o.constraint != nullptr) wanted.constraint = o.constraint->constraint;
  if (o.on_logits != nullptr) {
    wanted.on_logits = [call = o.on_logits, user = o.user](std::span<float> logits,
                                                           std::span<const TokenId> tokens) {
      return call(logits.data(), logits.size(), tokens.data(), tokens.size(), user);
    };
  }
  if (o.on_logprobs == nullptr && (o.logprobs != 0 || o.logprobs_of_draw)) {
    return fail(ErrorCode::invalid_argument, "logprobs is ", o.logprobs,
                ", but there is no on_logprobs to receive them");
  }
  if (o.on_logprobs != nullptr) {
    wanted.logprobs = o.logprobs;
    wanted.logprobs_of_draw = o.logprobs_of_draw;
    wanted.on_logprobs = [call = o.on_logprobs, user = o.user](const TokenLogprobs& at) {
      const auto to_c = [](const TokenLogprob& one) {
        return runnel_token_logprob{.token = one.token, .logprob = one.logprob};
      };
      const runnel_token_logprob chosen = to_c(at.chosen);
      std::vector<runnel_token_logprob> top;
      for (const TokenLogprob& one : at.top) top.push_back(to_c(one));
      call(&chosen, top.data(), top.size(), user);
    };
  }
  return wanted;
}

TextCallback text_callback(const runnel_generation_options& o) {
  if (o.on_text == nullptr) return {};
  return [call = o.on_text, user = o.user](std::string_view text) {
    return call(text.data(), text.size(), user);
  };
}

Result<runnel_generation_result> known_result(const runnel_generation_result* result) {
  return known_struct(result, runnel_generation_result{}, sizeof(runnel_generation_result),
                      "runnel_generation_result");
}

void put_result(const GenerationResult& done, runnel_generation_result out,
                runnel_generation_result* result) {
  if (result == nullptr) return;
  out.finish = static_cast<int32_t>(done.reason);
  out.token_count = done.tokens.size();
  out.text_bytes = done.text.size();
  out.held_back_bytes = done.held_back.size();
  if (out.tokens != nullptr) {
    std::copy_n(done.tokens.begin(), std::min(done.tokens.size(), out.token_capacity), out.tokens);
  }
  if (out.held_back != nullptr) {
    std::copy_n(done.held_back.begin(), std::min(done.held_back.size(), out.held_back_capacity),
                out.held_back);
  }
  fill_struct(result, out);
}

}  // namespace runnel::c
