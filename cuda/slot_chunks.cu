// SPDX-License-Identifier: Apache-2.0
// The slot recurrence of many tokens, chunk by chunk on tensor cores: no state but the one at each
// chunk's start is ever stored. With G the running sum of log alpha inside a chunk and h, hv the
// memory at its start:
//   logits_t = scale ((h q_t) e^{G_t} + sum_{j<=t} (q_t . k_j) s_j e^{G_t - G_j}) + biases
//   o_t      = (p_t e^{G_t}) hv + sum_{j<=t} (sum_m p_t s_j e^{G_t - G_j}) v_j
//   h'       = h e^{G_last} + sum_j (s_j e^{G_last - G_j}) k_j^T,  hv' likewise with v
// Four kernels: operands (this file; bf16 copies and rotations, where the projections have not made
// them), slot_gates.cu (powers of the gates, all chunks at once), slot_states.cu (the memory at
// chunk starts; all heads and channels at once, chunk after chunk), slot_read.cu (scores, softmax,
// outputs; all chunks and query heads at once).
#include "cuda/device/launch.cuh"
#include "cuda/device/slot_tiles.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;

/// Blocks 0 … T-1: a token each; then 64 of the window before the pass, then the sinks.
__global__ void __launch_bounds__(kThreads) operands_kernel(const __grid_constant__ ChunkArgs a) {
  extern __shared__ float2 rotation[];  // [2][K/2]
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int tid = int(threadIdx.x), half = m.k_dim / 2;
  const int q_columns = m.heads * m.k_dim, k_columns = m.kv_heads * m.k_dim,
            v_columns = m.kv_heads * m.v_dim;
  const std::uint64_t start = a.segment.position;
  const int tokens = a.segment.count;
  int block = int(blockIdx.x);
  if (block < tokens) {
    const int t = block;
    const float* q = row_of(a, t);
    const float* k = q + q_columns;
    const float* v = k + k_columns;
    const bool turned = a.positional() > 0;
    if (turned) {
      const std::uint64_t at = start + std::uint64_t(t);
      fill_rotation(m, at, rotation);
      fill_rotation(m, at < std::uint64_t(m.sink_distance) ? at : std::uint64_t(m.sink_distance),
                    rotation + half);
      __syncthreads();
    }
    for (int i = tid; i < q_columns; i += kThreads) {
      const std::size_t to = std::size_t(t) * q_columns + i;
      a.o.q[to] = to_bf16(q[i]);
      if (turned) {
        const int c = i % m.k_dim;
        a.o.q_turned[to] = to_bf16(rotated(q + i - c, c, m.k_dim, rotation));
        a.o.q_near[to] = to_bf16(rotated(q + i - c, c, m.k_dim, rotation + half));
      }
    }
    for (int i = tid; i < k_columns; i += kThreads) {
      a.o.k[std::size_t(t) * k_columns + i] = to_bf16(k[i]);
      if (turned) {
        const int c = i % m.k_dim;
        a.o.k_turned[std::size_t(kChunk + t) * k_columns + i] =
            to_bf16(rotated(k + i - c, c, m.k_dim, rotation));
      }
    }
    for (int i = tid; i < v_columns; i += kThreads)
      a.o.v[std::size_t((turned ? kChunk : 0) + t) * v_columns + i] = to_bf16(v[i]);
    return;
  }
  block -= tokens;
  if (a.positional() == 0) return;
  // A row of the window before the pass, or a sink: from the state, or, a sink written by this
  // pass, from its token.
  const bool sink = block >= kChunk;
  const int row = sink ? block - kChunk : block;
  int slot = -1;
  int token = -1;
  if (sink) {
    if (row < m.sinks) {
      if (std::uint64_t(row) < start) {
        slot = row;
      } else if (std::uint64_t(row) < start + std::uint64_t(tokens)) {
        token = int(std::uint64_t(row) - start);
      }
    }
  } else if (start + std::uint64_t(row) >= std::uint64_t(kChunk) + std::uint64_t(m.sinks) &&
             m.window > 0) {
    const std::uint64_t position = start + std::uint64_t(row) - kChunk;
    if (start - position <= std::uint64_t(m.window))
      slot = m.sinks + int((position - m.sinks) % std::uint64_t(m.window));
  }
  if (token >= 0) {
    fill_rotation(m, start + std::uint64_t(token), rotation);
    __syncthreads();
  }
  std::uint16_t* k_to = (sink ? a.o.k_sink : a.o.k_turned) + std::size_t(row) * k_columns;
  std::uint16_t* v_to = (sink ? a.o.v_sink : a.o.v) + std::size_t(row) * v_columns;
  for (int i = tid; i < k_columns; i += kThreads) {
    const int head = i / m.k_dim, c = i % m.k_dim;
    float v = 0.0F;
    if (slot >= 0) {
      v = a.segment.state_in[m.layer_offset + std::size_t(head) * m.head_floats +
                             std::size_t(slot) * m.k_dim + c];
    } else if (token >= 0) {
      v = rotated(row_of(a, token) + q_columns + i - c, c, m.k_dim, rotation);
    }
    k_to[i] = to_bf16(v);
  }
  for (int i = tid; i < v_columns; i += kThreads) {
    const int head = i / m.v_dim, c = i % m.v_dim;
    float v = 0.0F;
    if (slot >= 0) {
      v = a.segment.state_in[m.layer_offset + std::size_t(head) * m.head_floats +
                             std::size_t(a.slots()) * m.k_dim + std::size_t(slot) * m.v_dim + c];
    } else if (token >= 0) {
      v = row_of(a, token)[q_columns + k_columns + i];
    }
    v_to[i] = to_bf16(v);
  }
}

}  // namespace

bool slot_chunks_fit(const SlotMixer& m) {
  return m.memory >= 1 && m.memory <= kTile && m.window <= kChunk && m.sinks <= kMostSinks &&
         m.k_dim % 8 == 0 && m.v_dim % 8 == 0 && m.k_dim <= kMostHeadDim;
}

cudaError_t prepare_slot_chunks() {
  if (cudaError_t e = prepare_slot_states(); e != cudaSuccess) return e;
  return prepare_slot_read();
}

cudaError_t slot_operands(const Launch& l, const SlotMixer& m, const Segment& segment,
                          const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, segment, o);
  const std::size_t table = std::size_t(m.k_dim) * sizeof(float2);
  const unsigned blocks =
      unsigned(segment.count + (m.sinks + m.window > 0 ? kChunk + kMostSinks : 0));
  return launch(l, operands_kernel, dim3(blocks), kThreads, table, 1, a);
}

cudaError_t slot_chunks(const Launch& l, const SlotMixer& m, const Segment& segment,
                        const ChunkOperands& operands) {
  ChunkOperands o = operands;
  if (!o.ready) {
    const int column = m.heads * m.k_dim + m.kv_heads * (m.k_dim + m.v_dim);
    o.gates = m.inputs + std::size_t(segment.first) * m.input_stride + column;
    o.gate_stride = m.input_stride;
    if (cudaError_t e = slot_operands(l, m, segment, o); e != cudaSuccess) return e;
  }
  if (cudaError_t e = slot_gates(l, m, segment, o); e != cudaSuccess) return e;
  if (cudaError_t e = slot_states(l, m, segment, o); e != cudaSuccess) return e;
  return slot_read(l, m, segment, o);
}

}  // namespace runnel::cuda
