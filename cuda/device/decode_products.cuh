// SPDX-License-Identifier: Apache-2.0
// The decode kernel's products: a warp's run of a matrix out of its ring.
#pragma once

#include "cuda/device/decode_dot.cuh"
#include "cuda/device/decode_ring.cuh"

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

/// A warp's part of one product, in registers.
struct Job {
  int shape = -1, partial = 0, n = 0;
  int4 run, walk, places;  // of DecodeRun and DecodeShape
};
/// Matrix `index` of a phase of `kind`; shape -1: there is none.
__device__ __forceinline__ Job take_job(int phase, int kind, int index) {
  const Decode& p = program<5>(phase);
  const int warp = (thread_index() + hidden_zero<5>(phase)) >> 5;
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[phase >> 2];
  const DecodeMatrix& m = w.matrices[kind == 0 ? index : kDecodeInputs - 1 + kind];
  Job job;
  job.shape = m.shape, job.partial = m.partial, job.n = p.widths[kind];
  const int shape = max(job.shape, 0);
  job.run = *reinterpret_cast<const int4*>(shared_at<const DecodeRun>(p.shared.runs) +
                                           shape * kDecodeWarps + warp);
  const auto* s = reinterpret_cast<const int4*>(p.shapes + shape);
  job.walk = s[0], job.places = s[1];
  return job;
}

/// kN steps of one tile; the pieces are under way together.
template <BlockType kType, int kN>
__device__ __forceinline__ float multiply_steps(const SharedInput& x, StagePiece& at, int it,
                                                int steps, int tail, int lane, int in_row,
                                                int lane_shift, float acc) {
  using S = Streamed<kType>;
  typename S::Weights w[kN];
  typename S::Input in[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) {
    if constexpr (S::kBlocks) {
      constexpr int kScale = S::kScaleBytes, kStep = S::kStepBytes;
      w[j] = S::load({at.data + j * kStep, at.scales + j * kScale, at.high + j * 256});
      in[j].load(x, ((it + j) << lane_shift) + in_row);
    } else {
      const int chunk = (it + j) * 32 + lane, some = it + j == steps - 1 ? tail : 32;
      w[j].w = reinterpret_cast<const uint4*>(at.data)[min(lane, some - 1)];
      in[j] = S::input(x, chunk, lane < some);
      at.data += some * 16;
    }
  }
  if constexpr (S::kBlocks)
    at.data += kN * S::kStepBytes, at.scales += kN * S::kScaleBytes, at.high += kN * 256;
  float sums[kN];
#pragma unroll
  for (int j = 0; j < kN; ++j) sums[j] = S::dot(w[j], in[j], 0.0F);
#pragma unroll
  for (int j = 0; j < kN; ++j) acc += sums[j];
  return acc;
}

/// This warp's run of one matrix times the input of n values: sums of rows, one for each of the
/// warps that share a tile, to `partial`.
template <BlockType kType>
__device__ __forceinline__ void multiply_run(Ring& ring, int phase, const Job& job) {
  using S = Streamed<kType>;
  const Decode& p = program<2>(phase);
  const int tid = thread_index() + hidden_zero<2>(phase), lane = tid & 31, warp = tid >> 5;
  const int n = job.n;
  SharedInput x;
  x.q_low = shared_at<int4>(p.shared.rounded);
  x.q_high = x.q_low + n / 32;
  x.meta = reinterpret_cast<int2*>(x.q_high + n / 32);
  x.f_low = shared_at<float4>(p.shared.plain);
  x.f_high = x.f_low + n / 8;
  const int steps = job.walk.x, piece_steps = job.walk.y, ways_rows = job.walk.w,
            lane_shift = S::kBlocks ? job.walk.z : 5, scale_at = job.places.x,
            high_at = job.places.y, tail = job.places.z;
  const int ring_slots = p.ring_slots, slot_bytes = p.slot_bytes;
  const int in_row = lane & ((1 << lane_shift) - 1);
  const unsigned char* const slots =
      shared_at<const unsigned char>(p.shared.ring) + warp * p.ring_bytes;
  std::uint64_t* const barriers = shared_at<std::uint64_t>(p.shared.barriers) + warp * ring_slots;
  float* const partial = shared_at<float>(p.shared.partial) + job.partial + (lane >> lane_shift);
  int left = job.run.x, it = job.run.y, sums_at = job.run.z, next_at = job.run.w;
  float acc = 0.0F;
#pragma unroll 1
  while (left > 0) {
    int here = min(left, piece_steps);
    left -= here;
    wait_barrier(p, barriers + ring.slot, ring.parity);
    StagePiece at;
    at.data = slots + ring.slot * slot_bytes + (S::kBlocks ? lane * 16 : 0);
    at.scales = slots + ring.slot * slot_bytes + scale_at + lane * (S::kScaleBytes / 32);
    at.high = slots + ring.slot * slot_bytes + high_at + lane * 8;
#pragma unroll 1
    while (here > 0) {
      int some = min(here, steps - it);  // of this tile
      here -= some;
#pragma unroll 1
      for (; some >= 2; some -= 2) {
        acc = multiply_steps<kType, 2>(x, at, it, steps, tail, lane, in_row, lane_shift, acc);
        it += 2;
      }
      if (some > 0) {
        acc = multiply_steps<kType, 1>(x, at, it, steps, tail, lane, in_row, lane_shift, acc);
        ++it;
      }
      if (it == steps || left + here == 0) {
        float sum[1] = {acc};
        if constexpr (S::kBlocks) {
          add_lanes(sum, lane_shift);
        } else {
          add_lanes<5>(sum);
        }
        if (in_row == 0) partial[sums_at] = sum[0];
        sums_at = next_at, next_at += ways_rows;
        acc = 0.0F, it = 0;
      }
    }
    sync_warp();
    ++ring.done;
    if (lane == 0) show_word(shared_at<std::uint32_t>(p.shared.emptied) + warp, ring.done);
    if (++ring.slot == ring_slots) ring.slot = 0, ring.parity ^= 1U;
  }
}

/// A row's sum, from its parts.
__device__ __forceinline__ float row_sum(const DecodeShape& s, const unsigned char* owners,
                                         const float* partial, int row) {
  const int row_shift = s.row_shift, tile = row >> row_shift, ways = owners[tile];
  const float* from = partial + tile * s.ways_rows + (row & ((1 << row_shift) - 1));
  float sum = 0.0F;
#pragma unroll 1
  for (int w = 0; w < ways; w += 4) {
    float part[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) part[j] = w + j < ways ? from[(w + j) << row_shift] : 0.0F;
    sum += (part[0] + part[1]) + (part[2] + part[3]);
  }
  return sum;
}

/// The products of a phase, of which `job` is the first.
template <unsigned kTypes>
__device__ __forceinline__ void multiply(Ring& ring, int phase, int kind, Job job) {
#pragma unroll 1
  for (int i = 1; job.shape >= 0; ++i) {
    const BlockType type = static_cast<BlockType>(job.places.w & 255);
    const auto with = [&]<BlockType kType>() {
      if constexpr ((kTypes & kTypeBit<kType>) != 0) {
        if (type == kType) multiply_run<kType>(ring, phase, job);
      }
    };
    with.template operator()<BlockType::q4_0>();
    with.template operator()<BlockType::q8_0>();
    with.template operator()<BlockType::q4_k>();
    with.template operator()<BlockType::q6_k>();
    with.template operator()<BlockType::bf16>();
    with.template operator()<BlockType::f16>();
    with.template operator()<BlockType::f32>();
    if (kind != 0 || i == kDecodeInputs) break;
    job = take_job(phase, kind, i);
  }
}

}  // namespace runnel::cuda
