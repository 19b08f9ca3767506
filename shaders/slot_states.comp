#version 460
// SPDX-License-Identifier: Apache-2.0
// The memory at the start of every chunk, then the state after the pass. With alpha_i, s_i of a chunk's n tokens:
//   STAGE_SUMS  U[m, c] = sum_j s_j (prod_{i > j} alpha_i) x_j[c]  of keys and values,  d[m] = prod_i alpha_i
//   STAGE_SCAN  for each chunk in turn: U, h = h, d h + U; h is the state's memory before and after
//   STAGE_KEEP  positional slots of the state: the rotated keys and the values of the last tokens
//   STAGE_WINDOW  as f16, what the state holds of the tokens before each item and of its sinks
// Products of alphas, none larger than 1: gates of any strength are exact, as they are token by token.
//
// On matrix units (slot_read_tiles): SUMS_TILES from f16 operands, MEMORIES_F16: the scan
// leaves memories as f16, KEEP reads f16 operands.
//
// Work split. Sums: grid (64-column tiles of K, then of V, H, chunks); a thread 8 slots x 4 columns, tokens from the
// last to the first in steps of 16 through shared memory (8 KiB). BROAD: of more than 64 slots, the same tiles for each
// block of 64. Scan: a thread a value, grid (values / 128, H,
// items). Keep: grid (positional slots, H, items).  Bound: sums 2 n M (K + V) operations, scan bytes.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#define PASS_BINDING 3
#include "contract/pass.glsl"
#include "ops/layer_tokens.glsl"
#include "ops/slots.glsl"

#ifdef STAGE_SUMS_TILES

#include "ops/tiles.glsl"

layout(set = 0, binding = 0) readonly buffer Projections { vec2 v[]; } projections;
layout(set = 0, binding = 1) readonly buffer Features { vec2 v[]; } features;
layout(set = 0, binding = 2) writeonly buffer Chunks { float v[]; } chunks;
layout(set = 0, binding = 4) readonly buffer Operands { uvec4 v[]; } operands;  // [T, q | k | v] f16

// A team of 32 makes the weights of 16 tokens, a lane two slots; then it takes 32 columns of the workgroup's 128.
const uint kTeams = kChunk / 16;
const uint kPitch = kMostChunkSlots / 2 + 4;  // words
shared uint weights[kChunk * kPitch];         // s_j prod alpha as f16, [token][slot]
shared vec2 decay[kTeams][32];                // of a team's tokens: prod alpha

void main() {
  const uint chunk = gl_WorkGroupID.z;
  if (chunk >= pass.word[kPassChunks]) return;
  const uint head = gl_WorkGroupID.y;
  const uint row0 = pass.word[a.pass.chunks + chunk * kChunkWords];
  const uint rows = pass.word[a.pass.chunks + chunk * kChunkWords + 1];
  const uint team = THREAD / 32, lane = THREAD % 32;
  const bool real = 2 * lane < MEMORY;
  {
    const uint m = min(2 * lane, MEMORY - 2);
    vec2 alphas[16], writes[16];
    [[unroll]] for (uint j = 0; j < 16; ++j) {
      const uint row = row0 + min(team * 16 + j, rows - 1);
      alphas[j] = projections.v[(alpha_at(row, head) + m) / 2];
      writes[j] = features.v[(written_at(row, head) + m) / 2];
    }
    vec2 product = vec2(1.0);
    [[unroll]] for (uint back = 0; back < 16; ++back) {
      const uint j = 15 - back;
      const bool there = real && team * 16 + j < rows;
      writes[j] = there ? writes[j] * product : vec2(0.0);
      product *= there ? alphas[j] : vec2(1.0);
    }
    decay[team][lane] = product;
    barrier();
    vec2 later = vec2(1.0);
    for (uint i = team + 1; i < kTeams; ++i) later *= decay[i][lane];
    [[unroll]] for (uint j = 0; j < 16; ++j)
      weights[(team * 16 + j) * kPitch + lane] = packHalf2x16(writes[j] * later);
    if (gl_WorkGroupID.x == 0 && team == 0 && real) {
      const vec2 all = product * later;
      chunks.v[decay_at(chunk, head) + 2 * lane] = all.x;
      chunks.v[decay_at(chunk, head) + 2 * lane + 1] = all.y;
    }
    barrier();
  }

  [[unroll]] for (uint i = 0; i < 2; ++i) {
    const uint c = gl_WorkGroupID.x * 128 + team * 32 + i * 16;  // of keys, then values
    if (c >= K + V) continue;
    const bool of_keys = c < K;
    const uint from = row0 * kOperandStride + (of_keys ? (G * H + head) * K + c : (G + 1) * H * K + head * V + c - K) / 8;
    SUMS sums[kMostChunkSlots / 16];
    [[unroll]] for (uint m = 0; m < kMostChunkSlots / 16; ++m) sums[m] = NO_SUMS;
    [[unroll]] for (uint j = 0; j < kChunk; j += 16) {
      if (j >= rows) continue;
      LEFT left;
      RIGHT right;
      LOAD_ROWS(right, operands.v, from + j * kOperandStride, kOperandStride);
      [[unroll]] for (uint m = 0; m < kMostChunkSlots / 16; ++m) {
        if (16 * m >= MEMORY) continue;
        LOAD_COLUMNS(left, weights, j * kPitch + 8 * m, kPitch);
        sums[m] = MULTIPLY_ADD(left, right, sums[m]);
      }
    }
    const uint width = of_keys ? K : V;
    const uint to = memory_at(chunk, head) + (of_keys ? c : MEMORY * K + c - K);
    [[unroll]] for (uint m = 0; m < kMostChunkSlots / 16; ++m) {
      if (16 * m < MEMORY) STORE_ROWS(sums[m], chunks.v, to + 16 * m * width, width);
    }
  }
}

#elif defined(STAGE_SUMS)

layout(set = 0, binding = 0) readonly buffer Projections { float v[]; } projections;
layout(set = 0, binding = 1) readonly buffer Features { float v[]; } features;
layout(set = 0, binding = 2) writeonly buffer Chunks { float v[]; } chunks;

const uint kTile = 64;
const uint kStep = 16;
shared vec4 weights[kStep][kTile / 4];  // s_j prod alpha, [token, slot]
shared vec4 columns[kStep][kTile / 4];  // x_j, [token, column]

#ifdef BROAD
const uint kTiles = (K + kTile - 1) / kTile + (V + kTile - 1) / kTile;
#define TILE_OF_COLUMNS (gl_WorkGroupID.x % kTiles)
#define SLOT(IN_BLOCK) (gl_WorkGroupID.x / kTiles * kTile + (IN_BLOCK))
#else
#define TILE_OF_COLUMNS gl_WorkGroupID.x
#define SLOT(IN_BLOCK) (IN_BLOCK)
#endif

void main() {
  const uint chunk = gl_WorkGroupID.z;
  if (chunk >= pass.word[kPassChunks]) return;
  const uint head = gl_WorkGroupID.y;
  const uint row0 = pass.word[a.pass.chunks + chunk * kChunkWords];
  const uint rows = pass.word[a.pass.chunks + chunk * kChunkWords + 1];
  const uint key_tiles = (K + kTile - 1) / kTile;
  const bool of_keys = TILE_OF_COLUMNS < key_tiles;
  const uint width = of_keys ? K : V;
  const uint column0 = (of_keys ? TILE_OF_COLUMNS : TILE_OF_COLUMNS - key_tiles) * kTile;
  const uint from = (of_keys ? k_at(row0, head) : v_at(row0, head)) + column0;

  const uint slot = THREAD % kTile;  // whose weights this thread makes; only the first 64 do
  const bool makes = THREAD < kTile && SLOT(slot) < MEMORY;
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
        alphas[j] = there ? projections.v[alpha_at(row, head) + SLOT(slot)] : 1.0;
        writes[j] = there ? features.v[written_at(row, head) + SLOT(slot)] : 0.0;
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
    const uint m = SLOT(slots * 4 + i);
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      const uint c = column0 + column * 4 + e;
      if (m < MEMORY && c < width) chunks.v[to + m * width + c] = sums[i][e];
    }
  }
  if (TILE_OF_COLUMNS == 0 && makes) chunks.v[decay_at(chunk, head) + SLOT(slot)] = product;
}

#elif defined(STAGE_SCAN)

layout(set = 0, binding = 0) buffer State { float v[]; } state;
layout(set = 0, binding = 2) buffer Chunks { float v[]; } chunks;

const uint kAhead = 8;  // chunks loaded at once
#ifdef MEMORIES_F16
layout(set = 0, binding = 4) writeonly buffer Memories { uint v[]; } memories;  // [chunks, H, M*K | M*V] two f16 each
layout(set = 0, binding = 2) readonly buffer Chunks2 { vec2 v[]; } chunks2;

const float kLargest = 65504.0;  // of f16

/// A thread two values.
void main() {
  if (gl_WorkGroupID.z >= pass.word[kPassItems]) return;
  const Item item = item_of(gl_WorkGroupID.z);
  if (item.bank != a.bank || item.chunks == 0) return;
  const uint head = gl_WorkGroupID.y;
  const uint i = 2 * (gl_WorkGroupID.x * kThreads + THREAD);
  if (i >= kHeadMemory) return;
  const uint slot = i < MEMORY * K ? i / K : (i - MEMORY * K) / V;
  const uint at = state_at(item.place, head) +
                  (i < MEMORY * K ? kPositional * K + i : kSlots * K + kPositional * V + i - MEMORY * K);
  vec2 h = vec2(state.v[at], state.v[at + 1]);
  for (uint n0 = 0; n0 < item.chunks; n0 += kAhead) {
    vec2 sums[kAhead];
    float decays[kAhead];
    [[unroll]] for (uint j = 0; j < kAhead; ++j) {
      const uint chunk = item.first_chunk + min(n0 + j, item.chunks - 1);
      sums[j] = chunks2.v[(memory_at(chunk, head) + i) / 2];
      decays[j] = chunks.v[decay_at(chunk, head) + slot];
    }
    [[unroll]] for (uint j = 0; j < kAhead; ++j) {
      if (n0 + j < item.chunks) {
        memories.v[(memory_at(item.first_chunk + n0 + j, head) + i) / 2] = packHalf2x16(clamp(h, -kLargest, kLargest));
        h = fma(vec2(decays[j]), h, sums[j]);
      }
    }
  }
  state.v[at] = h.x;
  state.v[at + 1] = h.y;
}
#else

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
#endif

#elif defined(STAGE_WINDOW)

layout(set = 0, binding = 0) readonly buffer State { float v[]; } state;
layout(set = 0, binding = 1) buffer Operands { uint v[]; } operands;  // two f16 each

const float kLargest = 65504.0;  // of f16

void main() {
  if (gl_WorkGroupID.z >= pass.word[kPassItems]) return;
  const Item item = item_of(gl_WorkGroupID.z);
  if (item.bank != a.bank || item.chunks == 0) return;
  const uint head = gl_WorkGroupID.y, r = gl_WorkGroupID.x;
  const uint first = layer_token_word(item.row, 1);  // slot that the item's first row writes
  uint slot = kNone, row = kNone;              // of the state, or of the pass
  if (r < kMostChunkWindow) {
    const uint back = kMostChunkWindow - r;
    if (WINDOW > 0 && first >= SINKS && back <= WINDOW) slot = SINKS + (first - SINKS + WINDOW - back) % WINDOW;
  } else if (r - kMostChunkWindow < SINKS) {
    const uint sink = r - kMostChunkWindow, earlier = min(first, SINKS);
    if (sink < earlier) {
      slot = sink;
    } else if (sink - earlier < item.rows) {
      row = item.row + sink - earlier;
    }
  }
  const uint to = (a.window + (item.first_chunk * kWindowTable + r) * kWindowStride) * 4 + head * (K + V) / 2;
  for (uint i = THREAD; i < (K + V) / 2; i += kThreads) {
    const bool of_keys = 2 * i < K;
    uint packed = 0;
    if (slot != kNone) {
      const uint at = state_at(item.place, head) + (of_keys ? slot * K + 2 * i : kSlots * K + slot * V + 2 * i - K);
      packed = packHalf2x16(clamp(vec2(state.v[at], state.v[at + 1]), -kLargest, kLargest));
    } else if (row != kNone) {
      packed = operands.v[row * kOperandStride * 4 +
                          (of_keys ? kTurnedKeys + head * K + 2 * i : (G + 1) * H * K + head * V + 2 * i - K) / 2];
    }
    operands.v[to + i] = packed;
  }
}

#else  // STAGE_KEEP

layout(set = 0, binding = 0) buffer State { float v[]; } state;
#ifdef MEMORIES_F16
layout(set = 0, binding = 1) readonly buffer Operands { uint v[]; } operands;  // two f16 each
#else
layout(set = 0, binding = 1) readonly buffer Features { float v[]; } features;
layout(set = 0, binding = 2) readonly buffer Projections { float v[]; } projections;
#endif

void main() {
  if (gl_WorkGroupID.z >= pass.word[kPassItems]) return;
  const Item item = item_of(gl_WorkGroupID.z);
  if (item.bank != a.bank || item.chunks == 0) return;
  const uint head = gl_WorkGroupID.y, slot = gl_WorkGroupID.x;
  const uint first = layer_token_word(item.row, 1);  // slot that the first row writes
  const uint last_row = item.row + item.rows - 1;
  uint back;  // rows from the last one to the one that wrote this slot
  if (slot < SINKS) {
    if (first > slot || slot - first >= item.rows) return;  // written before, or not yet
    back = item.rows - 1 - (slot - first);
  } else {
    const uint used = layer_token_word(last_row, 3) & ~kLongItem;
    if (used == 0) return;
    const uint last = layer_token_word(last_row, 1);
    back = (last + WINDOW - slot) % WINDOW;
    if (back >= used || back >= item.rows) return;
  }
  const uint row = last_row - back;
  const uint keys = state_at(item.place, head);
#ifdef MEMORIES_F16
  for (uint i = THREAD; i < (K + V) / 2; i += kThreads) {
    const bool of_keys = 2 * i < K;
    const vec2 x = unpackHalf2x16(
        operands.v[row * kOperandStride * 4 +
                   (of_keys ? kTurnedKeys + head * K + 2 * i : (G + 1) * H * K + head * V + 2 * i - K) / 2]);
    const uint to = keys + (of_keys ? slot * K + 2 * i : kSlots * K + slot * V + 2 * i - K);
    state.v[to] = x.x;
    state.v[to + 1] = x.y;
  }
#else
  for (uint c = THREAD; c < K; c += kThreads) state.v[keys + slot * K + c] = features.v[turned_at(row, head) + c];
  for (uint c = THREAD; c < V; c += kThreads)
    state.v[keys + kSlots * K + slot * V + c] = projections.v[v_at(row, head) + c];
#endif
}

#endif
