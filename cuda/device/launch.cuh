// SPDX-License-Identifier: Apache-2.0
// Launching a kernel with the attributes of a Launch, and the device side of programmatic dependent launch.
#pragma once

#include <cuda_runtime.h>

#include "cuda/launch.h"

namespace runnel::cuda {

/// Lets the next kernel of the chain start: it may read what no kernel of the chain writes, until it waits itself.
__device__ __forceinline__ void chain_trigger() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Returns when every earlier kernel of the chain is complete and its writes are visible. Every
/// kernel of a chain calls it, in every thread that touches anything the chain writes.
__device__ __forceinline__ void chain_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Asks for the cache line in L2 before it is needed.
__device__ __forceinline__ void prefetch_l2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

template <class... P, class... A>
cudaError_t launch(const Launch& l, void (*kernel)(P...), dim3 grid, int threads,
                   std::size_t shared, int cluster, A&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = l.stream;
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (l.chain) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(cluster);
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}

}  // namespace runnel::cuda
