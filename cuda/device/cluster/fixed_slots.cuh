// SPDX-License-Identifier: Apache-2.0
// The slots of a model whose shape is known at compile time, in the cluster kernel. Four blocks share a kv head,
// each has a quarter of its slots, a thread four channels of one: it updates them once and reads
// them for every query of the group. What the blocks have read is joined in pieces of 32 channels,
// by one of the four, which rounds the piece and sends it to all blocks.
#pragma once

#include "cuda/device/cluster/exchange.cuh"
#include "cuda/device/step/slots.cuh"

namespace runnel::cuda {

template <class M>
struct FixedSlots {
  using Split = ClusterSplit<M>;
  static constexpr int kLanes = M::kWidth / 4, kGroup = Split::kGroup;
  static constexpr int kPositional = M::kSinks + M::kWindow;
  static constexpr int kReads = kGroup * M::kWidth;  // floats of a block's reads
  static constexpr int kPieces = Split::kPieces, kPiecesAHead = M::kWidth / 32;
  static_assert(kLanes == 16 && kGroup == 3, "what halves of a warp trade");
  static_assert(Split::kSlots * kLanes == kClusterThreads);
  static_assert(kPositional % Split::kSlots == 0, "a block's slots are of one kind");
  static_assert(kPieces <= kDecodeWarps - 2 && kPieces <= 2 * Split::kBlocks);

  const ClusterDecode& p;
  const ClusterToken& token;
  const int kv_head, part;  // of this block; kv_head < 0: none
  float4 k = {}, v = {};
  float bias = 0.0F, own[kGroup] = {};

  __device__ __forceinline__ FixedSlots(const ClusterDecode& program, const ClusterToken& about,
                                        int rank)
      : p(program),
        token(about),
        kv_head(rank < Split::kBlocks * M::kKvHeads ? rank / Split::kBlocks : -1),
        part(rank % Split::kBlocks) {}

  __device__ __forceinline__ bool some() const { return kv_head >= 0; }
  __device__ __forceinline__ bool gated() const { return part * Split::kSlots >= kPositional; }
  static __device__ __forceinline__ int slot() { return thread_index() / kLanes; }
  static __device__ __forceinline__ int column() { return thread_index() % kLanes * 4; }
  /// This block's keys; values lie kValues behind.
  static constexpr int kValues = (kPositional + M::kMemory) * M::kWidth;
  __device__ __forceinline__ std::size_t place(int layer) const {
    return std::size_t(unsigned(layer)) * p.layer_floats +
           unsigned(kv_head * (2 * kValues) + part * (Split::kSlots * M::kWidth));
  }

  /// What does not depend on the token's q, k, v.
  __device__ __forceinline__ void load(const ClusterLayer& w, int layer) {
    const float* keys = token.segment.state_in + place(layer) + 4 * thread_index();
    k = load_vector(keys), v = load_vector(keys + kValues);
    bias = 0.0F;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) own[i] = 0.0F;
    if (!gated()) return;
    if (w.read_bias != nullptr)
      bias = w.read_bias[kv_head * M::kMemory + part * Split::kSlots - kPositional + slot()];
    if (w.head_read_bias != nullptr) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) own[i] = w.head_read_bias[kv_head * kGroup + i];
    }
  }
  __device__ __forceinline__ void store(int layer) const {
    float* keys = token.segment.state_out + place(layer) + 4 * thread_index();
    store_vector(keys, k), store_vector(keys + kValues, v);
  }
  /// To L2, ahead of load().
  __device__ __forceinline__ void ask(int layer) const {
    const float* keys = token.segment.state_in + place(layer);
    bulk_prefetch(keys, unsigned(Split::kSlots * M::kWidth * 4));
    bulk_prefetch(keys + kValues, unsigned(Split::kSlots * M::kWidth * 4));
  }

  static __device__ __forceinline__ float4 vector(const float* from) {
    return *reinterpret_cast<const float4*>(from);
  }
  /// x, whose channels `own` on are this thread's, turned.
  static __device__ __forceinline__ float4 turned(const float* x, float4 cos, float4 sin) {
    const float4 a = vector(x + column()), b = vector(x + (column() ^ (M::kWidth / 2)));
    const float s = column() < M::kWidth / 2 ? -1.0F : 1.0F;
    return make_float4(fmaf(a.x, cos.x, b.x * (s * sin.x)), fmaf(a.y, cos.y, b.y * (s * sin.y)),
                       fmaf(a.z, cos.z, b.z * (s * sin.z)), fmaf(a.w, cos.w, b.w * (s * sin.w)));
  }

  /// K~ and V~ of the token, and this warp's two slots read for every query, to shared memory.
  __device__ __forceinline__ void read() {
    const int lane = thread_index() & 31, warp = thread_index() >> 5;
    const float* inputs = exchanged(p, kInputs);
    float4 q[kGroup];
    const float4 v0 = vector(inputs + Split::kValue + column());
    float offset[kGroup];
    if (gated()) {
      const float2 gate = *reinterpret_cast<const float2*>(inputs + Split::kGate + 2 * slot());
      k = plus_scaled(scaled(k, gate.x), vector(inputs + Split::kKey + column()), gate.y);
      v = plus_scaled(scaled(v, gate.x), v0, gate.y);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        q[i] = vector(inputs + i * M::kWidth + column());
        offset[i] = bias + own[i];
      }
    } else {
      const int s = part * Split::kSlots + slot();
      const float* rotation =
          shared_at<const float>(p.shared.rotation) + column() % (M::kWidth / 2);
      if (s == token.target) {
        k = turned(inputs + Split::kKey, vector(rotation), vector(rotation + M::kWidth / 2));
        v = v0;
      }
      if (s < M::kSinks) rotation += M::kWidth;  // never farther than the sinks' distance
      const float4 cos = vector(rotation), sin = vector(rotation + M::kWidth / 2);
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        q[i] = turned(inputs + i * M::kWidth, cos, sin);
        offset[i] = s < token.written ? 0.0F : -1e30F;  // not written yet
      }
    }
    // Lanes trade the sums of four values, of which the last is none: lane l has query l % 4's.
    float logit[4] = {};
#pragma unroll
    for (int i = 0; i < kGroup; ++i) logit[i] = dot_vectors(k, q[i], 0.0F);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float theirs = (lane & 2) != 0 ? logit[i] : logit[i + 2];
      logit[i] = ((lane & 2) != 0 ? logit[i + 2] : logit[i]) + __shfl_xor_sync(~0U, theirs, 2);
    }
    const float theirs = (lane & 1) != 0 ? logit[0] : logit[1];
    float mine = ((lane & 1) != 0 ? logit[1] : logit[0]) + __shfl_xor_sync(~0U, theirs, 1);
#pragma unroll
    for (int o = 4; o < kLanes; o <<= 1) mine += __shfl_xor_sync(~0U, mine, o);
    const int query = lane & 3;
    mine = fmaf(mine, p.scale, query == 0 ? offset[0] : query == 1 ? offset[1] : offset[2]);
    const float peak = fmaxf(mine, __shfl_xor_sync(~0U, mine, kLanes));
    mine = mine > -1e29F ? __expf(mine - peak) : 0.0F;
    const float total = mine + __shfl_xor_sync(~0U, mine, kLanes);
    if (lane < kGroup)
      shared_at<float2>(p.shared.about)[lane * kDecodeWarps + warp] = make_float2(peak, total);
    float e[kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) e[i] = __shfl_sync(~0U, mine, (lane & ~3) | i);
    // A half of the warp sums the first six of twelve values, the other one the last.
    float sums[4 * kGroup];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      sums[4 * i] = v.x * e[i], sums[4 * i + 1] = v.y * e[i];
      sums[4 * i + 2] = v.z * e[i], sums[4 * i + 3] = v.w * e[i];
    }
    const bool upper = lane >= kLanes;
    float half[6];
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      const float other = upper ? sums[i] : sums[i + 6], ours = upper ? sums[i + 6] : sums[i];
      half[i] = ours + __shfl_xor_sync(~0U, other, kLanes);
    }
    float* const parts = shared_at<float>(p.shared.parts) + warp * kReads + column();
    if (upper) {
      *reinterpret_cast<float2*>(parts + M::kWidth + 2) = make_float2(half[0], half[1]);
      *reinterpret_cast<float4*>(parts + 2 * M::kWidth) =
          make_float4(half[2], half[3], half[4], half[5]);
    } else {
      *reinterpret_cast<float4*>(parts) = make_float4(half[0], half[1], half[2], half[3]);
      *reinterpret_cast<float2*>(parts + M::kWidth) = make_float2(half[4], half[5]);
    }
  }

  /// After a barrier: joins what the warps have read, a piece a warp, and sends it to the block
  /// that joins the pieces; two more warps do that.
  __device__ __forceinline__ void join(const ClusterGroup& all_blocks, unsigned parity) const {
    const int lane = thread_index() & 31, warp = thread_index() >> 5;
    float* const pieces = exchanged(p, kPiece);
    std::uint64_t* const arrived = &cluster_barriers(p).arrived[kPiece];
    if (warp < kPieces) {
      const float* from = shared_at<const float>(p.shared.parts) + warp * 32 + lane;
      const float2 about = shared_at<const float2>(
          p.shared.about)[warp / kPiecesAHead * kDecodeWarps + (lane & (kDecodeWarps - 1))];
      float read[kDecodeWarps];
#pragma unroll
      for (int i = 0; i < kDecodeWarps; ++i) read[i] = from[i * kReads];
      const float peak = ordered_float(__reduce_max_sync(~0U, ordered_int(about.x)));
      const float weight = __expf(about.x - peak);
      float total = weight * about.y, sum = 0.0F;
#pragma unroll
      for (int i = 0; i < kDecodeWarps; ++i) sum = fmaf(__shfl_sync(~0U, weight, i), read[i], sum);
#pragma unroll
      for (int o = 1; o < kDecodeWarps; o <<= 1) total += __shfl_xor_sync(~0U, total, o);
      const ClusterPeer peer = ClusterPeer::of(kv_head * Split::kBlocks + warp % Split::kBlocks);
      float* const to = pieces + (warp / Split::kBlocks * Split::kBlocks + part) * kClusterPiece;
      peer.store(to + lane, sum, arrived);
      if (lane == 0) peer.store(to + 32, make_float2(peak, total), arrived);
      return;
    }
    const int piece = part + (warp - kPieces) * Split::kBlocks;  // of this block
    if (warp >= kPieces + 2 || piece >= kPieces) return;
    wait_barrier_or(arrived, parity, shared_at<std::uint32_t>(p.shared.given_up));
    const float* from = pieces + (warp - kPieces) * Split::kBlocks * kClusterPiece;
    float2 about[Split::kBlocks];
    float peak = -1e30F, total = 0.0F, sum = 0.0F;
#pragma unroll
    for (int i = 0; i < Split::kBlocks; ++i) {
      about[i] = *reinterpret_cast<const float2*>(from + i * kClusterPiece + 32);
      peak = fmaxf(peak, about[i].x);
    }
#pragma unroll
    for (int i = 0; i < Split::kBlocks; ++i) {
      const float weight = __expf(about[i].x - peak);
      total = fmaf(about[i].y, weight, total);
      sum = fmaf(from[i * kClusterPiece + lane], weight, sum);
    }
    send_rounded<M::kHeads * M::kWidth>(p, all_blocks, kRead, kv_head * kPieces + piece,
                                        __fdividef(sum, total));
  }
};

}  // namespace runnel::cuda
