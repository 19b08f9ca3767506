#version 460
// SPDX-License-Identifier: Apache-2.0
// y[t, r] = sum_c W[r, c] f(x)[t, c] for few tokens; f, the norm and what happens to y are modes.
//
// Work split: TEAM lanes share ROWS rows; lane l takes units l, l + TEAM, ... of 8 columns. A workgroup has
// 128 / TEAM teams; grid: (rows, groups of TOKENS tokens).
// Bound: bytes of W at one token on a large model; the latency of the chain on a small one, so weights are loaded
// before the input is prepared, and the input is prepared in every workgroup rather than in a pass of its own.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weights.glsl"
#define INPUT_BINDING 1
#define VECTORS_BINDING 2
#include "input.glsl"
#define PASS_BINDING 4
#include "pass.glsl"

layout(set = 0, binding = 3) buffer Output { float v[]; } y;
layout(set = 0, binding = INPUT_BINDING) readonly buffer Input4 { vec4 v[]; } source4;
layout(push_constant) uniform Push { MatvecArgs a; };

layout(constant_id = 8) const uint TEAM = 32;
layout(constant_id = 9) const uint ROWS = 2;
layout(constant_id = 10) const uint TOKENS = 1;  // 1 unless INPUT is kInputPlain
layout(constant_id = 11) const uint OUTPUT = kOutputStore;

const uint kSteps = (UNITS + TEAM - 1) / TEAM;
const uint kAhead = kSteps < 4 ? kSteps : 4;  // steps whose weights are loaded before the input is there

shared vec4 prepared[INPUT == kInputPlain ? 1 : 2 * UNITS];
#define PUT(c, value) prepared[(c) / 4][(c) % 4] = (value)
#define GET(c) prepared[(c) / 4][(c) % 4]

float row_sum(Unit u, vec4 low, vec4 high) {
  precise float s = u.low.x * low.x;
  s = fma(u.low.y, low.y, s);
  s = fma(u.low.z, low.z, s);
  s = fma(u.low.w, low.w, s);
  s = fma(u.high.x, high.x, s);
  s = fma(u.high.y, high.y, s);
  s = fma(u.high.z, high.z, s);
  s = fma(u.high.w, high.w, s);
  return s;
}

void main() {
  const uint token0 = gl_WorkGroupID.y * TOKENS;
  const uint count = pass.word[a.count_at];
  if (token0 >= count) return;
  const uint lane = THREAD % TEAM;
  const uint row0 = (gl_WorkGroupID.x * (kThreads / TEAM) + THREAD / TEAM) * ROWS;

  Raw ahead[kAhead][ROWS];
  [[unroll]] for (uint step = 0; step < kAhead; ++step) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      ahead[step][r] = load_raw(a.w, min(row0 + r, a.w.rows - 1), min(lane + step * TEAM, UNITS - 1));
    }
  }
  if (INPUT != kInputPlain) {
    for (uint c = COLUMNS + THREAD; c < UNITS * kUnit; c += kThreads) PUT(c, 0.0);
    const uint row = a.in_.rows_at == kNone ? token0 : pass.word[a.in_.rows_at + token0];
    PREPARE_INPUT(a.in_, row, PUT, GET)
    barrier();
  }

  precise float sums[ROWS][TOKENS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) sums[r][t] = 0.0;
  }
  for (uint step = 0; step < kSteps; ++step) {
    const uint unit = lane + step * TEAM;
    if (unit >= UNITS) break;
    Unit u[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      Raw raw;
      if (step < kAhead) {
        raw = ahead[step][r];
      } else {
        raw = load_raw(a.w, min(row0 + r, a.w.rows - 1), unit);
      }
      u[r] = decode(raw);
    }
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
      vec4 low, high;
      if (INPUT == kInputPlain) {
        const uint at = min(token0 + t, count - 1) * (a.in_.stride / 4) + 2 * unit;
        low = source4.v[at];
        high = source4.v[at + 1];
      } else {
        low = prepared[2 * unit];
        high = prepared[2 * unit + 1];
      }
      [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r][t] = fma(u[r].scale, row_sum(u[r], low, high), sums[r][t]);
    }
  }

  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    float total[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) total[r] = team_sum(sums[r][t], TEAM);
    if (lane != 0 || token0 + t >= count) continue;
    const uint out_row = (token0 + t) * a.out_stride + a.out_column;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      if (row0 + r >= a.w.rows) continue;
      const uint row = a.w.first_row + row0 + r;
      if (OUTPUT == kOutputStore) y.v[out_row + row] = total[r];
      if (OUTPUT == kOutputAdd) y.v[out_row + row] += total[r];
      if (OUTPUT == kOutputSwigluPairs && r % 2 == 1) y.v[out_row + row / 2] = swish(total[r - 1]) * total[r];
      if (OUTPUT == kOutputSwigluWith) y.v[out_row + row] = swish(y.v[out_row + row]) * total[r];
    }
  }
}
