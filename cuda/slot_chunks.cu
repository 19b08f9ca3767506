// SPDX-License-Identifier: Apache-2.0
// The slot recurrence of many tokens, chunk by chunk on tensor cores: no state but the one at each
// chunk's start is ever stored. With G the running sum of log alpha inside a chunk and h, hv the memory at its start:
//   logits_t = scale ((h q_t) e^{G_t} + sum_{j<=t} (q_t . k_j) s_j e^{G_t - G_j}) + biases
//   o_t      = (p_t e^{G_t}) hv + sum_{j<=t} (sum_m p_t s_j e^{G_t - G_j}) v_j
//   h'       = h e^{G_last} + sum_j (s_j e^{G_last - G_j}) k_j^T,  hv' likewise with v
// Four kernels: operands (this file; activations, bf16 copies and rotations, where the projections
// have not made them), slot_gates.cu (powers of the gates, all chunks at once), slot_states.cu (the
// memory at chunk starts; all heads and channels at once, chunk after chunk), slot_read.cu (scores,
// softmax, outputs; all chunks and query heads at once).
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/fast_activation.cuh"
#include "cuda/device/ops/slot_tiles.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;

/// Without positional slots: one token per block, eight values per thread at a time.
__global__ void __launch_bounds__(kThreads) plain_kernel(const __grid_constant__ ChunkArgs a) {
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int q = m.heads * m.k_dim, k = m.kv_heads * m.k_dim, v = m.kv_heads * m.v_dim,
            f = m.kv_heads * m.memory;
  const int t = int(blockIdx.x);
  const float* x = row_of(a, t);
  constexpr int kAhead = 3;  // pairs of loads in flight
  for (int i0 = int(threadIdx.x) * 8; i0 < q + k + v; i0 += kAhead * kThreads * 8) {
    float4 low[kAhead], high[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = i0 + j * kThreads * 8;
      if (i < q + k + v) {
        low[j] = *reinterpret_cast<const float4*>(x + i);
        high[j] = *reinterpret_cast<const float4*>(x + i + 4);
      }
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = i0 + j * kThreads * 8;
      if (i >= q + k + v) continue;
      const Act act = m.prepared ? Act::identity : i < q + k ? m.qk_act : m.v_act;
      std::uint16_t* to = i < q       ? a.o.q + std::size_t(t) * q + i
                          : i < q + k ? a.o.k + std::size_t(t) * k + (i - q)
                                      : a.o.v + std::size_t(t) * v + (i - q - k);
      const auto pair = [act](float one, float two) {
        return pack_bf16(fast_activate(act, one), fast_activate(act, two));
      };
      *reinterpret_cast<uint4*>(to) =
          make_uint4(pair(low[j].x, low[j].y), pair(low[j].z, low[j].w), pair(high[j].x, high[j].y),
                     pair(high[j].z, high[j].w));
    }
  }
  float* gates = a.o.gates + std::size_t(t) * a.o.gate_stride;
  for (int i = int(threadIdx.x); i < f; i += kThreads) gates[i] = x[q + k + v + i];
}

/// One token per block; eight values per thread at a time, three loads in flight.
__global__ void __launch_bounds__(kThreads) activate_kernel(const __grid_constant__ ChunkArgs a) {
  const SlotMixer& m = a.m;
  const int qk = (m.heads + m.kv_heads) * m.k_dim, all = qk + m.kv_heads * m.v_dim;
  const int t = int(blockIdx.x);
  std::uint16_t* const row = a.o.q + std::size_t(t) * all;
  const int begin = m.qk_act == Act::identity ? qk : 0, end = m.v_act == Act::identity ? qk : all;
  constexpr int kAhead = 3;
  for (int i0 = begin + int(threadIdx.x) * 8; i0 < end; i0 += kAhead * kThreads * 8) {
    uint4 x[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = i0 + j * kThreads * 8;
      if (i < end) x[j] = *reinterpret_cast<const uint4*>(row + i);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int i = i0 + j * kThreads * 8;
      if (i >= end) continue;
      const Act act = i < qk ? m.qk_act : m.v_act;
      const auto both = [act](std::uint32_t w) {
        return pack_bf16(fast_activate(act, bf16_low(w)), fast_activate(act, bf16_high(w)));
      };
      *reinterpret_cast<uint4*>(row + i) =
          make_uint4(both(x[j].x), both(x[j].y), both(x[j].z), both(x[j].w));
    }
  }
}

/// Blocks 0 … T-1: a token each; then 64 of the window before the pass, then the sinks.
__global__ void __launch_bounds__(kThreads) operands_kernel(const __grid_constant__ ChunkArgs a) {
  extern __shared__ float2 rotation[];  // [2][K/2]
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int tid = int(threadIdx.x), half = m.k_dim / 2;
  const int q_columns = m.heads * m.k_dim, k_columns = m.kv_heads * m.k_dim,
            v_columns = m.kv_heads * m.v_dim;
  const Segment segment = *a.segment;
  const std::uint64_t start = segment.position;
  const int tokens = a.tokens;
  int block = int(blockIdx.x);
  if (block < tokens) {
    const int t = block;
    const float* q = row_of(a, t);
    const float* k = q + q_columns;
    const float* v = k + k_columns;
    {
      const std::uint64_t at = start + std::uint64_t(t);
      fill_rotation(m, at, rotation);
      fill_rotation(m, at < std::uint64_t(m.sink_distance) ? at : std::uint64_t(m.sink_distance),
                    rotation + half);
      __syncthreads();
    }
    for (int i = tid; i < q_columns; i += kThreads) {
      const std::size_t to = std::size_t(t) * q_columns + i;
      const int c = i % m.k_dim;
      a.o.q[to] = to_bf16(mapped(m, m.qk_act, q[i]));
      a.o.q_turned[to] = to_bf16(rotated(m, q + i - c, nullptr, c, rotation));
      a.o.q_near[to] = to_bf16(rotated(m, q + i - c, nullptr, c, rotation + half));
    }
    for (int i = tid; i < k_columns; i += kThreads) {
      const int c = i % m.k_dim;
      a.o.k[std::size_t(t) * k_columns + i] = to_bf16(mapped(m, m.qk_act, k[i]));
      a.o.k_turned[std::size_t(kChunk + t) * k_columns + i] =
          to_bf16(rotated(m, k + i - c, nullptr, c, rotation));
    }
    for (int i = tid; i < v_columns; i += kThreads)
      a.o.v[std::size_t(kChunk + t) * v_columns + i] = to_bf16(mapped(m, m.v_act, v[i]));
    float* gates = a.o.gates + std::size_t(t) * a.o.gate_stride;
    for (int i = tid; i < m.kv_heads * m.memory; i += kThreads) gates[i] = v[v_columns + i];
    return;
  }
  block -= tokens;
  // A row of the window before the pass, or a sink: from the state, or, a sink written by this pass, from its token.
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
      v = segment.state_in[m.layer_offset + std::size_t(head) * m.head_floats +
                           std::size_t(slot) * m.k_dim + c];
    } else if (token >= 0) {
      v = rotated(m, row_of(a, token) + q_columns + i - c, nullptr, c, rotation);
    }
    k_to[i] = to_bf16(v);
  }
  for (int i = tid; i < v_columns; i += kThreads) {
    const int head = i / m.v_dim, c = i % m.v_dim;
    float v = 0.0F;
    if (slot >= 0) {
      v = segment.state_in[m.layer_offset + std::size_t(head) * m.head_floats +
                           std::size_t(a.slots()) * m.k_dim + std::size_t(slot) * m.v_dim + c];
    } else if (token >= 0) {
      v = mapped(m, m.v_act, row_of(a, token)[q_columns + k_columns + i]);
    }
    v_to[i] = to_bf16(v);
  }
}

}  // namespace

ChunkKernels chunk_kernels_of(const SlotMixer& m) {
  if (m.memory < 1 || m.sinks > kMostSinks || m.k_dim % 8 != 0 || m.v_dim % 8 != 0 ||
      ((m.layer_offset | m.head_floats) & 1) != 0) {  // the state is read in pairs
    return ChunkKernels::none;
  }
  if (m.k_bias == nullptr && m.memory <= kTile && m.window <= kChunk && m.k_dim <= kMostHeadDim)
    return ChunkKernels::narrow;
  // No gate can decay too much in a chunk for the factors of slot_gates.cu: 2.1 nats * 64 < 200 bits.
  constexpr float kStrongestFloor = -2.1F;
  const bool bounded = m.gate_log_min < 0.0F && m.gate_log_min >= kStrongestFloor && !m.running;
  return bounded && m.memory <= kBroadMemory && m.window <= kBroadWindow &&
                 m.k_dim <= kBroadHeadDim && m.v_dim <= kBroadHeadDim
             ? ChunkKernels::broad
             : ChunkKernels::none;
}

cudaError_t prepare_slot_chunks() {
  if (cudaError_t e = prepare_slot_states(); e != cudaSuccess) return e;
  if (cudaError_t e = prepare_slot_read(); e != cudaSuccess) return e;
  return prepare_broad_slot_read();
}

cudaError_t slot_operands(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                          const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, pass, o);
  if (m.sinks + m.window == 0)
    return launch(l, plain_kernel, dim3(unsigned(pass.tokens)), kThreads, 0, 1, a);
  const std::size_t table = std::size_t(m.k_dim) * sizeof(float2);
  return launch(l, operands_kernel, dim3(unsigned(pass.tokens + kChunk + kMostSinks)), kThreads,
                table, 1, a);
}

cudaError_t activate_projections(const Launch& launch, const SlotMixer& m, int tokens,
                                 const ChunkOperands& o) {
  Launch l = launch;
  l.chain = false;
  return cuda::launch(l, activate_kernel, dim3(unsigned(tokens)), kThreads, 0, 1,
                      chunk_args(m, {}, o));
}

cudaError_t slot_chunks(const Launch& launch, const SlotMixer& m, const ChunkPass& pass,
                        const ChunkOperands& o) {
  // Blocks that started early and wait slowed the others down by a third.
  Launch l = launch;
  l.chain = false;
  const bool broad = chunk_kernels_of(m) == ChunkKernels::broad;
  if (broad) {
    if (cudaError_t e = broad_slot_operands(l, m, pass, o); e != cudaSuccess) return e;
  } else if (!o.ready) {
    if (cudaError_t e = slot_operands(l, m, pass, o); e != cudaSuccess) return e;
  }
  if (cudaError_t e = slot_gates(l, m, pass, o); e != cudaSuccess) return e;
  if (cudaError_t e = slot_states(l, m, pass, o); e != cudaSuccess) return e;
  return broad ? broad_slot_read(l, m, pass, o) : slot_read(l, m, pass, o);
}

}  // namespace runnel::cuda
