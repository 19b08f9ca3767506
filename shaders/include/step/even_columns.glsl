// SPDX-License-Identifier: Apache-2.0
// decode_even: how a stage's columns and rows are shared, and what a lane has of its input.

/// For a stage with COLUMNS inputs and ROWS rows of a workgroup: vectors of 4 columns that a lane takes; columns of a
/// subgroup (a slice) and slices; subgroups with the same slice (ways), which take tiles by turns; lanes side by side
/// that share a row; items of a row in a lane; rows of a tile; tiles of a subgroup; and its items. The last slice may lack
/// columns at its end, whole blocks of 32: it then has zeros for them.
#define SHAPE_OF(S, COLUMNS, ROWS, MOST_WAYS)                                                                                  \
  const uint kColumns##S = COLUMNS, kRows##S = ROWS;                                                                           \
  const uint kVectors##S = kColumns##S <= 4 * kLanes * kWarps ? 1 : kColumns##S <= 8 * kLanes * kWarps ? 2 : 4;                \
  const uint kSlice##S = 4 * kVectors##S * kLanes, kSlices##S = (kColumns##S + kSlice##S - 1) / kSlice##S;                     \
  const uint kMissing##S = kSlices##S * kSlice##S - kColumns##S;                                                               \
  const uint kAcross##S = kSlice##S / kItemColumns, kTeam##S = kAcross##S < kLanes ? kAcross##S : kLanes;                      \
  const uint kFolds##S = kAcross##S / kTeam##S, kSide##S = kLanes / kTeam##S;                                                  \
  const uint kFree##S = kWarps / kSlices##S, kUseful##S = MOST_WAYS, kWays##S = kFree##S < kUseful##S ? kFree##S : kUseful##S; \
  const uint kTurns##S = (kRows##S + kSide##S * kWays##S - 1) / (kSide##S * kWays##S);                                         \
  const uint kItems##S = kTurns##S * kFolds##S, kRowItems##S = kColumns##S / kItemColumns;
// Subgroups behind the last row's would only ask for the input; the gates have use for all.
#define WAYS_OF(S) ((kRows##S + kSide##S - 1) / kSide##S)
SHAPE_OF(0, D, (kProjected - GATES * H * MEMORY) / GROUPS, kWarps)
SHAPE_OF(1, kOut, D / GROUPS, WAYS_OF(1))
SHAPE_OF(2, D, 2 * INNER / GROUPS, WAYS_OF(2))
SHAPE_OF(3, INNER, D / GROUPS, WAYS_OF(3))
// Threads that show rows: of the subgroups without columns, if they are enough for all of a workgroup. They prepare their
// rows while the others multiply, and these go on to the next stage while rows are shown.
const uint kBusy01 = kSlices0 * kWays0 > kSlices1 * kWays1 ? kSlices0 * kWays0 : kSlices1 * kWays1;
const uint kBusy23 = kSlices2 * kWays2 > kSlices3 * kWays3 ? kSlices2 * kWays2 : kSlices3 * kWays3;
const uint kBusy = kBusy01 > kBusy23 ? kBusy01 : kBusy23;
const uint kIdle = (kWarps - kBusy) * kLanes;
const uint kFirstShowing = kIdle < 64 ? 0 : kRows1 > kIdle ? 0 : kBusy * kLanes, kShowing = THREADS - kFirstShowing;
/// The thread's number among them; of others a number behind all rows.
uint showing() { return THREAD >= kFirstShowing ? THREAD - kFirstShowing : 0x10000000u; }
// For f where it is a matrix of its own (even_gates.glsl), beside stage 0: rows of a workgroup, of a subgroup, sums of
// a lane before they are added up, and rows that there is room for.
const uint kGateRows = GATES * H * MEMORY / GROUPS, kGateTurns = (kGateRows + kWays0 - 1) / kWays0;
const uint kGateSums = kGateTurns < 2 ? 1 : kGateTurns < 3 ? 2 : kGateTurns < 5 ? 4 : 8;
const uint kGateRoom = GATES * kGateSums * kWays0;
// Rows that there is room for: sums go out eight, four or two at a time.
#define ROOM_OF(S, MORE)                                                                          \
  const uint kRest##S = kTurns##S % 8, kLast##S = kRest##S < 3 ? kRest##S : kRest##S < 5 ? 4 : 8; \
  const uint kRoom##S = (kTurns##S - kRest##S + kLast##S) * kSide##S * kWays##S + MORE;
ROOM_OF(0, kGateRoom)
ROOM_OF(1, 0)
ROOM_OF(2, 0)
ROOM_OF(3, 0)
// Whether down's input is exchanged as f16, and words of it that a workgroup makes.
#ifdef RUNNEL_DOT
const uint kHalfWords = (kVectors3 > 1 ? 1 : 0) * (kRows2 % 4 == 0 ? 1 : 0);
#else
const uint kHalfWords = 0;
#endif
const bool kHalves = kHalfWords != 0;
const uint kHidden = kRows2 / 2 / (1 + kHalfWords);
// Items of a stage that a lane asks for before its input is there; the others while these are multiplied.
#define AHEAD_OF(S) const uint kAhead##S = kItems##S < HELD ? kItems##S : HELD;
AHEAD_OF(0)
AHEAD_OF(1)
AHEAD_OF(2)
AHEAD_OF(3)
// Items of gate and up that are loaded together with the output projection's, by workgroups that wait for others' slots.
const uint kBeside1 = kMostHaveSlots ? 0 : HELD - kAhead1;
const uint kEarly = kAhead2 < kBeside1 ? kAhead2 : kBeside1;

// Volatile, so that loads stay where they are: between looks at the exchange. By address: those at constant distances need
// no more than an instruction.
layout(buffer_reference, std430, buffer_reference_align = 16) volatile readonly buffer Words4 { uvec4 w[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) volatile readonly buffer Words { uint w[]; };

/// Where a lane's items of a stage lie: loads and words of scales. Others of its items are at constant distances.
struct ItemAt {
  Words4 a;
#if !defined(W_F16) && !defined(W_BF16)
  Words scale;
#endif
#if defined(W_FIFTH_BITS)
  Words fifth;
#endif
#if defined(W_Q4_K) || defined(W_Q5_K)
  Words d;
#endif
};
#if defined(W_F16) || defined(W_BF16)
#define TAKE_ITEM(R, AT, STEPS) R.a = AT.a.w[STEPS];
#elif defined(W_Q8_0) || defined(W_Q4_0)
#define TAKE_ITEM(R, AT, STEPS) \
  R.a = AT.a.w[STEPS];          \
  R.scale = AT.scale.w[(STEPS) / (8 / kItemUnits)];
#elif defined(W_Q4_1)
#define TAKE_ITEM(R, AT, STEPS) \
  R.a = AT.a.w[STEPS];          \
  R.scale = AT.scale.w[STEPS];
#elif defined(W_Q5_0)
#define TAKE_ITEM(R, AT, STEPS)    \
  R.a = AT.a.w[STEPS];             \
  R.fifth = AT.fifth.w[STEPS];     \
  R.scale = AT.scale.w[(STEPS) / 2];
#elif defined(W_Q5_K)
#define TAKE_ITEM(R, AT, STEPS)      \
  R.a = AT.a.w[STEPS];               \
  R.fifth = AT.fifth.w[STEPS];       \
  R.d = AT.d.w[(STEPS) / 8 * 5];     \
  R.scale = AT.scale.w[(STEPS) / 8 * 5];
#else
#define TAKE_ITEM(R, AT, STEPS)      \
  R.a = AT.a.w[STEPS];               \
  R.d = AT.d.w[(STEPS) / 8 * 5];     \
  R.scale = AT.scale.w[(STEPS) / 8 * 5];
#endif

/// Item `i` of a matrix whose entry in the table is `entry`.
ItemAt item_at(uint layer, uint entry, uint i) {
  ItemAt at;
  at.a = Words4(weights_plus(16 * i));
#if defined(W_FIFTH_BITS)
  at.fifth = Words(weights_plus(4 * (in_table(layer, entry + 3) + i)));
#endif
#if defined(W_Q8_0) || defined(W_Q4_0) || defined(W_Q5_0)
  at.scale = Words(weights_plus(4 * (in_table(layer, entry + 2) + i / (8 / kItemUnits))));
#elif defined(W_Q4_1)
  at.scale = Words(weights_plus(4 * (in_table(layer, entry + 2) + i)));
#elif defined(W_Q4_K) || defined(W_Q5_K)
  const uint block = in_table(layer, entry + 2) + i / 8 * 5;
  at.d = Words(weights_plus(4 * block));
  at.scale = Words(weights_plus(4 * (block + 1 + i / 2 % 4)));
#endif
  return at;
}

/// What a lane has of the input: the columns of its items.
struct Columns {
#ifdef RUNNEL_DOT
  uvec4 low;
  uvec4 high;
  uvec2 of_block;
#else
  vec4 low;
  vec4 high;
#endif
};

// How far an item's scale lies from the low end of its words.
#if defined(W_Q8_0)
#define SHIFT_OF(ITEM) (8 * ((ITEM) & 2))
#elif defined(W_F16) || defined(W_BF16) || defined(W_Q4_1)
#define SHIFT_OF(ITEM) 0
#else
#define SHIFT_OF(ITEM) (16 * ((ITEM) & 1))
#endif
#ifdef RUNNEL_DOT
float product(Item r, const Columns x, uint shift) {
  r.scale >>= shift;
  return item_product(r, x.low, x.high, x.of_block);
}
#else
float product(const Item r, const Columns x, uint shift) { return unit_sum(decode(unit_at(r, 0)), x.low, x.high); }
#endif

/// Which of a slice's vectors a lane takes as its `j`-th of `count`.
uint vector_of(uint j, uint count) {
#ifdef RUNNEL_DOT
  return j * kLanes + LANE;
#else
  return count == 1 ? LANE : (j / 2 * kLanes + LANE) * 2 + j % 2;
#endif
}

/// The same in the input, of which the slice's vectors begin at `at4`. For a vector that is missing the last one stands in, as
/// its last item does among the weights: values that are there, if not to be used.
uint vector_at(uint at4, uint j, uint count, uint columns, uint missing) {
  const uint at = at4 + vector_of(j, count);
  return missing > 0 ? min(at, columns / 4 - 1) : at;
}

#ifdef RUNNEL_DOT
/// The peak of four lanes' vectors of magnitudes.
float peak_of_four(vec4 v) {
  float peak = max(max(v.x, v.y), max(v.z, v.w));
  peak = max(peak, subgroupShuffleXor(peak, 1));
  return max(peak, subgroupShuffleXor(peak, 2));
}
/// The peak of a block, of which eight lanes have a vector each.
float block_peak(vec4 v) {
  const float peak = peak_of_four(abs(v));
  return max(peak, subgroupShuffleXor(peak, 4));
}
/// The same where four lanes have two each.
float pair_peak(vec4 v, vec4 w) { return peak_of_four(max(abs(v), abs(w))); }
// Slices of more than a vector a lane, rounded.
#define ROUNDED_OF(S) (kVectors##S > 1 ? kSlices##S * (kSlice##S / 32) : 0)
const uint kRounded01 = ROUNDED_OF(0) > ROUNDED_OF(1) ? ROUNDED_OF(0) : ROUNDED_OF(1);
const uint kRounded23 = ROUNDED_OF(2) > ROUNDED_OF(3) ? ROUNDED_OF(2) : ROUNDED_OF(3);
const uint kRounded = kRounded01 > kRounded23 ? kRounded01 : kRounded23;  // blocks
shared uvec4 rounded_words[2 * kRounded + 1];
shared float rounded_peaks[kRounded + 1];

/// Rounds the blocks of slice `slice`, `count` vectors a lane, and hands each lane its item's columns. `halves`: pairs
/// of vectors lie together, and they are in parts.
Columns columns_of(const vec4 v[4], uint count, const bool halves, uint slice, uint in_team) {
  Columns x;
  float peak;
#ifdef W_Q8_0
  if (count == 1) {
    const float own = block_peak(v[0]);
    const uint word = round_bytes(v[0], own);
    [[unroll]] for (uint e = 0; e < 4; ++e) x.low[e] = subgroupShuffle(word, 4 * in_team + e);
    peak = subgroupShuffle(own, 4 * in_team);
  } else {
#else
  if (count == 1) {
    const float own = block_peak(v[0]);
    const uint word = round_bytes(v[0], own);
    // As nibbles lie: columns 0-3 of each unit of 8, then 4-7.
    [[unroll]] for (uint u = 0; u < 4; ++u) {
      x.low[u] = subgroupShuffle(word, 8 * in_team + 2 * u);
      x.high[u] = subgroupShuffle(word, 8 * in_team + 2 * u + 1);
    }
    peak = subgroupShuffle(own, 8 * in_team);
  } else {
#endif
    const uint first = slice * count * kLanes;  // vector
    if (halves) {
      [[unroll]] for (uint j = 0; j < 4; j += 2) {
        if (j < count) {
          const float own = pair_peak(v[j], v[j + 1]);
          const uint at = first + 2 * (j / 2 * kLanes + LANE);
          rounded_words[at / 4][at % 4] = round_bytes(v[j], own);
          rounded_words[at / 4][at % 4 + 1] = round_bytes(v[j + 1], own);
          if (LANE % 4 == 0) rounded_peaks[at / 8] = own / kExchangedPart;
        }
      }
    } else {
      [[unroll]] for (uint j = 0; j < 4; ++j) {
        if (j < count) {
          const float own = block_peak(v[j]);
          const uint at = first + j * kLanes + LANE;
          rounded_words[at / 4][at % 4] = round_bytes(v[j], own);
          if (LANE % 8 == 0) rounded_peaks[at / 8] = own;
        }
      }
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
#ifdef W_Q8_0
    x.low = rounded_words[first / 4 + in_team];
    peak = rounded_peaks[first / 8 + in_team / 2];
#else
    const uvec4 a = rounded_words[first / 4 + 2 * in_team], b = rounded_words[first / 4 + 2 * in_team + 1];
    x.low = uvec4(a.x, a.z, b.x, b.z), x.high = uvec4(a.y, a.w, b.y, b.w);
    peak = rounded_peaks[first / 8 + in_team];
#endif
  }
  const float scale = peak * (1.0 / 127.0);
#ifdef W_Q8_0
  x.high = x.low;
  x.of_block = uvec2(floatBitsToUint(scale), 0);
#else
  // Halves of a block do not matter to types that come here.
  const uvec4 ones = uvec4(0x01010101u);
  x.of_block = uvec2(floatBitsToUint(scale), about_sums(scale, dot_words(ones, x.low), dot_words(ones, x.high)));
#endif
  return x;
}
#else
Columns columns_of(const vec4 v[4], uint count, const bool halves, uint slice, uint in_team) {
  Columns x;
  if (count == 1) {
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      x.low[e] = subgroupShuffle(v[0][e], 2 * in_team);
      x.high[e] = subgroupShuffle(v[0][e], 2 * in_team + 1);
    }
  } else {
    x.low = v[0], x.high = v[1];
  }
  return x;
}
#endif

void add_lanes(inout float sums[8], uint count, uint lanes, uint in_team) { ADD_LANES(sums, count, lanes, in_team) }

// Parts of rows, by slices, and of the sum of the input's squares. Even and odd stages have their own, so that one barrier
// a stage is enough.
#define PARTS_OF(S) (kSlices##S * kRoom##S)
const uint kEvenParts = PARTS_OF(0) > PARTS_OF(2) ? PARTS_OF(0) : PARTS_OF(2);
const uint kOddParts = PARTS_OF(1) > PARTS_OF(3) ? PARTS_OF(1) : PARTS_OF(3);
shared float even_parts[kEvenParts];
shared float odd_parts[kOddParts];
shared float even_squares[kWarps];
shared float odd_squares[kWarps];

#define SUM_OF_PARTS(NAME, FROM)                                                    \
  float NAME(const uint slices, const uint stride, uint row) {                      \
    precise float sum[4];                                                           \
    [[unroll]] for (uint i = 0; i < 4; ++i) sum[i] = 0.0;                           \
    [[unroll]] for (uint i = 0; i < slices; ++i) sum[i % 4] += FROM[i * stride + row]; \
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);                                   \
  }
SUM_OF_PARTS(sum_even, even_parts)
SUM_OF_PARTS(sum_odd, odd_parts)
SUM_OF_PARTS(all_even_squares, even_squares)
SUM_OF_PARTS(all_odd_squares, odd_squares)
