// SPDX-License-Identifier: Apache-2.0
// Fewer window slots than a model's file has: the choice at load.
#pragma once

#include <cstdint>
#include <optional>

#include "runnel/result.h"
#include "runtime/model/model_file.h"

namespace runnel {

/// Window slots of the layer that has most of them; 0: no layer has any.
std::int32_t most_window_slots(const ModelConfig& config);

/// Leaves at most `wanted` window slots to every layer, before anything is made of the configuration. Sinks and memory
/// slots stay, sink_distance too: it is what the weights were trained with.
/// @param wanted  [0, WindowChoice::file_slots]; empty: all of them
/// @return unsupported if the model has no window slots, invalid_argument outside the range
Status choose_window(ModelFile& model, std::optional<std::int64_t> wanted);

}  // namespace runnel
