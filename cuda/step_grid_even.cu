// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/launch.cuh"
#include "cuda/device/step/grid_even.cuh"
#include "cuda/step_grid_even.h"

namespace runnel::cuda {
namespace {

template <int kShape, BlockType kType, unsigned kTypes>
__global__ void __launch_bounds__(kDecodeAllThreads, 1)
    decode_even_kernel(const __grid_constant__ Decode p) {
#if __CUDA_ARCH__ >= 900
  chain_trigger();  // a draw of the token gets ready meanwhile
  decode_thread(p, [](int cta) { consume_even<kEvenShapes[kShape], kType, kTypes>(cta); });
#endif
}

struct Choice {
  int shape;
  BlockType type;
  unsigned types;  // of the layers and of the head
  DecodeFunction kernel;
};
constexpr unsigned kGates = kTypeBit<BlockType::f16>;
template <int kShape, BlockType kType, BlockType kHead = kType>
constexpr Choice kChoice = {kShape, kType, kTypeBit<kType> | kTypeBit<kHead> | kGates,
                            &decode_even_kernel<kShape, kType, kTypeBit<kType> | kTypeBit<kHead>>};
const Choice kChoices[] = {
    kChoice<0, BlockType::q4_0, BlockType::q8_0>,
    kChoice<0, BlockType::q4_k, BlockType::q6_k>,
    kChoice<0, BlockType::q4_k, BlockType::q8_0>,  // q4_1, whose stream is q4_k's
    kChoice<0, BlockType::q5_0, BlockType::q8_0>,
    kChoice<0, BlockType::q5_k, BlockType::q6_k>,
    kChoice<0, BlockType::q8_0>,
    kChoice<0, BlockType::wide, BlockType::q6_k>,
    kChoice<0, BlockType::bf16>,
    kChoice<1, BlockType::q4_0, BlockType::q8_0>,
    kChoice<2, BlockType::q4_0, BlockType::q8_0>,
};

}  // namespace

DecodeFunction even_kernel(const Decode& p) {
  const unsigned types = types_of(p);
  for (const Choice& c : kChoices) {
    if (c.shape + 1 == p.even && c.type == p.shapes[0].type && (types & ~c.types) == 0)
      return c.kernel;
  }
  return nullptr;
}

cudaError_t prepare_even(int shared_bytes) {
  for (const Choice& c : kChoices) {
    if (cudaError_t e =
            cudaFuncSetAttribute(reinterpret_cast<const void*>(c.kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
        e != cudaSuccess)
      return e;
  }
  return cudaSuccess;
}

}  // namespace runnel::cuda
