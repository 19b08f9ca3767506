// SPDX-License-Identifier: Apache-2.0
// Snapshots as files: written whole or not at all, read whole or refused with the name of the section that is wrong.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runnel/result.h"
#include "runnel/snapshot.h"
#include "runtime/base/file_system.h"
#include "runtime/io/snapshot_data.h"

namespace runnel {

/// Whether checksums are compared. Fuzzers ignore them, because mutated input would hardly ever pass them.
enum class Checksums { verify, ignore };

/// The file's bytes. The same data gives the same bytes. A plain f32 state without a context is a
/// file of version 1.0, one with a constraint of 1.2, anything else one of 1.1.
std::vector<std::byte> snapshot_to_bytes(const SnapshotData& data, SnapshotEncoding encoding = {});

/// @return malformed, naming the section and what is wrong; unsupported for a newer major version or an unknown
/// section that is not optional. Allocates memory only in proportion to the bytes.
Result<SnapshotData> snapshot_from_bytes(std::span<const std::byte> bytes,
                                         Checksums checksums = Checksums::verify);

/// Replaces `file` at once, synced, permissions 0600.
/// @return io or not_found with the operating system's reason.
Status write_snapshot(const std::filesystem::path& file, const SnapshotData& data,
                      SnapshotEncoding encoding = {},
                      const FileSystem& system = FileSystem::real());

/// @return as snapshot_from_bytes; not_found or io for the file itself. Messages begin with the path.
Result<SnapshotData> read_snapshot(const std::filesystem::path& file);

/// One section as `runnel snapshot inspect` lists it.
struct SnapshotSection {
  std::uint32_t id = 0;
  std::string name;  // "section 9" if this version does not know it
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  bool optional = false;
  bool intact = false;  // its checksum matches
};

/// What a file says about itself, without reading its numbers.
struct SnapshotOutline {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
  SnapshotEncoding encoding;
  std::vector<SnapshotSection> sections;
};

/// @return malformed or unsupported if the header or the section table is.
Result<SnapshotOutline> outline_snapshot(std::span<const std::byte> bytes);

}  // namespace runnel
