// SPDX-License-Identifier: Apache-2.0
// Any bytes as a snapshot, its checksums not compared; what is taken is written again and must come back equal.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "runtime/io/snapshot_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto taken =
      runnel::snapshot_from_bytes(std::as_bytes(std::span(data, size)), runnel::Checksums::ignore);
  if (!taken) return 0;
  // Bytes are compared, for a NaN does not equal itself.
  const std::vector<std::byte> written = runnel::snapshot_to_bytes(*taken);
  const auto again = runnel::snapshot_from_bytes(written, runnel::Checksums::verify);
  if (!again || runnel::snapshot_to_bytes(*again) != written) std::abort();
  return 0;
}
