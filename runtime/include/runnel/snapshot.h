// SPDX-License-Identifier: Apache-2.0
// A snapshot: everything a session remembers, as an immutable value that can be kept, saved and carried.
//
// Example, in a function that returns a Result:
//   auto snapshot = session.snapshot();
//   if (!snapshot) return snapshot.error();
//   auto saved = snapshot->save("story.snap", {.state = runnel::StateEncoding::f16, .compress = true});
//   if (!saved) return saved.error();
//   auto loaded = runnel::Snapshot::load("story.snap");    // later, perhaps on another machine
//   if (!loaded) return loaded.error();
//   if (auto back = session.restore(*loaded); !back) return back.error();
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runnel/export.h"
#include "runnel/result.h"

namespace runnel {

class Access;
struct SnapshotData;

/// How a saved snapshot stores the numbers of the state. docs/snapshot-format.md says how large each is and what f16
/// and int8 change.
enum class StateEncoding {
  f32,   ///< exact: continues bit-identically
  f16,   ///< half the bytes
  int8,  ///< a quarter of the bytes: 64 numbers share a scale
};

/// How to save a snapshot. The default is exact and fast.
struct SnapshotEncoding {
  StateEncoding state = StateEncoding::f32;
  bool compress = false;  ///< pack the state with zstd: loses nothing

  bool operator==(const SnapshotEncoding&) const = default;
};

/// An immutable copy of a session: slot state, last logits, position, recent tokens, sampler and
/// UTF-8 carry. Cheap to copy (shared); all methods are const and thread-safe.
class RUNNEL_API Snapshot {
 public:
  /// Tokens consumed when it was taken.
  std::uint64_t position() const;

  /// Fingerprint of the model it belongs to (ModelInfo::fingerprint).
  std::uint64_t model_fingerprint() const;

  /// The window it was taken with, in slots, where ModelOptions::window_slots made it smaller than that of the model's
  /// file; empty: all of the file's. It goes back into that window only.
  std::optional<std::int32_t> window_slots() const;

  /// Bytes it takes in memory.
  std::uint64_t bytes() const;

  /// Writes it to `file`: to a temporary file beside it, synced, then renamed. Either the old file
  /// or the whole new one exists at any time. Permissions 0600.
  /// @return io with the operating system's reason.
  Status save(const std::filesystem::path& file, SnapshotEncoding encoding = {}) const;

  /// Reads and validates a whole snapshot file.
  /// @return not_found, io, malformed (truncated, damaged: the message says which section), unsupported (version).
  static Result<Snapshot> load(const std::filesystem::path& file);

  /// The bytes save() would write, and a snapshot of such bytes. The same snapshot gives the same bytes.
  /// @return out_of_memory; malformed or unsupported as load().
  Result<std::vector<std::byte>> to_bytes(SnapshotEncoding encoding = {}) const;
  static Result<Snapshot> from_bytes(std::span<const std::byte> bytes);

 private:
  friend class Access;
  explicit Snapshot(std::shared_ptr<const SnapshotData> data) : data_(std::move(data)) {}
  std::shared_ptr<const SnapshotData> data_;
};

}  // namespace runnel
