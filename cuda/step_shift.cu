// SPDX-License-Identifier: Apache-2.0
// Launches the kernel of cuda/step_shift.h: one block a multiprocessor, all on the device at once.
#include "cuda/device/launch.cuh"
#include "cuda/device/step/shift.cuh"
#include "cuda/step_shift.h"

namespace runnel::cuda {
namespace {

template <unsigned kTypes, int kRounds>
__global__ void __launch_bounds__(kShiftAllThreads, 1)
    shift_kernel(const __grid_constant__ ShiftStep p) {
#if __CUDA_ARCH__ >= 900
  shift_thread<kTypes, kRounds>(p);
#endif
}

constexpr unsigned kAll = kTypeBit<BlockType::q4_0> | kTypeBit<BlockType::q8_0> |
                          kTypeBit<BlockType::q4_k> | kTypeBit<BlockType::q5_0> |
                          kTypeBit<BlockType::q5_k> | kTypeBit<BlockType::q6_k> |
                          kTypeBit<BlockType::wide> | kTypeBit<BlockType::bf16> |
                          kTypeBit<BlockType::f16> | kTypeBit<BlockType::f32>;
using Kernel = void (*)(ShiftStep);
struct Choice {
  unsigned types;
  int rounds;
  Kernel kernel;
};
template <unsigned kTypes, int kRounds>
constexpr Choice kChoice = {kTypes, kRounds, shift_kernel<kTypes, kRounds>};
constexpr unsigned kFour =
    kTypeBit<BlockType::q4_0> | kTypeBit<BlockType::q8_0> | kTypeBit<BlockType::f16>;
const Choice kChoices[] = {kChoice<kFour, 1>, kChoice<kAll, 1>, kChoice<kAll, 2>};

/// The narrowest kernel that does it.
Kernel choose(const ShiftStep& p) {
  const unsigned types = types_of(p);
  const int rounds = p.d > 4 * kShiftThreads ? 2 : 1;
  for (const Choice& c : kChoices) {
    if ((types & ~c.types) == 0 && c.rounds == rounds) return c.kernel;
  }
  return nullptr;
}

}  // namespace

cudaError_t prepare_shift_step() {
  int device = 0, most = 0;
  if (cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (cudaError_t e =
          cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      e != cudaSuccess)
    return e;
  for (const Choice& c : kChoices) {
    if (cudaError_t e = cudaFuncSetAttribute(reinterpret_cast<const void*>(c.kernel),
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, most);
        e != cudaSuccess)
      return e;
  }
  return cudaSuccess;
}

cudaError_t shift_step(cudaStream_t stream, const ShiftStep& p) {
  const Kernel kernel = choose(p);
  if (kernel == nullptr) return cudaErrorInvalidConfiguration;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.grid));
  config.blockDim = dim3(kShiftAllThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(p.shared.total);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;  // refuses a grid that does not fit at once
  attribute.val.cooperative = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, p);
}

}  // namespace runnel::cuda
