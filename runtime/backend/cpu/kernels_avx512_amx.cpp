// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VNNI and a matrix unit (AMX, int8), which takes many tokens.
#define RUNNEL_ISA avx512_amx
#define RUNNEL_REGISTER(x) "v"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_avx512.h"
//
#include "runtime/backend/cpu/kernels/unroll.h"
//
#include "runtime/backend/cpu/kernels/matmul.h"
//
#include "runtime/backend/cpu/kernels/amx.h"

namespace runnel::cpu::avx512_amx {

Kernels kernels() {
  Kernels all = avx512_vnni::kernels();
  add_one_token(all);  // with this processor's prefetches
  add_one_scale_packs<kPacks, kPacks>(all);
  all.int8_peak = int8_peak;
  return all;
}

}  // namespace runnel::cpu::avx512_amx
