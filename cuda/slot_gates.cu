// SPDX-License-Identifier: Apache-2.0
// The gates of a chunk, kv head and 64 of its slots, once for all query heads and columns: with G_t the running sum
// of log2 alpha over the chunk's tokens and R half of its last row, everything the products of a
// chunk need is a power of two of a difference:
//   2^(G_t - G_j) = 2^(G_t - R) 2^(R - G_j).
// Each factor spans half of the chunk's range: while G_last > -200 (2.17 nats per token over 64
// tokens) neither leaves +-100, so both fit bf16's exponent and the triangle j <= t is one plain
// product. Chunks with stronger gates are marked and summed exactly.
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/slot_tiles.cuh"

namespace runnel::cuda {
namespace {

constexpr int kRun = 16;  // tokens that a thread sums
constexpr float kLog2E = 1.4426950408889634F;
constexpr float kWeakest = -200.0F;

__global__ void __launch_bounds__(256) gates_kernel(const __grid_constant__ ChunkArgs a) {
  __shared__ float runs[4][kTile];
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int blocks = a.slot_blocks(), head = int(blockIdx.y) / blocks,
            slot0 = int(blockIdx.y) % blocks * kTile, slots = min(kTile, m.memory - slot0);
  const int chunk = int(blockIdx.x);
  const int slot = int(threadIdx.x) % kTile, run = int(threadIdx.x) / kTile;
  const std::size_t at = std::size_t(chunk) * gridDim.y + blockIdx.y;
  const int token0 = chunk * kChunk + run * kRun;
  const bool in_place = a.o.gates == nullptr;  // of the inputs
  const std::size_t stride = std::size_t(in_place ? m.input_stride : a.o.gate_stride);
  const int column = head * m.memory + slot0 + slot;
  const float* from = in_place ? row_of(a, token0) + (m.heads + m.kv_heads) * m.k_dim +
                                     m.kv_heads * m.v_dim + column
                               : a.o.gates + std::size_t(token0) * stride + column;
  float g[kRun];
#pragma unroll
  for (int t = 0; t < kRun; ++t) {
    // Tokens past the end and slots past M neither decay nor write.
    g[t] = slot < slots && token0 + t < a.tokens ? from[std::size_t(t) * stride] : 0.0F;
  }
  if (!m.prepared && slot < slots) {
    const float bias = m.f_bias != nullptr ? m.f_bias[column] : 0.0F;
#pragma unroll
    for (int t = 0; t < kRun; ++t) {
      if (token0 + t < a.tokens) g[t] = log_decay(g[t] + bias, m.gate_normalizer, m.gate_log_min);
    }
  }
  float sum = 0.0F;
#pragma unroll
  for (int t = 0; t < kRun; ++t) sum += g[t];
  runs[run][slot] = sum * kLog2E;
  __syncthreads();
  float total = 0.0F, before = 0.0F;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    if (r == run) before = total;
    total += runs[r][slot];
  }
  const bool strong = __syncthreads_or(total < kWeakest) != 0;
  const float centre = 0.5F * total;
  if (run == 0) {
    a.o.decay[at * kTile + slot] = exp2f(total);
    a.o.centre[at * kTile + slot] = exp2f(centre);
  }
  if (threadIdx.x == 0) a.o.strong[at] = strong ? 1 : 0;
  if (strong && slot < slots && !in_place) {  // the reading kernel takes these one by one
    float* to = a.o.gates + std::size_t(token0) * stride + column;
#pragma unroll
    for (int t = 0; t < kRun; ++t) {
      if (token0 + t < a.tokens) to[std::size_t(t) * stride] = g[t];
    }
  }
  const std::size_t to = (at * kTile + std::size_t(run * kRun)) * kTile + slot;
  sum = 0.0F;
#pragma unroll
  for (int t = 0; t < kRun; ++t) {
    sum += g[t];
    const float running = fmaf(sum, kLog2E, before), s = -expm1f(g[t]);
    a.o.rise[to + std::size_t(t) * kTile] = strong ? running : exp2f(running - centre);
    a.o.write[to + std::size_t(t) * kTile] = to_bf16(strong ? s : s * exp2f(centre - running));
    a.o.carry[to + std::size_t(t) * kTile] = to_bf16(s * exp2f(fminf(total - running, 0.0F)));
  }
}

}  // namespace

cudaError_t slot_gates(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                       const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, pass, o);
  return launch(l, gates_kernel, dim3(unsigned(a.chunks), unsigned(m.kv_heads * a.slot_blocks())),
                256, 0, 1, a);
}

}  // namespace runnel::cuda
