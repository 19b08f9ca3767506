// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/initial_state.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runnel/session.h"
#include "runtime/base/hash.h"
#include "runtime/base/try.h"
#include "runtime/io/snapshot_data.h"

namespace runnel {

Result<Snapshot> initial_state(const Snapshot& snapshot,
                               const std::shared_ptr<const Model>& model) {
  const SnapshotData& given = data_of(snapshot);
  if (given.position != 0)
    return fail(ErrorCode::invalid_argument, "the snapshot was taken behind ", given.position,
                " tokens, expected one before the first, such as a tuned state");
  if (!given.context.messages.empty())
    return fail(ErrorCode::invalid_argument,
                "the snapshot has messages, expected a state before the first");
  RUNNEL_TRY(Session session, Session::create(model));
  RUNNEL_TRY(const Snapshot empty, session.snapshot());
  RUNNEL_CHECK_OK(session.restore(snapshot));
  auto data = std::make_shared<SnapshotData>(data_of(empty));
  data->state = given.state;
  return make_snapshot(std::move(data));
}

std::uint64_t initial_state_id(const Snapshot& initial) {
  return std::max<std::uint64_t>(1, hash64(std::as_bytes(std::span(data_of(initial).state))));
}

}  // namespace runnel
