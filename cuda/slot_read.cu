// SPDX-License-Identifier: Apache-2.0
// What the tokens of a chunk read: scores, one softmax, outputs. A block takes the 64 tokens of a
// chunk for one query head; scores, probabilities and weights stay in registers, as fragments of
// the next product (cuda/slot_gates.cu says how the decays factor):
//   logits = scale (q h^T 2^R + tril(q k^T) W) * rise + biases     W = s 2^(R - G)
//   o      = (p rise 2^R) hv + tril((p rise) W^T) v
// Sinks and the window are ordinary attention over 16 + 64 + 64 rotated keys under the same softmax.
//
// Two warps share 16 tokens: one takes the scores of the memory and of the window inside the chunk,
// its partner those of the chunk's keys and of the window before it; they trade through shared
// memory, both do the softmax, and each writes half of the columns. Operands come through a ring of
// three stages of 64-wide tiles, one barrier a stage. Chunks with gates too strong for the factors
// take the sums of products one by one.
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/slot_read.cuh"

namespace runnel::cuda {
namespace {

template <bool kPositional>
__global__ void __launch_bounds__(kReadThreads, kPositional ? 1 : 2)
    read_kernel(const __grid_constant__ ChunkArgs a) {
  using S = ReadShared<kPositional>;
  extern __shared__ __align__(16) unsigned char dynamic[];
  // [token][slot]
  auto* weights = reinterpret_cast<std::uint16_t*>(dynamic + kReadStages * S::kStage);
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int chunk = int(blockIdx.x), query = int(blockIdx.y), head = query / (m.heads / m.kv_heads);
  const int tid = int(threadIdx.x), warp = tid >> 5, lane = tid & 31;
  const int group = warp & 3, part = warp >> 2;  // 16 tokens; which of the two warps
  const int row0 = group * 16, quad = (lane & 3) * 2;
  const int rows = min(kChunk, a.tokens - chunk * kChunk);
  const std::uint64_t first = a.segment->position + std::uint64_t(chunk) * kChunk;  // of row 0
  const int first_row = a.segment->first + chunk * kChunk;
  const auto or_dense = [](int stride, int columns) {
    return std::size_t(stride > 0 ? stride : columns);
  };
  const std::size_t q_stride = or_dense(a.o.q_stride, m.heads * m.k_dim),
                    k_stride = or_dense(a.o.k_stride, m.kv_heads * m.k_dim),
                    v_stride = or_dense(a.o.v_stride, m.kv_heads * m.v_dim);
  const std::size_t q_at = std::size_t(chunk * kChunk) * q_stride + std::size_t(query) * m.k_dim;
  const std::size_t k_at = std::size_t(chunk * kChunk) * k_stride + std::size_t(head) * m.k_dim;
  const std::size_t v_at = std::size_t(chunk * kChunk) * v_stride + std::size_t(head) * m.v_dim;
  const std::size_t at = std::size_t(chunk) * m.kv_heads + head;
  const std::uint16_t* keys = a.o.keys + at * kTile * m.k_dim;
  const std::uint16_t* values = a.o.values + at * kTile * m.v_dim;
  const float* rise = a.o.rise + at * kTile * kTile;
  const float* centre = a.o.centre + at * kTile;
  const bool strong = a.o.strong[at] != 0;
  const int key_steps = (m.k_dim + kTile - 1) / kTile, value_steps = (m.v_dim + kTile - 1) / kTile;

  const auto tile = [&](int stage, int i) {
    return reinterpret_cast<std::uint16_t*>(dynamic + stage * S::kStage + i * kTileBytes);
  };
  const auto load = [&](std::uint16_t* to, const std::uint16_t* from, std::size_t stride, int count,
                        int columns) {
    load_tile<kReadThreads, kTile, kTile, kPad>(to, from, stride, count, columns);
  };

  // 1. Scores. Steps 0 … key_steps-1: memory and the chunk's own keys; then the rotated keys of the
  // chunk and of the 64 tokens before it; then the sinks.
  const int score_steps = key_steps * (kPositional ? (m.sinks > 0 ? 3 : 2) : 1);
  const auto fetch_keys = [&](int step) {
    if (step < score_steps) {
      const int kind = kPositional ? step / key_steps : 0, c = (step - kind * key_steps) * kTile;
      const int stage = step % kReadStages, columns = m.k_dim - c;
      if (kind == 0) {
        load(tile(stage, 0), a.o.q + q_at + c, q_stride, rows, columns);
        load(tile(stage, 1), keys + c, std::size_t(m.k_dim), m.memory, columns);
        load(tile(stage, 2), a.o.k + k_at + c, k_stride, rows, columns);
      } else if (kind == 1) {
        load(tile(stage, 0), a.o.q_turned + q_at + c, q_stride, rows, columns);
        load(tile(stage, 1), a.o.k_turned + kChunk * k_stride + k_at + c, k_stride, rows, columns);
        load(tile(stage, 2), a.o.k_turned + k_at + c, k_stride, kTile, columns);
      } else {
        load(tile(stage, 0), a.o.q_near + q_at + c, q_stride, rows, columns);
        load_tile<kReadThreads, kMostSinks, kTile, kPad>(
            tile(stage, 1), a.o.k_sink + std::size_t(head) * m.k_dim + c, k_stride, m.sinks,
            columns);
      }
    }
    copy_commit();
  };
  load(weights, a.o.write + at * kTile * kTile, kTile, kTile, kTile);
  fetch_keys(0);
  fetch_keys(1);

  float sum[8][4] = {};                      // of the memory; the partner's: of the chunk
  float aside[kPositional ? 8 : 1][4] = {};  // window in the chunk; the partner's: before it
  float sinks[kPositional ? 2 : 1][4] = {};  // both
  for (int step = 0; step < score_steps; ++step) {
    copy_wait<1>();
    __syncthreads();
    fetch_keys(step + 2);  // into the stage that the step before this one has left
    const int kind = kPositional ? step / key_steps : 0, stage = step % kReadStages;
    if (kind == 0) {
#pragma unroll
      for (int k = 0; k < kTile; k += 16) {
        std::uint32_t fl[4], fr[4];
        left<kPad>(fl, tile(stage, 0), row0, k);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          if (part == 1 && n > group) continue;  // later tokens are not read
          right<kPad>(fr, tile(stage, 1 + part), n * 16, k);
          mma_bf16(sum[2 * n], fl, fr[0], fr[1]);
          mma_bf16(sum[2 * n + 1], fl, fr[2], fr[3]);
        }
      }
    }
    if constexpr (kPositional) {
      if (kind == 1) {
#pragma unroll
        for (int k = 0; k < kTile; k += 16) {
          std::uint32_t fl[4], fr[4];
          left<kPad>(fl, tile(stage, 0), row0, k);
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            if (part == 0 ? n > group : n < group) continue;  // the window is at most 64 wide
            right<kPad>(fr, tile(stage, 1 + part), n * 16, k);
            mma_bf16(aside[2 * n], fl, fr[0], fr[1]);
            mma_bf16(aside[2 * n + 1], fl, fr[2], fr[3]);
          }
        }
      } else if (kind == 2) {
#pragma unroll
        for (int k = 0; k < kTile; k += 16) {
          std::uint32_t fl[4], fr[4];
          left<kPad>(fl, tile(stage, 0), row0, k);
          right<kPad>(fr, tile(stage, 1), 0, k);
          mma_bf16(sinks[0], fl, fr[0], fr[1]);
          mma_bf16(sinks[1], fl, fr[2], fr[3]);
        }
      }
    }
  }
  copy_wait<0>();
  __syncthreads();  // the ring is free

  // Element (n, e) of sums: row row_at(e), column n*8 + quad + e%2.
  const auto row_at = [&](int e) { return row0 + (e >> 1) * 8 + (lane >> 2); };
  const auto column_at = [&](int n, int e) { return n * 8 + quad + (e & 1); };
  const Exact exact{
      .g = rise,
      .gate = a.o.gates + std::size_t(chunk * kChunk) * a.o.gate_stride + head * m.memory,
      .stride = std::size_t(a.o.gate_stride),
      .rows = rows,
      .memory = m.memory};
  const auto risen = [&](int n, int e) {  // of e and e + 1
    return *reinterpret_cast<const float2*>(rise + row_at(e) * kTile + n * 8 + quad);
  };

  // 2. The memory's scores: its own, and what tokens of the chunk add to it.
  if (part == 0) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 c = *reinterpret_cast<const float2*>(centre + n * 8 + quad);
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float2 up = risen(n, e);
        sum[n][e] *= strong ? exp2f(up.x) : c.x * up.x;
        sum[n][e + 1] *= strong ? exp2f(up.y) : c.y * up.y;
      }
    }
  } else {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (column_at(n, e) > row_at(e)) sum[n][e] = 0.0F;
      }
    }
    if (!strong) {
      std::uint32_t of_chunk[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) as_left(of_chunk[i], sum[2 * i], sum[2 * i + 1]);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[n][e] = 0.0F;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i > group) continue;
        std::uint32_t fr[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          right_transposed<kPad>(fr, weights, n * 16, i * 16);
          mma_bf16(sum[2 * n], of_chunk[i], fr[0], fr[1]);
          mma_bf16(sum[2 * n + 1], of_chunk[i], fr[2], fr[3]);
        }
      }
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const float2 up = risen(n, e);
          sum[n][e] *= up.x, sum[n][e + 1] *= up.y;
        }
      }
    } else {
      auto* scores = reinterpret_cast<float*>(dynamic + 2 * kTrade);  // [64][kExact]
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[row_at(e) * kExact + column_at(n, e)] = sum[n][e];
      }
      __syncwarp();  // a warp reads its own rows only
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int t = row_at(e), slot = column_at(n, e);
          const float g = exact.running(t, slot);
          float total = 0.0F;
          for (int j = 0; j <= t; ++j) {
            total = fmaf(scores[t * kExact + j] * exact.written(j, slot),
                         exp2f(g - exact.running(j, slot)), total);
          }
          sum[n][e] = total;
        }
      }
    }
  }
  {
    auto* mine = reinterpret_cast<float*>(dynamic) + tid;
    const auto* other = reinterpret_cast<const float*>(dynamic) + (tid ^ 128);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      mine[i * kReadThreads] = sum[i / 4][i % 4];
      if constexpr (kPositional) mine[(32 + i) * kReadThreads] = aside[i / 4][i % 4];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; ++i) sum[i / 4][i % 4] += other[i * kReadThreads];
  }
  float near[kPositional ? 8 : 1][4], before[kPositional ? 8 : 1][4];
  if constexpr (kPositional) {
    const auto* other = reinterpret_cast<const float*>(dynamic) + (tid ^ 128) + 32 * kReadThreads;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const float mine = aside[i / 4][i % 4], theirs = other[i * kReadThreads];
      near[i / 4][i % 4] = part == 0 ? mine : theirs;
      before[i / 4][i % 4] = part == 0 ? theirs : mine;
    }
  }
  __syncthreads();

  // Values travel during the softmax.
  const auto fetch_values = [&](int step) {
    if (step < value_steps) {
      const int stage = step % kReadStages, c = step * kTile, columns = m.v_dim - c;
      const std::size_t own_at = v_at + (kPositional ? kChunk * v_stride : 0) + std::size_t(c);
      load(tile(stage, 0), values + c, std::size_t(m.v_dim), m.memory, columns);
      load(tile(stage, 1), a.o.v + own_at, v_stride, rows, columns);
      if constexpr (kPositional) {
        load(tile(stage, 2), a.o.v + v_at + c, v_stride, kTile, columns);
        load_tile<kReadThreads, kMostSinks, kTile, kPad>(
            tile(stage, 3), a.o.v_sink + std::size_t(head) * m.v_dim + c, v_stride, m.sinks,
            columns);
      }
    }
    copy_commit();
  };
  if (!strong) {
    fetch_values(0);
    fetch_values(1);
  }

  const float head_bias = m.head_read_bias != nullptr ? m.head_read_bias[query] : 0.0F;
  float peak[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int t = row_at(e), c = column_at(n, e);
      float v = -INFINITY;
      if (c < m.memory) {
        v = m.scale * sum[n][e] + head_bias;
        if (m.read_bias != nullptr) v += m.read_bias[head * m.memory + c];
      }
      sum[n][e] = v;
      peak[e >> 1] = fmaxf(peak[e >> 1], v);
      if constexpr (kPositional) {
        // Key c of the chunk has position first + c, of the rows before first + c - 64.
        const bool in_own = c <= t && t - c < m.window && first + c >= std::uint64_t(m.sinks);
        const bool in_before = t - c + kChunk < m.window &&
                               first + c >= std::uint64_t(kChunk) + std::uint64_t(m.sinks);
        near[n][e] = in_own ? m.scale * near[n][e] : -INFINITY;
        before[n][e] = in_before ? m.scale * before[n][e] : -INFINITY;
        peak[e >> 1] = fmaxf(peak[e >> 1], fmaxf(near[n][e], before[n][e]));
        if (n < 2) {
          const bool valid = c < m.sinks && std::uint64_t(c) <= first + std::uint64_t(t);
          sinks[n][e] = valid ? m.scale * sinks[n][e] : -INFINITY;
          peak[e >> 1] = fmaxf(peak[e >> 1], sinks[n][e]);
        }
      }
    }
  }

  // 3. One softmax per row.
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float top = row_max(peak[half]);
    float total = 0.0F;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        total += sum[n][e] = __expf(sum[n][e] - top);
        if constexpr (kPositional) {
          total += near[n][e] = __expf(near[n][e] - top);
          total += before[n][e] = __expf(before[n][e] - top);
          if (n < 2) total += sinks[n][e] = __expf(sinks[n][e] - top);
        }
      }
    }
    inverse[half] = 1.0F / row_sum(total);
  }

  // 4. Weights of the values as left operands: of the memory, the chunk's tokens, those before it, the sinks.
  std::uint32_t of_memory[4][4], of_own[4][4];
  std::uint32_t of_before[kPositional ? 4 : 1][4], of_sinks[4];
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum[n][e] *= inverse[e >> 1];
      if constexpr (kPositional) {
        near[n][e] *= inverse[e >> 1];
        before[n][e] *= inverse[e >> 1];
        if (n < 2) sinks[n][e] *= inverse[e >> 1];
      }
    }
  }
  if constexpr (kPositional) {
#pragma unroll
    for (int i = 0; i < 4; ++i) as_left(of_before[i], before[2 * i], before[2 * i + 1]);
    as_left(of_sinks, sinks[0], sinks[1]);
  }
  // The weights of 16 tokens of the chunk from sums of two blocks of eight.
  const auto finish = [&](int i, float(&low)[4], float(&high)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (column_at(2 * i, e) > row_at(e)) low[e] = 0.0F;
      if (column_at(2 * i + 1, e) > row_at(e)) high[e] = 0.0F;
      if constexpr (kPositional) low[e] += near[2 * i][e], high[e] += near[2 * i + 1][e];
    }
    as_left(of_own[i], low, high);
  };
  if (!strong) {
    std::uint32_t lifted[4][4];  // p rise
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float whole[2][4];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int n = 2 * i + b;
        const float2 c = *reinterpret_cast<const float2*>(centre + n * 8 + quad);
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const float2 up = risen(n, e);
          sum[n][e] *= up.x, sum[n][e + 1] *= up.y;
          whole[b][e] = sum[n][e] * c.x, whole[b][e + 1] = sum[n][e + 1] * c.y;
        }
      }
      as_left(of_memory[i], whole[0], whole[1]);
      as_left(lifted[i], sum[2 * i], sum[2 * i + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float low[4] = {}, high[4] = {};
      if (i <= group) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          std::uint32_t fr[4];
          right<kPad>(fr, weights, i * 16, k * 16);
          mma_bf16(low, lifted[k], fr[0], fr[1]);
          mma_bf16(high, lifted[k], fr[2], fr[3]);
        }
      }
      finish(i, low, high);
    }
  } else {
    auto* scores = reinterpret_cast<float*>(dynamic) + warp * 16 * kExact;  // [16][kExact]
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float whole[2][4];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int n = 2 * i + b, t = row_at(e), slot = column_at(n, e);
          scores[(t - row0) * kExact + slot] = sum[n][e];
          whole[b][e] = sum[n][e] * exp2f(exact.running(t, slot));
        }
      }
      as_left(of_memory[i], whole[0], whole[1]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float two[2][4] = {};
#pragma unroll
      for (int b = 0; b < 2; ++b) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int t = row_at(e), j = column_at(2 * i + b, e);
          for (int slot = 0; j <= t && slot < m.memory; ++slot) {
            two[b][e] = fmaf(scores[(t - row0) * kExact + slot] * exact.written(j, slot),
                             exp2f(exact.running(t, slot) - exact.running(j, slot)), two[b][e]);
          }
        }
      }
      finish(i, two[0], two[1]);
    }
    __syncthreads();  // the rows give way to values
    fetch_values(0);
    fetch_values(1);
  }

  // 5. Outputs, 64 columns at a time, 32 per warp.
  const int column0 = part * 32;
  for (int step = 0; step < value_steps; ++step) {
    copy_wait<1>();
    __syncthreads();
    fetch_values(step + 2);
    const int stage = step % kReadStages, c0 = step * kTile, columns = min(kTile, m.v_dim - c0);
    float acc[4][4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      std::uint32_t fr[4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        right_transposed<kPad>(fr, tile(stage, 0), column0 + n * 16, i * 16);
        mma_bf16(acc[2 * n], of_memory[i], fr[0], fr[1]);
        mma_bf16(acc[2 * n + 1], of_memory[i], fr[2], fr[3]);
        if (i <= group) {
          right_transposed<kPad>(fr, tile(stage, 1), column0 + n * 16, i * 16);
          mma_bf16(acc[2 * n], of_own[i], fr[0], fr[1]);
          mma_bf16(acc[2 * n + 1], of_own[i], fr[2], fr[3]);
        }
        if constexpr (kPositional) {
          if (i >= group) {
            right_transposed<kPad>(fr, tile(stage, 2), column0 + n * 16, i * 16);
            mma_bf16(acc[2 * n], of_before[i], fr[0], fr[1]);
            mma_bf16(acc[2 * n + 1], of_before[i], fr[2], fr[3]);
          }
          if (i == 0) {
            right_transposed<kPad>(fr, tile(stage, 3), column0 + n * 16, 0);
            mma_bf16(acc[2 * n], of_sinks, fr[0], fr[1]);
            mma_bf16(acc[2 * n + 1], of_sinks, fr[2], fr[3]);
          }
        }
      }
    }
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const int t = row_at(e);
      const std::size_t to = std::size_t(first_row + t) * (std::size_t(m.heads) * m.v_dim) +
                             std::size_t(query) * m.v_dim + c0;
      write_row(a, acc, e, to, column0, columns, t < rows);
    }
  }
}

template <bool kPositional>
cudaError_t allow() {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&read_kernel<kPositional>),
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              ReadShared<kPositional>::kBytes);
}

}  // namespace

cudaError_t prepare_slot_read() {
  if (cudaError_t e = allow<false>(); e != cudaSuccess) return e;
  return allow<true>();
}

cudaError_t slot_read(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                      const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, pass, o);
  const dim3 grid(unsigned(a.chunks), unsigned(m.heads));
  if (m.sinks + m.window > 0)
    return launch(l, read_kernel<true>, grid, kReadThreads, ReadShared<true>::kBytes, 1, a);
  return launch(l, read_kernel<false>, grid, kReadThreads, ReadShared<false>::kBytes, 1, a);
}

}  // namespace runnel::cuda
