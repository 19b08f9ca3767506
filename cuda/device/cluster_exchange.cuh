// SPDX-License-Identifier: Apache-2.0
// What the parts of the cluster kernel of cuda/decode_cluster.h share: places in shared memory,
// shares of matrices, the exchange between blocks.
//
// An exchanged vector has one place in every block, at the same offset, and is written once a
// layer. A block sends its part when all of its warps have made theirs, which is after all of them
// have read what it depends on; every block's part is needed by the next exchange of x. So whoever
// writes a place again knows that everybody has read it.
#pragma once

#include "cuda/decode_cluster.h"
#include "cuda/device/async.cuh"
#include "cuda/device/decode_exchange.cuh"

namespace runnel::cuda {

struct ClusterBarriers {
  std::uint64_t full[kClusterMatrices];  // a layer's matrix is there
  std::uint64_t arrived[kClusterExchanges];
};
__device__ __forceinline__ ClusterBarriers& cluster_barriers(const ClusterDecode& p) {
  return *shared_at<ClusterBarriers>(p.shared.barriers);
}
__device__ __forceinline__ const ClusterLayer& cluster_layer(const ClusterDecode& p, int layer) {
  return shared_at<const ClusterLayer>(p.shared.layers)[layer];
}
__device__ __forceinline__ const ClusterShare& cluster_share(const ClusterDecode& p, int matrix) {
  return shared_at<const ClusterShare>(p.shared.shares)[matrix];
}
__device__ __forceinline__ float* exchanged(const ClusterDecode& p, int which) {
  return shared_at<float>(p.shared.exchanged) + p.exchange_at[which];
}

/// Waits until a barrier's phase of this parity is complete, or there is no hope.
__device__ __forceinline__ void cluster_wait(const ClusterDecode& p, std::uint64_t* barrier,
                                             unsigned parity, unsigned where) {
  unsigned asked = 0;
#pragma unroll 1
  while (!barrier_passed(barrier, parity)) {
    if ((++asked & 4095U) != 0) continue;
    if (load_flag(p.trouble) != 0) return;
    if (asked >= p.patience) store_flag(p.trouble, 0xC1000000U | where);
  }
}

/// Where a column of the inputs is exchanged: gates are two numbers each.
__device__ __forceinline__ int input_place(const ClusterDecode& p, int column) {
  return column + max(0, column - p.gates);
}

/// A block's share of matrix i.
__device__ __forceinline__ ClusterShare make_share(const ClusterDecode& p, int i, int block) {
  const ClusterMatrix& m = p.matrices[i];
  const int granules = m.rows / m.granule;
  const int first = granules * block / kClusterBlocks * m.granule,
            last = granules * (block + 1) / kClusterBlocks * m.granule;
  ClusterShare s;
#pragma unroll
  for (int part = 0; part < kClusterParts; ++part) {
    s.at[part] = m.at[part];
    if (m.row_bytes[part] > 0) s.bytes[part] = (last - first) * m.row_bytes[part];
  }
  s.units = (last - first) >> m.sub_shift, s.steps = m.steps;
  const int groups_shift = m.row_shift - m.sub_shift;
  s.rounds = (m.steps + (1 << groups_shift) - 1) >> groups_shift;
  s.lane_shift = m.lane_shift, s.sub_shift = m.sub_shift;
  s.column = m.column + first;
  s.from = first, s.to = last;
  if (i <= kPlainMatrix) {
    s.from = input_place(p, m.column + first), s.to = input_place(p, m.column + last);
  } else if (i == matrix_of(2)) {  // gates and ups make one
    s.from = first / 2, s.to = last / 2;
  }
  return s;
}

/// Makes the table of shares and of what is expected; by one warp.
__device__ __forceinline__ void make_shares(const ClusterDecode& p, int rank) {
  const int lane = thread_index() & 31;
  ClusterShare* const shares = shared_at<ClusterShare>(p.shared.shares);
  if (lane < kClusterMatrices && p.matrices[lane].rows > 0)
    shares[lane] = make_share(p, lane, rank);
  if (lane < kClusterMatrices && p.matrices[lane].rows == 0) shares[lane] = ClusterShare{};
  sync_warp();
  if (lane >= kClusterExchanges) return;
  const auto own = [&](int i) { return shares[i].to - shares[i].from; };
  const int mine = lane == kInputs ? own(0) + own(kPlainMatrix)
                   : lane == kRead ? (rank < p.heads ? p.k_dim : 0)
                                   : own(lane);
  shared_at<unsigned>(p.shared.expected)[lane] = unsigned(p.exchange_floats[lane] - mine) * 4;
}
static_assert(kMixed == matrix_of(1) && kHidden == matrix_of(2) && kOutput == matrix_of(3));

/// Prepares for the next time an exchange is received; by one thread.
__device__ __forceinline__ void expect_exchange(const ClusterDecode& p, int which) {
  barrier_expect(&cluster_barriers(p).arrived[which],
                 shared_at<const unsigned>(p.shared.expected)[which]);
}
/// Waits for what the others send. A warp that has little to do prepares for the next time.
__device__ __forceinline__ void take_exchange(const ClusterDecode& p, int which, unsigned parity) {
  cluster_wait(p, &cluster_barriers(p).arrived[which], parity, unsigned(which));
  if (thread_index() == kClusterThreads - 1) expect_exchange(p, which);
}

/// Sends floats [from, to) of exchange `which` to the block with this warp's number. All warps of
/// the block come here, after a barrier behind the last write.
__device__ __forceinline__ void send_part(const ClusterDecode& p, const ClusterPeer& peer,
                                          int which, int from, int to, int rank) {
  if (thread_index() >> 5 == rank) return;
  const float* vector = exchanged(p, which);
  std::uint64_t* arrived = &cluster_barriers(p).arrived[which];
#pragma unroll 1
  for (int i = from + 4 * (thread_index() & 31); i < to; i += 128) peer.store(vector + i, arrived);
}
static_assert(kClusterBlocks == kDecodeWarps);

}  // namespace runnel::cuda
