#version 460
// SPDX-License-Identifier: Apache-2.0
// Inputs that lie between a row and the row of the token before. One file, a define a stage:
//   STAGE_MIX     x_j = h + lerp_j (before - h) for each input j; the state keeps the last row of each item.
//                 Grid: (D / 128, items), a dispatch a bank; a thread walks one channel through an item's tokens.
//   STAGE_LOW     what lies between two products of low rank, as rows of their own.  Grid: (columns / 128, tokens)
//   STAGE_VALUES  values kept for later layers, or mixed with those that were.       Grid: (columns / 128, tokens)
// Bound: the rows' bytes.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"

layout(set = 0, binding = 0) buffer Rows { float v[]; } rows;
#ifdef STAGE_MIX
layout(set = 0, binding = 1) buffer State { float v[]; } state;
#else
layout(set = 0, binding = 1) buffer Kept { float v[]; } kept;
#endif
layout(set = 0, binding = 2) readonly buffer Vectors { float v[]; } vectors;
layout(set = 0, binding = 4) buffer Output { float v[]; } outputs;
layout(push_constant) uniform Push { ShiftArgs a; };

#ifdef STAGE_MIX
void main() {
  const uint c = gl_WorkGroupID.x * kThreads + THREAD;
  const uint item = a.items_at + gl_WorkGroupID.y * kItemWords;
  if (gl_WorkGroupID.y >= pass.word[kPassItems] || c >= a.columns || pass.word[item + 3] != a.bank) return;
  const uint at = pass.word[item + 2] * a.layer_floats + a.tail + c;
  const uint first = pass.word[item], last = first + pass.word[item + 1];
  float before = state.v[at];
  for (uint t = first; t < last; ++t) {
    const float h = rows.v[t * a.stride + c];
    for (uint j = 0; j < a.inputs; ++j) {
      outputs.v[j * a.input_floats + t * a.stride + c] = fma(vectors.v[a.vector + j * a.columns + c], before - h, h);
    }
    before = h;
  }
  state.v[at] = before;
}
#endif

#ifdef STAGE_LOW
void main() {
  const uint c = gl_WorkGroupID.x * kThreads + THREAD, token = gl_WorkGroupID.y;
  if (c >= a.out_stride || token >= pass.word[kPassTokens]) return;
  float v = 0.0;  // of the padding, which products read
  if (c < a.columns) v = activate(a.kind, rows.v[token * a.stride + a.column + c]);
  outputs.v[token * a.out_stride + c] = v;
}
#endif

#ifdef STAGE_VALUES
void main() {
  const uint c = gl_WorkGroupID.x * kThreads + THREAD, token = gl_WorkGroupID.y;
  if (c >= a.columns || token >= pass.word[kPassTokens]) return;
  const uint own = token * a.stride + a.column + c, first = token * a.out_stride + c;
  const float v = rows.v[own];
  if (a.kind == kValuesKept) {
    kept.v[first] = v;
  } else {
    const float mix = sigmoid(rows.v[token * a.stride + a.mix_column + c] + vectors.v[a.vector + c]);
    rows.v[own] = fma(kept.v[first] - v, mix, v);
  }
}
#endif
