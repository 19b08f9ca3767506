#version 460
// SPDX-License-Identifier: Apache-2.0
// Causal depthwise convolution, with silu or without, on q, k and v, in place: y_t[c] = silu(sum_j w[c, j] x_{t-W+1+j}[c]).
// The tail [channels, W] of a state holds the last W inputs, oldest first, and is advanced.
// Grid: (channels / 128, items); a thread walks one channel through the tokens of one item. Bound: the projections'
// bytes.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"

layout(set = 0, binding = 0) buffer Projections { float v[]; } projections;
layout(set = 0, binding = 1) buffer State { float v[]; } state;
layout(set = 0, binding = 2) readonly buffer Vectors { float v[]; } vectors;
layout(push_constant) uniform Push { ConvArgs a; };

layout(constant_id = 1) const uint TAPS = 1;

void main() {
  const uint channel = gl_WorkGroupID.x * kThreads + THREAD;
  const uint item = a.items_at + gl_WorkGroupID.y * kItemWords;
  if (gl_WorkGroupID.y >= pass.word[kPassItems] || channel >= a.channels || pass.word[item + 3] != a.bank) return;
  const uint tail = pass.word[item + 2] * a.layer_floats + a.tail + channel * TAPS;
  float last[TAPS];
  float tap[TAPS];
  for (uint j = 0; j < TAPS; ++j) {
    last[j] = state.v[tail + j];
    tap[j] = vectors.v[a.weights + channel * TAPS + j];
  }
  uint at = pass.word[item] * a.stride + channel;
  for (uint t = pass.word[item + 1]; t > 0; --t) {
    for (uint j = 0; j + 1 < TAPS; ++j) last[j] = last[j + 1];
    last[TAPS - 1] = projections.v[at];
    precise float sum = 0.0;
    for (uint j = 0; j < TAPS; ++j) sum = fma(tap[j], last[j], sum);
    projections.v[at] = a.silu != 0 ? swish(sum) : sum;
    at += a.stride;
  }
  for (uint j = 0; j < TAPS; ++j) state.v[tail + j] = last[j];
}
