// SPDX-License-Identifier: Apache-2.0
// The kernels for NEON with the 8-bit matrix multiplications of ARMv8.6.
#define RUNNEL_ISA neon_i8mm
#define RUNNEL_BASE_ISA neon
#define RUNNEL_REGISTER(x) "w"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_neon.h"
//
#include "runtime/backend/cpu/kernels/table.h"
