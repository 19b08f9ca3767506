#version 460
// SPDX-License-Identifier: Apache-2.0
// All layers of one token of one session in one dispatch: workgroups stay and hand each other activations through the
// device's memory. Only where as many workgroups as are started certainly run at the same time (step/programs.h).
//
// Exchange: every activation has a place of its own in each layer, and the lowest bit of its float says whether it is
// this token's (TAG alternates from token to token). A reader that sees the bit has the value: no barrier
// between workgroups, no order of places. A workgroup that waits too long stops for good and reports it; nothing hangs.
//
// Five exchanges per layer:
//   q k v f = W RMSNorm(x)          rows over all subgroups of all workgroups
//   the slots of a kv head, PARTS shares of the value columns            H * PARTS workgroups
//   x += W_o act(o);   h = swiglu(W RMSNorm(x));   x += W_down h
// A subgroup's lanes are teams with a row each; its rows come in passes of as many as it has teams. HELD items of a lane are
// under way, the first before it waits for its input. All sums are in a fixed order. RUNNEL_BIASES: q, k and v have some.
// Grid: (GROUPS). Bound: latency of five exchanges per layer; bytes of W for a large model.
#define RUNNEL_OWN_WORKGROUP
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : enable
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "contract/common.glsl"
#include "contract/weights.glsl"
#define PASS_BINDING 4
#include "contract/pass.glsl"

#include "step/model.glsl"
layout(constant_id = 18) const uint HELD = 2;  // items of a lane under way: 2, 4 or 8
layout(constant_id = 23) const uint TEAMS = 0;  // lanes of a row of each stage: their logarithms, a byte each

#include "step/exchange.glsl"
#include "step/products.glsl"
#include "step/slots.glsl"

// Two stages each, so that one barrier per stage is enough.
shared vec4 warp_squares[2][kWarps / 4];
const uint kOwnRows = (D + GROUPS - 1) / GROUPS;
shared float residual[2][kOwnRows];  // x of this workgroup's rows
shared vec4 gate_input[GATES * D / 4 + 1];

/// This workgroup's rows of a stage: the first, how many; those of gate and up in pairs.
shared uvec2 own_rows[4];
shared uint own_first;  // row of D

uint first_row(uint rows, uint group) { return rows * group / GROUPS; }

void share_out() {
  if (THREAD < 4) {
#ifdef RUNNEL_BIASES
    const uint matrix = THREAD == 3 ? 1 : THREAD;  // where kStepBiases is
#else
    const uint matrix = THREAD;
#endif
    const uint unit = THREAD == 2 ? 2 : 1, units = in_table(0, kStepMatrices + matrix * kStepMatrixWords + 1) / unit;
    const uint begin = first_row(units, gl_WorkGroupID.x);
    own_rows[THREAD] = uvec2(begin, first_row(units, gl_WorkGroupID.x + 1) - begin) * unit;
  }
  if (THREAD == 0) own_first = first_row(D, gl_WorkGroupID.x);
}

/// Puts the input of a stage into shared memory, weighted by a norm's weights where it has any: `columns` floats at word
/// `from`, or this token's x where that is kNone. Returns this thread's share of the sum of their squares.
float take_input(uint stage, uint from, uint columns, uint weights_at) {
  precise float squares = 0.0;
  const uint vectors_ = columns / 4, at4 = from / 4 + THREAD;
  // A few polls at once: each takes a while.
  uvec4 seen = uvec4(tag), second = uvec4(tag), third = uvec4(tag);
  vec4 weight = vec4(1.0);
  if (weights_at != kNone && THREAD < vectors_) weight = vectors4.v[weights_at / 4 + THREAD];
  if (from != kNone) {
    seen = look4(THREAD < vectors_, at4);
    if (vectors_ > THREADS) {
      second = look4(THREAD + THREADS < vectors_, at4 + THREADS);
      third = look4(THREAD + 2 * THREADS < vectors_, at4 + 2 * THREADS);
    }
  }
  [[dont_unroll]] for (uint n = 0; n < vectors_; n += THREADS) {
    const uint at = n + THREAD;
    const bool mine = at < vectors_;
    vec4 v = vec4(0.0);
    if (from != kNone) {
      v = wait_on4(mine, seen, at4 + n);
    } else if (mine) {
      v = stream4.v[at];
    }
    [[unroll]] for (uint e = 0; e < 4; ++e) squares = fma(v[e], v[e], squares);
    if (stage % 2 == 0 && mine && 4 * at + 3 - own_first < kOwnRows + 3) {
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        if (4 * at + e - own_first < kOwnRows) residual[stage / 2][4 * at + e - own_first] = v[e];
      }
    }
    v *= weight;
    if (GATES != 0 && stage == 0 && mine) gate_input[at % 2 * (D / 8) + at / 2] = v;
    keep_vector(stage, columns, at, v);
    if (n + THREADS >= vectors_) break;
    seen = second, second = third;
    if (from != kNone) third = look4(at + 3 * THREADS < vectors_, at4 + n + 3 * THREADS);
    if (weights_at != kNone && at + THREADS < vectors_) weight = vectors4.v[weights_at / 4 + at + THREADS];
  }
  return squares;
}

/// What the sums are multiplied with: 1 / RMS of the input.
float norm_factor(uint stage, uint columns, float eps) {
  precise vec4 sums = vec4(0.0);
  [[unroll]] for (uint i = 0; i < kWarps / 4; ++i) sums += warp_squares[stage % 2][i];
  return inversesqrt(((sums.x + sums.y) + (sums.z + sums.w)) / float(columns) + eps);
}

// Rows of the gates where they are of a 16-bit type of their own: a subgroup each, the last first.
const uint kGateUnits = D / 8;
const uint kGateTurns = (kGateUnits + kLanes - 1) / kLanes;

float gate_sum(uvec4 w, uint type, uint u) {
  return dot(short_values(w.xy, type), gate_input[u]) + dot(short_values(w.zw, type), gate_input[D / 8 + u]);
}
uvec4 gate_units(uint at, uint row, uint turn) {
  return weights4.w[at + row * kGateUnits + min(turn * kLanes + LANE, kGateUnits - 1)];
}

/// What a workgroup has for all layers: in shared memory, and of the token.
void set_up() {
  load_table();
  begin_token();
  barrier();
  share_out();
  barrier();
}

/// The slots of this workgroup's heads: more than one only where a part is a whole head.
void all_slots(uint layer, uint base) {
  const uint me = gl_WorkGroupID.x;
  for (uint n = 0; n < H * PARTS; n += GROUPS) {
    if (n + me >= H * PARTS) continue;
    if (n > 0) barrier();
    const Head h = head_of(layer, n + me);
    vec4 key[16];
    float value[8];
    ask_slots(h, key, value);
    slots(layer, base, h, key, value);
    if (PARTS == 1) advance_state(h);
  }
}

// Pieces of main(), in its names.
#define LOAD_HELD(I, K, AT) \
  if (I < HELD) {           \
    if (K + I * team < items && (K + I * team + in_team < items)) LOAD_ITEM(held[I], w, AT + I * team) \
  }
#define LOAD_FIRST(I) LOAD_HELD(I, 0, use_at)
#define LOAD_GATE(I) \
  if (I < kGateTurns) gate_held[I] = gate_units(at, gate_row, I);
#define SUM_HELD(I)                                                                     \
  if (I < HELD) {                                                                       \
    if (k + I * team < items) {                                                         \
      const uint item = k + I * team + in_team;                                         \
      take_scales(held[I], use_at + I * team);                                          \
      const float term = item_sum(held[I], stage, columns, min(item, items - 1));       \
      sum = item < items ? sum + term : sum;                                            \
    }                                                                                   \
    if (next_k + I * team < next_items && next_k + I * team + in_team < items)          \
      LOAD_ITEM(held[I], w, next_at + I * team)                                         \
  }
#define ADD_GATE(UNITS, TURN)                                                                       \
  {                                                                                                 \
    const float term = gate_sum(UNITS, type, min((TURN) * kLanes + lane, kGateUnits - 1));          \
    if ((TURN) * kLanes + lane < kGateUnits) gate_total += term;                                    \
  }
#define ADD_GATE_HELD(I) \
  if (I < kGateTurns) ADD_GATE(gate_held[I], I)

void main() {
  const uint me = gl_WorkGroupID.x, warp = WARP, lane = LANE;
  set_up();

  // One body for all products of all layers, and no copy of it: code run once per layer is not cached. So the number
  // of stages is the host's.
  [[dont_unroll]] for (uint phase = 0; phase < a.phases; ++phase) {
    const uint layer = phase / 4, stage = phase % 4, base = layer * kLayerPlaces;
    if (stage == 1) all_slots(layer, base);
    const uint entry = kStepMatrices + stage * kStepMatrixWords;
    const MatrixPart w = MatrixPart(0, 0, in_table(layer, entry + 2), in_table(layer, entry + 3));
    // Not from shared memory: what depends on the stage alone is the same for all lanes, as drivers see.
    const uint columns = stage == 1 ? kOut : stage == 3 ? INNER : D;
    const uint items = columns / kItemColumns;  // of a row
    const uint team_bits = TEAMS >> (8 * stage) & 255, team = 1 << team_bits, side = kLanes >> team_bits;
    const uint in_team = lane & (team - 1), in_pass = lane >> team_bits;
    const uint first = subgroupBroadcastFirst(own_rows[stage].x), rows = subgroupBroadcastFirst(own_rows[stage].y);

    Item held[8];
    uint row = warp * side, use_at = in_table(layer, entry) + (first + min(row + in_pass, rows - 1)) * items + in_team;
    if (row < rows) {
      EACH_8(LOAD_FIRST)
    }

    // A row of the gates: its first units, too.
    uint gate_row = H * MEMORY;
    uvec4 gate_held[4];
    if (GATES != 0 && stage == 0) {
      gate_row = me + GROUPS * (kWarps - 1 - warp);
      const uint at = in_table(layer, kStepGates);
      if (gate_row < H * MEMORY) {
        LOAD_GATE(0) LOAD_GATE(1) LOAD_GATE(2) LOAD_GATE(3)
      }
    }

    uint from = base + (stage == 1 ? kAtOut : stage == 2 ? kAtMiddle : kAtHidden);
    if (stage == 0) from = layer == 0 ? kNone : base - kLayerPlaces + kAtX;
    const uint weights_at = stage == 3 ? kNone : in_table(layer, kStepAttnNorm + stage);
    if (PARTS > 1 && stage == 2 && me < H * PARTS) advance_state(head_of(layer, me));  // all have the outputs
    if (IN_TURNS != 0) barrier();  // before any wait for what this workgroup writes
    const float squares = lanes_sum(take_input(stage, from, columns, weights_at));
    if (lane == 0) warp_squares[stage % 2][warp / 4][warp % 4] = squares;
    barrier();
    float factor = 1.0;
    if (stage == 1 ? OUT_NORM != 0 : stage != 3)
      factor = norm_factor(stage, columns, stage == 1 ? a.g_norm_eps : a.eps);

    uint k = 0;
    float sum = 0.0;
    [[dont_unroll]] while (subgroupAll(row < rows)) {
      uint next_k = k + HELD * team, next_row = row;
      if (next_k >= items) next_k = 0, next_row += kWarps * side;
      const uint next_at =
          in_table(layer, entry) + (first + min(next_row + in_pass, rows - 1)) * items + next_k + in_team;
      const uint next_items = next_row < rows ? items : 0;
      EACH_8(SUM_HELD)
      if (next_k == 0) {
        [[unroll]] for (uint step = kLanes / 2; step > 0; step /= 2) {
          const float more = subgroupShuffleXor(sum, step);
          sum = step < team ? sum + more : sum;
        }
        float v = sum * factor;
        const float up = subgroupShuffleXor(v, team & (kLanes - 1));
        const uint own_row = first + row + in_pass;
#ifdef RUNNEL_BIASES
        if (stage == 0 && own_row < (G + 1) * H * K + H * V) v += vectors.v[in_table(layer, kStepBiases) + own_row];
#endif
        bool mine = row + in_pass < rows && in_team == 0;
        uint activation = kIdentity;
        if (stage == 0 && own_row < (G + 1) * H * K + H * V)
          activation = own_row < (G + 1) * H * K ? KEY_ACTIVATION : VALUE_ACTIVATION;
        uint to = own_row;
        if (stage == 2) activation = kSwish, mine = mine && in_pass % 2 == 0, to = own_row / 2;
        if (activation == kSwish) {
          v = swish(v);
        } else if (activation == kRelu) {
          v = max(v, 0.0);
        }
        if (stage == 2) v *= up;
        if (mine) {
          if (stage % 2 != 0) v += residual[stage / 2][own_row - own_first];
          publish(base + (stage == 0 ? kAtProjected : stage == 1 ? kAtMiddle : stage == 2 ? kAtHidden : kAtX) + to, v);
          if (phase + 1 == a.phases) stream.v[own_row] = v;
        }
        sum = 0.0;
      }
      row = next_row, k = next_k, use_at = next_at;
    }
    if (GATES != 0) {
      const uint type = in_table(layer, kStepGateType), at = in_table(layer, kStepGates);
      [[dont_unroll]] while (subgroupAll(gate_row < H * MEMORY)) {
        precise float gate_total = 0.0;
        ADD_GATE_HELD(0) ADD_GATE_HELD(1) ADD_GATE_HELD(2) ADD_GATE_HELD(3)
        for (uint n = 4; n < kGateTurns; ++n) ADD_GATE(gate_units(at, gate_row, n), n)
        gate_total = lanes_sum(gate_total) * factor;
        if (lane == 0) publish(base + kAtProjected + (G + 1) * H * K + H * V + gate_row, gate_total);
        gate_row += GROUPS * kWarps;
        if (subgroupAll(gate_row >= H * MEMORY)) break;
        LOAD_GATE(0) LOAD_GATE(1) LOAD_GATE(2) LOAD_GATE(3)
      }
    }
  }
  if (poll_limit < 0) act.v[a.timed_out_at] = 1;
}
