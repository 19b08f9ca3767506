// SPDX-License-Identifier: Apache-2.0
// The memory slots at the start of every chunk: h' = 2^G_last h + sum_j (s_j 2^(G_last - G_j))
// x_j^T, and after the last one, in the state.
//
// A block keeps 64 slots x 32 channels of one head's keys or values in f32 registers and walks the
// chunks; its operands are five chunks ahead in shared memory, so a chunk costs a block 16 products
// of 16 x 8 x 16 a warp and one barrier. Nothing but the memory at chunk starts is stored, in bf16,
// as the reading products take it. Blocks past those write the state's positional slots.
#include "cuda/device/launch.cuh"
#include "cuda/device/slot_tiles.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 32;
constexpr int kColumnPad = 40;  // 80 bytes a row: no bank conflicts for ldmatrix
constexpr int kStages = 5;
constexpr int kStageBytes = kTileBytes + kTile * kColumnPad * 2 + kTile * 4;
constexpr int kShared = kStages * kStageBytes;

/// The newest token of the pass that belongs to a positional slot overwrites it.
__device__ void write_positional(const ChunkArgs& a, int slot, float2* rotation) {
  const SlotMixer& m = a.m;
  const std::uint64_t start = a.segment.position, end = start + std::uint64_t(a.segment.count);
  std::uint64_t position = std::uint64_t(slot);
  if (slot >= m.sinks) {
    const std::uint64_t w = std::uint64_t(slot - m.sinks), window = std::uint64_t(m.window),
                        s = std::uint64_t(m.sinks);
    if (end <= s + w) return;  // not reached yet
    position = s + w + (end - 1 - s - w) / window * window;
  }
  if (position < start || position >= end) return;
  fill_rotation(m, position, rotation);
  __syncthreads();
  const float* k = row_of(a, int(position - start)) + m.heads * m.k_dim;
  const float* v = k + m.kv_heads * m.k_dim;
  for (int i = int(threadIdx.x); i < m.kv_heads * m.k_dim; i += kThreads) {
    const int head = i / m.k_dim, c = i % m.k_dim;
    a.segment.state_out[m.layer_offset + std::size_t(head) * m.head_floats +
                        std::size_t(slot) * m.k_dim + c] = rotated(k + i - c, c, m.k_dim, rotation);
  }
  for (int i = int(threadIdx.x); i < m.kv_heads * m.v_dim; i += kThreads) {
    const int head = i / m.v_dim, c = i % m.v_dim;
    a.segment.state_out[m.layer_offset + std::size_t(head) * m.head_floats +
                        std::size_t(a.slots()) * m.k_dim + std::size_t(slot) * m.v_dim + c] = v[i];
  }
}

__global__ void __launch_bounds__(kThreads)
    states_kernel(const __grid_constant__ ChunkArgs a, int memory_blocks, int key_tiles) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  if (int(blockIdx.x) >= memory_blocks) {
    write_positional(a, int(blockIdx.x) - memory_blocks, reinterpret_cast<float2*>(dynamic));
    return;
  }
  const int head = int(blockIdx.x) % m.kv_heads, tile = int(blockIdx.x) / m.kv_heads;
  const bool keys = tile < key_tiles;
  const int column0 = (keys ? tile : tile - key_tiles) * kColumns;
  const int dim = keys ? m.k_dim : m.v_dim, columns = min(kColumns, dim - column0);
  const std::size_t x_stride = std::size_t(m.kv_heads) * dim;
  const std::uint16_t* x =
      (keys ? a.o.k : a.o.v + std::size_t(a.positional() > 0 ? kChunk : 0) * x_stride) +
      std::size_t(head) * dim + column0;
  const int tid = int(threadIdx.x), warp = tid >> 5, lane = tid & 31;
  const int row0 = warp * 16, slot = row0 + (lane >> 2), column = (lane & 3) * 2;

  const auto carry_of = [&](int stage) {
    return reinterpret_cast<std::uint16_t*>(dynamic + stage * kStageBytes);
  };
  const auto x_of = [&](int stage) {
    return reinterpret_cast<std::uint16_t*>(dynamic + stage * kStageBytes + kTileBytes);
  };
  const auto decay_of = [&](int stage) {
    return reinterpret_cast<float*>(dynamic + stage * kStageBytes + kTileBytes +
                                    kTile * kColumnPad * 2);
  };
  const auto fetch = [&](int chunk) {
    if (chunk < a.chunks) {
      const int stage = chunk % kStages;
      const std::size_t at = std::size_t(chunk) * m.kv_heads + head;
      load_tile<kThreads, kTile, kTile, kPad>(carry_of(stage), a.o.carry + at * kTile * kTile,
                                              kTile, kTile, kTile);
      load_tile<kThreads, kTile, kColumns, kColumnPad>(
          x_of(stage), x + std::size_t(chunk) * kChunk * x_stride, x_stride,
          a.segment.count - chunk * kChunk, columns);
      if (tid < kTile / 4)
        copy16(shared_address(decay_of(stage) + tid * 4), a.o.decay + at * kTile + tid * 4, true);
    }
    copy_commit();
  };
#pragma unroll
  for (int c = 0; c < kStages - 1; ++c) fetch(c);

  const std::size_t memory_at =
      m.layer_offset + std::size_t(head) * m.head_floats +
      (keys ? std::size_t(a.positional()) * m.k_dim
            : std::size_t(a.slots()) * m.k_dim + std::size_t(a.positional()) * m.v_dim) +
      std::size_t(column0);
  float h[4][4] = {};
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const int s = slot + e * 4, c = n * 8 + column;
      if (s < m.memory && c < columns) {
        const float2 v = *reinterpret_cast<const float2*>(a.segment.state_in + memory_at +
                                                          std::size_t(s) * dim + c);
        h[n][e] = v.x, h[n][e + 1] = v.y;
      }
    }
  }

  std::uint16_t* out = (keys ? a.o.keys : a.o.values) + std::size_t(head) * kTile * dim + column0;
  for (int chunk = 0; chunk < a.chunks; ++chunk) {
    const int stage = chunk % kStages;
    copy_wait<kStages - 2>();
    __syncthreads();
    fetch(chunk + kStages - 1);  // into the stage that the chunk before this one has left
    std::uint16_t* to = out + std::size_t(chunk) * m.kv_heads * kTile * dim;
    const float decay[2] = {decay_of(stage)[slot], decay_of(stage)[slot + 8]};
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const int s = slot + e * 4;
#pragma unroll
      for (int n = 0; n < 4; n += 2) {
        // Lanes trade halves so that each stores eight bytes.
        const std::uint32_t first = pack_bf16(h[n][e], h[n][e + 1]),
                            second = pack_bf16(h[n + 1][e], h[n + 1][e + 1]);
        const bool odd = (lane & 1) != 0;
        const std::uint32_t got = __shfl_xor_sync(~0U, odd ? first : second, 1);
        const int c = n * 8 + (odd ? 8 + 2 * ((lane & 3) - 1) : column);
        if (s < m.memory && c < columns) {
          *reinterpret_cast<uint2*>(to + std::size_t(s) * dim + c) =
              odd ? make_uint2(got, second) : make_uint2(first, got);
        }
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) h[n][e] *= decay[e / 2], h[n][e + 1] *= decay[e / 2];
    }
#pragma unroll
    for (int k = 0; k < kTile; k += 16) {
      std::uint32_t fl[4], fr[4];
      left_transposed<kPad>(fl, carry_of(stage), row0, k);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        right_transposed<kColumnPad>(fr, x_of(stage), n * 16, k);
        mma_bf16(h[2 * n], fl, fr[0], fr[1]);
        mma_bf16(h[2 * n + 1], fl, fr[2], fr[3]);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const int s = slot + e * 4, c = n * 8 + column;
      if (s < m.memory && c < columns) {
        *reinterpret_cast<float2*>(a.segment.state_out + memory_at + std::size_t(s) * dim + c) =
            make_float2(h[n][e], h[n][e + 1]);
      }
    }
  }
}

}  // namespace

cudaError_t prepare_slot_states() {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&states_kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
}

cudaError_t slot_states(const Launch& l, const SlotMixer& m, const Segment& segment,
                        const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, segment, o);
  const int key_tiles = (m.k_dim + kColumns - 1) / kColumns,
            value_tiles = (m.v_dim + kColumns - 1) / kColumns;
  const int memory_blocks = (key_tiles + value_tiles) * m.kv_heads;
  return launch(l, states_kernel, dim3(unsigned(memory_blocks + m.sinks + m.window)), kThreads,
                kShared, 1, a, memory_blocks, key_tiles);
}

}  // namespace runnel::cuda
