// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/instance.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data,
                                          void* user) {
  const auto& sink = *static_cast<const MessageSink*>(user);
  sink(data->pMessage == nullptr ? "" : data->pMessage);
  return VK_FALSE;
}

std::set<std::string> extensions_of(const InstanceFunctions& f, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  f.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> found(count);
  f.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, found.data());
  std::set<std::string> names;
  for (const VkExtensionProperties& e : found) names.emplace(e.extensionName);
  return names;
}

/// Whether 16 x 16 x 16 tiles of f16 with f32 sums are among an extension's shapes.
template <class Shape, class Get>
bool has_f16_tiles(Get get, VkPhysicalDevice device, VkStructureType type) {
  std::uint32_t count = 0;
  if (get == nullptr || get(device, &count, nullptr) != VK_SUCCESS) return false;
  std::vector<Shape> shapes(count, {.sType = type});
  if (get(device, &count, shapes.data()) < 0) return false;
  return std::any_of(shapes.begin(), shapes.end(), [](const Shape& s) {
    const auto is = [](auto component, VkComponentTypeNV wanted) {
      return static_cast<int>(component) == static_cast<int>(wanted);
    };
    return s.MSize == 16 && s.NSize == 16 && s.KSize == 16 &&
           is(s.AType, VK_COMPONENT_TYPE_FLOAT16_NV) && is(s.BType, VK_COMPONENT_TYPE_FLOAT16_NV) &&
           is(s.CType, VK_COMPONENT_TYPE_FLOAT32_NV) &&
           static_cast<int>(s.scope) == static_cast<int>(VK_SCOPE_SUBGROUP_NV);
  });
}

std::uint32_t compute_family(const InstanceFunctions& f, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  f.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  f.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  for (std::uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) return i;
  }
  return VK_QUEUE_FAMILY_IGNORED;
}

std::uint64_t largest_device_heap(const InstanceFunctions& f, VkPhysicalDevice device) {
  VkPhysicalDeviceMemoryProperties memory{};
  f.vkGetPhysicalDeviceMemoryProperties(device, &memory);
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if ((memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0)
      bytes = std::max<std::uint64_t>(bytes, memory.memoryHeaps[i].size);
  }
  return bytes;
}

/// DeviceFacts::subgroup of a device whose pipelines can demand a size.
std::uint32_t usable_subgroup(const VkPhysicalDeviceVulkan11Properties& p11,
                              const VkPhysicalDeviceSubgroupSizeControlProperties& sizes) {
  constexpr VkSubgroupFeatureFlags kNeeded =
      VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT |
      VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT;
  if ((p11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0 ||
      (p11.subgroupSupportedOperations & kNeeded) != kNeeded ||
      (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0)
    return 1;
  const std::uint32_t size =
      std::clamp(p11.subgroupSize, sizes.minSubgroupSize, sizes.maxSubgroupSize);
  const bool fits =
      size <= 128 && std::has_single_bit(size) && 128 / size <= sizes.maxComputeWorkgroupSubgroups;
  return fits ? size : 1;
}

/// Names, versions and limits.
void take_properties(const VkPhysicalDeviceProperties& p,
                     const VkPhysicalDeviceVulkan11Properties& p11,
                     const VkPhysicalDeviceVulkan12Properties& p12, DeviceFacts& c) {
  const VkPhysicalDeviceLimits& limits = p.limits;
  c.name = p.deviceName;
  c.driver = std::string(p12.driverName) + " " + p12.driverInfo;
  c.api_version = p.apiVersion;
  c.vendor_id = p.vendorID;
  c.device_id = p.deviceID;
  c.driver_version = p.driverVersion;
  std::copy_n(p11.driverUUID, VK_UUID_SIZE, c.driver_uuid.begin());
  std::copy_n(p.pipelineCacheUUID, VK_UUID_SIZE, c.cache_uuid.begin());
  c.software = p.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  c.storage_range = limits.maxStorageBufferRange;
  c.storage_alignment = std::max<std::uint64_t>(16, limits.minStorageBufferOffsetAlignment);
  c.allocation_bytes = p11.maxMemoryAllocationSize;
  c.shared_bytes = limits.maxComputeSharedMemorySize;
  c.timestamp_ns = limits.timestampComputeAndGraphics == VK_TRUE ? limits.timestampPeriod : 0.0F;
  c.groups = limits.maxComputeWorkGroupCount[0];
  c.group_threads =
      std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
}

/// Fills `c`; false if the device cannot run this backend.
bool query(const InstanceFunctions& f, VkPhysicalDevice device, DeviceFacts& c) {
  VkPhysicalDeviceProperties2 basic{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  f.vkGetPhysicalDeviceProperties2(device, &basic);
  if (basic.properties.apiVersion < VK_API_VERSION_1_2) return false;
  const std::set<std::string> extensions = extensions_of(f, device);
  const bool core13 = basic.properties.apiVersion >= VK_API_VERSION_1_3;
  const bool size_control =
      core13 || extensions.count(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME) > 0;
  const bool dot = core13 || extensions.count(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME) > 0;
  const bool nv = extensions.count(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME) > 0;
  const bool khr = extensions.count(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) > 0;

  VkPhysicalDeviceVulkan11Properties p11{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
  VkPhysicalDeviceVulkan12Properties p12{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES, .pNext = &p11};
  VkPhysicalDeviceSubgroupSizeControlProperties sizes{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  if (size_control) p11.pNext = &sizes;
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV, .pNext = &p12};
  const bool counts = extensions.count(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME) > 0;
  VkPhysicalDeviceProperties2 p{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                .pNext = counts ? static_cast<void*>(&multiprocessors) : &p12};
  f.vkGetPhysicalDeviceProperties2(device, &p);

  VkPhysicalDeviceVulkan11Features f11{.sType =
                                           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features f12{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &f11};
  VkPhysicalDeviceSubgroupSizeControlFeatures control{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR khr_matrices{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  VkPhysicalDeviceFeatures2 features{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &f12};
  const auto chain = [&features](auto& structure) {
    structure.pNext = features.pNext;
    features.pNext = &structure;
  };
  VkPhysicalDeviceShaderIntegerDotProductFeatures dots{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  if (dot) chain(dots);
  if (size_control) chain(control);
  if (nv) chain(matrices);
  if (khr) chain(khr_matrices);
  f.vkGetPhysicalDeviceFeatures2(device, &features);

  c.handle = device;
  c.queue_family = compute_family(f, device);
  const VkPhysicalDeviceLimits& limits = p.properties.limits;
  // of slot_read; every known driver of 1.2 has more
  constexpr std::uint32_t kStorageBuffers = 7;
  if (c.queue_family == VK_QUEUE_FAMILY_IGNORED || f12.timelineSemaphore == VK_FALSE ||
      limits.maxPerStageDescriptorStorageBuffers < kStorageBuffers)
    return false;
  take_properties(p.properties, p11, p12, c);
  c.group_subgroups = size_control ? sizes.maxComputeWorkgroupSubgroups : 0;
  // Seen to hold with this driver alone: it runs a context alone and starts a workgroup wherever one fits.
  if (counts && p12.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY)
    c.resident_groups = multiprocessors.shaderSMCount;

  c.memory_bytes = std::max(c.memory_bytes, largest_device_heap(f, device));
  c.subgroup_extension = !core13;
  if (size_control && control.subgroupSizeControl == VK_TRUE &&
      control.computeFullSubgroups == VK_TRUE)
    c.subgroup = usable_subgroup(p11, sizes);
  c.addresses = f12.bufferDeviceAddress == VK_TRUE;
  c.integer_dot = dots.shaderIntegerDotProduct == VK_TRUE;
  c.integer_dot_extension = !core13;
  const bool takes_tiles =
      c.subgroup == 32 && f12.shaderFloat16 == VK_TRUE && f12.vulkanMemoryModel == VK_TRUE;
  c.khr_matrices = takes_tiles && khr && khr_matrices.cooperativeMatrix == VK_TRUE &&
                   has_f16_tiles<VkCooperativeMatrixPropertiesKHR>(
                       f.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, device,
                       VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
  c.nv_matrices = takes_tiles && nv && matrices.cooperativeMatrix == VK_TRUE &&
                  has_f16_tiles<VkCooperativeMatrixPropertiesNV>(
                      f.vkGetPhysicalDeviceCooperativeMatrixPropertiesNV, device,
                      VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV);
  return true;
}

}  // namespace

const char* to_string(VkResult result) {
  switch (result) {
    case VK_SUCCESS:
      return "VK_SUCCESS";
    case VK_TIMEOUT:
      return "VK_TIMEOUT";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      return "VK_ERROR_OUT_OF_POOL_MEMORY";
    default:
      return "an error";
  }
}

Error vk_error(VkResult result, const std::string& what) {
  const bool memory = result == VK_ERROR_OUT_OF_HOST_MEMORY ||
                      result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                      result == VK_ERROR_OUT_OF_POOL_MEMORY;
  return fail(memory ? ErrorCode::out_of_memory : ErrorCode::device, what, ": ", to_string(result),
              " (", static_cast<int>(result), ")");
}

Result<std::shared_ptr<Instance>> Instance::create(MessageSink messages) {
  std::shared_ptr<Instance> instance(new Instance);
  if (!load(instance->global_))
    return fail(ErrorCode::not_found, "vulkan: no loader (libvulkan.so.1) of version 1.1 or later");
  std::uint32_t version = 0;
  const GlobalFunctions& global = instance->global_;
  if (global.vkEnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2)
    return fail(ErrorCode::not_found, "vulkan: the loader is older than version 1.2");

  const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                      .pApplicationName = "runnel",
                                      .pEngineName = "runnel",
                                      .apiVersion = VK_API_VERSION_1_3};
  instance->messages_ = std::move(messages);
  VkDebugUtilsMessengerCreateInfoEXT messenger{
      .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
      .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                         VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
      .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                     VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
      .pfnUserCallback = &on_message,
      .pUserData = &instance->messages_};
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  const bool listen = static_cast<bool>(instance->messages_);
  const VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                  .pNext = listen ? &messenger : nullptr,
                                  .pApplicationInfo = &application,
                                  .enabledExtensionCount = listen ? 1U : 0U,
                                  .ppEnabledExtensionNames = listen ? &extension : nullptr};
  const std::set<std::string> before = loaded_libraries();
  const VkResult made = global.vkCreateInstance(&info, nullptr, &instance->handle_);
  keep_libraries_loaded_since(before);
  if (made != VK_SUCCESS) {
    instance->handle_ = VK_NULL_HANDLE;
    return fail(ErrorCode::not_found,
                "vulkan: no usable driver: vkCreateInstance: ", to_string(made), " (",
                static_cast<int>(made), ")");
  }
  if (!load(global, instance->handle_, instance->f_))
    return fail(ErrorCode::not_found, "vulkan: the loader lacks functions of version 1.2");
  if (listen && instance->f_.vkCreateDebugUtilsMessengerEXT != nullptr) {
    RUNNEL_VK_CHECK(instance->f_.vkCreateDebugUtilsMessengerEXT(instance->handle_, &messenger,
                                                                nullptr, &instance->messenger_),
                    "vulkan: vkCreateDebugUtilsMessengerEXT");
  }
  return instance;
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE)
    f_.vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  if (handle_ != VK_NULL_HANDLE && f_.vkDestroyInstance != nullptr)
    f_.vkDestroyInstance(handle_, nullptr);
}

std::vector<DeviceFacts> Instance::devices() const {
  std::uint32_t count = 0;
  if (f_.vkEnumeratePhysicalDevices(handle_, &count, nullptr) != VK_SUCCESS) return {};
  std::vector<VkPhysicalDevice> handles(count);
  if (f_.vkEnumeratePhysicalDevices(handle_, &count, handles.data()) < 0) return {};
  std::vector<DeviceFacts> found;
  for (VkPhysicalDevice handle : handles) {
    DeviceFacts c;
    if (query(f_, handle, c)) found.push_back(std::move(c));
  }
  std::stable_partition(found.begin(), found.end(),
                        [](const DeviceFacts& c) { return !c.software; });
  return found;
}

}  // namespace runnel::vulkan
