#version 460
// SPDX-License-Identifier: Apache-2.0
// W[r, c] of a packed part as f16 rows for matrix units, once per pass and matrix; columns past the last are zero.
// Rows of gate and up go to alternating groups of 16, so that a tile of each lies side by side (matmul_tiles).
// Work split: a thread 8 columns. Grid: (units of a row / 128, rows). Bound: bytes in and out.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#include "contract/weights.glsl"

layout(set = 0, binding = 1) writeonly buffer Output { uvec4 v[]; } f16_rows;
layout(push_constant) uniform Push { UnpackArgs a; };

const float kLargest = 65504.0;  // of f16

uint pack(float x, float y) { return packHalf2x16(clamp(vec2(x, y), -kLargest, kLargest)); }

void main() {
  const uint unit = gl_WorkGroupID.x * kThreads + THREAD;
  if (unit >= a.stride) return;
  const uint row = gl_WorkGroupID.y;
  uint to = a.w.first_row + row;
  if (a.order == kOrderPairs) {
    to = to / 32 * 32 + to % 2 * 16 + to / 2 % 16;
  } else if (a.order != kOrderPlain) {
    to = to / 16 * 32 + to % 16 + (a.order == kOrderUp ? 16 : 0);
  }
  uvec4 packed = uvec4(0);
  if (unit < UNITS) {
    const Unit u = decode(load_raw(a.w, row, unit));
    const vec4 low = u.scale * u.low, high = u.scale * u.high;
    packed = uvec4(pack(low.x, low.y), pack(low.z, low.w), pack(high.x, high.y), pack(high.z, high.w));
  }
  f16_rows.v[(a.row0 + to) * a.stride + unit] = packed;
}
