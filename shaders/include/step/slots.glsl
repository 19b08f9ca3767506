// SPDX-License-Identifier: Apache-2.0
// The slots of decode_step and decode_even. PARTS workgroups have a kv head; each takes QUERIES of its G queries and a
// share of the value columns (outputs need no join) and finds all slots' logits itself, from the keys before the token:
//   q h' = alpha q h + (1 - alpha) q k,   so that the gates are off the way
// It advances its share of the state once it has the outputs of all others of the head, which then have read it. Values
// that no other workgroup reads are advanced in registers.

const uint kVariants = kRotary ? 3 : 1;
const uint kColumnParts = PARTS * QUERIES / G;
shared vec4 queries[kVariants * QUERIES * K / 4];  // as they are; turned for the window; for sinks
shared vec4 keys[(kRotary ? 2 : 1) * K / 4];
shared float alpha[MEMORY];
shared float gate[MEMORY];
shared float dots[QUERIES * kSlots];  // with the keys, then what the slots count
shared float dots_new[QUERIES];       // with the token's key
shared float counts[QUERIES];         // 1 / of all
const uint kColumns = V / kColumnParts;  // of a part
shared float values[kColumns];
const uint kRowGroups = THREADS / kColumns;  // of threads over the slots
const uint kPartials = kColumns < kLanes ? kWarps : kRowGroups;
shared float partial[kPartials * QUERIES * kColumns];

// Teams of lanes have a slot each.
const uint kTeam = K / 4 >= kLanes ? kLanes : K / 4 >= 16 ? 16 : K / 4 >= 8 ? 8 : K / 4 >= 4 ? 4 : 1;
const uint kTeams = THREADS / kTeam;
const uint kKeyVectors = (K / 4 + kTeam - 1) / kTeam;  // of 4 in a lane
const uint kAllRounds = (kSlots + kTeams - 1) / kTeams;
const uint kFitRounds = 16 / kKeyVectors, kHeldRounds = kAllRounds < kFitRounds ? kAllRounds : kFitRounds;  // in registers
const uint kKeyRounds = kHeldRounds < 7 ? kHeldRounds : 7;  // at once, beside the token's key in 8 sums
const uint kSums = kKeyRounds < 2 ? 2 : kKeyRounds < 4 ? 4 : 8;
const uint kOwnSlots = (kSlots + kLanes - 1) / kLanes;  // of a lane, in the softmax
const uint kValueRounds = (kSlots + kRowGroups - 1) / kRowGroups;

struct Head {
  uint head;
  uint part;
  uint query;   // the first of its own
  uint column;
  uint keys;    // words of the state
  uint values;
};
Head head_of(uint layer, uint task) {
  Head h;
  h.head = task / PARTS, h.part = task % PARTS;
  h.query = h.part / kColumnParts * QUERIES, h.column = h.part % kColumnParts * kColumns;
  h.keys = layer * a.layer_stride + token_place * a.layer_floats + h.head * kSlots * (K + V);
  h.values = h.keys + kSlots * K;
  return h;
}

void take_gate(uint m, float f) {
  float log_alpha = log_sigmoid(f) / a.gate_normalizer;
  if (a.gate_log_min < 0.0) log_alpha = max(log_alpha, a.gate_log_min);
  alpha[m] = exact_exp(log_alpha);
  gate[m] = -exact_expm1(log_alpha);
}

/// Queries, the key, gates and values of a head, when they are there.
void take_projections(const Head h, uint base, uint f_bias) {
  const uint q0 = base + kAtProjected + (h.head * G + h.query) * K, k0 = base + kAtProjected + G * H * K + h.head * K;
  if (kRotary) {
    const uint half_k = K / 2;
    for (uint n = 0; n < (QUERIES + 1) * half_k; n += THREADS) {
      const uint i = n + THREAD, g = i / half_k, c = i % half_k;
      const bool mine = i < (QUERIES + 1) * half_k;
      const uint from = (g < QUERIES ? q0 + g * K : k0) + c;
      vec4 turn = vec4(0.0);
      if (mine) turn = uintBitsToFloat(pass4.word[a.pass.rotations / 4 + c]);
      const uint first = look(mine, from), second = look(mine, from + half_k);
      const float x = wait_on(mine, first, from), z = wait_on(mine, second, from + half_k);
      if (!mine) continue;
      const uint to = (g < QUERIES ? g * K : 0) + c, other = to + half_k;
      if (g < QUERIES) {
        queries[to / 4][to % 4] = x;
        queries[other / 4][other % 4] = z;
        queries[(QUERIES * K + to) / 4][(QUERIES * K + to) % 4] = x * turn.x - z * turn.y;
        queries[(QUERIES * K + other) / 4][(QUERIES * K + other) % 4] = z * turn.x + x * turn.y;
        queries[(2 * QUERIES * K + to) / 4][(2 * QUERIES * K + to) % 4] = x * turn.z - z * turn.w;
        queries[(2 * QUERIES * K + other) / 4][(2 * QUERIES * K + other) % 4] = z * turn.z + x * turn.w;
      } else {
        keys[to / 4][to % 4] = x;
        keys[other / 4][other % 4] = z;
        keys[(K + to) / 4][(K + to) % 4] = x * turn.x - z * turn.y;
        keys[(K + other) / 4][(K + other) % 4] = z * turn.x + x * turn.y;
      }
    }
  } else {
    for (uint n = 0; n < (QUERIES + 1) * K / 4; n += THREADS) {
      const uint i = n + THREAD;
      const bool mine = i < (QUERIES + 1) * K / 4;
      const uint at = i < QUERIES * K / 4 ? q0 / 4 + i : k0 / 4 + i - QUERIES * K / 4;
      const vec4 v = wait_on4(mine, look4(mine, at), at);
      if (i < QUERIES * K / 4) {
        queries[i] = v;
      } else if (mine) {
        keys[i - QUERIES * K / 4] = v;
      }
    }
  }
  const uint v0 = base + kAtProjected + (G + 1) * H * K + h.head * V + h.column;
  const uint f0 = base + kAtProjected + (G + 1) * H * K + H * V + h.head * MEMORY;
  // From the last threads on: the first are at work on the keys.
  for (uint n = 0; n < MEMORY + kColumns; n += THREADS) {
    const uint i = n + THREADS - 1 - THREAD, at = i < MEMORY ? f0 + i : v0 + i - MEMORY;
    const bool mine = i < MEMORY + kColumns;
    float f = i < MEMORY && f_bias != kNone ? vectors.v[f_bias + h.head * MEMORY + i] : 0.0;
    const float v = wait_on(mine, look(mine, at), at);
    if (i < MEMORY) {
      take_gate(i, f + v);
    } else if (mine) {
      values[i - MEMORY] = v;
    }
  }
}

#ifdef RUNNEL_TAKES_APART
#include "step/take_apart.glsl"
#else
const uint kApart = 0;
#endif

/// The value of a slot after the token, at word `at` + slot V of the state before it (or after it, if it is not shared).
float advanced_value(uint at, uint slot, uint column) {
  if (slot < kPositional) return slot == token_slots.x ? values[column] : state.v[at + slot * V];
  const float before = state.v[at + slot * V];
  return QUERIES == G ? before : fma(alpha[slot - kPositional], before, gate[slot - kPositional] * values[column]);
}

float dot_of(vec4 k, vec4 q) {
  precise float sum = fma(k.w, q.w, fma(k.z, q.z, fma(k.y, q.y, k.x * q.x)));
  return sum;
}

uint variant_of(uint slot) { return !kRotary || slot >= kPositional ? 0 : slot < SINKS ? 2 : 1; }

#include "step/subgroup_slots.glsl"

// Whether a slot is one, where `step` side by side are looked at.
#define IS_SLOT(SLOT, STEP) (kSlots % (STEP) == 0 || (SLOT) < kSlots)
#define LOAD_KEY(I)                                                                                     \
  if (I < kHeldRounds * kKeyVectors) {                                                                  \
    const uint c = in_team + I % kKeyVectors * kTeam;                                                   \
    const uint slot = kBySubgroup != 0 ? WARP * kOfWarp + I * kTeamsOfWarp + LANE / kTeam               \
                                       : (round + I / kKeyVectors) * kTeams + team;                     \
    key[I] = vec4(0.0);                                                                                 \
    if (IS_SLOT(slot, kTeams) && (K / 4 % kTeam == 0 || c < K / 4))                                     \
      key[I] = state4.v[(h.keys + slot * K) / 4 + c];                                                   \
  }
#define LOAD_VALUE(I)                                                                              \
  if (I < kValueRounds) {                                                                          \
    const uint slot = kBySubgroup != 0 ? WARP * kOfWarp + I * kRowsOfWarp + LANE / kColumns        \
                                       : group + I * kRowGroups;                                   \
    value[I] = 0.0;                                                                                \
    if (IS_SLOT(slot, kRowGroups)) value[I] = state.v[h.values + h.column + column + slot * V];    \
  }

/// Asks for what a thread has of a head's keys, [kHeldRounds][kKeyVectors], and values.
void ask_slots(const Head h, inout vec4 key[16], inout float value[8]) {
  const uint in_team = THREAD % kTeam, team = THREAD / kTeam;
  const uint column = THREAD % kColumns, group = THREAD / kColumns;
  const uint round = 0;
  EACH_16(LOAD_KEY)
  EACH_8(LOAD_VALUE)
}

// Pieces of slots(), in its names.
#define LOAD_BIASES(QUERY)                                                                                           \
  {                                                                                                                  \
    const float of_head = head_read_bias == kNone ? 0.0 : vectors.v[head_read_bias + h.head * G + h.query + (QUERY)]; \
    [[unroll]] for (uint i = 0; i < kOwnSlots; ++i) {                                                                \
      const uint s = i * kLanes + lane;                                                                              \
      biases[i] = of_head;                                                                                           \
      if (read_bias != kNone && s >= kPositional && s < kSlots)                                                      \
        biases[i] += vectors.v[read_bias + h.head * MEMORY + s - kPositional];                                       \
    }                                                                                                                \
  }
#define ADD_DOT(AT, KEY, FROM)                                                     \
  {                                                                                \
    const vec4 q = queries[FROM], k = KEY;                                         \
    sums[AT] = fma(k.w, q.w, fma(k.z, q.z, fma(k.y, q.y, fma(k.x, q.x, sums[AT])))); \
  }
// Rounds are taken FIRST, FIRST + 1, … of those held.
#define DOT_KEY(I)                                                                                      \
  if (I / kKeyVectors >= FIRST && I / kKeyVectors < FIRST + kKeyRounds && I < kHeldRounds * kKeyVectors) { \
    const uint c = in_team + I % kKeyVectors * kTeam, slot = (round + I / kKeyVectors) * kTeams + team; \
    vec4 here = key[I];                                                                                 \
    if (kRotary && slot == written && c < K / 4) here = keys[K / 4 + c];                                \
    ADD_DOT(I / kKeyVectors - FIRST, here, (variant_of(slot) * QUERIES + g) * K / 4 + min(c, K / 4 - 1)) \
  }                                                                                                     \
  if (FIRST == 0 && I < kKeyVectors && (K / 4 % kTeam == 0 || in_team + I * kTeam < K / 4))             \
    ADD_DOT(kKeyRounds, keys[in_team + I * kTeam], g * K / 4 + in_team + I * kTeam)
#define DOT_ROUNDS                                                                 \
  if (FIRST < kHeldRounds) {                                                       \
    float sums[8]; /* of each round, then of the token's key */                    \
    [[unroll]] for (uint i = 0; i < 8; ++i) sums[i] = 0.0;                         \
    EACH_16(DOT_KEY)                                                               \
    ADD_LANES(sums, kSums, kTeam, in_team)                                         \
    [[unroll]] for (uint n = 0; n < 8; ++n) {                                      \
      const uint which = in_team / same * each + n;                                \
      const uint slot = (round + FIRST + which) * kTeams + team;                   \
      if (n >= each || in_team % same != 0) continue;                              \
      if (which < kKeyRounds) {                                                    \
        if (FIRST + which < kHeldRounds && slot < kSlots) dots[g * kSlots + slot] = sums[n]; \
      } else if (FIRST == 0 && which == kKeyRounds && team == 0) {                 \
        dots_new[g] = sums[n];                                                     \
      }                                                                            \
    }                                                                              \
  }
#define ADVANCE_VALUE(VALUE, SLOT)                                                                        \
  if ((SLOT) < kSlots && ((SLOT) >= kPositional || (SLOT) == written)) {                                  \
    const uint m = (SLOT) - kPositional;                                                                  \
    VALUE = (SLOT) < kPositional ? values[column] : fma(alpha[m], VALUE, gate[m] * values[column]);       \
    if (QUERIES == G) state.v[value_at + (SLOT) * V] = VALUE;                                             \
  }
#define ADVANCE_HELD(I) if (I < kValueRounds) ADVANCE_VALUE(value[I], group + I * kRowGroups)
#define WEIGH(I)                                                                                   \
  if (I < kValueRounds) {                                                                          \
    const uint slot = group + I * kRowGroups;                                                      \
    if (IS_SLOT(slot, kRowGroups)) sum = fma(dots[g * kSlots + slot], value[I], sum);              \
  }

/// What head `h` reads of its slots, this workgroup's columns of it.
void slots(uint layer, uint base, const Head h, inout vec4 key[16], inout float value[8]) {
  const uint warp = WARP, lane = LANE;
  const uint in_team = THREAD % kTeam, team = THREAD / kTeam;
  const uint column = THREAD % kColumns, group = THREAD / kColumns;
  uint round = 0;
  const uint value_at = h.values + h.column + column;
  // What a query's logits are moved by, of this lane's slots.
  const uint read_bias = in_table(layer, kStepReadBias), head_read_bias = in_table(layer, kStepHeadReadBias);
  float biases[kOwnSlots];
  float bias = 0.0;  // of the lane's slot, kBySubgroup
  if (kBySubgroup != 0) {
    const uint s = warp * kOfWarp + min(lane, kOfWarp - 1);
    if (head_read_bias != kNone) bias = vectors.v[head_read_bias + h.head * G + h.query];
    if (read_bias != kNone && s >= kPositional) bias += vectors.v[read_bias + h.head * MEMORY + s - kPositional];
  } else {
    LOAD_BIASES(min(warp, QUERIES - 1))
  }
  const uint written = token_slots.x, used_sinks = token_slots.y, used_window = token_slots.z;
  if (IN_TURNS != 0) barrier();
#ifdef RUNNEL_TAKES_APART
  if (kApart != 0) {
    take_apart(h, base, in_table(layer, kStepFBias));
  } else {
    take_projections(h, base, in_table(layer, kStepFBias));
  }
#else
  take_projections(h, base, in_table(layer, kStepFBias));
#endif
  barrier();
  if (kBySubgroup != 0) {
    slots_of_subgroups(base, h, key, value, bias);
    return;
  }

  const uint same = kTeam > kSums ? kTeam / kSums : 1, each = kSums > kTeam ? kSums / kTeam : 1;
  [[dont_unroll]] for (;;) {
    [[dont_unroll]] for (uint g = 0; g < QUERIES; ++g) {
#define FIRST 0
      DOT_ROUNDS
#undef FIRST
#define FIRST 7
      DOT_ROUNDS
#undef FIRST
#define FIRST 14
      DOT_ROUNDS
#undef FIRST
    }
    if ((round += kHeldRounds) >= kAllRounds) break;
    EACH_16(LOAD_KEY)
  }
  barrier();
  // A subgroup a query, whose logits it has in registers.
  for (uint n = 0; n < QUERIES; n += kWarps) {
    const uint g = n + warp;
    if (!subgroupAll(g < QUERIES)) continue;
    // Those of the first query were loaded above.
    if (n > 0) LOAD_BIASES(g)
    const float fresh = dots_new[g];
    float logits[kOwnSlots];
    float largest = -1e30;
    [[unroll]] for (uint i = 0; i < kOwnSlots; ++i) {
      const uint s = i * kLanes + lane, m = s < kPositional ? 0 : min(s - kPositional, MEMORY - 1);
      const float found = dots[g * kSlots + min(s, kSlots - 1)];
      const bool counts_ = s < kPositional ? (s < SINKS ? s < used_sinks : s - SINKS < used_window) : IS_SLOT(s, kLanes);
      logits[i] = s < kPositional ? a.scale * found : fma(a.scale, fma(alpha[m], found, gate[m] * fresh), biases[i]);
      if (!counts_) logits[i] = -1e30;
      largest = max(largest, logits[i]);
    }
    largest = lanes_max(largest);
    precise float sum = 0.0;
    [[unroll]] for (uint i = 0; i < kOwnSlots; ++i) {
      const uint s = i * kLanes + lane;
      const float count = logits[i] > -1e29 ? exact_exp(logits[i] - largest) : 0.0;
      if (IS_SLOT(s, kLanes)) dots[g * kSlots + s] = count;
      sum += count;
    }
    sum = lanes_sum(sum);
    if (lane == 0) counts[g] = 1.0 / sum;
  }
  EACH_8(ADVANCE_HELD)
  // What does not fit the registers is read again below.
  if (QUERIES == G) {
    [[dont_unroll]] for (uint slot = group + 8 * kRowGroups; slot < kSlots; slot += kRowGroups)
      ADVANCE_VALUE(state.v[value_at + slot * V], slot)
  }
  barrier();
  [[dont_unroll]] for (uint g = 0; g < QUERIES; ++g) {
    precise float sum = 0.0;
    EACH_8(WEIGH)
    [[dont_unroll]] for (uint slot = group + 8 * kRowGroups; slot < kSlots; slot += kRowGroups)
      sum = fma(dots[g * kSlots + slot], advanced_value(value_at, slot, column), sum);
    if (kColumns < kLanes) {
      [[unroll]] for (uint b = 0; b < 5; ++b) {
        if ((kColumns << b) < kLanes) sum += subgroupShuffleXor(sum, kColumns << b);
      }
      if (lane < kColumns) partial[(warp * QUERIES + g) * kColumns + lane] = sum;
    } else {
      partial[(group * QUERIES + g) * kColumns + column] = sum;
    }
  }
  barrier();
  for (uint at = 0; at < QUERIES * kColumns; at += THREADS) {
    const uint i = at + THREAD;
    if (i >= QUERIES * kColumns) continue;
    precise float sum = 0.0;
    for (uint n = 0; n < kPartials; ++n) sum += partial[n * QUERIES * kColumns + i];
    publish(base + kAtOut + (h.head * G + h.query + i / kColumns) * V + h.column + i % kColumns,
            activate(OUT_ACTIVATION, sum * counts[i / kColumns]));
  }
}

/// This workgroup's share of a head's state, after all others have read it: of the keys; if others read its values too,
/// those of its columns in the slots that are its own. What slots() left in shared memory is still there.
void advance_state(const Head h) {
  const uint share = (kSlots + PARTS - 1) / PARTS, first = h.part * share, of_keys = share * (K / 4);
  const uint splits = G / QUERIES, own_slots = (kSlots + splits - 1) / splits;
  const uint of_values = splits > 1 ? own_slots * (kColumns / 4) : 0;
  for (uint n = 0; n < of_keys + of_values; n += THREADS) {
    const bool is_key = n + THREAD < of_keys;
    const uint i = n + THREAD - (is_key ? 0 : of_keys), width = is_key ? K / 4 : max(kColumns / 4, 1);
    const uint slot = (is_key ? first : h.query / QUERIES * own_slots) + i / width, c = i % width;
    if (n + THREAD >= of_keys + of_values || slot >= kSlots || (slot < kPositional && slot != token_slots.x)) continue;
    const uint at = is_key ? (h.keys + slot * K) / 4 + c : (h.values + h.column + slot * V) / 4 + c;
    vec4 fresh = keys[is_key ? c + (kRotary && slot < kPositional ? K / 4 : 0) : 0];
    if (splits > 1 && !is_key) fresh = vec4(values[4 * c], values[4 * c + 1], values[4 * c + 2], values[4 * c + 3]);
    if (slot < kPositional) {
      state4.v[at] = fresh;
    } else {
      state4.v[at] = fma(vec4(alpha[slot - kPositional]), state4.v[at], gate[slot - kPositional] * fresh);
    }
  }
}
