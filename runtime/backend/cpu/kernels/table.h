// SPDX-License-Identifier: Apache-2.0
// The kernel table of one instruction set. Included last by its kernels_*.cpp, which defines RUNNEL_ISA and includes the
// registers; everything but the table has internal linkage. An instruction set that only adds integer dot products to
// another names that as RUNNEL_BASE_ISA, and everything but products of quantised weights is the other's.
#pragma once

#include "runtime/backend/cpu/kernels.h"
// (order matters from here on)
#include "runtime/backend/cpu/kernels/unroll.h"
//
#include "runtime/backend/cpu/kernels/math.h"
//
#include "runtime/backend/cpu/kernels/matmul.h"
#if defined(RUNNEL_PACKS_KERNELS)
#include RUNNEL_PACKS_KERNELS
#endif
#if !defined(RUNNEL_BASE_ISA)
#include "runtime/backend/cpu/kernels/elementwise.h"
#include "runtime/backend/cpu/kernels/recurrence.h"
#include "runtime/backend/cpu/kernels/slots.h"
#endif

namespace runnel::cpu::RUNNEL_ISA {
namespace {

double int8_peak(int rounds, int32_t* sink) {
  constexpr int kChains = 12;
  alignas(64) uint8_t codes[64];
  alignas(64) int8_t values[64];
  for (int i = 0; i < 64; ++i) {
    codes[i] = 7;
    values[i] = i % 2 == 0 ? 100 : -100;  // every step adds 0: no sum leaves 32 bits
  }
  B w = load_bytes(codes);
  const auto a = four(values);
  I acc[kChains];
  unroll<kChains>([&](auto i) RUNNEL_INLINE_LAMBDA { acc[i] = splat_int(i); });
  for (int r = 0; r < rounds; ++r) {
    unroll<kChains>([&](auto i) RUNNEL_INLINE_LAMBDA {
      asm volatile("" : "+" RUNNEL_REGISTER(w));  // each product is made anew
      acc[i] = dot_step<15>(acc[i], w, a);
      asm volatile("" : "+" RUNNEL_REGISTER(acc[i]));  // keeps the loop from being summed up
    });
  }
  unroll<kChains>([&](auto i) RUNNEL_INLINE_LAMBDA { *sink += sum_int(acc[i]); });
  return 2.0 * rounds * kChains * kLanes * 4;
}

// Several conversations decoded together are fewer than the widest pack.
constexpr int kMiddle = kWide < 8 ? kWide : 8;

#define RUNNEL_QUANTISED(Format)                                                                 \
  {                                                                                              \
    quantised_matmul<1, Format>, quantised_matmul<4, Format>, quantised_matmul<kMiddle, Format>, \
        widest<Format>()                                                                         \
  }
#define RUNNEL_FLOAT(Rows)                                                     \
  {                                                                            \
    float_matmul<1, Rows>, float_matmul<4, Rows>, float_matmul<kMiddle, Rows>, \
        float_matmul<kWide, Rows>                                              \
  }

#if defined(RUNNEL_BASE_ISA)

Kernels table() {
  constexpr MatmulKernel kProducts[][kWidths] = {RUNNEL_QUANTISED(Q8_0), RUNNEL_QUANTISED(Q4_0),
                                                 RUNNEL_QUANTISED(Q4_1), RUNNEL_QUANTISED(Q5_0),
                                                 RUNNEL_QUANTISED(Q4_K), RUNNEL_QUANTISED(Q5_K),
                                                 RUNNEL_QUANTISED(Q6_K), RUNNEL_QUANTISED(Wide)};
  Kernels all = RUNNEL_BASE_ISA::kernels();
  constexpr size_t kCount = sizeof(kProducts) / sizeof(kProducts[0]);
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t w = 0; w < kWidths; ++w) all.matmul[kTileFormats - kCount + i][w] = kProducts[i][w];
  }
  all.int8_peak = int8_peak;
  return all;
}

#else

uint32_t read(const uint8_t* from, size_t bytes) {
  B seen[4] = {load_bytes(from), load_bytes(from), load_bytes(from), load_bytes(from)};
  for (size_t at = 0; at < bytes; at += 16 * kLanes) {
    for (size_t i = 0; i < 4; ++i)
      seen[i] = either(seen[i], load_bytes(from + at + 4 * kLanes * i));
  }
  uint32_t words[kLanes];
  __builtin_memcpy(words, &seen[0], sizeof(words));
  uint32_t all = words[0];
  for (int i = 1; i < 4; ++i) {
    __builtin_memcpy(words, &seen[i], sizeof(words));
    all |= words[0];
  }
  return all;
}

Kernels table() {
  return {
      {1, 4, kMiddle, kWide},
      {RUNNEL_FLOAT(F32Rows), RUNNEL_FLOAT(F16Rows), RUNNEL_FLOAT(Bf16Rows), RUNNEL_QUANTISED(Q8_0),
       RUNNEL_QUANTISED(Q4_0), RUNNEL_QUANTISED(Q4_1), RUNNEL_QUANTISED(Q5_0),
       RUNNEL_QUANTISED(Q4_K), RUNNEL_QUANTISED(Q5_K), RUNNEL_QUANTISED(Q6_K),
       RUNNEL_QUANTISED(Wide)},
      {},
      0,
      0,
      rms_norm,
      layer_norm,
      lerp,
      quantise,
      silu,
      sigmoid,
      swiglu,
      squared_relu,
      gates,
      exp_of,
      slot_keys,
      slot_softmax,
      slot_values,
      recurrence,
      int8_peak,
      read,
  };
}

#endif

}  // namespace

Kernels kernels() {
  Kernels all = table();
#if defined(RUNNEL_PACKS_KERNELS)
  add_packs_matmul(all);
#endif
  return all;
}

}  // namespace runnel::cpu::RUNNEL_ISA
