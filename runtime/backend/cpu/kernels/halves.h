// SPDX-License-Identifier: Apache-2.0
// Quantised products on registers of half a tile: both halves of its rows at once, so that an input is broadcast once for both
// and memory is read all the time, not only by the first of two passes.
//
// Several packs: codes and scales of a tile are unpacked once for all of them, a chunk of its inputs after the other, which
// stays in the first cache while the packs come from the second (packs of more than some 5,000 inputs, from the third).
// Bound, for each group of 32 inputs, 4 tokens and 16 rows without VNNI: 8 chains of 8 products, 7 additions of 16 bits and 5
// instructions that end a group (minima one more, codes above 15 more, those above 63 twice as many products).
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

static_assert(kBothHalves && kTileRows == 2 * kLanes);

/// A group of a tile, by halves of its rows. Codes that products take in two parts lie as their low and high four bits.
template <int kParts>
struct UnpackedGroup {
  Weights half[2];
};
template <>
struct UnpackedGroup<2> {
  Weights half[2];
  B high[2][8];
};

/// The largest code of a format.
template <class Format>
constexpr int largest_code() {
  if constexpr (requires { Format::kMax; }) {
    return Format::kMax;
  } else {
    return Format::kHalfMax;
  }
}
template <class Format>
using Unpacked = UnpackedGroup<kCodeParts<largest_code<Format>()>>;

template <class Format>
RUNNEL_INLINE void unpack(Format& rows, int half, Unpacked<Format>& to) {
  Weights& w = to.half[half];
  rows.next(w);
  if constexpr (requires { to.high; }) {
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      to.high[half][s] = high_half(w.w[s]);
      w.w[s] = low_half(w.w[s]);
    });
  }
}

/// c[2 t + half] += codes * activations of token t, steps [kFirst, kFirst + kSteps).
template <class Format, int kFirst, int kSteps, int W>
RUNNEL_INLINE void dot_unpacked(I (&c)[2 * W], const Unpacked<Format>& w, const Group<W>& a) {
  const int8_t* q[W];
  unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA { q[t] = a.q[t]; });
  if constexpr (requires { w.high; }) {
    dot_part<15, 1, kFirst, kSteps, W>(c, w.half[0].w, w.half[1].w, q);
    dot_part<15, 16, kFirst, kSteps, W>(c, w.high[0], w.high[1], q);
  } else {
    dot_part<largest_code<Format>(), 1, kFirst, kSteps, W>(c, w.half[0].w, w.half[1].w, q);
  }
}

/// What Format::add() adds, to both halves of a tile's rows.
template <class Format, int W>
RUNNEL_INLINE void add_unpacked(const Unpacked<Format>& w, const Group<W>& a, F (&acc)[2][W]) {
  if constexpr (requires { Format::kMax; }) {
    I c[2 * W];
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA { c[j] = Format::start(a, j / 2); });
    dot_unpacked<Format, 0, 8>(c, w, a);
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
      F& sum = acc[j % 2][j / 2];
      sum = fma(mul(to_float(c[j]), splat(a.d[j / 2])), w.half[j % 2].scale, sum);
      sum = Format::finish(sum, w.half[j % 2].other, a, j / 2);
    });
  } else {
    I c0[2 * W], c1[2 * W];
    unroll<2 * W>([&](auto j)
                      RUNNEL_INLINE_LAMBDA { c0[j] = Format::template start<0>(a, j / 2); });
    dot_unpacked<Format, 0, 4>(c0, w, a);
    unroll<2 * W>([&](auto j)
                      RUNNEL_INLINE_LAMBDA { c1[j] = Format::template start<1>(a, j / 2); });
    dot_unpacked<Format, 4, 4>(c1, w, a);
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
      F& sum = acc[j % 2][j / 2];
      sum = Format::finish(sum, c0[j], c1[j], w.half[j % 2], a, j / 2);
    });
  }
}

/// What Format::add() adds for one token, to both halves of a tile's rows.
template <class Format>
RUNNEL_INLINE void add_bytes(const uint8_t* codes, const Weights (&w)[2], const Group<1>& a,
                             F (&acc)[2][1]) {
  if constexpr (requires { Format::kMax; }) {
    I c[2] = {Format::start(a, 0), Format::start(a, 0)};
    dot_bytes<0, 8>(c, codes, a.q[0]);
    unroll<2>([&](auto h) RUNNEL_INLINE_LAMBDA {
      acc[h][0] = fma(mul(to_float(c[h]), splat(a.d[0])), w[h].scale, acc[h][0]);
    });
  } else {
    I c0[2] = {Format::template start<0>(a, 0), Format::template start<0>(a, 0)};
    I c1[2] = {Format::template start<1>(a, 0), Format::template start<1>(a, 0)};
    dot_bytes<0, 4>(c0, codes, a.q[0]);
    dot_bytes<4, 4>(c1, codes, a.q[0]);
    unroll<2>([&](auto h) RUNNEL_INLINE_LAMBDA {
      acc[h][0] = Format::finish(acc[h][0], c0[h], c1[h], w[h], a, 0);
    });
  }
}

/// Tile i of one pack.
template <int W, template <int> class Format>
void both_halves(const MatmulArgs& m, int i) {
  const auto* const acts = reinterpret_cast<const Group<W>*>(m.acts);
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Format<W> upper(tile, 0), lower(tile, 1);
  F acc[2][W];
  unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA { acc[j % 2][j / 2] = splat(0); });
  const int groups = m.cols / 32;
  for (int g = 0; g < groups; ++g) {
    upper.prefetch_ahead();
    if constexpr (W == 1 && requires { upper.byte_codes(); }) {
      Weights w[2];
      upper.load_scales(w[0]);
      lower.load_scales(w[1]);
      add_bytes<Format<1>>(upper.byte_codes(), w, acts[g], acc);
      upper.step();
      lower.step();
    } else {
      Unpacked<Format<W>> w;
      unpack(upper, 0, w);
      unpack(lower, 1, w);
      add_unpacked<Format<W>>(w, acts[g], acc);
    }
  }
  float* const out = m.out + i * kTileRows;
  unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
    float* const at = out + j % 2 * kLanes + j / 2 * static_cast<ptrdiff_t>(m.out_stride);
    const F sum = acc[j % 2][j / 2];
    store(at, m.accumulate != 0 ? add(load(at), sum) : sum);
  });
}

constexpr int kChunk = 16;  // groups that are unpacked together

/// Tile i of all packs.
template <template <int> class Format>
void tile_of_packs(const MatmulArgs& m, int i, NextLines& lines) {
  using Rows = Format<kWide>;
  const auto* const acts = reinterpret_cast<const Group<kWide>*>(m.acts);
  const int groups = m.cols / 32;
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Rows rows[2] = {Rows(tile, 0), Rows(tile, 1)};
  Unpacked<Rows> w[kChunk];
  F acc[kMostPacks][2][kWide];
  for (int p = 0; p < m.packs; ++p)
    unroll<2 * kWide>([&](auto j) RUNNEL_INLINE_LAMBDA { acc[p][j % 2][j / 2] = splat(0); });
  for (int first = 0; first < groups; first += kChunk) {
    const int n = groups - first < kChunk ? groups - first : kChunk;
    for (int g = 0; g < n; ++g) {
      unpack(rows[0], 0, w[g]);
      unpack(rows[1], 1, w[g]);
    }
    const Group<kWide>* a = acts + first;
    for (int p = 0; p < m.packs; ++p, a += groups) {
      lines.ask();
      for (int g = 0; g < n; ++g) add_unpacked<Rows>(w[g], a[g], acc[p]);
    }
  }
  float* const out = m.out + i * kTileRows;
  for (int t = 0; t < m.packs * kWide; ++t) {
    unroll<2>([&](auto half) RUNNEL_INLINE_LAMBDA {
      float* const at = out + t * m.out_stride + half * kLanes;
      const F sum = acc[t / kWide][half][t % kWide];
      store(at, m.accumulate != 0 ? add(load(at), sum) : sum);
    });
  }
}

/// Kernels::packs_matmul.
template <template <int> class Format>
void packs_matmul(const MatmulArgs& m) {
  NextLines lines(m, m.n_tiles * ((m.cols / 32 + kChunk - 1) / kChunk) * m.packs);
  for (int i = 0; i < m.n_tiles; ++i) tile_of_packs<Format>(m, i, lines);
}

void add_packs_matmul(Kernels& all) {
  add_one_scale_packs<kFewestPacks, kMostPacks>(all);
  all.packs_matmul[kTileQ6_K] = packs_matmul<Q6_K>;
  all.packs_matmul[kTileWide] = packs_matmul<Wide>;
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
