// SPDX-License-Identifier: Apache-2.0
// Snapshots in the C API.
#include "runnel/snapshot.h"

#include <optional>
#include <utility>
#include <vector>

#include "runtime/c/support.h"

using namespace runnel;
using namespace runnel::c;

namespace {

Result<SnapshotEncoding> encoding_of(int32_t encoding, bool compress) {
  if (encoding < RUNNEL_STATE_F32 || encoding > RUNNEL_STATE_INT8) {
    return fail(ErrorCode::invalid_argument, "encoding is ", encoding,
                ", expected RUNNEL_STATE_F32, RUNNEL_STATE_F16 or RUNNEL_STATE_INT8");
  }
  return SnapshotEncoding{.state = static_cast<StateEncoding>(encoding), .compress = compress};
}

}  // namespace

void runnel_snapshot_free(runnel_snapshot* snapshot) { delete snapshot; }

uint64_t runnel_snapshot_position(const runnel_snapshot* snapshot) {
  return snapshot != nullptr ? snapshot->snapshot.position() : 0;
}

uint64_t runnel_snapshot_fingerprint(const runnel_snapshot* snapshot) {
  return snapshot != nullptr ? snapshot->snapshot.model_fingerprint() : 0;
}

uint64_t runnel_snapshot_bytes(const runnel_snapshot* snapshot) {
  return snapshot != nullptr ? snapshot->snapshot.bytes() : 0;
}

int64_t runnel_snapshot_window_slots(const runnel_snapshot* snapshot) {
  const std::optional<std::int32_t> slots =
      snapshot != nullptr ? snapshot->snapshot.window_slots() : std::nullopt;
  return slots ? *slots : RUNNEL_FILE_WINDOW;
}

runnel_status runnel_snapshot_save(const runnel_snapshot* snapshot, const char* file,
                                   int32_t encoding, bool compress, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(snapshot, "snapshot"));
    RUNNEL_CHECK_OK(check_not_null(file, "file"));
    RUNNEL_TRY(const SnapshotEncoding how, encoding_of(encoding, compress));
    return snapshot->snapshot.save(file, how);
  });
}

runnel_status runnel_snapshot_load(const char* file, runnel_snapshot** snapshot,
                                   runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(file, "file"));
    RUNNEL_CHECK_OK(check_not_null(snapshot, "snapshot"));
    RUNNEL_TRY(Snapshot loaded, Snapshot::load(file));
    *snapshot = new runnel_snapshot{std::move(loaded)};
    return {};
  });
}

runnel_status runnel_snapshot_to_bytes(const runnel_snapshot* snapshot, int32_t encoding,
                                       bool compress, void* bytes, size_t capacity, size_t* count,
                                       runnel_error* error) {
  std::vector<std::byte> made;
  const runnel_status status = guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(snapshot, "snapshot"));
    RUNNEL_TRY(const SnapshotEncoding how, encoding_of(encoding, compress));
    RUNNEL_TRY(made, snapshot->snapshot.to_bytes(how));
    return {};
  });
  if (status != RUNNEL_OK) return status;
  return copy_out(std::span<const std::byte>(made), static_cast<std::byte*>(bytes), capacity, count,
                  error);
}

runnel_status runnel_snapshot_from_bytes(const void* bytes, size_t count,
                                         runnel_snapshot** snapshot, runnel_error* error) {
  return guarded(error, [&]() -> Status {
    RUNNEL_CHECK_OK(check_not_null(snapshot, "snapshot"));
    RUNNEL_TRY(const std::span<const std::byte> given,
               span_of(static_cast<const std::byte*>(bytes), count, "bytes"));
    RUNNEL_TRY(Snapshot made, Snapshot::from_bytes(given));
    *snapshot = new runnel_snapshot{std::move(made)};
    return {};
  });
}
