#version 460
// SPDX-License-Identifier: Apache-2.0
// y[t, r] = sum_c W[r, c] x[t, c] for many tokens on matrix units: f16 operands, f32 sums.
//
// Work split: a workgroup of 4 subgroups computes 64 rows x 64 tokens in steps of 32 columns; a subgroup 32 rows x 32
// tokens as 2 x 2 tiles of 16 x 16. Operands pass through shared memory as f16, the sums through the same memory as f32.
// Grid: (rows / 64, tokens / 64). Bound: 2 T rows columns operations.
// Needs VK_NV_cooperative_matrix (16 x 16 x 16), a subgroup of 32; matmul.comp is the fallback.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "weights.glsl"
#define PASS_BINDING 4
#include "pass.glsl"

layout(set = 0, binding = 1) readonly buffer Input4 { vec4 v[]; } source4;
layout(set = 0, binding = 3) buffer Output { float v[]; } y;
layout(push_constant) uniform Push { MatvecArgs a; };

layout(constant_id = 11) const uint OUTPUT = kOutputStore;

const uint kTile = 64;
const uint kStep = 32;             // columns
const uint kPitch = kStep + 8;     // f16 between rows of an operand tile: 80 bytes, no two rows on the same banks
const uint kSumPitch = kTile + 4;  // f32 between tokens of the sums
const float kLargest = 65504.0;    // of f16

shared float16_t w_tile[kTile * kPitch];  // [row, column]
shared float16_t x_tile[kTile * kPitch];  // [token, column]
shared float sums[kTile / 2 * kSumPitch];  // [token of one half, row]

void put(uint at, vec4 w_low, vec4 w_high, vec4 x_low, vec4 x_high) {
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    w_tile[at + i] = float16_t(w_low[i]);
    w_tile[at + 4 + i] = float16_t(w_high[i]);
    x_tile[at + i] = float16_t(clamp(x_low[i], -kLargest, kLargest));
    x_tile[at + 4 + i] = float16_t(clamp(x_high[i], -kLargest, kLargest));
  }
}

void main() {
  const uint token0 = gl_WorkGroupID.y * kTile;
  const uint count = pass.word[a.count_at];
  if (token0 >= count) return;
  const uint row0 = gl_WorkGroupID.x * kTile;
  const uint warp = THREAD / 32;
  const uint warp_row = warp % 2 * 32;
  const uint warp_token = warp / 2 * 32;

  // c[t][r]: tokens are the matrix's rows, so that a row of sums is a row of the output.
  fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> c[2][2];
  [[unroll]] for (uint t = 0; t < 2; ++t) {
    [[unroll]] for (uint r = 0; r < 2; ++r) c[t][r] = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0);
  }

  for (uint unit0 = 0; unit0 < UNITS; unit0 += kStep / kUnit) {
    barrier();
    // 64 x 4 units of each operand, two per thread.
    [[unroll]] for (uint half_tile = 0; half_tile < 2; ++half_tile) {
      const uint i = THREAD + half_tile * kThreads;
      const uint line = i / 4;
      const uint unit = unit0 + i % 4;
      vec4 w_low = vec4(0.0), w_high = vec4(0.0), x_low = vec4(0.0), x_high = vec4(0.0);
      if (unit < UNITS) {
        const Unit u = decode(load_raw(a.w, min(row0 + line, a.w.rows - 1), unit));
        w_low = u.scale * u.low;
        w_high = u.scale * u.high;
        const uint at = min(token0 + line, count - 1) * (a.in_.stride / 4) + 2 * unit;
        x_low = source4.v[at];
        x_high = source4.v[at + 1];
      }
      put(line * kPitch + i % 4 * kUnit, w_low, w_high, x_low, x_high);
    }
    barrier();
    [[unroll]] for (uint k = 0; k < kStep; k += 16) {
      fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> x[2], w[2];
      [[unroll]] for (uint t = 0; t < 2; ++t)
        coopMatLoadNV(x[t], x_tile, (warp_token + 16 * t) * kPitch + k, kPitch, false);
      [[unroll]] for (uint r = 0; r < 2; ++r)
        coopMatLoadNV(w[r], w_tile, (warp_row + 16 * r) * kPitch + k, kPitch, true);  // [column, row]
      [[unroll]] for (uint t = 0; t < 2; ++t) {
        [[unroll]] for (uint r = 0; r < 2; ++r) c[t][r] = coopMatMulAddNV(x[t], w[r], c[t][r]);
      }
    }
  }

  // Half of the tokens at a time: what happens to the sums needs plain indices.
  [[unroll]] for (uint half_tile = 0; half_tile < 2; ++half_tile) {
    barrier();
    if (warp / 2 == half_tile) {
      [[unroll]] for (uint t = 0; t < 2; ++t) {
        [[unroll]] for (uint r = 0; r < 2; ++r)
          coopMatStoreNV(c[t][r], sums, 16 * t * kSumPitch + warp_row + 16 * r, kSumPitch, false);
      }
    }
    barrier();
    for (uint i = THREAD; i < kTile / 2 * kTile; i += kThreads) {
      const uint r = i % kTile;
      const uint token = token0 + half_tile * (kTile / 2) + i / kTile;
      if (token >= count || row0 + r >= a.w.rows) continue;
      const float sum = sums[i / kTile * kSumPitch + r];
      const uint out_row = token * a.out_stride + a.out_column;
      const uint row = a.w.first_row + row0 + r;
      if (OUTPUT == kOutputStore) y.v[out_row + row] = sum;
      if (OUTPUT == kOutputAdd) y.v[out_row + row] += sum;
      if (OUTPUT == kOutputSwigluPairs && r % 2 == 1)
        y.v[out_row + row / 2] = swish(sums[i / kTile * kSumPitch + r - 1]) * sum;
      if (OUTPUT == kOutputSwigluWith) y.v[out_row + row] = swish(y.v[out_row + row]) * sum;
    }
  }
}
