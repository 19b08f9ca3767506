// SPDX-License-Identifier: Apache-2.0
// Launches the decode kernel: one block a multiprocessor, all on the device at once.
#include "cuda/device/launch.cuh"
#include "cuda/device/step/grid.cuh"
#include "cuda/step_grid_even.h"

namespace runnel::cuda {
namespace {

template <unsigned kTypes, int kItems, int kWide, int kInner, int kHead, bool kBiased>
__global__ void __launch_bounds__(kDecodeAllThreads, 1)
    decode_kernel(const __grid_constant__ Decode p) {
#if __CUDA_ARCH__ >= 900
  decode_thread(p, [](int cta) { consume<kTypes, kItems, kWide, kInner, kHead, kBiased>(cta); });
  if (p.blocks == 0) chain_wait();  // the next kernel relies on the cluster's too
#endif
}

using Kernel = DecodeFunction;

struct Choice {
  unsigned types;
  int items, wide, inner, head;
  bool biased;
  Kernel kernel;
};
constexpr unsigned kFour =
    kTypeBit<BlockType::q4_0> | kTypeBit<BlockType::q8_0> | kTypeBit<BlockType::f16>;
constexpr unsigned kSuper =
    kTypeBit<BlockType::q4_k> | kTypeBit<BlockType::q6_k> | kTypeBit<BlockType::f16>;
constexpr unsigned kPlain = kTypeBit<BlockType::bf16>;
constexpr unsigned kFive =
    kTypeBit<BlockType::q5_0> | kTypeBit<BlockType::q8_0> | kTypeBit<BlockType::f16>;
constexpr unsigned kFiveSuper =
    kTypeBit<BlockType::q5_k> | kTypeBit<BlockType::q6_k> | kTypeBit<BlockType::f16>;
constexpr unsigned kAll = kFour | kSuper | kPlain | kTypeBit<BlockType::f32>;
constexpr unsigned kEvery = kAll | kFive | kFiveSuper | kTypeBit<BlockType::wide>;
template <unsigned kTypes, int kItems, int kWide = 0, int kInner = 0, int kHead = 0,
          bool kBiased = false>
constexpr Choice kChoice = {kTypes,
                            kItems,
                            kWide,
                            kInner,
                            kHead,
                            kBiased,
                            &decode_kernel<kTypes, kItems, kWide, kInner, kHead, kBiased>};
template <unsigned kTypes, int kItems>
constexpr Choice kBiasedChoice = kChoice<kTypes, kItems, 0, 0, 0, true>;
const Choice kChoices[] = {
    kChoice<kFour, 0, 2048, 5632, 512>,
    kChoice<kSuper, 0, 2048, 5632, 512>,
    kChoice<kPlain, 0, 2048, 5632, 512>,
    kChoice<kAll, 0>,
    kChoice<kFour, 1>,
    kChoice<kFour, 4>,
    kChoice<kSuper, 4>,
    kChoice<kPlain, 4>,
    kChoice<kAll, 4>,
    kBiasedChoice<kFour, 4>,
    kBiasedChoice<kAll, 4>,
    kChoice<kFive, 4>,
    kChoice<kFiveSuper, 4>,
    kChoice<kEvery, 0>,
    kChoice<kEvery, 4>,
    kBiasedChoice<kEvery, 4>,
};

/// The narrowest kernel that does it.
Kernel choose(const Decode& p) {
  if (p.even != 0) {
    if (const Kernel kernel = even_kernel(p); kernel != nullptr) return kernel;
  }
  const unsigned types = types_of(p);
  for (const Choice& c : kChoices) {
    if ((types & ~c.types) != 0 || c.biased != (p.biased != 0)) continue;
    if (p.warp_slots != 0 ? c.items != 0 : c.items == 0 || p.items > c.items) continue;
    if (c.wide == 0 || (p.d == c.wide && p.inner == c.inner && p.heads * p.v_dim == c.wide &&
                        p.k_dim == c.head && p.v_dim == c.head))
      return c.kernel;
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
  return prepare_even(most);
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
