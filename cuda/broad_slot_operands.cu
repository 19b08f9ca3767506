// SPDX-License-Identifier: Apache-2.0
// Operands of the broad chunkwise slots: keys as k' = k - b for the memory and, rotated, as sums of two bf16 for the
// window; values; the rotation of every token, from which broad_slot_read.cu turns the queries it reads. One row per
// block. Bound: the k and v columns read, and as many bytes written.
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/broad_slots.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 128;

/// Where a row of keys and values outside the pass's own tokens comes from.
struct Source {
  int slot = -1;   // of the state
  int token = -1;  // of the pass
};

/// Row `row` of the kBroadWindow positions before the pass, which the state has.
__device__ Source before_pass(const SlotMixer& m, std::uint64_t start, int row) {
  constexpr auto kRows = std::uint64_t(kBroadWindow);
  if (m.window == 0 || start + std::uint64_t(row) < kRows + std::uint64_t(m.sinks)) return {};
  const std::uint64_t position = start + std::uint64_t(row) - kRows;
  if (start - position > std::uint64_t(m.window)) return {};
  return {.slot = m.sinks + int((position - m.sinks) % std::uint64_t(m.window)), .token = -1};
}

/// A sink: of the state, or, where this pass writes it, of its token.
__device__ Source sink(const SlotMixer& m, std::uint64_t start, int tokens, int row) {
  if (row >= m.sinks) return {};
  if (std::uint64_t(row) < start) return {.slot = row, .token = -1};
  if (std::uint64_t(row) >= start + std::uint64_t(tokens)) return {};
  return {.slot = -1, .token = int(std::uint64_t(row) - start)};
}

__device__ __forceinline__ void store_split(std::uint16_t* high, std::uint16_t* low, std::size_t at,
                                            float v) {
  const std::uint16_t h = to_bf16(v);
  high[at] = h;
  low[at] = to_bf16(v - of_bf16(h));
}

__device__ void write_token(const ChunkArgs& a, int t, const float2* rotation) {
  const SlotMixer& m = a.m;
  const int k_columns = m.kv_heads * m.k_dim, v_columns = m.kv_heads * m.v_dim;
  const bool positional = a.positional() > 0;
  const float* k = row_of(a, t) + m.heads * m.k_dim;
  const float* v = k + k_columns;
  const float* const k_bias = m.qkv_bias != nullptr ? m.qkv_bias + m.heads * m.k_dim : nullptr;
  const float* const v_bias = k_bias != nullptr ? k_bias + k_columns : nullptr;
  const std::size_t before = positional ? kBroadWindow : 0;
  for (int i = int(threadIdx.x); i < k_columns; i += kThreads) {
    // Where the biases are still to be added, no map comes after them: what is there is k - b.
    const float common = k_bias == nullptr && m.k_bias != nullptr ? m.k_bias[i] : 0.0F;
    a.o.k[std::size_t(t) * k_columns + i] = to_bf16(mapped(m, m.qk_act, k[i]) - common);
    if (!positional) continue;
    const int c = i % m.k_dim;
    store_split(a.o.k_turned, a.o.k_turned_low, (before + t) * k_columns + i,
                rotated(m, k + i - c, k_bias != nullptr ? k_bias + i - c : nullptr, c, rotation));
  }
  for (int i = int(threadIdx.x); i < v_columns; i += kThreads) {
    a.o.v[(before + t) * v_columns + i] =
        to_bf16(mapped(m, m.v_act, v_bias != nullptr ? v[i] + v_bias[i] : v[i]));
  }
}

/// Blocks 0 … T-1: a token each; with positional slots then the rotation of sink_distance, kBroadWindow rows of the
/// window before the pass, and the sinks.
__global__ void __launch_bounds__(kThreads) operands_kernel(const __grid_constant__ ChunkArgs a) {
  extern __shared__ float2 rotation[];  // [K/2]
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int tid = int(threadIdx.x), half = m.k_dim / 2, block = int(blockIdx.x);
  const Segment segment = *a.segment;
  const bool positional = a.positional() > 0;
  if (block <= a.tokens) {
    if (positional) {
      fill_rotation(m,
                    block < a.tokens ? segment.position + std::uint64_t(block)
                                     : std::uint64_t(m.sink_distance),
                    rotation);
      __syncthreads();
      for (int i = tid; i < half; i += kThreads)
        a.o.rotation[std::size_t(block) * half + i] = rotation[i];
    }
    if (block < a.tokens) write_token(a, block, rotation);
    return;
  }
  const int row = block - a.tokens - 1;
  const bool is_sink = row >= kBroadWindow;
  const int r = is_sink ? row - kBroadWindow : row;
  const Source from =
      is_sink ? sink(m, segment.position, a.tokens, r) : before_pass(m, segment.position, r);
  if (from.token >= 0) {
    fill_rotation(m, segment.position + std::uint64_t(from.token), rotation);
    __syncthreads();
  }
  const int k_columns = m.kv_heads * m.k_dim, v_columns = m.kv_heads * m.v_dim;
  std::uint16_t* high = is_sink ? a.o.k_sink : a.o.k_turned;
  std::uint16_t* low = is_sink ? a.o.k_sink_low : a.o.k_turned_low;
  std::uint16_t* v_to = (is_sink ? a.o.v_sink : a.o.v) + std::size_t(r) * v_columns;
  const float* state = segment.state_in + m.layer_offset;
  const float* const k_bias = m.qkv_bias != nullptr ? m.qkv_bias + m.heads * m.k_dim : nullptr;
  const float* const v_bias = k_bias != nullptr ? k_bias + k_columns : nullptr;
  for (int i = tid; i < k_columns; i += kThreads) {
    const int head = i / m.k_dim, c = i % m.k_dim;
    float v = 0.0F;
    if (from.slot >= 0) {
      v = state[std::size_t(head) * m.head_floats + std::size_t(from.slot) * m.k_dim + c];
    } else if (from.token >= 0) {
      v = rotated(m, row_of(a, from.token) + m.heads * m.k_dim + i - c,
                  k_bias != nullptr ? k_bias + i - c : nullptr, c, rotation);
    }
    store_split(high, low, std::size_t(r) * k_columns + i, v);
  }
  for (int i = tid; i < v_columns; i += kThreads) {
    const int head = i / m.v_dim, c = i % m.v_dim;
    float v = 0.0F;
    if (from.slot >= 0) {
      v = state[std::size_t(head) * m.head_floats + std::size_t(a.slots()) * m.k_dim +
                std::size_t(from.slot) * m.v_dim + c];
    } else if (from.token >= 0) {
      v = row_of(a, from.token)[m.heads * m.k_dim + k_columns + i];
      v = mapped(m, m.v_act, v_bias != nullptr ? v + v_bias[i] : v);
    }
    v_to[i] = to_bf16(v);
  }
}

}  // namespace

cudaError_t broad_slot_operands(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                                const ChunkOperands& o) {
  const int extra = m.sinks + m.window > 0 ? 1 + kBroadWindow + kMostSinks : 0;
  return launch(l, operands_kernel, dim3(unsigned(pass.tokens + extra)), kThreads,
                std::size_t(m.k_dim) / 2 * sizeof(float2), 1, chunk_args(m, pass, o));
}

}  // namespace runnel::cuda
