// SPDX-License-Identifier: Apache-2.0
// What a conversation begins from in place of the empty state: a snapshot before the first token, such as a tuned state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runnel/model.h"
#include "runnel/result.h"
#include "runnel/snapshot.h"

namespace runnel {

/// Whether it was taken before the first token and has no messages either.
bool is_before_all(const Snapshot& snapshot);

/// The state of such a snapshot and nothing else of it: no sampler, no texts. The snapshot itself if it has nothing
/// else. Its history hash, with which the hashes of what is read from here begin, is initial_state_id(): they differ
/// from those of the same tokens after another state.
Snapshot state_alone(const Snapshot& before_all);

/// The same for `model`.
/// @return invalid_argument unless is_before_all(), mismatch if it is of another model or window.
Result<Snapshot> initial_state(const Snapshot& snapshot, const std::shared_ptr<const Model>& model);

/// What the messages of a pack were read from; none: the empty state.
std::optional<Snapshot> initial_state_of(const Snapshot& pack);

/// Tells initial states of one model apart: never 0, which stands for the empty state.
std::uint64_t initial_state_id(const Snapshot& initial);

}  // namespace runnel
