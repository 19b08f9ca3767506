// SPDX-License-Identifier: Apache-2.0
// What workgroups of narrow_step that are no mixers do with x first: the gates of all slots and v, a subgroup a row.

shared vec4 gate_input[D / 4];  // x of the norm: columns 0-3 of each 8, then columns 4-7

const uint kForgetUnits = D / 8, kForgetEach = (kForgetUnits + kLanes - 1) / kLanes;  // of a lane, up to 8
const uint kValueEach = (kItems + kLanes - 1) / kLanes;  // items of a lane, up to 4
const uint kForgetRows = (H * MEMORY + kOthers - 1) / kOthers, kValueRows = (H * kDim + kOthers - 1) / kOthers;
const uint kForgetRounds = (kForgetRows + kWarps - 1) / kWarps;
const uint kSideRounds = (kForgetRows + kValueRows + kWarps - 1) / kWarps;

float gate_unit(uvec4 w, uint u) {
  return dot(short_values(w.xy, F_TYPE), gate_input[u]) + dot(short_values(w.zw, F_TYPE), gate_input[D / 8 + u]);
}

/// What a subgroup has asked for of a row of f and one of v.
struct Side {
  uvec4 forget[8];
  Item row[4];
  float bias;
  vec4 weight;  // of the norm, of this thread's x
};
uint f_row_of(uint me, uint turn) { return min(me + turn * kOthers, H * MEMORY - 1); }
uint v_row_of(uint me, uint turn) { return min(me + (turn - min(turn, kForgetRows)) * kOthers, H * kDim - 1); }

/// Asks for the weights of this subgroup's row of f or v, the `turn`th of workgroup `me` of kOthers.
void hold_side(inout Side side, uint layer, uint me, uint turn) {
  const uint lane = LANE, f_bias_at = in_table(layer, kStepFBias);
  const MatrixPart w = matrix_of(layer, 0);
  const uint f_at = in_table(layer, kStepGates) + f_row_of(me, turn) * kForgetUnits;
  const uint v_at = w.first_row + ((kHeads + H) * kDim + v_row_of(me, turn)) * kItems;
#define HOLD_FORGET(I) \
  if (I < kForgetEach) side.forget[I] = early4.w[f_at + min(I * kLanes + lane, kForgetUnits - 1)];
#define HOLD_ROW(I)                                                        \
  if (I < kValueEach) {                                                    \
    const uint at = v_at + min(I * kLanes + lane, kItems - 1);             \
    HOLD_ITEM(side.row[I], w, at)                                          \
  }
  EACH_8(HOLD_FORGET)
  EACH_4(HOLD_ROW)
  side.bias = 0.0;
  if (f_bias_at != kNone) side.bias = vectors.v[f_bias_at + f_row_of(me, turn)];
  side.weight = vectors4.v[in_table(layer, kStepAttnNorm) / 4 + min(THREAD, D / 4 - 1)];
}

/// For workgroup `me` of kOthers, whose first rows' `side` was loaded; returns this thread's four of x.
vec4 gates_and_values(inout Side side, uint layer, uint me) {
  const uint lane = LANE, warp = WARP, base = layer * kLayerPlaces;
  const uint turn = kWarps - 1 - warp;  // rows of f, then of v; the first subgroups wait for x
  vec4 x = vec4(0.0), weighted = vec4(0.0);
  if (IN_TURNS != 0) barrier();
  if (subgroupAll(warp < kXWarps)) {
    x = take_x(layer);
    weighted = x * side.weight;
    if (THREAD < D / 4) gate_input[THREAD % 2 * (D / 8) + THREAD / 2] = weighted;
    keep_squares(0, x);
  }
  barrier();
  const float factor = norm_factor(0);
  for (uint round = 0; round < kForgetRounds; ++round) {
    const uint place = turn + round * kWarps;
    if (round > 0) hold_side(side, layer, me, place);
    if (!subgroupAll(place < kForgetRows)) continue;
    float sum = 0.0;
#define SUM_FORGET(I)                                                                          \
  if (I < kForgetEach) {                                                                       \
    const float term = gate_unit(side.forget[I], min(I * kLanes + lane, kForgetUnits - 1));    \
    sum += I * kLanes + lane < kForgetUnits ? term : 0.0;                                      \
  }
    EACH_8(SUM_FORGET)
    float log_alpha = log_sigmoid(fma(lanes_sum(sum), factor, side.bias)) / a.gate_normalizer;
    if (a.gate_log_min < 0.0) log_alpha = max(log_alpha, a.gate_log_min);
    const float alpha = exact_exp(log_alpha), gate = -exact_expm1(log_alpha);
    if (lane < 2 && me + place * kOthers < H * MEMORY)
      publish(base + kAtGates + 2 * f_row_of(me, place) + lane, lane == 0 ? alpha : gate);
  }
  // Values are needed later than gates. They are made of x where the hidden units come later: the MLP's input may come soon.
  if (subgroupAll(warp < kXWarps)) keep_vector(1, D, THREAD, weighted);
  barrier();
  for (uint round = 0; round < kSideRounds; ++round) {
    const uint place = turn + round * kWarps;
    if (round > 0 || kForgetRounds > 1) hold_side(side, layer, me, place);
    if (!subgroupAll(place >= kForgetRows && place < kForgetRows + kValueRows)) continue;
    float sum = 0.0;
#define SUM_ROW(I)                                                                           \
  if (I < kValueEach) {                                                                      \
    const uint item = min(I * kLanes + lane, kItems - 1);                                    \
    take_scales(side.row[I], v_row_of(me, place) * kItems + item);                           \
    const float term = item_sum(side.row[I], 1, D, item);                                    \
    sum += I * kLanes + lane < kItems ? term : 0.0;                                          \
  }
    EACH_4(SUM_ROW)
    const float v = lanes_sum(sum) * factor;
    if (lane == 0 && me + (place - kForgetRows) * kOthers < H * kDim)
      publish(base + kAtFreshValues + v_row_of(me, place), v);
  }
  return x;
}
