// SPDX-License-Identifier: Apache-2.0
// Launches the head's kernel beside the one of the layers.
#include "cuda/device/launch.cuh"
#include "cuda/device/step/fixed_head.cuh"

namespace runnel::cuda {
namespace {

__global__ void __launch_bounds__(kHeadThreads, 1) head_kernel(const __grid_constant__ HeadStep p) {
#if __CUDA_ARCH__ >= 900
  chain_trigger();  // the next token's kernel fetches its first layer's weights meanwhile
  head_thread(p);
  chain_wait();  // the next kernel relies on that of the layers, too
#endif
}

}  // namespace

bool head_fits(const Matrix& head, int grid, int shared_bytes) {
  return head.type == BlockType::q8_0 && head.cols == kHeadColumns &&
         head.rows % kHeadTileRows == 0 && head.tile_rows() == kHeadTileRows &&
         (head.tiles() + grid - 1) / grid <= kHeadMost &&
         sizeof(HeadShared) <= static_cast<std::size_t>(shared_bytes);
}

cudaError_t prepare_head() {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&head_kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(HeadShared));
}

cudaError_t head_step(cudaStream_t stream, const HeadStep& p) {
  return launch({.stream = stream, .chain = true}, head_kernel, dim3(static_cast<unsigned>(p.grid)),
                kHeadThreads, sizeof(HeadShared), 1, p);
}

}  // namespace runnel::cuda
