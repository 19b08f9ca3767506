// SPDX-License-Identifier: Apache-2.0
// Pipelines by shader and specialisation, built once, with a cache on disk that only the driver
// that wrote it gets to see.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/backend/vulkan/driver/device.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {

/// Storage buffers of every shader: bindings 0 … kBindings-1 of set 0, of which a shader uses some.
inline constexpr std::uint32_t kBindings = 7;

/// Push constants: what every device has.
inline constexpr std::uint32_t kPushBytes = 128;

/// Thread-safe.
class Pipelines {
 public:
  /// @param cache  file of the pipeline cache; empty: none. A file that is missing, damaged or of another driver is
  ///               no error.
  static Result<std::unique_ptr<Pipelines>> create(std::shared_ptr<Device> device,
                                                   std::filesystem::path cache);

  VkPipelineLayout layout() const { return layout_.get(); }
  VkDescriptorSetLayout set_layout() const { return set_layout_.get(); }

  /// @param shader  name without the subgroup suffix ("matvec.q4_0")
  /// @param constants  values of constant ids 1, 2, …; id 0 is the subgroup size
  /// @param tokens_at  of constant kTokensAt, where it is not what the shader says
  Result<VkPipeline> get(const std::string& shader, const std::vector<std::uint32_t>& constants,
                         std::uint32_t tokens_at = kPassHeader);

  /// Writes the cache file if pipelines were built since it was read or written. A cache that
  /// cannot be written is no error: it costs time at the next start, nothing else.
  void save();

 private:
  Pipelines() = default;

  Status read_cache();

  std::shared_ptr<Device> device_;
  std::filesystem::path path_;
  OwnedSetLayout set_layout_;
  OwnedPipelineLayout layout_;
  OwnedPipelineCache cache_;
  std::mutex mutex_;
  std::map<std::tuple<std::string, std::vector<std::uint32_t>, std::uint32_t>, OwnedPipeline>
      built_;
  std::size_t saved_ = 0;  // pipelines in the file
};

}  // namespace runnel::vulkan
