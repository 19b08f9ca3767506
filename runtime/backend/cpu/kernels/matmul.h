// SPDX-License-Identifier: Apache-2.0
// out[t][r] (+)= sum_c w[r][c] a[t][c] for tiles of 16 rows r and W tokens t.
//
// Every accumulator takes its groups in the order of the inputs and nothing else depends on W: one token gives the same floats
// whether it is multiplied alone or in a batch.
// Bound: for W = 1 the bytes of the tile, read once and in order; for many tokens the dot instructions.
#pragma once

#include "runtime/backend/cpu/kernels/formats.h"

namespace runnel::cpu::RUNNEL_ISA {
namespace {

/// A pack of kWide tokens by two tiles at once: two_tiles.h, where kTwoTiles is true. For formats with one scale per group: not
/// Q6_K.
template <template <int> class Format>
void one_pack(const MatmulArgs& m);

/// Tile i, both halves of its rows at once: halves.h, where kBothHalves is true.
template <int W, template <int> class Format>
void both_halves(const MatmulArgs& m, int i);

template <int W, template <int> class Format>
void quantised_matmul(const MatmulArgs& m) {
  const auto* const acts = reinterpret_cast<const Group<W>*>(m.acts);
  const int groups = m.cols / 32;
  int i = 0;
  if constexpr (kBothHalves && (W == 1 || W == kWide)) {
    for (; i < m.n_tiles; ++i) both_halves<W, Format>(m, i);
  }
  for (; i < m.n_tiles; ++i) {
    const uint8_t* tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
    for (int part = 0; part < kTileRows / kLanes; ++part) {
      Format<W> cursor(tile, part);
      F acc[W];
      unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA { acc[t] = splat(0); });
      int g = 0;
      const auto add_next = [&](int group) RUNNEL_INLINE_LAMBDA {
        Weights w;
        cursor.prefetch_ahead();
        cursor.next(w);
        Format<W>::add(w, acts[group], acc);
      };
      if constexpr (W == 1 && requires { Format<W>::kBlockGroups; }) {
        // A whole block: the scales of its groups stay in registers.
        constexpr int kGroups = Format<W>::kBlockGroups;
        for (; g < groups; g += kGroups)
          unroll<kGroups>([&](auto n) RUNNEL_INLINE_LAMBDA { add_next(g + n); });
      } else if constexpr (W == 1 && kFollowsStreams && requires { Format<W>::kHalfGroups; }) {
        for (; g < groups; g += Format<W>::kHalfGroups) acc[0] = cursor.add_half(acts + g, acc[0]);
      } else {
        for (; g < groups; ++g) add_next(g);
      }
      float* out = m.out + i * kTileRows + part * kLanes;
      const bool accumulate = m.accumulate != 0;
      const ptrdiff_t stride = m.out_stride;
      unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
        store(out + t * stride, accumulate ? add(load(out + t * stride), acc[t]) : acc[t]);
      });
    }
  }
}

/// The kernel of kWide tokens.
template <template <int> class Format>
constexpr MatmulKernel widest() {
  if constexpr (kTwoTiles && requires { Format<kWide>::kMax; }) {
    return one_pack<Format>;
  } else {
    return quantised_matmul<kWide, Format>;
  }
}

/// One token's kernels for every format. A template, since not every instruction set's file uses it.
template <int W = 1>
void add_one_token(Kernels& all) {
  all.matmul[kTileQ8_0][0] = quantised_matmul<W, Q8_0>;
  all.matmul[kTileQ4_0][0] = quantised_matmul<W, Q4_0>;
  all.matmul[kTileQ4_1][0] = quantised_matmul<W, Q4_1>;
  all.matmul[kTileQ5_0][0] = quantised_matmul<W, Q5_0>;
  all.matmul[kTileQ4_K][0] = quantised_matmul<W, Q4_K>;
  all.matmul[kTileQ5_K][0] = quantised_matmul<W, Q5_K>;
  all.matmul[kTileQ6_K][0] = quantised_matmul<W, Q6_K>;
  all.matmul[kTileWide][0] = quantised_matmul<W, Wide>;
}

struct F32Rows {
  static constexpr size_t kBytes = 4;
  static F at(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16Rows {
  static constexpr size_t kBytes = 2;
  static F at(const uint8_t* p) { return load_f16(as_halves(p)); }
};
struct Bf16Rows {
  static constexpr size_t kBytes = 2;
  static F at(const uint8_t* p) { return load_bf16(as_halves(p)); }
};

/// N tiles at once, so that for few tokens there are chains of additions to overlap and for many an input is broadcast once for
/// all; P parts of their rows, each of a register's lanes; tokens [token, token + W).
template <int W, int N, int P, class Rows>
RUNNEL_INLINE void float_tiles(const MatmulArgs& m, int first, int token = 0) {
  const ptrdiff_t cols = m.cols;
  const float* const a = reinterpret_cast<const float*>(m.acts) + token * cols;
  constexpr size_t kStep = kTileRows * Rows::kBytes;
  constexpr int kAhead = static_cast<int>(kBytesAhead / N / kStep);  // columns
  static_assert(kTileRows / kLanes % P == 0);
  for (int part = 0; part < kTileRows / kLanes; part += P) {
    const uint8_t* w =
        m.tiles + static_cast<size_t>(first) * m.tile_bytes + part * kLanes * Rows::kBytes;
    F acc[N * P * W];
    unroll<N * P * W>([&](auto i) RUNNEL_INLINE_LAMBDA { acc[i] = splat(0); });
    for (int c = 0; c < m.cols; ++c, w += kStep) {
      if constexpr (W == 1) {
        // The last columns of these tiles prefetch the first of the next N.
        const size_t ahead = kAhead * kStep + (c + kAhead < m.cols ? 0 : (N - 1) * m.tile_bytes);
        if (c % static_cast<int>(64 / kStep) == 0) {
          unroll<N>([&](auto n) RUNNEL_INLINE_LAMBDA {
            prefetch<W, 1>(w + n * m.tile_bytes, static_cast<ptrdiff_t>(ahead));
          });
        }
      }
      unroll<N * P>([&](auto n) RUNNEL_INLINE_LAMBDA {
        const F row = Rows::at(w + n / P * m.tile_bytes + n % P * kLanes * Rows::kBytes);
        unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
          acc[n * W + t] = fma(row, splat(a[t * cols + c]), acc[n * W + t]);
        });
      });
    }
    unroll<N * P>([&](auto n) RUNNEL_INLINE_LAMBDA {
      float* out =
          m.out + token * m.out_stride + (first + n / P) * kTileRows + (part + n % P) * kLanes;
      unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
        float* at = out + t * m.out_stride;
        store(at, m.accumulate != 0 ? add(load(at), acc[n * W + t]) : acc[n * W + t]);
      });
    });
  }
}

/// Rows of inputs that are read side by side: lines of a power of two apart share a set of the first cache.
constexpr int kFloatTokens = kLanes == kTileRows ? 8 : 4;
/// Tiles that share a broadcast input.
constexpr int kFloatTiles = kFreeBroadcasts ? 1 : 2;

template <int W, class Rows>
void float_matmul(const MatmulArgs& m) {
  int i = 0;
  if constexpr (W > kFloatTokens) {
    for (; i + kFloatTiles <= m.n_tiles; i += kFloatTiles) {
      for (int t = 0; t < W; t += kFloatTokens)
        float_tiles<kFloatTokens, kFloatTiles, 1, Rows>(m, i, t);
    }
    for (; i < m.n_tiles; ++i) {
      for (int t = 0; t < W; t += kFloatTokens) float_tiles<kFloatTokens, 1, 1, Rows>(m, i, t);
    }
  } else {
    constexpr int kParts = kBothHalves && W == 1 ? 2 : 1;
    if constexpr (W <= 4) {
      constexpr int kAtOnce = W == 1 ? 4 : 2;
      for (; i + kAtOnce <= m.n_tiles; i += kAtOnce) float_tiles<W, kAtOnce, kParts, Rows>(m, i);
    }
    for (; i < m.n_tiles; ++i) float_tiles<W, 1, kParts, Rows>(m, i);
  }
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
