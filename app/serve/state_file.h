// SPDX-License-Identifier: Apache-2.0
// One file a kept state: its facts and its snapshot together, so that neither can be older than the
// other.
//
//   "RUNNELST", u64 hash of the facts, u64 their bytes, the facts (JSON), a snapshot
//   (docs/snapshot-format.md). Numbers are little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runnel/result.h"
#include "runnel/snapshot.h"
#include "runtime/base/file_system.h"

namespace runnel::serve {

struct StateFacts {
  std::string id;
  std::uint64_t generation = 0;
  std::uint64_t position = 0;
  std::uint64_t messages = 0;  // the trail's count and hash
  std::uint64_t hash = 0;
  std::uint64_t tools = 0;          // and that of its tools
  std::uint64_t initial_state = 0;  // initial_state_id() of what it began from, 0: the empty state
  bool closed = false;
  bool awaiting = false;
};

/// The old file or the whole new one exists at any time; when this returns the new one is on the
/// disk. Permissions 0600.
/// @return io with the operating system's reason.
Status write_state(const std::filesystem::path& file, const StateFacts& facts,
                   const Snapshot& snapshot, const FileSystem& system);

/// The facts alone. @return not_found, io, malformed.
Result<StateFacts> read_state_facts(const std::filesystem::path& file);

/// The snapshot behind them. @return the same, and unsupported.
Result<Snapshot> read_state_snapshot(const std::filesystem::path& file);

}  // namespace runnel::serve
