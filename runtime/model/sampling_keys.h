// SPDX-License-Identifier: Apache-2.0
// `general.sampling.*` keys of a model file: how its authors would draw from it.
#pragma once

#include <string_view>

#include "runnel/result.h"
#include "runnel/sampling.h"
#include "runtime/io/gguf.h"

namespace runnel {

/// What chats start from where the file says nothing: the only place with such numbers, chosen by tests/bench/chats.
SamplingOptions default_sampling();

/// What the file recommends: its keys, and what it does not name off, at default_sampling()'s temperature; default_sampling() if it
/// has none of the keys.
/// @return malformed, naming a key of another type or a value outside the range of its option.
Result<SamplingOptions> sampling_from_gguf(const GgufFile& file);

/// Checks "temp=0.7" and gives the key to `writer`: the names are those of the keys without "general.sampling.", the value
/// of dry_sequence_breakers is a JSON array of texts. For programs that make model files.
/// @return invalid_argument for an unknown name or a value that is none
Status set_sampling_key(std::string_view assignment, GgufWriter& writer);

// The keys: llama.cpp's names where it has them; those of DRY are its options'.
inline constexpr std::string_view kSamplingPrefix = "general.sampling.";
inline constexpr const char* kSamplingBreakers = "general.sampling.dry_sequence_breakers";

struct SamplingFloat {
  const char* key;
  float SamplingOptions::*member;
};
inline constexpr SamplingFloat kSamplingFloats[] = {
    {"general.sampling.temp", &SamplingOptions::temperature},
    {"general.sampling.top_p", &SamplingOptions::top_p},
    {"general.sampling.min_p", &SamplingOptions::min_p},
    {"general.sampling.penalty_repeat", &SamplingOptions::repetition_penalty},
    {"general.sampling.penalty_present", &SamplingOptions::presence_penalty},
    {"general.sampling.penalty_freq", &SamplingOptions::frequency_penalty},
    {"general.sampling.dry_multiplier", &SamplingOptions::dry_multiplier},
    {"general.sampling.dry_base", &SamplingOptions::dry_base},
    {"general.sampling.xtc_probability", &SamplingOptions::xtc_probability},
    {"general.sampling.xtc_threshold", &SamplingOptions::xtc_threshold},
    {"general.sampling.mirostat_tau", &SamplingOptions::mirostat_tau},
    {"general.sampling.mirostat_eta", &SamplingOptions::mirostat_eta},
};

struct SamplingInt {
  const char* key;
  std::int32_t SamplingOptions::*member;
  bool window;  // -1 is as far as can be looked back
};
inline constexpr SamplingInt kSamplingInts[] = {
    {"general.sampling.top_k", &SamplingOptions::top_k, false},
    {"general.sampling.mirostat", &SamplingOptions::mirostat, false},
    {"general.sampling.penalty_last_n", &SamplingOptions::penalty_window, true},
    {"general.sampling.dry_allowed_length", &SamplingOptions::dry_allowed_length, false},
    {"general.sampling.dry_penalty_last_n", &SamplingOptions::dry_range, true},
};

}  // namespace runnel
