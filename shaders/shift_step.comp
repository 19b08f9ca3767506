#version 460
// SPDX-License-Identifier: Apache-2.0
// All layers of one token of one session of a model of shifted projections, recurrences with a removal and squared ReLUs
// in one dispatch, exchanged as in decode_step.
//
// Five exchanges per layer:
//   x -> q, k, v and what goes down to low ranks    norm, shift and lerp by each workgroup, which has rows of one matrix
//   a head's state                                  what comes up, the recurrence, norm, bonus and gate: one workgroup
//   x += W_o o;   h = relu(W lerp(norm(x)))^2;   x += W_down h
// Workgroups with a head have no rows of W_o where there are enough others. The others load theirs meanwhile, and bring
// what follows into the cache. Rows of x that the next token finds in the state are written by the workgroups that have
// them when all of h is there: none reads the old ones any more, for each has rows of h.
// A subgroup's lanes are teams with a row each, as in decode_step; rows of low rank have a subgroup each and an f32 input.
// Grid: (GROUPS). Bound: latency of five exchanges per layer; bytes of W for a large model.
#define RUNNEL_OWN_WORKGROUP
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

#include "step/shift_model.glsl"
#include "step/exchange.glsl"
#include "step/products.glsl"
#include "step/shift_inputs.glsl"
#include "step/shift_state.glsl"

/// The first matrix of stage 0, from this one on, of which the workgroup has rows.
shared uint next_matrix[kShiftOutput + 1];

void share_out() {
  if (THREAD < kShiftMatrixCount) {
    const uint at = LAYERS * kShiftLayerWords + THREAD * kShiftShareWords;
    const uint first = table.v[at], count = max(table.v[at + 1], 1), rows = table.v[at + 2];
    const uint own = gl_WorkGroupID.x - first;
    const uint begin = own < count ? rows * own / count : 0;
    own_rows[THREAD] = uvec2(begin, own < count ? rows * (own + 1) / count - begin : 0);
  }
  barrier();
  if (THREAD <= kShiftOutput) {
    uint m = THREAD;
    while (m < kShiftOutput && own_rows[m].y == 0) ++m;
    next_matrix[THREAD] = m;
  }
}

/// The lerp of matrix m's input: rows q, f, k, v, r, gate of the layer's, or the channel mix's own.
uint lerp_at(uint layer, uint m) {
  if (m == kShiftUp) return in_table(layer, kShiftChannelLerp);
  return in_table(layer, kShiftLerp) + (0x3541320u >> (4 * m) & 15) * D;
}

/// Where a row of matrix m goes, in a layer's places.
uint place_of(uint m) {
  if (m < kShiftDown) return m * D;
  if (m < kShiftOutput) return kAtLow + low_at(m - kShiftDown);
  return m == kShiftOutput ? kAtMiddle : m == kShiftUp ? kAtHidden : kAtX;
}

/// A row's sum for those that need it.
void show_row(uint layer, uint m, uint row, float v) {
  if (m == kShiftDown) {
    v = tanh_of(v);
  } else if (m == kShiftDown + 2) {
    v = sigmoid(v);
  } else if (m == kShiftUp) {
    v = max(v, 0.0), v *= v;
  } else if (m >= kShiftOutput) {
    v += own_values[m == kShiftOutput ? kOwnX : kOwnMiddle][row - own_rows[m].x];
  }
  publish(layer * kLayerPlaces + place_of(m) + row, v);
  if (m == kShiftLast && layer + 1 == LAYERS) stream.v[row] = v;
}

/// The rows of x that the next token finds.
void keep_shifts(uint layer) {
  const uvec2 own = own_rows[kShiftLast];
  for (uint i = THREAD; i < own.y; i += THREADS) {
    state.v[state_at(layer, kMixerShift) + own.x + i] = own_values[kOwnMixerShift][i];
    state.v[state_at(layer, kMixerShift + D) + own.x + i] = own_values[kOwnChannelShift][i];
  }
}

/// Brings this workgroup's share of matrix m into the device's cache. Returns something made of all words that it asked
/// for, one of each 32 bytes: registers that nothing reads would be one, and a load would wait for the one before.
uint ask_ahead(uint layer, uint m) {
  const uint at = 4 * in_table(layer, kShiftMatrices + m * kStepMatrixWords);
  const uint all = in_table(layer, kShiftMatrices + m * kStepMatrixWords + 1) / 2;
  const uint others = GROUPS - HEADS, own = gl_WorkGroupID.x - HEADS, each = (all + others - 1) / others;
  const uint end = min((own + 1) * each, all);
  uint found = 0;
  for (uint n = own * each + THREAD; n < end; n += 8 * THREADS) {
    uint seen[8];
    [[unroll]] for (uint i = 0; i < 8; ++i) seen[i] = weights.w[at + 8 * min(n + i * THREADS, end - 1)];
    [[unroll]] for (uint i = 0; i < 8; ++i) found |= seen[i];
  }
  return found;
}

const uint kLowItems = D / kLowColumns;
/// Items of a row of low rank in a lane, from `use_at` on.
#define LOAD_LOW(I) \
  if (I * kLanes < kLowItems) held[I].a = weights4.w[use_at + (I * kLanes + lane < kLowItems ? I * kLanes : 0)];

/// Products of this subgroup's rows of low rank, the first of which is held.
void multiply_low(uint layer, uint m, uint first, uint rows, uint use_at, inout Item held[8]) {
  const uint lane = LANE;
  uint row = WARP;
  [[dont_unroll]] while (subgroupAll(row < rows)) {
    precise float sum = 0.0;
#define SUM_LOW(I)                                                  \
  if (I * kLanes < kLowItems) {                                     \
    const uint i = I * kLanes + lane;                               \
    const float term = low_term(held[I].a, min(i, kLowItems - 1));  \
    sum += i < kLowItems ? term : 0.0;                              \
  }
    EACH_8(SUM_LOW)
    for (uint i = 8 * kLanes + lane; i < kLowItems; i += kLanes) sum += low_term(weights4.w[use_at + i - lane], i);
    sum = lanes_sum(sum);
    if (lane == 0) show_row(layer, m, first + row, sum);
    row += kWarps, use_at += kWarps * kLowItems;
    if (subgroupAll(row >= rows)) break;
    EACH_8(LOAD_LOW)
  }
}

/// Products of one stage of a layer: 0 from x, 1 output, 2 up, 3 down.
void multiply(uint layer, uint stage) {
  // A workgroup with a head asks for its rows of `up` instead.
  if (subgroupAll(stage == 1 && own_rows[kShiftOutput].y == 0)) return;
  const uint warp = WARP, lane = LANE;
  const uint columns = stage == 3 ? INNER : D, items = columns / kItemColumns;
  const uint team_bits = TEAMS >> (8 * stage) & 255, team = 1 << team_bits, side = kLanes >> team_bits;
  const uint in_team = lane & (team - 1), in_pass = lane >> team_bits;
  const uint base = layer * kLayerPlaces;
  uint m = subgroupBroadcastFirst(stage == 0 ? min(next_matrix[0], kShiftOutput - 1) : kShiftOutput - 1 + stage);
  vec4 x[2], change[2];
  // Without a bound, which drivers would make copies for.
  for (uint turn = 0;; ++turn) {
    const bool low = subgroupAll(stage == 0 && m >= kShiftDown);
    const uint entry = kShiftMatrices + m * kStepMatrixWords, load = in_table(layer, entry);
    const MatrixPart w = MatrixPart(0, 0, in_table(layer, entry + 2), in_table(layer, entry + 3));
    const uint first = subgroupBroadcastFirst(own_rows[m].x);
    // The first layer mixes no values.
    const bool there = m != kShiftOutput - 1 || in_table(layer, kShiftMixes) != 0;
    const uint rows = subgroupBroadcastFirst(there ? own_rows[m].y : 0);
    if (turn > 0) barrier();  // the input of the matrix before has been read

    Item held[8];
    uint row = warp * (low ? 1 : side);
    uint use_at = load + (first + min(row + (low ? 0 : in_pass), max(rows, 1) - 1)) * (low ? kLowItems : items) +
                  (low ? lane : in_team);
#define LOAD_HELD(I, K, AT) \
  if (I < HELD) {           \
    if (K + I * team < items && (K + I * team + in_team < items)) LOAD_ITEM(held[I], w, AT + I * team) \
  }
#define LOAD_FIRST(I) LOAD_HELD(I, 0, use_at)
    if (row < rows) {
      if (low) {
        EACH_8(LOAD_LOW)
      } else {
        EACH_8(LOAD_FIRST)
      }
    }
    uint ahead = 0, next_word = 0;
    if (AHEAD > 0 && stage == 1) {
      for (uint i = 0; i < AHEAD; ++i) ahead |= ask_ahead(layer, kShiftUp + i);
    }
    const bool has_next = stage == 3 && layer + 1 < LAYERS && THREAD < kShiftLayerWords;
    if (has_next) next_word = table.v[(layer + 1) * kShiftLayerWords + THREAD];
    if (stage == 0 || stage == 2) {
      vec4 lerp[2];
      const uint at = lerp_at(layer, m) / 4;
      [[unroll]] for (uint r = 0; r < kRounds; ++r) lerp[r] = vectors4.v[at + min(r * THREADS + THREAD, D / 4 - 1)];
      if (IN_TURNS != 0) barrier();  // before any wait for what this workgroup writes
      const uint from = stage == 2 ? base + kAtMiddle : layer == 0 ? kNone : base - kLayerPlaces + kAtX;
      if (turn == 0) take_normed(layer, stage, from, x, change);
      [[unroll]] for (uint r = 0; r < kRounds; ++r) {
        const uint i = r * THREADS + THREAD;
        const vec4 v = fma(lerp[r], change[r], x[r]);
        if (low) {
          if (i < D / 4) plain[i % 2 * (D / 8) + i / 2] = v;
        } else {
          keep_vector(stage, D, i, v);
        }
      }
    } else {
      if (IN_TURNS != 0) barrier();
      take_exchanged(stage, columns, base + (stage == 1 ? kAtOut : kAtHidden));
    }
    // The next layer's words, where those of the one before were.
    if (has_next) words[layer + 1 & 1][THREAD] = next_word;
    barrier();
    if (stage == 3) keep_shifts(layer);
    if (AHEAD > 0 && a.phases == 0) act.v[a.timed_out_at] = ahead;  // never

    if (low) {
      multiply_low(layer, m, first, rows, use_at, held);
    } else {
      uint k = 0;
      float sum = 0.0;
      [[dont_unroll]] while (subgroupAll(row < rows)) {
        uint next_k = k + HELD * team, next_row = row;
        if (next_k >= items) next_k = 0, next_row += kWarps * side;
        const uint next_at = load + (first + min(next_row + in_pass, rows - 1)) * items + next_k + in_team;
        const uint next_items = next_row < rows ? items : 0;
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
        EACH_8(SUM_HELD)
        if (next_k == 0) {
          [[unroll]] for (uint step = kLanes / 2; step > 0; step /= 2) {
            const float more = subgroupShuffleXor(sum, step);
            sum = step < team ? sum + more : sum;
          }
          if (row + in_pass < rows && in_team == 0) show_row(layer, m, first + row + in_pass, sum);
          sum = 0.0;
        }
        row = next_row, k = next_k, use_at = next_at;
      }
    }
    if (stage != 0) break;
    m = subgroupBroadcastFirst(next_matrix[min(m + 1, kShiftOutput)]);
    if (subgroupAll(m >= kShiftOutput)) break;
  }
}

void main() {
  if (THREAD < kShiftLayerWords) words[0][THREAD] = table.v[THREAD];
  begin_token();
  share_out();
  barrier();
  // One body for all products of all layers, and no copy of it: so the number of stages is the host's.
  [[dont_unroll]] for (uint phase = 0; phase < a.phases; ++phase) {
    const uint layer = phase / 4, stage = phase % 4;
    if (stage == 1) {
      [[dont_unroll]] for (uint head = gl_WorkGroupID.x; head < HEADS; head += GROUPS)
        advance_head(layer, layer * kLayerPlaces, head);
    }
    multiply(layer, stage);
  }
  if (poll_limit < 0) act.v[a.timed_out_at] = 1;
}
