// SPDX-License-Identifier: Apache-2.0
// Quantised products of many tokens on registers of a whole tile, with VNNI: two tiles at once, so that an input is broadcast
// once for both. Of several packs a tile is unpacked once for all, some groups after the other.
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

/// Adds a group to the accumulators [token][tile] of a pack: an input is broadcast once for both tiles, so that the dot
/// instructions do not wait for the load ports. Registers hold the integer sums of kBatchTokens tokens; codes and accumulators
/// lie in the first cache.
template <int W, template <int> class Format>
RUNNEL_INLINE void add_two_tiles(const TwoTiles& w, const Group<W>& a, float (*acc)[kLanes]) {
  for (int first = 0; first < W; first += kBatchTokens) {
    I c[2 * kBatchTokens];
    unroll<kBatchTokens>([&](auto t) RUNNEL_INLINE_LAMBDA {
      c[2 * t] = c[2 * t + 1] = Format<W>::start(a, first + t);
    });
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      unroll<kBatchTokens>([&](auto t) RUNNEL_INLINE_LAMBDA {
        const int8_t* const x = a.q[first + t] + 4 * s;
        if constexpr (kFreeBroadcasts) {
          c[2 * t] = dot_four(c[2 * t], w.of[0].w[s], x);
          c[2 * t + 1] = dot_four(c[2 * t + 1], w.of[1].w[s], x);
        } else {
          const B both = four(x);
          c[2 * t] = dot_step<Format<W>::kMax>(c[2 * t], w.of[0].w[s], both);
          c[2 * t + 1] = dot_step<Format<W>::kMax>(c[2 * t + 1], w.of[1].w[s], both);
        }
      });
    });
    unroll<2 * kBatchTokens>([&](auto j) RUNNEL_INLINE_LAMBDA {
      const int t = first + j / 2;
      const Weights& by = w.of[j % 2];
      float* const at = acc[2 * first + j];
      const F sum = fma(mul(to_float(c[j]), splat(a.d[t])), by.scale, load(at));
      store(at, Format<W>::finish(sum, by.other, a, t));
    });
  }
}

/// Prefetches a group's inputs, which come from the second cache.
template <int W>
RUNNEL_INLINE void prefetch_inputs(const Group<W>& a) {
  unroll<static_cast<int>(sizeof a) / 64>(
      [&](auto line) RUNNEL_INLINE_LAMBDA { __builtin_prefetch(a.q[0] + 64 * line); });
}

template <int W>
RUNNEL_INLINE void prefetch_outputs(const MatmulArgs& m, int i) {
  unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
    __builtin_prefetch(m.out + (i + j % 2) * kTileRows + j / 2 * m.out_stride, 1);
  });
}

template <int W>
RUNNEL_INLINE void store_two_tiles(const MatmulArgs& m, int i, int pack,
                                   const float (*acc)[kLanes]) {
  unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
    float* const at = m.out + (i + j % 2) * kTileRows + (pack * W + j / 2) * m.out_stride;
    const F sum = load(acc[j]);
    store(at, m.accumulate != 0 ? add(load(at), sum) : sum);
  });
}

/// Tiles i and i + 1 of a pack.
template <int W, template <int> class Format>
void two_tiles(const MatmulArgs& m, int i) {
  const auto* const acts = reinterpret_cast<const Group<W>*>(m.acts);
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Format<W> upper(tile, 0), lower(tile + m.tile_bytes, 0);
  prefetch_outputs<W>(m, i);
  alignas(64) float acc[2 * W][kLanes] = {};
  for (int g = 0; g < m.cols / 32; ++g) {
    TwoTiles w;
    upper.next(w.of[0]);
    lower.next(w.of[1]);
    prefetch_inputs(acts[g + kInputsAhead]);
    add_two_tiles<W, Format>(w, acts[g], acc);
  }
  store_two_tiles<W>(m, i, 0, acc);
}

constexpr int kChunk = 4;  // groups that are unpacked together

/// The same of several packs.
template <template <int> class Format>
void two_tiles_of_packs(const MatmulArgs& m, int i, NextLines& lines) {
  const auto* const acts = reinterpret_cast<const Group<kWide>*>(m.acts);
  const int groups = m.cols / 32;
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Format<kWide> upper(tile, 0), lower(tile + m.tile_bytes, 0);
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
        add_two_tiles<kWide, Format>(w[g], a[g], acc[p]);
      }
    }
  }
  for (int p = 0; p < m.packs; ++p) store_two_tiles<kWide>(m, i, p, acc[p]);
}

/// Kernels::packs_matmul. A last single tile goes pack by pack.
template <template <int> class Format>
void packs_matmul(const MatmulArgs& m) {
  const int groups = m.cols / 32, pairs = m.n_tiles / 2;
  const int chunks = (groups + kChunk - 1) / kChunk;
  NextLines lines(m, (pairs * chunks + m.n_tiles % 2) * m.packs);
  for (int i = 0; i < pairs; ++i) two_tiles_of_packs<Format>(m, 2 * i, lines);
  if (m.n_tiles % 2 == 0) return;
  MatmulArgs last = m;
  last.n_tiles = 1;
  last.tiles = m.tiles + static_cast<size_t>(2 * pairs) * m.tile_bytes;
  last.out = m.out + 2 * pairs * kTileRows;
  for (int p = 0; p < m.packs; ++p) {
    lines.ask();
    quantised_matmul<kWide, Format>(last);
    last.acts += static_cast<ptrdiff_t>(groups) * kWide * static_cast<ptrdiff_t>(kGroupBytes);
    last.out += kWide * m.out_stride;
  }
}

void add_packs_matmul(Kernels& all) { add_one_scale_packs<kFewestPacks, kMostPacks>(all); }

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
