// SPDX-License-Identifier: Apache-2.0
// Threads of one block that draw a token together: their sums, their passes over the vocabulary.
#pragma once

#include "cuda/device/sample/choice.cuh"

namespace runnel::cuda {

inline constexpr int kSampleList = 2048;  // values between the bounds that shared memory holds
inline constexpr int kSampleChoices = kSampleList / 2;  // tokens in their place

/// Where a set of the largest values ends.
struct SampleEdge {
  std::uint32_t value;    // the largest that at least `wanted` reach
  std::uint64_t above;    // what the values above it come to
  std::uint64_t reached;  // the same with those equal to it
};

struct SampleShared {
  union {
    std::uint32_t list[kSampleList];
    std::uint64_t choices[kSampleChoices];  // of the tokens listed, as choice_of() makes them
  };
  std::uint32_t weights[kSampleChoices];  // of the same
  std::uint64_t sums[2][32];
  std::uint32_t counts[2][32];
  SampleEdge edge;
  std::uint32_t listed;
  int index;
};

struct SampleSum {
  std::uint64_t sum;
  std::uint32_t count;
};

/// All threads of the block: a multiple of 32, at most 1,024.
class SampleTeam {
 public:
  /// @param memory  no other's until the token is drawn
  __device__ SampleTeam(int threads, SampleShared& memory)
      : shared(memory), tid(thread_index()), lane(tid % 32), warp(tid / 32), threads_(threads) {}

  SampleShared& shared;
  const int tid, lane, warp;

  __device__ int threads() const { return threads_; }

  /// use(i, load(i)) for i in [0, n): eight loads of a thread under way together.
  template <class Load, class Use>
  __device__ void for_each(int n, const Load& load, const Use& use) const {
    constexpr int kTogether = 8;
    for (int first = tid; first < n; first += kTogether * threads()) {
      decltype(load(0)) loaded[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * threads();
        if (i < n) loaded[j] = load(i);
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * threads();
        if (i < n) use(i, loaded[j]);
      }
    }
  }

  /// use(i, logits[i]) for i in [0, n), which rises for a thread; vectors of four where there are whole ones.
  template <class Use>
  __device__ void for_each_logit(int n, const float* logits, const Use& use) const {
    if (n % 4 != 0) {
      for_each(
          n, [logits](int i) { return logits[i]; }, use);
      return;
    }
    constexpr int kTogether = 8;
    const int vectors = n / 4;
    const auto* const from = reinterpret_cast<const float4*>(logits);
#pragma unroll 1
    for (int first = tid; first < vectors; first += kTogether * threads()) {
      float4 loaded[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * threads();
        if (i < vectors) loaded[j] = from[i];
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const int i = first + j * threads();
        if (i >= vectors) continue;
        use(4 * i, loaded[j].x), use(4 * i + 1, loaded[j].y);
        use(4 * i + 2, loaded[j].z), use(4 * i + 3, loaded[j].w);
      }
    }
  }

  /// The largest of all threads, in each.
  __device__ std::uint64_t max(std::uint64_t v) {
    for (int o = 16; o > 0; o >>= 1) {
      const std::uint64_t other = shuffle(v, o);
      v = other > v ? other : v;
    }
    turn_ ^= 1;
    if (lane == 0) shared.sums[turn_][warp] = v;
    sync_block();
    for (int w = 0; w < threads() / 32; ++w) {
      const std::uint64_t other = shared.sums[turn_][w];
      v = other > v ? other : v;
    }
    return v;
  }

  /// Sum over the warp.
  /// @param v  below 2^48 in all
  static __device__ std::uint64_t warp_sum(std::uint64_t v) {
    const std::uint32_t low = __reduce_add_sync(~0U, std::uint32_t(v) & 0xFFFFFFU);
    const std::uint32_t high = __reduce_add_sync(~0U, std::uint32_t(v >> 24));
    return (std::uint64_t(high) << 24) + low;
  }

  /// Sums of all threads, the same in each. Two sets of places: one barrier is enough.
  template <bool kOnes>
  __device__ SampleSum sum(std::uint64_t sum, std::uint32_t count) {
    const int warps = threads() / 32;
    turn_ ^= 1;
    count = __reduce_add_sync(~0U, count);
    if constexpr (!kOnes) sum = warp_sum(sum);
    if (lane == 0) {
      shared.counts[turn_][warp] = count;
      if constexpr (!kOnes) shared.sums[turn_][warp] = sum;
    }
    sync_block();
    count = __reduce_add_sync(~0U, lane < warps ? shared.counts[turn_][lane] : 0U);
    if constexpr (kOnes) return {count, count};
    return {warp_sum(lane < warps ? shared.sums[turn_][lane] : 0), count};
  }

  /// The first of n indices at which the values up to it come to more than `target`, which all together do.
  template <class Values>
  __device__ int index_beyond(int n, const Values& values, std::uint64_t target) {
    const int warps = threads() / 32;
    const int own = (n + 32 * warps - 1) / (32 * warps) * 32;  // of a warp
    const int begin = warp * own, end = min(begin + own, n);
    std::uint64_t sum = 0;
#pragma unroll 8
    for (int i = begin + lane; i < end; i += 32) sum += values(i);
    sum = warp_sum(sum);
    turn_ ^= 1;
    if (lane == 0) shared.sums[turn_][warp] = sum;
    sync_block();
    for (int w = 0; w < warp; ++w) target -= shared.sums[turn_][w];  // wraps for warps after it
    if (target < sum) {
      int i = begin;
      std::uint32_t v = 0;
#pragma unroll 1
      for (int rows = 8; rows > 0; rows -= 7) {  // eight rows of lanes at a time, then one
        while (true) {
          std::uint64_t own_sum = 0;
          for (int r = 0; r < rows; ++r) {
            const int at = i + r * 32 + lane;
            v = at < end ? values(at) : 0U;
            own_sum += v;
          }
          const std::uint64_t here = warp_sum(own_sum);
          if (target < here) break;
          target -= here;
          i += 32 * rows;
        }
      }
      int found = 0;
      while (true) {
        const std::uint32_t other = __shfl_sync(~0U, v, found);
        if (target < other) break;
        target -= other;
        ++found;
      }
      if (lane == 0) shared.index = i + found;
    }
    sync_block();
    return shared.index;
  }

 private:
  static __device__ std::uint64_t shuffle(std::uint64_t v, int other) {
    const std::uint32_t low = __shfl_xor_sync(~0U, std::uint32_t(v), other);
    const std::uint32_t high = __shfl_xor_sync(~0U, std::uint32_t(v >> 32), other);
    return (std::uint64_t(high) << 32) | low;
  }

  const int threads_;
  int turn_ = 0;
};

}  // namespace runnel::cuda
