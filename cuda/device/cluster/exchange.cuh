// SPDX-License-Identifier: Apache-2.0
// What the parts of the cluster kernel of cuda/step_cluster.h share: places in shared memory,
// shares of matrices, the exchange between blocks.
//
// An exchanged vector has one place in every block, at the same offset, and is written once
// per layer. A thread sends its value to all blocks that need it, its own too, and a block's barrier
// counts what it gets. All warps of a block read an exchange together before any of them sends what
// it made of it, or before it sends its own part. Every block's values are needed by the next
// exchange of x. So when a place is written again, every block has read it.
#pragma once

#include "cuda/device/async.cuh"
#include "cuda/device/step/exchange.cuh"
#include "cuda/device/step/fixed_unit.cuh"
#include "cuda/device/step/slots.cuh"
#include "cuda/step_cluster.h"

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

/// Waits until a barrier's phase of this parity is complete; false: it timed out.
__device__ __forceinline__ bool cluster_wait(const ClusterDecode& p, std::uint64_t* barrier,
                                             unsigned parity, unsigned where) {
  constexpr unsigned kPolls = 4096;
  unsigned polls = 0;
  bool passed, in_time = true;
#pragma unroll 1
  do {  // not `while`: the compiler would emit the poll twice
    passed = barrier_passed_within(barrier, parity, kPolls);
    if (!passed) {
      in_time = load_flag(p.timed_out) == 0;
      polls += kPolls;
      if (polls >= p.poll_limit) store_flag(p.timed_out, 0xC1000000U | where);
    }
  } while (!passed && in_time);
  return passed;
}

/// A block's share of matrix i.
__device__ __forceinline__ ClusterShare make_share(const ClusterDecode& p, int i, int block) {
  const ClusterMatrix& m = p.matrices[i];
  const int granules = m.rows / m.granule;
  const int first = granules * block / p.blocks * m.granule,
            last = granules * (block + 1) / p.blocks * m.granule;
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
  if (i == matrix_of(2)) s.from = first / 2, s.to = last / 2;  // gates and ups make one
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
  // Inputs are of a query head, for its block alone.
  int floats = lane == kInputs && rank >= p.heads ? 0 : p.exchange_floats[lane];
  if (p.fixed != 0) {
    using Split = ClusterSplit<DefaultClusterModel>;
    if (lane == kInputs) floats = Split::input_floats(rank);
    if (lane == kPiece) floats = Split::piece_floats(rank);
  }
  shared_at<unsigned>(p.shared.expected)[lane] = unsigned(floats) * 4;
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

/// Sends floats [from, to) of exchange `which`, which lie in their place, to the block with this
/// warp's number, if there is one. All warps of the block come here, after a barrier behind the last write.
__device__ __forceinline__ void send_part(const ClusterDecode& p, int which, int from, int to) {
  const int block = thread_index() >> 5;
  if (block >= p.blocks) return;
  const ClusterPeer peer = ClusterPeer::of(block);
  float* vector = exchanged(p, which);
  std::uint64_t* arrived = &cluster_barriers(p).arrived[which];
#pragma unroll 1
  for (int i = from + 4 * (thread_index() & 31); i < to; i += 128)
    peer.store(vector + i, *reinterpret_cast<const float4*>(vector + i), arrived);
}
static_assert(kClusterBlocks == kDecodeWarps);

/// Blocks that a warp sends to, one a lane.
struct ClusterGroup {
  ClusterPeer peer;
  bool takes_part;

  /// Blocks [first, first + count), at most 16.
  static __device__ __forceinline__ ClusterGroup of(int first, int count) {
    const int i = thread_index() & (kClusterBlocks - 1);
    return {ClusterPeer::of(first + min(i, count - 1)), i < count};
  }
};
static_assert(kClusterBlocks == 16);

/// Sends values [at, at + n) of exchange `which` to a group; n is 1, 2 or a multiple of 4. A warp
/// comes here together; value i is v of lane i << shift.
__device__ __forceinline__ void send_values(const ClusterDecode& p, const ClusterGroup& to,
                                            int which, int at, int n, float v, int shift) {
  const int upper = (thread_index() >> 4) & 1;  // half of the warp
  float* const place = exchanged(p, which) + at;
  std::uint64_t* const arrived = &cluster_barriers(p).arrived[which];
  if (n >= 4) {
#pragma unroll 1
    for (int i = 4 * upper; i - 4 * upper < n; i += 8) {
      float w[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) w[j] = __shfl_sync(~0U, v, ((i + j) << shift) & 31);
      if (to.takes_part && i < n)
        to.peer.store(place + i, make_float4(w[0], w[1], w[2], w[3]), arrived);
    }
  } else {
    const float second = __shfl_sync(~0U, v, (1 << shift) & 31);
    v = __shfl_sync(~0U, v, 0);
    if (!to.takes_part || upper != 0) return;
    if (n == 2) {
      to.peer.store(place, make_float2(v, second), arrived);
    } else {
      to.peer.store(place, v, arrived);
    }
  }
}

/// Rounds block `block` of an input, value i in lane i, and sends it to a group of up to 16.
template <int kColumns>
__device__ __forceinline__ void send_rounded(const ClusterDecode& p, const ClusterGroup& to,
                                             int which, int block, float v) {
  using Place = RoundedPlace<kColumns>;
  const int lane = thread_index() & 31, upper = lane >> 4;
  const float peak = __int_as_float(__reduce_max_sync(~0U, __float_as_int(fabsf(v))));
  const float inverse = peak > 0.0F ? __fdividef(127.0F, peak) : 0.0F;
  const int q = __float2int_rn(v * inverse);
  int packed = (q & 255) << (8 * (lane & 3));
  packed |= __shfl_xor_sync(~0U, packed, 1);
  packed |= __shfl_xor_sync(~0U, packed, 2);
  const unsigned low = __reduce_add_sync(~0U, upper == 0 ? unsigned(q) : 0U),
                 high = __reduce_add_sync(~0U, upper == 0 ? 0U : unsigned(q));
  float w[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) w[j] = __int_as_float(__shfl_sync(~0U, packed, (lane & 16) + 4 * j));
  if (!to.takes_part) return;
  unsigned char* const place = reinterpret_cast<unsigned char*>(exchanged(p, which));
  std::uint64_t* const arrived = &cluster_barriers(p).arrived[which];
  to.peer.store(reinterpret_cast<float*>(place + upper * Place::kHigh + block * 16),
                make_float4(w[0], w[1], w[2], w[3]), arrived);
  if (upper == 0)
    to.peer.store(
        reinterpret_cast<float*>(place + Place::kMeta + block * 8),
        make_float2(peak * (1.0F / 127.0F), __uint_as_float((low & 0xFFFFU) | high << 16)),
        arrived);
}

/// Sends n rows' sums from column `column` of the inputs on, those of row i in lane i << shift,
/// with their activations, to the blocks that need them; of gates decay and 1 - decay. `bias`: of
/// this lane's gate. A head's q, k, v and gates lie one after another.
template <int kShift>
__device__ __forceinline__ void send_inputs(const ClusterDecode& p, int column, int n, float v,
                                            int shift, float bias) {
  constexpr int kWidth = 4 << kShift;
  if (column < p.gates) {
    const int head = column / kWidth, kv = head - p.heads;  // of q, then of k, then of v
    const bool is_q = kv < 0, is_v = kv >= p.kv_heads;
    v = activate(is_v ? p.v_act : p.qk_act, v);
    const ClusterGroup to =
        is_q ? ClusterGroup::of(head, 1)
             : ClusterGroup::of((is_v ? kv - p.kv_heads : kv) * p.group, p.group);
    const int at = (is_q ? 0 : is_v ? 2 * kWidth : kWidth) + (column & (kWidth - 1));
    send_values(p, to, kInputs, at, n, v, shift);
    return;
  }
  const float2 gate = gate_of(v + bias, p.gate_normalizer, p.gate_log_min);
  const bool sends = (thread_index() >> 4 & 1) == 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    const float decay = __shfl_sync(~0U, gate.x, (i << shift) & 31),
                write = __shfl_sync(~0U, gate.y, (i << shift) & 31);
    const int row = column + i - p.gates;
    const int kv = int((static_cast<float>(row) + 0.5F) * p.heads_a_gate);
    const ClusterGroup to = ClusterGroup::of(kv * p.group, p.group);
    if (sends && to.takes_part)
      to.peer.store(exchanged(p, kInputs) + 3 * kWidth + 2 * (row - kv * p.memory),
                    make_float2(decay, write), &cluster_barriers(p).arrived[kInputs]);
  }
}

}  // namespace runnel::cuda
