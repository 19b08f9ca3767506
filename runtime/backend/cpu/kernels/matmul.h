// SPDX-License-Identifier: Apache-2.0
// out[t][r] (+)= sum_c w[r][c] a[t][c] for tiles of 16 rows r and W tokens t; lanes are rows.
//
// Per group of 32 inputs:  acc[t] = fma(d_a[t] * sum_i code[i] q_a[t][i] - bias, d_w, acc[t]), the
// integer sum exact. Every accumulator takes its groups in the order of the inputs and nothing else
// depends on W: one token gives the same floats whether it is multiplied alone or in a batch.
// Bound: for W = 1 the bytes of the tile, read once and in order; for W = 16 the dot instructions
// (8 of 11 a token).
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

/// A group of 32 inputs of W tokens; layout in kernels.h.
template <int W>
struct Group {
  int8_t q[W][32];
  float d[W];
  float ds[W];
  int32_t t[W];
  int32_t h[W];
};
static_assert(sizeof(Group<1>) == kGroupBytes && sizeof(Group<4>) == 4 * kGroupBytes);

inline const uint16_t* as_halves(const uint8_t* p) { return reinterpret_cast<const uint16_t*>(p); }

/// acc[t] = fma(d * (init + dot), scale, acc) for all W tokens.
template <int kMax, int W, class Init>
inline void add_group(F (&acc)[W], const B (&w)[8], F scale, const Group<W>& a, const Init& init) {
  if constexpr (W == 1) {
    const I c = dot<kMax, 8>(init(0), w, a.q[0]);
    acc[0] = fma(mul(to_float(c), splat(a.d[0])), scale, acc[0]);
  } else {
    for (int t = 0; t < W; t += 2) {
      I c0 = init(t), c1 = init(t + 1);
      dot_pair<kMax, 8>(c0, c1, w, a.q[t], a.q[t + 1]);
      acc[t] = fma(mul(to_float(c0), splat(a.d[t])), scale, acc[t]);
      acc[t + 1] = fma(mul(to_float(c1), splat(a.d[t + 1])), scale, acc[t + 1]);
    }
  }
}

/// One tile's lanes [sub * kLanes, +kLanes): a functor per format adds all groups to acc.
template <int W>
struct Q8_0 {
  static void run(const uint8_t* tile, int cols, int sub, const Group<W>* a, F (&acc)[W]) {
    const int groups = cols / 32;
    const uint8_t* codes = tile + sub * kLanes * 4;
    const uint16_t* scales = as_halves(tile + static_cast<size_t>(groups) * 512) + sub * kLanes;
    for (int g = 0; g < groups; ++g, codes += 512, scales += kTileRows) {
      B w[8];
      for (int s = 0; s < 8; ++s) w[s] = q8_codes(codes + 64 * s);
      add_group<255, W>(acc, w, load_f16(scales), a[g], [&](int t) {
        return kSignedCodes ? splat_int(0) : shift_left<4>(splat_int(a[g].t[t]));
      });
    }
  }
};

template <int W>
struct Q4_0 {
  static void run(const uint8_t* tile, int cols, int sub, const Group<W>* a, F (&acc)[W]) {
    const int groups = cols / 32;
    const uint8_t* codes = tile + sub * kLanes * 4;
    const uint16_t* scales = as_halves(tile + static_cast<size_t>(groups) * 256) + sub * kLanes;
    for (int g = 0; g < groups; ++g, codes += 256, scales += kTileRows) {
      B w[8];
      for (int s = 0; s < 4; ++s) {
        const B both = load_bytes(codes + 64 * s);
        w[s] = low_half(both);
        w[s + 4] = high_half(both);
      }
      add_group<15, W>(acc, w, load_f16(scales), a[g], [&](int t) { return splat_int(a[g].t[t]); });
    }
  }
};

/// The 6-bit scales and minima of group g (0 … 7) of a Q4_K super block: see quant/formats.h.
inline void q4_k_scales(const uint8_t* packed, int g, int sub, F& scale, F& minimum) {
  int8_t s[kLanes], m[kLanes];
  const uint8_t* p = packed + sub * kLanes;
  for (int r = 0; r < kLanes; ++r) {
    const uint8_t* low = p + (g & 3) * kTileRows + r;
    if (g < 4) {
      s[r] = static_cast<int8_t>(low[0] & 63);
      m[r] = static_cast<int8_t>(low[4 * kTileRows] & 63);
    } else {
      s[r] = static_cast<int8_t>((low[8 * kTileRows] & 15) | ((low[0] >> 6) << 4));
      m[r] = static_cast<int8_t>((low[8 * kTileRows] >> 4) | ((low[4 * kTileRows] >> 6) << 4));
    }
  }
  scale = load_i8(s);
  minimum = load_i8(m);
}

template <int W>
struct Q4_K {
  static void run(const uint8_t* tile, int cols, int sub, const Group<W>* a, F (&acc)[W]) {
    const int blocks = cols / 256;
    const uint8_t* codes = tile + sub * kLanes * 4;
    const uint8_t* scales = tile + static_cast<size_t>(blocks) * 2048;
    const uint16_t* d = as_halves(scales + static_cast<size_t>(blocks) * 192) + sub * kLanes;
    for (int b = 0; b < blocks; ++b, scales += 192, d += 2 * kTileRows) {
      const F d_scale = load_f16(d);
      const F d_min = sub_from_zero(load_f16(d + kTileRows));
      for (int p = 0; p < 4; ++p, codes += 512) {
        for (int half = 0; half < 2; ++half, ++a) {
          B w[8];
          for (int s = 0; s < 8; ++s) {
            const B both = load_bytes(codes + 64 * s);
            w[s] = half == 0 ? low_half(both) : high_half(both);
          }
          F scale, minimum;
          q4_k_scales(scales, 2 * p + half, sub, scale, minimum);
          minimum = mul(minimum, d_min);
          add_group<15, W>(acc, w, mul(scale, d_scale), *a, [](int) { return splat_int(0); });
          for (int t = 0; t < W; ++t) acc[t] = fma(splat(a->ds[t]), minimum, acc[t]);
        }
      }
    }
  }
  static F sub_from_zero(F x) { return sub(splat(0), x); }
};

template <int W>
struct Q6_K {
  static void run(const uint8_t* tile, int cols, int sub, const Group<W>* a, F (&acc)[W]) {
    const int blocks = cols / 256;
    const uint8_t* low = tile + sub * kLanes * 4;
    const uint8_t* high = low + static_cast<size_t>(blocks) * 2048;
    const auto* scales =
        reinterpret_cast<const int8_t*>(tile) + static_cast<size_t>(blocks) * 3072 + sub * kLanes;
    const uint16_t* d = as_halves(tile + static_cast<size_t>(blocks) * 3328) + sub * kLanes;
    for (int b = 0; b < blocks; ++b, d += kTileRows) {
      const F scale = load_f16(d);
      for (int half = 0; half < 2; ++half, low += 1024, high += 512) {
        group<0>(low, high, scales, scale, *a++, acc);
        group<1>(low, high, scales + 2 * kTileRows, scale, *a++, acc);
        group<2>(low, high, scales + 4 * kTileRows, scale, *a++, acc);
        group<3>(low, high, scales + 6 * kTileRows, scale, *a++, acc);
        scales += 8 * kTileRows;
      }
    }
  }

  /// Group kGroup of a half: lower bits in half kGroup / 2 of ql's part kGroup % 2, upper bits at 2
  /// kGroup of qh.
  template <int kGroup>
  static void group(const uint8_t* low, const uint8_t* high, const int8_t* scales, F d,
                    const Group<W>& a, F (&acc)[W]) {
    B w[8];
    for (int s = 0; s < 8; ++s) {
      const B both = load_bytes(low + (kGroup % 2) * 512 + 64 * s);
      const B bits = kGroup < 2 ? low_half(both) : high_half(both);
      w[s] = either(bits, two_bits_at_4<2 * kGroup>(load_bytes(high + 64 * s)));
    }
    const F s0 = mul(load_i8(scales), d), s1 = mul(load_i8(scales + kTileRows), d);
    for (int t = 0; t < W; ++t) {
      const I h = splat_int(a.h[t]);
      const I c0 = dot<63, 4>(shift_left<2>(h), w, a.q[t]);
      const I c1 = dot<63, 4>(shift_left<2>(sub_int(splat_int(a.t[t]), h)), w + 4, a.q[t] + 16);
      const F both = fma(to_float(c1), s1, mul(to_float(c0), s0));
      acc[t] = fma(both, splat(a.d[t]), acc[t]);
    }
  }
};

template <int W, template <int> class Format>
void quantised_matmul(const MatmulArgs& m) {
  const auto* a = reinterpret_cast<const Group<W>*>(m.acts);
  for (int i = 0; i < m.n_tiles; ++i) {
    const uint8_t* tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
    for (int sub = 0; sub < kTileRows / kLanes; ++sub) {
      F acc[W];
      for (int t = 0; t < W; ++t) acc[t] = splat(0);
      Format<W>::run(tile, m.cols, sub, a, acc);
      float* out = m.out + i * kTileRows + sub * kLanes;
      for (int t = 0; t < W; ++t, out += m.out_stride) {
        store(out, m.accumulate != 0 ? add(load(out), acc[t]) : acc[t]);
      }
    }
  }
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

/// N tiles at once, so that for W = 1 there are N chains of additions to overlap.
template <int W, int N, class Rows>
inline void float_tiles(const MatmulArgs& m, int first) {
  const auto* a = reinterpret_cast<const float*>(m.acts);
  constexpr size_t kStep = kTileRows * Rows::kBytes;
  for (int sub = 0; sub < kTileRows / kLanes; ++sub) {
    const uint8_t* w =
        m.tiles + static_cast<size_t>(first) * m.tile_bytes + sub * kLanes * Rows::kBytes;
    F acc[N][W];
    for (int n = 0; n < N; ++n) {
      for (int t = 0; t < W; ++t) acc[n][t] = splat(0);
    }
    for (int c = 0; c < m.cols; ++c, w += kStep) {
      for (int n = 0; n < N; ++n) {
        const F row = Rows::at(w + n * m.tile_bytes);
        for (int t = 0; t < W; ++t) acc[n][t] = fma(row, splat(a[c * W + t]), acc[n][t]);
      }
    }
    for (int n = 0; n < N; ++n) {
      float* out = m.out + (first + n) * kTileRows + sub * kLanes;
      for (int t = 0; t < W; ++t, out += m.out_stride) {
        store(out, m.accumulate != 0 ? add(load(out), acc[n][t]) : acc[n][t]);
      }
    }
  }
}

template <int W, class Rows>
void float_matmul(const MatmulArgs& m) {
  int i = 0;
  if constexpr (W == 1) {
    for (; i + 4 <= m.n_tiles; i += 4) float_tiles<W, 4, Rows>(m, i);
  }
  for (; i < m.n_tiles; ++i) float_tiles<W, 1, Rows>(m, i);
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
