// SPDX-License-Identifier: Apache-2.0
// Activations good to bf16 precision and a few bits more, where products or memory wait for them.
#pragma once

#include "cuda/launch.h"

namespace runnel::cuda {

__device__ __forceinline__ float quick_swish(float x) { return __fdividef(x, 1.0F + __expf(-x)); }

__device__ __forceinline__ float quick_activate(Act act, float x) {
  return act == Act::swish ? quick_swish(x) : act == Act::relu ? fmaxf(x, 0.0F) : x;
}

}  // namespace runnel::cuda
