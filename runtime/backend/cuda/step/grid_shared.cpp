// SPDX-License-Identifier: Apache-2.0
// How a block of the decode kernel divides its shared memory, and how many tiles it copies at once.
#include <algorithm>
#include <span>

#include "runtime/backend/cuda/step/grid_program.h"
#include "runtime/backend/cuda/step/matrix_shapes.h"

namespace runnel::cuda {
namespace {

/// log2 of the warps that best share a tile, when a block has `tiles`. In units of a step's work.
int best_ways_shift(const DecodeShape& s, int tiles) {
  constexpr double kWithInput = 1.3, kSum = 1.5;
  int best = 0;
  double least = 0.0;
  for (int shift = 0; 1 << shift < std::min(2 * s.steps, 2 * kDecodeWarps); ++shift) {
    const int ways = 1 << shift;
    if (input_once(s, ways)) return shift;
    if (ways > s.steps) break;
    const double tile = divide_up(s.steps, ways) * kWithInput + kSum;
    const double cost = divide_up(tiles, kDecodeWarps / ways) * tile;
    if (shift == 0 || cost < least) least = cost, best = shift;
  }
  return best;
}

/// What the widest phase needs beside the ring, in bytes.
struct PhaseBytes {
  int rounded = 0, plain = 0, partial = 0;
};

class SharedLayout {
 public:
  SharedLayout(GridProgram& program, const GridLimits& limits, const DecodeTuning& tuning)
      : out_(program), limits_(limits), tuning_(tuning), p_(program.decode) {}

  std::string lay_out() {
    long long largest = 0;
    for (int i = 0; i < p_.num_shapes; ++i) {
      DecodeShape& s = p_.shapes[i];
      largest = std::max(largest, bytes_of_tile(s));
      s.ways_shift = best_ways_shift(s, share_of(s, s.whole_grid != 0 ? p_.grid : p_.blocks));
    }
    const PhaseBytes widest = widest_phase();
    if (!limits_.head_only && p_.warp_slots == 0 && p_.even == 0) place_slots();
    place(widest);
    place_ring();
    if (p_.ring_bytes < 3 * round_up(static_cast<int>(largest), 128))
      return "layers so wide that three tiles do not fit a block's shared memory";
    choose_pieces();
    if (p_.even != 0) take_even_pieces();
    for (int i = 0; i < p_.num_shapes; ++i) {
      const DecodeShape& shape = p_.shapes[i];
      p_.piece_bytes =
          std::max(p_.piece_bytes, shape.piece_tiles * static_cast<int>(bytes_of_tile(shape)));
    }
    if (p_.ring_bytes < p_.piece_bytes)
      return "layers so wide that a piece does not fit a block's shared memory";
    p_.shared.total = p_.shared.ring + p_.ring_bytes;
    return "";
  }

 private:
  PhaseBytes widest_phase() {
    PhaseBytes widest;
    for (DecodeLayer& w : out_.layers) {
      int floats = 0;  // of the phase
      for (int i = 0; i < kDecodeInputs + 4; ++i) {
        const int kind = i < kDecodeInputs ? 0 : i - kDecodeInputs + 1, n = p_.widths[kind];
        DecodeMatrix& m = w.matrices[i];
        if (m.shape < 0) continue;
        if (kind > 0) floats = 0;
        const DecodeShape& s = p_.shapes[m.shape];
        if (!quant::is_block_type(s.type)) {
          widest.plain = std::max(widest.plain, n / 32 * 128);
        } else {
          widest.rounded = std::max(widest.rounded, n / 32 * 40);
        }
        w.forms |= (!quant::is_block_type(s.type) ? kFormPlain : kFormRounded) << (2 * kind);
        m.partial = floats;
        floats += round_up(share_of(s, s.whole_grid != 0 ? p_.grid : p_.blocks)
                               << (s.row_shift + s.ways_shift),
                           4);
        widest.partial = std::max(widest.partial, floats * 4);
      }
    }
    if (p_.even != 0) {
      const EvenShape shape = even_shape();
      widest.partial = std::max(widest.partial, 2 * 4 * even_partial(shape));
      for (int kind = 0; kind < 4; ++kind) {
        const int n = even_padded(shape, kind);
        if (widest.rounded > 0) widest.rounded = std::max(widest.rounded, n / 32 * 40);
        // Beside block types only the gates are plain, whose input is as wide as x.
        if (widest.plain > 0 && (kind == 0 || widest.rounded == 0))
          widest.plain = std::max(widest.plain, n * 4);
      }
    }
    return widest;
  }

  EvenShape even_shape() const { return limits_.even[static_cast<std::size_t>(p_.even) - 1]; }

  void place_slots() {
    DecodeSlots& slots = p_.slots;
    int floats = 0;
    const auto place = [&floats](int n) {
      const int here = floats;
      floats += round_up(n, 4);
      return here;
    };
    slots.queries = place((p_.sinks + p_.window > 0 ? 3 : 1) * p_.group * p_.k_dim);
    slots.key = place(p_.k_dim);
    slots.key_turned = place(p_.k_dim);
    slots.value = place(p_.v_dim);
    slots.decay = place(p_.slots_per_split);
    slots.write = place(p_.slots_per_split);
    slots.bias = place(p_.slots_per_split);
    slots.weight = place(p_.group * p_.slots_per_split);
    slots.reduce = place((p_.value_shift < 5 ? kDecodeWarps : kDecodeThreads >> p_.value_shift) *
                         p_.group * p_.v_dim);
    slots.total = floats;
  }

  void place(const PhaseBytes& widest) {
    int at = 0;
    const auto take = [&at](int bytes) {
      const int here = at;
      at += round_up(bytes, 128);
      return here;
    };
    DecodeShared& s = p_.shared;
    take(static_cast<int>(sizeof(Decode)));
    s.token = take(static_cast<int>(sizeof(DecodeToken)));
    s.barriers = take(2 * 8 * kDecodePieces);
    s.starts = take(4 * kDecodePieces);
    s.marks = take(8);
    s.layers = take((p_.num_layers + 1) * static_cast<int>(sizeof(DecodeLayer)));
    s.ranges = take(8 * kDecodeShapes);
    s.squares = take(8 * kDecodeWarps);  // two sets
    s.rotation = take(8 * p_.k_dim);
    s.x = take(4 * p_.d);
    s.rounded = take(widest.rounded);
    s.plain = take(widest.plain);
    s.slots = s.rounded;
    at = std::max(at, s.slots + round_up(4 * p_.slots.total, 128));
    // Warps that are through with their slots take the next input while others still read theirs.
    if (p_.even != 0 && p_.warp_slots == 0) s.slots = take(4 * EvenSlots::of(even_shape()).total);
    s.partial = take(widest.partial);
    s.ring = at;
  }

  void place_ring() {
    const int at = p_.shared.ring;
    // A multiprocessor's 256 KB serve L1 too, which gets 60 KB beside 196 and 28 beside more; the
    // kernel's few spilled registers and all blocks' questions need some of it.
    // Even kernels spill nothing. Where memory bounds them, 32 KB more give 2 to 3 % (plain types, wide) or 4 % (a ring below 96 KB).
    constexpr int kWithL1 = 195 * 1024, kSmallRing = 96 * 1024;
    const bool all =
        p_.even != 0 && (bound_by_bytes(p_.shapes[0].type) || kWithL1 - at < kSmallRing);
    int ring = (all ? limits_.shared_bytes : std::min(limits_.shared_bytes, kWithL1)) - at;
    if (tuning_.ring_kb > 0) ring = std::min(limits_.shared_bytes - at, tuning_.ring_kb * 1024);
    p_.ring_bytes = ring / 128 * 128;
  }

  void choose_pieces() {
    for (int i = 0; i < p_.num_shapes; ++i) {
      DecodeShape& shape = p_.shapes[i];
      const int tile = static_cast<int>(bytes_of_tile(shape)), ways = 1 << shape.ways_shift;
      // Large pieces where work bounds the products, small ones where memory does: measured.
      const bool four_bits = shape.type == BlockType::q4_0 || shape.type == BlockType::q4_k;
      const int most_kb = tuning_.piece_kb > 0 ? tuning_.piece_kb : four_bits ? 42 : 24;
      const int most = std::min(p_.ring_bytes / 3, most_kb * 1024);
      if (input_once(shape, ways)) {
        // Four tiles per warp at a time, or as many as there is room for.
        const int apart = kDecodeWarps / ways;
        int each = 4;
        while (each > 1 && each * apart * tile > most) each /= 2;
        shape.piece_tiles = std::clamp(most / tile, 1, each * apart);
      } else {
        shape.piece_tiles = std::max(1, most / 2 / tile);
      }
    }
  }

  /// Pieces as the kernel of step/grid_even.cuh expects them.
  void take_even_pieces() {
    for (const DecodeLayer& w : std::span(out_.layers).first(out_.layers.size() - 1)) {
      for (int i = 0; i < kDecodeInputs + 3; ++i) {
        if (w.matrices[i].shape < 0) continue;
        DecodeShape& s = p_.shapes[w.matrices[i].shape];
        s.piece_tiles =
            even_plan(even_shape(), s.type, i < kDecodeInputs ? 0 : i - kDecodeInputs + 1).piece;
      }
    }
  }

  GridProgram& out_;
  const GridLimits& limits_;
  const DecodeTuning& tuning_;
  Decode& p_;
};

}  // namespace

std::string lay_out_shared(GridProgram& program, const GridLimits& limits,
                           const DecodeTuning& tuning) {
  return SharedLayout(program, limits, tuning).lay_out();
}

}  // namespace runnel::cuda
