// SPDX-License-Identifier: Apache-2.0
// What the decode kernel needs of a multiprocessor, one instruction a function: identity, barriers,
// bulk copies, exchange through L2. The emulator of tests/cuda has functions of the same names.
#pragma once

#ifndef RUNNEL_SIMT

#include <cuda_runtime.h>

#include <cstdint>

namespace runnel::cuda {

__device__ __forceinline__ int thread_index() { return int(threadIdx.x); }
__device__ __forceinline__ int block_index() { return int(blockIdx.x); }
/// The block's dynamic shared memory.
__device__ __forceinline__ unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char decode_shared[];
  return decode_shared;
}
__device__ __forceinline__ void sync_block() { __syncthreads(); }
/// The same, and for how many threads of the block it holds.
__device__ __forceinline__ std::uint32_t sync_block_count(bool holds) {
  return std::uint32_t(__syncthreads_count(holds ? 1 : 0));
}
__device__ __forceinline__ void sync_warp() { __syncwarp(); }
/// Barrier of the first `kThreads` threads of a block.
template <int kThreads>
__device__ __forceinline__ void sync_first() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}
/// Barrier of two neighbouring warps, of which this is pair `pair` of at most eight.
__device__ __forceinline__ void sync_pair(int pair) {
  asm volatile("bar.sync %0, 64;" ::"r"(2 + pair) : "memory");
}
__device__ __forceinline__ std::uint64_t clock_now() { return std::uint64_t(clock64()); }
__device__ __forceinline__ void pause(unsigned nanoseconds) { __nanosleep(nanoseconds); }
__device__ __forceinline__ unsigned clock_low() { return unsigned(clock()); }
/// Until so many clocks have gone by since clock_low() was `since`; 0: no time.
__device__ __forceinline__ void pause_until(unsigned since, unsigned clocks) {
#pragma unroll 1
  for (;;) {
    const unsigned gone = clock_low() - since;
    if (gone >= clocks) return;
    const unsigned left = clocks - gone;
    if (left > 800) __nanosleep(left / 5);  // it takes up to twice that; a clock is half as long
  }
}

/// Registers a thread of this group of four warps may use from here on, where the device can pass them on.
template <int kCount>
__device__ __forceinline__ void more_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}
template <int kCount>
__device__ __forceinline__ void fewer_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

/// 1 / v to 1 in 2^23; of less than 1.2e-38 infinity.
__device__ __forceinline__ float reciprocal(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

__device__ __forceinline__ unsigned shared_offset(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// A word of shared memory that another warp of the block waits for.
__device__ __forceinline__ std::uint32_t watch_word(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.volatile.shared::cta.u32 %0, [%1];"
               : "=r"(v)
               : "r"(shared_offset(p))
               : "memory");
  return v;
}
/// After everything this warp has read; call behind sync_warp.
__device__ __forceinline__ void show_word(std::uint32_t* p, std::uint32_t v) {
  asm volatile("st.volatile.shared::cta.u32 [%0], %1;" ::"r"(shared_offset(p)), "r"(v) : "memory");
}

// sm_90 and later, down to bulk_prefetch.
__device__ __forceinline__ void barrier_init(std::uint64_t* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_offset(b)), "r"(count)
               : "memory");
}
/// Shows initialised barriers to the copy engine.
__device__ __forceinline__ void barrier_publish() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint64_t* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_offset(b)) : "memory");
}
__device__ __forceinline__ void barrier_expect(std::uint64_t* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_offset(b)),
               "r"(bytes)
               : "memory");
}
/// Whether the phase of parity `parity` is complete; waits a little before saying no.
__device__ __forceinline__ bool barrier_passed(std::uint64_t* b, unsigned parity) {
  unsigned ok;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(ok)
      : "r"(shared_offset(b)), "r"(parity)
      : "memory");
  return ok != 0;
}
/// The same at once.
__device__ __forceinline__ bool barrier_tested(std::uint64_t* b, unsigned parity) {
  unsigned ok;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(ok)
      : "r"(shared_offset(b)), "r"(parity)
      : "memory");
  return ok != 0;
}
/// barrier_passed(), polled up to `polls` times.
__device__ __forceinline__ bool barrier_passed_within(std::uint64_t* b, unsigned parity,
                                                      unsigned polls) {
  unsigned left;
  asm volatile(
      "{\n.reg .pred p;\nmov.u32 %0, %3;\nPOLL:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n@p bra DONE;\n"
      "add.u32 %0, %0, -1;\nsetp.ne.u32 p, %0, 0;\n@p bra POLL;\nDONE:\n}"
      : "=&r"(left)
      : "r"(shared_offset(b)), "r"(parity), "r"(polls)
      : "memory");
  return left != 0;
}
/// Returns when the phase is complete, or a word of shared memory is not 0.
__device__ __forceinline__ void wait_barrier_or(std::uint64_t* b, unsigned parity,
                                                const std::uint32_t* word) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .u32 w;\nPOLL:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\n"
      "ld.volatile.shared::cta.u32 w, [%2];\nsetp.eq.u32 p, w, 0;\n@p bra POLL;\nDONE:\n}"
      :
      : "r"(shared_offset(b)), "r"(parity), "r"(shared_offset(word))
      : "memory");
}
/// Returns when every earlier kernel of a chain (launch.cuh) is complete.
__device__ __forceinline__ void wait_for_kernels() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
/// All threads of all blocks of the cluster.
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
/// Another block of the cluster.
struct ClusterPeer {
  unsigned distance = 0;  // of its shared memory's addresses from those of this block's

  static __device__ __forceinline__ ClusterPeer of(int block) {
    const unsigned own = shared_offset(shared_memory());
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
    return {there - own};
  }
  /// Sends to the place of the other block that is `to` here; its barrier that is `b` here counts the bytes.
  __device__ __forceinline__ void store(float* to, float4 v, std::uint64_t* b) const {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(shared_offset(to) + distance),
        "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(shared_offset(b) + distance)
        : "memory");
  }
  __device__ __forceinline__ void store(float* to, float2 v, std::uint64_t* b) const {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
            shared_offset(to) + distance),
        "f"(v.x), "f"(v.y), "r"(shared_offset(b) + distance)
        : "memory");
  }
  __device__ __forceinline__ void store(float* to, float v, std::uint64_t* b) const {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                     shared_offset(to) + distance),
                 "f"(v), "r"(shared_offset(b) + distance)
                 : "memory");
  }
};
/// Marks data that is read once a token.
__device__ __forceinline__ std::uint64_t policy_leave_first() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ std::uint64_t policy_normal() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// Copies a multiple of 16 bytes to shared memory in the background; the barrier counts the bytes.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, unsigned bytes,
                                          std::uint64_t* b, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_offset(to)),
      "l"(from), "r"(bytes), "r"(shared_offset(b)), "l"(policy)
      : "memory");
}
/// Asks for a multiple of 16 bytes in L2.
__device__ __forceinline__ void bulk_prefetch(const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

/// Four floats of global memory, which the compiler does not see that a pointer leads to.
__device__ __forceinline__ float4 load_vector(const float* p) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_vector(float* p, float4 v) {
  asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(p), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}
/// Four words that another block may be writing, straight from L2.
__device__ __forceinline__ float4 load_exchanged(const float* p) {
  float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p));
  return v;
}
__device__ __forceinline__ float2 load_exchanged_pair(const float* p) {
  float2 v;
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(p));
  return v;
}
__device__ __forceinline__ float load_exchanged_word(const float* p) {
  float v;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ void store_exchanged(float* p, float v) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory");
}
__device__ __forceinline__ void store_exchanged_half(std::uint16_t* p, std::uint16_t v) {
  asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(p), "h"(v) : "memory");
}
__device__ __forceinline__ std::uint32_t load_flag(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ void store_flag(std::uint32_t* p, std::uint32_t v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ std::uint64_t load_choice(const std::uint64_t* p) {
  std::uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ void store_choice(std::uint64_t* p, std::uint64_t v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
/// Counts this block; what the thread wrote before is there for those that count later.
/// @return how many were counted before
__device__ __forceinline__ std::uint32_t count_block(std::uint32_t* p) {
  std::uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(p) : "memory");
  return before;
}
/// For a host that watches: `p` lies in pinned host memory.
__device__ __forceinline__ void store_host(std::uint64_t* p, std::uint64_t v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
/// The same; what this thread and those that it waited for wrote before is there for the host, too.
__device__ __forceinline__ void release_to_host(std::uint64_t* p, std::uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
/// What the host wrote to pinned memory.
__device__ __forceinline__ std::uint32_t load_host(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
/// The same; what the host wrote before that is there for the block behind its next barrier.
__device__ __forceinline__ std::uint32_t watch_host(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
/// The time of a clock that runs at the same speed whatever the device does.
__device__ __forceinline__ std::uint64_t nanoseconds_now() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

}  // namespace runnel::cuda

#endif
