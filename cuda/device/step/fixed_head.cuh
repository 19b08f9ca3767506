// SPDX-License-Identifier: Apache-2.0
// The head's kernel of cuda/step_head.h: logits = W x / RMS(x), x times the norm's weight,
// rounded. A warp has up to two tiles of 16 rows; the second is in its registers if it does not fit
// shared memory. Bound: nothing, while the layers are computed; then the latency of one input and
// some 20 instructions a step of 32 blocks.
#pragma once

#include "cuda/device/step/fixed_unit.cuh"
#include "cuda/device/step/inputs.cuh"
#include "cuda/step_head.h"

namespace runnel::cuda {

struct alignas(128) HeadShared {
  unsigned char data[kHeadTiles * kHeadTile];
  unsigned char scales[kHeadTiles * kHeadScales];
  unsigned char input[kHeadColumns / 32 * 40];
  float squares[8];
  std::uint64_t full;
};

/// A thread's exchanged values, when they are there. The wait is long, and many blocks that ask all
/// the time keep others from L2: one lane of a warp asks, now and then, until it has its own.
__device__ __forceinline__ float4 take_x(const HeadStep& p, const float* from) {
  float4 v = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    unsigned polls = 0;
#pragma unroll 1
    while (turn > 0 || (thread_index() & 31) == 0) {
      v = load_exchanged(from);
      const unsigned missing = (__float_as_uint(v.x) ^ p.bit) | (__float_as_uint(v.y) ^ p.bit) |
                               (__float_as_uint(v.z) ^ p.bit) | (__float_as_uint(v.w) ^ p.bit);
      if ((missing & 1U) == 0) break;
      if ((++polls & 1023U) == 0) {
        if (load_flag(p.timed_out) != 0) break;
        if (polls >= p.poll_limit) store_flag(p.timed_out, 0x80000014U);
      }
      if (turn == 0) pause(100);
    }
    sync_warp();
  }
  return unmarked(v);
}

template <class Unit>
__device__ __forceinline__ void show_logits(const HeadStep& p, Unit& unit, const HeadShared& s,
                                            int tile) {
  const float v = unit.multiply(s.input);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < (kHeadColumns / 4 + 31) / 32; ++i) sum += s.squares[i];
  const float factor = rsqrtf(fmaf(sum, 1.0F / static_cast<float>(kHeadColumns), p.norm_eps));
  if (unit.shows()) p.logits[tile * kHeadTileRows + unit.row()] = v * factor;
}

__device__ __forceinline__ void head_thread(const HeadStep& p) {
  using InShared = FixedUnit<BlockType::q8_0, kHeadColumns, kHeadTileRows, 3>;
  using InRegisters = FixedUnit<BlockType::q8_0, kHeadColumns, kHeadTileRows, 9>;
  static_assert(InRegisters::kLater == 0 && InShared::kGroups == 1);
  auto& s = *reinterpret_cast<HeadShared*>(shared_memory());
  const int tid = thread_index(), warp = __shfl_sync(~0U, tid >> 5, 0), lane = tid & 31;
  const int first = first_unit(p.tiles, block_index(), p.grid),
            tiles = first_unit(p.tiles, block_index() + 1, p.grid) - first;
  const int resident = min(tiles, kHeadTiles);
  const auto* data = static_cast<const unsigned char*>(p.data) + std::size_t(first) * kHeadTile;
  const auto* scales =
      static_cast<const unsigned char*>(p.scales) + std::size_t(first) * kHeadScales;
  if (tid == 0) {
    barrier_init(&s.full, 1);
    barrier_publish();
    if (resident > 0) {
      barrier_expect(&s.full, unsigned(resident * (kHeadTile + kHeadScales)));
      const std::uint64_t policy = policy_leave_first();
#pragma unroll 1
      for (int i = 0; i < resident; ++i)
        bulk_copy(s.data + i * kHeadTile, data + i * kHeadTile, kHeadTile, &s.full, policy);
      bulk_copy(s.scales, scales, unsigned(resident * kHeadScales), &s.full, policy);
    }
  }
  constexpr int kVectors = kHeadColumns / 4;
  float4 weight = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
  if (p.norm != nullptr && tid < kVectors) weight = reinterpret_cast<const float4*>(p.norm)[tid];
  const int second = warp + kHeadWarps;  // this warp's second tile
  InRegisters held{lane};
  if (second >= kHeadTiles) held.begin(data, scales, max(0, min(second, tiles - 1)));
  sync_block();
  if (resident > 0) {
    unsigned polls = 0;
#pragma unroll 1
    while (!barrier_passed(&s.full, 0)) {
      if ((++polls & 4095U) != 0) continue;
      if (load_flag(p.timed_out) != 0) break;
      if (polls >= p.poll_limit) store_flag(p.timed_out, 0xC0000015U);
    }
  }
  if ((tid & ~31) < kVectors) {
    float4 v[1] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F)};
    v[0] = take_x(p, p.x + 4 * min(tid, kVectors - 1));
    if (tid >= kVectors) v[0] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    float squared = sum_squares(v[0], 0.0F);
    v[0] = times(v[0], weight);
    using Place = RoundedPlace<kHeadColumns>;
    const SharedInput places{reinterpret_cast<int4*>(s.input),
                             reinterpret_cast<int4*>(s.input + Place::kHigh),
                             reinterpret_cast<int2*>(s.input + Place::kMeta), nullptr, nullptr};
    keep_input<1>(places, true, false, tid, kVectors, v, &squared);
    if (lane == 0) s.squares[warp] = squared;
  }
  sync_block();
  if (second >= kHeadTiles && second < tiles) show_logits(p, held, s, first + second);
#pragma unroll 1
  for (int tile = warp; tile < resident; tile += kHeadWarps) {
    InShared unit{lane};
    unit.begin(s.data, s.scales, tile);
    show_logits(p, unit, s, first + tile);
  }
}

}  // namespace runnel::cuda
