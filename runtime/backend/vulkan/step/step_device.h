// SPDX-License-Identifier: Apache-2.0
// What the one-token programs ask of a device, as plain numbers: the choice among them needs no driver.
#pragma once

#include <cstdint>

#include "runtime/backend/vulkan/driver/device.h"

namespace runnel::vulkan {

/// A size of a model as shaders have it.
constexpr std::uint32_t u(std::int64_t n) { return static_cast<std::uint32_t>(n); }

struct StepDevice {
  std::uint32_t subgroup = 1;         // lanes that a pipeline can demand; 1: none
  std::uint32_t group_threads = 0;    // of a workgroup, at most
  std::uint32_t group_subgroups = 0;  // the same
  std::uint32_t resident_groups = 0;  // workgroups that certainly run at the same time; 0: unknown
  std::uint32_t shared_bytes = 0;     // of a workgroup
  std::uint64_t storage_range = 0;    // bytes of one binding
  std::uint64_t allocation_bytes = 0;
  std::uint64_t storage_alignment = 1;
  bool integer_dot = false;
  bool addresses = false;  // of buffers, in shaders
  bool software = false;   // a CPU pretending

  // Work splits chosen by measuring, see Tuning; 0: by the shapes.
  std::uint32_t tuned_threads = 0;
  std::uint32_t tuned_parts = 0;
  std::uint32_t tuned_items = 0;
  std::int32_t tuned_poll_limit = 0;

  static StepDevice of(const DeviceFacts& c, const Tuning& t) {
    return {.subgroup = c.subgroup,
            .group_threads = c.group_threads,
            .group_subgroups = c.group_subgroups,
            .resident_groups = c.resident_groups,
            .shared_bytes = c.shared_bytes,
            .storage_range = c.storage_range,
            .allocation_bytes = c.allocation_bytes,
            .storage_alignment = c.storage_alignment,
            .integer_dot = c.integer_dot,
            .addresses = c.addresses,
            .software = c.software,
            .tuned_threads = t.step_threads,
            .tuned_parts = t.step_parts,
            .tuned_items = t.step_chunk,
            .tuned_poll_limit = t.step_poll_limit};
  }
};

}  // namespace runnel::vulkan
