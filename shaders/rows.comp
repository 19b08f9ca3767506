#version 460
// SPDX-License-Identifier: Apache-2.0
// out[t] = input(row t): norms and the join of slot splits for passes of many tokens, where every workgroup of a
// product would repeat them.  Grid: (tokens). Bound: bytes in and out.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define INPUT_BINDING 0
#define VECTORS_BINDING 1
#include "input.glsl"
#define PASS_BINDING 3
#include "pass.glsl"

layout(set = 0, binding = 2) buffer Output { float v[]; } destination;
layout(push_constant) uniform Push { RowsArgs a; };

#define PUT(c, value) destination.v[gl_WorkGroupID.x * a.out_stride + (c)] = (value)
#define GET(c) destination.v[gl_WorkGroupID.x * a.out_stride + (c)]

void main() {
  const uint token = gl_WorkGroupID.x;
  if (token >= pass.word[a.count_at]) return;
  const uint row = a.in_.rows_at == kNone ? token : pass.word[a.in_.rows_at + token];
  PREPARE_INPUT(a.in_, row, PUT, GET)
}
