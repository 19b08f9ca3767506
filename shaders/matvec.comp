#version 460
// SPDX-License-Identifier: Apache-2.0
// y[t, r] = sum_c W[r, c] f(x)[t, c] for few tokens; f, the norm and what happens to y are modes.
//
// Work split: TEAM lanes share ROWS rows; lane l takes loads l, l + TEAM, ... of 8 or 32 columns. A workgroup has
// 128 / TEAM teams; grid: (rows, groups of TOKENS tokens).
// Bound: bytes of W at one token on a large model; the latency of the chain on a small one, so weights are loaded
// before the input is prepared, and the input is prepared in every workgroup rather than in a pass of its own.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#include "contract/weights.glsl"
#define INPUT_BINDING 1
#define VECTORS_BINDING 2
#include "ops/input.glsl"
#define PASS_BINDING 4
#include "contract/pass.glsl"

layout(set = 0, binding = 3) buffer Output { float v[]; } y;
layout(push_constant) uniform Push { MatvecArgs a; };

layout(constant_id = 8) const uint TEAM = 32;
layout(constant_id = 9) const uint ROWS = 2;
layout(constant_id = 10) const uint TOKENS = 1;  // 1 unless INPUT is kInputPlain
layout(constant_id = 11) const uint OUTPUT = kOutputStore;

// What a lane loads at once: a unit of 8 columns, or, where rows are long enough, a block of 32.
#ifdef RUNNEL_BLOCKS
layout(constant_id = 12) const uint BLOCK = 1;  // units of a load: 1 or 4
#else
const uint BLOCK = 1;
#endif
const uint kLoads = UNITS / BLOCK;  // of a row
const uint kSteps = (kLoads + TEAM - 1) / TEAM;
// Steps loaded at once, before the input is there or while the ones before are multiplied.
layout(constant_id = 13) const uint AHEAD = 4;
const uint kAhead = kSteps < AHEAD ? kSteps : AHEAD;

// Lanes side by side read blocks, or units, side by side: a block's eight vectors are followed by one of padding, the
// halves of units lie apart. Eight lanes then share no bank.
shared vec4 prepared[INPUT == kInputPlain ? 1 : 2 * UNITS + UNITS / 4 + 1];
uint place(uint i) { return BLOCK == 4 ? i + i / 8 : i % 2 * UNITS + i / 2; }
#define PUT(c, value) prepared[place((c) / 4)][(c) % 4] = (value)
#define GET(c) prepared[place((c) / 4)][(c) % 4]

#ifdef RUNNEL_BLOCKS
// Single units in the first words of a block.
RawBlock load_at(const MatrixPart part, uint row, uint load) {
  if (BLOCK == 4) return load_block(part, row * kLoads + load);
  RawBlock b;
  const Raw r = load_raw(part, row, load);
#if defined(W_BYTES)
  b.a[0] = uvec4(r.a, 0, 0);
  b.a[1] = uvec4(0);
#else
  b.a = uvec4(r.a, 0, 0, 0);
#endif
#if defined(W_FIFTH_BITS)
  b.high = r.high;
#endif
#if defined(W_WIDE)
  b.scale = uvec4(r.scale, 0, 0);
#elif defined(W_Q8_0) || defined(W_Q4_0) || defined(W_Q4_1) || defined(W_Q5_0)
  b.scale = r.scale;
#elif defined(W_Q4_K) || defined(W_Q5_K)
  b.d = r.d;
  b.scale = r.scale;
#elif defined(W_Q6_K)
  b.d = r.d;
  b.high = uvec2(r.high, 0);
  b.scales = r.scale;
#endif
  return b;
}
#define UNIT_OF(RAW, PART) unit_of(RAW, PART)
#else
#define load_at load_raw
#define UNIT_OF(RAW, PART) RAW
#endif

#define LOAD_STEPS(TO, STEP0)                                                                        \
  {                                                                                                  \
    [[unroll]] for (uint step = 0; step < kAhead; ++step) {                                          \
      [[unroll]] for (uint r = 0; r < ROWS; ++r)                                                     \
        TO[step][r] = load_at(a.w, min(row0 + r, a.w.rows - 1), min(lane + ((STEP0) + step) * TEAM, kLoads - 1)); \
    }                                                                                                \
  }

float row_sum(Unit u, vec4 low, vec4 high) {
  precise float s = u.low.x * low.x;
  s = fma(u.low.y, low.y, s);
  s = fma(u.low.z, low.z, s);
  s = fma(u.low.w, low.w, s);
  s = fma(u.high.x, high.x, s);
  s = fma(u.high.y, high.y, s);
  s = fma(u.high.z, high.z, s);
  s = fma(u.high.w, high.w, s);
  return s;
}

void main() {
  const uint token0 = gl_WorkGroupID.y * TOKENS;
  // A program of one token never runs with fewer: nothing waits for the count.
  const uint count = TOKENS == 1 ? 1 : pass.word[a.count_at];
  if (token0 >= count) return;
  const uint lane = THREAD % TEAM;
  const uint row0 = (gl_WorkGroupID.x * (kThreads / TEAM) + THREAD / TEAM) * ROWS;

#ifdef RUNNEL_BLOCKS
  RawBlock ahead[kAhead][ROWS];  // of single units only the first words are used
#else
  Raw ahead[kAhead][ROWS];
#endif
  LOAD_STEPS(ahead, 0)
  if (INPUT != kInputPlain) {
    for (uint c = COLUMNS + THREAD; c < UNITS * kUnit; c += kThreads) PUT(c, 0.0);
    const uint row = a.in_.rows_at == kNone ? token0 : pass.word[a.in_.rows_at + token0];
    PREPARE_INPUT(a.in_, row, PUT, GET)
    barrier();
  }

  precise float sums[ROWS][TOKENS];
  [[unroll]] for (uint r = 0; r < ROWS; ++r) {
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) sums[r][t] = 0.0;
  }
  for (uint step0 = 0; step0 < kSteps; step0 += kAhead) {
#ifdef RUNNEL_BLOCKS
    RawBlock here[kAhead][ROWS];
#else
    Raw here[kAhead][ROWS];
#endif
    [[unroll]] for (uint step = 0; step < kAhead; ++step) {
      [[unroll]] for (uint r = 0; r < ROWS; ++r) here[step][r] = ahead[step][r];
    }
    if (step0 + kAhead < kSteps) LOAD_STEPS(ahead, step0 + kAhead)
    [[unroll]] for (uint step = 0; step < kAhead; ++step) {
      const uint load = lane + (step0 + step) * TEAM;
      if (load >= kLoads) continue;
      [[unroll]] for (uint part = 0; part < BLOCK; ++part) {
        const uint unit = load * BLOCK + part;
        Unit u[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) u[r] = decode(UNIT_OF(here[step][r], part));
        [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
          vec4 low, high;
          if (INPUT == kInputPlain) {
            const uint at = min(token0 + t, count - 1) * (a.in_.stride / 4) + 2 * unit;
            low = source4.v[at];
            high = source4.v[at + 1];
          } else {
            low = prepared[place(2 * unit)];
            high = prepared[place(2 * unit + 1)];
          }
          [[unroll]] for (uint r = 0; r < ROWS; ++r)
            sums[r][t] = fma(u[r].scale, row_sum(u[r], low, high), sums[r][t]);
        }
      }
    }
  }

  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    float total[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) total[r] = team_sum(sums[r][t], TEAM);
    if (lane != 0 || token0 + t >= count) continue;
    const uint out_row = (token0 + t) * a.out_stride + a.out_column;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
      if (row0 + r >= a.w.rows) continue;
      const uint row = a.w.first_row + row0 + r;
      if (OUTPUT == kOutputStore) y.v[out_row + row] = total[r];
      if (OUTPUT == kOutputAdd) y.v[out_row + row] += total[r];
      if (OUTPUT == kOutputSquaredRelu) y.v[out_row + row] = max(total[r], 0.0) * max(total[r], 0.0);
      if (OUTPUT == kOutputSwigluPairs && r % 2 == 1) y.v[out_row + row / 2] = swish(total[r - 1]) * total[r];
      if (OUTPUT == kOutputSwigluWith) y.v[out_row + row] = swish(y.v[out_row + row]) * total[r];
    }
  }
}
