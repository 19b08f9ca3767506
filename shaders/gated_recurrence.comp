#version 460
// SPDX-License-Identifier: Apache-2.0
// S <- diag(a) S diag(b) + k v^T,  o = scale S^T q; with slots twice and a softmax between. One file, a define a stage:
//   STAGE_INPUTS   features, rotations and decays.             Grid: (HQ queries, H keys, H decays; tokens)
//   STAGE_SCAN     what runs from token to token: z or m.      Grid: (H, items), a dispatch a bank
//   STAGE_CORE     the recurrence: a workgroup keeps 16 columns of a state in registers, 8 groups of rows, and walks
//                  the tokens of an item.                      Grid: (columns / 16, H, items), a dispatch a bank
//   STAGE_SOFTMAX  over the slots.                             Grid: (HQ, tokens)
//   STAGE_OUTPUT   norm and gate.                              Grid: (tokens, what has a norm of its own)
// Every sum has one order, whatever the pass. Bound: the bytes of the state for one token, arithmetic for many.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"
#include "ops/layer_tokens.glsl"

layout(set = 0, binding = 0) readonly buffer Projections { float v[]; } projections;
layout(set = 0, binding = 1) buffer Features { float v[]; } features;  // STAGE_OUTPUT: y
#ifdef STAGE_CORE
layout(set = 0, binding = 2) buffer Output { float v[]; } outputs;
#else
layout(set = 0, binding = 2) readonly buffer Vectors { float v[]; } vectors;
#endif
layout(set = 0, binding = 4) buffer State { float v[]; } state;  // STAGE_OUTPUT: o
#ifdef STAGE_OUTPUT
layout(push_constant) uniform Push { RecurrenceOutputArgs a; };
#else
layout(push_constant) uniform Push { RecurrenceArgs a; };
#endif

layout(constant_id = 1) const uint K = 1;         // channels of a key
layout(constant_id = 2) const uint FEATURES = 1;  // K' of it
layout(constant_id = 3) const uint V = 1;
layout(constant_id = 4) const uint COLUMNS = 1;  // V, one more with a normalizer
layout(constant_id = 5) const uint SLOTS = 0;
layout(constant_id = 6) const uint HQ = 1;
layout(constant_id = 7) const uint H = 1;
layout(constant_id = 8) const uint GATES = 0;
layout(constant_id = 9) const uint DECAYS = 0;
layout(constant_id = 10) const uint DECAY = 0;
layout(constant_id = 11) const uint MAP = 0;
layout(constant_id = 12) const uint FLAGS = 0;
layout(constant_id = 13) const uint RANK = 0;
layout(constant_id = 14) const uint SHARE = 1;  // STAGE_CORE: rows of a thread
layout(constant_id = 15) const uint KEYS = 0;   // STAGE_CORE: 1 the slots' keys, 0 the values

const uint kColumns = 16;
const uint kGroups = kThreads / kColumns;
const uint kQueries = HQ / H;

bool flag(const uint bit) { return (FLAGS & bit) != 0; }
float infinity() { return uintBitsToFloat(0x7F800000); }

#ifdef STAGE_INPUTS
shared float x[K];
shared float y[FEATURES];

/// Row r of W x + b; matrix and bias as float offsets.
float affine(uint matrix, uint bias, bool biased, uint r) {
  precise float sum = 0.0;
  for (uint c = 0; c < K; ++c) sum = fma(vectors.v[matrix + r * K + c], x[c], sum);
  return biased ? sum + vectors.v[bias + r] : sum;
}

float positive(uint i) { return i < K ? max(x[i], 0.0) : max(-x[i - K], 0.0); }

/// phi(x) into y; `maps` is where this side's matrices begin.
void map_features(uint maps, bool normalise) {
  if (MAP == kMapHedgehog) {
    float largest = 0.0;
    for (uint i = THREAD; i < K; i += kThreads) {
      y[i] = 2.0 * affine(maps, maps + K * K, true, i);
      largest = max(largest, abs(y[i]));
    }
    largest = team_max(largest, kThreads);
    float sum = 0.0;
    for (uint i = THREAD; i < K; i += kThreads) {
      const float own = y[i];
      y[i] = exact_exp(own - largest);
      y[K + i] = exact_exp(-own - largest);
      sum += y[i] + y[K + i];
    }
    sum = team_sum(sum, kThreads);
    for (uint i = THREAD; i < K; i += kThreads) {
      y[i] /= sum;
      y[K + i] /= sum;
    }
  } else if (MAP == kMapDpfp) {
    for (uint i = THREAD; i < FEATURES; i += kThreads) {
      const uint roll = i / (2 * K) + 1, j = i % (2 * K);
      y[i] = positive(j) * positive((j + 2 * K - roll % (2 * K)) % (2 * K));
    }
  } else {
    for (uint i = THREAD; i < K; i += kThreads) {
      float v = x[i];
      if (MAP == kMapSwish) v = swish(v);
      if (MAP == kMapRelu) v = max(v, 0.0);
      if (MAP == kMapElu) v = v > 0.0 ? v + 1.0 : exact_exp(v);
      if (MAP == kMapT2r) v = max(affine(maps, 0, false, i), 0.0);
      if (MAP == kMapProduct) {
        v = affine(maps, maps + K * K, true, i) * affine(maps + K * K + K, maps + 2 * K * K + K, true, i);
      }
      y[i] = v;
    }
  }
  barrier();
  if (normalise) {
    float sum = 0.0;
    for (uint i = THREAD; i < FEATURES; i += kThreads) sum += y[i];
    sum = team_sum(sum, kThreads) + 1e-4;
    for (uint i = THREAD; i < FEATURES; i += kThreads) y[i] /= sum;
    barrier();
  }
}

uint map_floats() {
  if (MAP == kMapT2r) return K * K;
  if (MAP == kMapHedgehog) return K * K + K;
  if (MAP == kMapProduct) return 2 * (K * K + K);
  return 0;
}

void query_or_key(uint head, uint token, bool key) {
  const uint row = token * a.stride + (key ? a.at_k : a.at_q) + head * K;
  for (uint i = THREAD; i < K; i += kThreads) x[i] = projections.v[row + i];
  barrier();
  map_features(a.maps + (key ? map_floats() : 0), flag(key ? kFlagNormK : kFlagNormQ));
  const uint to = token * a.feature_stride +
                  (key ? (SLOTS > 0 ? a.slot_keys : a.keys) : a.queries) + head * FEATURES;
  if (flag(kFlagRotary)) {
    const uint half_dim = K / 2;
    for (uint i = THREAD; i < half_dim; i += kThreads) {
      const uint turn = a.rotations + (token * half_dim + i) * 4;
      const float c = uintBitsToFloat(pass.word[turn]), s = uintBitsToFloat(pass.word[turn + 1]);
      features.v[to + i] = y[i] * c - y[half_dim + i] * s;
      features.v[to + half_dim + i] = y[half_dim + i] * c + y[i] * s;
    }
    return;
  }
  float shift = 0.0;
  const bool exponential = MAP == kMapExponential && !key;
  if (exponential) {
    float largest = -infinity();
    for (uint i = THREAD; i < FEATURES; i += kThreads) largest = max(largest, y[i]);
    shift = team_max(largest, kThreads);
  }
  for (uint i = THREAD; i < FEATURES; i += kThreads) {
    features.v[to + i] = exponential ? exact_exp(y[i] - shift) : y[i];
  }
}

void decay(uint head, uint token) {
  const uint to = token * a.feature_stride + a.decays + head * DECAYS;
  const uint row = token * a.stride;
  if (DECAY == kDecayFixed) {
    const float gamma = 1.0 - uintBitsToFloat((122 - head) << 23);  // 2^(-5 - head)
    for (uint i = THREAD; i < DECAYS; i += kThreads) features.v[to + i] = gamma;
    return;
  }
  for (uint i = THREAD; i < GATES; i += kThreads) {
    const uint gate = head * GATES + i;
    precise float f = 0.0;
    if (RANK > 0) {
      for (uint j = 0; j < RANK; ++j) f = fma(vectors.v[a.f_up + gate * RANK + j], projections.v[row + a.at_low + j], f);
    } else {
      f = projections.v[row + a.at_f + gate];
    }
    if (a.f_bias != kNone) f += vectors.v[a.f_bias + gate];
    if (DECAY == kDecayLogSigmoid) {
      float g = log_sigmoid(f) / a.tau;
      if (a.floor_ < 0.0) g = max(g, a.floor_);
      const float bound = a.lower_bound == kNone ? 0.0 : vectors.v[a.lower_bound + gate];
      features.v[to + i] = bound + (1.0 - bound) * exact_exp(g);
      if (flag(kFlagComplement)) {
        features.v[token * a.feature_stride + a.keys + gate] = (1.0 - bound) * -exact_expm1(g);
      }
    }
    if (DECAY == kDecayRefined) {
      const float g = sigmoid(f), not_g = sigmoid(-f);
      const float r = sigmoid(projections.v[row + a.at_r + gate] + vectors.v[a.r_bias + gate]);
      features.v[to + i] = (1.0 - r) * g * g + r * (1.0 - not_g * not_g);
    }
    if (DECAY == kDecayRunningSum) {  // STAGE_SCAN turns it into decays
      const bool clamped = a.clamp_min != 0.0 || a.clamp_max != 0.0;
      features.v[token * a.feature_stride + a.keys + gate] = clamped ? clamp(f, a.clamp_min, a.clamp_max) : f;
    }
  }
}

void main() {
  const uint token = gl_WorkGroupID.y, head = gl_WorkGroupID.x;
  if (token >= pass.word[kPassTokens]) return;
  if (head < HQ) {
    query_or_key(head, token, false);
  } else if (head < HQ + H) {
    if (!flag(kFlagComplement)) query_or_key(head - HQ, token, true);
  } else {
    decay(head - HQ - H, token);
  }
}
#endif

#ifdef STAGE_SCAN
void main() {
  const uint head = gl_WorkGroupID.x, item = a.items_at + gl_WorkGroupID.y * kItemWords;
  if (gl_WorkGroupID.y >= pass.word[kPassItems] || pass.word[item + 3] != a.bank) return;
  const uint first_row = pass.word[item], rows = pass.word[item + 1];
  const uint extra = pass.word[item + 2] * a.layer_floats + head * a.head_floats + a.extra;
  if (DECAY == kDecayRunningSum) {
    for (uint i = THREAD; i < SLOTS; i += kThreads) {
      float z = state.v[extra + i];
      for (uint t = first_row; t < first_row + rows; ++t) {
        const uint row = t * a.feature_stride + head * SLOTS + i;
        const bool first = layer_token_word(t, 1) != 0;
        const float f = features.v[row + a.keys];
        const float sum = first ? f : max(z, f) + exact_log1p(exact_exp(-abs(z - f)));
        features.v[row + a.decays] = first ? 0.0 : exact_exp(z - sum);
        features.v[row + a.keys] = exact_exp(f - sum);
        z = sum;
      }
      state.v[extra + i] = z;
    }
    return;
  }
  float m = state.v[extra];
  for (uint t = first_row; t < first_row + rows; ++t) {
    const uint key = t * a.feature_stride + a.keys + head * FEATURES;
    const uint decay = t * a.feature_stride + a.decays + head * DECAYS;
    float own = -infinity();
    for (uint i = THREAD; i < FEATURES; i += kThreads) own = max(own, features.v[key + i]);
    own = team_max(own, kThreads);
    const bool first = layer_token_word(t, 1) != 0;
    const float largest = first ? own : max(m, own);
    const float shrink = first ? 0.0 : exact_exp(m - largest);
    for (uint i = THREAD; i < FEATURES; i += kThreads) features.v[key + i] = exact_exp(features.v[key + i] - largest);
    for (uint i = THREAD; i < DECAYS; i += kThreads) features.v[decay + i] *= shrink;
    m = largest;
  }
  barrier();  // every thread has read m
  if (THREAD == 0) state.v[extra] = m;
}
#endif

#ifdef STAGE_CORE
shared float partial[2][kGroups][kColumns];

void main() {
  const uint head = gl_WorkGroupID.y, item = a.items_at + gl_WorkGroupID.z * kItemWords;
  if (gl_WorkGroupID.z >= pass.word[kPassItems] || pass.word[item + 3] != a.bank) return;
  const uint all_rows = KEYS == 1 ? K : SLOTS > 0 ? SLOTS : FEATURES;
  const uint all_columns = KEYS == 1 ? SLOTS : COLUMNS;
  const bool on_columns = KEYS == 1 || flag(kFlagOnValues);
  const bool fades = DECAY != kDecayNone;
  const uint own = THREAD % kColumns, group = THREAD / kColumns;
  const uint column = gl_WorkGroupID.x * kColumns + own;
  const bool mine = column < all_columns;
  const uint row_stride = KEYS == 1 ? 1 : COLUMNS, column_stride = KEYS == 1 ? K : 1;
  const uint base = pass.word[item + 2] * a.layer_floats + head * a.head_floats +
                    (KEYS == 1 ? 0 : a.values) + column * column_stride;
  float s[SHARE];
  [[unroll]] for (uint i = 0; i < SHARE; ++i) {
    const uint r = group * SHARE + i;
    s[i] = mine && r < all_rows ? state.v[base + r * row_stride] : 0.0;
  }
  const uint first_row = pass.word[item], rows = pass.word[item + 1];
  uint turn = 0;
  for (uint t = first_row; t < first_row + rows; ++t) {
    const uint row = t * a.feature_stride;
    const uint key = row + (KEYS == 1 ? a.slot_keys : a.keys) + head * all_rows;
    const uint fade = row + a.decays + head * DECAYS;
    float v = 0.0, b = 1.0;
    if (mine) {
      if (KEYS == 1) {
        v = features.v[row + a.keys + head * SLOTS + column];
      } else {
        v = flag(kFlagNormalizer) && column == V ? 1.0 : projections.v[t * a.stride + a.at_v + head * V + column];
      }
      if (fades && on_columns) b = features.v[fade + column];
    }
    [[unroll]] for (uint i = 0; i < SHARE; ++i) {
      const uint r = min(group * SHARE + i, all_rows - 1);  // rows past the end are not read
      const float decay = !fades ? 1.0 : on_columns ? b : features.v[fade + r];
      s[i] = fma(features.v[key + r], v, decay * s[i]);
    }
    for (uint g = 0; g < kQueries; ++g, turn ^= 1) {
      const uint hq = head * kQueries + g;
      const uint query = row + (KEYS == 1 || SLOTS == 0 ? a.queries : a.slot_logits) + hq * all_rows;
      precise float sum = 0.0;
      [[unroll]] for (uint i = 0; i < SHARE; ++i) {
        const uint r = group * SHARE + i;
        if (r < all_rows) sum = fma(s[i], features.v[query + r], sum);
      }
      partial[turn][group][own] = sum;
      barrier();
      if (group == 0 && mine) {
        precise float total = partial[turn][0][own];
        for (uint i = 1; i < kGroups; ++i) total += partial[turn][i][own];
        if (KEYS == 1) {
          features.v[row + a.slot_logits + hq * SLOTS + column] = total * a.scale;
        } else {
          outputs.v[(t * HQ + hq) * COLUMNS + column] = SLOTS > 0 ? total : total * a.scale;
        }
      }
    }
  }
  [[unroll]] for (uint i = 0; i < SHARE; ++i) {
    const uint r = group * SHARE + i;
    if (mine && r < all_rows) state.v[base + r * row_stride] = s[i];
  }
}
#endif

#ifdef STAGE_SOFTMAX
void main() {
  const uint head = gl_WorkGroupID.x, token = gl_WorkGroupID.y;
  if (token >= pass.word[kPassTokens]) return;
  const uint p = token * a.feature_stride + a.slot_logits + head * SLOTS;
  float largest = -infinity();
  for (uint i = THREAD; i < SLOTS; i += kThreads) largest = max(largest, features.v[p + i]);
  largest = team_max(largest, kThreads);
  float sum = 0.0;
  for (uint i = THREAD; i < SLOTS; i += kThreads) sum += exact_exp(features.v[p + i] - largest);
  sum = team_sum(sum, kThreads);
  for (uint i = THREAD; i < SLOTS; i += kThreads) features.v[p + i] = exact_exp(features.v[p + i] - largest) / sum;
}
#endif

#ifdef STAGE_OUTPUT
/// Channel c of all heads of a token, divided by its normalizer.
float channel(uint token, uint c) {
  const uint at = (token * HQ + c / V) * COLUMNS;
  const float o = state.v[at + c % V];
  return flag(kFlagNormalizer) ? o / (state.v[at + V] + 1e-10) : o;
}

void main() {
  const uint token = gl_WorkGroupID.x;
  if (token >= pass.word[kPassTokens]) return;
  const bool whole = flag(kFlagNorm) && !flag(kFlagNormHeads);
  const uint width = whole ? HQ * V : V, start = gl_WorkGroupID.y * width;
  float factor = 1.0, mean = 0.0;
  if (flag(kFlagNormGroups)) {
    precise float all = 0.0, squares = 0.0;
    for (uint i = THREAD; i < width; i += kThreads) all += channel(token, start + i);
    mean = team_sum(all, kThreads) / float(width);
    for (uint i = THREAD; i < width; i += kThreads) {
      const float v = channel(token, start + i) - mean;
      squares = fma(v, v, squares);
    }
    factor = 1.0 / sqrt(team_sum(squares, kThreads) / float(width) + a.eps);
  } else if (flag(kFlagNorm)) {
    float sum = 0.0;
    for (uint i = THREAD; i < width; i += kThreads) {
      const float v = channel(token, start + i);
      sum = fma(v, v, sum);
    }
    factor = inversesqrt(team_sum(sum, kThreads) / float(width) + a.eps);
  }
  for (uint i = THREAD; i < width; i += kThreads) {
    float v = (channel(token, start + i) - mean) * factor;
    if (flag(kFlagNormGroups)) {
      v = fma(v, vectors.v[a.weight + start + i], vectors.v[a.bias + start + i]);
    } else if (flag(kFlagNorm) && a.weight != kNone) {
      v *= vectors.v[a.weight + i];
    }
    const uint row = token * a.stride + start + i;
    if (flag(kFlagBonus)) v = fma(projections.v[token * a.stride + a.at_bonus + (start + i) / V], projections.v[row + a.at_v], v);
    if (flag(kFlagGate)) {
      const float gate = projections.v[row + a.at_gate];
      v *= flag(kFlagPlainGate) ? gate : swish(gate);
    }
    features.v[token * a.out_stride + start + i] = v;
  }
}
#endif
