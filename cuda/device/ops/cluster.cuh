// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster that meet without barriers, sm_90 and later, and small vectors of a thread.
#pragma once

#include <cuda_runtime.h>

namespace runnel::cuda {

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
/// Says that this block runs. Relaxed: a release would be a fence of the whole device.
__device__ __forceinline__ void cluster_here() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/// Returns when every block of the cluster has said so.
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
/// The address in block `rank` of what lies at `offset` of shared memory here.
__device__ __forceinline__ unsigned in_block(unsigned offset, int rank) {
  unsigned remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(offset), "r"(rank));
  return remote;
}
/// Stores to another block, whose barrier counts the eight bytes.
__device__ __forceinline__ void send(unsigned to, float x, float y, unsigned barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
          to),
      "f"(x), "f"(y), "r"(barrier)
      : "memory");
}
/// A barrier of `threads` threads of the block beside the one of all.
__device__ __forceinline__ void sync_some(int threads) {
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

__device__ __forceinline__ void load(float (&v)[2], const float* p) {
  const float2 q = *reinterpret_cast<const float2*>(p);
  v[0] = q.x, v[1] = q.y;
}
__device__ __forceinline__ void store(float* p, const float (&v)[2]) {
  *reinterpret_cast<float2*>(p) = make_float2(v[0], v[1]);
}

/// Lanes trade halves of v, then quarters …: v[0] of lane l becomes the sum of v[l % kCount] over
/// the lanes that differ from it in the lowest bits only.
template <int kHalf, int kCount>
__device__ __forceinline__ void trade(float (&v)[kCount], int lane) {
  if constexpr (kHalf > 0) {
    const bool upper = (lane & kHalf) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float theirs = upper ? v[i] : v[i + kHalf], ours = upper ? v[i + kHalf] : v[i];
      v[i] = ours + __shfl_xor_sync(~0U, theirs, kHalf);
    }
    trade<kHalf / 2>(v, lane);
  }
}
/// Lane l of a warp: the warp's sum of v[l % kCount].
template <int kCount>
__device__ __forceinline__ float sum_apart(float (&v)[kCount], int lane) {
  trade<kCount / 2>(v, lane);
#pragma unroll
  for (int o = kCount; o < 32; o *= 2) v[0] += __shfl_xor_sync(~0U, v[0], o);
  return v[0];
}

}  // namespace runnel::cuda
