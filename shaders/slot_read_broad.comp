#version 460
// SPDX-License-Identifier: Apache-2.0
// What slot_read computes, for up to 128 memory slots, windows of up to 256 and heads of up to 64: the keys pass by in
// tiles of 128 rows under an online softmax. First all memory slots, whose logits need the chunk's own tokens:
//   logits_t = scale (E_t (R (h q_t) + sum_{j < t0} (q_t . k_j) W_j) + sum_{t0 <= j <= t} (q_t . k_j) s_j prod_{j<i<=t} alpha_i)
//              + biases, with E, R and W as there
//   o_t = (p_t E_t R) hv + sum_j (the same sums over slots instead of tokens) v_j
// then the window and the sinks, rotated. With the largest logit so far, each tile scales what was added up before.
// Only products of alphas appear, none larger than 1: gates of any strength are exact.
//
// Work split: a workgroup takes 16 tokens of one query head. Grid: (chunks * 4, HQ). Scores: a thread 4 tokens x 4
// rows, columns in steps of 16 through shared memory. Outputs: a thread 4 tokens x 4 columns of every other four rows,
// values from the cache.  Shared memory: 31 KiB.
// Bound: 16 x 2 x (128 + 64 + 288) (K + V) operations.
#extension GL_GOOGLE_include_directive : require
#define RUNNEL_BROAD
#include "contract/common.glsl"
#define PASS_BINDING 6
#include "contract/pass.glsl"
#include "ops/layer_tokens.glsl"
#include "ops/slots.glsl"

layout(set = 0, binding = 0) readonly buffer Projections { float v[]; } projections;
layout(set = 0, binding = 0) readonly buffer Projections4 { vec4 v[]; } projections4;
layout(set = 0, binding = 1) readonly buffer Features { float v[]; } features;
layout(set = 0, binding = 1) readonly buffer Features4 { vec4 v[]; } features4;
layout(set = 0, binding = 2) readonly buffer Chunks { float v[]; } chunks;
layout(set = 0, binding = 2) readonly buffer Chunks4 { vec4 v[]; } chunks4;
layout(set = 0, binding = 3) readonly buffer State { float v[]; } state;
layout(set = 0, binding = 4) writeonly buffer Output { float v[]; } o;  // [T, HQ, V], rows of out_stride
layout(set = 0, binding = 5) readonly buffer Vectors { float v[]; } vectors;

const uint kRows = kReadRows;
const uint kFourRows = kRows / 4;
const uint kTile = kMostBroadSlots;  // rows of keys at once
const uint kPitch = kFourRows + 1;  // vec4 between the weights of two rows
const uint kStep = 16;          // columns
const uint kStepPitch = kStep / 4 + 1;
const uint kQueryPitch = kMostBroadHead / 4 + 1;
const bool kFours = ((K % 8) | (V % 4) | (MEMORY % 4)) == 0;  // every row begins at a multiple of four
// Rows of positions: what token t0 sees of the window before itself, then the block's tokens; then, from the next
// multiple of 32 on, the sinks. Token t0 + t has row kWindowSelf + t.
const uint kWindowSelf = WINDOW - 1;
const uint kWindowRows = WINDOW > 0 ? WINDOW + kRows - 1 : 0;
const uint kInState = 0x80000000u;
const float kNoLogit = -1e30;
// Gates of half of the slots: alpha, then s of the block's own tokens; W of 16 earlier ones for all slots.
const uint kHalf = kTile / 2;
const uint kGatePitch = kHalf + 2;
const uint kWeightPitch = kTile + 2;

// What a tile of keys is.
const uint kOfMemory = 0;
const uint kOfChunk = 1;
const uint kOfPass = 2;   // positions that are all rows of the pass
const uint kOfPlaces = 3;  // or of the state, or nowhere

shared vec4 logits[kTile * kPitch];         // [row][token]: logits, then probabilities
shared vec4 of_chunk[kChunk * kPitch];      // [token j][token]: q . k, then weights of v
shared uint place_of[kTile];                // row of the pass, or slot of the state with kInState, or kNone
shared vec4 tile[kTile * kStepPitch];       // keys; between scores W, or alpha and s
shared vec4 queries[kRows * kQueryPitch];   // plain, then rotated by t, then by min(t, sink distance)
shared float before[kTile];                 // R
shared float largest[kRows];                // logit so far
shared float row_sum[kRows];
shared float rescale[kRows];                // of what was added up before the last tile

uint row0, row_base, rows, head, query, t0, chunk;  // first row of the chunk, of the item; rows of the chunk
Item item;

float tile_value(uint i) { return tile[i / 4][i % 4]; }
void put_tile(uint i, float v) { tile[i / 4][i % 4] = v; }
uint alpha_place(uint j, uint m) { return j * kGatePitch + m; }
uint written_place(uint j, uint m) { return (kRows + j) * kGatePitch + m; }

// Four floats from `at` of which those before `end` exist.
#define LOAD4(NAME, BUFFER, FOURS)                                                                         \
  vec4 NAME(uint at, uint end) {                                                                           \
    if (kFours) return FOURS.v[at / 4];                                                                    \
    vec4 x = vec4(0.0);                                                                                    \
    [[unroll]] for (uint e = 0; e < 4; ++e) {                                                              \
      if (at + e < end) x[e] = BUFFER.v[at + e];                                                           \
    }                                                                                                      \
    return x;                                                                                              \
  }
LOAD4(projections_at, projections, projections4)
LOAD4(features_at, features, features4)
LOAD4(chunks_at, chunks, chunks4)
vec4 state_at4(uint at, uint end) {  // a place's floats need not begin at a multiple of four
  vec4 x = vec4(0.0);
  [[unroll]] for (uint e = 0; e < 4; ++e) {
    if (kFours || at + e < end) x[e] = state.v[at + e];
  }
  return x;
}

/// Where the keys and values of a row of the window lie.
uint place_of_window(uint r) {
  const int j = int(row0 - row_base + t0 + r) - int(kWindowSelf);  // row of the item
  if (r >= kWindowRows || j >= int(item.rows)) return kNone;
  if (j >= 0) return row_base + uint(j);
  const uint first = layer_token_word(row_base, 1);  // slot that the item's first row writes
  if (first < SINKS || uint(-j) > WINDOW) return kNone;
  return kInState | (SINKS + (first - SINKS + WINDOW - uint(-j)) % WINDOW);
}
uint place_of_sink(uint sink) {
  const uint first = layer_token_word(row_base, 1), earlier = min(first, SINKS);
  if (sink >= SINKS) return kNone;
  if (sink < earlier) return kInState | sink;
  return sink - earlier < item.rows ? row_base + sink - earlier : kNone;
}

/// Queries of the block, activated; `which` 0: plain, 1: turned by the angles of t, 2: of min(t, sink distance).
void load_queries(uint which) {
  barrier();  // those before are no longer read
  const uint t = THREAD / 8, half_k = K / 2;
  const uint row = row0 + min(t0 + t, rows - 1), at = q_at(row, query);
  const uint rotations = a.pass.rotations + row * half_k * 4 + (which == 2 ? 2 : 0);
  for (uint c = THREAD % 8 * 4; c < kMostBroadHead; c += 32) {
    vec4 x = vec4(0.0);
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      if (c + e >= K) continue;
      if (which == 0) {
        x[e] = activate(KEY_ACTIVATION, projections.v[at + c + e]);
        continue;
      }
      const bool low = c + e < half_k;
      const uint pair = low ? c + e : c + e - half_k;
      const float cos_t = uintBitsToFloat(pass.word[rotations + 4 * pair]);
      const float sin_t = uintBitsToFloat(pass.word[rotations + 4 * pair + 1]);
      const float left = activate(KEY_ACTIVATION, projections.v[at + pair]);
      const float right = activate(KEY_ACTIVATION, projections.v[at + pair + half_k]);
      x[e] = low ? left * cos_t - right * sin_t : right * cos_t + left * sin_t;
    }
    queries[t * kQueryPitch + c / 4] = x;
  }
}

/// sums[e][i] = q . key of row lane + 32 e and token 4 group + i, for the first `count` rows of a tile. The next columns
/// are loaded while these are multiplied. Rows that are not there have keys of zero.
void score(const uint kind, uint count, out vec4 sums[4]) {
  const uint lane = THREAD % 32, group = THREAD / 32;
  [[unroll]] for (uint e = 0; e < 4; ++e) sums[e] = vec4(0.0);
  // This thread's part of a step: four floats of four rows.
  const uint line = THREAD / 4, column = THREAD % 4 * 4;
  uint from[4];
  bool there[4], in_state[4];
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const uint r = line + 32 * i;
    there[i] = r < count;
    in_state[i] = false;
    if (kind == kOfMemory) {
      from[i] = memory_at(chunk, head) + r * K;
    } else if (kind == kOfChunk) {
      from[i] = k_at(row0 + r, head);
    } else {
      const uint place = place_of[r];
      if (kind == kOfPlaces) {
        there[i] = there[i] && place != kNone;
        in_state[i] = there[i] && (place & kInState) != 0;
      }
      from[i] = in_state[i] ? state_at(item.place, head) + (place & ~kInState) * K : turned_at(place, head);
    }
  }

  vec4 next[4];
#define FETCH(C0)                                                                                          \
  {                                                                                                        \
    const uint c = (C0) + column;                                                                          \
    [[unroll]] for (uint i = 0; i < 4; ++i) {                                                              \
      next[i] = vec4(0.0);                                                                                 \
      if (!there[i] || c >= K) continue;                                                                   \
      const uint at = from[i] + c, end = from[i] + K;                                                      \
      if (kind == kOfMemory) {                                                                             \
        next[i] = chunks_at(at, end);                                                                      \
      } else if (kind == kOfChunk) {                                                                       \
        next[i] = projections_at(at, end);                                                                 \
      } else if (kind == kOfPass) {                                                                        \
        next[i] = features_at(at, end);                                                                    \
      } else {                                                                                             \
        next[i] = in_state[i] ? state_at4(at, end) : features_at(at, end);                                 \
      }                                                                                                    \
    }                                                                                                      \
  }
  FETCH(0)
  for (uint c0 = 0; c0 < K; c0 += kStep) {
    barrier();
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      if (32 * i < count) tile[(line + 32 * i) * kStepPitch + column / 4] = next[i];
    }
    barrier();
    if (c0 + kStep < K) FETCH(c0 + kStep)
    for (uint c = 0; c < kStep / 4; ++c) {
      vec4 q[4];
      [[unroll]] for (uint i = 0; i < 4; ++i) q[i] = queries[(4 * group + i) * kQueryPitch + c0 / 4 + c];
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        if (32 * e >= count) continue;
        const vec4 key = tile[(lane + 32 * e) * kStepPitch + c];
        [[unroll]] for (uint n = 0; n < 4; ++n)
          sums[e] = fma(vec4(q[0][n], q[1][n], q[2][n], q[3][n]), vec4(key[n]), sums[e]);
      }
    }
  }
}

/// Rows [j0, j0 + 16) of W, with `product` the alphas from j0 + 16 to t0; goes on to j0. A thread has a slot.
void make_weights(uint j0, inout float product) {
  const bool real = THREAD < MEMORY;
  const uint m = min(THREAD, MEMORY - 1);
  float alphas[kRows], writes[kRows];
  [[unroll]] for (uint j = 0; j < kRows; ++j) {
    alphas[j] = projections.v[alpha_at(row0 + j0 + j, head) + m];
    writes[j] = features.v[written_at(row0 + j0 + j, head) + m];
  }
  [[unroll]] for (uint back = 0; back < kRows; ++back) {
    const uint j = kRows - 1 - back;
    put_tile(j * kWeightPitch + THREAD, real ? writes[j] * product : 0.0);
    product *= real ? alphas[j] : 1.0;
  }
}

/// alpha and s of the block's own tokens for slots [slot0, slot0 + 64); 1 and 0 past the end.
void load_own_gates(uint slot0) {
  const uint m = THREAD % kHalf, first = THREAD / kHalf;
  const uint step = kThreads / kHalf;
  float alphas[kRows / step], writes[kRows / step];
  [[unroll]] for (uint i = 0; i < kRows / step; ++i) {
    const uint j = first + i * step;
    const bool there = slot0 + m < MEMORY && t0 + j < rows;
    const uint row = row0 + min(t0 + j, rows - 1);
    alphas[i] = there ? projections.v[alpha_at(row, head) + slot0 + m] : 1.0;
    writes[i] = there ? features.v[written_at(row, head) + slot0 + m] : 0.0;
  }
  [[unroll]] for (uint i = 0; i < kRows / step; ++i) {
    put_tile(alpha_place(first + i * step, m), alphas[i]);
    put_tile(written_place(first + i * step, m), writes[i]);
  }
}

/// Probabilities of the tile's rows below `count` with the largest logit so far, its sum, and by what all before it
/// shrinks. Eight lanes per token.
void softmax(uint count) {
  const uint t = THREAD / 8, first = THREAD % 8;
  float most = kNoLogit;
  for (uint r = first; r < count; r += 8) most = max(most, logits[r * kPitch + t / 4][t % 4]);
  const float former = largest[t];
  most = max(former, team_max(most, 8));
  float sum = 0.0;
  for (uint r = first; r < count; r += 8) {
    const float logit = logits[r * kPitch + t / 4][t % 4];
    const float p = logit > -1e29 ? exact_exp(logit - most) : 0.0;
    logits[r * kPitch + t / 4][t % 4] = p;
    sum += p;
  }
  sum = team_sum(sum, 8);
  barrier();  // every lane has read the largest
  if (first == 0) {
    const float shrink = exact_exp(former - most);
    largest[t] = most;
    rescale[t] = shrink;
    row_sum[t] = fma(row_sum[t], shrink, sum);
  }
  barrier();
}

/// The logits of all memory slots; leaves q . k of the chunk's tokens in of_chunk, R in before.
void memory_logits() {
  const uint lane = THREAD % 32, group = THREAD / 32;
  vec4 sums[4], chunk_sums[4];
  score(kOfChunk, min(t0 + kRows, rows), chunk_sums);
  [[unroll]] for (uint e = 0; e < kChunk / 32; ++e) of_chunk[(lane + 32 * e) * kPitch + group] = chunk_sums[e];
  score(kOfMemory, MEMORY, sums);

  // What earlier tokens of the chunk wrote, and R.
  vec4 earlier[4];
  [[unroll]] for (uint e = 0; e < 4; ++e) earlier[e] = vec4(0.0);
  float product = 1.0;
  for (uint end = t0; end > 0; end -= kRows) {
    barrier();
    make_weights(end - kRows, product);
    barrier();
    for (uint j = 0; j < kRows; ++j) {
      const vec4 qk = of_chunk[(end - kRows + j) * kPitch + group];
      [[unroll]] for (uint e = 0; e < 4; ++e)
        earlier[e] = fma(qk, vec4(tile_value(j * kWeightPitch + lane + 32 * e)), earlier[e]);
    }
  }
  before[THREAD] = product;
  barrier();
  [[unroll]] for (uint e = 0; e < 4; ++e)
    logits[(lane + 32 * e) * kPitch + group] = fma(vec4(before[lane + 32 * e]), sums[e], earlier[e]);

  // The block's own tokens, one after another: a thread a slot and eight tokens.
  const float head_bias = a.head_read_bias != kNone ? vectors.v[a.head_read_bias + query] : 0.0;
  const uint four = THREAD / kHalf * 2;  // of tokens
  for (uint slot0 = 0; slot0 < MEMORY; slot0 += kHalf) {
    barrier();
    load_own_gates(slot0);
    barrier();
    const uint own = THREAD % kHalf, m = slot0 + own;
    const float bias = a.read_bias != kNone && m < MEMORY ? vectors.v[a.read_bias + head * MEMORY + m] : 0.0;
    vec4 x[2] = vec4[2](logits[m * kPitch + four], logits[m * kPitch + four + 1]);
    for (uint j = 0; j < 4 * four + 8; ++j) {
      const float alpha = tile_value(alpha_place(j, own)), written = tile_value(written_place(j, own));
      [[unroll]] for (uint i = 0; i < 2; ++i) {
        const vec4 next = fma(x[i], vec4(alpha), of_chunk[(t0 + j) * kPitch + four + i] * written);
        const uint t = 4 * (four + i);
        x[i] = vec4(j <= t ? next.x : x[i].x, j <= t + 1 ? next.y : x[i].y, j <= t + 2 ? next.z : x[i].z,
                    j <= t + 3 ? next.w : x[i].w);
      }
    }
    [[unroll]] for (uint i = 0; i < 2; ++i) logits[m * kPitch + four + i] = a.scale * x[i] + vec4(bias + head_bias);
  }
  barrier();
}

/// From the probabilities of slots the weights of the chunk's values in of_chunk; leaves p E in the logits' place.
void chunk_weights() {
  for (uint slot0 = 0; slot0 < MEMORY; slot0 += kHalf) {
    barrier();
    load_own_gates(slot0);
    barrier();
    // The block's own tokens: eight lanes per token j.
    const uint j = THREAD / 8, first = THREAD % 8;
    float decays[kHalf / 8];
    [[unroll]] for (uint i = 0; i < kHalf / 8; ++i) decays[i] = tile_value(written_place(j, first + 8 * i));
    for (uint t = 0; t < kRows; ++t) {
      float sum = 0.0;
      [[unroll]] for (uint i = 0; i < kHalf / 8; ++i) {
        const uint m = first + 8 * i;
        if (t > j) decays[i] *= tile_value(alpha_place(t, m));
        if (slot0 + m < MEMORY) sum = fma(logits[(slot0 + m) * kPitch + t / 4][t % 4], decays[i], sum);
      }
      sum = team_sum(sum, 8);
      if (first == 0) {
        const uint at = (t0 + j) * kPitch + t / 4;
        of_chunk[at][t % 4] = (slot0 > 0 ? of_chunk[at][t % 4] : 0.0) + (t >= j ? sum : 0.0);
      }
    }
    barrier();
    const uint own = THREAD % kHalf, four = THREAD / kHalf * 2;
    float decay = 1.0;
    for (uint t = 0; t < 4 * four; ++t) decay *= tile_value(alpha_place(t, own));
    [[unroll]] for (uint i = 0; i < 2; ++i) {
      vec4 p = logits[(slot0 + own) * kPitch + four + i];
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        decay *= tile_value(alpha_place(4 * (four + i) + e, own));
        p[e] *= decay;
      }
      logits[(slot0 + own) * kPitch + four + i] = p;
    }
  }
  // Earlier tokens: two lanes for a token j and four tokens of the block, each every other slot.
  float product = 1.0;
  for (uint end = t0; end > 0; end -= kRows) {
    barrier();
    make_weights(end - kRows, product);
    barrier();
    const uint j = THREAD / 8, four = THREAD / 2 % 4;
    vec4 sum = vec4(0.0);
    for (uint m = THREAD % 2; m < MEMORY; m += 2)
      sum = fma(logits[m * kPitch + four], vec4(tile_value(j * kWeightPitch + m)), sum);
    [[unroll]] for (uint e = 0; e < 4; ++e) sum[e] = team_sum(sum[e], 2);
    if (THREAD % 2 == 0) of_chunk[(end - kRows + j) * kPitch + four] = sum;
  }
  barrier();
}

// Rows of values in groups whose loads are under way together: this thread's four of each eight, four tokens each.
// VALUE: the values of row r at its columns; WEIGHTS: of row r for its tokens. Adds to out_[4].
#define ADD_VALUES(COUNT, VALUE, WEIGHTS)                                               \
  for (uint r0 = THREAD / 64 * 4; r0 < (COUNT); r0 += 8) {                              \
    vec4 x[4];                                                                          \
    [[unroll]] for (uint e = 0; e < 4; ++e) {                                           \
      const uint r = min(r0 + e, (COUNT) - 1);                                          \
      x[e] = VALUE;                                                                     \
    }                                                                                   \
    [[unroll]] for (uint e = 0; e < 4; ++e) {                                           \
      const uint r = r0 + e;                                                            \
      if (r >= (COUNT)) continue;                                                       \
      const vec4 weights = WEIGHTS;                                                     \
      [[unroll]] for (uint i = 0; i < 4; ++i) out_[i] = fma(vec4(weights[i]), x[e], out_[i]); \
    }                                                                                   \
  }

vec4 value_at(uint place, uint c) {
  if (place == kNone) return vec4(0.0);
  if ((place & kInState) != 0) {
    const uint at = state_at(item.place, head) + kSlots * K + (place & ~kInState) * V;
    return state_at4(at + c, at + V);
  }
  const uint at = v_at(place, head);
  return projections_at(at + c, at + V);
}

/// A tile of `count` rows of the window from row `base` on, or of the sinks.
void add_positions(uint base, uint count, bool sinks, uint c, inout vec4 out_[4]) {
  const uint lane = THREAD % 32, group = THREAD / 32;
  const int j = int(row0 - row_base + t0 + base) - int(kWindowSelf);  // row of the item
  const bool in_pass = !sinks && j >= 0;
  barrier();
  place_of[THREAD] = in_pass ? row_base + min(uint(j) + THREAD, item.rows - 1)  // what no token sees has weights of 0
                     : sinks ? place_of_sink(THREAD)
                             : place_of_window(base + THREAD);
  barrier();
  vec4 sums[4];
  if (in_pass) {
    score(kOfPass, count, sums);
  } else {
    score(kOfPlaces, count, sums);
  }
  [[unroll]] for (uint e = 0; e < 4; ++e) {
    const uint r = lane + 32 * e;
    if (32 * e >= count) continue;
    vec4 logit;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      const uint t = 4 * group + i, row = row0 + min(t0 + t, rows - 1), self = kWindowSelf + t;
      const uint used_window = layer_token_word(row, 3) & ~kLongItem;
      const bool used = sinks ? r < layer_token_word(row, 2) : base + r <= self && base + r + used_window > self;
      logit[i] = used && r < count ? a.scale * sums[e][i] : kNoLogit;
    }
    logits[r * kPitch + group] = logit;
  }
  barrier();
  softmax(count);
  [[unroll]] for (uint i = 0; i < 4; ++i) out_[i] *= rescale[THREAD / 16 % 4 * 4 + i];
  if (c >= V) return;
  if (in_pass) {
    ADD_VALUES(count, projections_at(v_at(place_of[r], head) + c, v_at(place_of[r], head) + V),
               logits[r * kPitch + THREAD / 16 % 4])
  } else {
    ADD_VALUES(count, value_at(place_of[r], c), logits[r * kPitch + THREAD / 16 % 4])
  }
}

void main() {
  chunk = gl_WorkGroupID.x / (kChunk / kRows);
  if (chunk >= pass.word[kPassChunks]) return;
  const uint words = a.pass.chunks + chunk * kChunkWords;
  row0 = pass.word[words];
  rows = pass.word[words + 1];
  item = item_of(pass.word[words + 2]);
  t0 = gl_WorkGroupID.x % (kChunk / kRows) * kRows;
  if (t0 >= rows || item.bank != a.bank) return;
  row_base = item.row;
  query = gl_WorkGroupID.y;
  head = query / G;
  if (THREAD < kRows) {
    largest[THREAD] = kNoLogit;
    row_sum[THREAD] = 0.0;
  }
  const uint c = THREAD % 16 * 4, four = THREAD / 16 % 4;
  vec4 out_[4];
  [[unroll]] for (uint i = 0; i < 4; ++i) out_[i] = vec4(0.0);

  load_queries(0);
  memory_logits();
  softmax(MEMORY);
  chunk_weights();
  if (c < V) {
    const uint values = memory_at(chunk, head) + MEMORY * K + c, end = values - c + V;
    ADD_VALUES(MEMORY, chunks_at(values + r * V, end + r * V), before[r] * logits[r * kPitch + four])
    const uint most = min(t0 + kRows, rows);
    ADD_VALUES(most, projections_at(v_at(row0 + r, head) + c, v_at(row0 + r, head) + V), of_chunk[r * kPitch + four])
  }
  if (kRotary) {
    // Rows before the first one that any token sees are left out; the sinks are the last tile.
    const uint unused = WINDOW - min(WINDOW, layer_token_word(row0 + t0, 3) & ~kLongItem);
    const uint used = kWindowRows - min(kWindowRows, unused), tiles = (used + kTile - 1) / kTile;
    for (uint i = 0; i < tiles + min(SINKS, 1); ++i) {
      const bool sinks = i == tiles;
      if (i == 0 || sinks) load_queries(sinks ? 2 : 1);
      add_positions(unused + i * kTile, sinks ? SINKS : min(kTile, used - i * kTile), sinks, c, out_);
    }
  }

  // The two halves of the rows together.
  barrier();
  if (THREAD >= 64) {
    [[unroll]] for (uint i = 0; i < 4; ++i) logits[(THREAD - 64) * 4 + i] = out_[i];
  }
  barrier();
  if (THREAD >= 64 || c >= V) return;
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const uint t = 4 * four + i;
    if (t0 + t >= rows) continue;
    const uint to = (row0 + t0 + t) * a.out_stride + query * V + c;
    const vec4 result = (out_[i] + logits[THREAD * 4 + i]) / row_sum[t];
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      if (c + e < V) o.v[to + e] = result[e];
    }
  }
}
