#version 460
// SPDX-License-Identifier: Apache-2.0
// y[t, r] = sum_c W[r, c] x[t, c] for many tokens on matrix units: f16 operands (unpack, rows), f32 sums.
//
// Work split: a workgroup of 4 subgroups computes 128 tokens x 128 rows, a subgroup 64 x 64 as 4 x 4 tiles of 16 x 16
// (with 64 x 32 shared memory was the bound: 131 TFLOP/s on an H200). Columns in steps of 32 through two halves of shared memory (40 KiB): the next step is loaded into registers while
// this one is multiplied, one barrier a step.  Grid: (rows / 128, tokens / 128).
// Bound: 2 T rows columns operations.
// Tokens past the last are computed from whatever the padded rows hold and stored to padded rows; rows come in 16.
// Needs VK_NV_cooperative_matrix (16 x 16 x 16), a subgroup of 32; matmul.comp is the fallback.
#define RUNNEL_OWN_WORKGROUP
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#define PASS_BINDING 4
#include "pass.glsl"

layout(local_size_x = kThreads) in;
layout(set = 0, binding = 0) readonly buffer Weights { uvec4 v[]; } weights;  // [rows, stride] 8 f16 each
layout(set = 0, binding = 1) readonly buffer Input { uvec4 v[]; } x;          // [tokens, stride]
layout(set = 0, binding = 3) buffer Output { float v[]; } y;
layout(set = 0, binding = 3) buffer Output16 { uvec4 v[]; } y16;
layout(push_constant) uniform Push { TilesArgs a; };

layout(constant_id = 1) const uint OUTPUT = kOutputStore;

const uint kTile = 128;
const uint kStepUnits = 4;          // 32 columns
const uint kPitch = kStepUnits + 1;  // 80 bytes: no two of eight rows on the same banks
const uint kHalf = kTile * kPitch;

shared uvec4 w_tile[2 * kHalf];  // [row][column]
shared uvec4 x_tile[2 * kHalf];  // [token][column]

#define SUMS fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define OPERAND fcoopmatNV<16, gl_ScopeSubgroup, 16, 16>

void main() {
  const uint token0 = gl_WorkGroupID.y * kTile;
  if (token0 >= pass.word[kPassTokens]) return;
  const uint row0 = gl_WorkGroupID.x * kTile;
  const uint thread = gl_SubgroupID * 32 + gl_SubgroupInvocationID;
  const uint warp_token = gl_SubgroupID % 2 * 64;
  const uint warp_row = gl_SubgroupID / 2 * 64;

  // Four units of each operand per thread and step, of lines 32 apart.
  const uint line = thread / kStepUnits, unit = thread % kStepUnits;
  uint w_from[4], x_from[4];
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    w_from[i] = min(row0 + line + 32 * i, a.rows - 1) * a.stride + unit;
    x_from[i] = (token0 + line + 32 * i) * a.stride + unit;
  }
  const uint to = line * kPitch + unit;

  SUMS c[4][4];  // tokens are the matrix's rows, so that a row of sums is a row of the output
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    [[unroll]] for (uint r = 0; r < 4; ++r) c[t][r] = SUMS(0.0);
  }
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    w_tile[to + 32 * i * kPitch] = weights.v[w_from[i]];
    x_tile[to + 32 * i * kPitch] = x.v[x_from[i]];
  }
  barrier();
  const uint steps = a.stride / kStepUnits;
  for (uint step = 0; step < steps; ++step) {
    const uint here = step % 2 * kHalf, there = kHalf - here;
    const bool more = step + 1 < steps;
    uvec4 w_next[4], x_next[4];
    if (more) {
      const uint skip = (step + 1) * kStepUnits;
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        w_next[i] = weights.v[w_from[i] + skip];
        x_next[i] = x.v[x_from[i] + skip];
      }
    }
    [[unroll]] for (uint k = 0; k < kStepUnits; k += 2) {
      OPERAND left[4], right;
      [[unroll]] for (uint t = 0; t < 4; ++t)
        coopMatLoadNV(left[t], x_tile, here + (warp_token + 16 * t) * kPitch + k, kPitch, false);
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        coopMatLoadNV(right, w_tile, here + (warp_row + 16 * r) * kPitch + k, kPitch, true);
        [[unroll]] for (uint t = 0; t < 4; ++t) c[t][r] = coopMatMulAddNV(left[t], right, c[t][r]);
      }
    }
    if (more) {
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        w_tile[there + to + 32 * i * kPitch] = w_next[i];
        x_tile[there + to + 32 * i * kPitch] = x_next[i];
      }
    }
    barrier();
  }

  if (OUTPUT == kOutputSwigluPairs) {
    // 16 rows of gate, then 16 of up: tiles of the same layout.
    [[unroll]] for (uint r = 0; r < 4; r += 2) {
      const uint row = row0 + warp_row + 16 * r;
      if (row >= a.rows) continue;
      [[unroll]] for (uint t = 0; t < 4; ++t) {
        OPERAND h;
        [[unroll]] for (int i = 0; i < h.length(); ++i) {
          const float g = c[t][r][i];
          h[i] = float16_t(clamp(g / (1.0 + exp(-g)) * c[t][r + 1][i], -65504.0, 65504.0));
        }
        coopMatStoreNV(h, y16.v, (token0 + warp_token + 16 * t) * a.out_stride + row / 16, a.out_stride, false);
      }
    }
    return;
  }
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      const uint row = row0 + warp_row + 16 * r;
      if (row >= a.rows) continue;
      const uint at = (token0 + warp_token + 16 * t) * a.out_stride + a.out_column + row;
      if (OUTPUT == kOutputAdd) {
        SUMS before;
        coopMatLoadNV(before, y.v, at, a.out_stride, false);
        c[t][r] = c[t][r] + before;
      }
      coopMatStoreNV(c[t][r], y.v, at, a.out_stride, false);
    }
  }
}
