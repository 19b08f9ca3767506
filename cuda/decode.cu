// SPDX-License-Identifier: Apache-2.0
// Launches the decode kernel: one block a multiprocessor, all on the device at once.
#include "cuda/device/decode.cuh"
#include "cuda/device/launch.cuh"

namespace runnel::cuda {
namespace {

template <unsigned kTypes, int kItems>
__global__ void __launch_bounds__(kDecodeAllThreads, 1)
    decode_kernel(const __grid_constant__ Decode p) {
#if __CUDA_ARCH__ >= 900
  decode_thread<kTypes, kItems>(p);
  if (p.blocks == 0) chain_wait();  // whoever comes next relies on the cluster's kernel too
#endif
}

using Kernel = void (*)(Decode);

struct Choice {
  unsigned types;
  int items;
  Kernel kernel;
};
constexpr unsigned kFour =
    kTypeBit<BlockType::q4_0> | kTypeBit<BlockType::q8_0> | kTypeBit<BlockType::f16>;
constexpr unsigned kSuper =
    kTypeBit<BlockType::q4_k> | kTypeBit<BlockType::q6_k> | kTypeBit<BlockType::f16>;
constexpr unsigned kPlain = kTypeBit<BlockType::bf16>;
constexpr unsigned kAll = kFour | kSuper | kPlain | kTypeBit<BlockType::f32>;
const Choice kChoices[] = {
    {kFour, 1, &decode_kernel<kFour, 1>},   {kFour, 4, &decode_kernel<kFour, 4>},
    {kSuper, 4, &decode_kernel<kSuper, 4>}, {kPlain, 4, &decode_kernel<kPlain, 4>},
    {kAll, 4, &decode_kernel<kAll, 4>},
};

/// The narrowest kernel that does it.
Kernel choose(const Decode& p) {
  unsigned types = 0;
  for (int i = 0; i < p.num_shapes; ++i) types |= 1U << (unsigned(p.shapes[i].type) & 31U);
  for (const Choice& c : kChoices) {
    if ((types & ~c.types) == 0 && p.items <= c.items) return c.kernel;
  }
  return nullptr;
}

}  // namespace

cudaError_t prepare_decode() {
  int device = 0, most = 0, major = 0, cooperative = 0;
  if (cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (cudaError_t e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
      e != cudaSuccess)
    return e;
  if (cudaError_t e = cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device);
      e != cudaSuccess)
    return e;
  if (major < 9 || cooperative == 0) return cudaErrorNotSupported;
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

cudaError_t decode_step(cudaStream_t stream, const Decode& p) {
  const Kernel kernel = choose(p);
  if (kernel == nullptr) return cudaErrorInvalidConfiguration;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.grid));
  config.blockDim = dim3(kDecodeAllThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(p.shared.total);
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  if (p.blocks > 0) {
    attribute.id = cudaLaunchAttributeCooperative;  // refuses a grid that does not fit at once
    attribute.val.cooperative = 1;
  } else {  // the head alone, beside the cluster's kernel
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, p);
}

}  // namespace runnel::cuda
