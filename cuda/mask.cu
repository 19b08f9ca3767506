// SPDX-License-Identifier: Apache-2.0
// Launches what waits for a mask, after the kernels that made the logits and before the sampler.
#include "cuda/device/mask.cuh"

namespace runnel::cuda {
namespace {

__global__ void __launch_bounds__(kMaskThreads) mask_kernel(const __grid_constant__ Mask m) {
  apply_mask(m, kMaskThreads);
}

}  // namespace

cudaError_t mask_logits(cudaStream_t stream, const Mask& m) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(mask_blocks(m.vocab)));
  config.blockDim = dim3(kMaskThreads);
  config.dynamicSmemBytes = sizeof(std::uint32_t);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, mask_kernel, m);
}

}  // namespace runnel::cuda
