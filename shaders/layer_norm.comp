#version 460
// SPDX-License-Identifier: Apache-2.0
// out[t] = (x - mean) / sqrt(var + eps) * w + b of a row of x, once before the products that read it.
// Grid: (tokens). Bound: latency of two sums.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"

layout(set = 0, binding = 0) readonly buffer Input { float v[]; } source;
layout(set = 0, binding = 1) readonly buffer Vectors { float v[]; } vectors;
layout(set = 0, binding = 2) writeonly buffer Output { float v[]; } destination;
layout(push_constant) uniform Push { LayerNormArgs a; };

void main() {
  const uint token = gl_WorkGroupID.x;
  if (token >= pass.word[a.count_at]) return;
  const uint row = (a.in_.rows_at == kNone ? token : pass.word[a.in_.rows_at + token]) * a.in_.stride;
  precise float sum = 0.0;
  for (uint c = THREAD; c < a.columns; c += kThreads) sum += source.v[row + c];
  const float mean = team_sum(sum, kThreads) / float(a.columns);
  precise float squares = 0.0;
  for (uint c = THREAD; c < a.columns; c += kThreads) {
    const float v = source.v[row + c] - mean;
    squares = fma(v, v, squares);
  }
  const float factor = 1.0 / sqrt(team_sum(squares, kThreads) / float(a.columns) + a.in_.eps);
  for (uint c = THREAD; c < a.columns; c += kThreads) {
    const float weight = a.in_.norm_weight == kNone ? 1.0 : vectors.v[a.in_.norm_weight + c];
    const float bias = a.bias == kNone ? 0.0 : vectors.v[a.bias + c];
    destination.v[token * a.out_stride + c] = fma((source.v[row + c] - mean) * factor, weight, bias);
  }
}
