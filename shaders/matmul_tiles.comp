#version 460
// SPDX-License-Identifier: Apache-2.0
// y[t, r] = sum_c W[r, c] x[t, c] for many tokens on matrix units: f16 operands (unpack, rows), f32 sums.
//
// Work split: a workgroup computes TILE_TOKENS x TILE_ROWS, a subgroup SUB_TOKENS x SUB_ROWS of it as tiles of 16 x 16.
// Columns in steps of STEP units through shared memory, in two halves (one barrier per step) or one (two barriers, half
// the memory); the next steps are loaded into registers while this one is multiplied.
// Grid: (rows / TILE_ROWS, tokens / TILE_TOKENS), taken in columns of BAND tiles of rows, so that workgroups that run
// at the same time share weights and inputs in L2.
// Bound: 2 T rows columns operations.
// Tokens past the last are computed from whatever the padded rows hold and stored to padded rows; rows come in 16.
// Needs cooperative matrices (16 x 16 x 16), a subgroup of 32; matmul.comp is the fallback.
#define RUNNEL_OWN_WORKGROUP
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 4
#include "contract/pass.glsl"
#include "ops/tiles.glsl"

layout(local_size_x_id = 2) in;
layout(set = 0, binding = 0) readonly buffer Weights { uvec4 v[]; } weights;  // [rows, stride] 8 f16 each
layout(set = 0, binding = 1) readonly buffer Input { uvec4 v[]; } x;          // [tokens, stride]
layout(set = 0, binding = 3) buffer Output { float v[]; } y;
layout(set = 0, binding = 3) buffer Output16 { uvec4 v[]; } y16;
layout(push_constant) uniform Push { TilesArgs a; };

layout(constant_id = 1) const uint OUTPUT = kOutputStore;
layout(constant_id = 2) const uint THREADS = 128;
layout(constant_id = 3) const uint TILE_TOKENS = 128;
layout(constant_id = 4) const uint TILE_ROWS = 128;
layout(constant_id = 5) const uint STEP = 4;  // units of 8 columns: a multiple of 2 that divides every stride
layout(constant_id = 6) const uint HALVES = 2;
layout(constant_id = 7) const uint DEPTH = 1;  // steps under way: 1 or 2
layout(constant_id = 8) const uint SUB_TOKENS = 64;
layout(constant_id = 9) const uint SUB_ROWS = 64;
layout(constant_id = 10) const uint BAND = 0;  // 0: row by row of the grid

const uint kPitch = STEP + 1;  // an odd number of 16 bytes: no two of eight rows on the same banks
const uint kRowHalf = TILE_ROWS * kPitch, kTokenHalf = TILE_TOKENS * kPitch;
const uint kLines = THREADS / STEP;  // that all threads load at once
const uint kRowLoads = TILE_ROWS / kLines, kTokenLoads = TILE_TOKENS / kLines;  // of a thread and step
const uint kT = SUB_TOKENS / 16, kR = SUB_ROWS / 16;

shared uvec4 w_tile[HALVES * kRowHalf];    // [row][column]
shared uvec4 x_tile[HALVES * kTokenHalf];  // [token][column]

#define LOAD(W, X, INDEX)                                                                                  \
  {                                                                                                        \
    const uint skip = (INDEX) * STEP;                                                                      \
    [[unroll]] for (uint i = 0; i < kRowLoads; ++i) W[i] = weights.v[w_from[i] + skip];                    \
    [[unroll]] for (uint i = 0; i < kTokenLoads; ++i) X[i] = x.v[x_from + i * kLines * a.stride + skip];   \
  }
#define PUT(W, X, HALF)                                                                                       \
  {                                                                                                           \
    [[unroll]] for (uint i = 0; i < kRowLoads; ++i) w_tile[(HALF) * kRowHalf + to + i * kLines * kPitch] = W[i];     \
    [[unroll]] for (uint i = 0; i < kTokenLoads; ++i) x_tile[(HALF) * kTokenHalf + to + i * kLines * kPitch] = X[i]; \
  }
// Multiplies step INDEX, which lies in shared memory, while FAR is loaded; then stores NEAR, the next step.
#define STEP_OF(INDEX, NEAR_W, NEAR_X, FAR_W, FAR_X)                                                      \
  {                                                                                                       \
    const uint index = INDEX;                                                                             \
    const uint here = HALVES == 2 ? index % 2 : 0, there = HALVES == 2 ? 1 - here : 0;                    \
    if (index + DEPTH < steps) LOAD(FAR_W, FAR_X, index + DEPTH)                                          \
    [[unroll]] for (uint k = 0; k < STEP; k += 2) {                                                       \
      LEFT left[kT];                                                                                      \
      RIGHT right;                                                                                        \
      [[unroll]] for (uint t = 0; t < kT; ++t)                                                            \
        LOAD_ROWS(left[t], x_tile, here * kTokenHalf + (sub_token + 16 * t) * kPitch + k, kPitch);        \
      [[unroll]] for (uint r = 0; r < kR; ++r) {                                                          \
        LOAD_COLUMNS(right, w_tile, here * kRowHalf + (sub_row + 16 * r) * kPitch + k, kPitch);           \
        [[unroll]] for (uint t = 0; t < kT; ++t) c[t][r] = MULTIPLY_ADD(left[t], right, c[t][r]);         \
      }                                                                                                   \
    }                                                                                                     \
    if (HALVES == 1) barrier();                                                                           \
    if (index + 1 < steps) PUT(NEAR_W, NEAR_X, there)                                                     \
    barrier();                                                                                            \
  }

void main() {
  uvec2 at_tile = gl_WorkGroupID.xy;  // of rows, of tokens
  if (BAND > 0) {
    const uint wide = gl_NumWorkGroups.x, high = gl_NumWorkGroups.y;
    const uint id = at_tile.y * wide + at_tile.x, first = id / (BAND * high) * BAND;
    const uint width = min(BAND, wide - first), within = id - first * high;
    at_tile = uvec2(first + within % width, within / width);
  }
  const uint token0 = at_tile.y * TILE_TOKENS;
  if (token0 >= pass.word[kPassTokens]) return;
  const uint row0 = at_tile.x * TILE_ROWS;
  const uint thread = gl_SubgroupID * 32 + gl_SubgroupInvocationID;
  const uint sub_token = gl_SubgroupID % (TILE_TOKENS / SUB_TOKENS) * SUB_TOKENS;
  const uint sub_row = gl_SubgroupID / (TILE_TOKENS / SUB_TOKENS) * SUB_ROWS;

  const uint line = thread / STEP, unit = thread % STEP;
  uint w_from[kRowLoads];
  [[unroll]] for (uint i = 0; i < kRowLoads; ++i)
    w_from[i] = min(row0 + line + kLines * i, a.rows - 1) * a.stride + unit;
  const uint x_from = (token0 + line) * a.stride + unit;
  const uint to = line * kPitch + unit;

  SUMS c[kT][kR];  // tokens are the matrix's rows, so that a row of sums is a row of the output
  [[unroll]] for (uint t = 0; t < kT; ++t) {
    [[unroll]] for (uint r = 0; r < kR; ++r) c[t][r] = NO_SUMS;
  }
  const uint steps = a.stride / STEP;
  uvec4 w_even[kRowLoads], x_even[kTokenLoads], w_odd[kRowLoads], x_odd[kTokenLoads];
  LOAD(w_even, x_even, 0)
  PUT(w_even, x_even, 0)
  if (DEPTH == 2 && steps > 1) LOAD(w_odd, x_odd, 1)
  barrier();
  if (DEPTH == 2) {
    for (uint step = 0; step < steps; step += 2) {
      STEP_OF(step, w_odd, x_odd, w_even, x_even)
      if (step + 1 < steps) STEP_OF(step + 1, w_even, x_even, w_odd, x_odd)
    }
  } else {
    for (uint step = 0; step < steps; ++step) STEP_OF(step, w_even, x_even, w_even, x_even)
  }

  if (OUTPUT == kOutputSwigluPairs) {
    // 16 rows of gate, then 16 of up: tiles of the same layout.
    [[unroll]] for (uint r = 0; r < kR; r += 2) {
      const uint row = row0 + sub_row + 16 * r;
      if (row >= a.rows) continue;
      [[unroll]] for (uint t = 0; t < kT; ++t) {
        NARROW h;
        [[unroll]] for (int i = 0; i < h.length(); ++i) {
          const float g = c[t][r][i];
          h[i] = float16_t(clamp(g / (1.0 + exp(-g)) * c[t][r + 1][i], -kLargestF16, kLargestF16));
        }
        STORE_ROWS(h, y16.v, (token0 + sub_token + 16 * t) * a.out_stride + row / 16, a.out_stride);
      }
    }
    return;
  }
  [[unroll]] for (uint t = 0; t < kT; ++t) {
    [[unroll]] for (uint r = 0; r < kR; ++r) {
      const uint row = row0 + sub_row + 16 * r;
      if (row >= a.rows) continue;
      const uint at = (token0 + sub_token + 16 * t) * a.out_stride + a.out_column + row;
      if (OUTPUT == kOutputAdd) {
        SUMS before;
        LOAD_ROWS(before, y.v, at, a.out_stride);
        c[t][r] = c[t][r] + before;
      }
      STORE_ROWS(c[t][r], y.v, at, a.out_stride);
    }
  }
}
