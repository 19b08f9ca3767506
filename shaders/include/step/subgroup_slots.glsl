// SPDX-License-Identifier: Apache-2.0
// decode_even, where a workgroup has one query: each subgroup has some of the slots, side by side, takes the softmax over
// them alone and weighs their values; one barrier, and a subgroup joins what they have read. The logits of a lane's teams
// stay in registers.

// Whether slots, teams of lanes and columns fit so.
const uint kOfWarp = kSlots / kWarps;          // slots of a subgroup, one for each lane at most
const uint kTeamsOfWarp = kLanes / kTeam;      // that have a key each
const uint kRowsOfWarp = kColumns < kLanes ? kLanes / kColumns : 1;  // values of a column side by side
const uint kBySubgroup = kApart == 0                                  ? 0
                         : QUERIES == G                               ? 0
                         : kOfWarp * kWarps != kSlots                 ? 0
                         : kOfWarp > kLanes                           ? 0
                         : kOfWarp % kTeamsOfWarp != 0                ? 0
                         : kKeyVectors > 1                            ? 0
                         : kOfWarp / kTeamsOfWarp > 14                ? 0
                         : kTeam < 8                                  ? 0
                         : kRowsOfWarp * kColumns != kLanes           ? 0
                         : kOfWarp % kRowsOfWarp != 0                 ? 0
                         : kOfWarp / kRowsOfWarp > 8                  ? 0
                         : kWarps > kLanes                            ? 0
                         : kWarps % kRowsOfWarp != 0                  ? 0
                                                                      : 1;
shared float warp_peaks[kWarps];
shared float warp_counts[kWarps];  // sums of exponentials

/// As slots(), behind its projections. `bias`: of the lane's slot.
void slots_of_subgroups(uint base, const Head h, const vec4 key[16], const float value[8], float bias) {
  const uint warp = WARP, lane = LANE, in_team = lane % kTeam, team = lane / kTeam, column = lane % kColumns;
  const uint first = warp * kOfWarp, written = token_slots.x, used_sinks = token_slots.y, used_window = token_slots.z;
  // Products of a team's keys with the query; behind those of the first seven rounds that of the token's key.
  const uint same = kTeam / kSums;
  float sums[8], more[8];
  [[unroll]] for (uint i = 0; i < 8; ++i) sums[i] = 0.0, more[i] = 0.0;
#define DOT_OF(SUMS, AT, I)                                                 \
  if (I < kHeldRounds && I / 7 == (AT) / 8) {                               \
    const uint slot = first + I * kTeamsOfWarp + team;                      \
    vec4 k = key[I];                                                        \
    if (slot == written) k = keys[K / 4 + in_team];                         \
    SUMS[I % 7] = dot_of(k, queries[variant_of(slot) * (K / 4) + in_team]); \
  }
#define DOT_FIRST(I) DOT_OF(sums, 0, I)
#define DOT_MORE(I) DOT_OF(more, 8, I)
  EACH_16(DOT_FIRST)
  sums[kKeyRounds] = dot_of(keys[in_team], queries[in_team]);
  EACH_16(DOT_MORE)
  ADD_LANES(sums, kSums, kTeam, in_team)
  if (kHeldRounds > 7) ADD_LANES(more, kSums, kTeam, in_team)

  // A slot each.
  const uint round = lane / kTeamsOfWarp, from = (lane % kTeamsOfWarp * kTeam + round % 7 * same) % kLanes;
  float found = subgroupShuffle(sums[0], from);
  if (kHeldRounds > 7) {
    const float later = subgroupShuffle(more[0], from);
    found = round < 7 ? found : later;
  }
  const float fresh = subgroupShuffle(sums[0], kKeyRounds * same);
  const uint s = first + min(lane, kOfWarp - 1), m = s < kPositional ? 0 : min(s - kPositional, MEMORY - 1);
  const bool counts_ = lane < kOfWarp && (s < SINKS ? s < used_sinks : s >= kPositional || s - SINKS < used_window);
  float logit = s < kPositional ? a.scale * found : fma(a.scale, fma(alpha[m], found, gate[m] * fresh), bias);
  if (!counts_) logit = -1e30;
  const float largest = lanes_max(logit);
  const float count = logit > -1e29 ? exact_exp(logit - largest) : 0.0;
  const float all = lanes_sum(count);

  // Its values, with the token's.
  precise float sum = 0.0;
#define WEIGH_OWN(I)                                                                     \
  if (I < kOfWarp / kRowsOfWarp) {                                                       \
    const uint own = I * kRowsOfWarp + lane / kColumns, slot = first + own;              \
    const uint of_memory = slot < kPositional ? 0 : min(slot - kPositional, MEMORY - 1); \
    float v = value[I];                                                                  \
    if (slot < kPositional) {                                                            \
      if (slot == written) v = values[column];                                           \
    } else {                                                                             \
      v = fma(alpha[of_memory], v, gate[of_memory] * values[column]);                    \
    }                                                                                    \
    sum = fma(subgroupShuffle(count, own), v, sum);                                      \
  }
  EACH_8(WEIGH_OWN)
  [[unroll]] for (uint b = 0; b < 5; ++b) {
    if ((kColumns << b) < kLanes) sum += subgroupShuffleXor(sum, kColumns << b);
  }
  if (lane < kColumns) partial[warp * kColumns + lane] = sum;
  if (lane == 0) warp_peaks[warp] = largest, warp_counts[warp] = all;
  barrier();
  if (!subgroupAll(warp == kWarps - 1)) return;

  const bool is = lane < kWarps;
  const float peak = is ? warp_peaks[min(lane, kWarps - 1)] : -1e30;
  const float top = lanes_max(peak);
  const float share = peak > -1e29 ? exact_exp(peak - top) : 0.0;
  const float total = lanes_sum(is ? share * warp_counts[min(lane, kWarps - 1)] : 0.0);
  precise float out_ = 0.0;
  [[unroll]] for (uint n = 0; n < kWarps; n += kRowsOfWarp) {
    const uint of = n + lane / kColumns;
    out_ = fma(subgroupShuffle(share, of), partial[of * kColumns + column], out_);
  }
  [[unroll]] for (uint b = 0; b < 5; ++b) {
    if ((kColumns << b) < kLanes) out_ += subgroupShuffleXor(out_, kColumns << b);
  }
  if (lane < kColumns)
    publish(base + kAtOut + (h.head * G + h.query) * V + h.column + lane, activate(OUT_ACTIVATION, out_ / total));
}
