// SPDX-License-Identifier: Apache-2.0
// The decode kernel for kEvenShape (cuda/device/decode_even.cuh), a translation unit of its own.
#pragma once

#include "cuda/decode.h"

namespace runnel::cuda {

using DecodeFunction = void (*)(Decode);

/// For a program whose `even` is set; null: not with its head's type.
DecodeFunction even_kernel(const Decode&);
/// Allows `shared_bytes` of shared memory.
cudaError_t prepare_even(int shared_bytes);

}  // namespace runnel::cuda
