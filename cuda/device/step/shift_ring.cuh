// SPDX-License-Identifier: Apache-2.0
// The rings of the kernel of cuda/step_shift.h: the pieces of weights that each warp's items need, in the order of use.
#pragma once

#include "cuda/device/step/shift_exchange.cuh"

namespace runnel::cuda {

/// Barriers of a warp's slots: those that are full, then those that are free.
__device__ __forceinline__ std::uint64_t* ring_barriers(const ShiftStep& p, int warp, bool free) {
  return shared_at<std::uint64_t>(p.shared.barriers) +
         ((free ? kShiftWarps : 0) + warp) * kShiftSlots;
}

/// A slot of a warp's ring, and the parity of the phase of its barrier that is waited for.
struct ShiftSlot {
  int slot = 0;
  unsigned parity = 0;

  __device__ __forceinline__ unsigned char* place(const ShiftStep& p, int warp) const {
    return shared_at<unsigned char>(p.shared.ring) + (warp * p.slots + slot) * kShiftSlotBytes;
  }
  __device__ __forceinline__ void advance(const ShiftStep& p) {
    if (++slot == p.slots) slot = 0, parity ^= 1U;
  }
};

/// A warp's ring, as the warp walks it.
struct ShiftRing {
  ShiftSlot at;

  /// The next piece. All lanes of the warp.
  __device__ __forceinline__ const unsigned char* wait() const {
    const ShiftStep& p = shift_program();
    const int warp = thread_index() >> 5;
    wait_barrier(p, ring_barriers(p, warp, false) + at.slot, at.parity);
    return at.place(p, warp);
  }
  /// Gives its slot back: all lanes have read it.
  __device__ __forceinline__ void release() {
    const ShiftStep& p = shift_program();
    sync_warp();
    if ((thread_index() & 31) == 0)
      barrier_arrive(ring_barriers(p, thread_index() >> 5, true) + at.slot);
    at.advance(p);
  }
};

/// Fills a warp's ring: where it is in the warp's list of pieces.
struct ShiftFiller {
  int warp = 0;
  bool more = true;
  ShiftSlot at = {0, 1};  // slots are free at first
  int phase = 0, round = -1;
  // What is left of the item: the next piece, steps of the tile, tiles that are left.
  const char* data = nullptr;
  const char* scales = nullptr;
  const char* high = nullptr;
  int shape = 0, step = 0, begin = 0, end = 0, tiles = 0;

  /// Goes to the next item that is not empty, if there is one.
  __device__ __forceinline__ void next_item() {
    const ShiftStep& p = shift_program();
    const int phases = kShiftPhases * p.num_layers;
#pragma unroll 1
    for (;;) {
      ++round;
#pragma unroll 1
      while (phase <= phases && round >= table_of(p, phase).rounds) round = 0, ++phase;
      more = phase <= phases;
      if (!more) return;
      const ShiftItem item = load_item(table_of(p, phase), round, warp);
      if (item.matrix < 0) continue;
      const ShiftMatrix& matrix = shift_layer(p, phase / kShiftPhases).matrices[item.matrix];
      const ShiftShape& m = shape_of(p, matrix);
      begin = item.first_step, end = begin + item.steps;
      shape = matrix.shape, step = begin, tiles = item.tiles;
      const std::size_t tile = std::size_t(unsigned(item.first_tile));
      const std::size_t before = tile * unsigned(m.steps) + unsigned(begin);
      data = static_cast<const char*>(matrix.data) + tile * unsigned(m.tile_bytes) +
             unsigned(begin * m.step_bytes);
      scales = static_cast<const char*>(matrix.scales) + before * unsigned(m.scale_bytes);
      high = static_cast<const char*>(matrix.high) + before * unsigned(m.high_bytes);
      return;
    }
  }
  /// Whether the next slot is free and wanted.
  __device__ __forceinline__ bool may_ask() const {
    const ShiftStep& p = shift_program();
    return more && barrier_tested(ring_barriers(p, warp, true) + at.slot, at.parity);
  }
  /// Asks for the next piece.
  __device__ __forceinline__ void ask(std::uint64_t policy) {
    const ShiftStep& p = shift_program();
    const ShiftShape& m = p.shapes[shape];
    const int n = min(m.piece_steps, end - step), together = min(m.piece_tiles, tiles);
    const int bytes = m.piece_tiles > 1 ? together * m.tile_bytes
                                        : min(n * m.step_bytes, m.tile_bytes - step * m.step_bytes);
    const int of_scales = n * m.scale_bytes, of_high = n * m.high_bytes;
    std::uint64_t* const barrier = ring_barriers(p, warp, false) + at.slot;
    unsigned char* const to = at.place(p, warp);
    barrier_expect(barrier, unsigned(bytes + of_scales + of_high));
    bulk_copy(to, data, unsigned(bytes), barrier, policy);
    if (of_scales != 0)
      bulk_copy(to + n * m.step_bytes, scales, unsigned(of_scales), barrier, policy);
    if (of_high != 0)
      bulk_copy(to + n * (m.step_bytes + m.scale_bytes), high, unsigned(of_high), barrier, policy);
    at.advance(p);
    data += bytes, scales += of_scales, high += of_high;
    step += n;
    if (step < end) return;
    step = begin, tiles -= together;
    if (tiles <= 0) return next_item();
    if (m.piece_tiles > 1) return;
    // The same part of the next tile.
    const int others = m.steps - (end - begin);
    data += m.tile_bytes - (min(end * m.step_bytes, m.tile_bytes) - begin * m.step_bytes);
    scales += others * m.scale_bytes, high += others * m.high_bytes;
  }
};

/// One warp, a lane for each of the rings; the lanes go on together, since each would need as long alone. It needs no
/// time-out: it waits for the warps alone, and their waits have an end.
__device__ __forceinline__ void fill_shift_rings() {
  const std::uint64_t policy = policy_leave_first();
  ShiftFiller filler;
  filler.warp = thread_index() & 31;
  filler.more = filler.warp < kShiftWarps;
  if (filler.more) filler.next_item();
#pragma unroll 1
  while (__reduce_max_sync(~0U, filler.more ? 1U : 0U) != 0) {
    if (filler.may_ask()) filler.ask(policy);
  }
}

}  // namespace runnel::cuda
