#version 460
// SPDX-License-Identifier: Apache-2.0
// token = the likeliest of a row of logits, the lowest of equal ones; NaN and -inf are never chosen. The token of the
// host's sampler (runtime/sampling/sampler.h), left where the next step reads it.
//
// Work split: each workgroup reads a share of the row; the last one to finish compares what they found.
// Grid: (workgroups, at most 128). Bound: latency.
#extension GL_GOOGLE_include_directive : require
#include "contract/common.glsl"
#include "draw/logits.glsl"

layout(set = 0, binding = 0) readonly buffer Logits { float v[]; } logits;
layout(set = 0, binding = 1) coherent buffer Found { uint finished; uint unused[3]; uvec2 of[]; } found;
layout(set = 0, binding = 2) writeonly buffer Drawn { uint word[]; } drawn;
layout(push_constant) uniform Push { GreedyArgs a; };

shared uvec2 best_of[kThreads];  // key and 2^32 - 1 - index
shared bool last;

uvec2 better(uvec2 a, uvec2 b) { return b.x > a.x || (b.x == a.x && b.y > a.y) ? b : a; }

/// The best of all threads, in thread 0.
uvec2 best(uvec2 mine) {
  best_of[THREAD] = mine;
  barrier();
  for (uint n = kThreads / 2; n > 0; n /= 2) {
    if (THREAD < n) best_of[THREAD] = better(best_of[THREAD], best_of[THREAD + n]);
    barrier();
  }
  return best_of[0];
}

void main() {
  const uint step = gl_NumWorkGroups.x * kThreads;
  uvec2 mine = uvec2(0);
  for (uint first = gl_WorkGroupID.x * kThreads + THREAD; first < a.vocab; first += 8 * step) {
    float loaded[8];
    [[unroll]] for (uint j = 0; j < 8; ++j) loaded[j] = logits.v[min(first + j * step, a.vocab - 1)];
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      const uint i = min(first + j * step, a.vocab - 1);
      mine = better(mine, uvec2(logit_key(loaded[j]), ~i));
    }
  }
  const uvec2 here = best(mine);
  if (THREAD == 0) {
    found.of[gl_WorkGroupID.x] = here;
    memoryBarrierBuffer();
    last = atomicAdd(found.finished, 1) + 1 == gl_NumWorkGroups.x;
  }
  barrier();
  if (!last) return;
  memoryBarrierBuffer();
  mine = THREAD < gl_NumWorkGroups.x ? found.of[THREAD] : uvec2(0);
  const uvec2 all = best(mine);
  if (THREAD != 0) return;
  found.finished = 0;
  const uint token = all.x == 0 ? kNoToken : ~all.y;
  drawn.word[kDrawnToken] = token;
  drawn.word[kDrawnNext] = all.x == 0 ? 0 : token;
}
