#version 460
// SPDX-License-Identifier: Apache-2.0
// The next token by the usual chain of samplers (runtime/include/runnel/sampling.h): the token of the host's sampler
// (runtime/sampling/sampler.h) from the same logits. Weights and cuts are integers; floats meet one rounded operation
// at a time.
//
// STAGE_CHANGE, one workgroup: biases, penalties and DRY's losses, in the row itself; what was there is kept.
// (runtime/sampling/dry.h says what lengths, losses and breakers are.)
// STAGE_COUNT: the largest logit, how many logits have each upper 12 bits, and the sums of top-n-sigma.
// STAGE_COLLECT: the likeliest tokens, as many as top-k wants, or as there is room for; without top-k all that weighs.
// STAGE_CHOOSE, one workgroup: cuts and draws among those in shared memory. Where what is left may reach beyond them
// (many equal logits, a nucleus of thousands, no cut at all) it passes over the row instead. Then the row is as it was,
// and the token goes into the rings.
// Where a mask says which tokens may come, the others have no key from STAGE_COUNT on.
// Grid: (1), (kDrawGroups), (kDrawGroups), (1). Bound: latency.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#include "draw/logits.glsl"
#include "draw/integers.glsl"

struct Spread {
  uint count;    // of what can be chosen
  uint sum[2];   // of logits in 2^-12, rounded down
  uint squares[2];
  uint total[2];  // of weights
};
#if defined(STAGE_COUNT) || defined(STAGE_COLLECT)
layout(set = 0, binding = 0) readonly buffer Logits { float v[]; } logits;
#else
layout(set = 0, binding = 0) coherent buffer Logits { float v[]; } logits;
#endif
layout(set = 0, binding = 1) buffer Bins { uint counted[kCandidateBins]; } bins;
layout(set = 0, binding = 2) buffer Found {
  uint count;
  uint max_key;
  uint unused[2];
  uvec2 of[kMostCandidates];  // id and key
} found;
layout(set = 0, binding = 3) buffer Spreads { Spread of[kDrawGroups]; } spreads;
layout(set = 0, binding = 4) readonly buffer Wanted { uint word[]; } wanted;
layout(set = 0, binding = 5) coherent buffer Past { uint word[]; } past;
layout(set = 0, binding = 6) writeonly buffer Drawn { uint word[]; } drawn;
layout(push_constant) uniform Push { GreedyArgs a; };

uint turn(uint word) { return wanted.word[kDrawHeader + a.place * kTurnWords + word]; }
float option(uint word) { return uintBitsToFloat(wanted.word[word]); }
uint bin_of(uint key) { return key >> 20; }
float key_logit(uint key) { return uintBitsToFloat((key >> 31) != 0 ? key & 0x7FFFFFFFu : ~key); }

/// What threads of this workgroup wrote is there for the others.
void sync_buffers() {
  memoryBarrierBuffer();
  barrier();
}
uint seen_by_penalties() { return min(past.word[kPastRecentAt], wanted.word[kDrawWindow]); }
uint seen_by_dry(uint at) { return min(at, wanted.word[kDrawDryRange]); }
/// The token generated `distance` places before the next one.
uint dry_token(uint at, uint distance) {
  return past.word[kPastDry + (at - distance) % wanted.word[kDrawDryRange]];
}
bool is_breaker(uint token) {
  return (wanted.word[kDrawBreakersAt + token / 32] >> token % 32 & 1u) != 0;
}
const uint kInfiniteKey = 0xFF800000u;

#ifdef STAGE_CHANGE
void add_biases() {
  for (uint i = THREAD; i < wanted.word[kDrawBiases]; i += kThreads) {
    const uint token = wanted.word[kDrawBiasesAt + 2 * i];
    const float before = logits.v[token];
    past.word[kPastBiased + i] = floatBitsToUint(before);
    precise float after = before + option(kDrawBiasesAt + 2 * i + 1);
    logits.v[token] = after;
  }
  sync_buffers();
}

void penalise() {
  const uint seen = seen_by_penalties();
  for (uint i = THREAD; i < seen; i += kThreads)
    atomicAdd(past.word[kPastTokens + past.word[kPastRecent + i]], 1);
  sync_buffers();
  for (uint i = THREAD; i < seen; i += kThreads) {
    const uint token = past.word[kPastRecent + i];
    const uint count = atomicExchange(past.word[kPastTokens + token], 0);  // 0: done elsewhere
    past.word[kPastPenalised + 2 * i] = count;
    if (count == 0) continue;
    const float before = logits.v[token];
    past.word[kPastPenalised + 2 * i + 1] = floatBitsToUint(before);
    precise float kept = before * (before > 0.0 ? option(kDrawUnpenalty) : option(kDrawPenalty));
    precise float often = float(count) * option(kDrawFrequency);
    precise float penalty = option(kDrawPresence) + often;
    precise float after = kept - penalty;
    logits.v[token] = after;
  }
  sync_buffers();
}

/// The repetition that the token at a distance would extend, 0 where it costs nothing.
uint repetition(uint at, uint seen, uint distance) {
  const uint length = min(past.word[kPastLengths + distance], seen - distance);
  return length < wanted.word[kDrawDryAllowed] || is_breaker(dry_token(at, distance)) ? 0 : length;
}

void lower_repetitions() {
  const uint at = past.word[kPastDryAt], seen = seen_by_dry(at);
  for (uint i = 1 + THREAD; i < seen; i += kThreads) {
    const uint length = repetition(at, seen, i);
    if (length > 0) atomicMax(past.word[kPastTokens + dry_token(at, i)], length);
  }
  sync_buffers();
  for (uint i = 1 + THREAD; i < seen; i += kThreads) {
    const uint token = dry_token(at, i);
    const uint longest =
        repetition(at, seen, i) > 0 ? atomicExchange(past.word[kPastTokens + token], 0) : 0;
    past.word[kPastLowered + 2 * i] = longest;
    if (longest == 0) continue;  // free, or done at another place
    const float before = logits.v[token];
    past.word[kPastLowered + 2 * i + 1] = floatBitsToUint(before);
    precise float after = before - option(kDrawLossesAt + longest);
    logits.v[token] = after;
  }
}

void main() {
  if (turn(kTurnBegins) != 0) {
    for (uint i = THREAD; i < kPastBiased; i += kThreads) past.word[i] = wanted.word[kDrawPastAt + i];
    sync_buffers();
  }
  add_biases();
  if (wanted.word[kDrawWindow] > 0) penalise();
  if (wanted.word[kDrawDryRange] > 0) lower_repetitions();
}
#else

bool masked;
uint mask_at;  // its first word

void begin_mask() {
  const uint words = (a.vocab + 31) / 32;
  masked = turn(kTurnMasked) != 0;
  mask_at = kDrawBreakersAt + (1 + a.place) * words;
}
/// The key of a token's logit, 0 if it may not come.
uint token_key(uint token, float logit) {
  const bool may = !masked || (wanted.word[mask_at + token / 32] >> token % 32 & 1u) != 0;
  return may ? logit_key(logit) : 0;
}

#ifdef STAGE_COUNT
shared uint here[kCandidateBins];  // the sums reuse its beginning
#define PARTS(i) here[i]
#else
shared uint parts[10];
#define PARTS(i) parts[i]
#endif
uint next_sum = 0;

/// Sum of all threads modulo 2^64, in every thread. Three sets of parts, all zero in the beginning: one barrier is
/// enough.
uvec2 sum64(uvec2 own) {
  const uint at = 3 * next_sum;
  next_sum = next_sum == 2 ? 0 : next_sum + 1;
  if (own.x != 0) atomicAdd(PARTS(at), own.x & 0x3FFFFFu);
  const uint middle_part = (own.x >> 22 | own.y << 10) & 0x3FFFFFu;
  if (middle_part != 0) atomicAdd(PARTS(at + 1), middle_part);
  if (own.y >> 12 != 0) atomicAdd(PARTS(at + 2), own.y >> 12);
  if (THREAD < 3) PARTS(3 * next_sum + THREAD) = 0;  // read two sums ago
  barrier();
  const uint middle = PARTS(at + 1);
  const uvec2 low = uvec2(PARTS(at), 0);
  return add64(add64(low, uvec2(middle << 22, middle >> 10)), uvec2(0, PARTS(at + 2) << 12));
}
void begin_sums() {
  barrier();
  if (THREAD < 10) PARTS(THREAD) = 0;
  barrier();
}

#ifdef STAGE_COUNT
void main() {
  for (uint i = THREAD; i < kCandidateBins; i += kThreads) here[i] = 0;
  barrier();
  begin_mask();
  const bool sums = option(kDrawTopNSigma) > 0.0;
  uint count = 0, largest = 0;
  uvec2 sum = uvec2(0), squares = uvec2(0);
  const uint step = gl_NumWorkGroups.x * kThreads;
  for (uint i = gl_WorkGroupID.x * kThreads + THREAD; i < a.vocab; i += step) {
    const float logit = logits.v[i];
    const uint key = token_key(i, logit);
    if (key == 0) continue;
    atomicAdd(here[bin_of(key)], 1);
    largest = max(largest, key);
    ++count;
    if (!sums) continue;
    const int units = int(floor(clamp(logit, -1024.0, 1024.0) * 4096.0));
    const uint size = uint(abs(units));
    uvec2 square;
    umulExtended(size, size, square.y, square.x);
    sum = add64(sum, uvec2(uint(units), units < 0 ? ~0u : 0u));
    squares = add64(squares, square);
  }
  barrier();
  for (uint i = THREAD; i < kCandidateBins; i += kThreads) {
    if (here[i] != 0) atomicAdd(bins.counted[i], here[i]);
  }
  begin_sums();
  atomicMax(PARTS(9), largest);
  count = sum64(uvec2(count, 0)).x;
  if (sums) {
    sum = sum64(sum);
    squares = sum64(squares);
  }
  if (THREAD != 0) return;
  atomicMax(found.max_key, PARTS(9));
  spreads.of[gl_WorkGroupID.x].count = count;
  spreads.of[gl_WorkGroupID.x].sum = uint[2](sum.x, sum.y);
  spreads.of[gl_WorkGroupID.x].squares = uint[2](squares.x, squares.y);
}
#else

float max_logit;  // of what can be chosen
float farthest;   // below it top-n-sigma leaves
uint candidates;  // what can be chosen

/// Reads what all workgroups counted.
void read_spread() {
  const bool sums = option(kDrawTopNSigma) > 0.0;
  const bool mine = THREAD < kDrawGroups;
  candidates = sum64(uvec2(mine ? spreads.of[THREAD].count : 0, 0)).x;
  max_logit = key_logit(found.max_key);
  farthest = key_logit(kInfiniteKey);
  if (!sums) return;
  uvec2 sum = uvec2(0), squares = uvec2(0);
  if (mine) {
    sum = uvec2(spreads.of[THREAD].sum[0], spreads.of[THREAD].sum[1]);
    squares = uvec2(spreads.of[THREAD].squares[0], spreads.of[THREAD].squares[1]);
  }
  sum = sum64(sum);
  squares = sum64(squares);
  if (candidates == 0) return;
  precise float sigma = float(deviation(candidates, sum, squares)) * 6.103515625e-05;  // 2^-14
  precise float limit = option(kDrawTopNSigma) * sigma;
  farthest = limit;
}

/// token_weights of runtime/sampling/token_weights.cpp.
uint weight(float logit) {
  precise float below = logit - max_logit;
  precise float scaled = below * option(kDrawHeat);
  if (!(scaled > -20.5)) return 0;
  precise float n = scaled * 1.44269504;
  n = n + 12582912.0;
  n = n - 12582912.0;
  precise float far = n * 0.693359375;
  precise float near = n * -2.12194440e-4;
  precise float r = scaled - far;
  r = r - near;
  precise float p = r * (1.0 / 5040.0);
  p = p + 1.0 / 720.0;
  p = p * r;
  p = p + 1.0 / 120.0;
  p = p * r;
  p = p + 1.0 / 24.0;
  p = p * r;
  p = p + 1.0 / 6.0;
  p = p * r;
  p = p + 0.5;
  p = p * r;
  p = p + 1.0;
  p = p * r;
  p = p + 1.0;
  const float power = intBitsToFloat((int(n) + 127) << 23);
  precise float whole = p * power;
  whole = whole * 268435456.0;
  whole = whole + 0.5;
  return uint(int(whole));
}
bool near_enough(float logit) {
  precise float below = max_logit - logit;
  return below <= farthest;
}

shared uint lowest;
shared uint counts[kThreads];

/// lowest <- the lowest bin such that at least `n` logits lie in it and above, 0 if there are fewer; or where n is 0
/// the lowest such that at most kMostCandidates do. All threads of the workgroup must call.
void find_lowest(uint n) {
  const uint own_bins = kCandidateBins / kThreads;
  uint own = 0;
  for (uint i = 0; i < own_bins; ++i) own += bins.counted[THREAD * own_bins + i];
  counts[THREAD] = own;
  if (THREAD == 0) lowest = 0;
  barrier();
  uint above = 0;
  for (uint t = THREAD + 1; t < kThreads; ++t) above += counts[t];
  uint bin = (THREAD + 1) * own_bins;
  if (n > 0 && above < n && above + own >= n) {  // one thread at most
    while (above < n) above += bins.counted[--bin];
    lowest = bin;
  } else if (n == 0 && above <= kMostCandidates && above + own > kMostCandidates) {
    for (; above + bins.counted[bin - 1] <= kMostCandidates; --bin) above += bins.counted[bin - 1];
    lowest = bin;
  }
  barrier();
}
/// How many find_lowest is asked for.
uint wanted_count() { return option(kDrawHeat) == 0.0 ? 1 : wanted.word[kDrawTopK]; }

/// The tokens, from and to, that a workgroup of STAGE_COLLECT looks at.
uvec2 group_share(uint group) {
  const uint own = (a.vocab + kDrawGroups - 1) / kDrawGroups;
  return min(uvec2(group * own, (group + 1) * own), uvec2(a.vocab));
}

#ifdef STAGE_COLLECT
void main() {
  begin_mask();
  begin_sums();
  read_spread();
  find_lowest(wanted_count());
  const bool some = wanted.word[kDrawMinWeight] > 1 && wanted.word[kDrawTopP] == 0;
  const bool weighs = option(kDrawHeat) != 0.0 && wanted.word[kDrawTopK] == 0 && !some;
  uvec2 total = uvec2(0);
  const uvec2 own = group_share(gl_WorkGroupID.x);
  for (uint i = own.x + THREAD; i < own.y; i += kThreads) {
    const float logit = logits.v[i];
    const uint key = token_key(i, logit);
    if (key == 0) continue;
    if (weighs && near_enough(logit)) total = add64(total, uvec2(weight(logit), 0));
    if (bin_of(key) < lowest) continue;
    const uint at = atomicAdd(found.count, 1);
    if (at < kMostCandidates) found.of[at] = uvec2(i, key);
  }
  total = sum64(total);
  if (THREAD == 0) spreads.of[gl_WorkGroupID.x].total = uint[2](total.x, total.y);
}
#else

shared uint ids[kMostCandidates];
shared uint keys[kMostCandidates];
shared uint weights[kMostCandidates];
shared uvec2 shares[kThreads];
shared uvec2 rest;
shared uint best_at;

bool in_row;  // passes over the row, not over the list
uint items;   // of either
// What is left: of keys those above top_key and that one up to an id; of weights likewise; without XTC's.
uint top_key, top_last, cut, cut_last, least, spared;

uint id_at(uint i) { return in_row ? i : ids[i]; }
uint key_at(uint i) { return in_row ? token_key(i, logits.v[i]) : keys[i]; }
/// By the key, of what top-k and top-n-sigma leave.
uint weigh(uint i) {
  const uint key = key_at(i);
  const bool stays = key > top_key || (key == top_key && id_at(i) <= top_last);
  const float logit = key_logit(key);
  return key != 0 && stays && near_enough(logit) ? weight(logit) : 0;
}
uint weight_at(uint i) { return in_row ? weigh(i) : weights[i]; }

const uint kAtKey = 0;     // 1 for each of the key top_key
const uint kAtWeight = 1;  // the weights that are `cut`
const uint kLeft = 2;      // the weights that are left
uint value_at(uint kind, uint i) {
  if (kind == kAtKey) return key_at(i) == top_key ? 1 : 0;
  const uint w = weight_at(i);
  if (kind == kAtWeight) return w == cut ? w : 0;
  const uint id = id_at(i);
  const bool stays = w > cut || (w == cut && id <= cut_last);
  return stays && !(w >= least && id != spared) ? w : 0;
}

/// How many keys are at least `low`.
uint reaching_keys(uint low) {
  uint own = 0;
  for (uint i = THREAD; i < items; i += kThreads) own += key_at(i) >= low ? 1 : 0;
  return sum64(uvec2(own, 0)).x;
}
/// What the weights of at least `low` come to.
uvec2 reaching_weights(uint low) {
  uvec2 own = uvec2(0);
  for (uint i = THREAD; i < items; i += kThreads) {
    const uint w = weight_at(i);
    if (w >= low) own = add64(own, uvec2(w, 0));
  }
  return sum64(own);
}
uvec2 all_left() {
  uvec2 own = uvec2(0);
  for (uint i = THREAD; i < items; i += kThreads) own = add64(own, uvec2(value_at(kLeft, i), 0));
  return sum64(own);
}

/// The first id in [first, end) at which the values from `first` up to it come to more than `target`, which all
/// together do: a share of the range for each thread, then the same in the share where it is.
uint id_in_row(uint kind, uvec2 target, uint first, uint end) {
  while (true) {
    const uint own = (end - first + kThreads - 1) / kThreads;
    const uint from = min(first + THREAD * own, end), to = min(from + own, end);
    uvec2 sum = uvec2(0);
    for (uint i = from; i < to; ++i) sum = add64(sum, uvec2(value_at(kind, i), 0));
    barrier();  // what was in shares was read
    shares[THREAD] = sum;
    barrier();
    uvec2 before = uvec2(0);
    for (uint t = 0; t < THREAD; ++t) before = add64(before, shares[t]);
    if (!less64(target, before) && less64(target, add64(before, sum)))
      best_at = from, rest = sub64(target, before);
    barrier();
    first = best_at;
    target = rest;
    end = min(first + own, end);
    barrier();
    if (own == 1) return first;
  }
}

/// The id at which, by ascending id, the values up to it first come to more than `target`, which all together do.
uint id_beyond(uint kind, uvec2 target) {
  if (in_row) return id_in_row(kind, target, 0, a.vocab);
  for (uint i = THREAD; i < items; i += kThreads) {
    const uint own = value_at(kind, i), id = ids[i];
    if (own == 0) continue;
    uvec2 before = uvec2(0);
    for (uint j = 0; j < items; ++j) {
      if (ids[j] < id) before = add64(before, uvec2(value_at(kind, j), 0));
    }
    if (!less64(target, before) && less64(target, add64(before, uvec2(own, 0)))) best_at = id;
  }
  barrier();
  const uint found_at = best_at;
  barrier();
  return found_at;
}

/// The weight of all that top-n-sigma leaves, as STAGE_COLLECT summed it up; that of each workgroup in shares.
uvec2 collected_weight() {
  uvec2 own = uvec2(0);
  if (THREAD < kDrawGroups) own = uvec2(spreads.of[THREAD].total[0], spreads.of[THREAD].total[1]);
  barrier();  // what was in shares was read
  shares[THREAD] = own;
  return sum64(own);  // and a barrier
}

/// Leaves the k likeliest.
void keep_top_k(uint k) {
  if (candidates <= k) return;
  uint low = lowest << 20;  // the last of them lies in this bin
  uint above = reaching_keys((lowest + 1) << 20);
  for (int bit = 19; bit >= 0; --bit) {
    const uint middle = low | 1u << bit;
    const uint reached = reaching_keys(middle);
    if (reached < k) {
      above = reached;
    } else {
      low = middle;
    }
  }
  top_key = low;
  top_last = id_beyond(kAtKey, uvec2(k - above - 1, 0));
}

/// Leaves the nucleus of what weighs `total` in all; false: the list may not hold all of it.
bool keep_top_p(uvec2 total, uint units) {
  const uvec2 wanted_weight = share_of(total, units);
  if (less64(reaching_weights(1), wanted_weight)) return false;
  uint low = 0;
  uvec2 above = uvec2(0);
  for (int bit = 28; bit >= 0; --bit) {
    const uint middle = low | 1u << bit;
    const uvec2 reached = reaching_weights(middle);
    if (less64(reached, wanted_weight)) {
      above = reached;
    } else {
      low = middle;
    }
  }
  cut = low;
  cut_last = id_beyond(kAtWeight, sub64(sub64(wanted_weight, above), uvec2(1, 0)));
  return true;
}

/// XTC: of what weighs `least` or more only the lightest stays, among equal ones the one with the highest id.
void exclude_top_choices(uvec2 total) {
  uvec2 from = share_of(total, wanted.word[kDrawXtc]);
  if (from.y != 0 || from.x > 1u << 28) return;  // more than one token weighs
  const uint top = max(from.x, 1);
  uvec2 count = uvec2(0);
  uint lightest = ~0u;
  for (uint i = THREAD; i < items; i += kThreads) {
    const uint w = value_at(kLeft, i);
    if (w < top) continue;
    lightest = min(lightest, w);
    ++count.x;
  }
  if (THREAD == 0) best_at = ~0u;
  count = sum64(count);  // and a barrier
  if (count.x < 2) return;
  atomicMin(best_at, lightest);
  barrier();
  lightest = best_at;
  barrier();
  if (THREAD == 0) best_at = 0;
  barrier();
  for (uint i = THREAD; i < items; i += kThreads) {
    if (value_at(kLeft, i) == lightest) atomicMax(best_at, id_at(i));
  }
  barrier();
  spared = best_at;
  least = top;
  barrier();
}

/// Whether no token beyond the list can be left whatever is cut, or weighs anything.
bool list_holds_all() {
  if (wanted.word[kDrawTopK] != 0 || items == candidates) return true;
  const float beyond = key_logit(lowest << 20);
  return !near_enough(beyond) || weight(beyond) == 0;
}

void leave_all() { top_key = 0, top_last = ~0u, cut = 1, cut_last = ~0u, least = ~0u, spared = 0; }

/// Cuts; false: the list may not hold all that is left.
bool cut_items() {
  leave_all();
  if (wanted.word[kDrawTopK] != 0) keep_top_k(wanted.word[kDrawTopK]);
  if (!in_row) {
    barrier();
    for (uint i = THREAD; i < items; i += kThreads) weights[i] = weigh(i);
    barrier();
  }
  const bool whole = in_row || list_holds_all();
  if (wanted.word[kDrawTopP] != 0) {
    uvec2 total;
    if (whole) {
      total = reaching_weights(1);
    } else {
      total = collected_weight();
    }
    if (!keep_top_p(total, wanted.word[kDrawTopP])) return false;
  }
  if (wanted.word[kDrawMinWeight] > cut) cut = wanted.word[kDrawMinWeight], cut_last = ~0u;
  if (whole) return true;
  // Weights rise with logits up to a rounding.
  const uint beyond = weight(key_logit(lowest << 20));
  return cut > beyond + beyond / 1024 + 1;
}

/// A draw where only top-n-sigma cut, if that: in the share of one workgroup of STAGE_COLLECT.
uint draw_of_all() {
  leave_all();
  in_row = true;
  bool exact;
  uvec2 target = share_below(collected_weight(), turn(kTurnWord), exact);
  uint group = 0;
  for (; !less64(target, shares[group]); ++group) target = sub64(target, shares[group]);
  const uvec2 own = group_share(group);
  return id_in_row(kLeft, target, own.x, own.y);
}

uint choose() {
  if (option(kDrawHeat) == 0.0 || found.max_key == kInfiniteKey) {
    // The first of the largest.
    uint own = ~0u;
    for (uint i = THREAD; i < items; i += kThreads) {
      if (key_at(i) == found.max_key) own = min(own, id_at(i));
    }
    if (THREAD == 0) best_at = ~0u;
    barrier();
    atomicMin(best_at, own);
    barrier();
    return best_at;
  }
  if (wanted.word[kDrawTopK] == 0 && wanted.word[kDrawTopP] == 0 && wanted.word[kDrawMinWeight] <= 1 &&
      turn(kTurnXtc) == 0)
    return draw_of_all();
  if (!cut_items()) {
    in_row = true, items = a.vocab;
    cut_items();
  }
  uvec2 total = all_left();
  if (turn(kTurnXtc) != 0) {
    exclude_top_choices(total);
    total = all_left();
  }
  bool exact;
  return id_beyond(kLeft, share_below(total, turn(kTurnWord), exact));
}

/// The row as it was, the last change first.
void restore() {
  sync_buffers();
  if (wanted.word[kDrawDryRange] > 0) {
    const uint at = past.word[kPastDryAt], seen = seen_by_dry(at);
    for (uint i = 1 + THREAD; i < seen; i += kThreads) {
      if (past.word[kPastLowered + 2 * i] != 0)
        logits.v[dry_token(at, i)] = uintBitsToFloat(past.word[kPastLowered + 2 * i + 1]);
    }
    sync_buffers();
  }
  const uint seen = seen_by_penalties();
  for (uint i = THREAD; i < seen; i += kThreads) {
    if (past.word[kPastPenalised + 2 * i] != 0)
      logits.v[past.word[kPastRecent + i]] = uintBitsToFloat(past.word[kPastPenalised + 2 * i + 1]);
  }
  sync_buffers();
  for (uint i = THREAD; i < wanted.word[kDrawBiases]; i += kThreads)
    logits.v[wanted.word[kDrawBiasesAt + 2 * i]] = uintBitsToFloat(past.word[kPastBiased + i]);
}

/// `token` goes into the rings, and DRY's lengths follow it.
void follow(uint token) {
  const uint range = wanted.word[kDrawDryRange], window = wanted.word[kDrawWindow];
  const uint dry_at = past.word[kPastDryAt], recent_at = past.word[kPastRecentAt];
  if (range > 0) {
    const bool breaks = is_breaker(token);
    const uint last = min(dry_at, range - 1);
    for (uint i = 1 + THREAD; i <= last; i += kThreads) {
      const uint at = kPastLengths + i;
      past.word[at] = !breaks && dry_token(dry_at, i) == token ? past.word[at] + 1 : 0;
    }
  }
  sync_buffers();  // all have read what thread 0 changes
  if (THREAD != 0) return;
  if (range > 0) {
    past.word[kPastDry + dry_at % range] = token;
    past.word[kPastDryAt] = dry_at + 1 < 2 * range ? dry_at + 1 : range;
  }
  if (window > 0) {
    past.word[kPastRecent + recent_at % window] = token;
    past.word[kPastRecentAt] = recent_at + 1 < 2 * window ? recent_at + 1 : window;
  }
}

void main() {
  begin_mask();
  begin_sums();
  read_spread();
  uint token = kNoToken;
  if (found.max_key != 0) {
    find_lowest(wanted_count());
    const uint n = found.count;
    in_row = n == 0 || n > kMostCandidates;
    items = in_row ? a.vocab : n;
    if (!in_row) {
      for (uint i = THREAD; i < n; i += kThreads) ids[i] = found.of[i].x, keys[i] = found.of[i].y;
    }
    barrier();
    token = choose();
  }
  restore();
  const uint next = token == kNoToken ? 0 : token;
  follow(next);
  if (THREAD != 0) return;
  drawn.word[kDrawnToken] = token;
  drawn.word[kDrawnNext] = next;
}
#endif
#endif
#endif
