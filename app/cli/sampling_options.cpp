// SPDX-License-Identifier: Apache-2.0
#include "app/cli/sampling_options.h"

#include <charconv>
#include <cstdlib>

#include "runtime/base/try.h"

namespace runnel::cli {
namespace {

constexpr const char* kGroup = "Generation";

Status apply_logit_bias(const std::string& text, SamplingOptions& sampling) {
  const std::size_t equals = text.find('=');
  TokenId token = 0;
  if (equals != std::string::npos) {
    const char* end = text.data() + equals;
    const auto [id_end, id_error] = std::from_chars(text.data(), end, token);
    char* value_end = nullptr;
    const char* value = end + 1;
    const float bias = std::strtof(value, &value_end);
    if (id_error == std::errc() && id_end == end && value_end != value && *value_end == '\0') {
      sampling.logit_bias[token] = bias;
      return {};
    }
  }
  return fail(ErrorCode::invalid_argument, "--logit-bias is \"", text,
              "\", expected ID=VALUE such as 42=-1.5 or 42=-inf");
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
  add("--seed", s.seed, "Same seed, same text", "SEED");
  // One value each, so that an option never swallows what follows it.
  parser
      .add_option("--logit-bias", choice.logit_bias,
                  "Add VALUE to the logit of token ID (-inf forbids it); repeatable")
      ->group(kGroup)
      ->type_name("ID=VALUE")
      ->allow_extra_args(false);
}

Result<GenerationOptions> generation_options(const GenerationChoice& choice) {
  GenerationOptions options = choice.options;
  for (const std::string& bias : choice.logit_bias)
    RUNNEL_CHECK_OK(apply_logit_bias(bias, options.sampling));
  RUNNEL_CHECK_OK(validate(options.sampling));
  return options;
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
  keep("--logit-bias", &SamplingOptions::logit_bias);
  keep("--seed", &SamplingOptions::seed);
}

void show_model_defaults(CLI::App& parser) {
  for (const char* name :
       {"--temp", "--top-k", "--top-p", "--min-p", "--repeat-penalty", "--presence-penalty",
        "--frequency-penalty", "--penalty-window", "--dry-multiplier", "--dry-base",
        "--dry-allowed-length", "--dry-range"}) {
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
  RUNNEL_CHECK_OK(validate(options.sampling));
  return options;
}

}  // namespace runnel::cli
