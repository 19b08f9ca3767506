#version 460
// SPDX-License-Identifier: Apache-2.0
// Keys, values and gates of slots chunk by chunk, from their projections, in place:
//   k <- act(k), rotated k = R(t) k;  v <- act(v);
//   log alpha = max(floor, logsigmoid(f + bias) / tau);  f <- e^(log alpha),  s = -expm1(log alpha)
// OPERANDS_F16, for models without positional slots: q, k and v as rows of f16 for matrix units instead, queries too.
// Work split: a thread a value, of rotated keys a pair; of f16 four values. Grid: (values / 128, tokens). Bound: bytes
// in and out.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PASS_BINDING 3
#include "pass.glsl"
#include "slots.glsl"

layout(set = 0, binding = 0) buffer Projections { float v[]; } projections;
layout(set = 0, binding = 1) writeonly buffer Features { float v[]; } features;
layout(set = 0, binding = 2) readonly buffer Vectors { float v[]; } vectors;

void store_gate(uint row, uint i) {
  const uint at = alpha_at(row, 0) + i;
  float f = projections.v[at];
  if (a.gate_bias != kNone) f += vectors.v[a.gate_bias + i];
  float log_alpha = log_sigmoid(f) / a.gate_normalizer;
  if (a.gate_log_min < 0.0) log_alpha = max(log_alpha, a.gate_log_min);
  projections.v[at] = exact_exp(log_alpha);
  features.v[written_at(row, 0) + i] = -exact_expm1(log_alpha);
}

#ifdef OPERANDS_F16
layout(set = 0, binding = 0) readonly buffer Projections4 { vec4 v[]; } projections4;
layout(set = 0, binding = 4) writeonly buffer Operands { uvec2 v[]; } operands;  // [T, q | k | v] four f16 each

const float kLargest = 65504.0;  // of f16

void main() {
  const uint row = gl_WorkGroupID.y;
  if (row >= pass.word[kPassTokens] || (token_word(row, 3) & kLongItem) == 0) return;
  const uint i = gl_WorkGroupID.x * kThreads + THREAD;
  const uint keys = (G + 1) * H * K / 4, fours = keys + H * V / 4;
  if (i < fours) {
    vec4 x = projections4.v[row * a.stride / 4 + i];
    const uint kind = i < keys ? KEY_ACTIVATION : VALUE_ACTIVATION;
    [[unroll]] for (uint e = 0; e < 4; ++e) x[e] = clamp(activate(kind, x[e]), -kLargest, kLargest);
    operands.v[row * fours + i] = uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw));
  } else if (i - fours < H * MEMORY) {
    store_gate(row, i - fours);
  }
}
#else
void main() {
  const uint row = gl_WorkGroupID.y;
  if (row >= pass.word[kPassTokens] || (token_word(row, 3) & kLongItem) == 0) return;
  const uint keys = kRotary ? H * K / 2 : H * K;
  uint i = gl_WorkGroupID.x * kThreads + THREAD;
  if (i < keys) {
    if (!kRotary) {
      const uint at = k_at(row, 0) + i;
      projections.v[at] = activate(KEY_ACTIVATION, projections.v[at]);
      return;
    }
    const uint half_k = K / 2, head = i / half_k, c = i % half_k;
    const uint at = k_at(row, head) + c;
    const float x = activate(KEY_ACTIVATION, projections.v[at]);
    const float z = activate(KEY_ACTIVATION, projections.v[at + half_k]);
    projections.v[at] = x;
    projections.v[at + half_k] = z;
    const uint rotation = a.pass.rotations + (row * half_k + c) * 4;
    const float cos_t = uintBitsToFloat(pass.word[rotation]);
    const float sin_t = uintBitsToFloat(pass.word[rotation + 1]);
    const uint to = turned_at(row, head) + c;
    features.v[to] = x * cos_t - z * sin_t;
    features.v[to + half_k] = z * cos_t + x * sin_t;
    return;
  }
  i -= keys;
  if (i < H * V) {
    const uint at = v_at(row, 0) + i;
    projections.v[at] = activate(VALUE_ACTIVATION, projections.v[at]);
    return;
  }
  i -= H * V;
  if (i < H * MEMORY) store_gate(row, i);
}
#endif
