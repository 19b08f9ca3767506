// SPDX-License-Identifier: Apache-2.0
// `general.sampling.*` keys of a model file: how its authors would draw from it.
#pragma once

#include <string_view>

#include "runnel/result.h"
#include "runnel/sampling.h"
#include "runtime/io/gguf.h"

namespace runnel {

/// What chats start from where the file says nothing: the only place with such numbers.
SamplingOptions default_sampling();

/// What the file recommends: its keys, and what it does not name off, at a temperature of 0.7; default_sampling() if it
/// has none of the keys.
/// @return malformed, naming a key of another type or a value outside the range of its option.
Result<SamplingOptions> sampling_from_gguf(const GgufFile& file);

/// Checks "temp=0.7" and gives the key to `writer`: the names are those of the keys without "general.sampling.".
/// @return invalid_argument for an unknown name or a value that is none
Status set_sampling_key(std::string_view assignment, GgufWriter& writer);

/// The names that set_sampling_key() knows, for help.
std::string_view sampling_key_names();

}  // namespace runnel
