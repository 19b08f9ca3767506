// SPDX-License-Identifier: Apache-2.0
// Small functions of one thread or one warp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/launch.h"

namespace runnel::cuda {

__device__ __forceinline__ float swish(float x) { return __fdividef(x, 1.0F + __expf(-x)); }

__device__ __forceinline__ float activate(Act act, float x) {
  return act == Act::swish ? swish(x) : act == Act::relu ? fmaxf(x, 0.0F) : x;
}

/// log(sigmoid(f)) / tau with its floor: the log of a slot's decay, <= 0.
__device__ __forceinline__ float log_decay(float f, float tau, float floor) {
  const float ls = fminf(f, 0.0F) - log1pf(expf(-fabsf(f)));
  const float g = ls / tau;
  return floor < 0.0F ? fmaxf(g, floor) : g;
}

// A running sum z' = logaddexp(z, f): a slot keeps a = e^(z - z') of what it has and takes in
// e^(f - z') = 1 - a, so log a is all that the slots need. Without a z yet a is nothing at all,
// which is e^-40 here: powers of it still fit the chunkwise kernels.
inline constexpr float kNothing = -40.0F;
__device__ __forceinline__ float log_add(float x, float y) {
  return fmaxf(x, y) + log1pf(expf(-fabsf(x - y)));
}
__device__ __forceinline__ float log_kept(float z, float f) {
  const float d = f - z;
  return -(fmaxf(d, 0.0F) + log1pf(expf(-fabsf(d))));
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0U, v, o);
  return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0U, v, o));
  return v;
}

__device__ __forceinline__ float bf16_low(std::uint32_t w) { return __uint_as_float(w << 16); }
__device__ __forceinline__ float bf16_high(std::uint32_t w) {
  return __uint_as_float(w & 0xFFFF0000U);
}
__device__ __forceinline__ float2 f16_pair(std::uint32_t w) {
  return __half22float2(*reinterpret_cast<const __half2*>(&w));
}
__device__ __forceinline__ float f16(std::uint16_t h) { return __half2float(__ushort_as_half(h)); }
__device__ __forceinline__ std::uint16_t to_f16(float v) {
  return __half_as_ushort(__float2half_rn(v));
}

#ifdef RUNNEL_SIMT  // on the host, for tests
template <class T>
T load_stream(const T* p) {
  return *p;
}
#else
/// A load that will not be repeated soon: stays out of L1.
__device__ __forceinline__ uint4 load_stream(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ __forceinline__ uint2 load_stream(const uint2* p) {
  uint2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(p));
  return v;
}
__device__ __forceinline__ std::uint32_t load_stream(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ std::uint16_t load_stream(const std::uint16_t* p) {
  std::uint16_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}
#endif

}  // namespace runnel::cuda
