#version 460
// SPDX-License-Identifier: Apache-2.0
// What slot_read computes, on matrix units, for models without positional slots: f16 operands (slot_inputs and
// slot_states.scan in their f16 variants), f32 sums, softmax and gates.
//
// Work split: a workgroup takes 16 tokens [t0, t0 + 16) of one query head. Grid: (chunks * 4, HQ). A subgroup 32 of the
// 128 rows of scores (memory | chunk), then 16 of the slots, then 64 columns of the outputs by turns; operands of wide products
// straight from the cache. With D_tj = s_j prod_{j < i <= t} alpha_i of the block's own tokens and W_j = s_j prod_{j < i < t0}
// alpha_i of earlier ones in shared memory (36 KB):
//   logits_t = scale (E_t (R (h q_t) + sum_{j < t0} (q_t . k_j) W_j) + sum_{t0 <= j <= t} (q_t . k_j) D_tj) + biases
// Products of alphas alone, none larger than 1.
// Bound: 16 x 2 x 128 (K + V) operations on matrix units.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PASS_BINDING 6
#include "pass.glsl"
#include "slots.glsl"
#include "tiles.glsl"

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
const uint kOwnPitch = kMostChunkSlots / 2 + 1;
const uint kScorePitch = kMostChunkSlots + 4;  // floats
const uint kOwnScorePitch = kRows + 4;
const uint kGroup = V % 64 == 0 && V >= 256 ? 4 : 1;  // tiles of columns that a subgroup computes at once
const uint kColumns = K / 16;
const uint kAhead = 4;  // tiles of columns of the scores under way

shared float scores[kRows * kScorePitch];    // [token][slot]; then, as shares, [token][slot | token] f16
shared float own_scores[kRows * kOwnScorePitch];  // [token][own token j]: q . k
shared uint earlier_tile[kRows * kSlotPitch];  // [token][earlier token] scale q . k; then [token][slot] p E
shared uint p_tile[kRows * kOwnPitch];         // [token][slot] p
shared uint shares[kRows * kSharePitch];       // [token][slot | token of the chunk] weights of values
shared uint w_tile[(kChunk - kRows) * kSlotPitch];             // W [earlier token][slot]
shared uint d_tile[kRows * (kRows + 1) / 2 * kOwnPitch];       // D [t (t + 1) / 2 + j][slot]
shared vec2 block_decay[kTeams][32];                           // of earlier blocks: prod alpha

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

  // 1. Gates: W of earlier blocks, a team each; D of the block's own tokens, every fourth j a team; E of its tokens.
  vec2 decays[kRows / kTeams];  // E of tokens team, team + 4, …
  {
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
    load_gates(t0, lane, alphas, writes);
    product = vec2(1.0);
    [[unroll]] for (uint t = 0; t < kRows; ++t) {
      product *= alphas[t];
      if (t % kTeams == team) decays[t / kTeams] = product;
    }
    [[unroll]] for (uint j = 0; j < kRows; ++j) {
      if (j % kTeams == team) {
        vec2 d = writes[j];
        d_tile[(j * (j + 1) / 2 + j) * kOwnPitch + lane] = packHalf2x16(d);
        [[unroll]] for (uint t = j + 1; t < kRows; ++t) {
          d *= alphas[t];
          d_tile[(t * (t + 1) / 2 + j) * kOwnPitch + lane] = packHalf2x16(d);
        }
      }
    }
  }
  vec2 before = vec2(1.0);  // R
  for (uint b = 0; b * kRows < t0; ++b) before *= block_decay[b][lane];

  // 2. Scores: teams 0 and 1 of the memory, 2 and 3 of the chunk's tokens.
  {
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
  barrier();

  // 3. R (h q), then what earlier tokens of the chunk wrote; a team 16 slots.
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

  // 4. The block's own tokens, softmax, weights: a team every fourth token, a lane two slots.
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
    [[unroll]] for (uint i = 0; i < kRows / kTeams; ++i) {
      const uint t = team + i * kTeams;
      vec2 own = vec2(0.0);
      for (uint j = 0; j <= t; ++j)
        own = fma(vec2(a.scale * own_scores[t * kOwnScorePitch + j]),
                  unpackHalf2x16(d_tile[(t * (t + 1) / 2 + j) * kOwnPitch + lane]), own);
      const vec2 memory = vec2(scores[t * kScorePitch + m], scores[t * kScorePitch + m + 1]);
      const vec2 logits = real ? fma(decays[i], memory, own) + bias : vec2(-1e30);
      const float largest = team_max(max(logits.x, logits.y), 32);
      p[i] = real ? vec2(exact_exp(logits.x - largest), exact_exp(logits.y - largest)) : vec2(0.0);
      p[i] *= 1.0 / team_sum(p[i].x + p[i].y, 32);
    }
    [[unroll]] for (uint i = 0; i < kRows / kTeams; ++i) {
      const uint t = team + i * kTeams;
      p_tile[t * kOwnPitch + lane] = packHalf2x16(p[i]);
      const vec2 later = p[i] * decays[i];
      shares[t * kSharePitch + lane] = packHalf2x16(later * before);
      earlier_tile[t * kSlotPitch + lane] = packHalf2x16(later);
    }
  }
  barrier();

  // 5. Weights of the chunk's values: of the block's own two j a thread, of earlier ones 16 a team.
  {
    const uint t = THREAD / 8, j = THREAD % 8 * 2;
    float two[2] = float[2](0.0, 0.0);
    [[unroll]] for (uint e = 0; e < 2; ++e) {
      if (j + e > t) continue;
      const uint from = (t * (t + 1) / 2 + j + e) * kOwnPitch;
      for (uint m = 0; m < MEMORY / 2; ++m) {
        const vec2 d = unpackHalf2x16(d_tile[from + m]), p = unpackHalf2x16(p_tile[t * kOwnPitch + m]);
        two[e] = fma(p.x, d.x, fma(p.y, d.y, two[e]));
      }
    }
    shares[t * kSharePitch + (kMostChunkSlots + t0 + j) / 2] = packHalf2x16(vec2(two[0], two[1]));
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
  barrier();

  // 6. Outputs: 16 slots or tokens a step.
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
      LEFT left;
      RIGHT right;
      LOAD_ROWS(left, shares, (kMostChunkSlots + j) / 2, kSharePitch);
      [[unroll]] for (uint i = 0; i < kGroup; ++i) {
        LOAD_ROWS(right, operands.v, token_values + j * kOperandStride + c / 8 + 2 * i, kOperandStride);
        sums[i] = MULTIPLY_ADD(left, right, sums[i]);
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
