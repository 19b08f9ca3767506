// SPDX-License-Identifier: Apache-2.0
// How long the dispatches of recorded programs take on the device, by shader. For measuring only:
// timestamps between dispatches cost time themselves.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/backend/vulkan/driver/device.h"

namespace runnel::vulkan {

/// Sums over all runs since it was made or cleared. Used by one thread at a time.
struct DispatchProfile {
  struct Entry {
    std::uint64_t count = 0;
    double microseconds = 0.0;
  };
  std::map<std::string, Entry> by_shader;
};

/// The timestamps of one program.
struct Timestamps {
  OwnedQueryPool pool;
  std::vector<std::string> names;  // of the dispatch that ends at query 1 + i

  /// Waits for the program's queries and adds them up.
  Status add_to(DispatchProfile& profile, const Device& device) const;
};

Result<Timestamps> create_timestamps(const Device& device, std::vector<std::string> names);

}  // namespace runnel::vulkan
