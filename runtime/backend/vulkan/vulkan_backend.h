// SPDX-License-Identifier: Apache-2.0
// Any GPU with Vulkan 1.2, through the compute shaders in shaders/.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/backend/vulkan/driver/device.h"
#include "runtime/backend/vulkan/pass/profile.h"

namespace runnel::vulkan {

struct Options {
  /// File that keeps compiled pipelines for the next start; empty: none.
  std::filesystem::path pipeline_cache;
  /// Optional device features to use where they exist.
  FeatureMask features;
  /// Receives validation messages, where a validation layer is active.
  MessageSink messages;
  /// If set, every pass adds the times of its dispatches (and takes longer).
  std::shared_ptr<DispatchProfile> profile;
};

struct FoundDevice {
  DeviceInfo info;        // id "vulkan:N"
  bool software = false;  // a CPU pretending: "auto" must not take it
};

/// The usable devices, GPUs first; none without a loader or driver.
std::vector<FoundDevice> find_devices();

/// Where the pipelines of device N are kept in a directory, which is made; empty without one.
std::filesystem::path cache_file(const std::filesystem::path& directory, int index);

/// @param index  N of "vulkan:N"
/// @return not_found if there is no such device; device or out_of_memory if it does not start.
Result<std::unique_ptr<Backend>> make_backend(int index, const Options& options = {});

}  // namespace runnel::vulkan
