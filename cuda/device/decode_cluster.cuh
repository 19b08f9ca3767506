// SPDX-License-Identifier: Apache-2.0
// The cluster kernel of cuda/decode_cluster.h. Phases of a layer, each ends in an exchange:
//   0  q, k, v, f   RMSNorm x, round, a block's rows of W, activations and gates
//   -  slots        a block a query head: update, softmax, read
//   1  output       norm, round, rows of W_o, residual
//   2  gate, up     RMSNorm, round, rows, SwiGLU
//   3  down         round, rows, residual
#pragma once

#include "cuda/device/cluster_exchange.cuh"
#include "cuda/device/cluster_products.cuh"
#include "cuda/device/cluster_slots.cuh"
#include "cuda/device/decode_inputs.cuh"
#include "cuda/device/decode_ring.cuh"
#include "cuda/device/decode_token.cuh"

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

/// What can be done before the first layer: the embedding, rotations.
__device__ __forceinline__ void begin_cluster(const ClusterDecode& p, const ClusterToken& about) {
  const int tid = thread_index(), token = *p.token;
  float* x = exchanged(p, kOutput);
#pragma unroll 1
  for (int i = tid; i < p.d / 8; i += kClusterThreads) {
    float v[8];
    unpack8(p.embeddings, token, 8 * i, v);
#pragma unroll
    for (int c = 0; c < 8; ++c) x[8 * i + c] = v[c];
  }
  if (about.query >= 0 && p.sinks + p.window > 0)
    make_rotation<kClusterThreads>(
        p.turns, p.k_dim / 2, about.segment.position, p.sink_distance, tid,
        [rotation = shared_at<float>(p.shared.rotation), half = p.k_dim / 2](int i, float4 r) {
          rotation[i] = r.x, rotation[half + i] = r.y;
          rotation[2 * half + i] = r.z, rotation[3 * half + i] = r.w;
        });
}

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

/// What else a layer reads of memory, to L2.
__device__ __forceinline__ void ask_for_layer(const ClusterDecode& p, const ClusterToken& token,
                                              int layer, int rank) {
  if (token.query >= 0 && token.query == token.kv_head * p.group) {
    const float* keys = token.segment.state_in + std::size_t(layer) * p.layer_floats +
                        std::size_t(token.kv_head) * p.head_floats;
    bulk_prefetch(keys, unsigned((p.sinks + p.window + p.memory) * p.k_dim) * 8);
  }
  if (layer % p.blocks != rank) return;
  const ClusterLayer& w = cluster_layer(p, layer);
  prefetch_vector(w.norms[0], p.d), prefetch_vector(w.norms[1], p.heads * p.k_dim);
  prefetch_vector(w.norms[2], p.d), prefetch_vector(w.f_bias, p.kv_heads * p.memory);
  prefetch_vector(w.read_bias, p.kv_heads * p.memory);
  prefetch_vector(w.head_read_bias, p.heads);
}

/// A thread's way through the layers.
template <BlockType kType, BlockType kPlain, int kShift>
__device__ __forceinline__ void cluster_layers(const ClusterDecode& p, int rank) {
  const auto& token = *shared_at<const ClusterToken>(p.shared.token);
  ClusterBarriers& barriers = cluster_barriers(p);
  const int tid = thread_index(), warp = tid >> 5, upper = tid >> 4 & 1;
  const ClusterGroup everybody = ClusterGroup::of(0, p.blocks);
  const bool has_plain = p.matrices[kPlainMatrix].rows > 0;
  const bool traced = rank == 0 || rank == p.blocks - 1;
  Trace trace{p.trace != nullptr && tid == 0 && traced ? p.trace + (rank > 0 ? kDecodeTrace : 0)
                                                       : nullptr};
  trace.mark();
  begin_cluster(p, token);
  sync_first<kClusterThreads>();
  trace.mark();
  ClusterSlots<kShift> slots{p, token};
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
          send_values(p, everybody, matrix, first, rows, v + before[row], lane_shift);
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
      // In place of the phase before's, which all warps have left. Warp 15 seldom rounds an input.
      const int brings = phase > 0 ? layer + 1 : layer;
      if (warp == kDecodeWarps - 1 && brings > 0 && brings < p.num_layers) {
        bring_matrices(p, brings, (phase - 1) & 3);
        if (phase == 0 && layer + 1 < p.num_layers && tid == kClusterThreads - 1)
          ask_for_layer(p, token, layer + 1, rank);
      }
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
        slots.join(everybody);
      }
      trace.mark();
    }
  }
}

/// Everything a thread of the kernel does.
template <BlockType kType, BlockType kPlain, int kShift>
__device__ __forceinline__ void cluster_thread(const ClusterDecode& p) {
  const int tid = thread_index(), rank = block_index();
  const auto* layers = reinterpret_cast<const std::uint64_t*>(p.layers);
  auto* table = shared_at<std::uint64_t>(p.shared.layers);
#pragma unroll 1
  for (int i = tid; i < p.num_layers * int(sizeof(ClusterLayer) / 8); i += kClusterThreads)
    table[i] = layers[i];
  if (tid == 32) {
    ClusterToken t;
    t.segment = *p.segment;
    t.query = rank < p.heads ? rank : -1, t.kv_head = rank < p.heads ? rank / p.group : -1;
    t.stores = 0;
    for (int i = 0; i < kClusterItems; ++i)
      if (i % p.group == rank % p.group) t.stores |= 1 << i;
    t.target = positional_target(t.segment.position, p.sinks, p.window);
    t.written = t.segment.position < kDecodeSlots ? int(t.segment.position) + 1 : kDecodeSlots;
    *shared_at<ClusterToken>(p.shared.token) = t;
  }
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
  }
  sync_cluster();  // all barriers are there before anybody sends
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
  if (tid == 0) {
#pragma unroll 1
    for (int layer = 0; layer < min(2, p.num_layers); ++layer)
      ask_for_layer(p, *shared_at<const ClusterToken>(p.shared.token), layer, rank);
  }
  if (tid == kClusterThreads - 1) {
#pragma unroll 1
    for (int i = 0; i < kClusterExchanges; ++i) expect_exchange(p, i);
  }
  cluster_layers<kType, kPlain, kShift>(p, rank);
  sync_warp();
  sync_cluster();  // nobody leaves while others may still send to him
}

}  // namespace runnel::cuda
