// SPDX-License-Identifier: Apache-2.0
// The connection to the Vulkan loader, and what is worth knowing about each physical device.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runnel/device.h"
#include "runnel/result.h"
#include "runtime/backend/vulkan/driver/functions.h"

namespace runnel::vulkan {

/// Receives the messages of the validation layers.
using MessageSink = std::function<void(const std::string& message)>;

/// What a physical device offers, as far as this backend asks.
struct DeviceFacts {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::string name;
  std::string driver;
  std::uint32_t api_version = 0;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t driver_version = 0;
  std::array<std::uint8_t, VK_UUID_SIZE> driver_uuid{};
  std::array<std::uint8_t, VK_UUID_SIZE> cache_uuid{};
  bool software = false;           // a CPU pretending
  std::uint64_t memory_bytes = 0;  // largest device-local heap

  std::uint64_t storage_range = 0;      // bytes of one binding
  std::uint64_t storage_alignment = 0;  // of a binding's offset
  std::uint64_t allocation_bytes = 0;   // of one allocation
  std::uint32_t shared_bytes = 0;       // of a workgroup
  std::uint32_t groups = 0;             // workgroups of a dispatch in x

  float timestamp_ns = 0.0F;  // of a tick of the device's clock; 0: it has none

  std::uint32_t queue_family = 0;
  /// Lanes of a subgroup that a pipeline can demand; 1 where no size can be promised.
  std::uint32_t subgroup = 1;
  bool subgroup_extension = false;     // VK_EXT_subgroup_size_control must be enabled for it
  bool integer_dot = false;            // products of four bytes
  bool integer_dot_extension = false;  // VK_KHR_shader_integer_dot_product must be enabled for it
  /// f16 16 x 16 x 16 with f32 sums through VK_KHR_cooperative_matrix, VK_NV_cooperative_matrix.
  bool khr_matrices = false, nv_matrices = false;
  bool cooperative_matrix() const { return khr_matrices || nv_matrices; }
  bool chunks = true;       // whether slots may go chunk by chunk
  bool slot_tiles = false;  // and that on matrix units
  /// Workgroups that certainly run at the same time, one on each multiprocessor; 0: unknown.
  std::uint32_t resident_groups = 0;
  bool addresses = false;             // of buffers, for shaders
  std::uint32_t group_threads = 0;    // of a workgroup, at most
  std::uint32_t group_subgroups = 0;  // the same, where a subgroup's size is demanded
};

/// Owns the VkInstance; devices keep it alive.
class Instance {
 public:
  /// @param messages  if set, validation messages go there (VK_EXT_debug_utils)
  /// @return not_found where there is no Vulkan loader or driver.
  static Result<std::shared_ptr<Instance>> create(MessageSink messages = {});
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();

  /// The devices that can run this backend: Vulkan 1.2 with timeline semaphores and a compute
  /// queue. Real GPUs first, in the driver's order.
  std::vector<DeviceFacts> devices() const;

  const InstanceFunctions& functions() const { return f_; }

 private:
  Instance() = default;

  GlobalFunctions global_;
  InstanceFunctions f_;
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  MessageSink messages_;
};

/// "VK_ERROR_DEVICE_LOST" for messages.
const char* to_string(VkResult result);

/// An error for a failed call: out_of_memory or device.
/// @param what  "vulkan:0: vkQueueSubmit"
Error vk_error(VkResult result, const std::string& what);

}  // namespace runnel::vulkan

/// Returns vk_error(result, what) from this function unless the call gives VK_SUCCESS.
#define RUNNEL_VK_CHECK(call, what)                                 \
  do {                                                              \
    if (const VkResult runnel_vk = (call); runnel_vk != VK_SUCCESS) \
      return ::runnel::vulkan::vk_error(runnel_vk, what);           \
  } while (false)
