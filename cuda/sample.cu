// SPDX-License-Identifier: Apache-2.0
// Launches the sampler: one block, after the kernels that made the logits.
#include "cuda/device/launch.cuh"
#include "cuda/device/sample/chain.cuh"

namespace runnel::cuda {
namespace {

__global__ void __launch_bounds__(kSampleThreads) sample_kernel(const __grid_constant__ Sample s) {
  chain_trigger();  // the next token's kernel fetches its first weights meanwhile
  Sampling(s, kSampleThreads).run();
}

}  // namespace

cudaError_t sample(cudaStream_t stream, const Sample& s) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(kSampleThreads);
  config.dynamicSmemBytes = sizeof(SampleShared);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, sample_kernel, s);
}

cudaError_t load_sampler() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, sample_kernel);
}

}  // namespace runnel::cuda
