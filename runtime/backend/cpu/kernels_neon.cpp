// SPDX-License-Identifier: Apache-2.0
// The kernels for ARMv8.0 NEON.
#define RUNNEL_ISA neon
#define RUNNEL_REGISTER(x) "w"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_neon.h"
//
#include "runtime/backend/cpu/kernels/table.h"
