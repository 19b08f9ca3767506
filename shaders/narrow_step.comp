#version 460
// SPDX-License-Identifier: Apache-2.0
// All layers of one token of one session in one dispatch, as decode_step, for narrow models: workgroups have two roles and
// three exchanges per layer one behind the other are enough.
//
//   mixers, a few a query head (include/step/narrow_slots.glsl): from x to the head's part of the output projection
//     q k = W RMSNorm(x),  o = the head's slots,  p_h = W_o[rows, columns of h] o
//     Each has a share of W_o's rows. The rest is made by each again, as is k by each query head of a kv head: that costs
//     less than an exchange.
//   the others:  gates and v of x, which mixers need only after their first products (include/step/narrow_gates.glsl);
//     x += p_0 + p_1 + ... ;  h = swiglu(W RMSNorm(x));  x += W_down h
// While one role is at work the other loads all that it needs of its next turn, so that no load is waited for and no
// weights stay in registers from layer to layer. Each stage is straight code for the shape, guarded at its end.
// Sums have a fixed order. With one workgroup (a software driver) it has both roles, head by head.
// Grid: (GROUPS). Bound: latency of the exchanges and of the chain between them.
#define RUNNEL_OWN_WORKGROUP
#define RUNNEL_DOT
#define RUNNEL_ADDRESSES
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : enable
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#include "contract/common.glsl"
#include "contract/weights.glsl"
#define PASS_BINDING 4
#include "contract/pass.glsl"

layout(local_size_x_id = 2) in;
// Volatile: loads stay where they are written, which is long before their values are needed.
// By address: an index is compared with a buffer's size each time.
layout(buffer_reference, std430, buffer_reference_align = 16) volatile readonly buffer Early { uint w[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) volatile readonly buffer Early4 { uvec4 w[]; };
#define early Early(uvec2(a.weights_low, a.weights_high))
#define early4 Early4(uvec2(a.weights_low, a.weights_high))
layout(set = 0, binding = 2) volatile readonly buffer Vectors { float v[]; } vectors;
layout(set = 0, binding = 2) volatile readonly buffer Vectors4 { vec4 v[]; } vectors4;
layout(set = 0, binding = 3) readonly buffer Table { uint v[]; } table;  // StepLayer of each layer
layout(set = 0, binding = 4) readonly buffer Pass4 { uvec4 word[]; } pass4;
// A bank: [layers, places, layer_floats].
layout(buffer_reference, std430, buffer_reference_align = 16) volatile buffer State4 { vec4 v[]; };
#define state4 State4(uvec2(a.state_low, a.state_high))
layout(set = 0, binding = 6) buffer Stream { float v[]; } stream;  // x [D], in and out
layout(set = 0, binding = 6) buffer Stream4 { vec4 v[]; } stream4;
layout(push_constant) uniform Push { StepArgs a; };

layout(constant_id = 2) const uint THREADS = 512;
layout(constant_id = 3) const uint D = 64;
layout(constant_id = 4) const uint INNER = 32;
layout(constant_id = 5) const uint MEMORY = 1;
layout(constant_id = 6) const uint SINKS = 0;
layout(constant_id = 7) const uint WINDOW = 0;
layout(constant_id = 8) const uint G = 1;
layout(constant_id = 9) const uint H = 1;
layout(constant_id = 10) const uint OTHER = 64;  // the widest of a head's output, D and INNER
layout(constant_id = 11) const uint IN_TURNS = 0;  // a software driver runs a workgroup's subgroups barrier by barrier
layout(constant_id = 12) const uint LAYERS = 1;
layout(constant_id = 13) const uint GROUPS = 1;
layout(constant_id = 14) const uint GATE_TEAM = 8;  // lanes of a row of gate and up
layout(constant_id = 15) const uint DOWN_TEAM = 8;
layout(constant_id = 16) const uint F_TYPE = kStepF16;  // of the gates' matrix
// Copies of x and of the hidden units, at most lanes of a row: a workgroup reads one, so that fewer share lines.
layout(constant_id = 17) const uint COPIES = 1;
layout(constant_id = 18) const uint HEAD_TEAM = 0;  // lanes of a row of the head; 0: a dispatch of its own makes the logits
layout(constant_id = 19) const uint SHARES = 1;  // of the output projection's rows, mixers of a query head; a divisor of D

#define LANE gl_SubgroupInvocationID
#define WARP warp_index
uint warp_index = 0;  // gl_SubgroupID, which drivers treat as the same in all lanes
const uint kLanes = kSubgroup;
const uint kWarps = THREADS / kLanes;
const uint kHeads = G * H;
const uint kDim = 64;  // of a head, keys and values
const uint kItems = D / 32;  // of a row of D
const uint kMixers = GROUPS == 1 ? 1 : kHeads * SHARES;
const uint kTasks = GROUPS == 1 ? kHeads : 1;
const uint kOthers = GROUPS == 1 ? 1 : GROUPS - kMixers;

// Places of a layer's activations, in words; each a multiple of 4.
const uint kAtParts = 0;                       // [heads, D] parts of the output projection
const uint kAtHidden = kHeads * D;             // [COPIES, INNER]
const uint kAtX = kAtHidden + COPIES * INNER;  // [COPIES, D]
const uint kAtFreshValues = kAtX + COPIES * D;  // [kv heads, V]
const uint kAtGates = kAtFreshValues + H * kDim;  // [kv heads, memory slots]: alpha, 1 - alpha
const uint kLayerPlaces = (kAtGates + 2 * H * MEMORY + 3) / 4 * 4;

const uint kTableWords = (LAYERS + (HEAD_TEAM > 0 ? 1 : 0)) * kStepLayerWords;
shared uint layers_[kTableWords];
uint in_table(uint layer, uint which) { return layers_[layer * kStepLayerWords + which]; }
shared uvec2 drawn_to;  // address of what the host reads of the token drawn

#include "step/begin.glsl"
#include "step/exchange.glsl"
#include "step/products.glsl"

#define HOLD_ITEM(R, PART, I) \
  R.a = early4.w[I];          \
  R.scale = early.w[PART.scales + (I) / 2];

MatrixPart matrix_of(uint layer, uint which) {
  const uint entry = kStepMatrices + which * kStepMatrixWords;
  return MatrixPart(in_table(layer, entry), 0, in_table(layer, entry + 2), 0);  // first_row: its first load
}

const uint kXWarps = (D / 4 + kLanes - 1) / kLanes;  // subgroups that have any of x
const uint kSquares = (kXWarps + 3) / 4;
shared vec4 warp_squares[2 * kSquares];  // of a norm's input: of x, of x after the slots
/// What the sums are multiplied with: 1 / RMS of the input.
float norm_factor(uint which) {
  precise vec4 sums = vec4(0.0);
  [[unroll]] for (uint i = 0; i < kSquares; ++i) sums += warp_squares[which * kSquares + i];
  return inversesqrt(((sums.x + sums.y) + (sums.z + sums.w)) / float(D) + a.eps);
}
void keep_squares(uint which, vec4 v) {
  precise float squares = v.x * v.x;
  squares = fma(v.y, v.y, squares);
  squares = fma(v.z, v.z, squares);
  squares = fma(v.w, v.w, squares);
  squares = lanes_sum(squares);
  if (LANE == 0) warp_squares[which * kSquares + WARP / 4][WARP % 4] = squares;
}

/// This thread's four of x, the input of a layer. All lanes of a subgroup must call.
vec4 take_x(uint layer) {
  const bool mine = THREAD < D / 4;
  vec4 v = vec4(0.0);
  if (subgroupAll(layer == 0)) {
    if (mine) v = stream4.v[THREAD];
    return v;
  }
  const uint at4 = ((layer - 1) * kLayerPlaces + kAtX + gl_WorkGroupID.x % COPIES * D) / 4 + THREAD;
  v = wait_on4(mine, look4(mine, at4), at4);
  return mine ? v : vec4(0.0);
}

#include "step/narrow_slots.glsl"
#include "step/narrow_gates.glsl"
#include "step/narrow_head.glsl"

const uint kMostPairs = (INNER + kOthers - 1) / kOthers;  // of a workgroup
const uint kGateSide = THREADS / GATE_TEAM, kGateRounds = (2 * kMostPairs + kGateSide - 1) / kGateSide;
const uint kGateEach = (kItems + GATE_TEAM - 1) / GATE_TEAM;  // items of a lane
const uint kDownRows = (D + kOthers - 1) / kOthers;
const uint kDownSide = THREADS / DOWN_TEAM, kDownRounds = (kDownRows + kDownSide - 1) / kDownSide;
const uint kDownItems = INNER / 32, kDownEach = (kDownItems + DOWN_TEAM - 1) / DOWN_TEAM;
const uint kHiddenRounds = (INNER / 4 + THREADS - 1) / THREADS;
shared float residual[kDownRows];  // x of this workgroup's rows

float team_sum_of(float v, const uint team) {
  [[unroll]] for (uint i = team / 2; i > 0; i /= 2) v += subgroupShuffleXor(v, i);
  return v;
}

/// The MLP's share of workgroup `me` of kOthers. `x`: this thread's four of the layer's input. Loads `side` of the next
/// layer.
void mlp(uint layer, uint me, vec4 x, inout Side side) {
  const uint lane = LANE, warp = WARP, base = layer * kLayerPlaces;
  const MatrixPart gate_up = matrix_of(layer, 2), down = matrix_of(layer, 3);
  const uint first_pair = INNER * me / kOthers, pairs = INNER * (me + 1) / kOthers - first_pair;
  const uint first_row = D * me / kOthers, rows = D * (me + 1) / kOthers - first_row;
  const uint gate_lane = THREAD % GATE_TEAM, down_lane = THREAD % DOWN_TEAM;
  uint gate_row = THREAD / GATE_TEAM, down_row = THREAD / DOWN_TEAM;
  Item gates[4], downs[4];
#define HOLD_GATE(I)                                                                                      \
  if (I < kGateEach) {                                                                                    \
    const uint at = gate_up.first_row + (2 * first_pair + min(gate_row, 2 * pairs - 1)) * kItems +        \
                    min(I * GATE_TEAM + gate_lane, kItems - 1);                                           \
    HOLD_ITEM(gates[I], gate_up, at)                                                                      \
  }
#define HOLD_DOWN(I)                                                                                      \
  if (I < kDownEach) {                                                                                    \
    const uint at = down.first_row + (first_row + min(down_row, rows - 1)) * kDownItems +                 \
                    min(I * DOWN_TEAM + down_lane, kDownItems - 1);                                       \
    HOLD_ITEM(downs[I], down, at)                                                                         \
  }
  EACH_4(HOLD_GATE)
  EACH_4(HOLD_DOWN)
  hold_side(side, min(layer + 1, LAYERS - 1), me, kWarps - 1 - warp);
  vec4 weight = vec4(0.0);
  if (THREAD < D / 4) weight = vectors4.v[in_table(layer, kStepMlpNorm) / 4 + THREAD];
  if (IN_TURNS != 0) barrier();
  if (subgroupAll(warp < kXWarps)) {
    const bool mine = THREAD < D / 4;
    const uint at4 = (base + kAtParts) / 4 + THREAD;
    uvec4 part[16];
#define LOOK_PART(I) \
  if (I < kHeads) part[I] = look4(mine, at4 + I * (D / 4));
#define IS_PART(I) \
  if (I < kHeads) differs |= (part[I].x ^ tag) | (part[I].y ^ tag) | (part[I].z ^ tag) | (part[I].w ^ tag);
#define ADD_PART(I) \
  if (I < kHeads) x += uintBitsToFloat(part[I] & ~kTag);
    uint differs;
    do {
      --poll_limit;
      EACH_16(LOOK_PART)
      differs = 0;
      EACH_16(IS_PART)
    } while (!subgroupAll((differs & 1) == 0 || poll_limit < 0));
    EACH_16(ADD_PART)
    if (!mine) x = vec4(0.0);
    keep_squares(1, x);
    if (4 * THREAD + 3 - first_row < kDownRows + 3) {
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        if (4 * THREAD + e - first_row < kDownRows) residual[4 * THREAD + e - first_row] = x[e];
      }
    }
    keep_vector(0, D, THREAD, x * weight);
  }
  barrier();
  const float factor = norm_factor(1);
#define SUM_GATE(I)                                                                    \
  if (I < kGateEach) {                                                                 \
    const uint item = min(I * GATE_TEAM + gate_lane, kItems - 1);                      \
    take_scales(gates[I], min(gate_row, 2 * pairs - 1) * kItems + item);               \
    const float term = item_sum(gates[I], 0, D, item);                                 \
    sum += kItems % GATE_TEAM == 0 || I * GATE_TEAM + gate_lane < kItems ? term : 0.0; \
  }
  // Subgroups without rows go on: they would only be in the others' way.
  const uint gate_side = kLanes / GATE_TEAM, down_side = kLanes / DOWN_TEAM;
  if (subgroupAll(warp * gate_side < 2 * pairs)) {
    for (uint round = 0;;) {
      float sum = 0.0;
      EACH_4(SUM_GATE)
      const float v = team_sum_of(sum, GATE_TEAM) * factor, up = subgroupShuffleXor(v, GATE_TEAM);
      if (gate_lane < COPIES && gate_row % 2 == 0 && gate_row < 2 * pairs)
        publish(base + kAtHidden + gate_lane * INNER + first_pair + gate_row / 2, swish(v) * up);
      if (++round >= kGateRounds) break;
      gate_row += kGateSide;
      EACH_4(HOLD_GATE)
    }
  }
  if (IN_TURNS != 0) barrier();
  for (uint round = 0; round < kHiddenRounds; ++round) {
    const uint at = round * THREADS + THREAD;
    const bool mine = at < INNER / 4;
    if (!subgroupAny(mine)) continue;
    const uint at4 = (base + kAtHidden + gl_WorkGroupID.x % COPIES * INNER) / 4 + at;
    keep_vector(1, INNER, at, wait_on4(mine, look4(mine, at4), at4));
  }
  barrier();
#define SUM_DOWN(I)                                                                            \
  if (I < kDownEach) {                                                                         \
    const uint item = min(I * DOWN_TEAM + down_lane, kDownItems - 1);                          \
    take_scales(downs[I], (first_row + min(down_row, rows - 1)) * kDownItems + item);          \
    const float term = item_sum(downs[I], 1, INNER, item);                                     \
    sum += kDownItems % DOWN_TEAM == 0 || I * DOWN_TEAM + down_lane < kDownItems ? term : 0.0; \
  }
  if (subgroupAll(warp * down_side < rows)) {
    for (uint round = 0;;) {
      float sum = 0.0;
      EACH_4(SUM_DOWN)
      const float v = team_sum_of(sum, DOWN_TEAM);
      if (down_lane < COPIES && down_row < rows) {
        const float x = v + residual[down_row];
        publish(base + kAtX + down_lane * D + first_row + down_row, x);
        if (layer + 1 == LAYERS && !makes_logits()) stream.v[first_row + down_row] = without_tag(x);
      }
      if (++round >= kDownRounds) break;
      down_row += kDownSide;
      EACH_4(HOLD_DOWN)
    }
  }
}

void main() {
  const uint me = gl_WorkGroupID.x;
  warp_index = subgroupBroadcastFirst(gl_SubgroupID);
  for (uint n = 0; n < kTableWords; n += THREADS) {
    if (n + THREAD < kTableWords) layers_[n + THREAD] = table.v[n + THREAD];
  }
  begin_token();
  const uint head_tag = tag >> 1;  // of the head's values
  tag &= kTag;
  if (THREAD == 0) {
    gave_up = false;
    if (makes_logits()) drawn_to = uvec2(pass.word[kPassDrawn], pass.word[kPassDrawn + 1]);
  }
  if (THREAD < 2 * kSquares) warp_squares[THREAD] = vec4(0.0);
  if (kRotary && THREAD < kDim / 2) turns[THREAD] = uintBitsToFloat(pass4.word[a.pass.rotations / 4 + THREAD]);
  barrier();

  // What others do first in a layer ends the layer before, so nothing that is loaded stays live between rounds.
  const uint other = GROUPS == 1 ? 0 : me - kMixers;
  vec4 x = vec4(0.0);
  if (GROUPS == 1 || subgroupAll(me >= kMixers)) {
    Side side;
    hold_side(side, 0, other, kWarps - 1 - WARP);
    x = gates_and_values(side, 0, other);
  }
  [[dont_unroll]] for (uint layer = 0; subgroupAll(layer < a.phases / 4); ++layer) {
    if (subgroupAll(me < kMixers)) {
      for (uint n = 0; n < kTasks; ++n) {
        mix(layer, me % kHeads + n, me / kHeads);
        advance_state(layer, me % kHeads + n, me / kHeads);
      }
    }
    if (GROUPS == 1 || subgroupAll(me >= kMixers)) {
      Side side;
      mlp(layer, other, x, side);
      if (subgroupAll(layer + 1 < LAYERS)) x = gates_and_values(side, layer + 1, other);
    }
  }
  if (subgroupAll(makes_logits())) head(head_tag, drawn_to);
  if (poll_limit < 0) act.v[a.timed_out_at] = 1;
}
