#version 460
// SPDX-License-Identifier: Apache-2.0
// x[t, c] += b[c], in place.
// Grid: (columns / 128, tokens). Bound: the rows' bytes.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 2
#include "contract/pass.glsl"

layout(set = 0, binding = 0) buffer Rows { float v[]; } rows;
layout(set = 0, binding = 1) readonly buffer Vectors { float v[]; } vectors;
layout(push_constant) uniform Push { ElementwiseArgs a; };

void main() {
  const uint c = gl_WorkGroupID.x * kThreads + THREAD, token = gl_WorkGroupID.y;
  if (c >= a.columns || token >= pass.word[kPassTokens]) return;
  rows.v[token * a.stride + c] += vectors.v[a.bias + c];
}
