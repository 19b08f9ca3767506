// SPDX-License-Identifier: Apache-2.0
// Ranges of the numbers that a model file's keys may have, for check_config.
#pragma once

#include "runnel/result.h"
#include "runtime/model/config.h"

namespace runnel {

/// Vocabulary, width and number of layers. @return malformed, naming the key, its value and the range
Status check_model_ranges(const ModelConfig& config);

/// The whole numbers of one layer. @return the same
Status check_key_ranges(LayerSpec layer);

}  // namespace runnel
