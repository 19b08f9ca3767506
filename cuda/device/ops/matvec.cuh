// SPDX-License-Identifier: Apache-2.0
// out = W f(x) for one token per grid row: the whole of a decode step but the slots.
//
// Work split: a block takes some tiles of a matrix (Matrix: 32/lanes rows each) and some equal
// parts of their steps, one (tile, part) a warp. A warp's first kBatch loads are issued before the
// kernel waits for its predecessor, so the weights of a phase travel while the phase before it
// computes; the rest follow in a ring of registers. Bound: the packed bytes of W, read once. The
// input is read from L2 by every block (4 bytes a value).
#pragma once

#include "cuda/device/launch.cuh"
#include "cuda/device/packed.cuh"
#include "cuda/head_norm.h"

namespace runnel::cuda {

constexpr int kMostPieces = kMostNormed / 128;

/// How blocks divide the work of one segment: `tiles` tiles a block and warps / tiles parts of the steps.
template <int kWarps>
struct MatvecShared {
  float partial[kWarps * 32];  // row sums of each warp
  float squares[kWarps];       // sums of squares of the input
  float pieces[kMostPieces];   // the same of each 128 of it, where heads have their own norms
};

/// Puts the input of token `t` into shared memory in the form(s) that the matrix type needs; leaves
/// sums of squares of the activated input in `squares`.
template <int kWarps>
__device__ void fill_input(const Matvec& a, const HeadNorm& heads, int t, bool blocks,
                           const SharedInput& s, float (&squares)[kWarps],
                           float (&pieces)[kMostPieces]) {
  const int tid = int(threadIdx.x), padded = (a.n + 31) / 32 * 32;
  if (a.x == nullptr) {
    const int words = padded / 4;
    const std::int32_t* q = a.quantised.words + std::size_t(t) * words;
    for (int i = tid; i < words; i += kWarps * 32) {
      int4* half = (i & 4) != 0 ? s.q_high : s.q_low;
      reinterpret_cast<int*>(half)[(i >> 3) * 4 + (i & 3)] = q[i];
    }
    const int2* meta = a.quantised.meta + std::size_t(t) * (padded / 32);
    for (int i = tid; i < padded / 32; i += kWarps * 32) s.meta[i] = meta[i];
    return;
  }
  const float* x = a.x + std::size_t(t) * a.x_stride;
  const float* gate =
      heads.gate != nullptr ? heads.gate + std::size_t(t) * heads.gate_stride : nullptr;
  const bool vector =
      (a.n & 3) == 0 && (a.x_stride & 3) == 0 && (gate == nullptr || (heads.gate_stride & 3) == 0);
  float sum = 0.0F;
  for (int base = 0; base < padded / 4; base += kWarps * 32) {
    const int i = base + tid;  // four values
    float v[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    float w[4] = {1.0F, 1.0F, 1.0F, 1.0F};
    const int weight = heads.head_dim > 0 ? 4 * i % heads.head_dim : 4 * i;
    if (vector) {
      if (4 * i < a.n) {
        *reinterpret_cast<float4*>(v) = reinterpret_cast<const float4*>(x)[i];
        float g[4];
        if (gate != nullptr)
          *reinterpret_cast<float4*>(g) = reinterpret_cast<const float4*>(gate)[i];
        if (a.norm_weight != nullptr)
          *reinterpret_cast<float4*>(w) = *reinterpret_cast<const float4*>(a.norm_weight + weight);
        if (gate != nullptr) {
#pragma unroll
          for (int c = 0; c < 4; ++c) w[c] *= swish(g[c]);
        }
      }
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (4 * i + c < a.n) {
          v[c] = x[4 * i + c];
          if (a.norm_weight != nullptr) w[c] = a.norm_weight[weight + c];
          if (gate != nullptr) w[c] *= swish(gate[4 * i + c]);
        }
      }
    }
    float peak = 0.0F;
    const float before = sum;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      v[c] = activate(a.act, v[c]);
      sum = fmaf(v[c], v[c], sum);
      v[c] *= w[c];
      peak = fmaxf(peak, fabsf(v[c]));
    }
    if (heads.head_dim > 0) {  // a warp has 128 values of one head
      const float piece = warp_sum(sum - before);
      if ((tid & 31) == 0 && 4 * i < a.n) pieces[i / 32] = piece;
    }
    if (!blocks) {
      if (i < padded / 4)
        ((i & 1) != 0 ? s.f_high : s.f_low)[i >> 1] = make_float4(v[0], v[1], v[2], v[3]);
      continue;
    }
    // Eight neighbouring lanes hold one block of 32.
    for (int o = 1; o < 8; o <<= 1) peak = fmaxf(peak, __shfl_xor_sync(~0U, peak, o));
    const float inverse = peak > 0.0F ? 127.0F / peak : 0.0F;
    int packed = 0, total = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int q = __float2int_rn(v[c] * inverse);
      total += q;
      packed |= (q & 255) << (8 * c);
    }
    total += __shfl_xor_sync(~0U, total, 1);
    total += __shfl_xor_sync(~0U, total, 2);
    const int other = __shfl_xor_sync(~0U, total, 4);
    if (i < padded / 4) {
      int4* half = (i & 4) != 0 ? s.q_high : s.q_low;
      reinterpret_cast<int*>(half)[(i >> 3) * 4 + (i & 3)] = packed;
      if ((i & 7) == 0)
        s.meta[i >> 3] = make_int2(__float_as_int(peak / 127.0F), (total & 0xFFFF) | (other << 16));
    }
  }
  sum = warp_sum(sum);
  if ((tid & 31) == 0) squares[tid >> 5] = sum;
  if (heads.head_dim == 0) return;
  __syncthreads();
  // The norms of the heads: of int8 blocks a part of their scales.
  const auto factor = [&](int value) {
    const int first = value / heads.head_dim * (heads.head_dim / 128);
    float of_head = 0.0F;
    for (int p = 0; p < heads.head_dim / 128; ++p) of_head += pieces[first + p];
    return rsqrtf(of_head / static_cast<float>(heads.head_dim) + a.eps);
  };
  for (int b = tid; b < a.n / 32; b += kWarps * 32) {
    const float f = factor(b * 32);
    if (blocks) {
      s.meta[b].x = __float_as_int(__int_as_float(s.meta[b].x) * f);
      continue;
    }
    for (int c = 0; c < 4; ++c) {
      float4 &low = s.f_low[b * 4 + c], &high = s.f_high[b * 4 + c];
      low.x *= f, low.y *= f, low.z *= f, low.w *= f;
      high.x *= f, high.y *= f, high.z *= f, high.w *= f;
    }
  }
}

/// Where an input of so many blocks of 32 lies, as int8 blocks or as floats.
__device__ __forceinline__ SharedInput matvec_input(unsigned char* shared, int blocks) {
  SharedInput input;
  input.q_low = reinterpret_cast<int4*>(shared);
  input.q_high = input.q_low + blocks;
  input.meta = reinterpret_cast<int2*>(input.q_high + blocks);
  input.f_low = reinterpret_cast<float4*>(shared);
  input.f_high = input.f_low + 4 * blocks;
  return input;
}

template <int kWarps>
__device__ __forceinline__ float one_over_rms(const Matvec& a, const MatvecShared<kWarps>& shared) {
  float sum = 0.0F;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += shared.squares[w];
  return rsqrtf(sum / static_cast<float>(a.n) + a.eps);
}

template <MatvecOutput kOutput, int kWarps>
__global__ void __launch_bounds__(kWarps * 32, 1024 / (kWarps * 32))
    matvec_kernel(const __grid_constant__ Matvec a, const __grid_constant__ HeadNorm heads,
                  float* h, QuantisedVector hq) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  __shared__ MatvecShared<kWarps> shared;
  chain_trigger();

  int index = 0;
  while (index + 1 < a.num_segments && int(blockIdx.x) >= a.segments[index + 1].first_block)
    ++index;
  const MatvecSegment& segment = a.segments[index];
  const Matrix& m = segment.w;
  const int tid = int(threadIdx.x), lane = tid & 31, warp = tid >> 5, token = int(blockIdx.y);
  const int tiles = segment.tiles_per_block, parts = kWarps / tiles;
  const int tile_rows = 32 / m.lanes;
  const int first_tile = (int(blockIdx.x) - segment.first_block) * tiles;
  const int tile = first_tile + warp / parts, part = warp % parts;
  const bool active = tile * tile_rows < m.rows;
  const int begin = m.steps * part / parts, end = active ? m.steps * (part + 1) / parts : begin;

  const SharedInput input = matvec_input(dynamic, (a.n + 31) / 32);

  // The norm weights are needed right after the wait and lie in device memory by then: bring them near.
  if (a.norm_weight != nullptr && tid * 32 < a.n) prefetch_l2(a.norm_weight + tid * 32);

  const int rows = tiles * tile_rows;  // of this block, at most a thread each
  const int first_row = first_tile * tile_rows;
  const bool there = tid < rows && first_row + tid < m.rows;
  float before = 0.0F;  // what a row is added to
  float acc = 0.0F;
  with_type(m.type, [&]<BlockType kType>() {
    using P = Packed<kType>;
    std::size_t at, stride;
    if constexpr (P::kBlocks) {
      at = std::size_t(tile) * m.steps * 32 + lane;
      stride = 32;
    } else {
      const int row = min(tile * tile_rows + lane / m.lanes, m.rows - 1);
      at = std::size_t(row) * (m.steps * m.lanes) + lane % m.lanes;
      stride = m.lanes;
    }
    typename P::Piece pieces[P::kBatch];
#pragma unroll
    for (int i = 0; i < P::kBatch; ++i) {
      if (begin + i < end) pieces[i] = P::load(m, at + (begin + i) * stride, lane);
    }
    chain_wait();
    fill_input<kWarps>(a, heads, token, P::kBlocks, input, shared.squares, shared.pieces);
    __syncthreads();
    if (kOutput == MatvecOutput::add && there)
      before = segment.out[std::size_t(token) * segment.out_stride + first_row + tid];
    const int column = lane % m.lanes;
    for (int s = begin; s < end; s += P::kBatch) {
#pragma unroll
      for (int i = 0; i < P::kBatch; ++i) {
        if (s + i < end) {
          acc += P::dot(pieces[i], input, (s + i) * m.lanes + column);
          if (s + i + P::kBatch < end)
            pieces[i] = P::load(m, at + (s + i + P::kBatch) * stride, lane);
        }
      }
    }
  });

  for (int o = m.lanes >> 1; o > 0; o >>= 1) acc += __shfl_xor_sync(~0U, acc, o);
  if (lane % m.lanes == 0) shared.partial[warp * tile_rows + lane / m.lanes] = acc;
  __syncthreads();

  const float factor = a.normalise && heads.head_dim == 0 ? one_over_rms(a, shared) : 1.0F;
  float v = 0.0F;
  if (tid < rows) {
#pragma unroll 1
    for (int p = 0; p < parts; ++p)
      v += shared.partial[(tid / tile_rows * parts + p) * tile_rows + tid % tile_rows];
  }
  v *= factor;
  if constexpr (kOutput == MatvecOutput::swiglu) {
    const float up = __shfl_down_sync(~0U, v, 1);
    const int half = m.rows / 2, i = (first_row + tid) / 2;
    const float y = there ? swish(v) * up : 0.0F;  // of the even rows
    if (hq.words == nullptr) {
      if (there && (tid & 1) == 0) h[std::size_t(token) * half + i] = y;
    } else {
      // 64 rows of a block are one block of 32 products: two warps with 16 each.
      __shared__ float products[32];
      if (tid < 64 && (tid & 1) == 0) products[tid / 2] = y;
      __syncthreads();
      if (tid < 32) {
        const float mine = products[tid];
        const float peak = warp_max(fabsf(mine));
        const float inverse = peak > 0.0F ? 127.0F / peak : 0.0F;
        const int q = __float2int_rn(mine * inverse);
        int sum = q;
        for (int o = 1; o < 16; o <<= 1) sum += __shfl_xor_sync(~0U, sum, o);
        const int other = __shfl_xor_sync(~0U, sum, 16);
        int packed = (q & 255) << (8 * (tid & 3));
        packed |= __shfl_xor_sync(~0U, packed, 1);
        packed |= __shfl_xor_sync(~0U, packed, 2);
        const int blocks = (half + 31) / 32, block = first_row / 64;
        if (block < blocks) {
          if ((tid & 3) == 0)
            hq.words[(std::size_t(token) * blocks + block) * 8 + tid / 4] = packed;
          if (tid == 0) {
            hq.meta[std::size_t(token) * blocks + block] =
                make_int2(__float_as_int(peak / 127.0F), (sum & 0xFFFF) | (other << 16));
          }
        }
      }
    }
  } else if (there) {
    segment.out[std::size_t(token) * segment.out_stride + first_row + tid] = before + v;
  }
}

}  // namespace runnel::cuda
