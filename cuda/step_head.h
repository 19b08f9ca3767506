// SPDX-License-Identifier: Apache-2.0
// The logits of one token whose layers another kernel computes (step_cluster.h), for inputs of a
// width fixed at compile time. Launched beside it, one block per multiprocessor that is left: a
// block has all of its rows on the chip, most in shared memory, some in registers, when the last layer is through.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/launch.h"

namespace runnel::cuda {

inline constexpr int kHeadColumns = 576, kHeadTileRows = 16;
inline constexpr int kHeadThreads = 512, kHeadWarps = kHeadThreads / 32;
inline constexpr int kHeadTile = kHeadTileRows * kHeadColumns;             // bytes, q8_0
inline constexpr int kHeadScales = kHeadTileRows * kHeadColumns / 32 * 2;  // bytes
inline constexpr int kHeadTiles = 23;             // of a block, in shared memory
inline constexpr int kHeadMost = 2 * kHeadWarps;  // of a block: two a warp

struct HeadStep {
  const void* data = nullptr;    // of a Matrix: q8_0, rows of 576
  const void* scales = nullptr;  //
  const float* norm = nullptr;   // or null
  const float* x = nullptr;      // [576], exchanged
  float* logits = nullptr;
  std::uint32_t* timed_out = nullptr;
  std::uint32_t bit = 1;  // of this token's x
  std::uint32_t poll_limit = 1U << 22;
  std::int32_t tiles = 0, grid = 0;
  float norm_eps = 0.0F;
};

/// Whether this kernel makes these logits with `grid` blocks.
bool head_fits(const Matrix& head, int grid, int shared_bytes);
/// Behind the kernel of the layers. What comes next relies on that one too.
cudaError_t head_step(cudaStream_t stream, const HeadStep&);
/// Allows its shared memory. An error: not on this device.
cudaError_t prepare_head();

}  // namespace runnel::cuda
