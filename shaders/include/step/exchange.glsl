// SPDX-License-Identifier: Apache-2.0
// Values that workgroups of decode_step hand each other: a place is written once a token, and the lowest bit of its float
// says whether it is this token's. Readers use the value without that bit, which alternates.

#ifdef RUNNEL_ADDRESSES
layout(buffer_reference, std430, buffer_reference_align = 16) volatile coherent buffer Act { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) volatile coherent buffer Act2 { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) volatile coherent buffer Act4 { uvec4 v[]; };
#define act Act(uvec2(a.act_low, a.act_high))
#define act2 Act2(uvec2(a.act_low, a.act_high))
#define act4 Act4(uvec2(a.act_low, a.act_high))
/// Address of a byte of the weights.
uvec2 weights_plus(uint bytes) {
  uint carry;
  const uint low = uaddCarry(a.weights_low, bytes, carry);
  return uvec2(low, a.weights_high + carry);
}
#else
layout(set = 0, binding = 1) volatile coherent buffer Act { uint v[]; } act;
layout(set = 0, binding = 1) volatile coherent buffer Act2 { uvec2 v[]; } act2;
layout(set = 0, binding = 1) volatile coherent buffer Act4 { uvec4 v[]; } act4;
#endif

// Lanes of a subgroup wait for each other, so that drivers know that they go on together: all must call. Each waits for a
// value, or a vector, of which `v` was seen, if it is `mine`; others have the tag for it.
float wait_on(bool mine, uint v, uint at) {
  while (!subgroupAll(((v ^ tag) & 1) == 0 || poll_limit < 0)) {
    --poll_limit;
    if (mine) v = act.v[at];
  }
  return uintBitsToFloat(v & ~kTag);
}
vec2 wait_on2(bool mine, uvec2 v, uint at2) {
  while (!subgroupAll((((v.x ^ tag) | (v.y ^ tag)) & 1) == 0 || poll_limit < 0)) {
    --poll_limit;
    if (mine) v = act2.v[at2];
  }
  return uintBitsToFloat(v & ~kTag);
}
uvec4 wait_for4(bool mine, uvec4 v, uint at4) {
  while (!subgroupAll(((((v.x ^ tag) | (v.y ^ tag)) | ((v.z ^ tag) | (v.w ^ tag))) & 1) == 0 || poll_limit < 0)) {
    --poll_limit;
    if (mine) v = act4.v[at4];
  }
  return v;
}
vec4 wait_on4(bool mine, uvec4 v, uint at4) { return uintBitsToFloat(wait_for4(mine, v, at4) & ~kTag); }
uint look(bool mine, uint at) {
  uint v = tag;
  if (mine) v = act.v[at];
  return v;
}
uvec2 look2(bool mine, uint at2) {
  uvec2 v = uvec2(tag);
  if (mine) v = act2.v[at2];
  return v;
}
uvec4 look4(bool mine, uint at4) {
  uvec4 v = uvec4(tag);
  if (mine) v = act4.v[at4];
  return v;
}
float without_tag(float v) { return uintBitsToFloat(floatBitsToUint(v) & ~kTag); }
// Values of a SwiGLU as two f16 a word, where readers round blocks of them to eight bits. An eighth of them, so that f16's
// range is 0.0005 to 500,000; what is larger becomes the largest, what is smaller is exact to a millionth.
const float kExchangedPart = 0.125;
void publish_halves(uint at, float v, float w) {
  const vec2 parts = clamp(vec2(v, w) * kExchangedPart, -65472.0, 65472.0);
  act.v[at] = ((packHalf2x16(parts) + kTag) & ~kTag) | tag;
}
void publish(uint at, float v) { act.v[at] = (floatBitsToUint(v) & ~kTag) | tag; }

float lanes_sum(float v) {
  [[unroll]] for (uint i = kLanes / 2; i > 0; i /= 2) v += subgroupShuffleXor(v, i);
  return v;
}
/// Adds up COUNT sums (up to 8, a power of two, of an array of 8) over LANES lanes side by side. Each step halves the sums
/// that a lane has or, when it has one, the lanes that have another. In the end lane n has the sums from
/// n * COUNT / LANES on.
#define ADD_TWO(SUMS, A, B, STEP, UPPER) SUMS[A] = (UPPER ? SUMS[B] : SUMS[A]) + subgroupShuffleXor(UPPER ? SUMS[A] : SUMS[B], STEP);
#define ADD_STEP(SUMS, COUNT, LANES, LANE_, BITS)                       \
  if ((LANES >> BITS) > 0) {                                            \
    const uint step = LANES >> BITS, left = COUNT >> BITS;              \
    const bool upper = (LANE_ & step) != 0;                             \
    if (left == 4) {                                                    \
      ADD_TWO(SUMS, 0, 4, step, upper)                                  \
      ADD_TWO(SUMS, 1, 5, step, upper)                                  \
      ADD_TWO(SUMS, 2, 6, step, upper)                                  \
      ADD_TWO(SUMS, 3, 7, step, upper)                                  \
    } else if (left == 2) {                                             \
      ADD_TWO(SUMS, 0, 2, step, upper)                                  \
      ADD_TWO(SUMS, 1, 3, step, upper)                                  \
    } else if (left == 1) {                                             \
      ADD_TWO(SUMS, 0, 1, step, upper)                                  \
    } else {                                                            \
      SUMS[0] += subgroupShuffleXor(SUMS[0], step);                     \
    }                                                                   \
  }
#define ADD_LANES(SUMS, COUNT, LANES, LANE_)  \
  ADD_STEP(SUMS, COUNT, LANES, LANE_, 1)      \
  ADD_STEP(SUMS, COUNT, LANES, LANE_, 2)      \
  ADD_STEP(SUMS, COUNT, LANES, LANE_, 3)      \
  ADD_STEP(SUMS, COUNT, LANES, LANE_, 4)      \
  ADD_STEP(SUMS, COUNT, LANES, LANE_, 5)
float lanes_max(float v) {
  [[unroll]] for (uint i = kLanes / 2; i > 0; i /= 2) v = max(v, subgroupShuffleXor(v, i));
  return v;
}
