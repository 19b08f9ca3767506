// SPDX-License-Identifier: Apache-2.0
// One warp's view of a Matrix: how a lane loads its next piece of a row and multiplies it with the
// input in shared memory.
#pragma once

#include "cuda/device/math.cuh"
#include "cuda/launch.h"

namespace runnel::cuda {

/// The input vector in shared memory: int8 for block types, f32 for plain types. Halves are apart
/// so that the up to eight lanes that read neighbouring blocks touch all 32 banks once.
struct SharedInput {
  int4* q_low = nullptr;     // [n/32] values 0-15 of a block
  int4* q_high = nullptr;    // [n/32] values 16-31
  int2* meta = nullptr;      // [n/32] f32 scale, two i16 sums
  float4* f_low = nullptr;   // [n/8] values 0-3 of eight
  float4* f_high = nullptr;  // [n/8] values 4-7
};

__device__ __forceinline__ int sum_low(int packed) {
  return static_cast<std::int16_t>(packed & 0xFFFF);
}
__device__ __forceinline__ int sum_high(int packed) { return packed >> 16; }

__device__ __forceinline__ int dot16(int4 a, int4 b, int acc) {
  acc = __dp4a(a.x, b.x, acc);
  acc = __dp4a(a.y, b.y, acc);
  acc = __dp4a(a.z, b.z, acc);
  return __dp4a(a.w, b.w, acc);
}
/// Codes of eight bits.
__device__ __forceinline__ int dot16(uint4 q, int4 x, int acc) {
  return dot16(make_int4(int(q.x), int(q.y), int(q.z), int(q.w)), x, acc);
}
__device__ __forceinline__ int4 nibbles_low(uint4 q) {
  constexpr unsigned m = 0x0F0F0F0FU;
  return make_int4(int(q.x & m), int(q.y & m), int(q.z & m), int(q.w & m));
}
__device__ __forceinline__ int4 nibbles_high(uint4 q) {
  constexpr unsigned m = 0x0F0F0F0FU;
  return make_int4(int((q.x >> 4) & m), int((q.y >> 4) & m), int((q.z >> 4) & m),
                   int((q.w >> 4) & m));
}

/// kBatch loads of a lane are in flight at once; `index` counts pieces as load() of the matrix's layout needs them.
template <BlockType>
struct Packed;

template <>
struct Packed<BlockType::q4_0> {
  static constexpr int kBatch = 8;
  static constexpr bool kBlocks = true;
  struct Piece {
    uint4 q;
    std::uint32_t d;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int) {
    return {load_stream(static_cast<const uint4*>(m.data) + index),
            load_stream(static_cast<const std::uint16_t*>(m.scales) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int block) {
    int acc = dot16(nibbles_low(p.q), x.q_low[block], 0);
    acc = dot16(nibbles_high(p.q), x.q_high[block], acc);
    const int2 meta = x.meta[block];
    acc -= 8 * (sum_low(meta.y) + sum_high(meta.y));
    return f16(static_cast<std::uint16_t>(p.d)) * __int_as_float(meta.x) * static_cast<float>(acc);
  }
};

template <>
struct Packed<BlockType::q8_0> {
  static constexpr int kBatch = 4;
  static constexpr bool kBlocks = true;
  struct Piece {
    uint4 a, b;
    std::uint32_t d;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int lane) {
    const uint4* q = static_cast<const uint4*>(m.data) + (2 * index - lane);
    return {load_stream(q), load_stream(q + 32),
            load_stream(static_cast<const std::uint16_t*>(m.scales) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int block) {
    int acc = dot16(p.a, x.q_low[block], 0);
    acc = dot16(p.b, x.q_high[block], acc);
    return f16(static_cast<std::uint16_t>(p.d)) * __int_as_float(x.meta[block].x) *
           static_cast<float>(acc);
  }
};

template <>
struct Packed<BlockType::q4_k> {
  static constexpr int kBatch = 8;
  static constexpr bool kBlocks = true;
  struct Piece {
    uint4 q;
    std::uint32_t dm;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int) {
    return {load_stream(static_cast<const uint4*>(m.data) + index),
            load_stream(static_cast<const std::uint32_t*>(m.scales) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int block) {
    int acc = dot16(nibbles_low(p.q), x.q_low[block], 0);
    acc = dot16(nibbles_high(p.q), x.q_high[block], acc);
    const int2 meta = x.meta[block];
    const float2 dm = f16_pair(p.dm);
    const float sum = static_cast<float>(sum_low(meta.y) + sum_high(meta.y));
    return __int_as_float(meta.x) * (dm.x * static_cast<float>(acc) - dm.y * sum);
  }
};

template <>
struct Packed<BlockType::q6_k> {
  static constexpr int kBatch = 4;
  static constexpr bool kBlocks = true;
  struct Piece {
    uint4 q;
    uint2 h;
    std::uint32_t d;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int) {
    return {load_stream(static_cast<const uint4*>(m.data) + index),
            load_stream(static_cast<const uint2*>(m.high) + index),
            load_stream(static_cast<const std::uint32_t*>(m.scales) + index)};
  }
  // Word i of q belongs to word i / 2 of h; byte b of it holds, from bit 4 * (i % 2), two bits of
  // the low and two of the high nibble of byte b of q.
  static __device__ __forceinline__ int4 low(const Piece& p) {
    constexpr unsigned n = 0x0F0F0F0FU, t = 0x03030303U;
    return make_int4(
        int((p.q.x & n) | ((p.h.x & t) << 4)), int((p.q.y & n) | (((p.h.x >> 4) & t) << 4)),
        int((p.q.z & n) | ((p.h.y & t) << 4)), int((p.q.w & n) | (((p.h.y >> 4) & t) << 4)));
  }
  static __device__ __forceinline__ int4 upper(const Piece& p) {
    constexpr unsigned n = 0x0F0F0F0FU, t = 0x03030303U;
    return make_int4(int(((p.q.x >> 4) & n) | (((p.h.x >> 2) & t) << 4)),
                     int(((p.q.y >> 4) & n) | (((p.h.x >> 6) & t) << 4)),
                     int(((p.q.z >> 4) & n) | (((p.h.y >> 2) & t) << 4)),
                     int(((p.q.w >> 4) & n) | (((p.h.y >> 6) & t) << 4)));
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int block) {
    const int2 meta = x.meta[block];
    const int a = dot16(low(p), x.q_low[block], 0) - 32 * sum_low(meta.y);
    const int b = dot16(upper(p), x.q_high[block], 0) - 32 * sum_high(meta.y);
    const float2 d = f16_pair(p.d);
    return __int_as_float(meta.x) * (d.x * static_cast<float>(a) + d.y * static_cast<float>(b));
  }
};

/// Codes of five bits. Bit i of each byte of `high` belongs to the low nibbles of word i of q, bit 4 + i to the high ones.
__device__ __forceinline__ unsigned fifth_bits(std::uint32_t high, int bit) {
  return ((high >> bit) & 0x01010101U) << 4;
}
__device__ __forceinline__ int4 fives_low(uint4 q, std::uint32_t high) {
  const int4 n = nibbles_low(q);
  return make_int4(
      int(unsigned(n.x) | fifth_bits(high, 0)), int(unsigned(n.y) | fifth_bits(high, 1)),
      int(unsigned(n.z) | fifth_bits(high, 2)), int(unsigned(n.w) | fifth_bits(high, 3)));
}
__device__ __forceinline__ int4 fives_high(uint4 q, std::uint32_t high) {
  const int4 n = nibbles_high(q);
  return make_int4(
      int(unsigned(n.x) | fifth_bits(high, 4)), int(unsigned(n.y) | fifth_bits(high, 5)),
      int(unsigned(n.z) | fifth_bits(high, 6)), int(unsigned(n.w) | fifth_bits(high, 7)));
}

template <>
struct Packed<BlockType::q5_0> {
  static constexpr int kBatch = 8;
  static constexpr bool kBlocks = true;
  struct Piece {
    uint4 q;
    std::uint32_t h;
    std::uint32_t d;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int) {
    return {load_stream(static_cast<const uint4*>(m.data) + index),
            load_stream(static_cast<const std::uint32_t*>(m.high) + index),
            load_stream(static_cast<const std::uint16_t*>(m.scales) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int block) {
    int acc = dot16(fives_low(p.q, p.h), x.q_low[block], 0);
    acc = dot16(fives_high(p.q, p.h), x.q_high[block], acc);
    const int2 meta = x.meta[block];
    acc -= 16 * (sum_low(meta.y) + sum_high(meta.y));
    return f16(static_cast<std::uint16_t>(p.d)) * __int_as_float(meta.x) * static_cast<float>(acc);
  }
};

template <>
struct Packed<BlockType::q5_k> {
  static constexpr int kBatch = 8;
  static constexpr bool kBlocks = true;
  struct Piece {
    uint4 q;
    std::uint32_t h;
    std::uint32_t dm;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int) {
    return {load_stream(static_cast<const uint4*>(m.data) + index),
            load_stream(static_cast<const std::uint32_t*>(m.high) + index),
            load_stream(static_cast<const std::uint32_t*>(m.scales) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int block) {
    int acc = dot16(fives_low(p.q, p.h), x.q_low[block], 0);
    acc = dot16(fives_high(p.q, p.h), x.q_high[block], acc);
    const int2 meta = x.meta[block];
    const float2 dm = f16_pair(p.dm);
    const float sum = static_cast<float>(sum_low(meta.y) + sum_high(meta.y));
    return __int_as_float(meta.x) * (dm.x * static_cast<float>(acc) - dm.y * sum);
  }
};

template <>
struct Packed<BlockType::wide> {
  static constexpr int kBatch = 4;
  static constexpr bool kBlocks = true;
  struct Piece {
    uint4 a, b;
    uint4 s;  // f32 scale and offset of a, of b
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int lane) {
    const uint4* q = static_cast<const uint4*>(m.data) + (2 * index - lane);
    return {load_stream(q), load_stream(q + 32),
            load_stream(static_cast<const uint4*>(m.scales) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int block) {
    const int a = dot16(p.a, x.q_low[block], 0);
    const int b = dot16(p.b, x.q_high[block], 0);
    const int2 meta = x.meta[block];
    float sum = __uint_as_float(p.s.y) * static_cast<float>(sum_low(meta.y));
    sum = fmaf(__uint_as_float(p.s.w), static_cast<float>(sum_high(meta.y)), sum);
    sum = fmaf(__uint_as_float(p.s.x), static_cast<float>(a), sum);
    sum = fmaf(__uint_as_float(p.s.z), static_cast<float>(b), sum);
    return __int_as_float(meta.x) * sum;
  }
};

__device__ __forceinline__ float dot4(float4 a, float x, float y, float z, float w, float acc) {
  return fmaf(a.w, w, fmaf(a.z, z, fmaf(a.y, y, fmaf(a.x, x, acc))));
}

template <>
struct Packed<BlockType::bf16> {
  static constexpr int kBatch = 8;
  static constexpr bool kBlocks = false;
  struct Piece {
    uint4 w;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int) {
    return {load_stream(static_cast<const uint4*>(m.data) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int chunk) {
    float acc = dot4(x.f_low[chunk], bf16_low(p.w.x), bf16_high(p.w.x), bf16_low(p.w.y),
                     bf16_high(p.w.y), 0.0F);
    return dot4(x.f_high[chunk], bf16_low(p.w.z), bf16_high(p.w.z), bf16_low(p.w.w),
                bf16_high(p.w.w), acc);
  }
};

template <>
struct Packed<BlockType::f16> {
  static constexpr int kBatch = 8;
  static constexpr bool kBlocks = false;
  struct Piece {
    uint4 w;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int) {
    return {load_stream(static_cast<const uint4*>(m.data) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int chunk) {
    const float2 a = f16_pair(p.w.x), b = f16_pair(p.w.y), c = f16_pair(p.w.z), d = f16_pair(p.w.w);
    const float acc = dot4(x.f_low[chunk], a.x, a.y, b.x, b.y, 0.0F);
    return dot4(x.f_high[chunk], c.x, c.y, d.x, d.y, acc);
  }
};

template <>
struct Packed<BlockType::f32> {
  static constexpr int kBatch = 8;
  static constexpr bool kBlocks = false;
  struct Piece {
    uint4 w;
  };
  static __device__ __forceinline__ Piece load(const Matrix& m, std::size_t index, int) {
    return {load_stream(static_cast<const uint4*>(m.data) + index)};
  }
  static __device__ __forceinline__ float dot(const Piece& p, const SharedInput& x, int chunk) {
    const float4 v = (chunk & 1) != 0 ? x.f_high[chunk >> 1] : x.f_low[chunk >> 1];
    return dot4(v, __uint_as_float(p.w.x), __uint_as_float(p.w.y), __uint_as_float(p.w.z),
                __uint_as_float(p.w.w), 0.0F);
  }
};

/// Calls f.template operator()<type>() for the matrix's type.
template <class F>
__device__ __forceinline__ void with_type(BlockType type, F&& f) {
  switch (type) {
    case BlockType::q4_0:
      return f.template operator()<BlockType::q4_0>();
    case BlockType::q8_0:
      return f.template operator()<BlockType::q8_0>();
    case BlockType::q4_k:
      return f.template operator()<BlockType::q4_k>();
    case BlockType::q6_k:
      return f.template operator()<BlockType::q6_k>();
    case BlockType::q5_0:
      return f.template operator()<BlockType::q5_0>();
    case BlockType::q5_k:
      return f.template operator()<BlockType::q5_k>();
    case BlockType::wide:
      return f.template operator()<BlockType::wide>();
    case BlockType::bf16:
      return f.template operator()<BlockType::bf16>();
    case BlockType::f16:
      return f.template operator()<BlockType::f16>();
    case BlockType::f32:
    // No matrix is of these: they are packed as others (pack.h).
    case BlockType::q4_1:
    case BlockType::q5_1:
    case BlockType::q2_k:
    case BlockType::q3_k:
    case BlockType::iq4_nl:
    case BlockType::iq4_xs:
    case BlockType::i8:
    case BlockType::i32:
      return f.template operator()<BlockType::f32>();
  }
}

/// One weight, for embedding rows and unpacking: 8 values from `first` (a multiple of 8) of a row.
__device__ inline void unpack8(const Matrix& m, int row, int first, float (&out)[8]) {
  if (m.type == BlockType::f32) {
    const float4* p = static_cast<const float4*>(m.data) + (std::size_t(row) * m.cols + first) / 4;
    const float4 a = p[0], b = p[1];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w, out[4] = b.x, out[5] = b.y,
    out[6] = b.z, out[7] = b.w;
    return;
  }
  if (m.type == BlockType::bf16 || m.type == BlockType::f16) {
    const uint4 w = static_cast<const uint4*>(m.data)[(std::size_t(row) * m.cols + first) / 8];
    const unsigned words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (m.type == BlockType::bf16) {
        out[2 * i] = bf16_low(words[i]), out[2 * i + 1] = bf16_high(words[i]);
      } else {
        const float2 v = f16_pair(words[i]);
        out[2 * i] = v.x, out[2 * i + 1] = v.y;
      }
    }
    return;
  }
  const int tile = row / (32 / m.lanes), block = first / 32;
  const int lane = (row % (32 / m.lanes)) * m.lanes + block % m.lanes;
  const std::size_t index = (std::size_t(tile) * m.steps + block / m.lanes) * 32 + lane;
  const int j = first % 32;  // 0, 8, 16 or 24
  if (m.type == BlockType::q8_0) {
    const uint4* q = static_cast<const uint4*>(m.data) + (2 * index - lane) + (j >= 16 ? 32 : 0);
    const auto* bytes = reinterpret_cast<const std::int8_t*>(q) + j % 16;
    const float d = f16(static_cast<const std::uint16_t*>(m.scales)[index]);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d * static_cast<float>(bytes[i]);
    return;
  }
  if (m.type == BlockType::wide) {
    const uint4* q = static_cast<const uint4*>(m.data) + (2 * index - lane) + (j >= 16 ? 32 : 0);
    const auto* bytes = reinterpret_cast<const std::int8_t*>(q) + j % 16;
    const float2 s = static_cast<const float2*>(m.scales)[2 * index + (j >= 16 ? 1 : 0)];
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = fmaf(s.x, static_cast<float>(bytes[i]), s.y);
    return;
  }
  const auto* bytes =
      reinterpret_cast<const std::uint8_t*>(static_cast<const uint4*>(m.data) + index) + j % 16;
  const int shift = j >= 16 ? 4 : 0;
  if (m.type == BlockType::q4_0) {
    const float d = f16(static_cast<const std::uint16_t*>(m.scales)[index]);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d * static_cast<float>(((bytes[i] >> shift) & 15) - 8);
    return;
  }
  if (m.type == BlockType::q5_0 || m.type == BlockType::q5_k) {
    const auto* fifth =
        reinterpret_cast<const std::uint8_t*>(static_cast<const std::uint32_t*>(m.high) + index);
    const bool centred = m.type == BlockType::q5_0;
    const float2 d =
        centred ? make_float2(f16(static_cast<const std::uint16_t*>(m.scales)[index]), 0.0F)
                : f16_pair(static_cast<const std::uint32_t*>(m.scales)[index]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int v = j + i;
      const int code = ((bytes[i] >> shift) & 15) | (((fifth[v % 4] >> (v / 4)) & 1) << 4);
      out[i] = centred ? d.x * static_cast<float>(code - 16) : d.x * static_cast<float>(code) - d.y;
    }
    return;
  }
  const float2 d = f16_pair(static_cast<const std::uint32_t*>(m.scales)[index]);
  if (m.type == BlockType::q4_k) {
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = d.x * static_cast<float>((bytes[i] >> shift) & 15) - d.y;
    return;
  }
  const auto* high =
      reinterpret_cast<const std::uint8_t*>(static_cast<const uint2*>(m.high) + index);
  const float scale = j >= 16 ? d.y : d.x;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int v = j % 16 + i, word = v / 4;  // byte v of q = byte v % 4 of word v / 4
    const int bits = (high[(word / 2) * 4 + v % 4] >> ((word % 2) * 4 + (j >= 16 ? 2 : 0))) & 3;
    out[i] = scale * static_cast<float>(((((bytes[i] >> shift) & 15)) | (bits << 4)) - 32);
  }
}

}  // namespace runnel::cuda
