// SPDX-License-Identifier: Apache-2.0
// The decode kernel's products: a block's rows of a matrix out of its ring.
//
// Warps share columns, not rows, where they can: a lane has its part of the input in registers for
// all rows, and the sums of four tiles are traded among the lanes of a row together.
#pragma once

#include "cuda/device/step/dot.cuh"
#include "cuda/device/step/ring.cuh"

namespace runnel::cuda {

/// The sums of groups of 2^shift lanes.
template <int kShift, int kN>
__device__ __forceinline__ void add_lanes(float (&v)[kN]) {
#pragma unroll
  for (int o = (1 << kShift) >> 1; o > 0; o >>= 1) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] += __shfl_xor_sync(~0U, v[i], o);
  }
}
template <int kN>
__device__ __forceinline__ void add_lanes(float (&v)[kN], int shift) {
  if (shift == 5) return add_lanes<5>(v);
  if (shift == 4) return add_lanes<4>(v);
  if (shift == 3) return add_lanes<3>(v);
#pragma unroll 1
  for (int o = (1 << shift) >> 1; o > 0; o >>= 1) {
#pragma unroll
    for (int i = 0; i < kN; ++i) v[i] += __shfl_xor_sync(~0U, v[i], o);
  }
}
/// The same of 2 or 4 values; lane i of a group has the sum of v[i % kN].
template <int kN>
__device__ __forceinline__ float add_lanes_apart(const float (&v)[kN], int lane, int shift) {
  const bool odd = (lane & 1) != 0;
  float sum = (odd ? v[1] : v[0]) + __shfl_xor_sync(~0U, odd ? v[0] : v[1], 1);
  if constexpr (kN == 4) {
    const float other = (odd ? v[3] : v[2]) + __shfl_xor_sync(~0U, odd ? v[2] : v[3], 1);
    const bool upper = (lane & 2) != 0;
    const float mine = upper ? other : sum;
    sum = mine + __shfl_xor_sync(~0U, upper ? sum : other, 2);
  } else if (shift > 1) {
    sum += __shfl_xor_sync(~0U, sum, 2);
  }
  if (shift > 2) sum += __shfl_xor_sync(~0U, sum, 4);
  if (shift > 3) sum += __shfl_xor_sync(~0U, sum, 8);
  if (shift > 4) sum += __shfl_xor_sync(~0U, sum, 16);
  return sum;
}
inline constexpr int kLanesApart = 2;  // log2 of the lanes that it needs

template <int kN>
constexpr int kShiftOf = kN > 1 ? 1 + kShiftOf<kN / 2> : 0;
template <>
inline constexpr int kShiftOf<1> = 0;

/// A matrix as a block multiplies it, in registers before its input is there.
struct Job {
  int shape = -1, n = 0, tiles = 0;
  int4 walk, places;  // of DecodeShape
  // In shared memory.
  int partial = 0, rounded = 0, plain = 0, ring = 0, ring_bytes = 0, barriers = 0;
};
/// Matrix `index` of a phase of `kind`; shape -1: there is none.
__device__ __forceinline__ Job take_job(int phase, int kind, int index) {
  const Decode& p = program<5>(phase);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[phase >> 2];
  const DecodeMatrix& m = w.matrices[kind == 0 ? index : kDecodeInputs - 1 + kind];
  Job job;
  job.shape = m.shape, job.n = p.widths[kind];
  job.partial = p.shared.partial + 4 * m.partial;
  job.rounded = p.shared.rounded, job.plain = p.shared.plain, job.barriers = p.shared.barriers;
  job.ring = p.shared.ring, job.ring_bytes = p.ring_bytes;
  const int shape = max(job.shape, 0);
  const int2 range = shared_at<const int2>(p.shared.ranges)[shape];
  job.tiles = range.y - range.x;
  const auto* s = reinterpret_cast<const int4*>(p.shapes + shape);
  job.walk = s[0], job.places = s[1];
  return job;
}

template <BlockType kType>
__device__ __forceinline__ typename Streamed<kType>::Weights load_weights(const StagePiece& at) {
  using S = Streamed<kType>;
  if constexpr (S::kBlocks) {
    return S::load(at);
  } else {
    return {*reinterpret_cast<const uint4*>(at.data)};
  }
}
/// A lane's input of a step.
template <BlockType kType>
__device__ __forceinline__ typename Streamed<kType>::Input load_input(const SharedInput& x,
                                                                      int step, int lane_shift,
                                                                      int in_row, int lane,
                                                                      int chunks) {
  using S = Streamed<kType>;
  if constexpr (S::kBlocks) {
    typename S::Input in;
    in.load(x, (step << lane_shift) + in_row);
    return in;
  } else {
    return S::input(x, step * 32 + lane, lane < chunks);
  }
}

/// Makes a step's products zero.
template <class Input>
__device__ __forceinline__ void clear_input(Input& in, bool clear) {
  if constexpr (requires { in.scale; }) {
    in.scale = clear ? 0.0F : in.scale;
  } else if (clear) {
    in = {};
  }
}

/// A lane among the 2^shift ones of its row.
struct RowLane {
  int lane, in_row, shift;
};

/// One step each of `some` of up to kN tiles, with the same input.
template <BlockType kType, int kN>
__device__ __forceinline__ void multiply_tiles(const typename Streamed<kType>::Input& in,
                                               StagePiece at, int3 apart, int some, RowLane row,
                                               float* to, int to_apart) {
  using S = Streamed<kType>;
  typename S::Weights w[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    w[j] = load_weights<kType>(at);
    if (j + 1 < some) at.data += apart.x, at.scales += apart.y, at.high += apart.z;
  }
  float sums[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) sums[j] = S::dot(w[j], in, 0.0F);
  const float sum = add_lanes_apart(sums, row.lane, S::kBlocks ? row.shift : 5);
  if (row.in_row < some) to[row.in_row * to_apart] = sum;
}

/// This warp's part of one matrix times the input of n values, to `partial`. kColumns: n, or 0 if
/// it is known only at run time.
template <BlockType kType, int kColumns>
__device__ __forceinline__ void multiply_matrix(Ring& ring, int phase, int tid, const Job& job) {
  using S = Streamed<kType>;
  const Decode& p = program<2>(phase);
  const int lane = tid & 31, warp = tid >> 5;
  // If the width is known, a multiple of 256, a step is 256 columns of four rows or of one.
  constexpr bool kFixedShape = kColumns > 0;
  constexpr int kSteps = kColumns / 256;
  constexpr bool kOnce = kFixedShape && (kSteps & (kSteps - 1)) == 0 && kSteps <= kDecodeWarps;
  const int n = kFixedShape ? kColumns : job.n;
  SharedInput x;
  x.q_low = shared_at<int4>(job.rounded);
  x.q_high = x.q_low + n / 32;
  x.meta = reinterpret_cast<int2*>(x.q_high + n / 32);
  x.f_low = shared_at<float4>(job.plain);
  x.f_high = x.f_low + n / 8;
  const int steps = kFixedShape ? kSteps : job.walk.x,
            ways_shift = kOnce ? kShiftOf<kSteps> : job.walk.y,
            lane_shift = !S::kBlocks   ? 5
                         : kFixedShape ? 3
                                       : job.walk.z,
            row_shift = !S::kBlocks   ? 0
                        : kFixedShape ? 2
                                      : job.walk.w,
            tile_bytes = kFixedShape ? kSteps * S::kStepBytes : job.places.y,
            tail = kFixedShape ? 32 : job.places.z;
  constexpr int kHigh = S::kHighBytes;
  const int scale_bytes = steps * S::kScaleBytes, high_bytes = steps * kHigh;
  const int in_row = lane & ((1 << lane_shift) - 1);
  const int ways = 1 << ways_shift, way = warp & (ways - 1);
  const int tiles_shift = 4 - ways_shift, apart = 1 << tiles_shift, own = warp >> ways_shift;
  const int ring_bytes = job.ring_bytes;
  const unsigned char* const pieces = shared_at<const unsigned char>(job.ring);
  std::uint64_t* const barriers = shared_at<std::uint64_t>(job.barriers);
  float* const partial = shared_at<float>(job.partial) + way + ((lane >> lane_shift) << ways_shift);
  const int tile_shift = row_shift + ways_shift;  // of `partial`
  // If steps are no power of two, the last warps have none: they multiply the last one by zero.
  const bool once =
      kOnce || (!kFixedShape && steps <= ways && (!S::kBlocks || lane_shift >= kLanesApart));
  const int own_step = kOnce ? way : min(way, steps - 1);
  // A lane's place in a step.
  const int chunks = own_step == steps - 1 ? tail : 32;
  const int data_at = S::kBlocks ? lane * 16 : 0, scale_at = lane * (S::kScaleBytes / 32);
  // Whether or not: else the registers would be kept for it all around the loop of phases.
  typename S::Input in = load_input<kType>(x, own_step, lane_shift, in_row, lane, chunks);
  if constexpr (!kOnce) clear_input(in, way >= steps);
#pragma unroll 1
  for (int first = 0; first < job.tiles; first += job.places.x) {
    const int here = min(job.places.x, job.tiles - first);
    const unsigned char* const data =
        pieces + ring.place(piece_bytes(here, tile_bytes, scale_bytes + high_bytes), ring_bytes);
    const unsigned char* const scales = data + here * tile_bytes;
    const unsigned char* const high = scales + here * scale_bytes;
    wait_barrier(p, barriers + ring.slot, ring.parity);
    int tile = (own - first) & (apart - 1);
    if (once) {
      const int in_step = S::kBlocks ? data_at : min(lane, chunks - 1) * 16;
#pragma unroll 1
      for (; tile < here; tile += 4 * apart) {
        const StagePiece at{data + tile * tile_bytes + own_step * S::kStepBytes + in_step,
                            scales + tile * scale_bytes + own_step * S::kScaleBytes + scale_at,
                            high + tile * high_bytes + own_step * kHigh + lane * (kHigh / 32)};
        const int3 next = make_int3(tile_bytes << tiles_shift, scale_bytes << tiles_shift,
                                    high_bytes << tiles_shift);
        const int some = min(4, (here - tile + apart - 1) >> tiles_shift);
        float* const to = partial + ((first + tile) << tile_shift);
        const RowLane row{lane, in_row, lane_shift};
        if (some > 2) {
          multiply_tiles<kType, 4>(in, at, next, some, row, to, apart << tile_shift);
        } else {
          multiply_tiles<kType, 2>(in, at, next, some, row, to, apart << tile_shift);
        }
      }
    } else {
      constexpr int kN = 3;
#pragma unroll 1
      for (; tile < here; tile += apart) {
        float sum[1] = {0.0F};
#pragma unroll 1
        for (int step = way; step < steps; step += kN * ways) {
          typename S::Weights w[kN];
          typename S::Input part[kN];
#pragma unroll
          for (int j = 0; j < kN; ++j) {
            const int s = min(step + j * ways, steps - 1), own_chunks = s == steps - 1 ? tail : 32;
            w[j] =
                load_weights<kType>({data + tile * tile_bytes + s * S::kStepBytes +
                                         (S::kBlocks ? data_at : min(lane, own_chunks - 1) * 16),
                                     scales + tile * scale_bytes + s * S::kScaleBytes + scale_at,
                                     high + tile * high_bytes + s * kHigh + lane * (kHigh / 32)});
            part[j] = load_input<kType>(x, s, lane_shift, in_row, lane, own_chunks);
          }
          float sums[kN];
#pragma unroll
          for (int j = 0; j < kN; ++j) sums[j] = S::dot(w[j], part[j], 0.0F);
#pragma unroll
          for (int j = 0; j < kN; ++j) sum[0] += step + j * ways < steps ? sums[j] : 0.0F;
        }
        if constexpr (S::kBlocks) {
          add_lanes(sum, lane_shift);
        } else {
          add_lanes<5>(sum);
        }
        if (in_row == 0) partial[(first + tile) << tile_shift] = sum[0];
      }
    }
    sync_warp();
    if (lane == 0) barrier_arrive(barriers + kDecodePieces + ring.slot);
    ring.advance();
  }
}

/// A row's sum, from its parts.
__device__ __forceinline__ float row_sum(const float* parts, int ways_shift) {
  if (ways_shift == 3) {
    const float4 a = reinterpret_cast<const float4*>(parts)[0],
                 b = reinterpret_cast<const float4*>(parts)[1];
    return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
  }
  if (ways_shift == 2) {
    const float4 a = *reinterpret_cast<const float4*>(parts);
    return (a.x + a.y) + (a.z + a.w);
  }
  float sum = 0.0F;
#pragma unroll 1
  for (int w = 0; w < 1 << ways_shift; ++w) sum += parts[w];
  return sum;
}

/// The products of a phase, of which `job` is the first.
template <unsigned kTypes, int kColumns>
__device__ __forceinline__ void multiply(Ring& ring, int phase, int kind, int tid, Job job) {
#pragma unroll 1
  for (int i = 1; job.shape >= 0; ++i) {
    const BlockType type = static_cast<BlockType>(job.places.w);
    for_type<kTypes>(
        type, [&]<BlockType kType>() { multiply_matrix<kType, kColumns>(ring, phase, tid, job); });
    if (kind != 0 || i == kDecodeInputs) break;
    job = take_job(phase, kind, i);
  }
}

}  // namespace runnel::cuda
