// SPDX-License-Identifier: Apache-2.0
// CUDA handles as move-only values, and CUDA errors as Status. Destructors never throw and ignore
// errors: after a lost device there is nothing left to free.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "runnel/result.h"

namespace runnel::cuda {

/// Success, out_of_memory or device, naming what was tried and CUDA's own words.
Status check(cudaError_t code, std::string_view what);

/// Owns a handle of type T that `destroy` gives back.
template <class T, cudaError_t (*destroy)(T)>
class UniqueHandle {
 public:
  UniqueHandle() = default;
  explicit UniqueHandle(T handle) noexcept : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  T get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  void reset() noexcept {
    if (handle_ != nullptr) static_cast<void>(destroy(std::exchange(handle_, nullptr)));
  }

 private:
  T handle_ = nullptr;
};

using Stream = UniqueHandle<cudaStream_t, cudaStreamDestroy>;
using Event = UniqueHandle<cudaEvent_t, cudaEventDestroy>;
using GraphExec = UniqueHandle<cudaGraphExec_t, cudaGraphExecDestroy>;
using Graph = UniqueHandle<cudaGraph_t, cudaGraphDestroy>;
using DeviceMemory = UniqueHandle<void*, cudaFree>;
using PinnedMemory = UniqueHandle<void*, cudaFreeHost>;

Result<Stream> create_stream();
Result<Event> create_event();

/// `count` values of T on the current device (`Memory` = DeviceMemory) or pinned on the host.
template <class T, class Memory>
class Array {
 public:
  Array() = default;
  Array(Memory memory, std::size_t count) : memory_(std::move(memory)), count_(count) {}
  T* get() const noexcept { return static_cast<T*>(memory_.get()); }
  std::size_t size() const noexcept { return count_; }
  std::size_t bytes() const noexcept { return count_ * sizeof(T); }

 private:
  Memory memory_;
  std::size_t count_ = 0;
};
template <class T>
using DeviceArray = Array<T, DeviceMemory>;
template <class T>
using PinnedArray = Array<T, PinnedMemory>;

Result<DeviceMemory> allocate_device(std::size_t bytes, std::string_view what);
Result<PinnedMemory> allocate_pinned(std::size_t bytes, std::string_view what);
/// Pinned memory that the device reads where it lies.
Result<PinnedMemory> allocate_mapped(std::size_t bytes, std::string_view what);

template <class T>
Result<DeviceArray<T>> device_array(std::size_t count, std::string_view what) {
  auto memory = allocate_device(count * sizeof(T), what);
  if (!memory) return std::move(memory).error();
  return DeviceArray<T>(*std::move(memory), count);
}
template <class T>
Result<PinnedArray<T>> pinned_array(std::size_t count, std::string_view what) {
  auto memory = allocate_pinned(count * sizeof(T), what);
  if (!memory) return std::move(memory).error();
  return PinnedArray<T>(*std::move(memory), count);
}

/// Makes `device` the calling thread's device as long as it exists.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = -1;
    status_ = cudaSetDevice(device);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope() {
    if (before_ >= 0) static_cast<void>(cudaSetDevice(before_));
  }
  Status status() const { return check(status_, "select the device"); }

 private:
  int before_ = -1;
  cudaError_t status_ = cudaSuccess;
};

}  // namespace runnel::cuda
