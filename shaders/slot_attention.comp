#version 460
// SPDX-License-Identifier: Apache-2.0
// The slot recurrence, token by token, in f32:
//   memory slots      K~ <- diag(a) K~ + (1-a) k^T,  V~ <- diag(a) V~ + (1-a) v^T,  a = exp(log alpha)
//   positional slots  token t overwrites slot t (sink) or sinks + (t - sinks) mod window with R(t) k, v
//   o = softmax(scale * K~ q + biases) V~          one softmax over all slots; rotary for positional slots
//
// Work split: grid (SPLITS, H, items). A workgroup owns SHARE slots of one kv head, keeps their keys and values in
// registers over all tokens of the item and writes, per query head, (largest logit, sum of weights, weighted values);
// the reader of o joins the splits (input.glsl). Keys: TEAM lanes per slot; values: one thread per column.
// Bound: S (K + V) * 8 bytes of state per head and pass; at one token the latency load -> dot -> softmax -> read.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 4
#include "contract/pass.glsl"
#include "ops/layer_tokens.glsl"

layout(set = 0, binding = 0) readonly buffer Projections { float v[]; } projections;  // [T, stride]: q, k, v, f
layout(set = 0, binding = 1) buffer State { float v[]; } state;  // [places, layer_floats], canonical within a layer
layout(set = 0, binding = 2) writeonly buffer Output { float v[]; } o;  // [T, HQ, SPLITS, 2 + V]
layout(set = 0, binding = 3) readonly buffer Vectors { float v[]; } vectors;
layout(push_constant) uniform Push { SlotArgs a; };

layout(constant_id = 1) const uint K = 1;
layout(constant_id = 2) const uint V = 1;
layout(constant_id = 3) const uint MEMORY = 1;
layout(constant_id = 4) const uint SINKS = 0;
layout(constant_id = 5) const uint WINDOW = 0;
layout(constant_id = 6) const uint G = 1;  // query heads of a kv head
layout(constant_id = 7) const uint H = 1;
layout(constant_id = 8) const uint SPLITS = 1;
layout(constant_id = 9) const uint SHARE = 1;  // slots of a split
layout(constant_id = 10) const uint TEAM = 8;
layout(constant_id = 11) const uint KEY_ACTIVATION = kIdentity;  // also of queries
layout(constant_id = 12) const uint VALUE_ACTIVATION = kIdentity;

const uint kPositional = SINKS + WINDOW;
const uint kSlots = kPositional + MEMORY;
const bool kRotary = kPositional > 0;

// Keys: teams of lanes; a lane holds kKeyParts values of each of kKeySlots slots.
const uint kTeams = kThreads / TEAM;
const uint kKeySlots = (SHARE + kTeams - 1) / kTeams;
const uint kKeyParts = (K + TEAM - 1) / TEAM;
// Values: kColumns threads side by side, kGroups such groups over the slots.
const uint kColumns = V < kThreads ? V : kThreads;
const uint kGroups = kThreads / kColumns;
const uint kValueParts = (V + kColumns - 1) / kColumns;
const uint kValueSlots = (SHARE + kGroups - 1) / kGroups;

// Queries as memory, window and sink slots see them: plain, rotated by t, rotated by min(t, sink_distance).
const uint kVariants = kRotary ? 3 : 1;
shared float queries[kVariants * G * K];
shared float keys[(kRotary ? 2 : 1) * K];  // plain, rotated
shared float values[V];
shared float alpha[SHARE];
shared float gate[SHARE];
shared float p[G * SHARE];
shared float partial[kGroups * G * V];

void load_inputs(uint token, uint head, uint slot0) {
  const uint row = token * a.stride;
  const uint q0 = row + head * G * K;
  const uint k0 = row + G * H * K + head * K;
  if (kRotary) {
    // (vector, pair) per thread; vector G is the key
    const uint half_k = K / 2;
    for (uint i = THREAD; i < (G + 1) * half_k; i += kThreads) {
      const uint g = i / half_k;
      const uint c = i % half_k;
      const uint from = (g < G ? q0 + g * K : k0) + c;
      const float x = activate(KEY_ACTIVATION, projections.v[from]);
      const float z = activate(KEY_ACTIVATION, projections.v[from + half_k]);
      const uint rotation = a.pass.rotations + (token * half_k + c) * 4;
      const float cos_t = uintBitsToFloat(pass.word[rotation]);
      const float sin_t = uintBitsToFloat(pass.word[rotation + 1]);
      const float x_t = x * cos_t - z * sin_t;
      const float z_t = z * cos_t + x * sin_t;
      if (g < G) {
        const float cos_s = uintBitsToFloat(pass.word[rotation + 2]);
        const float sin_s = uintBitsToFloat(pass.word[rotation + 3]);
        const uint to = g * K + c;
        queries[to] = x;
        queries[to + half_k] = z;
        queries[G * K + to] = x_t;
        queries[G * K + to + half_k] = z_t;
        queries[2 * G * K + to] = x * cos_s - z * sin_s;
        queries[2 * G * K + to + half_k] = z * cos_s + x * sin_s;
      } else {
        keys[c] = x;
        keys[c + half_k] = z;
        keys[K + c] = x_t;
        keys[K + c + half_k] = z_t;
      }
    }
  } else {
    for (uint i = THREAD; i < G * K; i += kThreads) queries[i] = activate(KEY_ACTIVATION, projections.v[q0 + i]);
    for (uint i = THREAD; i < K; i += kThreads) keys[i] = activate(KEY_ACTIVATION, projections.v[k0 + i]);
  }
  const uint v0 = row + (G + 1) * H * K + head * V;
  for (uint i = THREAD; i < V; i += kThreads) values[i] = activate(VALUE_ACTIVATION, projections.v[v0 + i]);
  const uint f0 = row + (G + 1) * H * K + H * V + head * MEMORY;
  for (uint i = THREAD; i < SHARE; i += kThreads) {
    const uint slot = slot0 + i;
    if (slot < kPositional || slot >= kSlots) continue;
    const uint m = slot - kPositional;
    float f = projections.v[f0 + m];
    if (a.gate_bias != kNone) f += vectors.v[a.gate_bias + head * MEMORY + m];
    float log_alpha = log_sigmoid(f) / a.gate_normalizer;
    if (a.gate_log_min < 0.0) log_alpha = max(log_alpha, a.gate_log_min);
    alpha[i] = exact_exp(log_alpha);
    gate[i] = -exact_expm1(log_alpha);
  }
}

float slot_logit(uint slot, uint head, uint g, float dot) {
  float logit = a.scale * dot;
  if (slot >= kPositional) {
    if (a.read_bias != kNone) logit += vectors.v[a.read_bias + head * MEMORY + slot - kPositional];
    if (a.head_read_bias != kNone) logit += vectors.v[a.head_read_bias + head * G + g];
  }
  return logit;
}

float key[kKeySlots][kKeyParts];
float value[kValueSlots][kValueParts];
bool key_dirty[kKeySlots];
bool value_dirty[kValueSlots];

uint slot0, share, k_state, v_state;  // of the workgroup: first slot, slots that exist, where in the state they begin
uint team, lane, column, group;       // of the thread; group >= kGroups: idle

void load_slots() {
  [[unroll]] for (uint i = 0; i < kKeySlots; ++i) {
    const uint slot = team + i * kTeams;
    key_dirty[i] = slot0 + slot >= kPositional;
    [[unroll]] for (uint e = 0; e < kKeyParts; ++e) {
      const uint c = lane + e * TEAM;
      key[i][e] = slot < share && c < K ? state.v[k_state + slot * K + c] : 0.0;
    }
  }
  [[unroll]] for (uint i = 0; i < kValueSlots; ++i) {
    const uint slot = group + i * kGroups;
    value_dirty[i] = slot0 + slot >= kPositional;
    [[unroll]] for (uint e = 0; e < kValueParts; ++e) {
      const uint c = column + e * kColumns;
      value[i][e] = slot < share && group < kGroups && c < V ? state.v[v_state + slot * V + c] : 0.0;
    }
  }
}

/// The token's keys into the slots, and its queries' logits with them.
void advance_keys(uint head, uint written, uint used_sinks, uint used_window) {
  [[unroll]] for (uint i = 0; i < kKeySlots; ++i) {
    const uint local = team + i * kTeams;
    const uint slot = slot0 + local;
    const bool positional = slot < kPositional;
    if (positional) {
      if (slot == written) {
        key_dirty[i] = true;
        [[unroll]] for (uint e = 0; e < kKeyParts; ++e) {
          const uint c = lane + e * TEAM;
          if (kRotary && c < K) key[i][e] = keys[K + c];
        }
      }
    } else if (local < share) {
      [[unroll]] for (uint e = 0; e < kKeyParts; ++e) {
        const uint c = lane + e * TEAM;
        if (c < K) key[i][e] = fma(alpha[local], key[i][e], gate[local] * keys[c]);
      }
    }
    const bool used = positional ? (slot < SINKS ? slot < used_sinks : slot - SINKS < used_window) : local < share;
    const uint variant = kRotary && positional ? (slot < SINKS ? 2 : 1) : 0;
    for (uint g = 0; g < G; ++g) {
      precise float dot = 0.0;
      [[unroll]] for (uint e = 0; e < kKeyParts; ++e) {
        const uint c = lane + e * TEAM;
        if (c < K) dot = fma(key[i][e], queries[(variant * G + g) * K + c], dot);
      }
      dot = team_sum(dot, TEAM);
      if (lane == 0 && local < SHARE) p[g * SHARE + local] = used ? slot_logit(slot, head, g, dot) : -1e30;
    }
  }
}

/// Softmax within the split: a team a query head.
void softmax(uint token, uint head, uint split) {
  for (uint g0 = 0; g0 < G; g0 += kTeams) {
    const uint g = g0 + team;
    const uint mine = g < G ? SHARE : 0;  // teams without a head only take part in the barriers
    float largest = -1e30;
    for (uint i = lane; i < mine; i += TEAM) largest = max(largest, p[g * SHARE + i]);
    largest = team_max(largest, TEAM);
    precise float sum = 0.0;
    for (uint i = lane; i < mine; i += TEAM) {
      const float logit = p[g * SHARE + i];
      const float weight = logit > -1e29 ? exact_exp(logit - largest) : 0.0;
      sum += weight;
      p[g * SHARE + i] = weight;
    }
    sum = team_sum(sum, TEAM);
    if (lane == 0 && g < G) {
      const uint at = ((token * H * G + head * G + g) * SPLITS + split) * (2 + V);
      o.v[at] = largest;
      o.v[at + 1] = sum;
    }
  }
}

/// The token's values into the slots.
void advance_values(uint written) {
  [[unroll]] for (uint i = 0; i < kValueSlots; ++i) {
    const uint local = group + i * kGroups;
    const uint slot = slot0 + local;
    if (slot < kPositional) {
      if (slot == written) {
        value_dirty[i] = true;
        [[unroll]] for (uint e = 0; e < kValueParts; ++e) {
          const uint c = column + e * kColumns;
          if (c < V) value[i][e] = values[c];
        }
      }
    } else if (local < share) {
      [[unroll]] for (uint e = 0; e < kValueParts; ++e) {
        const uint c = column + e * kColumns;
        if (c < V) value[i][e] = fma(alpha[local], value[i][e], gate[local] * values[c]);
      }
    }
  }
}

/// This thread's columns of what its group of slots gives each query head.
void read_values() {
for (uint g = 0; g < G; ++g) {
    precise float sum[kValueParts];
    [[unroll]] for (uint e = 0; e < kValueParts; ++e) sum[e] = 0.0;
    [[unroll]] for (uint i = 0; i < kValueSlots; ++i) {
      const uint local = group + i * kGroups;
      const float weight = local < SHARE ? p[g * SHARE + local] : 0.0;
      [[unroll]] for (uint e = 0; e < kValueParts; ++e) {
        // Slots that were never written may hold anything finite; padding holds zeros.
        sum[e] = fma(weight, value[i][e], sum[e]);
      }
    }
    [[unroll]] for (uint e = 0; e < kValueParts; ++e) {
      const uint c = column + e * kColumns;
      if (c < V) partial[(group * G + g) * V + c] = sum[e];
    }
  }
}

/// What the groups of columns have read, added up, to the output.
void add_values(uint token, uint head, uint split) {
  for (uint i = THREAD; i < G * V; i += kThreads) {
    precise float sum = partial[i];
    for (uint s = 1; s < kGroups; ++s) sum += partial[s * G * V + i];
    o.v[((token * H * G + head * G + i / V) * SPLITS + split) * (2 + V) + 2 + i % V] = sum;
  }
}

void store_slots() {
  [[unroll]] for (uint i = 0; i < kKeySlots; ++i) {
    const uint slot = team + i * kTeams;
    if (slot >= share || !key_dirty[i]) continue;
    [[unroll]] for (uint e = 0; e < kKeyParts; ++e) {
      const uint c = lane + e * TEAM;
      if (c < K) state.v[k_state + slot * K + c] = key[i][e];
    }
  }
  [[unroll]] for (uint i = 0; i < kValueSlots; ++i) {
    const uint slot = group + i * kGroups;
    if (slot >= share || group >= kGroups || !value_dirty[i]) continue;
    [[unroll]] for (uint e = 0; e < kValueParts; ++e) {
      const uint c = column + e * kColumns;
      if (c < V) state.v[v_state + slot * V + c] = value[i][e];
    }
  }
}

void main() {
  const uint split = gl_WorkGroupID.x;
  const uint head = gl_WorkGroupID.y;
  const uint item = a.pass.items + gl_WorkGroupID.z * kItemWords;
  if (gl_WorkGroupID.z >= pass.word[kPassItems] || pass.word[item + 3] != a.bank) return;
  if (pass.word[item + 5] != 0) return;  // it goes chunk by chunk
  const uint first_token = pass.word[item];
  const uint tokens = pass.word[item + 1];
  slot0 = split * SHARE;
  k_state = pass.word[item + 2] * a.layer_floats + head * kSlots * (K + V) + slot0 * K;
  v_state = k_state - slot0 * K + kSlots * K + slot0 * V;
  team = THREAD / TEAM;
  lane = THREAD % TEAM;
  column = THREAD % kColumns;
  group = THREAD / kColumns;
  share = min(SHARE, slot0 < kSlots ? kSlots - slot0 : 0);

  load_slots();

  for (uint n = 0; n < tokens; ++n) {
    const uint token = first_token + n;
    barrier();
    load_inputs(token, head, slot0);
    const uint written = layer_token_word(token, 1);
    const uint used_sinks = layer_token_word(token, 2);
    const uint used_window = layer_token_word(token, 3);
    barrier();

    advance_keys(head, written, used_sinks, used_window);
    barrier();

    softmax(token, head, split);
    barrier();

    if (group < kGroups) {
      advance_values(written);
      read_values();
    }
    barrier();
    add_values(token, head, split);
  }

  store_slots();
}
