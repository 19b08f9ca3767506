// SPDX-License-Identifier: Apache-2.0
// The decode kernel's products: a lane's piece of a tile in a stage of the ring times its piece of
// the input, which stays in registers over all tiles.
#pragma once

#include "cuda/decode.h"
#include "cuda/device/packed.cuh"

namespace runnel::cuda {

/// One stage of the ring and where a tile's parts lie in it.
struct StagePiece {
  const unsigned char* data;
  const unsigned char* scales;
  const unsigned char* high;
};

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

/// kMost: steps whose input a warp holds at once. Loads are apart from products, so that several
/// are under way.
template <BlockType>
struct Streamed;

template <>
struct Streamed<BlockType::q4_0> {
  static constexpr int kMost = 4;
  static constexpr bool kBlocks = true;
  using Input = RoundedInput;
  struct Weights {
    uint4 q;
    std::uint16_t d;
  };
  static __device__ __forceinline__ Weights load(const StagePiece& p, int index) {
    return {reinterpret_cast<const uint4*>(p.data)[index],
            reinterpret_cast<const std::uint16_t*>(p.scales)[index]};
  }
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const int a = dot16(nibbles_low(w.q), x.low, -8 * (sum_low(x.sums) + sum_high(x.sums)));
    const int b = dot16(nibbles_high(w.q), x.high, 0);
    return fmaf(f16(w.d) * x.scale, static_cast<float>(a + b), acc);
  }
};

template <>
struct Streamed<BlockType::q8_0> {
  static constexpr int kMost = 2;
  static constexpr bool kBlocks = true;
  using Input = RoundedInput;
  struct Weights {
    uint4 u, v;
    std::uint16_t d;
  };
  static __device__ __forceinline__ Weights load(const StagePiece& p, int index) {
    const uint4* q = reinterpret_cast<const uint4*>(p.data) + (2 * index - (index & 31));
    return {q[0], q[32], reinterpret_cast<const std::uint16_t*>(p.scales)[index]};
  }
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const int a = dot16(make_int4(int(w.u.x), int(w.u.y), int(w.u.z), int(w.u.w)), x.low, 0);
    const int b = dot16(make_int4(int(w.v.x), int(w.v.y), int(w.v.z), int(w.v.w)), x.high, 0);
    return fmaf(f16(w.d) * x.scale, static_cast<float>(a + b), acc);
  }
};

template <>
struct Streamed<BlockType::q4_k> {
  static constexpr int kMost = 4;
  static constexpr bool kBlocks = true;
  using Input = RoundedInput;
  struct Weights {
    uint4 q;
    std::uint32_t dm;
  };
  static __device__ __forceinline__ Weights load(const StagePiece& p, int index) {
    return {reinterpret_cast<const uint4*>(p.data)[index],
            reinterpret_cast<const std::uint32_t*>(p.scales)[index]};
  }
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const float2 dm = f16_pair(w.dm);
    const int a = dot16(nibbles_low(w.q), x.low, 0);
    const int b = dot16(nibbles_high(w.q), x.high, 0);
    const float sum = static_cast<float>(sum_low(x.sums) + sum_high(x.sums));
    return fmaf(x.scale, dm.x * static_cast<float>(a + b) - dm.y * sum, acc);
  }
};

template <>
struct Streamed<BlockType::q6_k> {
  static constexpr int kMost = 2;
  static constexpr bool kBlocks = true;
  using Input = RoundedInput;
  using Weights = Packed<BlockType::q6_k>::Piece;
  static __device__ __forceinline__ Weights load(const StagePiece& p, int index) {
    return {reinterpret_cast<const uint4*>(p.data)[index],
            reinterpret_cast<const uint2*>(p.high)[index],
            reinterpret_cast<const std::uint32_t*>(p.scales)[index]};
  }
  static __device__ __forceinline__ float dot(const Weights& w, const Input& x, float acc) {
    const float2 d = f16_pair(w.d);
    const int a = dot16(Packed<BlockType::q6_k>::low(w), x.low, 0) - 32 * sum_low(x.sums);
    const int b = dot16(Packed<BlockType::q6_k>::upper(w), x.high, 0) - 32 * sum_high(x.sums);
    return fmaf(x.scale, d.x * static_cast<float>(a) + d.y * static_cast<float>(b), acc);
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
  static constexpr int kMost = 4;
  static constexpr bool kBlocks = false;
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
  static constexpr int kMost = 4;
  static constexpr bool kBlocks = false;
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
  static constexpr int kMost = 4;
  static constexpr bool kBlocks = false;
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
