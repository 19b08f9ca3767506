// SPDX-License-Identifier: Apache-2.0
// A logical device with one compute queue; its buffers and other handles as values that free themselves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "runtime/backend/vulkan/driver/instance.h"

namespace runnel::vulkan {

/// Shared memory that matmul_tiles stays within.
inline constexpr std::uint32_t kTilesSharedBytes = 40U << 10;

/// Work splits of products of few tokens and of slots, chosen by measuring; 0: by the shapes.
struct Tuning {
  std::uint32_t team_rows = 0;    // rows that a team of lanes computes at once
  std::uint32_t block = 0;        // units of 8 columns per load: 1 or 4
  std::uint32_t ahead = 0;        // loads under way per row
  std::uint32_t slot_values = 0;  // of keys and of values that a thread keeps in registers
  std::uint32_t few_splits = 0;   // of slots that every workgroup of the output projection joins
  std::uint32_t tiles = 0;        // work split of products on matrix units, see products.cpp
  // One token in one dispatch, see step/.
  std::uint32_t step_groups = 0;   // workgroups; more than run at the same time time out
  std::uint32_t step_threads = 0;  // of a workgroup, at most
  // Workgroups of a kv head's slots; of `shift` 1 + matrices brought into the cache ahead.
  std::uint32_t step_parts = 0;
  std::uint32_t step_chunk = 0;      // loads of a row under way
  std::int32_t step_poll_limit = 0;  // polls of a value that is not there
};

/// Which optional features and how much of a limit to use. Tests take them away to reach fallbacks.
struct FeatureMask {
  bool subgroups = true;
  bool cooperative_matrix = true;
  bool khr_matrices = true;  // of the Khronos extension; else NVIDIA's, where the device has both
  bool integer_dot = true;   // products of four bytes
  bool chunks = true;        // slots of many tokens chunk by chunk
  bool slot_tiles = true;    // on matrix units
  bool one_dispatch = true;  // all layers of a token in one dispatch
  bool addresses = true;     // of buffers, in shaders
  Tuning tuning;
  std::uint32_t shared_bytes = UINT32_MAX;   // of a workgroup at most
  std::uint64_t storage_range = UINT64_MAX;  // bytes of one binding at most
  /// Where set, its truth means that the device is lost, as the driver would say at the next call.
  std::shared_ptr<const std::atomic<bool>> lost;
};

/// A handle of a device, destroyed with this object. `Destroy` is a member of DeviceFunctions.
/// Owners keep the Device alive.
template <class Handle, auto Destroy>
class Owned {
 public:
  Owned() = default;
  Owned(VkDevice device, const DeviceFunctions& f, Handle handle)
      : device_(device), f_(&f), handle_(handle) {}
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Owned() {
    if (handle_ != VK_NULL_HANDLE) (f_->*Destroy)(device_, handle_, nullptr);
  }

  Handle get() const { return handle_; }

 private:
  void swap(Owned& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(f_, other.f_);
    std::swap(handle_, other.handle_);
  }

  VkDevice device_ = VK_NULL_HANDLE;
  const DeviceFunctions* f_ = nullptr;
  Handle handle_ = VK_NULL_HANDLE;
};

using OwnedBuffer = Owned<VkBuffer, &DeviceFunctions::vkDestroyBuffer>;
using OwnedMemory = Owned<VkDeviceMemory, &DeviceFunctions::vkFreeMemory>;
using OwnedPipeline = Owned<VkPipeline, &DeviceFunctions::vkDestroyPipeline>;
using OwnedPipelineCache = Owned<VkPipelineCache, &DeviceFunctions::vkDestroyPipelineCache>;
using OwnedPipelineLayout = Owned<VkPipelineLayout, &DeviceFunctions::vkDestroyPipelineLayout>;
using OwnedSetLayout = Owned<VkDescriptorSetLayout, &DeviceFunctions::vkDestroyDescriptorSetLayout>;
using OwnedDescriptorPool = Owned<VkDescriptorPool, &DeviceFunctions::vkDestroyDescriptorPool>;
using OwnedCommandPool = Owned<VkCommandPool, &DeviceFunctions::vkDestroyCommandPool>;
using OwnedSemaphore = Owned<VkSemaphore, &DeviceFunctions::vkDestroySemaphore>;
using OwnedQueryPool = Owned<VkQueryPool, &DeviceFunctions::vkDestroyQueryPool>;
using OwnedShaderModule = Owned<VkShaderModule, &DeviceFunctions::vkDestroyShaderModule>;

/// Where a buffer lies.
enum class MemoryKind {
  device,  // fast for shaders; not mapped
  input,   // written by the host, read by shaders: device-local and mapped where that exists
  output,  // written by shaders or copies, read by the host: cached where that exists
};

/// A buffer with memory of its own.
struct Buffer {
  OwnedMemory memory;  // freed after the buffer
  OwnedBuffer handle;
  std::uint64_t bytes = 0;
  std::byte* mapped = nullptr;  // host address, input and output only

  VkBuffer get() const { return handle.get(); }
};

/// A part of a buffer, as a descriptor binds it.
struct Range {
  VkBuffer buffer = VK_NULL_HANDLE;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  bool operator==(const Range&) const = default;
};

/// Command buffers that the device begins when the host has raised a semaphore of its own to a value.
struct AwaitingHost {
  std::span<const VkCommandBuffer> commands;
  VkSemaphore semaphore = VK_NULL_HANDLE;  // of create_semaphore()
  std::uint64_t value = 0;
};

class Device {
 public:
  /// @param id  "vulkan:0", the beginning of every message
  static Result<std::shared_ptr<Device>> create(std::shared_ptr<Instance> instance,
                                                const DeviceFacts& facts, std::string id,
                                                const FeatureMask& use);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  /// What the device offers, less what the mask took away.
  const DeviceFacts& facts() const { return facts_; }
  const Tuning& tuning() const { return tuning_; }
  const std::string& id() const { return id_; }
  VkDevice handle() const { return handle_; }
  const DeviceFunctions& functions() const { return f_; }

  /// @param what  for messages ("weights")
  Result<Buffer> create_buffer(std::uint64_t bytes, MemoryKind kind, const char* what) const;

  /// Where a shader finds a range of a buffer that is not MemoryKind::input, if the device has
  /// addresses: the low and the high word.
  std::array<std::uint32_t, 2> address_of(const Range& range) const;

  Result<OwnedCommandPool> create_command_pool() const;
  Result<VkCommandBuffer> allocate_commands(const OwnedCommandPool& pool) const;

  /// A semaphore that begins with 0.
  Result<OwnedSemaphore> create_semaphore() const;
  /// @param value  more than it has
  Status raise(const OwnedSemaphore& semaphore, std::uint64_t value) const;

  /// Queues recorded command buffers in order and returns what to wait for. Thread-safe.
  /// @param last  what follows them; everything queued later waits for it, too
  Result<std::uint64_t> submit(std::span<const VkCommandBuffer> commands,
                               const AwaitingHost& last = {});
  /// Waits for a submission and all before it. Thread-safe.
  Status wait(std::uint64_t submission) const;
  /// Both.
  Status run(std::span<const VkCommandBuffer> commands);

  /// Copies bytes into a buffer and waits.
  Status copy_in(const Buffer& to, std::span<const std::byte> bytes);

  /// Sets all bytes of a buffer to zero and waits.
  Status fill_zero(const Buffer& buffer);

  /// "vulkan:0: " + what
  std::string named(const char* what) const { return id_ + ": " + what; }

 private:
  Device() = default;

  std::shared_ptr<Instance> instance_;
  DeviceFacts facts_;
  Tuning tuning_;
  std::shared_ptr<const std::atomic<bool>> lost_;
  std::string id_;
  VkDevice handle_ = VK_NULL_HANDLE;
  DeviceFunctions f_;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkPhysicalDeviceMemoryProperties memory_{};
  std::mutex queue_mutex_;
  OwnedSemaphore timeline_;
  std::uint64_t submitted_ = 0;
};

/// Everything before in the queue is complete and visible to everything after.
void full_barrier(const DeviceFunctions& f, VkCommandBuffer commands, bool to_host = false);

/// What the host wrote before this point of the queue is reached is visible to shaders behind it.
void host_barrier(const DeviceFunctions& f, VkCommandBuffer commands);

/// Dispatches before are complete and visible to dispatches after.
void dispatch_barrier(const DeviceFunctions& f, VkCommandBuffer commands);

}  // namespace runnel::vulkan
