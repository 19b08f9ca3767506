#version 460
// SPDX-License-Identifier: Apache-2.0
// What the tokens of a chunk read, given the memory h, hv at its start. For token t of a block [t0, t0 + 16), with
// E_t = prod_{t0 <= i <= t} alpha_i, R = prod_{i < t0} alpha_i, W_j = s_j prod_{j < i < t0} alpha_i:
//   logits_t = scale (E_t (R (h q_t) + sum_{j < t0} (q_t . k_j) W_j) + sum_{t0 <= j <= t} (q_t . k_j) s_j prod_{j<i<=t} alpha_i)
//              + biases; beside them scale q_t . k_j of the window's tokens and the sinks, rotated
//   p_t = softmax over both
//   o_t = (p_t E_t R) hv + sum_j (the same sums over slots instead of tokens) v_j + sum_window p v + sum_sinks p v
// Only products of alphas appear, none larger than 1: gates of any strength are exact.
//
// Work split: a workgroup takes 16 tokens of one query head. Grid: (chunks * 4, HQ). Scores: a thread 4 tokens x 4
// rows of up to 128 (memory | chunk, then window | sinks), columns in steps of 16 through shared memory. Outputs: a
// thread 2 tokens x 4 columns, values from the cache.  Shared memory: 31 KiB.
// Bound: 16 x 2 x (240 K + 240 V) operations (128 without positional slots).
#extension GL_GOOGLE_include_directive : require
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
const uint kPitch = kRows + 2;  // floats between the weights of two rows
const uint kStep = 16;          // columns
const uint kStepPitch = kStep / 4 + 1;
const bool kFours = ((K % 8) | (V % 4) | (MEMORY % 4)) == 0;  // every row begins at a multiple of four
// Rows of the second scores: window tokens [t0 - 64, t0 + 16) at 0, sinks at 96.
const uint kWindowRows = kMostChunkWindow + kRows;
const uint kSinkRow = 96;
const uint kPositionRows = kSinkRow + kMostChunkSinks;
const uint kInState = 0x80000000u;

shared float of_memory[kMostChunkSlots * kPitch];  // [slot][token]: logits, then probabilities
shared float of_chunk[kChunk * kPitch];            // [token j][token]: q . k, then weights of v
shared float of_position[kRotary ? kPositionRows * kPitch : 1];
shared uint place_of[kRotary ? kPositionRows : 1];  // row of the pass, or slot of the state with kInState, or kNone
shared vec4 tile[128 * kStepPitch];                 // keys; between scores, rows of W or alpha and s
shared vec4 query_tile[2 * kRows * kStepPitch];     // plain or rotated by t; by min(t, sink distance)
shared float before[kMostChunkSlots];               // R
shared float row_sum[kRows];

uint row0, row_base, rows, head, query, t0;  // first row of the chunk, of the item; rows of the chunk
Item item;

// The same place as 16 rows of 64.
float gate_value(uint which, uint j, uint m) {
  const uint i = (which * kRows + j) * kMostChunkSlots + m;
  return tile[i / 4][i % 4];
}
void put_gate(uint which, uint j, uint m, float v) {
  const uint i = (which * kRows + j) * kMostChunkSlots + m;
  tile[i / 4][i % 4] = v;
}

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

/// Where the keys and values of row `r` of the second scores lie.
uint place_of_row(uint r) {
  const uint first = layer_token_word(row_base, 1);  // slot that the item's first row writes
  if (r >= kSinkRow) {
    const uint sink = r - kSinkRow, earlier = min(first, SINKS);
    if (sink >= SINKS) return kNone;
    if (sink < earlier) return kInState | sink;
    return sink - earlier < item.rows ? row_base + sink - earlier : kNone;
  }
  const int j = int(row0 - row_base + t0 + r) - int(kMostChunkWindow);  // row of the item
  if (r >= kWindowRows || j >= int(item.rows)) return kNone;
  if (j >= 0) return row_base + uint(j);
  if (WINDOW == 0 || first < SINKS || uint(-j) > WINDOW) return kNone;
  return kInState | (SINKS + (first - SINKS + WINDOW - uint(-j)) % WINDOW);
}

vec4 plain_query(uint row, uint c) {
  if (c >= K) return vec4(0.0);
  const uint at = q_at(row, query);
  vec4 x = projections_at(at + c, at + K);
  if (KEY_ACTIVATION != kIdentity) {
    [[unroll]] for (uint e = 0; e < 4; ++e) x[e] = activate(KEY_ACTIVATION, x[e]);
  }
  return x;
}
/// Turned by the angles of the token (which = 0) or of min(t, sink distance) (which = 1).
vec4 turned_query(uint row, uint c, uint which) {
  if (c >= K) return vec4(0.0);
  const uint half_k = K / 2, at = q_at(row, query);
  const uint rotations = a.pass.rotations + row * half_k * 4 + 2 * which;
  vec4 turned = vec4(0.0);
  [[unroll]] for (uint e = 0; e < 4; ++e) {
    if (c + e >= K) continue;
    const bool low = c + e < half_k;
    const uint pair = low ? c + e : c + e - half_k;
    const float cos_t = uintBitsToFloat(pass.word[rotations + 4 * pair]);
    const float sin_t = uintBitsToFloat(pass.word[rotations + 4 * pair + 1]);
    const float x = activate(KEY_ACTIVATION, projections.v[at + pair]);
    const float z = activate(KEY_ACTIVATION, projections.v[at + pair + half_k]);
    turned[e] = low ? x * cos_t - z * sin_t : z * cos_t + x * sin_t;
  }
  return turned;
}

/// sums[i][e] = q . key of row lane + 32 e and token group + 4 i. Rows of the first scores: memory slots, tokens of the
/// chunk. The next columns are loaded while these are multiplied.
void score(uint chunk, bool second, out float sums[4][4]) {
  const uint lane = THREAD % 32, group = THREAD / 32;
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    [[unroll]] for (uint e = 0; e < 4; ++e) sums[i][e] = 0.0;
  }
  // This thread's part of a step: four floats of four rows, and of a query (of two in the second).
  const uint line = THREAD / 4, column = THREAD % 4 * 4;
  uint from[4];
  bool there[4];
  bool in_state[4];
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const uint r = line + 32 * i;
    in_state[i] = false;
    if (second) {
      const uint place = r < kPositionRows ? place_of[r] : kNone;
      there[i] = place != kNone;
      in_state[i] = there[i] && (place & kInState) != 0;
      from[i] = in_state[i] ? state_at(item.place, head) + (place & ~kInState) * K : turned_at(place, head);
    } else if (i < 2) {
      there[i] = r < MEMORY;
      from[i] = memory_at(chunk, head) + r * K;
    } else {
      const uint j = r - kMostChunkSlots;
      there[i] = j < t0 + kRows && j < rows;
      from[i] = k_at(row0 + j, head);
    }
  }
  const uint query_row = row0 + min(t0 + line % kRows, rows - 1);

  vec4 keys_next[4];
  vec4 query_next;
#define FETCH(C0)                                                                                          \
  {                                                                                                        \
    const uint c = (C0) + column;                                                                          \
    [[unroll]] for (uint i = 0; i < 4; ++i) {                                                              \
      keys_next[i] = vec4(0.0);                                                                            \
      if (!there[i] || c >= K) continue;                                                                   \
      const uint at = from[i] + c, end = from[i] + K;                                                      \
      if (second) {                                                                                        \
        keys_next[i] = in_state[i] ? state_at4(at, end) : features_at(at, end);                            \
      } else {                                                                                             \
        keys_next[i] = i < 2 ? chunks_at(at, end) : projections_at(at, end);                               \
      }                                                                                                    \
    }                                                                                                      \
    if (second) {                                                                                          \
      query_next = turned_query(query_row, c, line / kRows);                                               \
    } else if (line < kRows) {                                                                             \
      query_next = plain_query(query_row, c);                                                              \
    }                                                                                                      \
  }
  FETCH(0)
  for (uint c0 = 0; c0 < K; c0 += kStep) {
    barrier();
    [[unroll]] for (uint i = 0; i < 4; ++i) tile[(line + 32 * i) * kStepPitch + column / 4] = keys_next[i];
    if (second || line < kRows) query_tile[line * kStepPitch + column / 4] = query_next;
    barrier();
    if (c0 + kStep < K) FETCH(c0 + kStep)
    for (uint c = 0; c < kStep / 4; ++c) {
      vec4 keys[4];
      [[unroll]] for (uint e = 0; e < 4; ++e) keys[e] = tile[(lane + 32 * e) * kStepPitch + c];
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        const vec4 q = query_tile[(group + 4 * i) * kStepPitch + c];
        vec4 near = q;
        if (second) near = query_tile[(kRows + group + 4 * i) * kStepPitch + c];
        [[unroll]] for (uint e = 0; e < 4; ++e) {
          const vec4 x = e == 3 ? near : q;
          [[unroll]] for (uint n = 0; n < 4; ++n) sums[i][e] = fma(keys[e][n], x[n], sums[i][e]);
        }
      }
    }
  }
}

/// Rows [j0, j0 + 16) of W, with `product` the alphas from j0 + 16 to t0; goes on to j0.
void make_weights(uint j0, inout float product) {
  const uint m = THREAD % kMostChunkSlots;
  if (THREAD >= kMostChunkSlots) return;
  float alphas[kRows], writes[kRows];
  [[unroll]] for (uint j = 0; j < kRows; ++j) {
    alphas[j] = m < MEMORY ? projections.v[alpha_at(row0 + j0 + j, head) + m] : 1.0;
    writes[j] = m < MEMORY ? features.v[written_at(row0 + j0 + j, head) + m] : 0.0;
  }
  [[unroll]] for (uint back = 0; back < kRows; ++back) {
    const uint j = kRows - 1 - back;
    put_gate(0, j, m, writes[j] * product);
    product *= alphas[j];
  }
}

/// alpha and s of the block's own tokens; 1 and 0 past the end.
void load_own_gates() {
  const uint m = THREAD % kMostChunkSlots, first = THREAD / kMostChunkSlots;
  const uint step = kThreads / kMostChunkSlots;
  float alphas[kRows / step], writes[kRows / step];
  [[unroll]] for (uint i = 0; i < kRows / step; ++i) {
    const uint j = first + i * step;
    const bool there = m < MEMORY && t0 + j < rows;
    const uint row = row0 + min(t0 + j, rows - 1);
    alphas[i] = there ? projections.v[alpha_at(row, head) + m] : 1.0;
    writes[i] = there ? features.v[written_at(row, head) + m] : 0.0;
  }
  [[unroll]] for (uint i = 0; i < kRows / step; ++i) {
    put_gate(0, first + i * step, m, alphas[i]);
    put_gate(1, first + i * step, m, writes[i]);
  }
}

/// What earlier tokens of the chunk wrote, [i][e] as in score(), and R.
void sum_earlier_tokens(out float earlier[4][2]) {
  const uint lane = THREAD % 32, group = THREAD / 32;
  [[unroll]] for (uint i = 0; i < 4; ++i) earlier[i][0] = earlier[i][1] = 0.0;
  float product = 1.0;
  for (uint end = t0; end > 0; end -= kRows) {
    barrier();
    make_weights(end - kRows, product);
    barrier();
    for (uint j = 0; j < kRows; ++j) {
      const float w0 = gate_value(0, j, lane), w1 = gate_value(0, j, lane + 32);
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        const float qk = of_chunk[(end - kRows + j) * kPitch + group + 4 * i];
        earlier[i][0] = fma(qk, w0, earlier[i][0]);
        earlier[i][1] = fma(qk, w1, earlier[i][1]);
      }
    }
  }
  if (THREAD < kMostChunkSlots) before[THREAD] = product;
}

/// The block's own tokens, and the biases: a thread a slot, every other token.
void add_own_tokens() {
  const uint m = THREAD % kMostChunkSlots;
  const float bias = a.read_bias != kNone && m < MEMORY ? vectors.v[a.read_bias + head * MEMORY + m] : 0.0;
  const float head_bias = a.head_read_bias != kNone ? vectors.v[a.head_read_bias + query] : 0.0;
  for (uint t = THREAD / kMostChunkSlots; t < kRows; t += kThreads / kMostChunkSlots) {
    float decay = 1.0, own = 0.0;
    for (uint back = 0; back <= t; ++back) {
      const uint j = t - back;
      own = fma(of_chunk[(t0 + j) * kPitch + t], gate_value(1, j, m) * decay, own);
      decay *= gate_value(0, j, m);
    }
    // decay is E_t now.
    const uint at = m * kPitch + t;
    of_memory[at] = a.scale * fma(decay, of_memory[at], own) + bias + head_bias;
  }
}

/// Whether token t of the block sees row `r` of the second scores.
bool sees_position(uint r, uint t) {
  const uint row = row0 + min(t0 + t, rows - 1);
  bool sees;
  if (r < kSinkRow) {
    // Among the window's tokens, t counts as 64 + t.
    const uint used_window = layer_token_word(row, 3) & ~kLongItem;
    sees = r <= kMostChunkWindow + t && r + used_window > kMostChunkWindow + t;
  } else {
    sees = r - kSinkRow < layer_token_word(row, 2);
  }
  return sees;
}

/// Softmax, eight lanes per token; the sum divides at the end.
void exponentiate() {
  const uint t = THREAD / 8, first = THREAD % 8;
  float largest = -1e30;
  for (uint m = first; m < MEMORY; m += 8) largest = max(largest, of_memory[m * kPitch + t]);
  if (kRotary) {
    for (uint r = first; r < kPositionRows; r += 8) largest = max(largest, of_position[r * kPitch + t]);
  }
  largest = team_max(largest, 8);
  float sum = 0.0;
  for (uint m = first; m < kMostChunkSlots; m += 8) {
    const float p = m < MEMORY ? exact_exp(of_memory[m * kPitch + t] - largest) : 0.0;
    of_memory[m * kPitch + t] = p;
    sum += p;
  }
  if (kRotary) {
    for (uint r = first; r < kPositionRows; r += 8) {
      const float logit = of_position[r * kPitch + t];
      const float p = logit > -1e29 ? exact_exp(logit - largest) : 0.0;
      of_position[r * kPitch + t] = p;
      sum += p;
    }
  }
  sum = team_sum(sum, 8);
  if (first == 0) row_sum[t] = sum;
}

/// Weights of the values of the block's own tokens: eight lanes per token j.
void weigh_own_values() {
  const uint j = THREAD / 8, first = THREAD % 8;
  float decays[kMostChunkSlots / 8];
  [[unroll]] for (uint i = 0; i < kMostChunkSlots / 8; ++i) decays[i] = gate_value(1, j, first + 8 * i);
  for (uint t = 0; t < kRows; ++t) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < kMostChunkSlots / 8; ++i) {
      const uint m = first + 8 * i;
      if (t > j) decays[i] *= gate_value(0, t, m);
      if (m < MEMORY) sum = fma(of_memory[m * kPitch + t], decays[i], sum);
    }
    sum = team_sum(sum, 8);
    if (first == 0) of_chunk[(t0 + j) * kPitch + t] = t >= j ? sum : 0.0;
  }
}

/// p becomes p E, from which the values of earlier tokens of the chunk get their weights.
void weigh_earlier_values() {
  if (THREAD < kMostChunkSlots) {
    float decay = 1.0;
    for (uint t = 0; t < kRows; ++t) {
      decay *= gate_value(0, t, THREAD);
      of_memory[THREAD * kPitch + t] *= decay;
    }
  }
  float product = 1.0;
  for (uint end = t0; end > 0; end -= kRows) {
    barrier();
    make_weights(end - kRows, product);
    barrier();
    const uint t = THREAD % kRows, j = THREAD / kRows;  // and j + 8
    float two[2] = float[2](0.0, 0.0);
    for (uint m = 0; m < MEMORY; ++m) {
      const float p = of_memory[m * kPitch + t];
      two[0] = fma(p, gate_value(0, j, m), two[0]);
      two[1] = fma(p, gate_value(0, j + 8, m), two[1]);
    }
    of_chunk[(end - kRows + j) * kPitch + t] = two[0];
    of_chunk[(end - kRows + j + 8) * kPitch + t] = two[1];
  }
}

/// What the chunk's tokens weigh in the window joins what they weigh by way of the memory.
void join_window_weights() {
  for (uint i = THREAD; i < (t0 + kRows) * kRows; i += kThreads) {
    const uint j = i / kRows, t = i % kRows;
    of_chunk[j * kPitch + t] += of_position[(kMostChunkWindow - t0 + j) * kPitch + t];
  }
}

/// Adds what tokens t and t + 1 read of columns [c, c + 4) in the window before the chunk, then in the sinks.
void add_positions(uint t, uint c, inout vec4 out0, inout vec4 out1) {
  const uint state_values = state_at(item.place, head) + kSlots * K;
  const uint last = kMostChunkWindow - t0, first = min(kMostChunkWindow + 1 - min(WINDOW, kMostChunkWindow), last);
  for (uint r0 = first; r0 < last + SINKS; r0 += 4) {
    vec4 x[4];
    uint row_of[4];
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      const uint r = r0 + e;
      row_of[e] = r < last ? r : min(kSinkRow + r - last, kPositionRows - 1);
      const uint place = r < last + SINKS ? place_of[row_of[e]] : kNone;
      x[e] = vec4(0.0);
      if (place == kNone) continue;
      if ((place & kInState) != 0) {
        const uint at = state_values + (place & ~kInState) * V;
        x[e] = state_at4(at + c, at + V);
      } else {
        const uint at = v_at(place, head);
        x[e] = projections_at(at + c, at + V);
      }
    }
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      out0 = fma(vec4(of_position[row_of[e] * kPitch + t]), x[e], out0);
      out1 = fma(vec4(of_position[row_of[e] * kPitch + t + 1]), x[e], out1);
    }
  }
}

/// Outputs of two tokens a thread, rows of values in groups whose loads are under way together.
void write_outputs(uint chunk) {
  const uint t = THREAD / 16 * 2;
  const float factor[2] = float[2](1.0 / row_sum[t], 1.0 / row_sum[t + 1]);
  const uint values = memory_at(chunk, head) + MEMORY * K;
  const uint most = min(t0 + kRows, rows);
  for (uint c = THREAD % 16 * 4; c < V; c += 64) {
    vec4 out0 = vec4(0.0), out1 = vec4(0.0);
    for (uint m0 = 0; m0 < MEMORY; m0 += 8) {
      vec4 x[8];
      [[unroll]] for (uint e = 0; e < 8; ++e) {
        const uint at = values + min(m0 + e, MEMORY - 1) * V;
        x[e] = chunks_at(at + c, at + V);
      }
      [[unroll]] for (uint e = 0; e < 8; ++e) {
        const uint m = m0 + e;  // past the last: weights of 0
        const vec4 scaled = before[m] * x[e];
        out0 = fma(vec4(of_memory[m * kPitch + t]), scaled, out0);
        out1 = fma(vec4(of_memory[m * kPitch + t + 1]), scaled, out1);
      }
    }
    for (uint j0 = 0; j0 < most; j0 += 8) {
      vec4 x[8];
      [[unroll]] for (uint e = 0; e < 8; ++e) {
        const uint at = v_at(row0 + min(j0 + e, most - 1), head);
        x[e] = projections_at(at + c, at + V);
      }
      [[unroll]] for (uint e = 0; e < 8; ++e) {
        if (j0 + e >= most) continue;
        out0 = fma(vec4(of_chunk[(j0 + e) * kPitch + t]), x[e], out0);
        out1 = fma(vec4(of_chunk[(j0 + e) * kPitch + t + 1]), x[e], out1);
      }
    }
    if (kRotary) add_positions(t, c, out0, out1);
    [[unroll]] for (uint i = 0; i < 2; ++i) {
      if (t0 + t + i >= rows) continue;
      const uint to = (row0 + t0 + t + i) * a.out_stride + query * V + c;
      const vec4 result = (i == 0 ? out0 : out1) * factor[i];
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        if (c + e < V) o.v[to + e] = result[e];
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
  item = item_of(pass.word[words + 2]);
  t0 = gl_WorkGroupID.x % (kChunk / kRows) * kRows;
  if (t0 >= rows || item.bank != a.bank) return;
  row_base = item.row;
  query = gl_WorkGroupID.y;
  head = query / G;
  if (kRotary && THREAD < kPositionRows) place_of[THREAD] = place_of_row(THREAD);
  const uint lane = THREAD % 32, group = THREAD / 32;

  // q . k of the chunk's tokens to shared memory, h q kept: memory slots are rows 0 to 63.
  float sums[4][4];
  score(chunk, false, sums);
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    [[unroll]] for (uint e = 2; e < 4; ++e) of_chunk[(lane + 32 * (e - 2)) * kPitch + group + 4 * i] = sums[i][e];
  }
  float earlier[4][2];
  sum_earlier_tokens(earlier);
  barrier();
  load_own_gates();
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    [[unroll]] for (uint e = 0; e < 2; ++e)
      of_memory[(lane + 32 * e) * kPitch + group + 4 * i] = fma(before[lane + 32 * e], sums[i][e], earlier[i][e]);
  }
  barrier();
  add_own_tokens();
  if (kRotary) {
    score(chunk, true, sums);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        const uint r = lane + 32 * e;
        const uint t = group + 4 * i;
        if (r >= kPositionRows) continue;
        of_position[r * kPitch + t] = sees_position(r, t) ? a.scale * sums[i][e] : -1e30;
      }
    }
  }
  barrier();
  exponentiate();
  barrier();
  load_own_gates();
  barrier();
  weigh_own_values();
  barrier();
  weigh_earlier_values();
  barrier();
  if (kRotary) {
    join_window_weights();
    barrier();
  }
  write_outputs(chunk);
}
