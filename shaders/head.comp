#version 460
// SPDX-License-Identifier: Apache-2.0
// logits = W norm(x) of a token whose layers went in one dispatch (decode_step), its input rounded as there.
//
// Work split: TEAM lanes share a row, a subgroup has kLanes / TEAM rows side by side and a run of such groups. HELD items of
// a lane are under way, the first before the input is there; every workgroup makes the input for itself.
// RUNNEL_DRAW: the last workgroup to finish draws the likeliest token, as greedy does, and leaves its embedding where the
// next step begins.
// Grid: (workgroups). Bound: bytes of W.
#define RUNNEL_OWN_WORKGROUP
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "contract/common.glsl"
#include "contract/weights.glsl"

layout(local_size_x_id = 2) in;
layout(set = 0, binding = 1) buffer Stream4 { vec4 v[]; } stream4;
layout(set = 0, binding = 2) readonly buffer Vectors4 { vec4 v[]; } vectors4;
layout(set = 0, binding = 3) writeonly buffer Logits { float v[]; } logits;
#ifdef RUNNEL_DRAW
#include "draw/logits.glsl"
layout(set = 0, binding = 4) coherent buffer Found { uint finished; uint unused[3]; uvec2 of[]; } found;
layout(set = 0, binding = 5) writeonly buffer Drawn { uint word[]; } drawn;  // in the host's memory
layout(set = 0, binding = 6) readonly buffer Act { uint v[]; } act;
#endif
layout(push_constant) uniform Push { HeadArgs a; };

layout(constant_id = 2) const uint THREADS = 128;
layout(constant_id = 3) const uint D = 32;
layout(constant_id = 4) const uint TEAM = 1;
layout(constant_id = 5) const uint CENTRED = 0;  // the norm is a LayerNorm

const uint OTHER = 0;
const uint kLanes = kSubgroup;
const uint kWarps = THREADS / kLanes;
#include "step/products.glsl"

const uint kItems = D / kItemColumns;  // of a row
const uint kEach = (kItems + TEAM - 1) / TEAM;
const uint kSide = kLanes / TEAM;
const uint kRounds = (D / 4 + THREADS - 1) / THREADS;
shared float warp_sums[2][kWarps];

/// The sum of all threads' values.
float group_sum(float v, uint which) {
  [[unroll]] for (uint i = kLanes / 2; i > 0; i /= 2) v += subgroupShuffleXor(v, i);
  if (gl_SubgroupInvocationID == 0) warp_sums[which][gl_SubgroupID] = v;
  barrier();
  precise float all = 0.0;
  [[unroll]] for (uint i = 0; i < kWarps; ++i) all += warp_sums[which][i];
  return all;
}

/// Makes the input of a LayerNorm.
void keep_centred() {
  precise float sum = 0.0, squares = 0.0;
  [[unroll]] for (uint round = 0; round < kRounds; ++round) {
    const vec4 v = stream4.v[min(round * THREADS + THREAD, D / 4 - 1)];
    if (round * THREADS + THREAD < D / 4) sum += (v.x + v.y) + (v.z + v.w);
  }
  const float mean = group_sum(sum, 0) / float(D);
  [[unroll]] for (uint round = 0; round < kRounds; ++round) {
    const vec4 v = stream4.v[min(round * THREADS + THREAD, D / 4 - 1)] - mean;
    if (round * THREADS + THREAD < D / 4) {
      [[unroll]] for (uint e = 0; e < 4; ++e) squares = fma(v[e], v[e], squares);
    }
  }
  const float factor = 1.0 / sqrt(group_sum(squares, 1) / float(D) + a.eps);
  [[unroll]] for (uint round = 0; round < kRounds; ++round) {
    const uint at = round * THREADS + THREAD, own = min(at, D / 4 - 1);
    const vec4 weight = a.norm_weight == kNone ? vec4(1.0) : vectors4.v[a.norm_weight / 4 + own];
    const vec4 bias = a.norm_bias == kNone ? vec4(0.0) : vectors4.v[a.norm_bias / 4 + own];
    const vec4 v = fma((stream4.v[own] - mean) * factor, weight, bias);
    keep_vector(0, D, at, at < D / 4 ? v : vec4(0.0));
  }
  barrier();
}

/// Makes the input of an RMSNorm but for the factor, which it returns.
float keep_scaled() {
  precise float squares = 0.0;
  [[unroll]] for (uint round = 0; round < kRounds; ++round) {
    const uint at = round * THREADS + THREAD;
    vec4 v = vec4(0.0);
    if (at < D / 4) {
      v = stream4.v[at];
      [[unroll]] for (uint e = 0; e < 4; ++e) squares = fma(v[e], v[e], squares);
      if (a.norm_weight != kNone) v *= vectors4.v[a.norm_weight / 4 + at];
    }
    keep_vector(0, D, at, v);
  }
  return inversesqrt(group_sum(squares, 0) / float(D) + a.eps);
}

#define HELD 8

#ifdef RUNNEL_DRAW
#include "draw/likeliest.glsl"
uvec2 mine = uvec2(0);
shared bool last;

void draw() {
  const uvec2 here = likeliest(mine);
  if (THREAD == 0) {
    found.of[gl_WorkGroupID.x] = here;
    memoryBarrierBuffer();
    last = atomicAdd(found.finished, 1) + 1 == gl_NumWorkGroups.x;
  }
  barrier();
  if (!last) return;
  memoryBarrierBuffer();
  mine = uvec2(0);
  for (uint i = THREAD; i < gl_NumWorkGroups.x; i += THREADS) mine = better(mine, found.of[i]);
  const uvec2 all = likeliest(mine);
  const uint next = all.x == 0 ? 0 : ~all.y;
  if (THREAD == 0) {
    found.finished = 0;
    drawn.word[a.drawn_at + kDrawnToken] = all.x == 0 ? kNoToken : next;
    drawn.word[a.drawn_at + kDrawnReport] = act.v[a.timed_out_at];
  }
  for (uint unit = THREAD; unit < D / 8; unit += THREADS) {
    const Unit u = decode(load_unit(a.table, a.table_first + next * (D / 8) + unit));
    stream4.v[2 * unit] = u.scale * u.low;
    stream4.v[2 * unit + 1] = u.scale * u.high;
  }
}
#endif

void put_logit(uint row, float v) {
  logits.v[a.w.first_row + row] = v;
#ifdef RUNNEL_DRAW
  mine = better(mine, uvec2(logit_key(v), ~row));
#endif
}

void main() {
  const uint lane = gl_SubgroupInvocationID, warp = subgroupBroadcastFirst(gl_SubgroupID);
  const uint row_groups = (a.w.rows + kSide - 1) / kSide;
  const uint warps = gl_NumWorkGroups.x * kWarps, me = gl_WorkGroupID.x * kWarps + warp;
  const uint first = row_groups / warps * me + min(me, row_groups % warps);
  const uint all = (row_groups / warps + (me < row_groups % warps ? 1 : 0)) * kEach;

  const uint in_team = lane % TEAM;
  uint row = first * kSide + lane / TEAM;
  Item held[HELD];
  uint loaded = 0, load_turn = 0, load_row = row;
#define LOAD_HELD(I)                                                                             \
  if (loaded < all) {                                                                            \
    const uint item = load_turn * TEAM + in_team;                                                \
    if (kItems % TEAM == 0 || item < kItems)                                                     \
      LOAD_ITEM(held[I], a.w, a.first + min(load_row, a.w.rows - 1) * kItems + item)                \
    ++loaded;                                                                                    \
    if (++load_turn == kEach) load_turn = 0, load_row += kSide;                                  \
  }
  EACH_8(LOAD_HELD)

  float factor = 1.0;
  if (CENTRED != 0) {
    keep_centred();
  } else {
    factor = keep_scaled();
  }

  uint turn = 0;
  float sum = 0.0;
  [[dont_unroll]] for (uint n = 0; n < all; n += HELD) {
#define SUM_HELD(I)                                                                              \
  if (n + I < all) {                                                                             \
    const uint item = turn * TEAM + in_team;                                                     \
    take_scales(held[I], a.first + min(row, a.w.rows - 1) * kItems + item);                                \
    const float term = item_sum(held[I], 0, D, kItems % TEAM == 0 ? item : min(item, kItems - 1)); \
    if (kItems % TEAM == 0 || item < kItems) sum += term;                                        \
    if (++turn == kEach) {                                                                       \
      [[unroll]] for (uint i = TEAM / 2; i > 0; i /= 2) sum += subgroupShuffleXor(sum, i);        \
      if (in_team == 0 && row < a.w.rows) put_logit(row, sum * factor);                          \
      turn = 0, sum = 0.0, row += kSide;                                                         \
    }                                                                                            \
  }                                                                                              \
  LOAD_HELD(I)
    EACH_8(SUM_HELD)
  }
#ifdef RUNNEL_DRAW
  draw();
#endif
}
