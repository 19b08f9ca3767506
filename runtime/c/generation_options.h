// SPDX-License-Identifier: Apache-2.0
// Options and results of generations between C and C++; each library that has functions of the C API has its own copy.
#pragma once

#include <stop_token>

#include "runnel/generation.h"
#include "runtime/c/support.h"

namespace runnel::c {

runnel_generation_options default_options();

/// o <- all of `s` but its bias and its seed; `texts` are those of `s`.
void put_sampling(const SamplingOptions& s, const SamplingTexts& texts,
                  runnel_generation_options& o);

/// What the caller set, and the defaults for what its header lacks.
Result<runnel_generation_options> known_options(const runnel_generation_options* options);

/// All but on_text and stop.
Result<GenerationOptions> to_options(const runnel_generation_options& o, const Model& model);

TextCallback text_callback(const runnel_generation_options& o);

inline std::stop_token stop_of(const runnel_stop* stop) {
  return stop != nullptr ? stop->source.get_token() : std::stop_token();
}

/// The room that the caller gives.
Result<runnel_generation_result> known_result(const runnel_generation_result* result);

/// result <- `done`, with the room that `out` names. Nothing if it is null.
void put_result(const GenerationResult& done, runnel_generation_result out,
                runnel_generation_result* result);

}  // namespace runnel::c
