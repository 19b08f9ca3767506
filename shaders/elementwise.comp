#version 460
// SPDX-License-Identifier: Apache-2.0
// What is done to each value of rows, in place.
//   STAGE_BIAS          x[t, c] += b[c]
//   STAGE_SQUARED_RELU  x[t, c] = max(x[t, c], 0)^2
// Grid: (columns / 128, tokens). Bound: the rows' bytes.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 2
#include "contract/pass.glsl"

layout(set = 0, binding = 0) buffer Rows { float v[]; } rows;
#ifdef STAGE_BIAS
layout(set = 0, binding = 1) readonly buffer Vectors { float v[]; } vectors;
#endif
layout(push_constant) uniform Push { ElementwiseArgs a; };

void main() {
  const uint c = gl_WorkGroupID.x * kThreads + THREAD, token = gl_WorkGroupID.y;
  if (c >= a.columns || token >= pass.word[kPassTokens]) return;
  const uint at = token * a.stride + c;
#ifdef STAGE_BIAS
  rows.v[at] += vectors.v[a.bias + c];
#else
  const float v = max(rows.v[at], 0.0);
  rows.v[at] = v * v;
#endif
}
