// SPDX-License-Identifier: Apache-2.0
// The layers of a model whose shape is fixed at compile time, in the cluster kernel of cuda/step_cluster.h.
// Phases and places are those of cluster/layers.cuh. Different is:
//   - a thread that multiplies has its weights unpacked in registers, and every address, before the input
//     comes;
//   - the mixer's output and the SwiGLU's are rounded by their senders, 40 bytes instead of 128 per
//     block of 32, so that no product waits for a barrier;
//   - a warp waits for what it needs itself; warp 15 prepares barriers and brings matrices.
#pragma once

#include "cuda/device/cluster/exchange.cuh"
#include "cuda/device/cluster/fixed_slots.cuh"
#include "cuda/device/cluster/weights.cuh"
#include "cuda/device/step/fixed_unit.cuh"
#include "cuda/device/step/inputs.cuh"
#include "cuda/device/step/token.cuh"

namespace runnel::cuda {

/// Half a warp's row of a matrix of f16 with kColumns columns.
template <int kColumns>
struct FixedPlainRow {
  static constexpr int kChunks = kColumns * 2 / 16, kRounds = (kChunks + 15) / 16;
  const int lane;  // of half a warp
  float w[kRounds][8];

  __device__ __forceinline__ int chunk(int round) const { return lane + 16 * round; }
  __device__ __forceinline__ void begin(const ClusterMatrix& m, int row) {
    const auto* from = reinterpret_cast<const uint4*>(shared_memory() + m.at[0]) + row * kChunks;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const uint4 q = from[min(chunk(i), kChunks - 1)];
      const std::uint32_t words[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 pair = f16_pair(words[j]);
        // Opaque: else they are made when they are needed.
        w[i][2 * j] = __int_as_float(opaque(__float_as_int(pair.x)));
        w[i][2 * j + 1] = __int_as_float(opaque(__float_as_int(pair.y)));
      }
    }
  }
  __device__ __forceinline__ float multiply(const SharedInput& x) const {
    float sums[kRounds], acc = 0.0F;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const PlainInput in = load_plain(x, chunk(i), chunk(i) < kChunks);
      sums[i] = dot4(in.b, w[i][4], w[i][5], w[i][6], w[i][7],
                     dot4(in.a, w[i][0], w[i][1], w[i][2], w[i][3], 0.0F));
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) acc += sums[i];
#pragma unroll
    for (int o = 1; o < 16; o <<= 1) acc += __shfl_xor_sync(~0U, acc, o);
    return acc;
  }
};

/// Sends the sums of a unit's rows, kCount of them, row i in lane i << kShift, to a group.
template <int kCount, int kShift>
__device__ __forceinline__ void send_fours(int lane, const ClusterGroup& to, float* place,
                                           std::uint64_t* arrived, float v) {
  static_assert(kCount == 4 || kCount == 8);
  const int first = kCount == 8 ? (lane >> 4) * 4 : 0;
  float w[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) w[j] = __shfl_sync(~0U, v, (first + j) << kShift);
  if (to.takes_part && (kCount == 8 || lane < 16))
    to.peer.store(place + first, make_float4(w[0], w[1], w[2], w[3]), arrived);
}

/// Clocks of one thread, in the kernel that has them: marks are 3 KB of instructions.
template <class M>
struct FixedTrace {
  Trace trace;
  __device__ __forceinline__ void mark() {
    if constexpr (M::kTraced) trace.mark();
  }
};

/// A thread's way through the layers.
template <BlockType kType, class M>
struct FixedLayers {
  static constexpr int kRowsOfInputs = (M::kHeads + 2 * M::kKvHeads) * M::kWidth;
  static constexpr int kGates = M::kKvHeads * M::kMemory;
  using Split = ClusterSplit<M>;
  static constexpr int kVectors = M::kWide / 4, kRoundingWarps = (kVectors + 31) / 32;
  static constexpr int kHidden32 = M::kInner / 32 / kClusterBlocks;  // blocks of 32 of this block
  static constexpr int kServant = kDecodeWarps - 1;
  static constexpr int kFirstGates = kClusterUnitWarps;
  static constexpr int kMixedRead = M::kHeads * M::kWidth;
  static_assert(M::kHeads * M::kWidth == M::kWide && kMixedRead % 32 == 0);
  static_assert(M::kInner % (32 * kClusterBlocks) == 0);

  using Inputs = FixedUnit<kType, M::kWide, 8, 5>;
  using Output = FixedUnit<kType, kMixedRead, 4, 3>;
  using GateUp = FixedUnit<kType, M::kWide, 16, 3>;
  using Down = FixedUnit<kType, M::kInner, 4, 6>;

  const ClusterDecode& p;
  const ClusterToken& token;
  ClusterBarriers& barriers;
  const int rank, warp;
  int tid;  // made opaque once a phase: else addresses of all phases are kept in registers

  __device__ __forceinline__ int lane() const { return tid & 31; }

  /// The first of a block's rows of a matrix of kRows.
  template <int kRows, int kGranule>
  static __device__ __forceinline__ int first_row(int block) {
    return kRows / kGranule * block / kClusterBlocks * kGranule;
  }

  __device__ __forceinline__ float* squares(int set) const {
    return shared_at<float>(p.shared.squares + set * p.shared.set);
  }
  __device__ __forceinline__ unsigned char* rounded(int set) const {
    return shared_at<unsigned char>(p.shared.rounded + set * p.shared.set);
  }
  __device__ __forceinline__ SharedInput places(int set) const {
    unsigned char* x = rounded(set);
    using Place = RoundedPlace<M::kWide>;
    float4* plain = shared_at<float4>(p.shared.plain + set * p.shared.set);
    return {reinterpret_cast<int4*>(x), reinterpret_cast<int4*>(x + Place::kHigh),
            reinterpret_cast<int2*>(x + Place::kMeta), plain, plain + M::kWide / 8};
  }
  __device__ __forceinline__ float4 norm_weight(const float* norm) const {
    float4 weight = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
    if (norm != nullptr && tid < kVectors) weight = reinterpret_cast<const float4*>(norm)[tid];
    return weight;
  }
  /// x, which has arrived, times the norm's weight, by the first warps.
  template <bool kPlainToo>
  __device__ __forceinline__ void round(int set, const float* from, float4 weight) const {
    float4 v[1] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F)};
    if (tid < kVectors) v[0] = reinterpret_cast<const float4*>(from)[tid];
    float squared = sum_squares(v[0], 0.0F);
    v[0] = times(v[0], weight);
    keep_input<1>(places(set), true, kPlainToo, tid, kVectors, v, &squared);
    if (lane() == 0) squares(set)[warp] = squared;
  }
  /// 1 / RMS of it.
  __device__ __forceinline__ float factor(int set) const {
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kRoundingWarps; ++i) sum += squares(set)[i];
    return rsqrtf(fmaf(sum, 1.0F / static_cast<float>(M::kWide), p.norm_eps));
  }
  /// A thread that waits for something is released when the last warp, which waits for every exchange, has
  /// timed out: few instructions, since there are many waits.
  __device__ __forceinline__ void wait_matrix(int matrix, unsigned parity) const {
    wait_barrier_or(&barriers.full[matrix], parity, given_up());
  }
  __device__ __forceinline__ void wait_exchange(int which, unsigned parity) const {
    wait_barrier_or(&barriers.arrived[which], parity, given_up());
  }
  __device__ __forceinline__ std::uint32_t* given_up() const {
    return shared_at<std::uint32_t>(p.shared.given_up);
  }
  /// The last warp waits too, and prepares for the next time.
  __device__ __forceinline__ void prepare_exchange(int which, unsigned parity) const {
    if (!cluster_wait(p, &barriers.arrived[which], parity, unsigned(which)))
      show_word(given_up(), 1);
    if (lane() == 31) expect_exchange(p, which);
  }

  /// q, k, v: a unit is 8 rows of one head.
  __device__ __forceinline__ void send_qkv(int column, float v) const {
    const int head = column / M::kWidth, kv = head - M::kHeads;  // of q, then of k, then of v
    const bool is_q = kv < 0, is_v = kv >= M::kKvHeads;
    const int to = is_q ? head / Split::kGroup : is_v ? kv - M::kKvHeads : kv;
    const int place = is_q ? head % Split::kGroup * M::kWidth : is_v ? Split::kValue : Split::kKey;
    send_fours<8, Inputs::kLaneShift>(lane(), ClusterGroup::of(to * Split::kBlocks, Split::kBlocks),
                                      exchanged(p, kInputs) + place + column % M::kWidth,
                                      &barriers.arrived[kInputs], v);
  }
  /// A gate's decay and 1 - decay, which half a warp has, to the block with its slot.
  __device__ __forceinline__ void send_gate(int row, float v) const {
    const float2 gate = gate_of(v, p.gate_normalizer, p.gate_log_min);
    const int slot = M::kSinks + M::kWindow + row % M::kMemory;
    const ClusterPeer to =
        ClusterPeer::of(row / M::kMemory * Split::kBlocks + slot / Split::kSlots);
    if ((tid & 15) == 0)
      to.store(exchanged(p, kInputs) + Split::kGate + 2 * (slot % Split::kSlots), gate,
               &barriers.arrived[kInputs]);
  }

  /// q, k, v, f.
  __device__ __forceinline__ void inputs(const ClusterLayer& w, int layer, unsigned parity,
                                         FixedTrace<M>& trace) const {
    const int first = first_row<kRowsOfInputs, 16>(rank),
              units = (first_row<kRowsOfInputs, 16>(rank + 1) - first) / 8;
    if (warp < kFirstGates) {
      const float4 weight = norm_weight(w.norms[0]);
      Inputs unit{lane()};
      wait_matrix(0, parity);
      unit.begin(p.matrices[0], min(warp, units - 1));
      if (warp < kRoundingWarps) {
        if (layer > 0) wait_exchange(kOutput, parity ^ 1U);
        round<true>(0, exchanged(p, kOutput), weight);
      }
      trace.mark();
      sync_first<kClusterThreads>();
      trace.mark();
      if (warp < units) send_qkv(first + warp * 8, unit.multiply(rounded(0)) * factor(0));
      trace.mark();
    } else {
      constexpr int kRows = kGates / kClusterBlocks;
      const int mine = 2 * (warp - kFirstGates) + (tid >> 4 & 1), row = rank * kRows + mine;
      const bool has = 2 * (warp - kFirstGates) < kRows;
      FixedPlainRow<M::kWide> gate{tid & 15};
      float bias = 0.0F;
      if (has) {
        if (w.f_bias != nullptr) bias = w.f_bias[row];
        wait_matrix(kPlainMatrix, parity);
        gate.begin(p.matrices[kPlainMatrix], mine);
      }
      if (warp == kServant && layer > 0) prepare_exchange(kOutput, parity ^ 1U);
      sync_first<kClusterThreads>();
      if (has) send_gate(row, fmaf(gate.multiply(places(0)), factor(0), bias));
    }
    static_assert(kGates % (2 * kClusterBlocks) == 0);
    static_assert(kGates / kClusterBlocks / 2 <= kServant - kFirstGates);
  }

  __device__ __forceinline__ void output(const FixedSlots<M>& slots, int layer, unsigned parity,
                                         FixedTrace<M>& trace,
                                         const ClusterGroup& all_blocks) const {
    const int first = first_row<M::kWide, 16>(rank),
              units = (first_row<M::kWide, 16>(rank + 1) - first) / 4;
    static_assert((M::kWide / 16 + kClusterBlocks - 1) / kClusterBlocks * 4 <= kServant);
    if (warp < units) {
      Output unit{lane()};
      wait_matrix(matrix_of(1), parity);
      unit.begin(p.matrices[matrix_of(1)], warp);
      const int row = first + warp * 4;
      const float before = exchanged(p, kOutput)[row + unit.row()];
      wait_exchange(kRead, parity);
      trace.mark();
      trace.mark();
      const float v = unit.multiply(reinterpret_cast<unsigned char*>(exchanged(p, kRead)));
      send_fours<4, Output::kLaneShift>(lane(), all_blocks, exchanged(p, kMixed) + row,
                                        &barriers.arrived[kMixed], v + before);
      trace.mark();
    } else if (warp == kServant) {
      if (layer > 0) bring_matrices(p, layer, 3);  // every block has left it
#pragma unroll 1
      for (int which = slots.some() ? kPiece : kRead; which >= kRead; which -= kPiece - kRead)
        prepare_exchange(which, parity);
      if (layer + 1 < p.num_layers) {
        ask_for_vectors(p, layer + 1, rank, lane());
        if (slots.some() && lane() == 31) slots.ask(layer + 1);
      }
    }
  }

  __device__ __forceinline__ void gate_up(const ClusterLayer& w, int layer, unsigned parity,
                                          FixedTrace<M>& trace,
                                          const ClusterGroup& all_blocks) const {
    constexpr int kUnits = 2 * M::kInner / kClusterBlocks / 16;
    static_assert(kUnits >= kRoundingWarps && kUnits + kHidden32 <= kServant);
    float* const staged = shared_at<float>(p.shared.parts);
    const bool more = layer + 1 < p.num_layers;
    if (warp < kUnits) {
      const float4 weight = norm_weight(w.norms[2]);
      GateUp unit{lane()};
      wait_matrix(matrix_of(2), parity);
      unit.begin(p.matrices[matrix_of(2)], warp);
      if (warp < kRoundingWarps) {
        wait_exchange(kMixed, parity);
        round<false>(1, exchanged(p, kMixed), weight);
      }
      trace.mark();
      sync_first<kClusterThreads>();
      trace.mark();
      const float v = unit.multiply(rounded(1)) * factor(1);
      const float up = __shfl_xor_sync(~0U, v, 1 << GateUp::kLaneShift);  // they alternate
      if (unit.shows() && (unit.row() & 1) == 0)
        staged[warp * 8 + (unit.row() >> 1)] = swish(v) * up;
      trace.mark();
      sync_first<kClusterThreads>();
    } else {
      if (warp == kServant) prepare_exchange(kMixed, parity);
      sync_first<kClusterThreads>();
      if (warp == kServant && more) {  // every block has left these
#pragma unroll 1
        for (int phase = 0; phase < 2; ++phase) bring_matrices(p, layer + 1, phase);
      }
      sync_first<kClusterThreads>();
      if (warp < kUnits + kHidden32)
        send_rounded<M::kInner>(p, all_blocks, kHidden, rank * kHidden32 + warp - kUnits,
                                staged[(warp - kUnits) * 32 + lane()]);
      if (warp == kServant && more) bring_matrices(p, layer + 1, 2);
    }
  }

  __device__ __forceinline__ void down(bool last, unsigned parity, FixedTrace<M>& trace,
                                       const ClusterGroup& all_blocks) const {
    constexpr int kUnits = M::kWide / kClusterBlocks / 4;
    static_assert(kUnits * kClusterBlocks * 4 == M::kWide && kUnits <= kServant);
    if (warp < kUnits) {
      Down unit{lane()};
      wait_matrix(matrix_of(3), parity);
      unit.begin(p.matrices[matrix_of(3)], warp);
      const int row = rank * (kUnits * 4) + warp * 4;
      const float before = exchanged(p, kMixed)[row + unit.row()];
      wait_exchange(kHidden, parity);
      trace.mark();
      trace.mark();
      const float v =
          unit.multiply(reinterpret_cast<unsigned char*>(exchanged(p, kHidden))) + before;
      if (!last) {
        send_fours<4, Down::kLaneShift>(lane(), all_blocks, exchanged(p, kOutput) + row,
                                        &barriers.arrived[kOutput], v);
      } else if (unit.shows()) {  // the head's blocks take it from L2
        store_exchanged(p.last + row + unit.row(), marked(v, p.last_bit));
      }
      trace.mark();
    } else if (warp == kServant) {
      prepare_exchange(kHidden, parity);
    }
  }

  __device__ __forceinline__ void walk(Trace traced) {
    FixedTrace<M> trace{traced};
    const ClusterGroup all_blocks = ClusterGroup::of(0, kClusterBlocks);
    FixedSlots<M> slots(p, token, rank);
    if (slots.some()) slots.load(cluster_layer(p, 0), 0);
#pragma unroll 1
    for (int layer = 0; layer < p.num_layers; ++layer) {
      const ClusterLayer& w = cluster_layer(p, layer);
      const unsigned parity = unsigned(layer) & 1U;
      const bool last = layer + 1 == p.num_layers;
      tid = opaque(tid);
      inputs(w, layer, parity, trace);
      trace.mark();
      if (slots.some()) {
        if (warp == kServant) {
          prepare_exchange(kInputs, parity);
        } else {
          wait_exchange(kInputs, parity);
        }
        slots.read();
        sync_first<kClusterThreads>();
        slots.join(all_blocks, parity);
      }
      trace.mark();
      tid = opaque(tid);
      output(slots, layer, parity, trace, all_blocks);
      trace.mark();
      tid = opaque(tid);
      gate_up(w, layer, parity, trace, all_blocks);
      trace.mark();
      tid = opaque(tid);
      down(last, parity, trace, all_blocks);
      if (slots.some()) {  // now, since there is nothing to do until x is there
        slots.store(layer);
        if (!last) slots.load(cluster_layer(p, layer + 1), layer + 1);
      }
      trace.mark();
    }
  }
};

}  // namespace runnel::cuda
