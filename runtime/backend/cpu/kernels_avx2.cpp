// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX2 with FMA and F16C.
#define RUNNEL_ISA avx2
#define RUNNEL_REGISTER(x) "x"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_avx2.h"
//
#include "runtime/backend/cpu/kernels/table.h"
