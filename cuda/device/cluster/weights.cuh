// SPDX-License-Identifier: Apache-2.0
// What the cluster kernel's blocks bring from memory: matrices to their places, the rest to L2.
#pragma once

#include <cstddef>

#include "cuda/device/cluster/exchange.cuh"
#include "cuda/device/step/ring.cuh"

namespace runnel::cuda {

/// Brings this block's rows of a layer's matrices of one phase, when the last ones are used: a lane
/// of this warp each part.
__device__ __forceinline__ void bring_matrices(const ClusterDecode& p, int layer, int phase) {
  const int lane = thread_index() & 31, matrices = phase == 0 ? 2 : 1;
  if (lane >= kClusterParts * matrices) return;
  const int part = lane < kClusterParts ? lane : lane - kClusterParts;
  const int matrix = matrix_of(phase) + (lane < kClusterParts ? 0 : kPlainMatrix);
  const ClusterShare& s = cluster_share(p, matrix);
  const int bytes = s.bytes[part];
  if (bytes < 0) return;
  std::uint64_t* const full = &cluster_barriers(p).full[matrix];
  barrier_expect(full, unsigned(bytes));
  if (bytes > 0)
    bulk_copy(shared_memory() + s.at[part], cluster_layer(p, layer).parts[part][matrix],
              unsigned(bytes), full, policy_leave_first());
}

/// What else a layer reads of memory, to L2: slots, and by one of the blocks vectors.
__device__ __forceinline__ void ask_for_slots(const ClusterDecode& p, const ClusterToken& token,
                                              int layer) {
  if (token.query >= 0 && token.query == token.kv_head * p.group) {
    const float* keys = token.segment.state_in + std::size_t(layer) * p.layer_floats +
                        std::size_t(token.kv_head) * p.head_floats;
    bulk_prefetch(keys, unsigned((p.sinks + p.window + p.memory) * p.k_dim) * 8);
  }
}
/// A lane of a warp each.
__device__ __forceinline__ void ask_for_vectors(const ClusterDecode& p, int layer, int rank,
                                                int lane) {
  if (layer % p.blocks != rank || lane >= 6) return;
  const ClusterLayer& w = cluster_layer(p, layer);
  static_assert(offsetof(ClusterLayer, head_read_bias) ==
                offsetof(ClusterLayer, norms) + 5 * sizeof(const float*));
  prefetch_vector(reinterpret_cast<const float* const*>(w.norms)[lane],
                  lane < 3   ? (lane == 1 ? p.heads * p.k_dim : p.d)
                  : lane < 5 ? p.kv_heads * p.memory
                             : p.heads);
}

}  // namespace runnel::cuda
