#version 460
// SPDX-License-Identifier: Apache-2.0
// phi(x) = relu(W x) on each head of q and k, in place (the t2r map).  Grid: (HQ + H heads, tokens). q and k are adjacent,
// so heads count through both.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 2
#include "contract/pass.glsl"

layout(set = 0, binding = 0) buffer Projections { float v[]; } projections;
layout(set = 0, binding = 1) readonly buffer Vectors { float v[]; } vectors;
layout(push_constant) uniform Push { MapArgs a; };

layout(constant_id = 1) const uint K = 1;
shared float x[K];

void main() {
  if (gl_WorkGroupID.y >= pass.word[kPassTokens]) return;
  const uint at = gl_WorkGroupID.y * a.stride + gl_WorkGroupID.x * K;
  for (uint c = THREAD; c < K; c += kThreads) x[c] = projections.v[at + c];
  barrier();
  for (uint r = THREAD; r < K; r += kThreads) {
    precise float sum = 0.0;
    for (uint c = 0; c < K; ++c) sum = fma(vectors.v[a.matrix + r * K + c], x[c], sum);
    projections.v[at + r] = max(sum, 0.0);
  }
}
