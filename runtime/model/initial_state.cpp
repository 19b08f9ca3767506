// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/initial_state.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "runnel/session.h"
#include "runtime/base/hash.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"

namespace runnel {
namespace {

std::uint64_t id_of(const std::vector<float>& state) {
  return std::max<std::uint64_t>(1, hash64(std::as_bytes(std::span(state))));
}

// On the model of `other`.
SnapshotData before_all_of(const SnapshotData& other, const std::vector<float>& state) {
  SnapshotData data;
  data.model_fingerprint = other.model_fingerprint;
  data.window_slots = other.window_slots;
  data.backend = other.backend;
  data.history_hash = id_of(state);
  data.state = state;
  return data;
}

}  // namespace

bool is_before_all(const Snapshot& snapshot) {
  return snapshot.position() == 0 && data_of(snapshot).context.messages.empty();
}

Snapshot state_alone(const Snapshot& before_all) {
  const SnapshotData& data = data_of(before_all);
  SnapshotData alone = before_all_of(data, data.state);
  if (alone == data) return before_all;  // the state lies in memory once
  return make_snapshot(std::make_shared<SnapshotData>(std::move(alone)));
}

Result<Snapshot> initial_state(const Snapshot& snapshot,
                               const std::shared_ptr<const Model>& model) {
  if (snapshot.position() != 0)
    return fail(ErrorCode::invalid_argument, "the snapshot was taken after ", snapshot.position(),
                " tokens, expected one before the first, such as a tuned state");
  if (!is_before_all(snapshot))
    return fail(ErrorCode::invalid_argument,
                "the snapshot has messages, expected a state before the first");
  Snapshot alone = state_alone(snapshot);
  RUNNEL_TRY(Session session, Session::create(model));
  RUNNEL_CHECK_OK(session.restore(alone));
  return alone;
}

std::optional<Snapshot> initial_state_of(const Snapshot& pack) {
  const SnapshotData& data = data_of(pack);
  if (data.initial_state.empty()) return std::nullopt;
  return make_snapshot(std::make_shared<SnapshotData>(before_all_of(data, data.initial_state)));
}

std::uint64_t initial_state_id(const Snapshot& initial) { return id_of(data_of(initial).state); }

}  // namespace runnel
