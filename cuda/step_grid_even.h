// SPDX-License-Identifier: Apache-2.0
// Decode kernels for fixed shapes, whose rows divide (nearly) evenly over the blocks (device/step/grid_even.cuh): THE
// LIST of the shapes, and what the kernels and the layout of their shared memory agree on.
#pragma once

#include "cuda/step_grid.h"

namespace runnel::cuda {

/// Known to the compiler.
struct EvenShape {
  int wide = 0, inner = 0;  // channels, of the SwiGLU too
  int head = 0;             // columns of a head's keys and of its values
  int group = 1;            // query heads per kv head
  int blocks = 0;
  int rows = 0;    // of a block in one phase, at most
  int splits = 0;  // shares of a query head's slots, a block each; 0: warps share the slots
  int share = 0;   // slots of a split, all positional or all memory
  // Defaults of Decode::pauses. An answer takes that long at least, and polls keep it off.
  std::uint32_t pauses[kDecodePauses] = {1200, 4000, 1200, 1500, 900};
};

/// A new shape is one row here; its kernels follow in step_grid_even.cu.
inline constexpr EvenShape kEvenShapes[] = {
    {.wide = 2048, .inner = 5632, .head = 512, .blocks = 128, .rows = 96},
    {.wide = 896,
     .inner = 4864,
     .head = 64,
     .group = 7,
     .blocks = 112,
     .rows = 96,
     .splits = 3,
     .share = 128,
     .pauses = {900, 4300, 1000, 1200, 700}},
    {.wide = 1536,
     .inner = 8960,
     .head = 128,
     .group = 6,
     .blocks = 128,
     .rows = 144,
     .splits = 6,
     .share = 64,
     .pauses = {1200, 4900, 1200, 1500, 900}},
};

constexpr int even_width(EvenShape s, int kind) { return kind == 3 ? s.inner : s.wide; }
/// Columns of a step: 32 per lane for block types, whose rows 8 lanes share, or 4 in narrow layers.
constexpr int even_columns(EvenShape s, int kind) {
  return even_width(s, kind) % 256 == 0 ? 256 : 128;
}
constexpr int even_steps(EvenShape s, int kind) {
  return even_width(s, kind) / even_columns(s, kind);
}
/// Steps of a row that one warp multiplies; of down it may be several, and the last warp may have fewer.
constexpr int even_warp_steps(EvenShape s, int kind) {
  return kind == 3 ? (even_steps(s, kind) + kDecodeWarps - 1) / kDecodeWarps : 1;
}
/// Warps with other columns.
constexpr int even_ways(EvenShape s, int kind) {
  return (even_steps(s, kind) + even_warp_steps(s, kind) - 1) / even_warp_steps(s, kind);
}
/// Columns of an input in shared memory: whole shares of a warp, zeros behind the last.
constexpr int even_padded(EvenShape s, int kind) {
  return even_ways(s, kind) * even_warp_steps(s, kind) * even_columns(s, kind);
}

/// Warps with the same columns.
constexpr int even_apart(int kind) { return kind == 3 ? 1 : 2; }
/// Warps that have columns in one phase.
constexpr int even_busy(EvenShape s, int kind) { return even_ways(s, kind) * even_apart(kind); }
/// The first thread that shows rows: of the warps without columns, if they are enough for all of a block. They prepare
/// their rows while the others multiply, and these are at the next phase's weights while rows are shown. 0: all do.
constexpr int even_first_showing(EvenShape s) {
  int busy = 0;
  for (int kind = 0; kind < 4; ++kind) busy = even_busy(s, kind) > busy ? even_busy(s, kind) : busy;
  const int threads = 32 * (kDecodeWarps - busy);  // a warp for q, k and v, one for the gates
  const bool enough = threads >= 64 && s.rows <= 2 * threads && s.wide / s.blocks <= threads;
  return s.splits > 0 && enough ? 32 * busy : 0;
}

/// How such a phase is walked, in units: tiles of block types, rows of plain types.
struct EvenPlan {
  int batch = 1;  // of a warp in registers at once
  int piece = 1;  // of a block copied at once
  int sure = 8;   // of a batch, multiplied without asking whether they exist
};
constexpr EvenPlan even_plan(EvenShape s, BlockType type, int kind) {
  if (type == BlockType::f16) return even_columns(s, kind) == 256 ? EvenPlan{1, 2} : EvenPlan{1, 4};
  if (type == BlockType::bf16) return kind == 3 ? EvenPlan{4, 2} : EvenPlan{8, 4};
  if (type == BlockType::q8_0 || type == BlockType::wide)
    return kind == 1 ? EvenPlan{2, 2} : kind == 3 ? EvenPlan{2, 1} : EvenPlan{4, 2};
  if (s.splits > 0) {  // few rows each
    const int few = even_columns(s, 0) == 256 ? 2 : 1;
    return kind == 2   ? EvenPlan{6, 4, 5}
           : kind == 3 ? EvenPlan{few + 1, few + 1}
                       : EvenPlan{few, 2 * few};
  }
  const bool five = type == BlockType::q5_0 || type == BlockType::q5_k;  // of more registers
  return kind == 0   ? EvenPlan{five ? 6 : 8, 4, 6}
         : kind == 1 ? EvenPlan{2, 4}
         : kind == 2 ? EvenPlan{6, 4}
                     : EvenPlan{4, 2};
}
/// Floats between the sums of a warp's columns and of the next one's.
constexpr int even_stride(EvenShape s, int kind) {
  return (kind & 1) != 0 ? s.wide / s.blocks : s.rows;
}
/// Floats of one phase's sums. There are two sets.
constexpr int even_partial(EvenShape s) {
  const int wide = even_ways(s, 0) * even_stride(s, 0), down = even_ways(s, 3) * even_stride(s, 3);
  return wide > down ? wide : down;
}

/// A split's slots of one token in a block's shared memory, offsets in floats.
struct EvenSlots {
  int near = 0;   // the query [head] as sinks see it; at 0 as the other slots do
  int key = 0;    // [head]
  int value = 0;  // [head]
  int peaks = 0;  // [warps] of a warp's logits
  int sums = 0;   // [warps] of its exponentials
  int reads = 0;  // [warps, read_stride()]: of its slots [head]
  int kept = 0;   // [2, threads, 4]: keys, then values that the block has yet to store
  int total = 0;
  /// Eight more than a head: what four warps have read of eight columns lies in 32 banks.
  static constexpr int read_stride(EvenShape s) { return s.head + 8; }
  static constexpr EvenSlots of(EvenShape s) {
    EvenSlots at;
    at.near = s.head, at.key = 2 * s.head, at.value = 3 * s.head;
    at.peaks = 4 * s.head, at.sums = at.peaks + kDecodeWarps;
    at.reads = at.sums + kDecodeWarps;
    at.kept = at.reads + kDecodeWarps * read_stride(s);
    at.total = at.kept + 2 * 4 * kDecodeThreads;
    return at;
  }
};

using DecodeFunction = void (*)(Decode);

/// For a program whose `even` is set; null: not with its types.
DecodeFunction even_kernel(const Decode&);
/// Allows `shared_bytes` of shared memory.
cudaError_t prepare_even(int shared_bytes);

}  // namespace runnel::cuda
