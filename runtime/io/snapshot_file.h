// SPDX-License-Identifier: Apache-2.0
// Snapshots as files: written whole or not at all, read whole or refused with the name of the
// section that is wrong.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "runnel/result.h"
#include "runtime/io/snapshot_data.h"

namespace runnel {

/// Whether checksums are compared. Fuzzers ignore them, or they would never get behind them.
enum class Checksums { verify, ignore };

/// The file's bytes. The same data gives the same bytes.
std::vector<std::byte> snapshot_to_bytes(const SnapshotData& data);

/// @return malformed, naming the section and what is wrong; unsupported for a newer major version
/// or an unknown section
///         that is not optional. Memory is taken only for what the bytes really hold.
Result<SnapshotData> snapshot_from_bytes(std::span<const std::byte> bytes,
                                         Checksums checksums = Checksums::verify);

/// Replaces `file` at once, synced, permissions 0600. @return io or not_found with the operating
/// system's reason.
Status write_snapshot(const std::filesystem::path& file, const SnapshotData& data);

/// @return as snapshot_from_bytes; not_found or io for the file itself. Messages begin with the
/// path.
Result<SnapshotData> read_snapshot(const std::filesystem::path& file);

}  // namespace runnel
