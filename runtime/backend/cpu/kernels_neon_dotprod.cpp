// SPDX-License-Identifier: Apache-2.0
// The kernels for NEON with the dot product instructions of ARMv8.2.
#define RUNNEL_ISA neon_dotprod
#define RUNNEL_BASE_ISA neon
#define RUNNEL_REGISTER(x) "w"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_neon.h"
//
#include "runtime/backend/cpu/kernels/table.h"
