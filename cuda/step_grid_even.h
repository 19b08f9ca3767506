// SPDX-License-Identifier: Apache-2.0
// Decode kernels for one shape, whose rows divide evenly over the blocks (device/step/grid_even.cuh):
// what they and the layout of their shared memory agree on.
#pragma once

#include "cuda/step_grid.h"

namespace runnel::cuda {

/// Known to the compiler.
struct EvenShape {
  int wide = 0, inner = 0;  // channels, of the SwiGLU too; a warp has 256 columns, or 512
  int head = 0;             // columns of a head's keys and of its values
  int blocks = 0;
  int rows = 0;  // of a block in one phase, at most
};
inline constexpr EvenShape kEvenShape = {2048, 5632, 512, 128, 96};

/// How such a phase is walked, in units: tiles of block types, rows of plain types.
struct EvenPlan {
  int batch = 1;  // of a warp in registers at once
  int piece = 1;  // of a block copied at once
  int sure = 8;   // of a batch, multiplied without asking whether they exist
};
constexpr EvenPlan even_plan(BlockType type, int kind) {
  if (type == BlockType::f16) return {1, 2};  // gates
  if (type == BlockType::bf16) return kind == 3 ? EvenPlan{4, 2} : EvenPlan{8, 4};
  if (type == BlockType::q8_0)
    return kind == 1 ? EvenPlan{2, 2} : kind == 3 ? EvenPlan{2, 1} : EvenPlan{4, 2};
  return kind == 0   ? EvenPlan{8, 4, 6}
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
  const int wide = s.wide / 256 * even_stride(s, 0), down = s.inner / 512 * even_stride(s, 3);
  return wide > down ? wide : down;
}

using DecodeFunction = void (*)(Decode);

/// For a program whose `even` is set; null: not with its head's type.
DecodeFunction even_kernel(const Decode&);
/// Allows `shared_bytes` of shared memory.
cudaError_t prepare_even(int shared_bytes);

}  // namespace runnel::cuda
