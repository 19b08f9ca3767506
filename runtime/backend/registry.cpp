// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/registry.h"

#include <string_view>

#ifdef RUNNEL_HAS_CUDA
#include "runtime/backend/cuda/cuda_backend.h"
#endif
#include "runtime/backend/cpu/cpu_backend.h"
#include "runtime/backend/reference/reference_backend.h"
#ifdef RUNNEL_HAS_VULKAN
#include "runtime/backend/vulkan/vulkan_backend.h"
#endif
#include "runtime/base/number.h"
#include "runtime/base/try.h"

namespace runnel {
namespace {

/// N of "name:N", 0 of "name", else -1.
[[maybe_unused]] int index_of(std::string_view device, std::string_view name) {
  if (device == name) return 0;
  if (!device.starts_with(name) || device.size() == name.size() || device[name.size()] != ':')
    return -1;
  return number_in<int>(device.substr(name.size() + 1)).value_or(-1);
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const std::string& device, int threads,
                                              const std::filesystem::path& cache) {
  static_cast<void>(cache);  // of CUDA and the CPU there is nothing to keep
#ifdef RUNNEL_HAS_CUDA
  if (const int index = index_of(device, "cuda"); index >= 0) return cuda::make_backend(index);
  if (device == "auto" && !cuda::devices().empty()) return cuda::make_backend(0);
#endif
#ifdef RUNNEL_HAS_VULKAN
  if (const int index = index_of(device, "vulkan"); index >= 0)
    return vulkan::make_backend(index, {.pipeline_cache = vulkan::cache_file(cache, index)});
  if (device == "auto") {
    const std::vector<vulkan::FoundDevice> found = vulkan::find_devices();  // GPUs first
    if (!found.empty() && !found.front().software)
      return vulkan::make_backend(0, {.pipeline_cache = vulkan::cache_file(cache, 0)});
  }
#endif
  if (device == "auto" || device == "cpu") return cpu::make_backend(threads, {});
  if (device == "reference") return reference::make_backend();
  std::string ids = "auto";
  for (const DeviceInfo& d : devices()) ids += ", " + d.id;
  return fail(ErrorCode::not_found, "device \"", device, "\": not found, expected one of: ", ids);
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
#ifdef RUNNEL_HAS_CUDA
  all = cuda::devices();
#endif
#ifdef RUNNEL_HAS_VULKAN
  const std::vector<vulkan::FoundDevice> found = vulkan::find_devices();
  for (const vulkan::FoundDevice& d : found) {
    if (!d.software) all.push_back(d.info);
  }
#endif
  if (auto backend = cpu::make_backend(0, {})) all.push_back((*backend)->device());
#ifdef RUNNEL_HAS_VULKAN
  for (const vulkan::FoundDevice& d : found) {
    if (d.software) all.push_back(d.info);
  }
#endif
  all.push_back(reference::make_backend()->device());
  return all;
}

}  // namespace runnel
