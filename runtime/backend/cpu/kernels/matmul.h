// SPDX-License-Identifier: Apache-2.0
// out[t][r] (+)= sum_c w[r][c] a[t][c] for tiles of 16 rows r and W tokens t; lanes are rows.
//
// Per group of 32 inputs:  acc[t] = fma(d_a[t] * sum_i code[i] q_a[t][i] - bias, d_w, acc[t]), the
// integer sum exact. Every accumulator takes its groups in the order of the inputs and nothing else
// depends on W: one token gives the same floats whether it is multiplied alone or in a batch.
// Bound: for W = 1 the bytes of the tile, read once and in order; for W = 16 the dot instructions
// (8 of 11 per token; 8 of 12 with minima).
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

/// The codes of 32 inputs and their scale. `other`: the offset (Q4_1), minus the minimum (Q4_K, Q5_K), the scale of
/// the second 16 inputs (Q6_K, the wide layout). `offset`: of the first and second 16 inputs of the wide layout.
struct Weights {
  B w[8];
  F scale;
  F other;
  F offset[2];
};

/// Prefetches the lines that a kernel of few tokens, which streams, needs soon: the hardware does not
/// look past the end of a page, and takes several misses to find that a stream goes on elsewhere.
/// Codes are prefetched kGroupsAhead groups ahead, by the last groups of a tile those of the next;
/// scales, which lie behind the codes, a whole tile ahead.
template <int W, int kLines>
RUNNEL_INLINE void prefetch(const void* p, ptrdiff_t ahead) {
  if constexpr (W <= 8) {
    unroll<kLines>([&](auto i) RUNNEL_INLINE_LAMBDA {
      __builtin_prefetch(static_cast<const uint8_t*>(p) + ahead + 64 * i, 0, kAheadInto);
    });
  }
}
static_assert(kGroupsAhead % 4 == 0);  // Q6_K's codes go by fours

/// Codes of `bytes` a group: how far ahead of the codes in use are those of kGroupsAhead later, and
/// how much farther if they are of the next tile?
struct CodesAhead {
  ptrdiff_t at, turn;
  CodesAhead(ptrdiff_t bytes, int cols, size_t tile_bytes)
      : at(bytes * kGroupsAhead), turn(static_cast<ptrdiff_t>(tile_bytes) - bytes * (cols / 32)) {}
};

/// c[i] += codes * activations of token first + i.
template <int kMax, int W, int K>
RUNNEL_INLINE void dot_tokens(I (&c)[K], const B (&w)[8], const Group<W>& a, int first) {
  if constexpr (kPairs && K % 2 == 0) {
    unroll<K / 2>([&](auto i) RUNNEL_INLINE_LAMBDA {
      dot_pair<kMax, 8>(c[2 * i], c[2 * i + 1], w, a.q[first + 2 * i], a.q[first + 2 * i + 1]);
    });
  } else if constexpr (kStepwise) {
    // Step by step over the tokens: their chains of additions overlap.
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      unroll<K>([&](auto i) RUNNEL_INLINE_LAMBDA {
        c[i] = dot_step<kMax>(c[i], w[s], four(a.q[first + i] + 4 * s));
      });
    });
  } else {
    unroll<K>([&](auto i) RUNNEL_INLINE_LAMBDA { c[i] = dot<kMax, 8>(c[i], w, a.q[first + i]); });
  }
}

/// acc[t] = fma(d * (start(t) + dot), scale, acc[t]) for all W tokens.
template <class Format, int W>
RUNNEL_INLINE void add_group(F (&acc)[W], const Weights& w, const Group<W>& a) {
  constexpr int kBatch = W < kBatchTokens ? W : kBatchTokens;
  unroll<W / kBatch>([&](auto batch) RUNNEL_INLINE_LAMBDA {
    constexpr int kFirst = decltype(batch)::value * kBatch;
    I c[kBatch];
    unroll<kBatch>([&](auto i) RUNNEL_INLINE_LAMBDA { c[i] = Format::start(a, kFirst + i); });
    dot_tokens<Format::kMax, W>(c, w.w, a, kFirst);
    unroll<kBatch>([&](auto i) RUNNEL_INLINE_LAMBDA {
      constexpr int kToken = kFirst + decltype(i)::value;
      acc[kToken] = fma(mul(to_float(c[i]), splat(a.d[kToken])), w.scale, acc[kToken]);
    });
  });
}

// A format is a cursor over the groups of one tile, lanes [sub * kLanes, + kLanes), and what one
// group adds to the accumulators. After turn() it prefetches codes of the next tile.
template <int W>
struct Q8_0 {
  const uint8_t* codes;
  const uint16_t* scales;
  CodesAhead ahead;
  ptrdiff_t tile_bytes;
  Q8_0(const uint8_t* tile, const MatmulArgs& m, int sub)
      : codes(tile + sub * kLanes * 4),
        scales(as_halves(tile + static_cast<size_t>(m.cols) * 16) + sub * kLanes),
        ahead(512, m.cols, m.tile_bytes),
        tile_bytes(static_cast<ptrdiff_t>(m.tile_bytes)) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    prefetch<W, 8>(codes, ahead.at);
    prefetch<W, 1>(scales, tile_bytes);
  }
  RUNNEL_INLINE void next(Weights& w) {
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA { w.w[s] = q8_codes(codes + 64 * s); });
    w.scale = load_f16(scales);
    codes += 512;
    scales += kTileRows;
  }
  void turn() { ahead.at += ahead.turn; }
  static constexpr int kMax = 255;
  static RUNNEL_INLINE I start(const Group<W>& a, int t) {
    return kSignedCodes ? splat_int(0) : shift_left<4>(splat_int(a.t[t]));
  }
  static RUNNEL_INLINE F finish(F acc, F /*other*/, const Group<W>& /*a*/, int /*t*/) {
    return acc;
  }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    add_group<Q8_0>(acc, w, a);
  }
};

/// Codes 0 … 15 of 32 inputs: steps 0 … 3 lie low, 4 … 7 high.
RUNNEL_INLINE void load_nibbles(const uint8_t* codes, Weights& w) {
  unroll<4>([&](auto s) RUNNEL_INLINE_LAMBDA {
    const B both = load_bytes(codes + 64 * s);
    w.w[s] = low_half(both);
    w.w[s + 4] = high_half(both);
  });
}

/// Adds the fifth bits: bit s of each byte belongs to step s.
RUNNEL_INLINE void add_fifth_bits(const uint8_t* bits, Weights& w) {
  const B all = load_bytes(bits);
  unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
    constexpr int kStep = decltype(s)::value;
    w.w[s] = either(w.w[s], bit_at_4<kStep>(all));
  });
}

template <int W>
struct Q4_0 {
  const uint8_t* codes;
  const uint16_t* scales;
  CodesAhead ahead;
  ptrdiff_t tile_bytes;
  Q4_0(const uint8_t* tile, const MatmulArgs& m, int sub)
      : codes(tile + sub * kLanes * 4),
        scales(as_halves(tile + static_cast<size_t>(m.cols) * 8) + sub * kLanes),
        ahead(256, m.cols, m.tile_bytes),
        tile_bytes(static_cast<ptrdiff_t>(m.tile_bytes)) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    prefetch<W, 4>(codes, ahead.at);
    prefetch<W, 1>(scales, tile_bytes);
  }
  RUNNEL_INLINE void next(Weights& w) {
    load_nibbles(codes, w);
    w.scale = load_f16(scales);
    codes += 256;
    scales += kTileRows;
  }
  void turn() { ahead.at += ahead.turn; }
  static constexpr int kMax = 15;
  static RUNNEL_INLINE I start(const Group<W>& a, int t) { return splat_int(a.t[t]); }
  static RUNNEL_INLINE F finish(F acc, F /*other*/, const Group<W>& /*a*/, int /*t*/) {
    return acc;
  }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    add_group<Q4_0>(acc, w, a);
  }
};

template <int W>
struct Q4_1 {
  const uint8_t* codes;
  const uint16_t* scales;
  CodesAhead ahead;
  ptrdiff_t tile_bytes;
  Q4_1(const uint8_t* tile, const MatmulArgs& m, int sub)
      : codes(tile + sub * kLanes * 4),
        scales(as_halves(tile + static_cast<size_t>(m.cols) * 8) + sub * kLanes),
        ahead(256, m.cols, m.tile_bytes),
        tile_bytes(static_cast<ptrdiff_t>(m.tile_bytes)) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    prefetch<W, 4>(codes, ahead.at);
    prefetch<W, 1>(scales, tile_bytes);
  }
  RUNNEL_INLINE void next(Weights& w) {
    load_nibbles(codes, w);
    w.scale = load_f16(scales);
    w.other = load_f16(scales + kTileRows);
    codes += 256;
    scales += 2 * kTileRows;
  }
  void turn() { ahead.at += ahead.turn; }
  static constexpr int kMax = 15;
  static RUNNEL_INLINE I start(const Group<W>& /*a*/, int /*t*/) { return splat_int(0); }
  static RUNNEL_INLINE F finish(F acc, F offset, const Group<W>& a, int t) {
    return fma(splat(a.ds[t]), offset, acc);
  }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    add_group<Q4_1>(acc, w, a);
    unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA { acc[t] = finish(acc[t], w.other, a, t); });
  }
};

template <int W>
struct Q5_0 {
  const uint8_t* codes;
  const uint8_t* bits;
  const uint16_t* scales;
  CodesAhead ahead, bits_ahead;
  ptrdiff_t tile_bytes;
  Q5_0(const uint8_t* tile, const MatmulArgs& m, int sub)
      : codes(tile + sub * kLanes * 4),
        bits(codes + static_cast<size_t>(m.cols) * 8),
        scales(as_halves(tile + static_cast<size_t>(m.cols) * 10) + sub * kLanes),
        ahead(256, m.cols, m.tile_bytes),
        bits_ahead(64, m.cols, m.tile_bytes),
        tile_bytes(static_cast<ptrdiff_t>(m.tile_bytes)) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    prefetch<W, 4>(codes, ahead.at);
    prefetch<W, 1>(bits, bits_ahead.at);
    prefetch<W, 1>(scales, tile_bytes);
  }
  RUNNEL_INLINE void next(Weights& w) {
    load_nibbles(codes, w);
    add_fifth_bits(bits, w);
    w.scale = load_f16(scales);
    codes += 256;
    bits += 64;
    scales += kTileRows;
  }
  void turn() {
    ahead.at += ahead.turn;
    bits_ahead.at += bits_ahead.turn;
  }
  static constexpr int kMax = 31;
  static RUNNEL_INLINE I start(const Group<W>& a, int t) {
    return shift_left<1>(splat_int(a.t[t]));
  }
  static RUNNEL_INLINE F finish(F acc, F /*other*/, const Group<W>& /*a*/, int /*t*/) {
    return acc;
  }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    add_group<Q5_0>(acc, w, a);
  }
};

/// Q4_K, and Q5_K, which has fifth bits between codes and scales.
template <int W, bool kFive>
struct ScaleMin {
  const uint8_t* codes;
  const uint8_t* bits;    // of the group; Q5_K
  const uint8_t* scales;  // [12][16 rows] of the block
  const uint16_t* d;
  CodesAhead ahead, bits_ahead;
  ptrdiff_t tile_bytes;
  F scale[8], minus_minimum[8];  // of the block's groups
  int group = 0;                 // 0 … 7 of the block
  ScaleMin(const uint8_t* tile, const MatmulArgs& m, int sub)
      : codes(tile + sub * kLanes * 4),
        bits(codes + static_cast<size_t>(m.cols) * 8),
        scales(tile + static_cast<size_t>(m.cols) * (kFive ? 10 : 8) + sub * kLanes),
        d(as_halves(tile + static_cast<size_t>(m.cols / 256) * (kFive ? 2752 : 2240)) +
          sub * kLanes),
        ahead(256, m.cols, m.tile_bytes),
        bits_ahead(64, m.cols, m.tile_bytes),
        tile_bytes(static_cast<ptrdiff_t>(m.tile_bytes)) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    if constexpr (kFive) prefetch<W, 1>(bits, bits_ahead.at);
    if ((group & 1) != 0) return;
    prefetch<W, 8>(codes, ahead.at);
    prefetch<W, 1>(group == 6 ? reinterpret_cast<const uint8_t*>(d) : scales + 32 * group,
                   tile_bytes);
  }
  RUNNEL_INLINE void next(Weights& w) {
    if (group == 0) unpack();
    w.scale = scale[group];
    w.other = minus_minimum[group];
    if ((group & 1) == 0) {
      unroll<8>([&](auto s)
                    RUNNEL_INLINE_LAMBDA { w.w[s] = low_half(load_bytes(codes + 64 * s)); });
    } else {
      unroll<8>([&](auto s)
                    RUNNEL_INLINE_LAMBDA { w.w[s] = high_half(load_bytes(codes + 64 * s)); });
      codes += 512;
    }
    if constexpr (kFive) {
      add_fifth_bits(bits, w);
      bits += 64;
    }
    if (++group == 8) {
      group = 0;
      scales += 192;
      d += 2 * kTileRows;
    }
  }
  /// The 6-bit scales and minima of a block: quant/formats.h.
  RUNNEL_INLINE void unpack() {
    const F by = load_f16(d), minus_by = sub(splat(0), load_f16(d + kTileRows));
    unroll<4>([&](auto i) RUNNEL_INLINE_LAMBDA {
      const uint8_t* low = scales + i * kTileRows;
      const I a = load_u8(low), b = load_u8(low + 4 * kTileRows), c = load_u8(low + 8 * kTileRows);
      const I high_scale = or_int(and_int(c, 15), and_int(shift_right<2>(a), 48));
      const I high_minimum = or_int(shift_right<4>(c), and_int(shift_right<2>(b), 48));
      scale[i] = mul(to_float(and_int(a, 63)), by);
      scale[i + 4] = mul(to_float(high_scale), by);
      minus_minimum[i] = mul(to_float(and_int(b, 63)), minus_by);
      minus_minimum[i + 4] = mul(to_float(high_minimum), minus_by);
    });
  }
  void turn() {
    ahead.at += ahead.turn;
    bits_ahead.at += bits_ahead.turn;
  }
  static constexpr int kMax = kFive ? 31 : 15;
  static RUNNEL_INLINE I start(const Group<W>& /*a*/, int /*t*/) { return splat_int(0); }
  static RUNNEL_INLINE F finish(F acc, F minus_minimum, const Group<W>& a, int t) {
    return fma(splat(a.ds[t]), minus_minimum, acc);
  }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    add_group<ScaleMin>(acc, w, a);
    unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA { acc[t] = finish(acc[t], w.other, a, t); });
  }
};

template <int W>
struct Q4_K : ScaleMin<W, false> {
  using ScaleMin<W, false>::ScaleMin;
};
template <int W>
struct Q5_K : ScaleMin<W, true> {
  using ScaleMin<W, true>::ScaleMin;
};

template <int W>
struct Q6_K {
  const uint8_t* low;
  const uint8_t* high;
  const int8_t* scales;
  const uint16_t* d;
  CodesAhead low_ahead, high_ahead;
  ptrdiff_t tile_bytes;
  int group = 0;  // 0 … 3 of a half block, + 4 in the second half
  Q6_K(const uint8_t* tile, const MatmulArgs& m, int sub)
      : low(tile + sub * kLanes * 4),
        high(low + static_cast<size_t>(m.cols) * 8),
        scales(reinterpret_cast<const int8_t*>(tile) + static_cast<size_t>(m.cols) * 12 +
               sub * kLanes),
        d(as_halves(tile + static_cast<size_t>(m.cols) * 13) + sub * kLanes),
        low_ahead(256, m.cols, m.tile_bytes),
        high_ahead(128, m.cols, m.tile_bytes),
        tile_bytes(static_cast<ptrdiff_t>(m.tile_bytes)) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    prefetch<W, 1>(scales, tile_bytes);
    if ((group & 2) == 0) prefetch<W, 8>(low + (group & 1) * 512, low_ahead.at);
    if ((group & 3) == 0) prefetch<W, 8>(high, high_ahead.at);
  }
  RUNNEL_INLINE void next(Weights& w) {
    const F by = load_f16(d);
    w.scale = mul(load_i8(scales), by);
    w.other = mul(load_i8(scales + kTileRows), by);
    scales += 2 * kTileRows;
    switch (group & 3) {
      case 0:
        codes<0>(w);
        break;
      case 1:
        codes<1>(w);
        break;
      case 2:
        codes<2>(w);
        break;
      default:
        codes<3>(w);
        low += 1024;
        high += 512;
    }
    if (++group == 8) {
      group = 0;
      d += kTileRows;
    }
  }
  /// Group kGroup of a half: lower bits in half kGroup / 2 of ql's part kGroup % 2, upper bits at
  /// 2 kGroup of qh.
  template <int kGroup>
  RUNNEL_INLINE void codes(Weights& w) {
    const uint8_t* part = low + (kGroup % 2) * 512;
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      const B both = load_bytes(part + 64 * s);
      w.w[s] = either(kGroup < 2 ? low_half(both) : high_half(both),
                      two_bits_at_4<2 * kGroup>(load_bytes(high + 64 * s)));
    });
  }
  void turn() {
    low_ahead.at += low_ahead.turn;
    high_ahead.at += high_ahead.turn;
  }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
      const I h = splat_int(a.h[t]);
      const I c0 = dot<63, 4>(shift_left<2>(h), w.w, a.q[t]);
      const I c1 = dot<63, 4>(shift_left<2>(sub_int(splat_int(a.t[t]), h)), w.w + 4, a.q[t] + 16);
      const F both = fma(to_float(c1), w.other, mul(to_float(c0), w.scale));
      acc[t] = fma(both, splat(a.d[t]), acc[t]);
    });
  }
};

/// acc += d * (scale0 c0 + scale1 c1 + offset0 sum0 + offset1 sum1) over the halves of a group.
template <int W>
struct Wide {
  const uint8_t* codes;
  const float* scales;
  CodesAhead ahead;
  ptrdiff_t tile_bytes;
  Wide(const uint8_t* tile, const MatmulArgs& m, int sub)
      : codes(tile + sub * kLanes * 4),
        scales(reinterpret_cast<const float*>(tile + static_cast<size_t>(m.cols) * 16) +
               sub * kLanes),
        ahead(512, m.cols, m.tile_bytes),
        tile_bytes(static_cast<ptrdiff_t>(m.tile_bytes)) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    prefetch<W, 8>(codes, ahead.at);
    prefetch<W, 4>(scales, tile_bytes);
  }
  RUNNEL_INLINE void next(Weights& w) {
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA { w.w[s] = q8_codes(codes + 64 * s); });
    w.scale = load(scales);
    w.offset[0] = load(scales + kTileRows);
    w.other = load(scales + 2 * kTileRows);
    w.offset[1] = load(scales + 3 * kTileRows);
    codes += 512;
    scales += 4 * kTileRows;
  }
  void turn() { ahead.at += ahead.turn; }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
      const int32_t first = a.h[t], second = a.t[t] - a.h[t];  // -8 times the sums of the codes
      const I none = splat_int(0);
      const I c0 = dot<255, 4>(kSignedCodes ? none : shift_left<4>(splat_int(first)), w.w, a.q[t]);
      const I c1 =
          dot<255, 4>(kSignedCodes ? none : shift_left<4>(splat_int(second)), w.w + 4, a.q[t] + 16);
      F both = mul(splat(static_cast<float>(first) * -0.125F), w.offset[0]);
      both = fma(splat(static_cast<float>(second) * -0.125F), w.offset[1], both);
      both = fma(to_float(c0), w.scale, both);
      both = fma(to_float(c1), w.other, both);
      acc[t] = fma(both, splat(a.d[t]), acc[t]);
    });
  }
};

constexpr int kInputsAhead = 2;  // groups; of 1, 2, 3 and 4 the best

/// Tiles i and i + 1 of many tokens: an input is broadcast once for both, so that the dot
/// instructions do not wait for the load ports. Registers hold the integer sums of kBatchTokens
/// tokens; codes and accumulators lie in the first cache. Inputs, which come from the second, and
/// the outputs' lines are prefetched early. For formats with one scale per group: not Q6_K.
template <int W, template <int> class Format>
void two_tiles(const MatmulArgs& m, int i) {
  const auto* const acts = reinterpret_cast<const Group<W>*>(m.acts);
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Format<W> upper(tile, m, 0), lower(tile + m.tile_bytes, m, 0);
  float* const out = m.out + i * kTileRows;
  const auto stride = static_cast<ptrdiff_t>(m.out_stride);
  unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
    __builtin_prefetch(out + j % 2 * kTileRows + j / 2 * stride, 1);
  });
  alignas(64) float acc[2 * W][kLanes] = {};
  for (int g = 0; g < m.cols / 32; ++g) {
    Weights w[2];
    upper.next(w[0]);
    lower.next(w[1]);
    const Group<W>& a = acts[g];
    unroll<static_cast<int>(sizeof a) / 64>([&](auto line) RUNNEL_INLINE_LAMBDA {
      __builtin_prefetch(acts[g + kInputsAhead].q[0] + 64 * line);
    });
    for (int first = 0; first < W; first += kBatchTokens) {
      I c[2 * kBatchTokens];
      unroll<kBatchTokens>([&](auto t) RUNNEL_INLINE_LAMBDA {
        c[2 * t] = c[2 * t + 1] = Format<W>::start(a, first + t);
      });
      unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
        unroll<kBatchTokens>([&](auto t) RUNNEL_INLINE_LAMBDA {
          const B x = four(a.q[first + t] + 4 * s);
          c[2 * t] = dot_step<Format<W>::kMax>(c[2 * t], w[0].w[s], x);
          c[2 * t + 1] = dot_step<Format<W>::kMax>(c[2 * t + 1], w[1].w[s], x);
        });
      });
      unroll<2 * kBatchTokens>([&](auto j) RUNNEL_INLINE_LAMBDA {
        const int t = first + j / 2;
        const Weights& by = w[j % 2];
        float* const at = acc[2 * first + j];
        const F sum = fma(mul(to_float(c[j]), splat(a.d[t])), by.scale, load(at));
        store(at, Format<W>::finish(sum, by.other, a, t));
      });
    }
  }
  unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
    float* const at = out + j % 2 * kTileRows + j / 2 * stride;
    const F sum = load(acc[j]);
    store(at, m.accumulate != 0 ? add(load(at), sum) : sum);
  });
}

/// Where kBothHalves is true it is beside dot_step.
template <int kMax, int K>
void dot_halves(I (&c)[2 * K], const B (&upper)[8], const B (&lower)[8],
                const int8_t* const (&a)[K]);

/// add_group() and finish() of both halves; an input is broadcast once for both.
template <int W, template <int> class Format>
RUNNEL_INLINE void add_halves(const Weights (&w)[2], const Group<W>& a, F (&acc)[2][W]) {
  if constexpr (requires { Format<W>::kMax; }) {
    I c[2 * W];
    const int8_t* q[W];
    unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
      c[2 * t] = c[2 * t + 1] = Format<W>::start(a, t);
      q[t] = a.q[t];
    });
    dot_halves<Format<W>::kMax, W>(c, w[0].w, w[1].w, q);
    unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
      F& sum = acc[j % 2][j / 2];
      sum = fma(mul(to_float(c[j]), splat(a.d[j / 2])), w[j % 2].scale, sum);
      sum = Format<W>::finish(sum, w[j % 2].other, a, j / 2);
    });
  } else {
    Format<W>::add(w[0], a, acc[0]);
    Format<W>::add(w[1], a, acc[1]);
  }
}

/// Both halves of a tile's rows of few tokens, on registers of half a tile: a line of codes is read once, and memory is
/// read all the time, not only by the first of two passes.
template <int W, template <int> class Format>
void both_halves(const MatmulArgs& m, int i) {
  const auto* const acts = reinterpret_cast<const Group<W>*>(m.acts);
  static_assert(!kBothHalves || kTileRows == 2 * kLanes);
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Format<W> upper(tile, m, 0), lower(tile, m, 1);
  F acc[2][W];
  unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA { acc[j % 2][j / 2] = splat(0); });
  const int groups = m.cols / 32;
  int g = 0;
  for (int left = kGroupsAhead; left >= 0; left -= kGroupsAhead) {
    for (; g < groups - left; ++g) {
      Weights w[2];
      upper.prefetch_ahead();
      upper.next(w[0]);
      lower.next(w[1]);
      add_halves<W, Format>(w, acts[g], acc);
    }
    upper.turn();
  }
  float* const out = m.out + i * kTileRows;
  unroll<2 * W>([&](auto j) RUNNEL_INLINE_LAMBDA {
    float* const at = out + j % 2 * kLanes + j / 2 * static_cast<ptrdiff_t>(m.out_stride);
    const F sum = acc[j % 2][j / 2];
    store(at, m.accumulate != 0 ? add(load(at), sum) : sum);
  });
}

template <int W, template <int> class Format>
void quantised_matmul(const MatmulArgs& m) {
  const auto* const acts = reinterpret_cast<const Group<W>*>(m.acts);
  const int groups = m.cols / 32;
  int i = 0;
  if constexpr (kTwoTiles && W == kWide && requires { Format<W>::kMax; }) {
    for (; i + 2 <= m.n_tiles; i += 2) two_tiles<W, Format>(m, i);
  }
  if constexpr (kBothHalves && (W == 1 || (W == kWide && requires { Format<W>::kMax; }))) {
    for (; i < m.n_tiles; ++i) both_halves<W, Format>(m, i);
  }
  for (; i < m.n_tiles; ++i) {
    const uint8_t* tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
    for (int part = 0; part < kTileRows / kLanes; ++part) {
      Format<W> cursor(tile, m, part);
      F acc[W];
      unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA { acc[t] = splat(0); });
      int g = 0;
      for (int left = kGroupsAhead; left >= 0; left -= kGroupsAhead) {
        for (; g < groups - left; ++g) {
          Weights w;
          cursor.prefetch_ahead();
          cursor.next(w);
          Format<W>::add(w, acts[g], acc);
        }
        cursor.turn();
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

/// N tiles at once, so that for few tokens there are chains of additions to overlap, and P parts of their rows, each of
/// a register's lanes.
template <int W, int N, int P, class Rows>
RUNNEL_INLINE void float_tiles(const MatmulArgs& m, int first) {
  const auto* a = reinterpret_cast<const float*>(m.acts);
  constexpr size_t kStep = kTileRows * Rows::kBytes;
  static_assert(kTileRows / kLanes % P == 0);
  for (int part = 0; part < kTileRows / kLanes; part += P) {
    const uint8_t* w =
        m.tiles + static_cast<size_t>(first) * m.tile_bytes + part * kLanes * Rows::kBytes;
    F acc[N * P * W];
    unroll<N * P * W>([&](auto i) RUNNEL_INLINE_LAMBDA { acc[i] = splat(0); });
    for (int c = 0; c < m.cols; ++c, w += kStep) {
      unroll<N * P>([&](auto n) RUNNEL_INLINE_LAMBDA {
        const F row = Rows::at(w + n / P * m.tile_bytes + n % P * kLanes * Rows::kBytes);
        unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
          acc[n * W + t] = fma(row, splat(a[c * W + t]), acc[n * W + t]);
        });
      });
    }
    unroll<N * P>([&](auto n) RUNNEL_INLINE_LAMBDA {
      float* out = m.out + (first + n / P) * kTileRows + (part + n % P) * kLanes;
      unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
        float* at = out + t * m.out_stride;
        store(at, m.accumulate != 0 ? add(load(at), acc[n * W + t]) : acc[n * W + t]);
      });
    });
  }
}

template <int W, class Rows>
void float_matmul(const MatmulArgs& m) {
  constexpr int kParts = kBothHalves && W == 1 ? 2 : 1;
  int i = 0;
  if constexpr (W <= 4) {
    constexpr int kAtOnce = W == 1 ? 4 : 2;
    for (; i + kAtOnce <= m.n_tiles; i += kAtOnce) float_tiles<W, kAtOnce, kParts, Rows>(m, i);
  }
  for (; i < m.n_tiles; ++i) float_tiles<W, 1, kParts, Rows>(m, i);
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
