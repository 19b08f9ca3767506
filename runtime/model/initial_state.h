// SPDX-License-Identifier: Apache-2.0
// What a conversation begins from in place of the empty state: a snapshot before the first token, such as a tuned state.
#pragma once

#include <cstdint>
#include <memory>

#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/snapshot.h"

namespace runnel {

/// The state of `snapshot` and nothing else of it: no sampler, no texts.
/// @return invalid_argument if it was taken behind a token or has messages, mismatch if it is of another model or window.
Result<Snapshot> initial_state(const Snapshot& snapshot, const std::shared_ptr<const Model>& model);

/// Tells initial states of one model apart: never 0, which stands for the empty state.
std::uint64_t initial_state_id(const Snapshot& initial);

}  // namespace runnel
