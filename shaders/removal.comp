#version 460
// SPDX-License-Identifier: Apache-2.0
// S <- diag(a) S + b (c^T S) + k v^T, of the S before,  o = scale S^T q. One file, a define a stage:
//   STAGE_INPUTS  features, norms, decays and what is taken out.  Grid: (H, tokens)
//   STAGE_CORE    the recurrence: a workgroup keeps 16 columns of a state in registers, 8 groups of rows, and walks the
//                 tokens of an item.                              Grid: (V / 16, H, items), a dispatch a bank
//   STAGE_ONE     both, of a pass of one token: the state is under way while each workgroup makes its head's inputs.
//                                                                 Grid: (V / 16, H, 1)
// Every sum has one order, whatever the pass. Bound: the bytes of the state for one token, arithmetic for many.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"

layout(set = 0, binding = 0) buffer Projections { float v[]; } projections;  // the bonus is written there
#ifdef STAGE_ONE
layout(set = 0, binding = 1) readonly buffer Vectors { float v[]; } vectors;
#else
layout(set = 0, binding = 1) buffer Features { float v[]; } features;
#endif
#ifdef STAGE_INPUTS
layout(set = 0, binding = 2) readonly buffer Vectors { float v[]; } vectors;
#else
layout(set = 0, binding = 2) buffer Output { float v[]; } outputs;
layout(set = 0, binding = 4) buffer State { float v[]; } state;
#endif
layout(push_constant) uniform Push { RemovalArgs a; };

layout(constant_id = 1) const uint K = 1;
layout(constant_id = 2) const uint V = 1;
layout(constant_id = 3) const uint H = 1;
layout(constant_id = 4) const uint VALUES_PER_KEY = 1;
layout(constant_id = 5) const uint DECAY = 0;
layout(constant_id = 6) const uint MAP = 0;
layout(constant_id = 7) const uint REMOVAL = 0;
layout(constant_id = 8) const uint KEY_NORM = 0;
layout(constant_id = 9) const uint VALUE_ACT = 0;
layout(constant_id = 10) const uint SHARE = 1;  // rows of a state of a thread

const uint kColumns = 16;
const uint kGroups = kThreads / kColumns;

// A row of a head's features: what a state is asked with, what it gets, its decays, what is taken out.
#ifdef STAGE_ONE
shared float made[5][K];
#define ROW(ROW_AT, WHICH, I) made[WHICH][I]
#else
#define ROW(ROW_AT, WHICH, I) features.v[(ROW_AT) + place_of(WHICH) + (I)]
uint place_of(const uint which) {
  return which == 0 ? a.queries : which == 1 ? a.keys : which == 2 ? a.decays : which == 3 ? a.removal_c : a.removal_b;
}
#endif
#define QUERY(ROW_AT, I) ROW(ROW_AT, 0, I)
#define KEY(ROW_AT, I) ROW(ROW_AT, 1, I)
#define FADE(ROW_AT, I) ROW(ROW_AT, 2, I)
#define REMOVAL_C(ROW_AT, I) ROW(ROW_AT, 3, I)
#define REMOVAL_B(ROW_AT, I) ROW(ROW_AT, 4, I)

#ifndef STAGE_CORE
shared float q[K];
shared float k[K];

float mapped(float v) {
  if (MAP == kMapSwish) return swish(v);
  if (MAP == kMapRelu) return max(v, 0.0);
  if (MAP == kMapElu) return v > 0.0 ? v + 1.0 : exact_exp(v);
  return v;
}

/// What q or k of a head is multiplied with, from a thread's share of the sum.
float factor(float sum) {
  sum = team_sum(sum, kThreads);
  return KEY_NORM == kKeyNormLength ? 1.0 / sqrt(sum + 1e-6) : 1.0 / sum;
}

void make_inputs(uint head, uint token, bool keeps_bonus) {
  const uint row = token * a.stride, key = head / VALUES_PER_KEY * K;
  const uint to = token * a.feature_stride + head * K;
  precise float sum_q = 0.0, sum_k = 0.0;
  for (uint i = THREAD; i < K; i += kThreads) {
    q[i] = mapped(projections.v[row + a.at_q + key + i]);
    k[i] = mapped(projections.v[row + a.at_k + key + i]);
    sum_q += KEY_NORM == kKeyNormLength ? q[i] * q[i] : q[i];
    sum_k += KEY_NORM == kKeyNormLength ? k[i] * k[i] : k[i];
  }
  if (KEY_NORM != kKeyNormNone) {
    const float by_q = factor(sum_q), by_k = factor(sum_k);
    for (uint i = THREAD; i < K; i += kThreads) {
      q[i] *= by_q;
      k[i] *= by_k;
    }
  }
  precise float squares = 0.0;
  if (REMOVAL == kRemovalOwnKey) {
    for (uint i = THREAD; i < K; i += kThreads) {
      const float own = k[i] * vectors.v[a.removal_key + head * K + i];
      squares = fma(own, own, squares);
    }
    squares = team_sum(squares, kThreads);
  }
  const float key_length = max(sqrt(squares), 1e-12);
  float shared_decay = 1.0, beta = 0.0;
  if (DECAY == kDecaySoftplus) {
    const float f = projections.v[row + a.at_f + head] + vectors.v[a.f_bias + head];
    shared_decay = exact_exp(exact_exp(vectors.v[a.log_rate + head]) * log_sigmoid(-f));
  }
  if (REMOVAL == kRemovalDelta) beta = a.removal_scale * sigmoid(projections.v[row + a.at_r + head]);
  precise float bonus = 0.0;
  for (uint i = THREAD; i < K; i += kThreads) {
    const uint channel = head * K + i;
    precise float fade = shared_decay;
    if (DECAY == kDecayBounded) {
      fade = exact_exp(-0.60653066 * sigmoid(projections.v[row + a.at_f + channel] + vectors.v[a.f_bias + channel]));
    }
    precise float c, b, new_key;
    if (REMOVAL == kRemovalDelta) {
      c = fade * k[i];
      new_key = beta * k[i];
      b = -new_key;
    } else {
      const float rate = sigmoid(projections.v[row + a.at_r + channel] + vectors.v[a.r_bias + channel]);
      c = -k[i] * vectors.v[a.removal_key + channel] / key_length;
      b = -rate * c;
      new_key = k[i] * fma(rate - 1.0, vectors.v[a.key_rate + channel], 1.0);
    }
    if (a.bonus != kNone) bonus = fma(q[i] * new_key, vectors.v[a.bonus + channel], bonus);
    QUERY(to, i) = q[i] * a.scale;
    KEY(to, i) = new_key;
    REMOVAL_C(to, i) = c;
    REMOVAL_B(to, i) = b;
    if (DECAY != kDecayNone) FADE(to, i) = fade;
  }
  if (a.bonus != kNone) {
    bonus = team_sum(bonus, kThreads);
    if (keeps_bonus && THREAD == 0) projections.v[row + a.at_bonus + head] = bonus;
  }
}
#endif

#ifdef STAGE_INPUTS
void main() {
  if (gl_WorkGroupID.y < pass.word[kPassTokens]) make_inputs(gl_WorkGroupID.x, gl_WorkGroupID.y, true);
}
#else
shared float partial_u[kGroups][kColumns];
shared float partial_o[kGroups][kColumns];

void main() {
  const uint head = gl_WorkGroupID.y, item = a.items_at + gl_WorkGroupID.z * kItemWords;
  if (gl_WorkGroupID.z >= pass.word[kPassItems] || pass.word[item + 3] != a.bank) return;
  const uint own = THREAD % kColumns, group = THREAD / kColumns;
  const uint column = gl_WorkGroupID.x * kColumns + own;
  const bool mine = column < V;
  const uint base = pass.word[item + 2] * a.layer_floats + head * a.head_floats + a.values + column;
  float s[SHARE];
  [[unroll]] for (uint i = 0; i < SHARE; ++i) {
    const uint r = group * SHARE + i;
    s[i] = mine && r < K ? state.v[base + r * V] : 0.0;
  }
#ifdef STAGE_ONE
  make_inputs(head, 0, gl_WorkGroupID.x == 0);
  barrier();
  const uint first = 0, last = 1;
#else
  const uint first = pass.word[item], last = first + pass.word[item + 1];
#endif
  for (uint t = first; t < last; ++t) {
    const uint row = t * a.feature_stride + head * K;
    float v = mine ? projections.v[t * a.stride + a.at_v + head * V + column] : 0.0;
    v = activate(VALUE_ACT, v);
    precise float sum = 0.0;
    [[unroll]] for (uint i = 0; i < SHARE; ++i) {
      const uint r = group * SHARE + i;
      if (r < K) sum = fma(s[i], REMOVAL_C(row, r), sum);
    }
    partial_u[group][own] = sum;
    barrier();
    precise float u = partial_u[0][own];
    for (uint i = 1; i < kGroups; ++i) u += partial_u[i][own];
    precise float read = 0.0;
    [[unroll]] for (uint i = 0; i < SHARE; ++i) {
      const uint r = group * SHARE + i;
      if (r < K) {
        if (DECAY != kDecayNone) s[i] *= FADE(row, r);
        s[i] = fma(REMOVAL_B(row, r), u, s[i]);
        s[i] = fma(KEY(row, r), v, s[i]);
        read = fma(s[i], QUERY(row, r), read);
      }
    }
    partial_o[group][own] = read;
    barrier();
    if (group == 0 && mine) {
      precise float total = partial_o[0][own];
      for (uint i = 1; i < kGroups; ++i) total += partial_o[i][own];
      outputs.v[(t * H + head) * V + column] = total;
    }
  }
  [[unroll]] for (uint i = 0; i < SHARE; ++i) {
    const uint r = group * SHARE + i;
    if (mine && r < K) state.v[base + r * V] = s[i];
  }
}
#endif
