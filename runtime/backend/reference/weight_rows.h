// SPDX-License-Identifier: Apache-2.0
// Rows of a weight tensor as floats.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/model/weights.h"

namespace runnel::reference {

/// Row `row` of `w`, dequantised. [cols]
std::vector<float> row_values(const WeightView& w, std::int64_t row);

}  // namespace runnel::reference
