#version 460
// SPDX-License-Identifier: Apache-2.0
// The likeliest tokens of a row of logits, a few more than wanted, so that the host's sampler need not see the row.
// STAGE_COUNT: how many logits have each upper 12 bits. STAGE_COLLECT: all logits down to the bits at which enough
// are reached, in any order, and the logits of the tokens in a list (biased or penalised, which may fall or rise).
// NaN and -inf are no candidates, and what a mask does not allow.
// Grid: (workgroups). Bound: latency.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#include "draw/logits.glsl"

layout(set = 0, binding = 0) readonly buffer Logits { float v[]; } logits;
layout(set = 0, binding = 1) buffer Bins { uint counted[kCandidateBins]; } bins;
layout(set = 0, binding = 2) buffer Found { uint count; uint unused; uvec2 of[kMostCandidates]; uint listed[]; } found;
layout(set = 0, binding = 3) readonly buffer Wanted { uint word[]; } wanted;
layout(push_constant) uniform Push { GreedyArgs a; };

uint bin_of(uint key) { return key >> 20; }
/// The key of a token's logit, 0 if it may not come.
uint token_key(bool masked, uint token, float logit) {
  const bool may = !masked || (wanted.word[kWantedMaskAt + token / 32] >> token % 32 & 1u) != 0;
  return may ? logit_key(logit) : 0;
}

#ifdef STAGE_COUNT
shared uint here[kCandidateBins];

void main() {
  for (uint i = THREAD; i < kCandidateBins; i += kThreads) here[i] = 0;
  barrier();
  const bool masked = wanted.word[kWantedMasked] != 0;
  const uint step = gl_NumWorkGroups.x * kThreads;
  for (uint i = gl_WorkGroupID.x * kThreads + THREAD; i < a.vocab; i += step) {
    const uint key = token_key(masked, i, logits.v[i]);
    if (key != 0) atomicAdd(here[bin_of(key)], 1);
  }
  barrier();
  for (uint i = THREAD; i < kCandidateBins; i += kThreads) {
    if (here[i] != 0) atomicAdd(bins.counted[i], here[i]);
  }
}
#else
const uint kOwnBins = kCandidateBins / kThreads;
shared uint counts[kThreads];
shared uint lowest;

/// The highest bin down to which at least `n` logits lie, 0 if there are fewer.
void find_lowest(uint n) {
  uint own = 0;
  for (uint i = 0; i < kOwnBins; ++i) own += bins.counted[THREAD * kOwnBins + i];
  counts[THREAD] = own;
  if (THREAD == 0) lowest = 0;
  barrier();
  uint above = 0;
  for (uint t = THREAD + 1; t < kThreads; ++t) above += counts[t];
  if (above < n && above + own >= n) {  // one thread at most
    uint bin = (THREAD + 1) * kOwnBins;
    while (above < n) above += bins.counted[--bin];
    lowest = bin;
  }
  barrier();
}

void main() {
  find_lowest(wanted.word[kWantedLikeliest]);
  const bool masked = wanted.word[kWantedMasked] != 0;
  const uint step = gl_NumWorkGroups.x * kThreads;
  for (uint i = gl_WorkGroupID.x * kThreads + THREAD; i < a.vocab; i += step) {
    const float logit = logits.v[i];
    const uint key = token_key(masked, i, logit);
    if (key == 0 || bin_of(key) < lowest) continue;
    const uint at = atomicAdd(found.count, 1);
    if (at < kMostCandidates) found.of[at] = uvec2(i, floatBitsToUint(logit));
  }
  for (uint i = gl_WorkGroupID.x * kThreads + THREAD; i < wanted.word[kWantedListed];
       i += step)
    found.listed[i] = floatBitsToUint(logits.v[wanted.word[kWantedList + i]]);
}
#endif
