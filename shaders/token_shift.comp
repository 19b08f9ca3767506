#version 460
// SPDX-License-Identifier: Apache-2.0
// Inputs that lie between a row and the row of the token before. One file, a define a stage:
//   STAGE_MIX     x_j = h + lerp_j (before - h) for each input j; the state keeps the last row of each item.
//                 Grid: (D / 128, items), a dispatch a bank; a thread walks one channel through an item's tokens.
//   STAGE_NORM_MIX  the same of LayerNorm(x), of a pass of one token: each workgroup takes the norm by itself, as
//                 layer_norm does.                                                    Grid: (D / 128, 1)
//   STAGE_LOW     what lies between two products of low rank, as rows of their own.  Grid: (columns / 128, tokens)
//   STAGE_VALUES  values kept for later layers, or mixed with those that were.       Grid: (columns / 128, tokens)
// Bound: the rows' bytes.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"

layout(set = 0, binding = 0) buffer Rows { float v[]; } rows;
#if defined(STAGE_MIX) || defined(STAGE_NORM_MIX)
layout(set = 0, binding = 1) buffer State { float v[]; } state;
#else
layout(set = 0, binding = 1) buffer Kept { float v[]; } kept;
#endif
layout(set = 0, binding = 2) readonly buffer Vectors { float v[]; } vectors;
layout(set = 0, binding = 4) buffer Output { float v[]; } outputs;
#ifdef STAGE_NORM_MIX
layout(push_constant) uniform Push { NormShiftArgs all; };
#define a all.shift
#else
layout(push_constant) uniform Push { ShiftArgs a; };
#endif

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

#ifdef STAGE_NORM_MIX
layout(constant_id = 1) const uint COLUMNS = 1;
layout(constant_id = 2) const uint INPUTS = 1;

const uint kMine = (COLUMNS + kThreads - 1) / kThreads;  // values of x of a thread

void main() {
  const uint item = a.items_at;
  if (pass.word[item + 3] != a.bank) return;
  // All loads are under way before the first sum: one wait.
  const uint c = gl_WorkGroupID.x * kThreads + THREAD, own = min(c, COLUMNS - 1);
  const uint at = pass.word[item + 2] * a.layer_floats + a.tail + own;
  float x[kMine], lerp[INPUTS];
  [[unroll]] for (uint i = 0; i < kMine; ++i) {
    const uint from = i * kThreads + THREAD;
    x[i] = from < COLUMNS ? rows.v[from] : 0.0;
  }
  const float mine = rows.v[own], before = state.v[at];
  const float weight = all.norm_weight == kNone ? 1.0 : vectors.v[all.norm_weight + own];
  const float bias = all.norm_bias == kNone ? 0.0 : vectors.v[all.norm_bias + own];
  [[unroll]] for (uint j = 0; j < INPUTS; ++j) lerp[j] = vectors.v[a.vector + j * COLUMNS + own];
  precise float sum = 0.0;
  [[unroll]] for (uint i = 0; i < kMine; ++i) sum += x[i];
  const float mean = team_sum(sum, kThreads) / float(COLUMNS);
  precise float squares = 0.0;
  [[unroll]] for (uint i = 0; i < kMine; ++i) {
    const float v = i * kThreads + THREAD < COLUMNS ? x[i] - mean : 0.0;
    squares = fma(v, v, squares);
  }
  const float factor = 1.0 / sqrt(team_sum(squares, kThreads) / float(COLUMNS) + all.eps);
  if (c >= COLUMNS) return;
  const float h = fma((mine - mean) * factor, weight, bias);
  [[unroll]] for (uint j = 0; j < INPUTS; ++j) outputs.v[j * a.input_floats + c] = fma(lerp[j], before - h, h);
  state.v[at] = h;
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
