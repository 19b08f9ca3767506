#version 460
// SPDX-License-Identifier: Apache-2.0
// o[t] = act(sum_s share_s o_s): the splits of slot_attention put together, once, where a head has so many that every
// workgroup of the output projection would read more splits than weights.
// Grid: (columns / 128, tokens). Bound: latency.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"
#define INPUT_BINDING 0
#define VECTORS_BINDING 1
#include "ops/input.glsl"

layout(set = 0, binding = 2) writeonly buffer Output { float v[]; } destination;
layout(push_constant) uniform Push { RowsArgs a; };

void main() {
  const uint token = gl_WorkGroupID.y;
  if (token >= pass.word[a.count_at]) return;
  prepare_shares(a.in_, token);
  const uint c = gl_WorkGroupID.x * kThreads + THREAD;
  if (c < COLUMNS) destination.v[token * a.out_stride + c] = input_value(a.in_, token, c);
}
