// SPDX-License-Identifier: Apache-2.0
// The cluster kernel of cuda/step_cluster.h. Phases of a layer, each ends in an exchange:
//   0  q, k, v, f   RMSNorm x, round, a block's rows of W, activations and gates
//   -  slots        a block a query head: update, softmax, read
//   1  output       norm, round, rows of W_o, residual
//   2  gate, up     RMSNorm, round, rows, SwiGLU
//   3  down         round, rows, residual
#pragma once

#include "cuda/device/cluster/exchange.cuh"
#include "cuda/device/cluster/fixed_layers.cuh"
#include "cuda/device/cluster/products.cuh"
#include "cuda/device/cluster/slots.cuh"
#include "cuda/device/cluster/weights.cuh"
#include "cuda/device/step/inputs.cuh"
#include "cuda/device/step/token.cuh"

namespace runnel::cuda {

/// The places of a phase's input and of its squares. There are two sets: a warp may still multiply
/// the last input while others round this one.
__device__ __forceinline__ SharedInput cluster_input(const ClusterDecode& p, int phase, int n) {
  const int set = (phase & 1) * p.shared.set;
  const auto shifted = [set](auto* at) {
    return reinterpret_cast<decltype(at)>(reinterpret_cast<unsigned char*>(at) + set);
  };
  const SharedInput x = input_places(p, n);
  return {shifted(x.q_low), shifted(x.q_high), shifted(x.meta), shifted(x.f_low),
          shifted(x.f_high)};
}
__device__ __forceinline__ float* cluster_squares(const ClusterDecode& p, int phase) {
  return shared_at<float>(p.shared.squares + (phase & 1) * p.shared.set);
}

/// The input of a phase's products, from what has arrived.
__device__ __forceinline__ void cluster_round(const ClusterDecode& p, int phase, const float* from,
                                              int n, float4 weight) {
  const int tid = thread_index(), vectors = n / 4;
  float squared = 0.0F;
  if ((tid & ~31) < vectors) {
    float4 v[1] = {make_float4(0.0F, 0.0F, 0.0F, 0.0F)};
    if (tid < vectors) v[0] = reinterpret_cast<const float4*>(from)[tid];
    squared = sum_squares(v[0], 0.0F);
    v[0] = times(v[0], weight);
    keep_input<1>(cluster_input(p, phase, n), (p.forms[phase] & kFormRounded) != 0,
                  (p.forms[phase] & kFormPlain) != 0, tid, vectors, v, &squared);
  }
  if ((tid & 31) == 0) cluster_squares(p, phase)[tid >> 5] = squared;
}

/// 1 / RMS of the phase's input.
__device__ __forceinline__ float cluster_factor(const ClusterDecode& p, int phase, int n) {
  if (phase == 3 || (phase == 1 && p.output_norm == 0)) return 1.0F;
  const auto* squares = reinterpret_cast<const float4*>(cluster_squares(p, phase));
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kDecodeWarps / 4; ++i) {
    const float4 s = squares[i];
    sum += (s.x + s.y) + (s.z + s.w);
  }
  return rsqrtf(__fdividef(sum, static_cast<float>(n)) + (phase == 1 ? p.g_norm_eps : p.norm_eps));
}

__device__ __forceinline__ float gate_bias(const ClusterDecode& p, const ClusterLayer& w,
                                           int column) {
  return w.f_bias != nullptr && column >= p.gates ? w.f_bias[column - p.gates] : 0.0F;
}

/// What the token is, its embedding, rotations; each by warps of its own, since each begins with a
/// long wait for memory.
template <class M>
__device__ __forceinline__ void begin_cluster(const ClusterDecode& p, int rank) {
  const int tid = thread_index(), turning = tid - kClusterThreads / 2;
  // Fixed shapes have another way: see cluster/fixed_slots.cuh.
  const bool has_slots =
      M::kHeads > 0 ? ClusterSplit<DefaultClusterModel>::has_slots(rank) : rank < p.heads;
  if (tid == kClusterThreads - 1) {
    ClusterToken t;
    t.segment = *p.segment;
    t.query = has_slots ? rank : -1, t.kv_head = has_slots ? rank / p.group : -1;
    t.stores = 0;
    for (int i = 0; i < kClusterItems; ++i)
      if (i % p.group == rank % p.group) t.stores |= 1 << i;
    t.target = positional_target(t.segment.position, p.sinks, p.window);
    t.written = t.segment.position < kDecodeSlots ? int(t.segment.position) + 1 : kDecodeSlots;
    *shared_at<ClusterToken>(p.shared.token) = t;
  }
  if (turning >= 0 && has_slots && p.sinks + p.window > 0)
    make_rotation<kClusterThreads / 2>(
        p.turns, p.k_dim / 2, p.segment->position, p.sink_distance, turning,
        [rotation = shared_at<float>(p.shared.rotation), half = p.k_dim / 2](int i, float4 r) {
          rotation[i] = r.x, rotation[half + i] = r.y;
          rotation[2 * half + i] = r.z, rotation[3 * half + i] = r.w;
        });
  float* x = exchanged(p, kOutput);
#pragma unroll 1
  for (int i = tid; i < p.d / 8; i += kClusterThreads) {
    float v[8];
    unpack8(p.embeddings, *p.token, 8 * i, v);
#pragma unroll
    for (int c = 0; c < 8; ++c) x[8 * i + c] = v[c];
  }
}

/// What a phase needs, in place of what the phase before had, which all warps have left. By warp 15, which rarely has an
/// input to round.
__device__ __forceinline__ void bring_next(const ClusterDecode& p, const ClusterToken& token,
                                           int layer, int phase, int rank, int warp, int tid) {
  const int brings = phase > 0 ? layer + 1 : layer;
  if (warp == kDecodeWarps - 1 && brings > 0 && brings < p.num_layers) {
    bring_matrices(p, brings, (phase - 1) & 3);
    if (phase == 0 && layer + 1 < p.num_layers) {
      if (tid == kClusterThreads - 1) ask_for_slots(p, token, layer + 1);
      ask_for_vectors(p, layer + 1, rank, tid & 31);
    }
  }
}

/// All layers, as one thread computes them. M: the model, if its shape is known at compile time.
template <BlockType kType, BlockType kPlain, int kShift, class M>
__device__ __forceinline__ void cluster_layers(const ClusterDecode& p, int rank) {
  const auto& token = *shared_at<const ClusterToken>(p.shared.token);
  ClusterBarriers& barriers = cluster_barriers(p);
  const int tid = thread_index(), warp = tid >> 5, upper = tid >> 4 & 1;
  const bool traced = rank == 0 || rank == p.blocks - 1;
  Trace trace{p.trace != nullptr && tid == 0 && traced ? p.trace + (rank > 0 ? kDecodeTrace : 0)
                                                       : nullptr};
  trace.mark();
  begin_cluster<M>(p, rank);
  sync_first<kClusterThreads>();
  trace.mark();
  if constexpr (M::kHeads > 0) {
    const int same_warp = __shfl_sync(~0U, warp, 0);
    FixedLayers<kType, M>{p, token, barriers, rank, same_warp, tid}.walk(trace);
    return;
  }
  const ClusterGroup all_blocks = ClusterGroup::of(0, p.blocks);
  const bool has_plain = p.matrices[kPlainMatrix].rows > 0;
  ClusterSlots<kShift> slots{p, token};
  if (tid == 0 && p.num_layers > 1) ask_for_slots(p, token, 1);
  if (token.query >= 0) slots.load(cluster_layer(p, 0), 0);
#pragma unroll 1
  for (int layer = 0; layer < p.num_layers; ++layer) {
    const unsigned parity = unsigned(layer) & 1U;
    const bool last = layer + 1 == p.num_layers;
#pragma unroll 1
    for (int phase = 0; phase < 4; ++phase) {
      // Before the input is there: everything else.
      const ClusterLayer& w = cluster_layer(p, layer);
      const int n = phase == 3 ? p.inner : phase == 1 ? p.heads * p.k_dim : p.d;
      const int source = phase == 0 ? kOutput : phase;  // kRead, kMixed, kHidden
      const int matrix = matrix_of(phase);
      float4 weight = make_float4(1.0F, 1.0F, 1.0F, 1.0F);
      if (phase < 3 && w.norms[phase] != nullptr && tid < n / 4)
        weight = reinterpret_cast<const float4*>(w.norms[phase])[tid];
      const SharedInput x = cluster_input(p, phase, n);
      cluster_wait(p, &barriers.full[matrix], parity, 16U + unsigned(matrix));
      if (phase == 0 && has_plain)
        cluster_wait(p, &barriers.full[kPlainMatrix], parity, 16U + unsigned(kPlainMatrix));
      ClusterUnits<kType> units;
      // Warps that multiply plain rows have none of the others.
      const int warps = phase == 0 && has_plain ? kClusterUnitWarps : kDecodeWarps;
      const int pair = warp - warps;  // of plain rows
      units.begin(cluster_share(p, matrix), warps);
      const int column = units.s.column;
      float bias = 0.0F, plain_bias = 0.0F;
      int plain_column = 0;
      if (phase == 0) {
        if (units.valid()) bias = gate_bias(p, w, column + units.row);
        plain_column = cluster_share(p, kPlainMatrix).column;
        if (pair >= 0 && 2 * pair + upper < cluster_share(p, kPlainMatrix).units)
          plain_bias = gate_bias(p, w, plain_column + 2 * pair + upper);
      }
      if (phase > 0 || layer > 0) take_exchange(p, source, phase == 0 ? parity ^ 1U : parity);

      cluster_round(p, phase, exchanged(p, source), n, weight);
      trace.mark();
      sync_first<kClusterThreads>();
      trace.mark();
      const float factor = cluster_factor(p, phase, n);
      const float* const before = exchanged(p, phase == 1 ? kOutput : kMixed);
      const int rows = 1 << units.s.sub_shift, lane_shift = units.s.lane_shift;
#pragma unroll 1
      while (units.valid()) {
        const int row = column + units.row, first = column + (units.unit << units.s.sub_shift);
        const float v = units.multiply(x) * factor;
        if (phase == 2) {  // gates and ups alternate
          const float up = __shfl_xor_sync(~0U, v, 1 << lane_shift);
          if (units.shows() && (row & 1) == 0) exchanged(p, kHidden)[row >> 1] = swish(v) * up;
        } else if (phase == 0) {
          send_inputs<kShift>(p, first, rows, v, lane_shift, bias);
        } else if (phase == 1 || !last) {
          send_values(p, all_blocks, matrix, first, rows, v + before[row], lane_shift);
        } else if (units.shows()) {  // the head's blocks take it from L2
          store_exchanged(p.last + row, marked(v + before[row], p.last_bit));
        }
        units.take(units.unit + warps);
        if (phase == 0 && units.valid()) bias = gate_bias(p, w, column + units.row);
      }
      if (pair >= 0) {
        const ClusterShare& s = cluster_share(p, kPlainMatrix);
#pragma unroll 1
        for (int first = 2 * pair; first < s.units; first += 2 * (kDecodeWarps - warps)) {
          const int row = min(first + upper, s.units - 1);
          const float v =
              plain_row<kPlain>(s, p.matrices[kPlainMatrix].row_bytes[0], x, row) * factor;
          send_inputs<kShift>(p, plain_column + first, min(2, s.units - first), v, 4,
                              first == 2 * pair ? plain_bias : gate_bias(p, w, plain_column + row));
        }
      }
      trace.mark();
      if (phase == 2) {  // so many that they are better sent together
        sync_first<kClusterThreads>();
        send_part(p, kHidden, units.s.from, units.s.to);
      }
      bring_next(p, token, layer, phase, rank, warp, tid);
      trace.mark();
      if (phase == 1 && token.query >= 0) {
        slots.store(layer);
        if (!last) slots.load(cluster_layer(p, layer + 1), layer + 1);
      }
      if (phase > 0) continue;
      if (token.query >= 0) {
        take_exchange(p, kInputs, parity);
        slots.read();
        sync_first<kClusterThreads>();
        slots.join(all_blocks);
      }
      trace.mark();
    }
  }
}

/// Everything a thread of the kernel does.
template <BlockType kType, BlockType kPlain, int kShift, class M = AnyClusterModel>
__device__ __forceinline__ void cluster_thread(const ClusterDecode& p) {
  const int tid = thread_index(), rank = block_index();
  const auto* layers = reinterpret_cast<const std::uint64_t*>(p.layers);
  auto* table = shared_at<std::uint64_t>(p.shared.layers);
#pragma unroll 1
  for (int i = tid; i < p.num_layers * int(sizeof(ClusterLayer) / 8); i += kClusterThreads)
    table[i] = layers[i];
  if (tid < 32) make_shares(p, rank);
  if (tid == 0) {
    ClusterBarriers& b = cluster_barriers(p);
#pragma unroll 1
    for (int i = 0; i < kClusterMatrices; ++i) {
      const int* bytes = p.matrices[i].row_bytes;
      barrier_init(&b.full[i], 1 + (bytes[1] > 0 ? 1 : 0) + (bytes[2] > 0 ? 1 : 0));
    }
#pragma unroll 1
    for (int i = 0; i < kClusterExchanges; ++i) barrier_init(&b.arrived[i], 1);
    barrier_publish();
    *shared_at<std::uint32_t>(p.shared.given_up) = 0;
  }
  sync_cluster();  // all barriers are initialised before any block sends
  constexpr int kParts = kClusterParts * kClusterMatrices;
#pragma unroll 1
  for (int i = tid; i < p.num_layers * kParts; i += kClusterThreads) {
    const int layer = i / kParts, part = i % kParts / kClusterMatrices,
              matrix = i % kClusterMatrices;
    const ClusterMatrix& m = p.matrices[matrix];
    shared_at<ClusterLayer>(p.shared.layers)[layer].parts[part][matrix] +=
        std::size_t(unsigned(cluster_share(p, matrix).column - m.column)) *
        unsigned(m.row_bytes[part]);
  }
  sync_first<kClusterThreads>();
  if (tid >> 5 == kDecodeWarps - 1) {
#pragma unroll 1
    for (int phase = 0; phase < 4; ++phase) bring_matrices(p, 0, phase);
  }
  if (tid == kClusterThreads - 1) {
#pragma unroll 1
    for (int i = 0; i < kClusterExchanges; ++i) expect_exchange(p, i);
  }
  if (tid < 32) {
    ask_for_vectors(p, 0, rank, tid);
    if (p.num_layers > 1) ask_for_vectors(p, 1, rank, tid);
    if (tid == 0 && p.turns != nullptr) bulk_prefetch(p.turns, unsigned(p.k_dim) * 4);
  }
  // Up to here the last token's kernels may still run.
  wait_for_kernels();
  cluster_layers<kType, kPlain, kShift, M>(p, rank);
  sync_warp();
  sync_cluster();  // no block leaves while others may still send to it
}

}  // namespace runnel::cuda
