// SPDX-License-Identifier: Apache-2.0
// What the decode kernels compute once a token, and their clocks.
#pragma once

#include <cstdint>

#include "cuda/device/async.cuh"
#include "cuda/device/math.cuh"

namespace runnel::cuda {

/// The positional slot that position t overwrites, or -1.
__device__ __forceinline__ int positional_target(std::uint64_t t, int sinks, int window) {
  const std::uint64_t first = std::uint64_t(sinks);
  return t < first ? int(t) : window > 0 ? sinks + int((t - first) % std::uint64_t(window)) : -1;
}

/// put(i, {cos, sin, the same of a sink's distance}) of `pairs` angles at position t. A sink is
/// never farther than sink_distance. Angles in double: the position grows without bound.
template <int kThreads, class Put>
__device__ __forceinline__ void make_rotation(const double* turns, int pairs, std::uint64_t t,
                                              int sink_distance, int tid, Put&& put) {
  const std::uint64_t near = t < std::uint64_t(sink_distance) ? t : std::uint64_t(sink_distance);
#pragma unroll 1
  for (int i = tid; i < pairs; i += kThreads) {
    const double f = turns[i], a = double(t) * f, b = double(near) * f;
    float4 r;
    sincospif(2.0F * float(a - floor(a)), &r.y, &r.x);
    sincospif(2.0F * float(b - floor(b)), &r.w, &r.z);
    put(i, r);
  }
}

/// Clocks of one thread, if they are wanted.
struct Trace {
  std::uint64_t* to;
  __device__ __forceinline__ void mark() {
    if (to != nullptr) *to++ = clock_now();
  }
};

}  // namespace runnel::cuda
