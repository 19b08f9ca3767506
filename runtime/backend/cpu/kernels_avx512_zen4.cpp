// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VNNI as AMD's Zen 4 has it, which takes 512 bits in two halves. They are those of one
// token, of several packs and of floats; the others, VNNI's, are as fast there and would only take space.
#define RUNNEL_ISA avx512_zen4
#define RUNNEL_ZEN4
#define RUNNEL_REGISTER(x) "v"(x)
#include "runtime/backend/cpu/kernels.h"
//
#include "runtime/backend/cpu/kernels/simd_avx512.h"
//
#include "runtime/backend/cpu/kernels/unroll.h"
//
#include "runtime/backend/cpu/kernels/matmul.h"
//
#include "runtime/backend/cpu/kernels/two_tiles.h"

namespace runnel::cpu::avx512_zen4 {
namespace {

template <class Rows>
void add_floats(MatmulKernel (&of_width)[kWidths]) {
  of_width[0] = float_matmul<1, Rows>;
  of_width[kWidths - 1] = float_matmul<kWide, Rows>;
}

}  // namespace

Kernels kernels() {
  Kernels all = avx512_vnni::kernels();
  add_floats<F32Rows>(all.matmul[kTileF32]);
  add_floats<F16Rows>(all.matmul[kTileF16]);
  add_floats<Bf16Rows>(all.matmul[kTileBf16]);
  add_one_token(all);
  add_packs_matmul(all);
  return all;
}

}  // namespace runnel::cpu::avx512_zen4
