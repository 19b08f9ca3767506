// SPDX-License-Identifier: Apache-2.0
// Vulkan's functions, looked up at run time: a program with this backend starts on a machine
// without a Vulkan loader and lists no Vulkan device.
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <set>
#include <string>

#ifndef VK_KHR_cooperative_matrix  // headers before 1.3.255
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
};
struct VkCooperativeMatrixPropertiesKHR {
  VkStructureType sType;
  void* pNext;
  std::uint32_t MSize, NSize, KSize;
  VkComponentTypeNV AType, BType, CType, ResultType;
  VkBool32 saturatingAccumulation;
  VkScopeNV scope;
};
using PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR =
    VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*, VkCooperativeMatrixPropertiesKHR*);
inline constexpr auto VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR =
    static_cast<VkStructureType>(1000506000);
inline constexpr auto VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR =
    static_cast<VkStructureType>(1000506001);
#endif

namespace runnel::vulkan {

// clang-format off
#define RUNNEL_VK_GLOBAL(X) \
  X(vkEnumerateInstanceVersion) X(vkCreateInstance) X(vkEnumerateInstanceExtensionProperties)

#define RUNNEL_VK_INSTANCE(X) \
  X(vkDestroyInstance) X(vkEnumeratePhysicalDevices) X(vkGetPhysicalDeviceProperties2) \
  X(vkGetPhysicalDeviceFeatures2) X(vkGetPhysicalDeviceMemoryProperties) \
  X(vkGetPhysicalDeviceQueueFamilyProperties) X(vkEnumerateDeviceExtensionProperties) \
  X(vkCreateDevice) X(vkGetDeviceProcAddr)

#define RUNNEL_VK_DEVICE(X) \
  X(vkDestroyDevice) X(vkGetDeviceQueue) X(vkDeviceWaitIdle) \
  X(vkAllocateMemory) X(vkFreeMemory) X(vkMapMemory) \
  X(vkCreateBuffer) X(vkDestroyBuffer) X(vkGetBufferMemoryRequirements) X(vkBindBufferMemory) \
  X(vkGetBufferDeviceAddress) \
  X(vkCreateShaderModule) X(vkDestroyShaderModule) \
  X(vkCreatePipelineCache) X(vkDestroyPipelineCache) X(vkGetPipelineCacheData) \
  X(vkCreateComputePipelines) X(vkDestroyPipeline) \
  X(vkCreatePipelineLayout) X(vkDestroyPipelineLayout) \
  X(vkCreateDescriptorSetLayout) X(vkDestroyDescriptorSetLayout) \
  X(vkCreateDescriptorPool) X(vkDestroyDescriptorPool) X(vkAllocateDescriptorSets) \
  X(vkUpdateDescriptorSets) \
  X(vkCreateCommandPool) X(vkDestroyCommandPool) X(vkResetCommandPool) \
  X(vkAllocateCommandBuffers) X(vkBeginCommandBuffer) X(vkEndCommandBuffer) \
  X(vkCmdBindPipeline) X(vkCmdBindDescriptorSets) X(vkCmdPushConstants) X(vkCmdDispatch) \
  X(vkCmdPipelineBarrier) X(vkCmdCopyBuffer) X(vkCmdFillBuffer) \
  X(vkCreateQueryPool) X(vkDestroyQueryPool) X(vkGetQueryPoolResults) \
  X(vkCmdResetQueryPool) X(vkCmdWriteTimestamp) \
  X(vkCreateSemaphore) X(vkDestroySemaphore) X(vkWaitSemaphores) X(vkSignalSemaphore) X(vkQueueSubmit)
// clang-format on

#define RUNNEL_VK_DECLARE(name) PFN_##name name = nullptr;

struct GlobalFunctions {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
  RUNNEL_VK_GLOBAL(RUNNEL_VK_DECLARE)
};

struct InstanceFunctions {
  RUNNEL_VK_INSTANCE(RUNNEL_VK_DECLARE)
  PFN_vkCreateDebugUtilsMessengerEXT vkCreateDebugUtilsMessengerEXT = nullptr;  // may be absent
  PFN_vkDestroyDebugUtilsMessengerEXT vkDestroyDebugUtilsMessengerEXT = nullptr;
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV
      vkGetPhysicalDeviceCooperativeMatrixPropertiesNV = nullptr;  // may be absent
  PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR
      vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR = nullptr;  // may be absent
};

struct DeviceFunctions {
  RUNNEL_VK_DEVICE(RUNNEL_VK_DECLARE)
};

/// Opens the loader; false where there is none or it is older than Vulkan 1.1.
bool load(GlobalFunctions& f);
bool load(const GlobalFunctions& global, VkInstance instance, InstanceFunctions& f);
bool load(const InstanceFunctions& instance, VkDevice device, DeviceFunctions& f);

/// Paths of the shared libraries in this process now.
std::set<std::string> loaded_libraries();

/// Keeps in memory what was loaded since. The loader closes a driver with its last instance, and
/// NVIDIA's cannot be loaded a second time (seen with 580.159: VK_ERROR_INCOMPATIBLE_DRIVER).
void keep_libraries_loaded_since(const std::set<std::string>& before);

}  // namespace runnel::vulkan
