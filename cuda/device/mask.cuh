// SPDX-License-Identifier: Apache-2.0
// Waiting for a mask of the host's, and applying it.
#pragma once

#include "cuda/device/async.cuh"
#include "cuda/mask.h"

namespace runnel::cuda {

/// Whether the host has written the mask, or does in time. All threads of a block ask; shared memory holds a word.
__device__ inline bool await_mask(const Mask& m) {
  auto* const here = reinterpret_cast<std::uint32_t*>(shared_memory());
  if (thread_index() == 0) {
    const std::uint64_t begin = nanoseconds_now();
    bool written = watch_host(m.written) == m.ticket;
    while (!written && nanoseconds_now() - begin < m.timeout) {
      pause(500);
      written = watch_host(m.written) == m.ticket;
    }
    *here = written ? 1U : 0U;
    if (!written) store_host(m.late, m.ticket);
  }
  sync_block();
  return *here != 0;
}

/// A block's share of the tokens: 32 words of the mask for each warp, which it fetches together, since they lie far away.
/// @param threads  of a block, a multiple of 32
__device__ inline void apply_mask(const Mask& m, int threads) {
  const bool written = await_mask(m);
  const int lane = thread_index() % 32;
  const int warp = (block_index() * threads + thread_index()) / 32;
  const int words = (m.vocab + 31) / 32, own = 32 * warp + lane;
  const std::uint32_t fetched = written && own < words ? load_host(m.words + own) : 0U;
  const float never = -__int_as_float(0x7F800000);
#pragma unroll 8
  for (int j = 0; j < 32; ++j) {
    const std::uint32_t bits = __shfl_sync(~0U, fetched, j);
    const int token = 32 * (32 * warp + j) + lane;
    if (token < m.vocab) m.masked[token] = (bits >> lane & 1U) != 0 ? m.logits[token] : never;
  }
}

}  // namespace runnel::cuda
