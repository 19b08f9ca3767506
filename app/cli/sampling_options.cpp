// SPDX-License-Identifier: Apache-2.0
#include "app/cli/sampling_options.h"

#include <charconv>
#include <cstdlib>
#include <utility>

#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

constexpr const char* kGroup = "Generation";

// One --logit-bias: ID=VALUE, as llama.cpp has it ID+VALUE or ID-VALUE, or "TEXT"=VALUE.
struct Bias {
  std::optional<TokenId> token;  // none: of `text`
  std::string text;
  float value = 0.0F;
};

std::optional<float> parse_float(const std::string& text) {
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' ? std::optional(value) : std::nullopt;
}

Result<Bias> parse_logit_bias(const std::string& text) {
  Bias bias;
  const std::size_t quote = text.rfind("\"=");
  if (text.size() > 1 && text[0] == '"' && quote != std::string::npos && quote > 1) {
    bias.text = text.substr(1, quote - 1);
    if (const auto value = parse_float(text.substr(quote + 2))) {
      bias.value = *value;
      return bias;
    }
  }
  TokenId token = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), token);
  const auto sign = static_cast<std::size_t>(end - text.data());
  if (error == std::errc() && sign + 1 < text.size()) {
    const std::string rest = text.substr(sign + 1);
    const bool signed_again = rest[0] == '+' || rest[0] == '-';
    const auto value = parse_float(rest);
    if (value && (text[sign] == '=' || ((text[sign] == '+' || text[sign] == '-') && !signed_again)))
      return Bias{.token = token, .text = {}, .value = text[sign] == '-' ? -*value : *value};
  }
  return fail(ErrorCode::invalid_argument, "--logit-bias is \"", text,
              "\", expected ID=VALUE such as 42=-1.5 or 42=-inf, ID+VALUE, ID-VALUE, or a text in "
              "double quotes and =VALUE");
}

// The samplers beyond those that are in every program.
void add_chain_options(CLI::App& parser, GenerationChoice& choice) {
  SamplingOptions& s = choice.options.sampling;
  const auto add = [&](const char* name, auto& value, const char* help, const char* type) {
    return parser.add_option(name, value, help)
        ->group(kGroup)
        ->type_name(type)
        ->capture_default_str();
  };
  add("--top-nsigma,--top-n-sigma", s.top_n_sigma,
      "Draw among tokens whose logit is within N standard deviations of the largest; 0 is off",
      "N");
  add("--typical", s.typical_p,
      "Draw among the tokens nearest to the usual surprise whose probability reaches P; 1 is off",
      "P");
  add("--xtc-probability", s.xtc_probability,
      "How often the top choices but the least likely of them are left out (XTC); 0 is off", "P");
  add("--xtc-threshold", s.xtc_threshold, "Tokens at least as likely are XTC's top choices", "P");
  add("--dynatemp-range", s.dynatemp_range,
      "Temperature from T - X to T + X by the entropy of what is left; 0 is off", "X");
  add("--dynatemp-exp", s.dynatemp_exponent, "Exponent of that entropy", "X");
  add("--mirostat", s.mirostat, "2: Mirostat 2.0 in place of the samplers that cut; 0 is off", "N");
  add("--mirostat-ent", s.mirostat_tau, "Surprise that Mirostat aims at, in bits", "BITS");
  add("--mirostat-lr", s.mirostat_eta, "How fast Mirostat follows", "X");
  add("--no-repeat-ngram", s.no_repeat_ngram,
      "No N generated tokens follow one another a second time; 0 is off", "N");
  parser
      .add_option("--ban-text", s.banned_texts,
                  "Text that is never generated, whatever tokens it is made of; repeatable")
      ->group(kGroup)
      ->type_name("TEXT")
      ->allow_extra_args(false);
  parser
      .add_option("--samplers", choice.samplers,
                  "Order of the samplers; what is not named is off. Without this option: "
                  "penalties;dry;top_n_sigma;temperature;top_k;typ_p;top_p;min_p;xtc")
      ->group(kGroup)
      ->type_name("NAMES");
}

}  // namespace

void add_generation_options(CLI::App& parser, GenerationChoice& choice) {
  GenerationOptions& g = choice.options;
  parser.add_option("-n,--max-tokens", g.max_tokens, "Most tokens to generate")
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  add_sampling_options(parser, choice);
  parser.add_option("--stop", g.stop, "End before this text; repeatable")
      ->group(kGroup)
      ->type_name("TEXT")
      ->allow_extra_args(false);
  parser
      .add_flag("--ignore-end", g.ignore_end, "Go on after the model says that its text has ended")
      ->group(kGroup);
}

void add_sampling_options(CLI::App& parser, GenerationChoice& choice) {
  SamplingOptions& s = choice.options.sampling;
  const auto add = [&](const char* name, auto& value, const char* help, const char* type) {
    return parser.add_option(name, value, help)
        ->group(kGroup)
        ->type_name(type)
        ->capture_default_str();
  };
  add("--temp", s.temperature,
      "Temperature: 0 takes the likeliest token, 1 draws as the model says", "T");
  add("--top-k", s.top_k, "Draw among the K likeliest tokens, 0 for all", "K");
  add("--top-p", s.top_p, "Draw among the fewest tokens whose probability reaches P", "P");
  add("--min-p", s.min_p, "Leave out tokens less likely than P times the likeliest", "P");
  add("--repeat-penalty", s.repetition_penalty,
      "Weaken the logits of generated tokens by this factor; 1 is none", "X");
  add("--presence-penalty", s.presence_penalty, "Subtract from the logit of each generated token",
      "X");
  add("--frequency-penalty", s.frequency_penalty, "Subtract for each time a token was generated",
      "X");
  add("--penalty-window", s.penalty_window, "How many generated tokens the penalties see", "N");
  add("--dry-multiplier", s.dry_multiplier,
      "Weaken what would go on with a repetition (DRY); 0 is off, 0.8 is usual", "X");
  add("--dry-base", s.dry_base, "DRY grows by this factor with each repeated token", "X");
  add("--dry-allowed-length", s.dry_allowed_length, "Tokens that may be repeated before DRY", "N");
  add("--dry-range", s.dry_range, "How many generated tokens DRY sees", "N");
  parser
      .add_option_function<std::vector<std::string>>(
          "--dry-breaker",
          [&s](const std::vector<std::string>& texts) {
            s.dry_breakers = texts;
            std::erase(s.dry_breakers, "");
          },
          "Text that DRY does not look across; repeatable, in place of line ends, : \" and *; "
          "\"\" for none")
      ->group(kGroup)
      ->type_name("TEXT")
      ->allow_extra_args(false);
  add_chain_options(parser, choice);
  add("--seed", s.seed, "Same seed, same text", "SEED");
  // One value each, so that an option never swallows what follows it.
  parser
      .add_option(
          "--logit-bias", choice.logit_bias,
          "Add VALUE to the logit of token ID (-inf forbids it), or of each token of a text "
          "in double quotes; repeatable")
      ->group(kGroup)
      ->type_name("ID=VALUE")
      ->allow_extra_args(false);
}

Result<GenerationOptions> generation_options(const GenerationChoice& choice) {
  GenerationOptions options = choice.options;
  for (const std::string& text : choice.logit_bias) {
    RUNNEL_TRY(const Bias bias, parse_logit_bias(text));
    if (bias.token) options.sampling.logit_bias[*bias.token] = bias.value;
  }
  if (!choice.samplers.empty()) {
    Result<std::vector<ChainSampler>> order = parse_sampler_order(choice.samplers);
    if (!order) return with_context(std::move(order).error(), "--samplers: ");
    options.sampling.order = *std::move(order);
  }
  RUNNEL_CHECK_OK(validate(options.sampling));
  return options;
}

Status add_text_biases(const GenerationChoice& choice, const Model& model,
                       SamplingOptions& sampling) {
  for (const std::string& text : choice.logit_bias) {
    RUNNEL_TRY(const Bias bias, parse_logit_bias(text));
    if (!bias.token) RUNNEL_CHECK_OK(add_text_bias(model, bias.text, bias.value, sampling));
  }
  return {};
}

void keep_given_options(const CLI::App& parser, const std::optional<SamplingOptions>& kept,
                        SamplingOptions& sampling) {
  if (!kept) return;
  const SamplingOptions given = sampling;
  sampling = *kept;
  const auto keep = [&](const char* name, auto SamplingOptions::*member) {
    if (parser.count(name) > 0) sampling.*member = given.*member;
  };
  keep("--temp", &SamplingOptions::temperature);
  keep("--top-k", &SamplingOptions::top_k);
  keep("--top-p", &SamplingOptions::top_p);
  keep("--min-p", &SamplingOptions::min_p);
  keep("--repeat-penalty", &SamplingOptions::repetition_penalty);
  keep("--presence-penalty", &SamplingOptions::presence_penalty);
  keep("--frequency-penalty", &SamplingOptions::frequency_penalty);
  keep("--penalty-window", &SamplingOptions::penalty_window);
  keep("--dry-multiplier", &SamplingOptions::dry_multiplier);
  keep("--dry-base", &SamplingOptions::dry_base);
  keep("--dry-allowed-length", &SamplingOptions::dry_allowed_length);
  keep("--dry-range", &SamplingOptions::dry_range);
  keep("--dry-breaker", &SamplingOptions::dry_breakers);
  keep("--top-nsigma", &SamplingOptions::top_n_sigma);
  keep("--typical", &SamplingOptions::typical_p);
  keep("--xtc-probability", &SamplingOptions::xtc_probability);
  keep("--xtc-threshold", &SamplingOptions::xtc_threshold);
  keep("--dynatemp-range", &SamplingOptions::dynatemp_range);
  keep("--dynatemp-exp", &SamplingOptions::dynatemp_exponent);
  keep("--mirostat", &SamplingOptions::mirostat);
  keep("--mirostat-ent", &SamplingOptions::mirostat_tau);
  keep("--mirostat-lr", &SamplingOptions::mirostat_eta);
  keep("--no-repeat-ngram", &SamplingOptions::no_repeat_ngram);
  keep("--ban-text", &SamplingOptions::banned_texts);
  keep("--samplers", &SamplingOptions::order);
  keep("--logit-bias", &SamplingOptions::logit_bias);
  keep("--seed", &SamplingOptions::seed);
}

void show_model_defaults(CLI::App& parser) {
  for (const char* name :
       {"--temp", "--top-k", "--top-p", "--min-p", "--repeat-penalty", "--presence-penalty",
        "--frequency-penalty", "--penalty-window", "--dry-multiplier", "--dry-base",
        "--dry-allowed-length", "--dry-range", "--xtc-probability", "--xtc-threshold", "--mirostat",
        "--mirostat-ent", "--mirostat-lr"}) {
    parser.get_option(name)->default_str("the model's");
  }
}

Result<GenerationOptions> model_generation_options(const CLI::App& parser,
                                                   const GenerationChoice& choice,
                                                   const Model& model) {
  RUNNEL_TRY(GenerationOptions options, generation_options(choice));
  SamplingOptions recommended = model.sampling();
  recommended.seed = options.sampling.seed;
  keep_given_options(parser, recommended, options.sampling);
  RUNNEL_CHECK_OK(add_text_biases(choice, model, options.sampling));
  RUNNEL_CHECK_OK(validate(options.sampling));
  return options;
}

}  // namespace runnel::cli
