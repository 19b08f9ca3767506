// SPDX-License-Identifier: Apache-2.0
// One token of a head of shift_step, by one workgroup: what comes up from low ranks, the recurrence with a removal, norm,
// bonus and gate. Some lanes side by side have a column of the state.

const uint kColumnLanes = THREADS / kShiftHead;
const uint kQuads = kShiftHead / 4 / kColumnLanes;  // of rows of a lane: at most 4
const uint kHeadVectors = kShiftHead / 4;
const uint kLowVectors = kRanks / 4;
const uint kHeadsEach = (HEADS + GROUPS - 1) / GROUPS;

shared vec4 taken[kLowVectors + 3 * kHeadVectors];  // what went down; q, k and v of the head
// What a state is asked with, what it gets, its decays, what is taken out.
shared vec4 made[5][kHeadVectors];
const uint kQuery = 0, kKey = 1, kFade = 2, kRemovalC = 3, kRemovalB = 4;
shared float removal_key[kShiftHead];
shared float values[kShiftHead];
shared float gates[kShiftHead];
shared float read[kShiftHead];
shared float bonus_parts[kWarps];
shared float first_values[kHeadsEach][kShiftHead];

float taken_at(uint i) { return taken[kLowVectors + i / 4][i % 4]; }

/// 16 bytes of a row of low rank, of which this lane has each kColumnLanes'th.
void ask_row(uint first, const uint rank, uint lane, out uvec4 held[4]) {
  const uint items = rank / kLowColumns;
  [[unroll]] for (uint j = 0; j < 4; ++j) {
    held[j] = uvec4(0);
    if (j * kColumnLanes < items) held[j] = weights4.w[first + min(lane + j * kColumnLanes, items - 1)];
  }
}

float raised_term(uvec4 w, uint from, uint i) {
  if (LOW_TYPE == kStepF32) return dot(uintBitsToFloat(w), taken[from / 4 + i]);
  return dot(short_values(w.xy, LOW_TYPE), taken[from / 4 + 2 * i]) +
         dot(short_values(w.zw, LOW_TYPE), taken[from / 4 + 2 * i + 1]);
}

float column_sum(float v) {
  [[unroll]] for (uint i = kColumnLanes / 2; i > 0; i /= 2) v += subgroupShuffleXor(v, i);
  return v;
}

/// The product of such a row with what went down, from column `from` on.
float raised(uint first, const uint rank, uint from, uint lane, const uvec4 held[4]) {
  const uint items = rank / kLowColumns;
  precise float sum = 0.0;
  [[unroll]] for (uint j = 0; j < 4; ++j) {
    if (j * kColumnLanes < items) {
      const uint i = lane + j * kColumnLanes;
      const float term = raised_term(held[j], from, min(i, items - 1));
      sum += i < items ? term : 0.0;
    }
  }
  for (uint i = 4 * kColumnLanes; i < items; i += kColumnLanes) {
    const float term = raised_term(weights4.w[first + min(i + lane, items - 1)], from, min(i + lane, items - 1));
    sum += i + lane < items ? term : 0.0;
  }
  return column_sum(sum);
}

/// Takes what went down, and the head's q, k and v.
void take_head(uint base, uint head, bool mixes) {
  const uint low = mixes ? kLowVectors : (kRanks - RANK_MIX) / 4;
  for (uint n = 0; n < kLowVectors + 3 * kHeadVectors; n += THREADS) {
    const uint i = n + THREAD, own = i - kLowVectors;
    const bool of_head = i >= kLowVectors;
    const bool mine = of_head ? own < 3 * kHeadVectors : i < low;
    const uint from = of_head ? own / kHeadVectors * (D / 4) + head * kHeadVectors + own % kHeadVectors : kAtLow / 4 + i;
    const vec4 v = wait_on4(mine, look4(mine, base / 4 + from), base / 4 + from);
    if (mine) taken[i] = v;
  }
}

/// What the head's state is given; lane `lane` of a column has that channel's. sums: of f, r and the mix; own: bias of one of
/// these, key rate and weight of the bonus.
void make_inputs(uint layer, uint head, uint column, uint lane, const vec3 sums, const vec3 own) {
  const bool mixes = in_table(layer, kShiftMixes) != 0;
  const float sum = lane == 0 ? sums.x : lane == 1 ? sums.y : sums.z;
  const float share = sigmoid(sum + own.x);
  precise float squares = 0.0;
  [[unroll]] for (uint i = 0; i < kShiftHead; i += kLanes) {
    const float c = taken_at(kShiftHead + i + LANE) * removal_key[i + LANE];
    squares = fma(c, c, squares);
  }
  const float by = 1.0 / max(sqrt(lanes_sum(squares)), 1e-12);
  const float q = taken_at(column), k = taken_at(kShiftHead + column), v = taken_at(2 * kShiftHead + column);
  const float c = -k * removal_key[column] * by;
  const float key = k * fma(share - 1.0, own.y, 1.0);
  if (lane == 0) {
    made[kFade][column / 4][column % 4] = exact_exp(-0.60653066 * share);
  } else if (lane == 1) {
    made[kQuery][column / 4][column % 4] = q * a.scale;
    made[kKey][column / 4][column % 4] = key;
    made[kRemovalC][column / 4][column % 4] = c;
    made[kRemovalB][column / 4][column % 4] = -share * c;
  } else if (lane == 2) {
    if (layer == 0) first_values[head / GROUPS][column] = v;
    values[column] = mixes ? fma(first_values[head / GROUPS][column] - v, share, v) : v;
  }
  const float bonus = lanes_sum(lane == 1 ? q * key * own.z : 0.0);
  if (LANE == 0) bonus_parts[WARP] = bonus;
}

/// What the head reads, normed, with bonus and gate, to those that multiply it.
void publish_head(uint layer, uint base, uint head, float weight, float bias) {
  if (!subgroupAll(THREAD < kShiftHead)) return;
  float mean = 0.0, factor = 1.0;
  if (GROUP_NORM != 0) {
    precise float sum = 0.0, squares = 0.0;
    [[unroll]] for (uint i = 0; i < kShiftHead; i += kLanes) sum += read[i + LANE];
    mean = lanes_sum(sum) / float(kShiftHead);
    [[unroll]] for (uint i = 0; i < kShiftHead; i += kLanes) {
      const float away = read[i + LANE] - mean;
      squares = fma(away, away, squares);
    }
    factor = 1.0 / sqrt(lanes_sum(squares) / float(kShiftHead) + a.g_norm_eps);
  }
  float y = fma((read[THREAD] - mean) * factor, weight, bias);
  if (BONUS != 0) {
    precise float bonus = 0.0;
    for (uint i = 0; i < kWarps; ++i) bonus += bonus_parts[i];
    y = fma(bonus, values[THREAD], y);
  }
  if (RANK_GATE != 0) y *= gates[THREAD];
  publish(base + kAtOut + head * kShiftHead + THREAD, y);
}

void advance_head(uint layer, uint base, uint head) {
  const uint column = THREAD / kColumnLanes, lane = THREAD % kColumnLanes, channel = head * kShiftHead + column;
  const bool mixes = subgroupAll(in_table(layer, kShiftMixes) != 0);
  // All that is there already.
  uvec4 up_f[4], up_r[4], up_gate[4], up_mix[4];
  const uint at_f = in_table(layer, kShiftRaise) + channel * (RANK_F / kLowColumns);
  const uint at_r = in_table(layer, kShiftRaise + 1) + channel * (RANK_R / kLowColumns);
  const uint at_gate = in_table(layer, kShiftRaise + 2) + channel * (RANK_GATE / kLowColumns);
  // Without a mix any row will do.
  const uint at_mix = mixes ? in_table(layer, kShiftRaise + 3) + channel * (RANK_MIX / kLowColumns) : 0;
  ask_row(at_f, RANK_F, lane, up_f);
  ask_row(at_r, RANK_R, lane, up_r);
  ask_row(at_gate, RANK_GATE, lane, up_gate);
  ask_row(at_mix, RANK_MIX, lane, up_mix);
  vec4 s[4];
  const uint own = state_at(layer, head * kShiftHead * kShiftHead + 4 * lane * kShiftHead + column);
  [[unroll]] for (uint j = 0; j < 4; ++j) {
    s[j] = vec4(0.0);
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      if (j < kQuads) s[j][e] = state.v[own + (4 * j * kColumnLanes + e) * kShiftHead];
    }
  }
  const uint biases = lane == 0   ? in_table(layer, kShiftFBias)
                      : lane == 1 ? in_table(layer, kShiftRBias)
                      : mixes     ? in_table(layer, kShiftMixBias)
                                  : in_table(layer, kShiftFBias);
  const float bias = vectors.v[biases + channel], key_rate = vectors.v[in_table(layer, kShiftKeyRate) + channel];
  float bonus_weight = 0.0, weight = 1.0, norm_bias = 0.0;
  if (BONUS != 0) bonus_weight = vectors.v[in_table(layer, kShiftBonus) + channel];
  if (THREAD < kShiftHead) {
    removal_key[THREAD] = vectors.v[in_table(layer, kShiftRemovalKey) + head * kShiftHead + THREAD];
    if (GROUP_NORM != 0) {
      weight = vectors.v[in_table(layer, kShiftGroupNorm) + head * kShiftHead + THREAD];
      norm_bias = vectors.v[in_table(layer, kShiftGroupNorm + 1) + head * kShiftHead + THREAD];
    }
  }
  if (IN_TURNS != 0) barrier();  // before any wait for what this workgroup writes
  take_head(base, head, mixes);
  barrier();
  const vec3 sums =
      vec3(raised(at_f, RANK_F, low_at(0), lane, up_f), raised(at_r, RANK_R, low_at(1), lane, up_r),
           raised(at_mix, RANK_MIX, low_at(3), lane, up_mix));
  const float gate = raised(at_gate, RANK_GATE, low_at(2), lane, up_gate);
  if (lane == 3) gates[column] = gate;
  make_inputs(layer, head, column, lane, sums, vec3(bias, key_rate, bonus_weight));
  barrier();
  precise float removed = 0.0, sum = 0.0;
  [[unroll]] for (uint j = 0; j < kQuads; ++j) {
    const vec4 c = made[kRemovalC][j * kColumnLanes + lane];
    [[unroll]] for (uint e = 0; e < 4; ++e) removed = fma(s[j][e], c[e], removed);
  }
  removed = column_sum(removed);
  const float v = values[column];
  [[unroll]] for (uint j = 0; j < kQuads; ++j) {
    const uint rows = j * kColumnLanes + lane;
    s[j] = fma(made[kRemovalB][rows], vec4(removed), fma(made[kKey][rows], vec4(v), s[j] * made[kFade][rows]));
    const vec4 q = made[kQuery][rows];
    [[unroll]] for (uint e = 0; e < 4; ++e) sum = fma(s[j][e], q[e], sum);
  }
  sum = column_sum(sum);
  if (lane == 0) read[column] = sum;
  barrier();
  publish_head(layer, base, head, weight, norm_bias);
  [[unroll]] for (uint j = 0; j < kQuads; ++j) {
    [[unroll]] for (uint e = 0; e < 4; ++e) state.v[own + (4 * j * kColumnLanes + e) * kShiftHead] = s[j][e];
  }
}
