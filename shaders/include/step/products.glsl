// SPDX-License-Identifier: Apache-2.0
// Products of decode_step and head: items with the input, which lies in shared memory as f32 or, with RUNNEL_DOT, rounded to
// blocks of 32 signed bytes with a scale.
// Include weights.glsl before; define D and OTHER, the widths of the inputs of even and odd stages.

#include "step/items.glsl"

/// Where the input of a stage begins, in columns.
uint input_at(uint stage) { return stage % 2 == 0 ? 0 : D; }

#ifdef RUNNEL_DOT
// Four columns a word. In a block of 32: words of the columns 0-3 of each unit, of all blocks, then of the columns 4-7,
// as nibbles lie; for Q8_0: as columns follow.
shared uvec4 rounded[(D + OTHER) / 16];
shared uvec2 about[(D + OTHER) / 32];  // of a block: its scale; what its type needs of the sum of its values

/// Keeps vector `at` of a stage's input, if it has that many; 8 lanes side by side have a block. All lanes must call.
/// @param as_columns  for Q8_0
void keep_words(uint stage, uint columns, uint at, vec4 v, const bool as_columns) {
  float peak = max(max(abs(v.x), abs(v.y)), max(abs(v.z), abs(v.w)));
  peak = max(peak, subgroupShuffleXor(peak, 1));
  peak = max(peak, subgroupShuffleXor(peak, 2));
  peak = max(peak, subgroupShuffleXor(peak, 4));
  const uint packed_ = round_bytes(v, peak);
  const uint word = as_columns ? at : at % 2 * (columns / 8) + at / 8 * 4 + at / 2 % 4;
  int sum = 0, other = 0;
  if (!as_columns) {
    sum = dot_bytes(packed_, 0x01010101u, 0);
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    other = subgroupShuffleXor(sum, 4);
  }
  if (4 * at >= columns) return;
  rounded[input_at(stage) / 16 + word / 4][word % 4] = packed_;
  if (at % 8 == 0) {
    const float scale = peak * (1.0 / 127.0);
    about[input_at(stage) / 32 + at / 8] = uvec2(floatBitsToUint(scale), about_sums(scale, sum, other));
  }
}

void keep_vector(uint stage, uint columns, uint at, vec4 v) {
#ifdef W_Q8_0
  keep_words(stage, columns, at, v, true);
#else
  keep_words(stage, columns, at, v, false);
#endif
}

float item_sum(const Item r, uint stage, uint columns, uint item) {
#if defined(W_Q8_0)
  const uvec4 x = rounded[input_at(stage) / 16 + item];
  return item_product(r, x, x, about[input_at(stage) / 32 + item / 2]);
#else
  const uint at = input_at(stage) / 16 + item;
  return item_product(r, rounded[at], rounded[at + columns / 32], about[input_at(stage) / 32 + item]);
#endif
}

#else
// Vectors of 4 columns, so that lanes side by side meet on no bank.
#define PADDED(COLUMNS) ((COLUMNS) / 4 + (kItemUnits == 1 ? 0 : (COLUMNS) / (8 * kItemUnits) + 1))
const uint kSecond = PADDED(D);  // of the second input
shared vec4 prepared[PADDED(D) + PADDED(OTHER)];
uint place(uint stage, uint columns, uint i) {
  return (stage % 2 == 0 ? 0 : kSecond) + (kItemUnits == 1 ? i % 2 * (columns / 8) + i / 2 : i + i / (2 * kItemUnits));
}
void keep_vector(uint stage, uint columns, uint at, vec4 v) {
  if (4 * at < columns) prepared[place(stage, columns, at)] = v;
}

float item_sum(const Item r, uint stage, uint columns, uint item) {
  precise float sum = 0.0;
  [[unroll]] for (uint u = 0; u < kItemUnits; ++u) {
    const uint unit = item * kItemUnits + u;
    const Unit w = decode(unit_at(r, u));
    sum = fma(w.scale, unit_sum(w, prepared[place(stage, columns, 2 * unit)], prepared[place(stage, columns, 2 * unit + 1)]), sum);
  }
  return sum;
}
#endif
