// SPDX-License-Identifier: Apache-2.0
// The public Snapshot: a shared value over SnapshotData.
#include "runnel/snapshot.h"

#include <memory>
#include <new>
#include <utility>

#include "runtime/base/try.h"
#include "runtime/io/snapshot_file.h"

namespace runnel {

std::uint64_t Snapshot::position() const { return data_->position; }

std::uint64_t Snapshot::model_fingerprint() const { return data_->model_fingerprint; }

std::optional<std::int32_t> Snapshot::window_slots() const { return data_->window_slots; }

std::uint64_t Snapshot::bytes() const {
  return sizeof(SnapshotData) + data_->backend.size() +
         (data_->state.size() + data_->initial_state.size()) * sizeof(float) +
         data_->logits.size() * sizeof(float) + data_->recent_tokens.size() * sizeof(TokenId) +
         data_->utf8_carry.size() + data_->stop_carry.size() + data_->unread_carry.size() +
         data_->sampler.logit_bias.size() * sizeof(data_->sampler.logit_bias[0]) +
         data_->context.tokens.size() * sizeof(TokenId) +
         (data_->constraint ? data_->constraint->source.size() + data_->constraint->taken.size()
                            : 0);
}

Status Snapshot::save(const std::filesystem::path& file, SnapshotEncoding encoding) const {
  return write_snapshot(file, *data_, encoding);
}

Result<Snapshot> Snapshot::load(const std::filesystem::path& file) {
  RUNNEL_TRY(SnapshotData data, read_snapshot(file));
  return Snapshot(std::make_shared<const SnapshotData>(std::move(data)));
}

Result<std::vector<std::byte>> Snapshot::to_bytes(SnapshotEncoding encoding) const try {
  return snapshot_to_bytes(*data_, encoding);
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "snapshot: not enough memory for its bytes");
}

Result<Snapshot> Snapshot::from_bytes(std::span<const std::byte> bytes) {
  RUNNEL_TRY(SnapshotData data, snapshot_from_bytes(bytes));
  return Snapshot(std::make_shared<const SnapshotData>(std::move(data)));
}

}  // namespace runnel
