// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VNNI as AMD's Zen 4 has it, which takes 512 bits in two halves.
#define RUNNEL_ISA avx512_zen4
#define RUNNEL_BASE_ISA avx512
#define RUNNEL_ZEN4
#define RUNNEL_REGISTER(x) "v"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_avx512.h"
//
#include "runtime/backend/cpu/kernels/table.h"
