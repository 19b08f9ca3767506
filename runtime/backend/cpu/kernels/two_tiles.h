// SPDX-License-Identifier: Apache-2.0
// Quantised products of many tokens on registers of a whole tile, with VNNI: two tiles at once, so that an input is broadcast
// once for both, unless that costs nothing (kFreeBroadcasts). Of several packs a tile is unpacked once for all, some groups
// after the other.
// Bound: the dot instructions, 8 of 11 for a group of 32 inputs, a token and a tile (of 12 with minima).
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

static_assert(kTwoTiles && kTileRows == kLanes);

constexpr int kInputsAhead = 2;  // groups; of 1, 2, 3 and 4 the best

/// A group of 32 inputs of two tiles.
struct TwoTiles {
  Weights of[2];
};

/// Adds a group to the accumulators [token][tile] of a pack. Where broadcasts cost, an input is broadcast once for both
/// tiles, so that the dot instructions do not wait for the load ports. Registers hold the integer sums of kBatchTokens
/// tokens; codes and accumulators lie in the first cache.
template <template <int> class Format>
RUNNEL_INLINE void add_two_tiles(const TwoTiles& w, const Group<kWide>& a, float (*acc)[kLanes]) {
  for (int first = 0; first < kWide; first += kBatchTokens) {
    I c[2 * kBatchTokens];
    unroll<kBatchTokens>([&](auto t) RUNNEL_INLINE_LAMBDA {
      c[2 * t] = c[2 * t + 1] = Format<kWide>::start(a, first + t);
    });
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      unroll<kBatchTokens>([&](auto t) RUNNEL_INLINE_LAMBDA {
        const int8_t* const x = a.q[first + t] + 4 * s;
        if constexpr (kFreeBroadcasts) {
          c[2 * t] = dot_four(c[2 * t], w.of[0].w[s], x);
          c[2 * t + 1] = dot_four(c[2 * t + 1], w.of[1].w[s], x);
        } else {
          const B both = four(x);
          c[2 * t] = dot_step<Format<kWide>::kMax>(c[2 * t], w.of[0].w[s], both);
          c[2 * t + 1] = dot_step<Format<kWide>::kMax>(c[2 * t + 1], w.of[1].w[s], both);
        }
      });
    });
    unroll<2 * kBatchTokens>([&](auto j) RUNNEL_INLINE_LAMBDA {
      const int t = first + j / 2;
      const Weights& by = w.of[j % 2];
      float* const at = acc[2 * first + j];
      const F sum = fma(mul(to_float(c[j]), splat(a.d[t])), by.scale, load(at));
      store(at, Format<kWide>::finish(sum, by.other, a, t));
    });
  }
}

/// Prefetches a group's inputs, which come from the second cache.
RUNNEL_INLINE void prefetch_inputs(const Group<kWide>& a) {
  unroll<static_cast<int>(sizeof a) / 64>(
      [&](auto line) RUNNEL_INLINE_LAMBDA { __builtin_prefetch(a.q[0] + 64 * line); });
}

/// Tile i of a pack, and i + 1 if there are `both`.
inline void store_two_tiles(const MatmulArgs& m, int i, int pack, bool both,
                            const float (*acc)[kLanes]) {
  float* token = m.out + i * kTileRows + pack * kWide * m.out_stride;
  for (int t = 0; t < kWide; ++t, token += m.out_stride) {
    for (int k = 0; k < (both ? 2 : 1); ++k) {
      float* const at = token + k * kTileRows;
      const F sum = load(acc[2 * t + k]);
      store(at, m.accumulate != 0 ? add(load(at), sum) : sum);
    }
  }
}

/// Tiles i and i + 1 of a pack; `both` false: i alone, at the price of both.
template <template <int> class Format>
void two_tiles(const MatmulArgs& m, int i, bool both) {
  const auto* const acts = reinterpret_cast<const Group<kWide>*>(m.acts);
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Format<kWide> upper(tile, 0), lower(both ? tile + m.tile_bytes : tile, 0);
  alignas(64) float acc[2 * kWide][kLanes] = {};
  for (int g = 0; g < m.cols / 32; ++g) {
    TwoTiles w;
    upper.next(w.of[0]);
    lower.next(w.of[1]);
    prefetch_inputs(acts[g + kInputsAhead]);
    add_two_tiles<Format>(w, acts[g], acc);
  }
  store_two_tiles(m, i, 0, both, acc);
}

template <template <int> class Format>
void one_pack(const MatmulArgs& m) {
  for (int i = 0; i < m.n_tiles; i += 2) two_tiles<Format>(m, i, i + 1 < m.n_tiles);
}

constexpr int kChunk = 4;  // groups that are unpacked together

/// The same of several packs.
template <template <int> class Format>
void two_tiles_of_packs(const MatmulArgs& m, int i, bool both, NextLines& lines) {
  const auto* const acts = reinterpret_cast<const Group<kWide>*>(m.acts);
  const int groups = m.cols / 32;
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Format<kWide> upper(tile, 0), lower(both ? tile + m.tile_bytes : tile, 0);
  alignas(64) float acc[kMostPacks][2 * kWide][kLanes];
  for (int p = 0; p < m.packs; ++p) {
    unroll<2 * kWide>([&](auto j) RUNNEL_INLINE_LAMBDA { store(acc[p][j], splat(0)); });
  }
  TwoTiles w[kChunk];
  for (int first = 0; first < groups; first += kChunk) {
    const int n = groups - first < kChunk ? groups - first : kChunk;
    for (int g = 0; g < n; ++g) {
      upper.next(w[g].of[0]);
      lower.next(w[g].of[1]);
    }
    const Group<kWide>* a = acts + first;
    for (int p = 0; p < m.packs; ++p, a += groups) {
      lines.ask();
      for (int g = 0; g < n; ++g) {
        prefetch_inputs(a[g + kInputsAhead]);
        add_two_tiles<Format>(w[g], a[g], acc[p]);
      }
    }
  }
  for (int p = 0; p < m.packs; ++p) store_two_tiles(m, i, p, both, acc[p]);
}

/// Kernels::packs_matmul.
template <template <int> class Format>
void packs_matmul(const MatmulArgs& m) {
  const int pairs = (m.n_tiles + 1) / 2, chunks = (m.cols / 32 + kChunk - 1) / kChunk;
  NextLines lines(m, pairs * chunks * m.packs);
  for (int i = 0; i < m.n_tiles; i += 2) {
    two_tiles_of_packs<Format>(m, i, i + 1 < m.n_tiles, lines);
  }
}

void add_packs_matmul(Kernels& all) { add_one_scale_packs<kFewestPacks, kMostPacks>(all); }

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
