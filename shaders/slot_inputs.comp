#version 460
// SPDX-License-Identifier: Apache-2.0
// Keys, values and gates of slots chunk by chunk, from their projections, in place:
//   k <- act(k), rotated k = R(t) k;  v <- act(v);
//   log alpha = max(floor, logsigmoid(f + bias) / tau);  f <- e^(log alpha),  s = -expm1(log alpha)
// OPERANDS_F16: q, k, v and what is rotated as rows of f16 for matrix units instead, queries too.
// Work split: a thread a value, of rotated keys a pair; of f16 four values or pairs. Grid: (values / 128, tokens).
// Bound: bytes in and out.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"
#include "ops/slots.glsl"

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
layout(set = 0, binding = 4) writeonly buffer Operands { uvec2 v[]; } operands;  // rows of four f16 each

const float kLargest = 65504.0;  // of f16

vec4 activated(uint kind, uint at) {
  vec4 x = projections4.v[at / 4];
  [[unroll]] for (uint e = 0; e < 4; ++e) x[e] = activate(kind, x[e]);
  return x;
}
void put(uint row, uint column, vec4 x) {
  x = clamp(x, -kLargest, kLargest);
  operands.v[row * kOperandStride * 2 + column / 4] = uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw));
}

void main() {
  const uint row = gl_WorkGroupID.y;
  if (row >= pass.word[kPassTokens] || (token_word(row, 3) & kLongItem) == 0) return;
  const uint first = row * a.stride, heads = (G + 1) * H;
  const uint keys = kRotary ? heads * K / 8 : heads * K / 4;  // and queries
  uint i = gl_WorkGroupID.x * kThreads + THREAD;
  if (i < keys) {
    if (!kRotary) {
      put(row, 4 * i, activated(KEY_ACTIVATION, first + 4 * i));
      return;
    }
    const uint half_k = K / 2, head = 4 * i / half_k, c = 4 * i % half_k;  // queries, then keys
    const uint at = head * K + c;
    const vec4 x = activated(KEY_ACTIVATION, first + at), z = activated(KEY_ACTIVATION, first + at + half_k);
    put(row, at, x);
    put(row, at + half_k, z);
    const bool of_query = head < G * H;
    vec4 rotations[4];  // of a column: cos t, sin t, the same of min(t, sink distance)
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      const uint word = a.pass.rotations + (row * half_k + c + e) * 4;
      rotations[e] = uintBitsToFloat(uvec4(pass.word[word], pass.word[word + 1], pass.word[word + 2], pass.word[word + 3]));
    }
    const vec4 cos_t = vec4(rotations[0].x, rotations[1].x, rotations[2].x, rotations[3].x);
    const vec4 sin_t = vec4(rotations[0].y, rotations[1].y, rotations[2].y, rotations[3].y);
    const uint turned = of_query ? kTurnedQueries + at : kTurnedKeys + at - G * H * K;
    put(row, turned, x * cos_t - z * sin_t);
    put(row, turned + half_k, z * cos_t + x * sin_t);
    if (of_query) {
      const vec4 near_cos = vec4(rotations[0].z, rotations[1].z, rotations[2].z, rotations[3].z);
      const vec4 near_sin = vec4(rotations[0].w, rotations[1].w, rotations[2].w, rotations[3].w);
      put(row, kNearQueries + at, x * near_cos - z * near_sin);
      put(row, kNearQueries + at + half_k, z * near_cos + x * near_sin);
    }
    return;
  }
  i -= keys;
  if (i < H * V / 4) {
    const uint at = heads * K + 4 * i;
    put(row, at, activated(VALUE_ACTIVATION, first + at));
    return;
  }
  i -= H * V / 4;
  if (i < H * MEMORY) store_gate(row, i);
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
