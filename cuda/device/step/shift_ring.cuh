// SPDX-License-Identifier: Apache-2.0
// A warp's ring of the kernel of cuda/step_shift.h: the pieces of weights that its items need, in the order of use.
#pragma once

#include "cuda/device/step/shift_exchange.cuh"

namespace runnel::cuda {

/// Where a warp is in its list of pieces.
struct ShiftCursor {
  int phase = 0, round = -1;
  ShiftItem item;
  int tile = 0, step = 0, begin = 0, end = 0;

  /// The next item that is not empty; false: there is none.
  __device__ __forceinline__ bool next_item(const ShiftStep& p, int cta, int warp) {
    const int phases = kShiftPhases * p.num_layers;
    for (;;) {
      ++round;
#pragma unroll 1
      while (phase <= phases && round >= table_of(p, phase).rounds) round = 0, ++phase;
      if (phase > phases) return false;
      item = load_item(table_of(p, phase), cta, round, warp);
      if (item.matrix < 0) continue;
      const ShiftShape& m = shape_of(p, shift_layer(p, phase / kShiftPhases).matrices[item.matrix]);
      begin = m.steps * item.part / item.parts, end = m.steps * (item.part + 1) / item.parts;
      tile = item.first_tile, step = begin;
      return true;
    }
  }
};

/// A warp's ring.
struct ShiftRing {
  ShiftCursor ahead;  // what is loaded next
  bool more = true;
  int asked = 0, done = 0;  // slots
  unsigned parity = 0;

  /// Asks for the next piece. All lanes of the warp; the slot is free.
  __device__ __forceinline__ void ask(const ShiftStep& p, int cta, int warp, int lane) {
    if (!more) return;
    const ShiftMatrix& matrix =
        shift_layer(p, ahead.phase / kShiftPhases).matrices[ahead.item.matrix];
    const ShiftShape& m = shape_of(p, matrix);
    const int n = min(m.piece_steps, ahead.end - ahead.step),
              tiles = min(m.piece_tiles, ahead.item.first_tile + ahead.item.tiles - ahead.tile);
    if (lane == 0) {
      std::uint64_t* const barrier =
          shared_at<std::uint64_t>(p.shared.barriers) + warp * p.slots + asked;
      unsigned char* const to =
          shared_at<unsigned char>(p.shared.ring) + (warp * p.slots + asked) * kShiftSlotBytes;
      const std::size_t tile = std::size_t(unsigned(ahead.tile));
      const unsigned first = unsigned(ahead.step * m.step_bytes);
      const unsigned data = m.piece_tiles > 1
                                ? unsigned(tiles * m.tile_bytes)
                                : min(unsigned(n * m.step_bytes), unsigned(m.tile_bytes) - first);
      const unsigned scales = unsigned(n * m.scale_bytes), high = unsigned(n * m.high_bytes);
      const std::uint64_t policy = policy_leave_first();
      barrier_expect(barrier, data + scales + high);
      bulk_copy(to, static_cast<const char*>(matrix.data) + tile * unsigned(m.tile_bytes) + first,
                data, barrier, policy);
      const std::size_t before = tile * unsigned(m.steps) + unsigned(ahead.step);
      if (scales != 0)
        bulk_copy(to + n * m.step_bytes,
                  static_cast<const char*>(matrix.scales) + before * unsigned(m.scale_bytes),
                  scales, barrier, policy);
      if (high != 0)
        bulk_copy(to + n * (m.step_bytes + m.scale_bytes),
                  static_cast<const char*>(matrix.high) + before * unsigned(m.high_bytes), high,
                  barrier, policy);
    }
    if (++asked == p.slots) asked = 0;
    ahead.step += n;
    if (ahead.step < ahead.end) return;
    ahead.step = ahead.begin;
    ahead.tile += tiles;
    if (ahead.tile < ahead.item.first_tile + ahead.item.tiles) return;
    more = ahead.next_item(p, cta, warp);
  }
};

}  // namespace runnel::cuda
