// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/driver/device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

std::optional<std::uint32_t> find_memory(const VkPhysicalDeviceMemoryProperties& memory,
                                         std::uint32_t allowed, VkMemoryPropertyFlags wanted) {
  for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if ((allowed & (1U << i)) != 0 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted)
      return i;
  }
  return std::nullopt;
}

/// The property sets of a kind, best first. Host-visible memory is always coherent here: nothing is flushed by hand.
std::vector<VkMemoryPropertyFlags> preferences(MemoryKind kind) {
  constexpr VkMemoryPropertyFlags kHost =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  switch (kind) {
    case MemoryKind::device:
      return {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    case MemoryKind::input:
      return {kHost | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, kHost};
    case MemoryKind::output:
      return {kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, kHost};
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Device>> Device::create(std::shared_ptr<Instance> instance,
                                               const DeviceFacts& facts, std::string id,
                                               const FeatureMask& use) {
  std::shared_ptr<Device> device(new Device);
  device->instance_ = std::move(instance);
  device->facts_ = facts;
  device->id_ = std::move(id);
  DeviceFacts& c = device->facts_;
  if (!use.subgroups) c.subgroup = 1;
  c.storage_range = std::min(c.storage_range, use.storage_range);
  c.shared_bytes = std::min(c.shared_bytes, use.shared_bytes);
  c.chunks = use.chunks;
  c.integer_dot = c.integer_dot && use.integer_dot;
  if (!use.one_dispatch || !use.subgroups) {
    c.resident_groups = 0;
  } else if (use.tuning.step_groups > 0) {
    c.resident_groups = use.tuning.step_groups;
  }
  device->tuning_ = use.tuning;
  device->lost_ = use.lost;
  const bool tiles = use.cooperative_matrix && use.subgroups && c.shared_bytes >= kTilesSharedBytes;
  c.khr_matrices = c.khr_matrices && tiles && use.khr_matrices;
  c.nv_matrices = c.nv_matrices && tiles && !c.khr_matrices;
  c.slot_tiles = c.cooperative_matrix() && use.slot_tiles;
  c.addresses = c.addresses && use.addresses;

  std::vector<const char*> extensions;
  VkPhysicalDeviceVulkan11Features f11{.sType =
                                           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features f12{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &f11};
  f12.timelineSemaphore = VK_TRUE;
  f12.bufferDeviceAddress = c.addresses ? VK_TRUE : VK_FALSE;
  VkPhysicalDeviceSubgroupSizeControlFeatures control{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
      .subgroupSizeControl = VK_TRUE,
      .computeFullSubgroups = VK_TRUE};
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV,
      .cooperativeMatrix = VK_TRUE};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR khr_matrices{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
      .cooperativeMatrix = VK_TRUE};
  void* chain = &f12;
  const auto enable = [&chain, &extensions](auto& structure, const char* extension) {
    structure.pNext = chain;
    chain = &structure;
    if (extension != nullptr) extensions.push_back(extension);
  };
  if (c.subgroup > 1)
    enable(control, c.subgroup_extension ? VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME : nullptr);
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
      .shaderIntegerDotProduct = VK_TRUE};
  if (c.integer_dot)
    enable(dot,
           c.integer_dot_extension ? VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME : nullptr);
  if (c.cooperative_matrix()) {
    if (c.khr_matrices) {
      enable(khr_matrices, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    } else {
      enable(matrices, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME);
    }
    f12.shaderFloat16 = VK_TRUE;
    f12.vulkanMemoryModel = VK_TRUE;
  }

  const float priority = 1.0F;
  const VkDeviceQueueCreateInfo queue{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                      .queueFamilyIndex = c.queue_family,
                                      .queueCount = 1,
                                      .pQueuePriorities = &priority};
  const VkDeviceCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
      .pNext = chain,
      .queueCreateInfoCount = 1,
      .pQueueCreateInfos = &queue,
      .enabledExtensionCount = static_cast<std::uint32_t>(extensions.size()),
      .ppEnabledExtensionNames = extensions.data()};
  const InstanceFunctions& global = device->instance_->functions();
  RUNNEL_VK_CHECK(global.vkCreateDevice(c.handle, &info, nullptr, &device->handle_),
                  device->named("vkCreateDevice"));
  if (!load(global, device->handle_, device->f_))
    return fail(ErrorCode::device, device->id_, ": the driver lacks functions of Vulkan 1.2");
  device->f_.vkGetDeviceQueue(device->handle_, c.queue_family, 0, &device->queue_);
  global.vkGetPhysicalDeviceMemoryProperties(c.handle, &device->memory_);

  RUNNEL_TRY(device->timeline_, device->create_semaphore());
  return device;
}

Device::~Device() {
  if (handle_ == VK_NULL_HANDLE || f_.vkDestroyDevice == nullptr) return;
  timeline_ = OwnedSemaphore();
  f_.vkDestroyDevice(handle_, nullptr);
}

Result<Buffer> Device::create_buffer(std::uint64_t bytes, MemoryKind kind, const char* what) const {
  const std::string name = id_ + ": buffer \"" + what + "\" of " + std::to_string(bytes) + " bytes";
  if (bytes > facts_.allocation_bytes) {
    return fail(ErrorCode::out_of_memory, name, ": the device allocates at most ",
                facts_.allocation_bytes, " bytes at once");
  }
  Buffer buffer;
  buffer.bytes = bytes;
  const bool addressed = facts_.addresses && kind != MemoryKind::input;
  const VkBufferCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = bytes,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               (addressed ? VkBufferUsageFlags{VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT} : 0),
      .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
  VkBuffer handle = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f_.vkCreateBuffer(handle_, &info, nullptr, &handle), name);
  buffer.handle = OwnedBuffer(handle_, f_, handle);

  VkMemoryRequirements needs{};
  f_.vkGetBufferMemoryRequirements(handle_, handle, &needs);
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  for (const VkMemoryPropertyFlags wanted : preferences(kind)) {
    const auto type = find_memory(memory_, needs.memoryTypeBits, wanted);
    if (!type) continue;
    const VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                          .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo allocation{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                          .pNext = addressed ? &flags : nullptr,
                                          .allocationSize = needs.size,
                                          .memoryTypeIndex = *type};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    result = f_.vkAllocateMemory(handle_, &allocation, nullptr, &memory);
    if (result != VK_SUCCESS) continue;  // a small mappable heap may be full: take the next kind
    buffer.memory = OwnedMemory(handle_, f_, memory);
    RUNNEL_VK_CHECK(f_.vkBindBufferMemory(handle_, handle, memory, 0), name);
    if (kind != MemoryKind::device) {
      void* mapped = nullptr;
      RUNNEL_VK_CHECK(f_.vkMapMemory(handle_, memory, 0, VK_WHOLE_SIZE, 0, &mapped), name);
      buffer.mapped = static_cast<std::byte*>(mapped);
    }
    return buffer;
  }
  return vk_error(result, name);
}

std::array<std::uint32_t, 2> Device::address_of(const Range& range) const {
  const VkBufferDeviceAddressInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                       .buffer = range.buffer};
  const std::uint64_t address = f_.vkGetBufferDeviceAddress(handle_, &info) + range.offset;
  return {static_cast<std::uint32_t>(address), static_cast<std::uint32_t>(address >> 32)};
}

Result<OwnedCommandPool> Device::create_command_pool() const {
  const VkCommandPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                     .queueFamilyIndex = facts_.queue_family};
  VkCommandPool pool = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f_.vkCreateCommandPool(handle_, &info, nullptr, &pool),
                  named("vkCreateCommandPool"));
  return OwnedCommandPool(handle_, f_, pool);
}

Result<VkCommandBuffer> Device::allocate_commands(const OwnedCommandPool& pool) const {
  const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                         .commandPool = pool.get(),
                                         .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                         .commandBufferCount = 1};
  VkCommandBuffer commands = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f_.vkAllocateCommandBuffers(handle_, &info, &commands),
                  named("vkAllocateCommandBuffers"));
  return commands;
}

Result<OwnedSemaphore> Device::create_semaphore() const {
  const VkSemaphoreTypeCreateInfo timeline{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                           .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                   .pNext = &timeline};
  VkSemaphore made = VK_NULL_HANDLE;
  RUNNEL_VK_CHECK(f_.vkCreateSemaphore(handle_, &info, nullptr, &made), named("vkCreateSemaphore"));
  return OwnedSemaphore(handle_, f_, made);
}

Status Device::raise(const OwnedSemaphore& semaphore, std::uint64_t value) const {
  const VkSemaphoreSignalInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                   .semaphore = semaphore.get(),
                                   .value = value};
  RUNNEL_VK_CHECK(f_.vkSignalSemaphore(handle_, &info), named("vkSignalSemaphore"));
  return {};
}

Result<std::uint64_t> Device::submit(std::span<const VkCommandBuffer> commands,
                                     const AwaitingHost& last) {
  const std::lock_guard lock(queue_mutex_);
  const std::uint64_t value = submitted_ + 1;
  const VkSemaphore semaphore = timeline_.get();
  const bool waits = last.semaphore != VK_NULL_HANDLE;
  const std::span<const VkCommandBuffer> signalling = waits ? last.commands : commands;
  const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  const VkTimelineSemaphoreSubmitInfo timeline{
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .waitSemaphoreValueCount = waits ? 1U : 0U,
      .pWaitSemaphoreValues = &last.value,
      .signalSemaphoreValueCount = 1,
      .pSignalSemaphoreValues = &value};
  const std::array<VkSubmitInfo, 2> submits{
      VkSubmitInfo{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                   .commandBufferCount = static_cast<std::uint32_t>(commands.size()),
                   .pCommandBuffers = commands.data()},
      VkSubmitInfo{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                   .pNext = &timeline,
                   .waitSemaphoreCount = waits ? 1U : 0U,
                   .pWaitSemaphores = &last.semaphore,
                   .pWaitDstStageMask = &stages,
                   .commandBufferCount = static_cast<std::uint32_t>(signalling.size()),
                   .pCommandBuffers = signalling.data(),
                   .signalSemaphoreCount = 1,
                   .pSignalSemaphores = &semaphore}};
  const std::span<const VkSubmitInfo> queued = std::span(submits).last(waits ? 2 : 1);
  RUNNEL_VK_CHECK(lost_ != nullptr && lost_->load()
                      ? VK_ERROR_DEVICE_LOST
                      : f_.vkQueueSubmit(queue_, static_cast<std::uint32_t>(queued.size()),
                                         queued.data(), VK_NULL_HANDLE),
                  named("vkQueueSubmit"));
  submitted_ = value;
  return value;
}

Status Device::wait(std::uint64_t submission) const {
  const VkSemaphore semaphore = timeline_.get();
  const VkSemaphoreWaitInfo wait{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                 .semaphoreCount = 1,
                                 .pSemaphores = &semaphore,
                                 .pValues = &submission};
  RUNNEL_VK_CHECK(f_.vkWaitSemaphores(handle_, &wait, UINT64_MAX), named("vkWaitSemaphores"));
  return {};
}

Status Device::run(std::span<const VkCommandBuffer> commands) {
  RUNNEL_TRY(const std::uint64_t submission, submit(commands));
  return wait(submission);
}

Status Device::copy_in(const Buffer& to, std::span<const std::byte> bytes) {
  RUNNEL_TRY(const Buffer from, create_buffer(bytes.size(), MemoryKind::input, "staging"));
  std::memcpy(from.mapped, bytes.data(), bytes.size());
  RUNNEL_TRY(const OwnedCommandPool pool, create_command_pool());
  RUNNEL_TRY(const VkCommandBuffer commands, allocate_commands(pool));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                       .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  RUNNEL_VK_CHECK(f_.vkBeginCommandBuffer(commands, &begin), named("vkBeginCommandBuffer"));
  full_barrier(f_, commands);
  const VkBufferCopy all{.size = bytes.size()};
  f_.vkCmdCopyBuffer(commands, from.get(), to.get(), 1, &all);
  RUNNEL_VK_CHECK(f_.vkEndCommandBuffer(commands), named("vkEndCommandBuffer"));
  return run(std::span(&commands, 1));
}

Status Device::fill_zero(const Buffer& buffer) {
  RUNNEL_TRY(const OwnedCommandPool pool, create_command_pool());
  RUNNEL_TRY(const VkCommandBuffer commands, allocate_commands(pool));
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                       .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  RUNNEL_VK_CHECK(f_.vkBeginCommandBuffer(commands, &begin), named("vkBeginCommandBuffer"));
  f_.vkCmdFillBuffer(commands, buffer.get(), 0, VK_WHOLE_SIZE, 0);
  RUNNEL_VK_CHECK(f_.vkEndCommandBuffer(commands), named("vkEndCommandBuffer"));
  return run(std::span(&commands, 1));
}

void full_barrier(const DeviceFunctions& f, VkCommandBuffer commands, bool to_host) {
  constexpr VkPipelineStageFlags kStages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  const VkMemoryBarrier barrier{
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
      .dstAccessMask =
          to_host ? VkAccessFlags{VK_ACCESS_HOST_READ_BIT}
                  : VkAccessFlags{VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                  VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT}};
  f.vkCmdPipelineBarrier(commands, kStages,
                         to_host ? VkPipelineStageFlags{VK_PIPELINE_STAGE_HOST_BIT} : kStages, 0, 1,
                         &barrier, 0, nullptr, 0, nullptr);
}

void host_barrier(const DeviceFunctions& f, VkCommandBuffer commands) {
  const VkMemoryBarrier barrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                .srcAccessMask = VK_ACCESS_HOST_WRITE_BIT,
                                .dstAccessMask = VK_ACCESS_SHADER_READ_BIT};
  f.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_HOST_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void dispatch_barrier(const DeviceFunctions& f, VkCommandBuffer commands) {
  const VkMemoryBarrier barrier{
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
  f.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0,
                         nullptr);
}

}  // namespace runnel::vulkan
