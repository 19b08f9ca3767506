// SPDX-License-Identifier: Apache-2.0
// Options of chat and run that say how text is generated.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runnel/generation.h"
#include "runnel/model.h"
#include "runnel/result.h"

namespace runnel::cli {

/// What the command line says, on top of the defaults it starts from.
struct GenerationChoice {
  GenerationOptions options;
  std::vector<std::string> logit_bias;  // "ID=VALUE" or "\"TEXT\"=VALUE", see parse_logit_bias
  std::string samplers;                 // "top_k;temperature"; empty: the usual order
};

/// Adds -n, --temp, --top-k, --top-p, --min-p, the penalties, DRY's options, the other samplers' and their order, --logit-bias, --seed, --stop and
/// --ignore-end. `choice.options` holds the defaults that help shows.
void add_generation_options(CLI::App& parser, GenerationChoice& choice);

/// Adds only those of them that say how a token is drawn: from --temp to --logit-bias.
void add_sampling_options(CLI::App& parser, GenerationChoice& choice);

/// The options as parsed, without the biases of texts.
/// @return invalid_argument for a bias that is none, an unknown sampler or an option outside its range.
Result<GenerationOptions> generation_options(const GenerationChoice& choice);

/// Adds the biases of texts. After keep_given_options().
/// @return as runnel::add_text_bias()
Status add_text_biases(const GenerationChoice& choice, const Model& model,
                       SamplingOptions& sampling);

/// sampling <- `kept` (if there is any), except for what the command line gave: how a loaded snapshot goes on.
void keep_given_options(const CLI::App& parser, const std::optional<SamplingOptions>& kept,
                        SamplingOptions& sampling);

/// Makes help say that the sampling options' defaults are the model's, as model_generation_options() has it.
void show_model_defaults(CLI::App& parser);

/// The options as parsed on top of what the model recommends; the seed as parsed.
/// @return as generation_options()
Result<GenerationOptions> model_generation_options(const CLI::App& parser,
                                                   const GenerationChoice& choice,
                                                   const Model& model);

}  // namespace runnel::cli
