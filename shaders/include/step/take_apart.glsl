// SPDX-License-Identifier: Apache-2.0
// decode_even, where most workgroups have slots: what take_projections() does, by threads with a pair of columns of q or k, a
// gate or a value each. A look and its test stand side by side, so that none waits for the slots, which have been asked for
// before; pairs are turned by registers that are loaded once a token.

const uint kApart = !kMostHaveSlots || !kRotary ? 0 : QUERIES > 1 ? 0 : K + MEMORY + kColumns > THREADS ? 0 : 1;
vec4 token_turn = vec4(0.0);  // of this thread's pair

void take_apart(const Head h, uint base, uint f_bias) {
  const uint half_k = K / 2, single = THREADS - 1 - THREAD;  // a gate, or a value behind the gates
  const uint q0 = base + kAtProjected + (h.head * G + h.query) * K, k0 = base + kAtProjected + (G * H + h.head) * K;
  const uint v0 = base + kAtProjected + (G + 1) * H * K + h.head * V + h.column;
  const uint f0 = base + kAtProjected + (G + 1) * H * K + H * V + h.head * MEMORY;
  const bool paired = THREAD < K;
  if (subgroupAll(!paired && single >= MEMORY + kColumns)) return;
  // Others of a subgroup look at something, too.
  uint at = single < MEMORY ? f0 + single : v0 + min(single - MEMORY, kColumns - 1);
  if (paired) at = (THREAD < half_k ? q0 : k0) + THREAD % half_k;
  const uint behind = at + (paired ? half_k : 0);
  float bias = 0.0;
  if (f_bias != kNone) bias = vectors.v[f_bias + h.head * MEMORY + min(single, MEMORY - 1)];
  uint first, second;
  [[dont_unroll]] for (;;) {
    first = act.v[at];
    second = act.v[behind];
    --poll_limit;
    if (subgroupAll((((first ^ tag) | (second ^ tag)) & 1) == 0 || poll_limit < 0)) break;
  }
  const float x = uintBitsToFloat(first & ~kTag), z = uintBitsToFloat(second & ~kTag);
  if (paired) {
    const uint to = THREAD % half_k, other = to + half_k;
    const vec4 turn = token_turn;
    const float near = x * turn.x - z * turn.y, far = z * turn.x + x * turn.y;
    if (THREAD < half_k) {
      queries[to / 4][to % 4] = x;
      queries[other / 4][other % 4] = z;
      queries[(K + to) / 4][(K + to) % 4] = near;
      queries[(K + other) / 4][(K + other) % 4] = far;
      queries[(2 * K + to) / 4][(2 * K + to) % 4] = x * turn.z - z * turn.w;
      queries[(2 * K + other) / 4][(2 * K + other) % 4] = z * turn.z + x * turn.w;
    } else {
      keys[to / 4][to % 4] = x;
      keys[other / 4][other % 4] = z;
      keys[(K + to) / 4][(K + to) % 4] = near;
      keys[(K + other) / 4][(K + other) % 4] = far;
    }
  } else if (single < MEMORY) {
    take_gate(single, bias + x);
  } else if (single < MEMORY + kColumns) {
    values[single - MEMORY] = x;
  }
}
