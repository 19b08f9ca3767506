// SPDX-License-Identifier: Apache-2.0
// The likeliest of a workgroup's rows, each as its logit's key and 2^32 - 1 - row, so that of equal logits the first counts.

shared uvec2 best_of[kWarps];

uvec2 better(uvec2 a, uvec2 b) { return b.x > a.x || (b.x == a.x && b.y > a.y) ? b : a; }

/// The best of all threads, in all.
uvec2 likeliest(uvec2 mine) {
  [[unroll]] for (uint i = kLanes / 2; i > 0; i /= 2)
    mine = better(mine, uvec2(subgroupShuffleXor(mine.x, i), subgroupShuffleXor(mine.y, i)));
  barrier();
  if (gl_SubgroupInvocationID == 0) best_of[gl_SubgroupID] = mine;
  barrier();
  for (uint i = 0; i < kWarps; ++i) mine = better(mine, best_of[i]);
  return mine;
}
