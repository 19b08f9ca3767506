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
  // One token, with this processor's prefetches.
  all.matmul[kTileQ8_0][0] = quantised_matmul<1, Q8_0>;
  all.matmul[kTileQ4_0][0] = quantised_matmul<1, Q4_0>;
  all.matmul[kTileQ4_1][0] = quantised_matmul<1, Q4_1>;
  all.matmul[kTileQ5_0][0] = quantised_matmul<1, Q5_0>;
  all.matmul[kTileQ4_K][0] = quantised_matmul<1, Q4_K>;
  all.matmul[kTileQ5_K][0] = quantised_matmul<1, Q5_K>;
  all.matmul[kTileQ6_K][0] = quantised_matmul<1, Q6_K>;
  all.matmul[kTileWide][0] = quantised_matmul<1, Wide>;
  add_one_scale_packs<kPacks, kPacks>(all);
  all.int8_peak = int8_peak;
  return all;
}

}  // namespace runnel::cpu::avx512_amx
