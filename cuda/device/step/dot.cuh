// SPDX-License-Identifier: Apache-2.0
// The decode kernel's products: a lane's piece of a tile in a stage of the ring times its piece of
// the input, which stays in registers over all tiles.
#pragma once

#include "cuda/device/packed.cuh"
#include "cuda/step_grid.h"

namespace runnel::cuda {

/// A lane's part of one step, in a slot of its warp's ring.
struct StagePiece {
  const unsigned char* data;    // its first 16 bytes
  const unsigned char* scales;  // its scale
  const unsigned char* high;
};

#ifndef RUNNEL_SIMT
/// c + a . b, the bytes of a unsigned.
__device__ __forceinline__ int dot4_unsigned(unsigned a, int b, int c) {
  int d;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
#endif
/// q . x + start / 16 of 32 nibbles: the sum of the upper ones is shifted down, not they.
__device__ __forceinline__ int dot_nibbles(uint4 q, int4 low, int4 high, int start) {
  constexpr unsigned kUpper = 0xF0F0F0F0U;
  const int a = dot16(nibbles_low(q), low, 0);
  int b = dot4_unsigned(q.x & kUpper, high.x, start);
  b = dot4_unsigned(q.y & kUpper, high.y, b);
  b = dot4_unsigned(q.z & kUpper, high.z, b);
  b = dot4_unsigned(q.w & kUpper, high.w, b);
  return a + (b >> 4);
}
/// The sum of a block's 32 values times a small number.
template <int kTimes>
__device__ __forceinline__ int scaled_sums(int sums) {
  return __dp2a_lo(sums, (kTimes & 255) * 0x0101, 0);
}

/// The input of one block of 32, rounded.
struct RoundedInput {
  int4 low, high;
  float scale;
  int sums;
  __device__ __forceinline__ void load(const SharedInput& x, int block) {
    low = x.q_low[block], high = x.q_high[block];
    const int2 meta = x.meta[block];
    scale = __int_as_float(meta.x), sums = meta.y;
  }
};
struct PlainInput {
  float4 a, b;
};

/// Loads are apart from products, so that several are under way.
template <BlockType>
struct Streamed;

/// Types of four bits: a lane's 16 bytes of a block and what they are scaled by.
template <class Scale>
struct Nibbles {
  static constexpr bool kBlocks = true;
  static constexpr int kStepBytes = 512, kScaleBytes = 32 * int(sizeof(Scale)), kHighBytes = 0;
  using Input = RoundedInput;
  struct Weights {
    uint4 q;
    Scale d;
  };
  static __device__ __forceinline__ Weights load(const StagePiece& p) {
    return {*reinterpret_cast<const uint4*>(p.data), *reinterpret_cast<const Scale*>(p.scales)};
  }
};

template <>
struct Streamed<BlockType::q4_0> : Nibbles<std::uint16_t> {
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const int sum = dot_nibbles(w.q, x.low, x.high, scaled_sums<-128>(x.sums));
    return fmaf(f16(w.d) * x.scale, static_cast<float>(sum), acc);
  }
};

template <>
struct Streamed<BlockType::q8_0> {
  static constexpr bool kBlocks = true;
  static constexpr int kStepBytes = 1024, kScaleBytes = 64, kHighBytes = 0;
  using Input = RoundedInput;
  struct Weights {
    uint4 u, v;
    std::uint16_t d;
  };
  static __device__ __forceinline__ Weights load(const StagePiece& p) {
    const uint4* q = reinterpret_cast<const uint4*>(p.data);
    return {q[0], q[32], *reinterpret_cast<const std::uint16_t*>(p.scales)};
  }
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const int a = dot16(w.u, x.low, 0);
    const int b = dot16(w.v, x.high, 0);
    return fmaf(f16(w.d) * x.scale, static_cast<float>(a + b), acc);
  }
};

template <>
struct Streamed<BlockType::q4_k> : Nibbles<std::uint32_t> {
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const float2 dm = f16_pair(w.d);
    const float product = static_cast<float>(dot_nibbles(w.q, x.low, x.high, 0));
    const float sum = static_cast<float>(scaled_sums<1>(x.sums));
    return fmaf(x.scale, dm.x * product - dm.y * sum, acc);
  }
};

/// Types of five bits: a lane's 16 bytes of a block, the fifth bits and what they are scaled by.
template <class Scale>
struct Fives {
  static constexpr bool kBlocks = true;
  static constexpr int kStepBytes = 512, kScaleBytes = 32 * int(sizeof(Scale)), kHighBytes = 128;
  using Input = RoundedInput;
  struct Weights {
    uint4 q;
    std::uint32_t h;
    Scale d;
  };
  static __device__ __forceinline__ Weights load(const StagePiece& p) {
    return {*reinterpret_cast<const uint4*>(p.data),
            *reinterpret_cast<const std::uint32_t*>(p.high),
            *reinterpret_cast<const Scale*>(p.scales)};
  }
  static __device__ __forceinline__ int products(const Weights& w, const Input& x, int start) {
    return dot16(fives_high(w.q, w.h), x.high, dot16(fives_low(w.q, w.h), x.low, start));
  }
};

template <>
struct Streamed<BlockType::q5_0> : Fives<std::uint16_t> {
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const int sum = products(w, x, scaled_sums<-16>(x.sums));
    return fmaf(f16(w.d) * x.scale, static_cast<float>(sum), acc);
  }
};

template <>
struct Streamed<BlockType::q5_k> : Fives<std::uint32_t> {
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const float2 dm = f16_pair(w.d);
    const float product = static_cast<float>(products(w, x, 0));
    const float sum = static_cast<float>(scaled_sums<1>(x.sums));
    return fmaf(x.scale, dm.x * product - dm.y * sum, acc);
  }
};

template <>
struct Streamed<BlockType::q6_k> {
  static constexpr bool kBlocks = true;
  static constexpr int kStepBytes = 512, kScaleBytes = 128, kHighBytes = 256;
  using Input = RoundedInput;
  using Weights = Packed<BlockType::q6_k>::Piece;
  static __device__ __forceinline__ Weights load(const StagePiece& p) {
    return {*reinterpret_cast<const uint4*>(p.data), *reinterpret_cast<const uint2*>(p.high),
            *reinterpret_cast<const std::uint32_t*>(p.scales)};
  }
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const float2 d = f16_pair(w.d);
    const int a = dot16(Packed<BlockType::q6_k>::low(w), x.low, 0) - 32 * sum_low(x.sums);
    const int b = dot16(Packed<BlockType::q6_k>::upper(w), x.high, 0) - 32 * sum_high(x.sums);
    return fmaf(x.scale, d.x * static_cast<float>(a) + d.y * static_cast<float>(b), acc);
  }
};

/// Half a block of 32 by half: a lane's codes lie 512 bytes apart, and its two scales and offsets in 16 bytes.
template <>
struct Streamed<BlockType::wide> {
  static constexpr bool kBlocks = true;
  static constexpr int kStepBytes = 1024, kScaleBytes = 512, kHighBytes = 0;
  using Input = RoundedInput;
  struct Weights {
    uint4 u, v;
    float4 s;  // scale and offset of u, of v
  };
  static __device__ __forceinline__ Weights load(const StagePiece& p) {
    const uint4* q = reinterpret_cast<const uint4*>(p.data);
    return {q[0], q[32], *reinterpret_cast<const float4*>(p.scales)};
  }
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const int a = dot16(w.u, x.low, 0);
    const int b = dot16(w.v, x.high, 0);
    float sum = w.s.y * static_cast<float>(sum_low(x.sums));
    sum = fmaf(w.s.w, static_cast<float>(sum_high(x.sums)), sum);
    sum = fmaf(w.s.x, static_cast<float>(a), sum);
    sum = fmaf(w.s.z, static_cast<float>(b), sum);
    return fmaf(x.scale, sum, acc);
  }
};

/// Plain types: a lane that has no piece of the last step multiplies some weights with zeros.
struct PlainWeights {
  uint4 w;
};
__device__ __forceinline__ PlainInput load_plain(const SharedInput& x, int chunk, bool valid) {
  const float4 none = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  return {valid ? x.f_low[chunk] : none, valid ? x.f_high[chunk] : none};
}

template <>
struct Streamed<BlockType::bf16> {
  static constexpr bool kBlocks = false;
  static constexpr int kStepBytes = 512, kScaleBytes = 0, kHighBytes = 0;
  using Input = PlainInput;
  using Weights = PlainWeights;
  static __device__ __forceinline__ Input input(const SharedInput& x, int chunk, bool valid) {
    return load_plain(x, chunk, valid);
  }
  static __device__ __forceinline__ float dot(const Weights& p, const Input& x, float acc) {
    const uint4& w = p.w;
    acc = dot4(x.a, bf16_low(w.x), bf16_high(w.x), bf16_low(w.y), bf16_high(w.y), acc);
    return dot4(x.b, bf16_low(w.z), bf16_high(w.z), bf16_low(w.w), bf16_high(w.w), acc);
  }
};

template <>
struct Streamed<BlockType::f16> {
  static constexpr bool kBlocks = false;
  static constexpr int kStepBytes = 512, kScaleBytes = 0, kHighBytes = 0;
  using Input = PlainInput;
  using Weights = PlainWeights;
  static __device__ __forceinline__ Input input(const SharedInput& x, int chunk, bool valid) {
    return load_plain(x, chunk, valid);
  }
  static __device__ __forceinline__ float dot(const Weights& p, const Input& x, float acc) {
    const float2 a = f16_pair(p.w.x), b = f16_pair(p.w.y), c = f16_pair(p.w.z), d = f16_pair(p.w.w);
    acc = dot4(x.a, a.x, a.y, b.x, b.y, acc);
    return dot4(x.b, c.x, c.y, d.x, d.y, acc);
  }
};

template <>
struct Streamed<BlockType::f32> {
  static constexpr bool kBlocks = false;
  static constexpr int kStepBytes = 512, kScaleBytes = 0, kHighBytes = 0;
  struct Input {
    float4 a;
  };
  using Weights = PlainWeights;
  static __device__ __forceinline__ Input input(const SharedInput& x, int chunk, bool valid) {
    const float4 none = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    return {!valid ? none : (chunk & 1) != 0 ? x.f_high[chunk >> 1] : x.f_low[chunk >> 1]};
  }
  static __device__ __forceinline__ float dot(const Weights& p, const Input& x, float acc) {
    return dot4(x.a, __uint_as_float(p.w.x), __uint_as_float(p.w.y), __uint_as_float(p.w.z),
                __uint_as_float(p.w.w), acc);
  }
};

}  // namespace runnel::cuda
