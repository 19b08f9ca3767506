// SPDX-License-Identifier: Apache-2.0
// The block formats as products see them: how a group of 32 inputs of a tile becomes codes and scales, and what it adds to
// the accumulators of W tokens; lanes are rows.
//
//   acc[t] = fma(d_a[t] * sum_i code[i] q_a[t][i] - bias, d_w, acc[t])
//
// the integer sum exact.
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

/// Prefetches the lines that a kernel of few tokens, which streams, needs soon: the hardware does not look past the end of a
/// page, and takes several misses to find that a stream goes on elsewhere. Where it follows a stream better by itself, one
/// token's kernels ask for the beginning of each page alone, about: for blocks of lines that begin there.
template <int W, int kLines>
RUNNEL_INLINE void prefetch(const void* p, ptrdiff_t ahead) {
  const auto* const at = static_cast<const uint8_t*>(p) + ahead;
  constexpr bool kPageAlone = W == 1 && kFollowsStreams;
  constexpr uintptr_t kPage = 4096, kBeginning = 1024;
  if (kPageAlone && reinterpret_cast<uintptr_t>(at) % kPage >= kBeginning) return;
  if constexpr (W <= 8) {
    unroll<kLines>([&](auto i) RUNNEL_INLINE_LAMBDA {
      __builtin_prefetch(at + 64 * i, 0, kPageAlone ? 2 : kAheadInto);
    });
  }
}
/// How far ahead: at most kBytesAhead in whole records of a tile, at least one.
constexpr ptrdiff_t ahead_of(ptrdiff_t record) {
  return kBytesAhead > record ? kBytesAhead / record * record : record;
}

/// How many packs kernels that take any number have at once: Kernels::fewest_packs and most_packs.
constexpr int kFewestPacks = 2, kMostPacks = kTokensTogether / kWide;

/// Kernels::packs_matmul of an instruction set, in the header that has it.
template <template <int> class Format>
void packs_matmul(const MatmulArgs& m);

/// MatmulArgs::next, some lines at each step of a product of several packs: in one burst they would fill the buffers that the
/// product's own loads need.
class NextLines {
 public:
  NextLines(const MatmulArgs& m, int steps)
      : at_(m.next),
        end_(m.next + m.next_bytes),
        step_(static_cast<ptrdiff_t>((m.next_bytes / 64 + steps - 1) / steps * 64)) {}
  RUNNEL_INLINE void ask() {
    const uint8_t* const until = end_ - at_ < step_ ? end_ : at_ + step_;
    for (; at_ < until; at_ += 64) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const uint8_t *at_, *end_;
  ptrdiff_t step_;
};

/// c[i] += codes * activations of token first + i.
template <int kMax, int W, int K>
RUNNEL_INLINE void dot_tokens(I (&c)[K], const B (&w)[8], const Group<W>& a, int first) {
  if constexpr (kPairs && K % 2 == 0) {
    unroll<K / 2>([&](auto i) RUNNEL_INLINE_LAMBDA {
      dot_pair<kMax, 8>(c[2 * i], c[2 * i + 1], w, a.q[first + 2 * i], a.q[first + 2 * i + 1]);
    });
  } else if constexpr (kStepwise && K > 1) {
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

/// The same where the two halves of a group, of 16 inputs each, have scales of their own.
template <class Format, int W>
RUNNEL_INLINE void add_by_halves(F (&acc)[W], const Weights& w, const Group<W>& a) {
  unroll<W>([&](auto t) RUNNEL_INLINE_LAMBDA {
    const I c0 = dot<Format::kHalfMax, 4>(Format::template start<0>(a, t), w.w, a.q[t]);
    const I c1 = dot<Format::kHalfMax, 4>(Format::template start<1>(a, t), w.w + 4, a.q[t] + 16);
    acc[t] = Format::finish(acc[t], c0, c1, w, a, t);
  });
}

/// Walks over the groups of a tile whose groups have scales of their own.
template <int W, TileGroup kGroup>
struct GroupStream {
  static constexpr ptrdiff_t kRecord = kGroup.of_record * (kGroup.codes + kGroup.scales);
  const uint8_t* codes;
  const uint8_t* scales;
  // To the group that follows: inside a pair, or in the next record.
  ptrdiff_t codes_step = kGroup.of_record == 1 ? kRecord : kGroup.codes;
  ptrdiff_t scales_step = kGroup.of_record == 1 ? kRecord : kGroup.scales;

  GroupStream(const uint8_t* tile, int codes_offset, int scales_offset)
      : codes(tile + kGroup.of_record * kGroup.scales + codes_offset),
        scales(tile + scales_offset) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    prefetch<W, (kGroup.scales + 63) / 64>(scales, ahead_of(kRecord));
    prefetch<W, kGroup.codes / 64>(codes, ahead_of(kRecord));
  }
  RUNNEL_INLINE void step() {
    codes += codes_step;
    scales += scales_step;
    if constexpr (kGroup.of_record == 2) {
      codes_step = kRecord - codes_step;
      scales_step = kRecord - scales_step;
    }
  }
};

// A format is a cursor over the groups of one tile, lanes [sub * kLanes, + kLanes), and what one group adds to the
// accumulators. next() unpacks a group and goes on; where codes are bytes, a kernel can instead take them from byte_codes() a
// step at a time, with load_scales() and step().
template <int W>
struct Q8_0 {
  GroupStream<W, kQ8_0Group> stream;
  Q8_0(const uint8_t* tile, int sub) : stream(tile, sub * kLanes * 4, sub * kLanes * 2) {}
  RUNNEL_INLINE void prefetch_ahead() const { stream.prefetch_ahead(); }
  RUNNEL_INLINE const uint8_t* byte_codes() const { return stream.codes; }
  RUNNEL_INLINE void load_scales(Weights& w) const { w.scale = load_f16(as_halves(stream.scales)); }
  RUNNEL_INLINE void step() { stream.step(); }
  RUNNEL_INLINE void next(Weights& w) {
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA { w.w[s] = q8_codes(stream.codes + 64 * s); });
    load_scales(w);
    step();
  }
  static constexpr int kMax = 255;
  // A code less this is the signed weight: what start() takes off as a sum.
  static constexpr int kOffset = 128;
  static constexpr bool kHasOther = false;
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
  const B all = load_in_order(bits);
  unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
    constexpr int kStep = decltype(s)::value;
    w.w[s] = either(w.w[s], bit_at_4<kStep>(all));
  });
}

template <int W>
struct Q4_0 {
  GroupStream<W, kQ4_0Group> stream;
  Q4_0(const uint8_t* tile, int sub) : stream(tile, sub * kLanes * 4, sub * kLanes * 2) {}
  RUNNEL_INLINE void prefetch_ahead() const { stream.prefetch_ahead(); }
  RUNNEL_INLINE void next(Weights& w) {
    load_nibbles(stream.codes, w);
    w.scale = load_f16(as_halves(stream.scales));
    stream.step();
  }
  static constexpr int kMax = 15;
  static constexpr int kOffset = 8;
  static constexpr bool kHasOther = false;
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
  GroupStream<W, kQ4_1Group> stream;
  Q4_1(const uint8_t* tile, int sub) : stream(tile, sub * kLanes * 4, sub * kLanes * 2) {}
  RUNNEL_INLINE void prefetch_ahead() const { stream.prefetch_ahead(); }
  RUNNEL_INLINE void next(Weights& w) {
    load_nibbles(stream.codes, w);
    w.scale = load_f16(as_halves(stream.scales));
    w.other = load_f16(as_halves(stream.scales) + kTileRows);
    stream.step();
  }
  static constexpr int kMax = 15;
  static constexpr int kOffset = 0;
  static constexpr bool kHasOther = true;
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
  GroupStream<W, kQ5_0Group> stream;
  Q5_0(const uint8_t* tile, int sub) : stream(tile, sub * kLanes * 4, sub * kLanes * 2) {}
  RUNNEL_INLINE void prefetch_ahead() const { stream.prefetch_ahead(); }
  RUNNEL_INLINE void next(Weights& w) {
    load_nibbles(stream.codes, w);
    add_fifth_bits(stream.codes + 256, w);
    w.scale = load_f16(as_halves(stream.scales));
    stream.step();
  }
  static constexpr int kMax = 31;
  static constexpr int kOffset = 16;
  static constexpr bool kHasOther = false;
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

/// Q4_K, and Q5_K, which has fifth bits behind the codes of every two groups.
template <int W, bool kFive>
struct ScaleMin {
  static constexpr TileBlock kBlock = kFive ? kQ5_KBlock : kQ4_KBlock;
  static constexpr int kBlockGroups = 8;
  const uint8_t* codes;   // of the pair of groups
  const uint8_t* scales;  // [12][16 rows] of the block
  const uint16_t* d;
  F scale[kBlockGroups], minus_minimum[kBlockGroups];
  static constexpr bool kPairKept = W == 1 && kFollowsStreams;
  B pair[8];      // the codes of both groups, where they stay in registers
  int group = 0;  // 0 … 7 of the block
  ScaleMin(const uint8_t* tile, int sub)
      : codes(tile + kBlock.head + sub * kLanes * 4),
        scales(tile + 64 + sub * kLanes),
        d(as_halves(tile) + sub * kLanes) {}
  RUNNEL_INLINE void prefetch_ahead() const {
    constexpr ptrdiff_t kAhead = ahead_of(kBlock.all);
    if ((group & 1) != 0) return;
    prefetch<W, kBlock.part / 64>(codes, kAhead);
    prefetch<W, 1>(d, kAhead + 32 * group);  // one of the four lines of the head
  }
  RUNNEL_INLINE void next(Weights& w) {
    if (group == 0) unpack();
    w.scale = scale[group];
    w.other = minus_minimum[group];
    if ((group & 1) == 0) {
      unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
        if constexpr (kPairKept) pair[s] = load_in_order(codes + 64 * s);
        w.w[s] = low_half(kPairKept ? pair[s] : load_bytes(codes + 64 * s));
      });
      if constexpr (kFive) add_fifth_bits(codes + 512, w);
    } else {
      unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
        w.w[s] = high_half(kPairKept ? pair[s] : load_bytes(codes + 64 * s));
      });
      if constexpr (kFive) add_fifth_bits(codes + 576, w);
      codes += kBlock.part;
    }
    if (++group == kBlockGroups) {
      group = 0;
      codes += kBlock.head;
      scales += kBlock.all;
      d += kBlock.all / 2;
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
  static constexpr int kMax = kFive ? 31 : 15;
  static constexpr int kOffset = 0;
  static constexpr bool kHasOther = true;
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
  static constexpr TileBlock kBlock = kQ6_KBlock;
  static constexpr ptrdiff_t kPair = kQ6_KPairHead + 2 * kBlock.all;
  const uint8_t* part;  // of the half block: ql, qh
  const int8_t* scales;
  const uint16_t* d;
  int group = 0;        // 0 … 7 of the block
  bool second = false;  // of the pair of blocks
  Q6_K(const uint8_t* tile, int sub)
      : part(tile + kQ6_KPairHead + kBlock.head + sub * kLanes * 4),
        scales(reinterpret_cast<const int8_t*>(tile) + kQ6_KPairHead + sub * kLanes),
        d(as_halves(tile) + sub * kLanes) {}
  static constexpr ptrdiff_t kAhead = ahead_of(kPair);
  RUNNEL_INLINE void prefetch_ahead() const {
    prefetch<W, kBlock.part / 256>(part + (group & 3) * (kBlock.part / 4), kAhead);
    if ((group & 1) == 0) prefetch<W, 1>(scales, kAhead);
    if (group == 0) prefetch<W, 1>(d, kAhead);
  }
  RUNNEL_INLINE void load_scales(int n, Weights& w) const {  // of group + n
    const F by = load_f16(d);
    w.scale = mul(load_i8(scales + n * 2 * kTileRows), by);
    w.other = mul(load_i8(scales + (n * 2 + 1) * kTileRows), by);
  }
  RUNNEL_INLINE void next(Weights& w) {
    load_scales(0, w);
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
        part += kBlock.part;
    }
    step(1);
  }
  RUNNEL_INLINE void step(int groups) {
    scales += groups * 2 * kTileRows;
    group += groups;
    if (group == 8) {
      group = 0;
      const ptrdiff_t head = second ? kQ6_KPairHead : 0;
      part += kBlock.head + head;
      scales += kBlock.all - kBlock.head + head;
      d += second ? kPair / 2 - kTileRows : kTileRows;
      second = !second;
    }
  }
  /// Group kGroup of a half: lower bits in the lower or upper halves (kGroup / 2) of bytes 512 (kGroup % 2) on of ql, upper
  /// bits at 2 kGroup of qh.
  template <int kGroup>
  RUNNEL_INLINE void codes(Weights& w) {
    const uint8_t* const low = part + (kGroup % 2) * 512;
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      const B both = load_bytes(low + 64 * s);
      w.w[s] = either(kGroup < 2 ? low_half(both) : high_half(both),
                      two_bits_at_4<2 * kGroup>(load_bytes(part + 1024 + 64 * s)));
    });
  }
  static constexpr int kHalfMax = 63;
  /// Of the first or second 16 inputs (kHalf).
  template <int kHalf>
  static RUNNEL_INLINE I start(const Group<W>& a, int t) {
    return shift_left<2>(splat_int(kHalf == 0 ? a.h[t] : a.t[t] - a.h[t]));
  }
  static RUNNEL_INLINE F finish(F acc, I c0, I c1, const Weights& w, const Group<W>& a, int t) {
    const F both = fma(to_float(c1), w.other, mul(to_float(c0), w.scale));
    return fma(both, splat(a.d[t]), acc);
  }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    add_by_halves<Q6_K>(acc, w, a);
  }
  /// The four groups of a half, one token, where lines are read in order.
  static constexpr int kHalfGroups = 4;
  RUNNEL_INLINE F add_half(const Group<W>* a, F acc) {
    prefetch<W, 2>(scales, kAhead);
    if (group == 0) prefetch<W, 1>(d, kAhead);
    I c[kHalfGroups][2];
    unroll<kHalfGroups>([&](auto n) RUNNEL_INLINE_LAMBDA {
      c[n][0] = start<0>(a[n], 0);
      c[n][1] = start<1>(a[n], 0);
    });
    B low[16];
    unroll<16>([&](auto s) RUNNEL_INLINE_LAMBDA { low[s] = load_in_order(part + 64 * s); });
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      prefetch<W, kBlock.part / 512>(part + s * (kBlock.part / 8), kAhead);
      const B high = load_in_order(part + 1024 + 64 * s);
      const B w[kHalfGroups] = {either(low_half(low[s]), two_bits_at_4<0>(high)),
                                either(low_half(low[s + 8]), two_bits_at_4<2>(high)),
                                either(high_half(low[s]), two_bits_at_4<4>(high)),
                                either(high_half(low[s + 8]), two_bits_at_4<6>(high))};
      unroll<kHalfGroups>([&](auto n) RUNNEL_INLINE_LAMBDA {
        I& sum = c[n][s / 4];
        sum = dot<kHalfMax, 1>(sum, w + n, a[n].q[0] + 4 * s);
      });
    });
    unroll<kHalfGroups>([&](auto n) RUNNEL_INLINE_LAMBDA {
      Weights w;
      load_scales(n, w);
      acc = finish(acc, c[n][0], c[n][1], w, a[n], 0);
    });
    part += kBlock.part;
    step(kHalfGroups);
    return acc;
  }
};

/// acc += d * (scale0 c0 + scale1 c1 + offset0 sum0 + offset1 sum1) over the halves of a group.
template <int W>
struct Wide {
  GroupStream<W, kWideGroup> stream;
  Wide(const uint8_t* tile, int sub) : stream(tile, sub * kLanes * 4, sub * kLanes * 4) {}
  RUNNEL_INLINE void prefetch_ahead() const { stream.prefetch_ahead(); }
  RUNNEL_INLINE const uint8_t* byte_codes() const { return stream.codes; }
  RUNNEL_INLINE void load_scales(Weights& w) const {
    const auto* const scales = reinterpret_cast<const float*>(stream.scales);
    w.scale = load(scales);
    w.offset[0] = load(scales + kTileRows);
    w.other = load(scales + 2 * kTileRows);
    w.offset[1] = load(scales + 3 * kTileRows);
  }
  RUNNEL_INLINE void step() { stream.step(); }
  RUNNEL_INLINE void next(Weights& w) {
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA { w.w[s] = q8_codes(stream.codes + 64 * s); });
    load_scales(w);
    step();
  }
  static constexpr int kHalfMax = 255;
  template <int kHalf>
  static RUNNEL_INLINE I start(const Group<W>& a, int t) {
    if constexpr (kSignedCodes) return splat_int(0);
    return shift_left<4>(splat_int(kHalf == 0 ? a.h[t] : a.t[t] - a.h[t]));
  }
  static RUNNEL_INLINE F finish(F acc, I c0, I c1, const Weights& w, const Group<W>& a, int t) {
    const int32_t first = a.h[t], second = a.t[t] - a.h[t];  // -8 times the sums of the codes
    F both = mul(splat(static_cast<float>(first) * -0.125F), w.offset[0]);
    both = fma(splat(static_cast<float>(second) * -0.125F), w.offset[1], both);
    both = fma(to_float(c0), w.scale, both);
    both = fma(to_float(c1), w.other, both);
    return fma(both, splat(a.d[t]), acc);
  }
  static RUNNEL_INLINE void add(const Weights& w, const Group<W>& a, F (&acc)[W]) {
    add_by_halves<Wide>(acc, w, a);
  }
};

/// packs_matmul() of the formats with one scale for a group, from kFewest to kMost packs. A template, since some instruction
/// sets have none.
template <int kFewest, int kMost>
void add_one_scale_packs(Kernels& all) {
  all.packs_matmul[kTileQ8_0] = packs_matmul<Q8_0>;
  all.packs_matmul[kTileQ4_0] = packs_matmul<Q4_0>;
  all.packs_matmul[kTileQ4_1] = packs_matmul<Q4_1>;
  all.packs_matmul[kTileQ5_0] = packs_matmul<Q5_0>;
  all.packs_matmul[kTileQ4_K] = packs_matmul<Q4_K>;
  all.packs_matmul[kTileQ5_K] = packs_matmul<Q5_K>;
  all.fewest_packs = kFewest;
  all.most_packs = kMost;
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
