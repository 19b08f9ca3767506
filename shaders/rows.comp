#version 460
// SPDX-License-Identifier: Apache-2.0
// out[t] = input(row t): norms and the join of slot splits for passes of many tokens, where every workgroup of a
// product would repeat them. OUTPUT_F16: as f16 for matrix units, columns past the last as zeros.
// Grid: (tokens). Bound: bytes in and out.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"
#define INPUT_BINDING 0
#define VECTORS_BINDING 1
#define RUNNEL_LONG_ITEMS
#include "ops/input.glsl"

layout(push_constant) uniform Push { RowsArgs a; };

#ifdef OUTPUT_F16
layout(set = 0, binding = 2) writeonly buffer Output { uint v[]; } destination;  // [T, out_stride] two f16 each

const float kLargest = 65504.0;  // of f16

void main() {
  const uint token = gl_WorkGroupID.x;
  if (token >= pass.word[a.count_at]) return;
  prepare_shares(a.in_, token);
  float factor = 1.0;
  if (NORMALISE) {
    precise float squares = 0.0;
    for (uint c = THREAD; c < COLUMNS; c += kThreads) {
      const float v = input_value(a.in_, token, c);
      squares = fma(v, v, squares);
    }
    factor = 1.0 / sqrt(team_sum(squares, kThreads) / float(COLUMNS) + a.in_.eps);
  }
  for (uint i = THREAD; i < a.out_stride; i += kThreads) {
    vec2 pair = vec2(0.0);
    for (uint e = 0; e < 2; ++e) {
      const uint c = 2 * i + e;
      if (c >= COLUMNS) continue;
      float v = input_value(a.in_, token, c) * factor;
      if (NORMALISE && a.in_.norm_weight != kNone) v *= vectors.v[a.in_.norm_weight + c];
      pair[e] = clamp(v, -kLargest, kLargest);
    }
    destination.v[token * a.out_stride + i] = packHalf2x16(pair);
  }
}
#else
layout(set = 0, binding = 2) buffer Output { float v[]; } destination;

#define PUT(c, value) destination.v[gl_WorkGroupID.x * a.out_stride + (c)] = (value)
#define GET(c) destination.v[gl_WorkGroupID.x * a.out_stride + (c)]

void main() {
  const uint token = gl_WorkGroupID.x;
  if (token >= pass.word[a.count_at]) return;
  const uint row = a.in_.rows_at == kNone ? token : pass.word[a.in_.rows_at + token];
  PREPARE_INPUT(a.in_, row, PUT, GET)
}
#endif
