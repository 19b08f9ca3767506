#version 460
// SPDX-License-Identifier: Apache-2.0
// x[t] = table[token t].  Grid: (units of a row / 128, tokens); a thread decodes 8 columns. A table larger than one
// binding comes in parts: each dispatch writes the tokens of its rows.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#include "contract/weights.glsl"
#define PASS_BINDING 2
#include "contract/pass.glsl"

layout(set = 0, binding = 1) writeonly buffer Output { float v[]; } x;
layout(push_constant) uniform Push { EmbedArgs a; };

void main() {
  const uint token = gl_WorkGroupID.y;
  const uint unit = gl_WorkGroupID.x * kThreads + THREAD;
  if (token >= pass.word[kPassTokens] || unit >= UNITS) return;
  const uint row = token_word(token, 0) - a.w.first_row;  // wraps below the first row
  if (row >= a.w.rows) return;
  const Unit u = decode(load_raw(a.w, row, unit));
  const uint at = token * a.x_stride + unit * kUnit;
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    x.v[at + i] = u.scale * u.low[i];
    x.v[at + 4 + i] = u.scale * u.high[i];
  }
}
