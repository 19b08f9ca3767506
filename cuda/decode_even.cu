// SPDX-License-Identifier: Apache-2.0
#include "cuda/decode_even.h"
#include "cuda/device/decode_even.cuh"

namespace runnel::cuda {
namespace {

template <BlockType kType, BlockType kHead>
__global__ void __launch_bounds__(kDecodeAllThreads, 1)
    decode_even_kernel(const __grid_constant__ Decode p) {
#if __CUDA_ARCH__ >= 900
  decode_thread(p, [](int cta) { consume_even<kEvenShape, kType, kHead>(cta); });
#endif
}

struct Choice {
  BlockType type, head;
  DecodeFunction kernel;
};
template <BlockType kType, BlockType kHead = kType>
constexpr Choice kChoice = {kType, kHead, &decode_even_kernel<kType, kHead>};
const Choice kChoices[] = {
    kChoice<BlockType::q4_0>, kChoice<BlockType::q4_0, BlockType::q8_0>,
    kChoice<BlockType::q4_k>, kChoice<BlockType::q4_k, BlockType::q6_k>,
    kChoice<BlockType::q8_0>, kChoice<BlockType::bf16>,
};

}  // namespace

DecodeFunction even_kernel(const Decode& p) {
  BlockType head = BlockType::f32;
  for (int i = 0; i < p.num_shapes; ++i) {
    if (p.shapes[i].everybody != 0) head = p.shapes[i].type;
  }
  for (const Choice& c : kChoices) {
    if (c.type == p.shapes[0].type && c.head == head) return c.kernel;
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
