// SPDX-License-Identifier: Apache-2.0
// Products of many tokens on the matrix unit (AMX): the integer sums of 16 tokens, 16 rows and a group of 32 inputs by one
// instruction; then scales as add_group() takes them, so that the floats are those of the other kernels.
// Bound, for each such block: the matrix unit, 16 cycles (half of its depth is used, since scales go by 32 inputs), and three
// vector instructions for each of 16 tokens (four with minima), two a cycle: 24. The two units take turns: between instructions
// of the matrix unit vector ones were measured at one a cycle. VNNI alone takes 64 cycles and the scales.
#pragma once

namespace runnel::cpu::RUNNEL_ISA {
namespace {

constexpr int kPackTokens = kWide;  // rows of the matrix unit's first operand
constexpr int kTiles = 2;           // weight tiles together
constexpr int kGroups = 4;          // whose sums are added while accumulators are in registers
constexpr int kSums = kPackTokens * kLanes;
// Lines of a group that are read: codes, scales, their products with the sums.
constexpr int kGroupLines = 10;
constexpr int kPacks = kMostPacks;
constexpr int kOutputSteps = 16;  // the last, which ask for the outputs' lines
static_assert(kLanes == kTileRows);

/// Steps of kGroups groups, then of one, that a row takes.
constexpr int steps_of(int groups) { return groups / kGroups + groups % kGroups; }

/// Registers 0 to 3 hold sums [16 tokens][16 rows] i32, 4 and 5 activations [16 tokens][32] i8, 6 and 7 codes
/// [8 steps][16 rows][4] i8.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 32, 32, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 8, 8};
};
static_assert(sizeof(TileConfig) == 64);
constexpr int kActs = 4, kCodes = 6;

inline void load_config() {
  static constexpr TileConfig kConfig{};
  asm volatile("ldtilecfg %0" : : "m"(kConfig));
}
inline void release() { asm volatile("tilerelease"); }

using ActBytes = int8_t[kPackTokens * 32];
using CodeBytes = int8_t[8 * 64];
using Sums = int32_t[kSums];

template <int kRegister>
RUNNEL_INLINE void load_acts(const ActBytes& from) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c3"
               :
               : "r"(&from), "r"(ptrdiff_t{32}), "m"(from), "i"(kRegister));
}
template <int kRegister>
RUNNEL_INLINE void load_codes(const CodeBytes& from) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c3"
               :
               : "r"(&from), "r"(ptrdiff_t{64}), "m"(from), "i"(kRegister));
}
template <int kTo, int kA, int kB>
RUNNEL_INLINE void multiply() {
  asm volatile(
      "tilezero %%tmm%c0\n\t"
      "tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
      :
      : "i"(kTo), "i"(kA), "i"(kB));
}
template <int kRegister>
RUNNEL_INLINE void store_sums(Sums& to) {
  asm volatile("tilestored %%tmm%c3, (%1,%2,1)"
               : "=m"(to)
               : "r"(&to), "r"(ptrdiff_t{64}), "i"(kRegister));
}

/// What two weight tiles need for kGroups groups.
struct Unpacked {
  alignas(64) CodeBytes codes[kTiles][kGroups];
  alignas(64) float scale[kTiles][kGroups][kLanes];
  alignas(64) float other[kTiles][kGroups][kLanes];
};

template <template <int> class Format, int kN>
RUNNEL_INLINE void unpack(Format<kPackTokens>& cursor, int tile, Unpacked& to) {
  unroll<kN>([&](auto g) RUNNEL_INLINE_LAMBDA {
    Weights w;
    cursor.next(w);
    unroll<8>([&](auto s) RUNNEL_INLINE_LAMBDA {
      _mm512_store_si512(
          to.codes[tile][g] + 64 * s,
          _mm512_sub_epi8(w.w[s],
                          _mm512_set1_epi8(static_cast<char>(Format<kPackTokens>::kOffset))));
    });
    store(to.scale[tile][g], w.scale);
    if constexpr (Format<kPackTokens>::kHasOther) store(to.other[tile][g], w.other);
  });
}

/// The integer sums of kN groups of a pack and both tiles. A sum is stored when the next has been asked for, so that the
/// matrix unit does not wait.
template <int kN>
RUNNEL_INLINE void multiply_groups(const Group<kPackTokens>* acts, const Unpacked& w,
                                   Sums (&sums)[kTiles][kGroups]) {
  unroll<kN>([&](auto g) RUNNEL_INLINE_LAMBDA {
    constexpr int kA = kActs + g % 2, kTo = g % 2 * 2, kBefore = 2 - kTo;
    load_acts<kA>(reinterpret_cast<const ActBytes&>(acts[g].q));
    load_codes<kCodes>(w.codes[0][g]);
    load_codes<kCodes + 1>(w.codes[1][g]);
    multiply<kTo, kA, kCodes>();
    multiply<kTo + 1, kA, kCodes + 1>();
    if constexpr (g > 0) {
      store_sums<kBefore>(sums[0][g - 1]);
      store_sums<kBefore + 1>(sums[1][g - 1]);
    }
  });
  constexpr int kLast = (kN - 1) % 2 * 2;
  store_sums<kLast>(sums[0][kN - 1]);
  store_sums<kLast + 1>(sums[1][kN - 1]);
}

/// Adds the sums of kN groups of a pack to the accumulators of both tiles, eight tokens at a time, and prefetches the groups at
/// `next`.
template <template <int> class Format, int kN>
RUNNEL_INLINE void add_sums(const Group<kPackTokens>* acts, const Unpacked& w,
                            const Sums (&sums)[kTiles][kGroups], float* acc,
                            const Group<kPackTokens>* next) {
  using Rows = Format<kPackTokens>;
  constexpr int kParts = 2, kTokens = kPackTokens / kParts;
  unroll<kParts>([&](auto part) RUNNEL_INLINE_LAMBDA {
    F a[kTiles * kTokens];
    const auto at = [&](auto j) RUNNEL_INLINE_LAMBDA {
      return acc + j % kTiles * kSums + (part * kTokens + j / kTiles) * kLanes;
    };
    unroll<kTiles * kTokens>([&](auto j) RUNNEL_INLINE_LAMBDA { a[j] = load(at(j)); });
    unroll<kN>([&](auto g) RUNNEL_INLINE_LAMBDA {
      constexpr int kLines = kGroupLines / kParts;
      unroll<kLines>([&](auto line) RUNNEL_INLINE_LAMBDA {
        __builtin_prefetch(next[g].q[0] + 64 * (part * kLines + line));
      });
      const auto of_tile = [&](const float(&from)[kTiles][kGroups][kLanes], int tile)
                               RUNNEL_INLINE_LAMBDA { return load(from[tile][g]); };
      unroll<kTiles * kTokens>([&](auto j) RUNNEL_INLINE_LAMBDA {
        constexpr int kTile = decltype(j)::value % kTiles;
        constexpr int kToken = decltype(part)::value * kTokens + decltype(j)::value / kTiles;
        const F c = to_float(_mm512_load_si512(sums[kTile][g] + kToken * kLanes));
        a[j] = fma(mul(c, splat(acts[g].d[kToken])), of_tile(w.scale, kTile), a[j]);
        if constexpr (Rows::kHasOther)
          a[j] = Rows::finish(a[j], of_tile(w.other, kTile), acts[g], kToken);
      });
    });
    unroll<kTiles * kTokens>([&](auto j) RUNNEL_INLINE_LAMBDA { store(at(j), a[j]); });
  });
}

/// kN groups of all packs.
template <template <int> class Format, int kN>
RUNNEL_INLINE void add_groups(const Group<kPackTokens>* acts, ptrdiff_t pack_groups,
                              const Unpacked& w, float* acc, NextLines& lines) {
  alignas(64) Sums sums[kTiles][kGroups];
  const Group<kPackTokens>* first = acts;
  for (int p = 0; p < kPacks; ++p, acts += pack_groups, acc += kTiles * kSums) {
    multiply_groups<kN>(acts, w, sums);
    lines.ask();
    add_sums<Format, kN>(acts, w, sums, acc, p + 1 < kPacks ? acts + pack_groups : first + kN);
  }
}

/// Tiles i and i + 1 (`pair`; else i alone, twice) of kPacks packs.
template <template <int> class Format>
void tiles_of_packs(const MatmulArgs& m, int i, bool pair, NextLines& lines) {
  const auto* const acts = reinterpret_cast<const Group<kPackTokens>*>(m.acts);
  const int groups = m.cols / 32;
  const uint8_t* const tile = m.tiles + static_cast<size_t>(i) * m.tile_bytes;
  Format<kPackTokens> upper(tile, 0), lower(pair ? tile + m.tile_bytes : tile, 0);
  alignas(64) float acc[kPacks * kTiles * kSums];
  for (float* at = acc; at < acc + kPacks * kTiles * kSums; at += kLanes) store(at, splat(0));
  float* const out = m.out + i * kTileRows;
  const ptrdiff_t stride = m.out_stride;
  constexpr int kTokens = kPacks * kPackTokens;
  // The outputs' lines: those of some tokens at each of the last steps.
  const int steps = steps_of(groups), from = steps > kOutputSteps ? steps - kOutputSteps : 0;
  const int tokens_of_step = (kTokens + steps - from - 1) / (steps - from);
  int wanted = 0;
  const auto prefetch_outputs = [&](int step) RUNNEL_INLINE_LAMBDA {
    if (step < from) return;
    for (int n = 0; n < tokens_of_step && wanted < kTokens; ++n, ++wanted) {
      __builtin_prefetch(out + wanted * stride, 1);
      if (pair) __builtin_prefetch(out + wanted * stride + kTileRows, 1);
    }
  };
  Unpacked w;
  int g = 0, step = 0;
  for (; g + kGroups <= groups; g += kGroups, ++step) {
    unpack<Format, kGroups>(upper, 0, w);
    unpack<Format, kGroups>(lower, 1, w);
    prefetch_outputs(step);
    add_groups<Format, kGroups>(acts + g, groups, w, acc, lines);
  }
  for (; g < groups; ++g, ++step) {
    unpack<Format, 1>(upper, 0, w);
    unpack<Format, 1>(lower, 1, w);
    prefetch_outputs(step);
    add_groups<Format, 1>(acts + g, groups, w, acc, lines);
  }
  for (int t = 0; t < kTokens; ++t) {
    const float* const sums = acc + t / kPackTokens * kTiles * kSums + t % kPackTokens * kLanes;
    for (int n = 0; n < (pair ? kTiles : 1); ++n) {
      float* const at = out + t * stride + n * kTileRows;
      const F sum = load(sums + n * kSums);
      store(at, m.accumulate != 0 ? add(load(at), sum) : sum);
    }
  }
}

/// Kernels::packs_matmul of formats with one scale for a group: not Q6_K. The registers are released, since a thread that
/// holds some has 8 KiB more to save when it is preempted.
template <template <int> class Format>
void packs_matmul(const MatmulArgs& m) {
  load_config();
  const int pairs = (m.n_tiles + kTiles - 1) / kTiles;
  NextLines lines(m, pairs * steps_of(m.cols / 32) * kPacks);
  for (int i = 0; i < m.n_tiles; i += kTiles)
    tiles_of_packs<Format>(m, i, i + 1 < m.n_tiles, lines);
  release();
}

/// Kernels::int8_peak, of the products that the kernels make.
double int8_peak(int rounds, int32_t* sink) {
  alignas(64) static const ActBytes kNoActs = {};
  alignas(64) static const CodeBytes kNoCodes = {};
  alignas(64) Sums sums = {};
  load_config();
  load_acts<kActs>(kNoActs);
  load_codes<kCodes>(kNoCodes);
  for (int r = 0; r < rounds; ++r) {
    unroll<4>([](auto i) RUNNEL_INLINE_LAMBDA { multiply<i, kActs, kCodes>(); });
  }
  store_sums<0>(sums);
  release();
  *sink += sums[0];
  return 2.0 * rounds * 4 * kPackTokens * kTileRows * 32;
}

}  // namespace
}  // namespace runnel::cpu::RUNNEL_ISA
