// SPDX-License-Identifier: Apache-2.0
// A snapshot before the first token whose state is not the empty one, as a tuned state is.
#pragma once

#include <memory>
#include <stdexcept>
#include <utility>

#include "runnel/session.h"
#include "runtime/io/snapshot_data.h"
#include "tests/support/random.h"

namespace runnel::test {

inline Snapshot random_initial_state(const std::shared_ptr<const Model>& model,
                                     std::uint64_t seed = 7) {
  const auto session = Session::create(model);
  if (!session) throw std::runtime_error(session.error().message);
  auto data = std::make_shared<SnapshotData>(data_of(*session->snapshot()));
  Random random(seed);
  data->state = random.normals(data->state.size());
  return make_snapshot(std::move(data));
}

}  // namespace runnel::test
