#version 460
// SPDX-License-Identifier: Apache-2.0
// y[t, r] = sum_c W[r, c] x[t, c] for many tokens, all in f32.
//
// Work split: a workgroup computes 64 rows x 64 tokens in steps of 16 columns through shared memory (8.5 KiB); a thread
// 8 rows x 4 tokens. Grid: (rows / 64, tokens / 64). Bound: 2 T rows columns operations.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#include "contract/weights.glsl"
#define PASS_BINDING 4
#include "contract/pass.glsl"

layout(set = 0, binding = 1) readonly buffer Input4 { vec4 v[]; } source4;
layout(set = 0, binding = 3) buffer Output { float v[]; } y;
layout(push_constant) uniform Push { MatvecArgs a; };

layout(constant_id = 11) const uint OUTPUT = kOutputStore;

const uint kTile = 64;
const uint kStep = 16;  // columns
const uint kPitch = kTile + 4;

shared float w_tile[kStep * kPitch];  // [column, row]
shared float x_tile[kStep * kPitch];  // [column, token]

void main() {
  const uint token0 = gl_WorkGroupID.y * kTile;
  const uint count = pass.word[a.count_at];
  if (token0 >= count) return;
  const uint row0 = gl_WorkGroupID.x * kTile;
  const uint my_row = THREAD % 8 * 8;
  const uint my_token = THREAD / 8 * 4;

  precise float sums[8][4];
  [[unroll]] for (uint r = 0; r < 8; ++r) {
    [[unroll]] for (uint t = 0; t < 4; ++t) sums[r][t] = 0.0;
  }
  const uint load_row = THREAD / 2;
  const uint load_unit = THREAD % 2;
  for (uint unit0 = 0; unit0 < UNITS; unit0 += 2) {
    // Thread i loads unit i % 2 of row and of token i / 2. Units past the end are zero in both.
    const uint unit = unit0 + load_unit;
    vec4 w_low = vec4(0.0), w_high = vec4(0.0), x_low = vec4(0.0), x_high = vec4(0.0);
    if (unit < UNITS) {
      const Unit u = decode(load_raw(a.w, min(row0 + load_row, a.w.rows - 1), unit));
      w_low = u.scale * u.low;
      w_high = u.scale * u.high;
      const uint at = min(token0 + load_row, count - 1) * (a.in_.stride / 4) + 2 * unit;
      x_low = source4.v[at];
      x_high = source4.v[at + 1];
    }
    barrier();
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      w_tile[(load_unit * 8 + i) * kPitch + load_row] = w_low[i];
      w_tile[(load_unit * 8 + 4 + i) * kPitch + load_row] = w_high[i];
      x_tile[(load_unit * 8 + i) * kPitch + load_row] = x_low[i];
      x_tile[(load_unit * 8 + 4 + i) * kPitch + load_row] = x_high[i];
    }
    barrier();
    for (uint c = 0; c < kStep; ++c) {
      float w[8], x[4];
      [[unroll]] for (uint r = 0; r < 8; ++r) w[r] = w_tile[c * kPitch + my_row + r];
      [[unroll]] for (uint t = 0; t < 4; ++t) x[t] = x_tile[c * kPitch + my_token + t];
      [[unroll]] for (uint r = 0; r < 8; ++r) {
        [[unroll]] for (uint t = 0; t < 4; ++t) sums[r][t] = fma(w[r], x[t], sums[r][t]);
      }
    }
  }

  [[unroll]] for (uint t = 0; t < 4; ++t) {
    const uint token = token0 + my_token + t;
    if (token >= count) break;
    const uint out_row = token * a.out_stride + a.out_column;
    [[unroll]] for (uint r = 0; r < 8; ++r) {
      if (row0 + my_row + r >= a.w.rows) break;
      const uint row = a.w.first_row + row0 + my_row + r;
      if (OUTPUT == kOutputStore) y.v[out_row + row] = sums[r][t];
      if (OUTPUT == kOutputAdd) y.v[out_row + row] += sums[r][t];
      if (OUTPUT == kOutputSquaredRelu) y.v[out_row + row] = max(sums[r][t], 0.0) * max(sums[r][t], 0.0);
      if (OUTPUT == kOutputSwigluPairs && r % 2 == 1) y.v[out_row + row / 2] = swish(sums[r - 1][t]) * sums[r][t];
      if (OUTPUT == kOutputSwigluWith) y.v[out_row + row] = swish(y.v[out_row + row]) * sums[r][t];
    }
  }
}
