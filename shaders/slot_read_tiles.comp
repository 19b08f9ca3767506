#version 460
// SPDX-License-Identifier: Apache-2.0
// What slot_read computes, on matrix units: f16 operands (slot_inputs and slot_states in their f16 variants), f32 sums,
// softmax and gates.
//
// Work split: a workgroup takes 16 tokens [t0, t0 + 16) of one query head. Grid: (chunks * 4, HQ). A subgroup 32 of the
// 128 rows of scores (memory | chunk), then 16 of the slots, then 64 columns of the outputs by turns; operands of wide
// products straight from the cache. W_j = s_j prod_{j < i < t0} alpha_i of earlier tokens of the chunk lie in shared memory
// as f16 (21 KiB in all, 26 with positional slots); the gates of the block's own tokens stay in registers, a lane two
// slots:
//   logits_t = scale (E_t (R (h q_t) + sum_{j < t0} (q_t . k_j) W_j) + sum_{t0 <= j <= t} (q_t . k_j) s_j prod_{j<i<=t} alpha_i)
// Products of alphas alone, none larger than 1.
// Bound: 16 x 2 x 128 (K + V) operations on matrix units.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 6
#include "contract/pass.glsl"
#include "ops/layer_tokens.glsl"
#include "ops/slots.glsl"
#include "ops/tiles.glsl"

layout(set = 0, binding = 0) readonly buffer Projections { vec2 v[]; } projections;
layout(set = 0, binding = 1) readonly buffer Features { vec2 v[]; } features;
layout(set = 0, binding = 2) readonly buffer Operands { uvec4 v[]; } operands;  // [T, q | k | v] f16
layout(set = 0, binding = 3) readonly buffer Memories { uvec4 v[]; } memories;  // [chunks, H, M*K | M*V] f16
layout(set = 0, binding = 4) writeonly buffer Output { float v[]; } o;          // [T, HQ, V], rows of out_stride
layout(set = 0, binding = 5) readonly buffer Vectors { float v[]; } vectors;

const uint kRows = kReadRows;
const uint kTeams = kThreads / 32;
// Pitches in words of two f16: an odd number of 16 bytes, or an odd number of words where lanes read rows.
const uint kSlotPitch = kMostChunkSlots / 2 + 4;
const uint kSharePitch = kMostChunkSlots + 4;
const uint kScorePitch = kMostChunkSlots + 4;  // floats
const uint kOwnScorePitch = kRows + 4;
const uint kGroup = V % 64 == 0 && V >= 256 ? 4 : 1;  // tiles of columns that a subgroup computes at once
const uint kColumns = K / 16;
// Columns of the second scores: tokens [t0 - 64, t0 + 16) of the window, then sinks.
const uint kWindowRows = kMostChunkWindow + kRows;
const uint kPositions = kWindowRows + kMostChunkSinks;
const uint kPositionPitch = kPositions / 2 + 4;
const uint kPositionScores = kPositions + 4;  // pitch
const uint kAhead = 4;  // tiles of columns of the scores under way

shared float scores[kRows * kScorePitch];    // [token][slot]; then, as shares, [token][slot | token] f16
shared float own_scores[kRows * kOwnScorePitch];  // [token][own token j]: q . k
shared uint earlier_tile[kRows * kSlotPitch];  // [token][earlier token] scale q . k; then [token][slot] p E
// [token][slot | token of the chunk] weights of values; before, [token][position] scores as bits of floats.
shared uint shares[kRows * (kRotary ? kPositionScores : kSharePitch)];
shared uint position_shares[kRotary ? kRows * kPositionPitch : 4];         // [token][position] weights of values
shared uint w_tile[(kChunk - kRows) * kSlotPitch];             // W [earlier token][slot]
shared vec2 block_decay[kTeams][32];                           // of earlier blocks: prod alpha

/// From 2 N values per lane, N sums over pairs of lanes 2 N apart: the upper lane of each pair takes the upper half.
#define SUM_HALVES(VALUES, N)                                                    \
  [[unroll]] for (uint n = 0; n < N; ++n) {                                      \
    const bool upper = (lane & (2 * N)) != 0;                                    \
    const float other = upper ? VALUES[n] : VALUES[n + N];                       \
    VALUES[n] = (upper ? VALUES[n + N] : VALUES[n]) + subgroupShuffleXor(other, 2 * N); \
  }

uint row0, rows, head, query, t0;  // first row of the chunk; rows of the chunk

/// alpha and s of slots 2 lane and 2 lane + 1; 1 and 0 past the end.
void load_gates(uint j0, uint lane, out vec2 alphas[kRows], out vec2 writes[kRows]) {
  const uint m = min(2 * lane, MEMORY - 2);
  const bool real = 2 * lane < MEMORY;
  [[unroll]] for (uint j = 0; j < kRows; ++j) {
    const uint row = row0 + min(j0 + j, rows - 1);
    alphas[j] = projections.v[(alpha_at(row, head) + m) / 2];
    writes[j] = features.v[(written_at(row, head) + m) / 2];
  }
  [[unroll]] for (uint j = 0; j < kRows; ++j) {
    const bool there = real && j0 + j < rows;
    alphas[j] = there ? alphas[j] : vec2(1.0);
    writes[j] = there ? writes[j] : vec2(0.0);
  }
}

/// W of earlier blocks, a team each.
void make_weights(uint team, uint lane) {
  vec2 alphas[kRows], writes[kRows];
  vec2 product = vec2(1.0);
  vec2 weights[kRows];
  if (team * kRows < t0) {
    load_gates(team * kRows, lane, alphas, writes);
    [[unroll]] for (uint back = 0; back < kRows; ++back) {
      const uint j = kRows - 1 - back;
      weights[j] = writes[j] * product;
      product *= alphas[j];
    }
  }
  block_decay[team][lane] = product;
  barrier();
  if (team * kRows < t0) {
    vec2 later = vec2(1.0);
    for (uint b = team + 1; b * kRows < t0; ++b) later *= block_decay[b][lane];
    [[unroll]] for (uint j = 0; j < kRows; ++j)
      w_tile[(team * kRows + j) * kSlotPitch + lane] = packHalf2x16(weights[j] * later);
  }
}

/// Scores: teams 0 and 1 of the memory, 2 and 3 of the chunk's tokens.
void score_tokens(uint chunk, uint team) {
  const bool of_memory = team < 2;
  const uint first = team % 2 * 32;  // of the team's two tiles of 16
  const uint end = of_memory ? MEMORY : t0 + kRows;
  const uint q = (row0 + t0) * kOperandStride + query * K / 8;
  const uint keys = of_memory ? (memory_at(chunk, head) + first * K) / 8
                              : (row0 + first) * kOperandStride + (G * H + head) * K / 8;
  const uint stride = of_memory ? K / 8 : kOperandStride;
  if (first < end) {
    SUMS sums[2];
    sums[0] = sums[1] = NO_SUMS;
    const uint second = first + 16 < end ? keys + 16 * stride : keys;
    for (uint c0 = 0; c0 < kColumns; c0 += kAhead) {
      LEFT left[kAhead];
      RIGHT right[kAhead], other[kAhead];
      [[unroll]] for (uint i = 0; i < kAhead; ++i) {
        const uint c = min(c0 + i, kColumns - 1) * 2;
        LOAD_ROWS(left[i], operands.v, q + c, kOperandStride);
        if (of_memory) {
          LOAD_COLUMNS(right[i], memories.v, keys + c, stride);
          LOAD_COLUMNS(other[i], memories.v, second + c, stride);
        } else {
          LOAD_COLUMNS(right[i], operands.v, keys + c, stride);
          LOAD_COLUMNS(other[i], operands.v, second + c, stride);
        }
      }
      [[unroll]] for (uint i = 0; i < kAhead; ++i) {
        if (c0 + i >= kColumns) continue;
        sums[0] = MULTIPLY_ADD(left[i], right[i], sums[0]);
        sums[1] = MULTIPLY_ADD(left[i], other[i], sums[1]);
      }
    }
    [[unroll]] for (uint i = 0; i < 2; ++i) {
      const uint at = first + 16 * i;
      if (at >= end) continue;
      if (of_memory) {
        STORE_ROWS(sums[i], scores, at, kScorePitch);
      } else if (at < t0) {
        STORE_NARROW(sums[i], a.scale, earlier_tile, at / 2, kSlotPitch)
      } else {
        STORE_ROWS(sums[i], own_scores, 0, kOwnScorePitch);
      }
    }
  }
}

/// Scores of window and sinks, a tile of 16 a team by turns.
void score_positions(uint team, Item item, int before_block, uint table) {
  for (uint i = team; i < kPositions / 16; i += kTeams) {
    const bool sinks = i == kWindowRows / 16;
    const int j = before_block + int(16 * i);
    const bool in_pass = !sinks && j >= 0;
    const uint keys = in_pass ? (item.row + uint(max(j, 0))) * kOperandStride + (kTurnedKeys + head * K) / 8
                              : table + (sinks ? kMostChunkWindow : uint(int(kMostChunkWindow) + min(j, 0))) * kWindowStride;
    const uint stride = in_pass ? kOperandStride : kWindowStride;
    const uint q = (row0 + t0) * kOperandStride + ((sinks ? kNearQueries : kTurnedQueries) + query * K) / 8;
    SUMS sums = NO_SUMS;
    for (uint c0 = 0; c0 < kColumns; c0 += kAhead) {
      LEFT left[kAhead];
      RIGHT right[kAhead];
      [[unroll]] for (uint n = 0; n < kAhead; ++n) {
        const uint c = min(c0 + n, kColumns - 1) * 2;
        LOAD_ROWS(left[n], operands.v, q + c, kOperandStride);
        LOAD_COLUMNS(right[n], operands.v, keys + c, stride);
      }
      [[unroll]] for (uint n = 0; n < kAhead; ++n) {
        if (c0 + n < kColumns) sums = MULTIPLY_ADD(left[n], right[n], sums);
      }
    }
    STORE_ROWS(sums, shares, 16 * i, kPositionScores);
  }
}

/// R (h q), then what earlier tokens of the chunk wrote; a team 16 slots.
void add_earlier_tokens(uint team, uint lane, vec2 before) {
  [[unroll]] for (uint i = 0; i < kRows / kTeams; ++i) {
    const uint at = (team + i * kTeams) * kScorePitch + 2 * lane;
    scores[at] *= a.scale * before.x;
    scores[at + 1] *= a.scale * before.y;
  }
  if (t0 > 0) {
    barrier();
    if (team * 16 < MEMORY) {
      SUMS sums;
      LOAD_ROWS(sums, scores, team * 16, kScorePitch);
      for (uint j0 = 0; j0 < t0; j0 += 16) {
        LEFT left;
        RIGHT right;
        LOAD_ROWS(left, earlier_tile, j0 / 2, kSlotPitch);
        LOAD_ROWS(right, w_tile, j0 * kSlotPitch + team * 8, kSlotPitch);
        sums = MULTIPLY_ADD(left, right, sums);
      }
      STORE_ROWS(sums, scores, team * 16, kScorePitch);
    }
    barrier();
  }
}

/// Whether token t of the block sees position `r`. Among the window's tokens, t counts as 64 + t.
bool sees_position(uint r, uint t, uint used_sinks, uint used_window) {
  return r < kWindowRows ? r <= kMostChunkWindow + t && r + used_window > kMostChunkWindow + t
                         : r < kPositions && r - kWindowRows < used_sinks;
}

/// Weights of earlier tokens' values: 16 a team.
void weigh_earlier_values(uint team) {
  if (team * 16 < t0) {
    SUMS sums = NO_SUMS;
    for (uint m = 0; m < MEMORY; m += 16) {
      LEFT left;
      RIGHT right;
      LOAD_ROWS(left, earlier_tile, m / 2, kSlotPitch);
      LOAD_COLUMNS(right, w_tile, team * 16 * kSlotPitch + m / 2, kSlotPitch);
      sums = MULTIPLY_ADD(left, right, sums);
    }
    STORE_NARROW(sums, 1.0, shares, (kMostChunkSlots + team * 16) / 2, kSharePitch)
  }
}

/// Outputs: 16 slots or tokens per step. In the window, the chunk's tokens begin at 64 - t0.
void write_outputs(uint chunk, Item item, int before_block, uint table) {
  const uint team = THREAD / 32, lane = THREAD % 32;
  const uint memory_values = (memory_at(chunk, head) + MEMORY * K) / 8;
  const uint token_values = row0 * kOperandStride + ((G + 1) * H * K + head * V) / 8;
  for (uint c = team * kGroup * 16; c < V; c += kTeams * kGroup * 16) {
    SUMS sums[kGroup];
    [[unroll]] for (uint i = 0; i < kGroup; ++i) sums[i] = NO_SUMS;
    [[unroll]] for (uint m = 0; m < MEMORY; m += 16) {
      LEFT left;
      RIGHT right;
      LOAD_ROWS(left, shares, m / 2, kSharePitch);
      [[unroll]] for (uint i = 0; i < kGroup; ++i) {
        LOAD_ROWS(right, memories.v, memory_values + m * V / 8 + c / 8 + 2 * i, V / 8);
        sums[i] = MULTIPLY_ADD(left, right, sums[i]);
      }
    }
    [[unroll]] for (uint j = 0; j < kChunk; j += 16) {
      if (j > t0) break;
      LEFT left, in_window;
      RIGHT right;
      LOAD_ROWS(left, shares, (kMostChunkSlots + j) / 2, kSharePitch);
      if (kRotary) LOAD_ROWS(in_window, position_shares, (kMostChunkWindow - t0 + j) / 2, kPositionPitch);
      [[unroll]] for (uint i = 0; i < kGroup; ++i) {
        LOAD_ROWS(right, operands.v, token_values + j * kOperandStride + c / 8 + 2 * i, kOperandStride);
        sums[i] = MULTIPLY_ADD(left, right, sums[i]);
        if (kRotary) sums[i] = MULTIPLY_ADD(in_window, right, sums[i]);
      }
    }
    if (kRotary) {  // the window before the chunk, then sinks
      [[unroll]] for (uint r = 0; r <= kMostChunkWindow; r += 16) {
        const bool sinks = r == kMostChunkWindow;
        if (!sinks && r >= kMostChunkWindow - t0) continue;
        const int j = before_block + int(r);
        const bool in_pass = !sinks && j >= 0;
        const uint from = in_pass ? (item.row + uint(max(j, 0))) * kOperandStride + ((G + 1) * H * K + head * V) / 8
                                  : table + K / 8 +
                                        (sinks ? kMostChunkWindow : uint(int(kMostChunkWindow) + min(j, 0))) * kWindowStride;
        const uint stride = in_pass ? kOperandStride : kWindowStride;
        LEFT left;
        RIGHT right;
        LOAD_ROWS(left, position_shares, (sinks ? kWindowRows : r) / 2, kPositionPitch);
        [[unroll]] for (uint i = 0; i < kGroup; ++i) {
          LOAD_ROWS(right, operands.v, from + c / 8 + 2 * i, stride);
          sums[i] = MULTIPLY_ADD(left, right, sums[i]);
        }
      }
    }
    const uint to = (row0 + t0) * a.out_stride + query * V + c;
    if (t0 + kRows <= rows) {
      [[unroll]] for (uint i = 0; i < kGroup; ++i) STORE_ROWS(sums[i], o.v, to + 16 * i, a.out_stride);
    } else {
      // The rows behind are another item's: by way of what this team no longer needs.
      [[unroll]] for (uint i = 0; i < kGroup; ++i) {
        STORE_ROWS(sums[i], scores, team * 16, kScorePitch);
        subgroupBarrier();
        for (uint e = lane; e < 16 * (rows - t0); e += 32)
          o.v[to + 16 * i + e / 16 * a.out_stride + e % 16] = scores[e / 16 * kScorePitch + team * 16 + e % 16];
        subgroupBarrier();
      }
    }
  }
}

void main() {
  const uint chunk = gl_WorkGroupID.x / (kChunk / kRows);
  if (chunk >= pass.word[kPassChunks]) return;
  const uint words = a.pass.chunks + chunk * kChunkWords;
  row0 = pass.word[words];
  rows = pass.word[words + 1];
  t0 = gl_WorkGroupID.x % (kChunk / kRows) * kRows;
  if (t0 >= rows) return;
  query = gl_WorkGroupID.y;
  head = query / G;
  const uint team = THREAD / 32, lane = THREAD % 32;

  make_weights(team, lane);
  vec2 decays[kRows / kTeams];  // E of tokens team, team + 4, …
  vec2 alphas[kRows], writes[kRows];
  load_gates(t0, lane, alphas, writes);
  vec2 product = vec2(1.0);
  [[unroll]] for (uint t = 0; t < kRows; ++t) {
    product *= alphas[t];
    if (t % kTeams == team) decays[t / kTeams] = product;
  }
  vec2 before = vec2(1.0);  // R
  for (uint b = 0; b * kRows < t0; ++b) before *= block_decay[b][lane];

  score_tokens(chunk, team);
  // Tiles of the window and the sinks lie whole in the pass or in the table before the item.
  const Item item = item_of(pass.word[words + 2]);
  const int before_block = int(row0 - item.row + t0) - int(kMostChunkWindow);  // row of the item
  const uint table = a.window + item.first_chunk * kWindowTable * kWindowStride + head * (K + V) / 8;
  if (kRotary) score_positions(team, item, before_block, table);
  barrier();
  add_earlier_tokens(team, lane, before);

  // The block's own tokens, softmax, weights: a team every fourth token, a lane two slots.
  {
    const uint m = 2 * lane;
    const bool real = m < MEMORY;
    vec2 bias = vec2(0.0);
    if (a.head_read_bias != kNone) bias += vectors.v[a.head_read_bias + query];
    if (a.read_bias != kNone && real) {
      bias.x += vectors.v[a.read_bias + head * MEMORY + m];
      bias.y += vectors.v[a.read_bias + head * MEMORY + m + 1];
    }
    vec2 p[kRows / kTeams];
    vec2 position[kRows / kTeams][2];  // positions 2 lane and 2 lane + 1, the same + 64 where there are
    [[unroll]] for (uint i = 0; i < kRows / kTeams; ++i) {
      const uint t = team + i * kTeams;
      vec2 own = vec2(0.0);
      [[unroll]] for (uint j = 0; j < kRows; ++j) {
        if (j <= t) own = fma(own, alphas[j], a.scale * own_scores[t * kOwnScorePitch + j] * writes[j]);
      }
      const vec2 memory = vec2(scores[t * kScorePitch + m], scores[t * kScorePitch + m + 1]);
      const vec2 logits = real ? fma(decays[i], memory, own) + bias : vec2(-1e30);
      float largest = max(logits.x, logits.y);
      if (kRotary) {
        const uint row = row0 + min(t0 + t, rows - 1);
        const uint used_sinks = layer_token_word(row, 2), used_window = layer_token_word(row, 3) & ~kLongItem;
        [[unroll]] for (uint n = 0; n < 2; ++n) {
          [[unroll]] for (uint e = 0; e < 2; ++e) {
            const uint r = 64 * n + 2 * lane + e;
            const bool used = sees_position(r, t, used_sinks, used_window);
            position[i][n][e] = used ? a.scale * uintBitsToFloat(shares[t * kPositionScores + r]) : -1e30;
            largest = max(largest, position[i][n][e]);
          }
        }
      }
      largest = team_max(largest, 32);
      p[i] = real ? vec2(exact_exp(logits.x - largest), exact_exp(logits.y - largest)) : vec2(0.0);
      float sum = p[i].x + p[i].y;
      if (kRotary) {
        [[unroll]] for (uint n = 0; n < 2; ++n) {
          [[unroll]] for (uint e = 0; e < 2; ++e) {
            const float logit = position[i][n][e];
            position[i][n][e] = logit > -1e29 ? exact_exp(logit - largest) : 0.0;
            sum += position[i][n][e];
          }
        }
      }
      const float factor = 1.0 / team_sum(sum, 32);
      p[i] *= factor;
      if (kRotary) {
        position_shares[t * kPositionPitch + lane] = packHalf2x16(position[i][0] * factor);
        if (lane < (kPositions - 64) / 2)
          position_shares[t * kPositionPitch + 32 + lane] = packHalf2x16(position[i][1] * factor);
      }
    }
    if (kRotary) barrier();
    [[unroll]] for (uint i = 0; i < kRows / kTeams; ++i) {
      const uint t = team + i * kTeams;
      const vec2 later = p[i] * decays[i];
      shares[t * kSharePitch + lane] = packHalf2x16(later * before);
      earlier_tile[t * kSlotPitch + lane] = packHalf2x16(later);
      // The block's own values: sums over all slots for each j.
      float weights[kRows];
      vec2 left = p[i];
      [[unroll]] for (uint back = 0; back < kRows; ++back) {
        const uint j = kRows - 1 - back;
        weights[j] = 0.0;
        if (j <= t) {
          weights[j] = dot(left, writes[j]);
          left *= alphas[j];
        }
      }
      SUM_HALVES(weights, 8)
      SUM_HALVES(weights, 4)
      SUM_HALVES(weights, 2)
      SUM_HALVES(weights, 1)
      const float weight = weights[0] + subgroupShuffleXor(weights[0], 1);  // of j = lane / 2
      const float next = subgroupShuffleXor(weight, 2);
      if (lane % 4 == 0) shares[t * kSharePitch + (kMostChunkSlots + t0) / 2 + lane / 4] = packHalf2x16(vec2(weight, next));
    }
  }
  barrier();
  weigh_earlier_values(team);
  barrier();
  write_outputs(chunk, item, before_block, table);
}
