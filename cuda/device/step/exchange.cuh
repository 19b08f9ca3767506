// SPDX-License-Identifier: Apache-2.0
// What the parts of the decode kernel share: parameters in shared memory, values exchanged between blocks.
//
// Every part of a phase finds what it needs in shared memory, at places that seem to depend on the
// phase: else the compiler computes ahead of the loop what all parts need, and spills it. With so
// much shared memory there is hardly an L1 left to spill to.
#pragma once

#include "cuda/device/async.cuh"
#include "cuda/device/math.cuh"
#include "cuda/step_grid.h"

namespace runnel::cuda {

/// 0, as a value that the compiler cannot fold.
template <int kPart>
__device__ __forceinline__ int hidden_zero(int phase) {
  return phase >> (24 + kPart);
}
/// The block's copy of the parameters.
template <int kPart>
__device__ __forceinline__ const Decode& program(int phase) {
  return *reinterpret_cast<const Decode*>(shared_memory() + hidden_zero<kPart>(phase));
}
template <class T>
__device__ __forceinline__ T* shared_at(int offset) {
  return reinterpret_cast<T*>(shared_memory() + offset);
}

/// The same value, opaque to the compiler but for being in a register: what is computed from it is
/// not hoisted out of the loop.
template <class T>
__device__ __forceinline__ T opaque(T v) {
  asm volatile("" : "+r"(v));
  return v;
}

/// The weight types that a kernel multiplies, as bits; one for each type would be many registers.
template <BlockType kType>
constexpr unsigned kTypeBit = type_bit(kType);

/// visit.operator()<T>() for the type T of kTypes that `type` is.
template <unsigned kTypes, class Visit>
__device__ __forceinline__ void for_type(BlockType type, const Visit& visit) {
  const auto with = [&]<BlockType kType>() {
    if constexpr ((kTypes & kTypeBit<kType>) != 0) {
      if (type == kType) visit.template operator()<kType>();
    }
  };
  with.template operator()<BlockType::q4_0>();
  with.template operator()<BlockType::q8_0>();
  with.template operator()<BlockType::q4_k>();
  with.template operator()<BlockType::q5_0>();
  with.template operator()<BlockType::q5_k>();
  with.template operator()<BlockType::q6_k>();
  with.template operator()<BlockType::wide>();
  with.template operator()<BlockType::bf16>();
  with.template operator()<BlockType::f16>();
  with.template operator()<BlockType::f32>();
}

/// A value whose lowest bit says which use of its place it belongs to.
__device__ __forceinline__ float marked(float v, unsigned bit) {
  return __uint_as_float((__float_as_uint(v) & ~1U) | bit);
}
/// The value without the bit.
__device__ __forceinline__ float unmarked(float v) {
  return __uint_as_float(__float_as_uint(v) & ~1U);
}
__device__ __forceinline__ float4 unmarked(float4 v) {
  return make_float4(unmarked(v.x), unmarked(v.y), unmarked(v.z), unmarked(v.w));
}

/// Values of a SwiGLU are exchanged as f16, each with such a bit of its own, where readers round blocks of them to eight
/// bits: the vector that all blocks poll is half as long. An eighth of the value, so that f16's range, with ten bits of
/// it, is 0.0005 to 500,000; what is larger becomes the largest, what is smaller is exact to a millionth.
/// A half is written by itself and read in words: each word's halves have marks of their own.
constexpr float kExchangedPart = 0.125F;
__device__ __forceinline__ std::uint16_t marked_half(float v, unsigned bit) {
  constexpr float kLargest = 65472.0F;  // whose lowest bit is 0
  const unsigned half = to_f16(fminf(fmaxf(v * kExchangedPart, -kLargest), kLargest));
  return std::uint16_t(((half + 1U) & 0xFFFEU) | bit);
}
/// Two of them, in parts.
__device__ __forceinline__ float2 unmarked_halves(float v) {
  return f16_pair(__float_as_uint(v) & 0xFFFEFFFEU);
}

/// Counts polls; every 1,024th one checks the time-out. Program: Decode or ShiftStep.
template <class Program>
__device__ __forceinline__ bool give_up(const Program& p, unsigned& polls, int where) {
  if ((++polls & 1023U) != 0) return false;
  if (load_flag(p.timed_out) != 0) return true;
  if (polls < p.poll_limit) return false;
  store_flag(p.timed_out, unsigned(where) | 0x80000000U);
  return true;
}
/// False: timed out.
template <class Program>
__device__ __forceinline__ bool wait_barrier(const Program& p, std::uint64_t* barrier,
                                             unsigned parity) {
  unsigned polls = 0;
#pragma unroll 1
  while (!barrier_passed(barrier, parity)) {
    if ((++polls & 4095U) != 0) continue;
    if (load_flag(p.timed_out) != 0) return false;
    if (polls >= p.poll_limit) store_flag(p.timed_out, 0xC0000000U);
  }
  return true;
}

/// Polls exchanged values until they have arrived or the wait has timed out. The loops are as short as they can be: a
/// value is noticed half an iteration late on average.
struct Waiter {
  const Decode& p;
  unsigned bit;  // of this use

  __device__ __forceinline__ bool other(float v) const {
    return ((__float_as_uint(v) ^ bit) & 1U) != 0;
  }
  /// Bits in which some word is not `bits`.
  static __device__ __forceinline__ unsigned differing(float4 v, unsigned bits) {
    return (__float_as_uint(v.x) ^ bits) | (__float_as_uint(v.y) ^ bits) |
           (__float_as_uint(v.z) ^ bits) | (__float_as_uint(v.w) ^ bits);
  }
  /// In bit 0, whether some of it is not of this use. Several are combined by |, and tested once by some_missing().
  __device__ __forceinline__ unsigned missing(float4 v) const { return differing(v, bit); }
  __device__ __forceinline__ unsigned missing(float v) const { return __float_as_uint(v) ^ bit; }
  /// Opaque: otherwise the compiler tests the bit of every word, at three instructions each.
  static __device__ __forceinline__ bool some_missing(unsigned missing) {
    return (opaque(missing) & 1U) != 0;
  }
  /// The same of eight halves, in bits 0 and 16.
  __device__ __forceinline__ unsigned missing_halves(float4 v) const {
    return differing(v, bit | bit << 16);
  }
  static __device__ __forceinline__ bool some_half_missing(unsigned missing) {
    return (opaque(missing) & 0x00010001U) != 0;
  }
  __device__ __forceinline__ bool here(float4 v) const { return !some_missing(missing(v)); }
  __device__ __forceinline__ bool given_up(unsigned& polls, int where) const {
    return give_up(p, polls, where);
  }
  __device__ __forceinline__ float4 finish(const float* from, float4 v, int where) const {
    unsigned polls = 0;
#pragma unroll 1
    while (!here(v) && !given_up(polls, where)) v = load_exchanged(from);
    return unmarked(v);
  }
  __device__ __forceinline__ float2 finish_pair(const float* from, float2 v, int where) const {
    unsigned polls = 0;
#pragma unroll 1
    while ((other(v.x) || other(v.y)) && !given_up(polls, where)) v = load_exchanged_pair(from);
    return make_float2(unmarked(v.x), unmarked(v.y));
  }
  __device__ __forceinline__ float4 read(const float* from, int where) const {
    return finish(from, load_exchanged(from), where);
  }
  __device__ __forceinline__ float read_word(const float* from, int where) const {
    float v = load_exchanged_word(from);
    unsigned polls = 0;
#pragma unroll 1
    while (other(v) && !given_up(polls, where)) v = load_exchanged_word(from);
    return unmarked(v);
  }
  __device__ __forceinline__ void write_once(float* to, float v) const {
    store_exchanged(to, marked(v, bit));
  }
  __device__ __forceinline__ void write_half(std::uint16_t* to, float v) const {
    store_exchanged_half(to, marked_half(v, bit));
  }
  /// To every copy.
  __device__ __forceinline__ void write(float* to, float v) const {
    const float with_bit = marked(v, bit);
    const int copies = p.copies, apart = p.at.copy;
#pragma unroll 1
    for (int c = 0; c < copies; ++c, to += apart) store_exchanged(to, with_bit);
  }
};
/// Where a block reads, from the first copy on: all blocks read the same values at the same
/// time, and a slice of L2 serves one request after another.
__device__ __forceinline__ int own_copy(const Decode& p) {
  return (block_index() & (p.copies - 1)) * p.at.copy;
}

__device__ __forceinline__ float4 activate4(Act a, float4 v) {
  return make_float4(activate(a, v.x), activate(a, v.y), activate(a, v.z), activate(a, v.w));
}
__device__ __forceinline__ float4 times(float4 a, float4 b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
__device__ __forceinline__ float4 scaled(float4 a, float s) {
  return make_float4(a.x * s, a.y * s, a.z * s, a.w * s);
}
__device__ __forceinline__ float4 plus_scaled(float4 a, float4 b, float s) {
  return make_float4(fmaf(b.x, s, a.x), fmaf(b.y, s, a.y), fmaf(b.z, s, a.z), fmaf(b.w, s, a.w));
}
__device__ __forceinline__ float dot_vectors(float4 a, float4 b, float acc) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, acc))));
}
__device__ __forceinline__ float sum_squares(float4 v, float acc) { return dot_vectors(v, v, acc); }

}  // namespace runnel::cuda
