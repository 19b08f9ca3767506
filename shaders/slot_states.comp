#version 460
// SPDX-License-Identifier: Apache-2.0
// The memory at the start of every chunk, then the state after the pass. With alpha_i, s_i of a chunk's n tokens:
//   STAGE_SUMS  U[m, c] = sum_j s_j (prod_{i > j} alpha_i) x_j[c]  of keys and values,  d[m] = prod_i alpha_i
//   STAGE_SCAN  for each chunk in turn: U, h = h, d h + U; h is the state's memory before and after
//   STAGE_KEEP  positional slots of the state: the rotated keys and the values of the last tokens
// Products of alphas, none larger than 1: gates of any strength are exact, as they are token by token.
//
// Work split. Sums: grid (64-column tiles of K, then of V, H, chunks); a thread 8 slots x 4 columns, tokens from the
// last to the first in steps of 16 through shared memory (8 KiB). Scan: a thread a value, grid (values / 128, H,
// items). Keep: grid (positional slots, H, items).  Bound: sums 2 n M (K + V) operations, scan bytes.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#define PASS_BINDING 3
#include "pass.glsl"
#include "slots.glsl"

#ifdef STAGE_SUMS

layout(set = 0, binding = 0) readonly buffer Projections { float v[]; } projections;
layout(set = 0, binding = 1) readonly buffer Features { float v[]; } features;
layout(set = 0, binding = 2) writeonly buffer Chunks { float v[]; } chunks;

const uint kTile = 64;
const uint kStep = 16;
shared vec4 weights[kStep][kTile / 4];  // s_j prod alpha, [token, slot]
shared vec4 columns[kStep][kTile / 4];  // x_j, [token, column]

void main() {
  const uint chunk = gl_WorkGroupID.z;
  if (chunk >= pass.word[kPassChunks]) return;
  const uint head = gl_WorkGroupID.y;
  const uint row0 = pass.word[a.pass.chunks + chunk * kChunkWords];
  const uint rows = pass.word[a.pass.chunks + chunk * kChunkWords + 1];
  const uint key_tiles = (K + kTile - 1) / kTile;
  const bool of_keys = gl_WorkGroupID.x < key_tiles;
  const uint width = of_keys ? K : V;
  const uint column0 = (of_keys ? gl_WorkGroupID.x : gl_WorkGroupID.x - key_tiles) * kTile;
  const uint from = (of_keys ? k_at(row0, head) : v_at(row0, head)) + column0;

  const uint slot = THREAD % kTile;  // whose weights this thread makes; only the first 64 do
  const bool makes = THREAD < kTile && slot < MEMORY;
  float product = 1.0;
  vec4 sums[8];
  [[unroll]] for (uint i = 0; i < 8; ++i) sums[i] = vec4(0.0);
  const uint column = THREAD % 16, slots = THREAD / 16 * 2;  // in vec4

  for (uint end = (rows + kStep - 1) / kStep * kStep; end > 0; end -= kStep) {
    const uint begin = end - kStep;
    barrier();
    if (THREAD < kTile) {
      float alphas[kStep], writes[kStep];
      [[unroll]] for (uint j = 0; j < kStep; ++j) {
        const bool there = makes && begin + j < rows;
        const uint row = row0 + begin + j;
        alphas[j] = there ? projections.v[alpha_at(row, head) + slot] : 1.0;
        writes[j] = there ? features.v[written_at(row, head) + slot] : 0.0;
      }
      [[unroll]] for (uint back = 0; back < kStep; ++back) {
        const uint j = kStep - 1 - back;
        weights[j][slot / 4][slot % 4] = writes[j] * product;
        product *= alphas[j];
      }
    }
    for (uint i = THREAD; i < kStep * kTile; i += kThreads) {
      const uint j = i / kTile, c = i % kTile;
      const bool there = begin + j < rows && column0 + c < width;
      columns[j][c / 4][c % 4] = there ? projections.v[from + (begin + j) * a.stride + c] : 0.0;
    }
    barrier();
    for (uint j = 0; j < kStep; ++j) {
      const vec4 x = columns[j][column];
      const vec4 low = weights[j][slots], high = weights[j][slots + 1];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        sums[i] = fma(vec4(low[i]), x, sums[i]);
        sums[4 + i] = fma(vec4(high[i]), x, sums[4 + i]);
      }
    }
  }
  const uint to = memory_at(chunk, head) + (of_keys ? 0 : MEMORY * K);
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    const uint m = slots * 4 + i;
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      const uint c = column0 + column * 4 + e;
      if (m < MEMORY && c < width) chunks.v[to + m * width + c] = sums[i][e];
    }
  }
  if (gl_WorkGroupID.x == 0 && makes) chunks.v[decay_at(chunk, head) + slot] = product;
}

#elif defined(STAGE_SCAN)

layout(set = 0, binding = 0) buffer State { float v[]; } state;
layout(set = 0, binding = 2) buffer Chunks { float v[]; } chunks;

const uint kAhead = 8;  // chunks loaded at once

void main() {
  if (gl_WorkGroupID.z >= pass.word[kPassItems]) return;
  const Item item = item_of(gl_WorkGroupID.z);
  if (item.bank != a.bank || item.chunks == 0) return;
  const uint head = gl_WorkGroupID.y;
  const uint i = gl_WorkGroupID.x * kThreads + THREAD;
  if (i >= kHeadMemory) return;
  const bool of_keys = i < MEMORY * K;
  const uint slot = of_keys ? i / K : (i - MEMORY * K) / V;
  const uint at = state_at(item.place, head) +
                  (of_keys ? kPositional * K + i : kSlots * K + kPositional * V + i - MEMORY * K);
  float h = state.v[at];
  for (uint n0 = 0; n0 < item.chunks; n0 += kAhead) {
    float sums[kAhead], decays[kAhead];
    [[unroll]] for (uint j = 0; j < kAhead; ++j) {
      const uint chunk = item.first_chunk + min(n0 + j, item.chunks - 1);
      sums[j] = chunks.v[memory_at(chunk, head) + i];
      decays[j] = chunks.v[decay_at(chunk, head) + slot];
    }
    [[unroll]] for (uint j = 0; j < kAhead; ++j) {
      if (n0 + j < item.chunks) {
        chunks.v[memory_at(item.first_chunk + n0 + j, head) + i] = h;
        h = fma(decays[j], h, sums[j]);
      }
    }
  }
  state.v[at] = h;
}

#else  // STAGE_KEEP

layout(set = 0, binding = 0) buffer State { float v[]; } state;
layout(set = 0, binding = 1) readonly buffer Features { float v[]; } features;
layout(set = 0, binding = 2) readonly buffer Projections { float v[]; } projections;

void main() {
  if (gl_WorkGroupID.z >= pass.word[kPassItems]) return;
  const Item item = item_of(gl_WorkGroupID.z);
  if (item.bank != a.bank || item.chunks == 0) return;
  const uint head = gl_WorkGroupID.y, slot = gl_WorkGroupID.x;
  const uint first = token_word(item.row, 1);  // slot that the first row writes
  const uint last_row = item.row + item.rows - 1;
  uint back;  // rows from the last one to the one that wrote this slot
  if (slot < SINKS) {
    if (first > slot || slot - first >= item.rows) return;  // written before, or not yet
    back = item.rows - 1 - (slot - first);
  } else {
    const uint used = token_word(last_row, 3) & ~kLongItem;
    if (used == 0) return;
    const uint last = token_word(last_row, 1);
    back = (last + WINDOW - slot) % WINDOW;
    if (back >= used || back >= item.rows) return;
  }
  const uint row = last_row - back;
  const uint keys = state_at(item.place, head);
  for (uint c = THREAD; c < K; c += kThreads) state.v[keys + slot * K + c] = features.v[turned_at(row, head) + c];
  for (uint c = THREAD; c < V; c += kThreads)
    state.v[keys + kSlots * K + slot * V + c] = projections.v[v_at(row, head) + c];
}

#endif
