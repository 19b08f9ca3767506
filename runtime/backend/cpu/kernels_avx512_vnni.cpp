// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VNNI.
#define RUNNEL_ISA avx512_vnni
#define RUNNEL_BASE_ISA avx512
#define RUNNEL_REGISTER(x) "v"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_avx512.h"
//
#include "runtime/backend/cpu/kernels/table.h"
