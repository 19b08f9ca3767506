// SPDX-License-Identifier: Apache-2.0
// What a mixer of narrow_step does for its query head: q and k, slots, its part of the output projection.
//
// A team of 8 lanes has a row of q and of k. Four lanes have a slot, as
//   memory:      h' = alpha h + (1 - alpha) k,  logits from alpha q h + (1 - alpha) q k
//   positional:  the same with alpha 0 where the token writes it, 1 elsewhere, and with q and k turned
// so that all slots go the same way and the gates are off the way. The values' half is alike:
//   o = (sum_s c_s alpha_s V_s + v sum_s c_s (1 - alpha_s)) / sum_s c_s
// All mixers of a kv head's queries read its state and each advances a share of it, once it has seen a value of each other's
// part of the output: then they have read it.

const uint kSlots = SINKS + WINDOW + MEMORY;
const uint kPositional = SINKS + WINDOW;
const bool kRotary = kPositional > 0;
const uint kSlotTeams = THREADS / 4;  // at least kSlots
const uint kSplits = GROUPS == 1 ? 1 : G * SHARES;

const uint kRowTeams = THREADS / 8, kRowRounds = (kDim + kRowTeams - 1) / kRowTeams;
const uint kFull = kItems / 8;  // rounds of 8 items of q and k
const uint kRest = kItems % 8, kRestEach = kRest == 0 ? 1 : kRest;  // of which a team takes those of both side by side
const uint kProjected = 2 * kFull + (2 * kRest + 7) / 8;  // items of a lane
const uint kOutRows = D / SHARES, kOutSide = THREADS / 2;  // of the output projection; two lanes each
const uint kOutRounds = (kOutRows + kOutSide - 1) / kOutSide;

shared vec4 turns[kDim / 2];   // of the token: cosine and sine; of sinks
// The token: q as it is, turned for the window, turned for sinks; k as it is, turned; v.
const uint kAtKeys = 3, kAtValues = 5;
shared vec4 rows_[6 * kDim / 4];
shared float plain[2 * kDim];  // q and k, where pairs of rows are not in one subgroup
shared float alphas[kSlotTeams];
shared float gates_[kSlotTeams];
shared vec4 warp_largest[kWarps / 4];
shared vec4 warp_counts[kWarps / 2];  // sums of counts, of counts times gates
const uint kPartials = kLanes == 32 ? 2 * kWarps : kWarps;
shared vec4 partial[kPartials * kDim / 4];

/// Row of q and k of a team. Where a subgroup has four teams, it has both rows of two rotations.
uint row_of(uint round) {
  if (kLanes == 32) return 2 * WARP + LANE / 8 % 2 + LANE / 16 * 32;
  return round * kRowTeams + THREAD / 8;
}

/// Puts a row's values into shared memory: four lanes side by side have that of q, four that of k, and `other` of the row
/// that turns with it.
void keep_row(uint row, uint in_team, float v, float other) {
  const vec4 turn = turns[row % 32];
  const float against = row < 32 ? -other : other;
  const float turned = fma(against, turn.y, v * turn.x), for_sinks = fma(against, turn.w, v * turn.z);
  const uint which = 0x44332210u >> (4 * in_team) & 7;  // lanes 2 and 3: for sinks; two with the same write the same
  rows_[(which * kDim + row) / 4][row % 4] = which == 0 || which == kAtKeys ? v : which == 2 ? for_sinks : turned;
}

/// vec4 of the state where the keys of a kv head begin; its values follow.
uint state_of(uint layer, uint kv) {
  return (layer * a.layer_stride + token_place * a.layer_floats + kv * kSlots * 2 * kDim) / 4;
}

#define HOLD_PROJECTED(I)                                                                                 \
  if (I < kProjected) {                                                                                   \
    const uint side = (I - 2 * kFull) * 8 + in_team;                                                      \
    const uint which = I < 2 * kFull ? I % 2 : min(side / kRestEach, 1);                                  \
    const uint item = I < 2 * kFull ? I / 2 * 8 + in_team : 8 * kFull + side % kRestEach;                 \
    const uint at = w.first_row + ((which == 0 ? task : kHeads + task / G) * kDim + row) * kItems + item; \
    HOLD_ITEM(held[I], w, at)                                                                             \
  }

/// All rounds of this team's rows of q and k, the first of which is held, times `factor`, into shared memory.
void project_rows(const MatrixPart w, uint task, uint in_team, float factor, uint row, inout Item held[8]) {
  for (uint round = 0;;) {
    float sums[2];
    sums[0] = 0.0, sums[1] = 0.0;
#define SUM_PROJECTED(I)                                                                  \
  if (I < kProjected) {                                                                   \
    const uint side = (I - 2 * kFull) * 8 + in_team;                                      \
    const uint item = I < 2 * kFull ? I / 2 * 8 + in_team : 8 * kFull + side % kRestEach; \
    take_scales(held[I], row * kItems + item);                                            \
    const float term = item_sum(held[I], 0, D, item);                                     \
    if (I < 2 * kFull) {                                                                  \
      sums[I % 2] += term;                                                                \
    } else {                                                                              \
      sums[0] += side / kRestEach == 0 ? term : 0.0;                                      \
      sums[1] += side / kRestEach == 1 ? term : 0.0;                                      \
    }                                                                                     \
  }
    EACH_8(SUM_PROJECTED)
    // Half the team goes on with each.
    const bool upper = in_team >= 4;
    float v = (upper ? sums[1] : sums[0]) + subgroupShuffleXor(upper ? sums[0] : sums[1], 4);
    v += subgroupShuffleXor(v, 2);
    v += subgroupShuffleXor(v, 1);
    v *= factor;
    if (kLanes == 32) {
      keep_row(row, in_team, v, subgroupShuffleXor(v, 16));
    } else if (in_team % 4 == 0) {
      plain[in_team / 4 * kDim + row] = v;
    }
    if (++round >= kRowRounds) break;
    row = row_of(round);
    EACH_8(HOLD_PROJECTED)
  }
}

/// The output of the query head from what its subgroups have read: eight lanes have a block of it, in as many groups as
/// there are, of which each adds a share up.
void join_reads(uint warp, uint lane) {
  const uint at = warp * 8 + lane % 8, groups = kLanes / 8;
  vec4 o = vec4(0.0), counted = vec4(0.0);
  [[unroll]] for (uint i = 0; i < kPartials / groups; ++i) o += partial[(i * groups + lane / 8) * (kDim / 4) + at];
  [[unroll]] for (uint i = 0; i < kWarps / 2; ++i) counted += warp_counts[i];
  [[unroll]] for (uint i = 8; i < kLanes; i *= 2) {
    [[unroll]] for (uint e = 0; e < 4; ++e) o[e] += subgroupShuffleXor(o[e], i);
  }
  const float scale = 1.0 / (counted.x + counted.z);
  o = fma(vec4(counted.y + counted.w), rows_[kAtValues * (kDim / 4) + at], o) * scale;
  keep_vector(1, kDim, lane < 8 ? at : kDim, o);
}

/// What this lane's share of a subgroup's values gives with `kept` of their slots, and the subgroup's sums of counts and of
/// what they give the token's values. A lane has four of a slot's 16 vectors at a time.
void weigh_values(uint warp, uint lane, float kept, float count, float gate, vec4 value[4]) {
  vec4 sum = vec4(0.0), second = vec4(0.0);
#define WEIGH(I)                                                                          \
  {                                                                                       \
    const float weight_ = subgroupShuffle(kept, (I * kLanes + lane) / 16 * 4);            \
    if (kLanes < 16 && I % 2 == 1) {                                                      \
      second = fma(vec4(weight_), value[I], second);                                      \
    } else {                                                                              \
      sum = fma(vec4(weight_), value[I], sum);                                            \
    }                                                                                     \
  }
  EACH_4(WEIGH)
  // Half the lanes go on with the sums of counts, half with those of what they give the token's values.
  const bool upper = (lane & 4) != 0;
  const float fresh = count * gate, mine = upper ? fresh : count;
  float counted = mine + subgroupShuffleXor(upper ? count : fresh, 4);
  [[unroll]] for (uint i = 8; i < kLanes; i *= 2) counted += subgroupShuffleXor(counted, i);
  if ((lane & ~4) == 0) warp_counts[warp / 2][warp % 2 * 2 + lane / 4] = counted;
  partial[kPartials / kWarps * warp * (kDim / 4) + lane] = sum;
  if (kLanes < 16) partial[warp * (kDim / 4) + 8 + lane] = second;
}

/// The head's part of rows [first_out, …) of the output projection: two rows of a pair of lanes at a time, each ends with one.
void publish_parts(uint layer, uint task, uint warp, uint first_out, inout Item out_held[4]) {
  const uint base = layer * kLayerPlaces;
#define OUT_TERM(I) take_scales(out_held[I], THREAD % 2), item_sum(out_held[I], 1, kDim, THREAD % 2)
#define HAS_OUT(I) ((I + 1) * kOutSide <= kOutRows || subgroupAll(warp * kLanes / 2 + I * kOutSide < kOutRows))
#define SUM_OUT(I)                                                                                      \
  if (I < kOutRounds && HAS_OUT(I)) {                                                                   \
    float first = (OUT_TERM(I)), next = 0.0;                                                            \
    if (I + 1 < kOutRounds) next = (OUT_TERM(I + 1));                                                   \
    const bool odd = THREAD % 2 != 0;                                                                   \
    const uint out_row = I * kOutSide + THREAD / 2 + (odd ? kOutSide : 0);                              \
    const float v = (odd ? next : first) + subgroupShuffleXor(odd ? first : next, 1);                   \
    if (out_row < kOutRows) publish(base + kAtParts + task * D + first_out + out_row, v);               \
  }
  SUM_OUT(0)
  SUM_OUT(2)
}

/// A lane's part of a slot's products: its key before the token with q, and k with q.
void score_slot(uint slot, uint column, bool is_memory, vec4 key[4], out float sums[2]) {
  sums[0] = 0.0, sums[1] = 0.0;
  const uint turned = is_memory || !kRotary ? 0 : 1, variant = turned == 0 ? 0 : slot < SINKS ? 2 : 1;
#define ADD_DOT(SUM, K, Q) SUM = fma(K.w, Q.w, fma(K.z, Q.z, fma(K.y, Q.y, fma(K.x, Q.x, SUM))));
#define DOT_KEY(I)                                                \
  {                                                               \
    const vec4 q = rows_[variant * (kDim / 4) + column + 4 * I]; \
    const vec4 k = rows_[(kAtKeys + turned) * (kDim / 4) + column + 4 * I]; \
    ADD_DOT(sums[0], key[I], q)                                   \
    ADD_DOT(sums[1], k, q)                                        \
  }
  EACH_4(DOT_KEY)
}

/// From x to the part of the output projection of query head `task`, a share of its rows.
void mix(uint layer, uint task, uint out_share) {
  const uint lane = LANE, warp = WARP, in_team = THREAD % 8, kv = task / G, base = layer * kLayerPlaces;
  const MatrixPart w = matrix_of(layer, 0), out_ = matrix_of(layer, 1);
  const uint state_at = state_of(layer, kv);
  const uint slot = THREAD / 4, column = THREAD % 4, memory = min(slot - kPositional, MEMORY - 1);
  const bool is_memory = slot >= kPositional;

  Item held[8];
  vec4 key[4], value[4];
  uint row = row_of(0);
#define HOLD_KEY(I) key[I] = state4.v[state_at + min(slot, kSlots - 1) * (kDim / 4) + column + 4 * I];
#define HOLD_VALUE(I)                                                                                 \
  value[I] = state4.v[state_at + (kSlots + min(warp * (kLanes / 4) + (I * kLanes + lane) / 16, kSlots - 1)) * \
                      (kDim / 4) + (I * kLanes + lane) % 16];
  EACH_8(HOLD_PROJECTED)
  EACH_4(HOLD_KEY)
  EACH_4(HOLD_VALUE)
  // The head's two items of a row of the output projection, a lane each.
  Item out_held[4];
  const uint first_out = out_share * kOutRows;
#define HOLD_OUT(I)                                                                                          \
  if (I < kOutRounds) {                                                                                      \
    const uint at = out_.first_row + (first_out + min(I * kOutSide + THREAD / 2, kOutRows - 1)) * (kHeads * 2) + \
                    task * 2 + THREAD % 2;                                                                   \
    HOLD_ITEM(out_held[I], out_, at)                                                                         \
  }
  EACH_4(HOLD_OUT)
  vec4 weight = vec4(0.0);
  if (THREAD < D / 4) weight = vectors4.v[in_table(layer, kStepAttnNorm) / 4 + THREAD];
  const uint read_bias = in_table(layer, kStepReadBias);
  const uint head_read_bias = in_table(layer, kStepHeadReadBias);
  float slot_bias = 0.0, head_bias = 0.0;
  if (read_bias != kNone) slot_bias = vectors.v[read_bias + kv * MEMORY + memory];
  if (head_read_bias != kNone) head_bias = vectors.v[head_read_bias + task];
  if (IN_TURNS != 0) barrier();
  if (subgroupAll(warp < kXWarps)) {
    vec4 x = take_x(layer);
    keep_squares(0, x);
    keep_vector(0, D, THREAD, x * weight);
  }
  barrier();
  const float factor = norm_factor(0);
  const bool has_gates = is_memory && slot < kSlots;
  const uint gates_at = (base + kAtGates) / 2 + kv * MEMORY + memory;
  project_rows(w, task, in_team, factor, row, held);
  // Gates come from other workgroups: loaded before the logits, so that they have arrived by then. Values are polled
  // later.
  const uvec2 seen_gates = look2(has_gates, gates_at);
  if (kLanes != 32) {
    barrier();
    for (uint round = 0; round < kRowRounds; ++round) {
      const uint at = row_of(round), from = in_team / 4 * kDim;
      keep_row(at, in_team, plain[from + at], plain[from + (at ^ 32)]);
    }
  }
  barrier();

  float sums[2];
  score_slot(slot, column, is_memory, key, sums);
  const bool written = slot == token_slots.x && !is_memory;
  const vec2 gates = wait_on2(has_gates, seen_gates, gates_at);
  const float alpha = has_gates ? gates.x : written ? 0.0 : 1.0;
  const float gate = has_gates ? gates.y : written ? 1.0 : 0.0;
  const bool takes_value = THREAD < kDim / 4;
  const uint values_at = (base + kAtFreshValues + kv * kDim) / 4 + THREAD;
  if (column == 0) alphas[slot] = alpha, gates_[slot] = gate;
  [[unroll]] for (uint i = 1; i < 4; i *= 2) {
    sums[0] += subgroupShuffleXor(sums[0], i);
    sums[1] += subgroupShuffleXor(sums[1], i);
  }
  const bool counts = slot < SINKS         ? slot < token_slots.y
                      : slot < kPositional ? slot - SINKS < token_slots.z
                                           : slot < kSlots;
  const float bias = is_memory ? slot_bias + head_bias : 0.0;
  const float logit = counts ? fma(a.scale, fma(alpha, sums[0], gate * sums[1]), bias) : -1e30;
  float largest = logit;
  [[unroll]] for (uint i = 4; i < kLanes; i *= 2) largest = max(largest, subgroupShuffleXor(largest, i));
  if (lane == 0) warp_largest[warp / 4][warp % 4] = largest;
  const uvec4 seen = look4(takes_value, values_at);
  barrier();
  vec4 four = warp_largest[0];
  [[unroll]] for (uint i = 1; i < kWarps / 4; ++i) four = max(four, warp_largest[i]);
  largest = max(max(four.x, four.y), max(four.z, four.w));
  float count = exact_exp(logit - largest);
  count = counts ? count : 0.0;
  const float kept = count * alpha;
  weigh_values(warp, lane, kept, count, gate, value);
  if (subgroupAll(warp * kLanes < kDim / 4)) {
    const vec4 v = wait_on4(takes_value, seen, values_at);
    if (takes_value) rows_[kAtValues * (kDim / 4) + THREAD] = v;
  }
  barrier();
  if (subgroupAll(warp < kDim / 32)) join_reads(warp, lane);
  barrier();
  publish_parts(layer, task, warp, first_out, out_held);
}

/// This mixer's share of the state after the token, once all others of its kv head have read it. What mix() left in shared
/// memory is still there.
void advance_state(uint layer, uint task, uint out_share) {
  const uint kv = task / G, state_at = state_of(layer, kv);
  if (kSplits == 1) {
    if (task % G != G - 1) return;
  } else {
    const uint at = layer * kLayerPlaces + kAtParts + (kv * G + LANE % G) * D + LANE / G % SHARES * kOutRows;
    wait_on(true, look(true, at), at);
  }
  const uint part = kSplits == 1 ? 0 : task % G + out_share * G, share = (kSlots + kSplits - 1) / kSplits;
  for (uint n = 0; n < share * (kDim / 4); n += THREADS) {
    const uint i = n + THREAD, slot = i / (kDim / 4) * kSplits + part, c = i % (kDim / 4);
    if (slot >= kSlots || (slot < kPositional && slot != token_slots.x)) continue;
    const uint key_at = state_at + slot * (kDim / 4) + c, value_at = key_at + kSlots * (kDim / 4);
    const vec4 key = state4.v[key_at], value = state4.v[value_at];
    const float alpha = alphas[slot], gate = gates_[slot];
    state4.v[key_at] = fma(vec4(alpha), key, gate * rows_[(slot < kPositional ? kAtKeys + 1 : kAtKeys) * (kDim / 4) + c]);
    state4.v[value_at] = fma(vec4(alpha), value, gate * rows_[kAtValues * (kDim / 4) + c]);
  }
}
