// SPDX-License-Identifier: Apache-2.0
// The public Snapshot: a shared value over SnapshotData.
#include "runnel/snapshot.h"

#include <memory>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/io/snapshot_file.h"

namespace runnel {

std::uint64_t Snapshot::position() const { return data_->position; }

std::uint64_t Snapshot::model_fingerprint() const { return data_->model_fingerprint; }

std::uint64_t Snapshot::bytes() const {
  return sizeof(SnapshotData) + data_->backend.size() + data_->state.size() * sizeof(float) +
         data_->logits.size() * sizeof(float) + data_->recent_tokens.size() * sizeof(TokenId) +
         data_->utf8_carry.size() + data_->stop_carry.size() +
         data_->sampler.logit_bias.size() * sizeof(data_->sampler.logit_bias[0]);
}

Status Snapshot::save(const std::filesystem::path& file) const {
  return write_snapshot(file, *data_);
}

Result<Snapshot> Snapshot::load(const std::filesystem::path& file) {
  RUNNEL_TRY(SnapshotData data, read_snapshot(file));
  return Snapshot(std::make_shared<const SnapshotData>(std::move(data)));
}

}  // namespace runnel
