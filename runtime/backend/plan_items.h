// SPDX-License-Identifier: Apache-2.0
// What every backend checks about the items of a pass before it touches a state.
#pragma once

#include <span>

#include "runtime/backend/backend.h"

namespace runnel {

/// Tokens summed over all items.
std::size_t total_tokens(std::span<const PlanItem> items);

/// Refuses an empty list, missing or repeated states, empty or over-long token lists, ids outside
/// [0, vocab) and logit buffers of the wrong size.
/// @return invalid_argument naming the item and the value.
Status check_items(std::span<const PlanItem> items, int max_tokens, int vocab_size);

}  // namespace runnel
