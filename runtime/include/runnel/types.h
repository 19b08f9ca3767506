// SPDX-License-Identifier: Apache-2.0
// Names for the integers of the API.
#pragma once

#include <cstdint>

namespace runnel {

/// Index of a vocabulary entry, in [0, ModelInfo::vocab_size).
using TokenId = std::int32_t;

}  // namespace runnel
