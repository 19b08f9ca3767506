// SPDX-License-Identifier: Apache-2.0
// What DRY (runtime/sampling/dry.h) keeps from token to token: the tokens generated last, and for each distance to an
// earlier one how long a repetition goes on from there.
#pragma once

#include "cuda/device/sample/choice.cuh"

namespace runnel::cuda {

struct Repetitions {
  const Sample& s;
  int at;  // of the ring, before this token

  /// None, if DRY is off.
  static __device__ Repetitions of(const Sample& s) {
    return {s, s.dry_range > 0 ? *s.dry_recent_at : 0};
  }

  __device__ bool is_breaker(std::int32_t token) const {
    return (s.dry_breakers[token / 32] >> (token % 32) & 1U) != 0;
  }
  /// The token generated `distance` places before the next one.
  __device__ std::int32_t token(int distance) const {
    return s.dry_recent[(at - distance) % s.dry_range];
  }
  /// use(token, repetition it would extend, distance, number among this thread's distances) for each that costs.
  /// @param tid, threads  this one and how many share the distances
  template <class Use>
  __device__ void for_each(int tid, int threads, const Use& use) const {
    const int seen = min(at, s.dry_range);
    for (int i = 1 + tid, own = 0; i < seen; i += threads, ++own) {
      const std::uint32_t length = min(s.dry_lengths[i], std::uint32_t(seen - i));
      if (length < s.dry_allowed) continue;
      const std::int32_t next = token(i);
      if (!is_breaker(next)) use(next, length, i, own);
    }
  }

  /// Each token that costs is used once, though several distances lead to it: all threads mark the longest repetition, and
  /// behind a barrier use(token, what its logit loses, distance, number among this thread's distances).
  __device__ void mark(int tid, int threads) const {
    for_each(tid, threads, [this](std::int32_t token, std::uint32_t length, int, int) {
      atomicMax(s.dry_longest + token, length);
    });
  }
  template <class Use>
  __device__ void for_each_marked(int tid, int threads, const Use& use) const {
    for_each(tid, threads, [&](std::int32_t token, std::uint32_t, int distance, int own) {
      const std::uint32_t longest = atomicExch(s.dry_longest + token, 0U);
      if (longest != 0) use(token, s.dry_losses[longest], distance, own);  // else another thread's
    });
  }

  /// The lengths after a further token, which goes into the ring.
  __device__ void follow(int tid, int threads, std::int32_t further) const {
    const bool breaks = is_breaker(further);
    const int last = min(at, s.dry_range - 1);
#pragma unroll 8
    for (int i = 1 + tid; i <= last; i += threads) {
      std::uint32_t& length = s.dry_lengths[i];
      length = !breaks && token(i) == further ? length + 1 : 0U;
    }
    if (tid != 0) return;
    s.dry_recent[at % s.dry_range] = further;  // no distance of above leads there
    *s.dry_recent_at = at + 1 < 2 * s.dry_range ? at + 1 : s.dry_range;
  }
};

}  // namespace runnel::cuda
