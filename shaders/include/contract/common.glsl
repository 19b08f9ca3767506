// SPDX-License-Identifier: Apache-2.0
// Thread numbering, sums over teams of lanes, and functions whose accuracy does not depend on the driver.
#extension GL_EXT_control_flow_attributes : require
#ifdef RUNNEL_SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "contract/interface.h"

#ifndef RUNNEL_OWN_WORKGROUP
layout(local_size_x = kThreads) in;
#endif

/// Lanes of a subgroup; the host demands this size. 1: the device cannot promise one, sums go through shared memory.
layout(constant_id = 0) const uint kSubgroup = 1;

#ifdef RUNNEL_SUBGROUPS
#define THREAD (gl_SubgroupID * kSubgroup + gl_SubgroupInvocationID)
#else
#define THREAD gl_LocalInvocationIndex
#endif

#ifndef RUNNEL_OWN_WORKGROUP
shared float team_values[kThreads / kSubgroup];

// Sum and maximum over teams of `team` consecutive threads (a power of two), the same in every lane of the team. All
// threads of the workgroup must call. The order of additions depends on nothing but sizes.
#define TEAM_REDUCE(NAME, COMBINE)                                                              \
  float NAME(float v, const uint team) {                                                        \
    const uint inner = min(team, kSubgroup);                                                    \
    TEAM_SHUFFLES(COMBINE)                                                                      \
    if (team > kSubgroup) {                                                                     \
      const uint groups = team / kSubgroup;                                                     \
      barrier();                                                                                \
      if (THREAD % kSubgroup == 0) team_values[THREAD / kSubgroup] = v;                         \
      barrier();                                                                                \
      const uint first = THREAD / team * groups;                                                \
      v = team_values[first];                                                                   \
      for (uint i = 1; i < groups; ++i) v = COMBINE(v, team_values[first + i]);                 \
    }                                                                                           \
    return v;                                                                                   \
  }
#ifdef RUNNEL_SUBGROUPS
#define TEAM_SHUFFLES(COMBINE)                    \
  [[unroll]] for (uint i = inner / 2; i > 0; i /= 2) \
    v = COMBINE(v, subgroupShuffleXor(v, i));
#else
#define TEAM_SHUFFLES(COMBINE)
#endif
float plus(float a, float b) { return a + b; }
TEAM_REDUCE(team_sum, plus)
TEAM_REDUCE(team_max, max)
#endif

/// e^x within 2 ulp; 0 below -87. (Vulkan allows exp an error of 3 + 2|x| ulp.)
float exact_exp(float x) {
  const float n = roundEven(clamp(x, -126.0, 126.0) * 1.44269504);
  precise float r = fma(n, -0.693145752, x);
  r = fma(n, -1.42860677e-6, r);
  precise float p = 1.9875691e-4;
  p = fma(p, r, 1.3981999e-3);
  p = fma(p, r, 8.3334519e-3);
  p = fma(p, r, 4.1665796e-2);
  p = fma(p, r, 1.6666665e-1);
  p = fma(p, r, 5.0000001e-1);
  p = fma(p * r, r, r + 1.0);
  const float e = p * uintBitsToFloat(uint(int(n) + 127) << 23);
  return x < -87.0 ? 0.0 : e;
}

/// e^x - 1 for x <= 0, relative error below 2e-7 also near 0.
float exact_expm1(float x) {
  precise float p = 1.0 / 40320.0;
  p = fma(p, x, 1.0 / 5040.0);
  p = fma(p, x, 1.0 / 720.0);
  p = fma(p, x, 1.0 / 120.0);
  p = fma(p, x, 1.0 / 24.0);
  p = fma(p, x, 1.0 / 6.0);
  p = fma(p, x, 0.5);
  p = fma(p * x, x, x);
  return x > -0.5 ? p : exact_exp(x) - 1.0;
}

/// log(1 + y) for 0 <= y <= 1 as 2 atanh(y / (2 + y)).
float exact_log1p(float y) {
  const float z = y / (2.0 + y);
  const float s = z * z;
  precise float p = 1.0 / 15.0;
  p = fma(p, s, 1.0 / 13.0);
  p = fma(p, s, 1.0 / 11.0);
  p = fma(p, s, 1.0 / 9.0);
  p = fma(p, s, 1.0 / 7.0);
  p = fma(p, s, 1.0 / 5.0);
  p = fma(p, s, 1.0 / 3.0);
  return 2.0 * fma(p * s, z, z);
}

float log_sigmoid(float x) { return min(x, 0.0) - exact_log1p(exact_exp(-abs(x))); }

float swish(float x) { return x / (1.0 + exact_exp(-x)); }

float sigmoid(float x) { return 1.0 / (1.0 + exact_exp(-x)); }

/// tanh within 1e-7 of 1.
float tanh_of(float x) {
  const float e = exact_exp(-2.0 * abs(x));
  return sign(x) * (1.0 - e) / (1.0 + e);
}

float activate(const uint kind, float x) {
  if (kind == kSwish) return swish(x);
  if (kind == kRelu) return max(x, 0.0);
  if (kind == kTanh) return tanh_of(x);
  if (kind == kSigmoid) return sigmoid(x);
  return x;
}
