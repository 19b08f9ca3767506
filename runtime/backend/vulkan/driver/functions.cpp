// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/functions.h"

#include <dlfcn.h>
#include <link.h>

namespace runnel::vulkan {

bool load(GlobalFunctions& f) {
  // Never closed: drivers leave threads and exit handlers behind. Opening again is a counter.
  void* library = ::dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  f.vkGetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(::dlsym(library, "vkGetInstanceProcAddr"));
  if (f.vkGetInstanceProcAddr == nullptr) return false;
  bool complete = true;
#define RUNNEL_VK_LOAD(name)                                                             \
  f.name = reinterpret_cast<PFN_##name>(f.vkGetInstanceProcAddr(VK_NULL_HANDLE, #name)); \
  complete = complete && f.name != nullptr;
  RUNNEL_VK_GLOBAL(RUNNEL_VK_LOAD)
#undef RUNNEL_VK_LOAD
  return complete;
}

bool load(const GlobalFunctions& global, VkInstance instance, InstanceFunctions& f) {
  bool complete = true;
#define RUNNEL_VK_FIND(name) \
  f.name = reinterpret_cast<PFN_##name>(global.vkGetInstanceProcAddr(instance, #name));
#define RUNNEL_VK_LOAD(name) \
  RUNNEL_VK_FIND(name)       \
  complete = complete && f.name != nullptr;
  RUNNEL_VK_INSTANCE(RUNNEL_VK_LOAD)
#undef RUNNEL_VK_LOAD
  RUNNEL_VK_FIND(vkCreateDebugUtilsMessengerEXT)
  RUNNEL_VK_FIND(vkDestroyDebugUtilsMessengerEXT)
  RUNNEL_VK_FIND(vkGetPhysicalDeviceCooperativeMatrixPropertiesNV)
  RUNNEL_VK_FIND(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)
#undef RUNNEL_VK_FIND
  return complete;
}

bool load(const InstanceFunctions& instance, VkDevice device, DeviceFunctions& f) {
  bool complete = true;
#define RUNNEL_VK_LOAD(name)                                                          \
  f.name = reinterpret_cast<PFN_##name>(instance.vkGetDeviceProcAddr(device, #name)); \
  complete = complete && f.name != nullptr;
  RUNNEL_VK_DEVICE(RUNNEL_VK_LOAD)
#undef RUNNEL_VK_LOAD
  return complete;
}

std::set<std::string> loaded_libraries() {
  std::set<std::string> paths;
  const auto add = [](dl_phdr_info* library, std::size_t, void* found) {
    static_cast<std::set<std::string>*>(found)->emplace(library->dlpi_name);
    return 0;
  };
  ::dl_iterate_phdr(add, &paths);
  return paths;
}

void keep_libraries_loaded_since(const std::set<std::string>& before) {
  for (const std::string& path : loaded_libraries()) {
    if (!before.contains(path)) ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

}  // namespace runnel::vulkan
