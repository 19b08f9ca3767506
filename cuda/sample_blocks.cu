// SPDX-License-Identifier: Apache-2.0
// Launches the draw from what blocks of the head kept: it may start before they have.
#include "cuda/device/launch.cuh"
#include "cuda/device/sample/blocks.cuh"

namespace runnel::cuda {
namespace {

__global__ void __launch_bounds__(kSampleBlocksThreads)
    sample_blocks_kernel(const __grid_constant__ Sample s,
                         const __grid_constant__ BlockChoices from) {
#if __CUDA_ARCH__ >= 900
  SampleBlocks(s, from, kSampleBlocksThreads).run();
#endif
}

}  // namespace

cudaError_t sample_blocks(cudaStream_t stream, const Sample& s, const BlockChoices& from) {
  return launch({.stream = stream, .chain = true}, sample_blocks_kernel, dim3(1),
                kSampleBlocksThreads, sizeof(SampleBlocksShared), 1, s, from);
}

}  // namespace runnel::cuda
