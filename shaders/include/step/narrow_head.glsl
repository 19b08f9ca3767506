// SPDX-License-Identifier: Apache-2.0
// The head behind the layers of narrow_step, whose first weights are asked for while the last x is not yet there:
//   logits = W RMSNorm(x),  W of Q8_0;  the likeliest token, for the host;  its embedding, where the next step begins.
//
// Rows as in head.comp: a team of lanes shares a row, a subgroup has kHeadSide rows
// side by side and a run of such groups. A lane asks for an item of its next row right behind the product of the last.

layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Logits { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Drawn { uint word[]; };

#include "draw/logits.glsl"
#include "draw/likeliest.glsl"

const uint kHeadTeam = HEAD_TEAM == 0 ? 1 : HEAD_TEAM;
const uint kHeadItems = D / 16;  // of a row
const uint kHeadEach = (kHeadItems + kHeadTeam - 1) / kHeadTeam;  // of a lane, up to 12
const uint kHeadSide = kLanes / kHeadTeam;
#define HEAD_WORD(N) in_table(LAYERS, N)

struct HeadItem {
  uvec4 a;
  uint scale;
};
shared float head_squares[kWarps];
shared bool gave_up;  // a thread of this workgroup

/// Whether this pass makes logits.
bool makes_logits() { return HEAD_TEAM > 0 && (a.logits_low | a.logits_high) != 0; }

/// The best row of each workgroup, behind the word that says which gave up: upper and lower half of its key, row,
/// whether the workgroup gave up; each with the tag.
void publish_best(uvec2 best) {
  const uvec4 words = uvec4(best.x >> 16, best.x & 0xFFFFu, ~best.y, gave_up ? 1 : 0);
  act4.v[(a.timed_out_at + 4) / 4 + gl_WorkGroupID.x] = words << 1 | tag;
}

/// Workgroup 0: what all have published, for the host and the next step.
void draw_head(uvec2 to) {
  const bool mine = THREAD < GROUPS;
  const uint at4 = (a.timed_out_at + 4) / 4 + THREAD;
  const uvec4 seen = wait_for4(mine, look4(mine, at4), at4) >> 1;
  const uvec2 all = likeliest(mine ? uvec2(seen.x << 16 | seen.y, ~seen.z) : uvec2(0));
  const uint next = all.x == 0 ? 0 : ~all.y;
  Drawn drawn = Drawn(to);
  if (poll_limit < 0 || (mine && seen.w != 0) || (THREAD == 0 && act.v[a.timed_out_at] != 0)) drawn.word[kDrawnReport] = 1;
  if (THREAD == 0) drawn.word[kDrawnToken] = all.x == 0 ? kNoToken : next;
  for (uint n = THREAD; n < D / 8; n += THREADS) {
    const uint unit = 2 * HEAD_WORD(kStepTable) + next * (D / 8) + n, block = unit / 4;
    const float scale = half_of(early.w[HEAD_WORD(kStepTable + 2) + block / 2] >> (16 * (block & 1)));
    stream4.v[2 * n] = scale * bytes(early.w[2 * unit]);
    stream4.v[2 * n + 1] = scale * bytes(early.w[2 * unit + 1]);
  }
}

/// The logit of a row whose team's lanes have a share of its sum; returns it as likeliest() takes it.
uvec2 put_logit(Logits logits, uint row, uint rows, float sum, float factor) {
  [[unroll]] for (uint i = kHeadTeam / 2; i > 0; i /= 2) sum += subgroupShuffleXor(sum, i);
  if (LANE % kHeadTeam != 0 || row >= rows) return uvec2(0);
  const float v = sum * factor;
  logits.v[row] = v;
  return uvec2(logit_key(v), ~row);
}

/// @param head_tag  of what is exchanged here, which not all tokens do
/// @param to  address of what the host reads
void head(uint head_tag, uvec2 to) {
  const uint lane = LANE, warp = WARP, in_team = lane % kHeadTeam;
  const uint rows = HEAD_WORD(kStepHead + 1), scales = HEAD_WORD(kStepHead + 2), first_load = HEAD_WORD(kStepHead);
  const uint all_groups = (rows + kHeadSide - 1) / kHeadSide, warps = GROUPS * kWarps;
  const uint me = gl_WorkGroupID.x * kWarps + warp;
  const uint first = all_groups / warps * me + min(me, all_groups % warps);
  const uint groups = all_groups / warps + (me < all_groups % warps ? 1 : 0);
  uint row = first * kHeadSide + lane / kHeadTeam;
  // Rows are whole times four items, two blocks, whose scales are a word: a lane's lie at constant distances.
  Early4 items;
  Early scale_words;
#define FIND_ROW(ROW)                                                          \
  {                                                                            \
    const uint at = first_load + min(ROW, rows - 1) * kHeadItems + in_team;    \
    items = Early4(weights_plus(16 * at));                                     \
    scale_words = Early(weights_plus(4 * (scales + at / 4)));                  \
  }
  HeadItem held[12];
  // A lane without the last item has the one before again.
#define HAS_ITEM(I) (kHeadItems % kHeadTeam == 0 || (I + 1) * kHeadTeam <= kHeadItems || I * kHeadTeam + in_team < kHeadItems)
#define HOLD_HEAD(I)                                                       \
  if (I < kHeadEach) {                                                     \
    const uint step = (HAS_ITEM(I) ? I : I - 1) * kHeadTeam;               \
    held[I].a = items.w[step];                                             \
    held[I].scale = scale_words.w[step / 4];                               \
  }
#define EACH_12(DO) EACH_8(DO) DO(8) DO(9) DO(10) DO(11)
  FIND_ROW(row)
  EACH_12(HOLD_HEAD)
  vec4 weight = vec4(1.0);
  if (THREAD < D / 4 && HEAD_WORD(kStepFinalNorm) != kNone) weight = vectors4.v[HEAD_WORD(kStepFinalNorm) / 4 + THREAD];
  if (IN_TURNS != 0) barrier();
  precise float squares = 0.0;
  if (subgroupAll(warp < kXWarps)) {
    const vec4 x = take_x(LAYERS);
    [[unroll]] for (uint e = 0; e < 4; ++e) squares = fma(x[e], x[e], squares);
    [[unroll]] for (uint i = kLanes / 2; i > 0; i /= 2) squares += subgroupShuffleXor(squares, i);
    keep_words(0, D, THREAD, x * weight, true);
  }
  if (lane == 0) head_squares[warp] = squares;
  if (poll_limit < 0) gave_up = true;
  barrier();
  precise float mean = 0.0;
  [[unroll]] for (uint i = 0; i < kWarps; ++i) mean += head_squares[i];
  const float factor = inversesqrt(mean / float(D) + a.eps);

  Logits logits = Logits(uvec2(a.logits_low, a.logits_high));
  uvec2 best = uvec2(0);
#define SUM_HEAD(I)                                                                                         \
  if (I < kHeadEach) {                                                                                      \
    const uint at = min(I * kHeadTeam + in_team, kHeadItems - 1);                                           \
    const float scale = unpackHalf2x16(held[I].scale >> (8 * (in_team & 2))).x;                             \
    const float term = scale * uintBitsToFloat(about[at / 2].x) * float(dot_words(held[I].a, rounded[at])); \
    if (HAS_ITEM(I)) sum += term;                                                                           \
  }
#define SUM_AND_HOLD(I) SUM_HEAD(I) HOLD_HEAD(I)
  // The last row by itself: nothing is asked for behind it.
  [[dont_unroll]] for (uint n = 1; subgroupAll(n < groups); ++n) {
    float sum = 0.0;
    FIND_ROW(row + kHeadSide)
    EACH_12(SUM_AND_HOLD)
    best = better(best, put_logit(logits, row, rows, sum, factor));
    row += kHeadSide;
  }
  if (subgroupAll(groups > 0)) {
    float sum = 0.0;
    EACH_12(SUM_HEAD)
    best = better(best, put_logit(logits, row, rows, sum, factor));
  }
  best = likeliest(best);
  tag = head_tag;
  if (THREAD == 0) publish_best(best);
  if (gl_WorkGroupID.x == 0) draw_head(to);
}
