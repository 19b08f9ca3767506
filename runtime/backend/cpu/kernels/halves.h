// SPDX-License-Identifier: Apache-2.0
// Quantised products on registers of half a tile: both halves of its rows at once, so that an input is broadcast once for both
// and memory is read all the time, not only by the first of two passes.
//
// Several packs: codes and scales of a tile are unpacked once for all of them, a chunk of its inputs after the other, which
// stays in the first cache while the packs come from the second (packs of more than some 5,000 inputs, from the third).
// Bound, for each group of 32 inputs, 4 tokens and 16 rows without VNNI: 8 chains of 8 products, 7 additions of 16 bits and 5
// instructions that end a group (minima one more, codes above 15 more); of Q8_0's 8 chains of 8 signs, products and sums of
// pairs, 7 additions and 3 that end a group.
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

static_assert(kBothHalves && kTileRows == 2 * kLanes);

/// A group of a tile, by halves of its rows. Codes that products take by sign lie as signed weights and their magnitudes.
template <bool kBySign>
struct UnpackedGroup {
  Weights half[2];
};
template <>
struct UnpackedGroup<true> {
  Weights half[2];
  B magnitude[2][8];
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
using Unpacked = UnpackedGroup<kProductsBySign<largest_code<Format>()>>;

template <class Format>
RUNNEL_INLINE void unpack(Format& rows, int half, Unpacked<Format>& to) {
  Weights& w = to.half[half];
  rows.next(w);
  if constexpr (requires { to.magnitude; }) {
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      w.w[s] = signed_weights(w.w[s]);
      to.magnitude[half][s] = magnitudes(w.w[s]);
    });
  }
}

/// What the sum of a group's products begins with: kHalf 0 or 1 of its inputs, or all of them (2).
template <class Format, int kHalf = 2, int W>
RUNNEL_INLINE I start_of(const Group<W>& a, int t) {
  if constexpr (kProductsBySign<largest_code<Format>()>) {
    return splat_int(0);  // weights are signed
  } else if constexpr (kHalf == 2) {
    return Format::start(a, t);
  } else {
    return Format::template start<kHalf>(a, t);
  }
}

/// c[2 t + half] += codes * activations of token t, steps [kFirst, kFirst + kSteps).
template <class Format, int kFirst, int kSteps, int W>
RUNNEL_INLINE void dot_unpacked(I (&c)[2 * W], const Unpacked<Format>& w, const Group<W>& a) {
  const int8_t* q[W];
  unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA { q[t] = a.q[t]; });
  if constexpr (requires { w.magnitude; }) {
    unroll<kSteps>([&](auto i) RUNNEL_INLINE_LAMBDA {
      constexpr int kStep = kFirst + decltype(i)::value;
      const B m0 = w.magnitude[0][kStep], m1 = w.magnitude[1][kStep];
      unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
        const B x = four(q[t] + 4 * kStep);
        I upper = products_by_sign(w.half[0].w[kStep], m0, x);
        I lower = products_by_sign(w.half[1].w[kStep], m1, x);
        asm("" : "+" RUNNEL_REGISTER(upper), "+" RUNNEL_REGISTER(lower));
        c[2 * t] = add_wide<1>(c[2 * t], upper);
        c[2 * t + 1] = add_wide<1>(c[2 * t + 1], lower);
        asm("" : "+" RUNNEL_REGISTER(c[2 * t]), "+" RUNNEL_REGISTER(c[2 * t + 1]));
      });
    });
  } else {
    dot_part<largest_code<Format>(), kFirst, kSteps, W>(c, w.half[0].w, w.half[1].w, q);
  }
}

/// What Format::add() adds, to both halves of a tile's rows. dot(c, first, steps): c[2 t + half] += codes * activations of token
/// t, those steps.
template <class Format, int W, class Dot>
RUNNEL_INLINE void add_products(const Weights (&w)[2], const Group<W>& a, F (&acc)[2][W],
                                const Dot& dot) {
  if constexpr (requires { Format::kMax; }) {
    I c[2 * W];
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA { c[j] = start_of<Format>(a, j / 2); });
    dot(c, Index<0>{}, Index<8>{});
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
      F& sum = acc[j % 2][j / 2];
      sum = fma(mul(to_float(c[j]), splat(a.d[j / 2])), w[j % 2].scale, sum);
      sum = Format::finish(sum, w[j % 2].other, a, j / 2);
    });
  } else {
    I c0[2 * W], c1[2 * W];
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA { c0[j] = start_of<Format, 0>(a, j / 2); });
    dot(c0, Index<0>{}, Index<4>{});
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA { c1[j] = start_of<Format, 1>(a, j / 2); });
    dot(c1, Index<4>{}, Index<4>{});
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
      F& sum = acc[j % 2][j / 2];
      sum = Format::finish(sum, c0[j], c1[j], w[j % 2], a, j / 2);
    });
  }
}

template <class Format, int W>
RUNNEL_INLINE void add_unpacked(const Unpacked<Format>& w, const Group<W>& a, F (&acc)[2][W]) {
  add_products<Format>(w.half, a, acc, [&](auto& c, auto first, auto steps) RUNNEL_INLINE_LAMBDA {
    dot_unpacked<Format, decltype(first)::value, decltype(steps)::value>(c, w, a);
  });
}

/// For one token, of codes that are bytes.
template <class Format>
RUNNEL_INLINE void add_bytes(const uint8_t* codes, const Weights (&w)[2], const Group<1>& a,
                             F (&acc)[2][1]) {
  add_products<Format>(w, a, acc, [&](auto& c, auto first, auto steps) RUNNEL_INLINE_LAMBDA {
    dot_bytes<decltype(first)::value, decltype(steps)::value>(c, codes, a.q[0]);
  });
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
