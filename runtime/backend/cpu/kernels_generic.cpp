// SPDX-License-Identifier: Apache-2.0
// The kernels for any CPU, in GCC's vector extensions.
#define RUNNEL_ISA generic
#define RUNNEL_REGISTER(x) "m"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_generic.h"
//
#include "runtime/backend/cpu/kernels/table.h"
