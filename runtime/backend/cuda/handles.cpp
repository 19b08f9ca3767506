// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/handles.h"

#include <string>

#include "runtime/base/try.h"

namespace runnel::cuda {

Status check(cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return {};
  // an error that is not sticky shall not show up again elsewhere
  static_cast<void>(cudaGetLastError());
  const ErrorCode kind =
      code == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device;
  return fail(kind, "cuda: ", what, ": ", cudaGetErrorString(code), " (error ",
              static_cast<int>(code), ")");
}

Result<Stream> create_stream() {
  cudaStream_t stream = nullptr;
  RUNNEL_CHECK_OK(
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream"));
  return Stream(stream);
}

Result<Event> create_event() {
  cudaEvent_t event = nullptr;
  RUNNEL_CHECK_OK(
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event"));
  return Event(event);
}

Result<DeviceMemory> allocate_device(std::size_t bytes, std::string_view what) {
  void* p = nullptr;
  if (bytes == 0) return DeviceMemory();
  RUNNEL_CHECK_OK(check(cudaMalloc(&p, bytes),
                        "allocate " + std::to_string(bytes) + " bytes for " + std::string(what)));
  return DeviceMemory(p);
}

Result<PinnedMemory> allocate_mapped(std::size_t bytes, std::string_view what) {
  void* p = nullptr;
  if (bytes == 0) return PinnedMemory();
  RUNNEL_CHECK_OK(
      check(cudaHostAlloc(&p, bytes, cudaHostAllocMapped),
            "map " + std::to_string(bytes) + " bytes of host memory for " + std::string(what)));
  return PinnedMemory(p);
}

Result<PinnedMemory> allocate_pinned(std::size_t bytes, std::string_view what) {
  void* p = nullptr;
  if (bytes == 0) return PinnedMemory();
  RUNNEL_CHECK_OK(
      check(cudaMallocHost(&p, bytes),
            "pin " + std::to_string(bytes) + " bytes of host memory for " + std::string(what)));
  return PinnedMemory(p);
}

}  // namespace runnel::cuda
