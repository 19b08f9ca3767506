// SPDX-License-Identifier: Apache-2.0
// The sums of broad_slot_read.cu with every tile of a chunk and kv head in shared memory at once, 223 KB: fetched once
// for all query heads, one barrier. Then every warp takes 16 tokens of one head after the other, with its queries in
// registers, and waits for no other warp. Heads of 64 channels that need no map. Bound: products, 29 of 64 x 64 x 64 a chunk and head.
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/broad_slots.cuh"

namespace runnel::cuda {
namespace {

constexpr int kWarps =
    12;  // more have no registers left: a quarter of the multiprocessor has room for 3 x 168
constexpr int kThreads = 32 * kWarps;
constexpr int kBlocks = kBroadMemory / kTile;
constexpr int kSteps = kTile / 16;
constexpr int kTiles = 1 + 4 * kBlocks + 3 * (kBefore + 1);
constexpr int kSinkBytes = kMostSinks * kPad * 2;
constexpr int kBytes = kTiles * kTileBytes + 3 * kSinkBytes;

/// A tile in shared memory: the chunk's keys; of 64 memory slots keys, what those lose, W, values; of 64 keys of the
/// window, which ends with the chunk, keys, what those lose, values.
__device__ __forceinline__ std::uint16_t* tile_at(unsigned char* shared, int i) {
  return reinterpret_cast<std::uint16_t*>(shared + i * kTileBytes);
}
__device__ __forceinline__ int memory_tile(int block, int i) { return 1 + 4 * block + i; }
__device__ __forceinline__ int window_tile(int tile, int i) {
  return 1 + 4 * kBlocks + 3 * tile + i;
}
__device__ __forceinline__ std::uint16_t* sink_tile(unsigned char* shared, int i) {
  return reinterpret_cast<std::uint16_t*>(shared + kTiles * kTileBytes + i * kSinkBytes);
}

/// A chunk of a kv head.
struct Chunk {
  int index, head, rows;
  std::uint64_t first;  // position of row 0
  int blocks;           // of 64 memory slots
  int first_tile;       // of the window, 0 … kBefore
  __device__ Chunk(const ChunkArgs& a, int chunk, int kv_head)
      : index(chunk),
        head(kv_head),
        rows(min(kChunk, a.tokens - chunk * kChunk)),
        first(a.segment->position + std::uint64_t(chunk) * kChunk),
        blocks(a.slot_blocks()),
        first_tile(kBefore) {
    while (a.m.window > 0 && first_tile > 0) {
      const int back = kTile * (kBefore - first_tile + 1);  // of the tile before
      if (back - (kTile - 1) >= a.m.window || first + kTile <= std::uint64_t(back)) break;
      --first_tile;
    }
  }
};

__device__ __forceinline__ void fetch_all(const ChunkArgs& a, const Chunk& c,
                                          unsigned char* shared) {
  const SlotMixer& m = a.m;
  const int k_columns = m.kv_heads * kTile, v_columns = m.kv_heads * kTile;
  const std::size_t token = std::size_t(c.index) * kChunk;
  const auto load = [&](int i, const std::uint16_t* from, int stride, int rows, int columns) {
    load_tile<kThreads, kTile, kTile, kPad>(tile_at(shared, i), from, std::size_t(stride), rows,
                                            columns);
  };
  load(0, a.o.k + token * k_columns + c.head * kTile, k_columns, c.rows, kTile);
#pragma unroll 1
  for (int b = 0; b < c.blocks; ++b) {
    const std::size_t at = (std::size_t(c.index) * m.kv_heads + c.head) * c.blocks + std::size_t(b);
    const int slots = min(kTile, m.memory - b * kTile);
    load(memory_tile(b, 0), a.o.keys + at * kTile * kTile, kTile, slots, kTile);
    load(memory_tile(b, 1), a.o.keys_low + at * kTile * kTile, kTile, slots, kTile);
    load(memory_tile(b, 2), a.o.write + at * kTile * kTile, kTile, kTile, kTile);
    load(memory_tile(b, 3), a.o.values + at * kTile * kTile, kTile, slots, kTile);
  }
  const int before = a.positional() > 0 ? kBroadWindow : 0;  // rows before the first token
  const std::size_t own = token + std::size_t(before);
  load(window_tile(kBefore, 2), a.o.v + own * v_columns + c.head * kTile, v_columns, c.rows, kTile);
  if (m.sinks > 0) {
    const auto sinks = [&](int i, const std::uint16_t* from, int stride, int columns) {
      load_tile<kThreads, kMostSinks, kTile, kPad>(sink_tile(shared, i), from, std::size_t(stride),
                                                   m.sinks, columns);
    };
    sinks(0, a.o.k_sink + c.head * kTile, k_columns, kTile);
    sinks(1, a.o.k_sink_low + c.head * kTile, k_columns, kTile);
    sinks(2, a.o.v_sink + c.head * kTile, v_columns, kTile);
  }
  if (m.window > 0) {
#pragma unroll 1
    for (int i = c.first_tile; i <= kBefore; ++i) {
      const std::size_t row = token + std::size_t(i) * kTile;
      const int rows = i == kBefore ? c.rows : kTile;
      const std::size_t k_at = row * k_columns + c.head * kTile;
      load(window_tile(i, 0), a.o.k_turned + k_at, k_columns, rows, kTile);
      load(window_tile(i, 1), a.o.k_turned_low + k_at, k_columns, rows, kTile);
      if (i < kBefore)
        load(window_tile(i, 2), a.o.v + row * v_columns + c.head * kTile, v_columns, rows, kTile);
    }
  }
  copy_commit();
}

/// 16 tokens of a query head, from row0 of the chunk on, in a warp.
struct WholeReader {
  const ChunkArgs& a;
  const SlotMixer& m;
  const Chunk& c;
  unsigned char* shared;
  int query, row0;
  float scale;                                              // of scores in bits
  std::uint32_t high[kSteps][4] = {}, low[kSteps][4] = {};  // queries as left operands
  float common[2] = {};                                     // q b
  OnlineRows rows = {};

  __device__ __forceinline__ int lane() const { return int(threadIdx.x) & 31; }
  __device__ __forceinline__ int group() const { return row0 / 16; }
  __device__ __forceinline__ int quad() const { return (int(threadIdx.x) & 3) * 2; }
  __device__ __forceinline__ int row_at(int e) const { return row0 + (e >> 1) * 8 + (lane() >> 2); }

  /// Queries to operands; without a turn q b, too. Rows past the last token take its own.
  template <Turn kTurn>
  __device__ __forceinline__ void take_queries() {
    constexpr int kHalf = kTile / 2;
    float with_bias[2] = {};
    const float* const k_bias = m.k_bias != nullptr ? m.k_bias + c.head * kTile + quad() : nullptr;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int t = row_at(2 * r), token = c.index * kChunk + min(t, c.rows - 1);
      const float* const q = row_of(a, token) + query * kTile + quad();
      const bool far =
          kTurn == Turn::near && c.first + std::uint64_t(t) > std::uint64_t(m.sink_distance);
      const float2* const turns =
          a.o.rotation + std::size_t(far ? a.tokens : token) * kHalf + quad();
#pragma unroll
      for (int k = 0; k < kSteps / 2; ++k) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          const int at = k * 16 + b * 8;  // a pair of channels and the one it is turned with
          float2 x = channels(q, at), y = channels(q, at + kHalf);
          if constexpr (kTurn == Turn::none) {
            if (k_bias != nullptr) {
              const float2 v = *reinterpret_cast<const float2*>(k_bias + at),
                           w = *reinterpret_cast<const float2*>(k_bias + at + kHalf);
              with_bias[r] = fmaf(x.x, v.x, fmaf(x.y, v.y, with_bias[r]));
              with_bias[r] = fmaf(y.x, w.x, fmaf(y.y, w.y, with_bias[r]));
            }
          } else {
            const float4 turn = *reinterpret_cast<const float4*>(turns + at);
            const float2 one = x;
            x.x = one.x * turn.x - y.x * turn.y, x.y = one.y * turn.z - y.y * turn.w;
            y.x = y.x * turn.x + one.x * turn.y, y.y = y.y * turn.z + one.y * turn.w;
          }
          put(k, 2 * b + r, x);
          put(k + kSteps / 2, 2 * b + r, y);
        }
      }
    }
    if constexpr (kTurn == Turn::none)
      common[0] = row_sum(with_bias[0]), common[1] = row_sum(with_bias[1]);
  }
  __device__ __forceinline__ void put(int k, int i, float2 v) {
    const std::uint32_t rounded = pack_bf16(v.x, v.y);
    high[k][i] = rounded;
    low[k][i] = pack_bf16(v.x - bf16_low(rounded), v.y - bf16_high(rounded));
  }
  /// Channels quad() + `at`, + 1 of a query.
  __device__ __forceinline__ float2 channels(const float* q, int at) const {
    float2 v = *reinterpret_cast<const float2*>(q + at);
    if (m.qkv_bias != nullptr) {
      const float2 w = *reinterpret_cast<const float2*>(m.qkv_bias + query * kTile + quad() + at);
      v.x += w.x, v.y += w.y;
    }
    return v;
  }

  /// multiply_split of broad_slots.cuh with the queries as they are.
  template <int kWide, class Wanted>
  __device__ __forceinline__ void multiply(float (&sum)[kWide][4], const std::uint16_t* b_high,
                                           const std::uint16_t* b_low, const Wanted& wanted) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      std::uint32_t right_of[4];
#pragma unroll
      for (int n = 0; n < kWide / 2; ++n) {
        if (!wanted(n)) continue;
        right<kPad>(right_of, b_low, n * 16, k * 16);
        mma_bf16(sum[2 * n], high[k], right_of[0], right_of[1]);
        mma_bf16(sum[2 * n + 1], high[k], right_of[2], right_of[3]);
        right<kPad>(right_of, b_high, n * 16, k * 16);
        mma_bf16(sum[2 * n], low[k], right_of[0], right_of[1]);
        mma_bf16(sum[2 * n + 1], low[k], right_of[2], right_of[3]);
        mma_bf16(sum[2 * n], high[k], right_of[0], right_of[1]);
        mma_bf16(sum[2 * n + 1], high[k], right_of[2], right_of[3]);
      }
    }
  }

  /// tril(q k'^T) of the chunk, as the left operand of what it writes.
  __device__ __forceinline__ void score_chunk(std::uint32_t (&of_chunk)[4][4]) {
    const std::uint16_t* keys = tile_at(shared, 0);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      float sum[2][4] = {};
      if (n <= group()) {  // later tokens are not read
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
          std::uint32_t fr[4];
          right<kPad>(fr, keys, n * 16, k * 16);
          mma_bf16(sum[0], high[k], fr[0], fr[1]);
          mma_bf16(sum[1], high[k], fr[2], fr[3]);
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = n * 16 + quad() + (e & 1);
        if (j > row_at(e)) sum[0][e] = 0.0F;
        if (j + 8 > row_at(e)) sum[1][e] = 0.0F;
      }
      as_left(of_chunk[n], sum[0], sum[1]);
    }
  }

  /// Reads 64 memory slots and what the chunk's tokens have written to them.
  __device__ __forceinline__ void read_memory(int block, const std::uint32_t (&of_chunk)[4][4]) {
    const std::size_t at = (std::size_t(c.index) * m.kv_heads + c.head) * c.blocks + block;
    const float* const rise = a.o.rise + at * kTile * kTile + quad();
    const float* const centre = a.o.centre + at * kTile + quad();
    const std::uint16_t* const writes = tile_at(shared, memory_tile(block, 2));
    const int slots = min(kTile, m.memory - block * kTile);
    const float* const read_bias =
        m.read_bias != nullptr ? m.read_bias + c.head * m.memory + block * kTile : nullptr;
    const float head_bias = (m.head_read_bias != nullptr ? m.head_read_bias[query] : 0.0F) * kLog2E;
    const auto risen = [&](int n, int e) {
      return *reinterpret_cast<const float2*>(rise + row_at(e) * kTile + n * 8);
    };
    float s[8][4] = {};
    multiply(s, tile_at(shared, memory_tile(block, 0)), tile_at(shared, memory_tile(block, 1)),
             [](int) { return true; });
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 up = *reinterpret_cast<const float2*>(centre + n * 8);
#pragma unroll
      for (int e = 0; e < 4; e += 2) s[n][e] *= up.x, s[n][e + 1] *= up.y;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i > group()) continue;
      std::uint32_t fr[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        right_transposed<kPad>(fr, writes, n * 16, i * 16);
        mma_bf16(s[2 * n], of_chunk[i], fr[0], fr[1]);
        mma_bf16(s[2 * n + 1], of_chunk[i], fr[2], fr[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int slot = n * 8 + quad();
      float2 bias = make_float2(head_bias, head_bias);
      if (read_bias != nullptr) {
        if (slot < slots) bias.x = fmaf(read_bias[slot], kLog2E, bias.x);
        if (slot + 1 < slots) bias.y = fmaf(read_bias[slot + 1], kLog2E, bias.y);
      }
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float2 up = risen(n, e);
        const float with_all = common[e >> 1];
        s[n][e] = slot < slots ? fmaf(fmaf(s[n][e], up.x, with_all), scale, bias.x) : -INFINITY;
        s[n][e + 1] =
            slot + 1 < slots ? fmaf(fmaf(s[n][e + 1], up.y, with_all), scale, bias.y) : -INFINITY;
      }
    }
    rows.weigh(s);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float whole[2][4];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const int n = 2 * i + b;
        const float2 up = *reinterpret_cast<const float2*>(centre + n * 8);
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const float2 own = risen(n, e);
          s[n][e] *= own.x, s[n][e + 1] *= own.y;  // p rise
          whole[b][e] = s[n][e] * up.x, whole[b][e + 1] = s[n][e + 1] * up.y;
        }
      }
      std::uint32_t of_memory[4];
      as_left(of_memory, whole[0], whole[1]);
      rows.read(of_memory, tile_at(shared, memory_tile(block, 3)), i * 16);
    }
    std::uint32_t lifted[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) as_left(lifted[i], s[2 * i], s[2 * i + 1]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i > group()) continue;
      float one[4] = {}, two[4] = {};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        std::uint32_t fr[4];
        right<kPad>(fr, writes, i * 16, k * 16);
        mma_bf16(one, lifted[k], fr[0], fr[1]);
        mma_bf16(two, lifted[k], fr[2], fr[3]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = i * 16 + quad() + (e & 1);
        if (j > row_at(e)) one[e] = 0.0F;
        if (j + 8 > row_at(e)) two[e] = 0.0F;
      }
      std::uint32_t of_own[4];
      as_left(of_own, one, two);
      rows.read(of_own, tile_at(shared, window_tile(kBefore, 2)), i * 16);
    }
  }

  __device__ __forceinline__ void read_sinks() {
    float s[2][4] = {};
    multiply(s, sink_tile(shared, 0), sink_tile(shared, 1), [](int) { return true; });
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int slot = n * 8 + quad() + (e & 1);
        const bool valid =
            slot < m.sinks && std::uint64_t(slot) <= c.first + std::uint64_t(row_at(e));
        s[n][e] = valid ? scale * s[n][e] : -INFINITY;
      }
    }
    rows.weigh(s);
    std::uint32_t weights[4];
    as_left(weights, s[0], s[1]);
    rows.read(weights, sink_tile(shared, 2), 0);
  }

  __device__ __forceinline__ void read_window() {
    // Positions before the first token, and sinks, are no keys of the window.
    const int sinks_end = m.sinks - int(c.first < (1U << 20) ? c.first : std::uint64_t(1U << 20));
#pragma unroll 1
    for (int i = c.first_tile; i <= kBefore; ++i) {
      const int ahead = (i - kBefore) * kTile;  // of the tile's first key over row 0
      // Of keys n*16 … n*16+15: some are neither later than all of the warp's rows nor too far back.
      const auto wanted = [&](int n) {
        const int key = ahead + n * 16;
        return key <= row0 + 15 && row0 - (key + 15) < m.window;
      };
      float s[8][4] = {};
      multiply(s, tile_at(shared, window_tile(i, 0)), tile_at(shared, window_tile(i, 1)), wanted);
      // All of the tile is of every row's window: those in the middle.
      if (ahead + kTile - 1 <= row0 && row0 + 15 - ahead < m.window && ahead >= sinks_end) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) s[n][e] *= scale;
        }
      } else {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int key = ahead + n * 8 + quad() + (e & 1), distance = row_at(e) - key;
            const bool valid = distance >= 0 && distance < m.window && key >= sinks_end;
            s[n][e] = valid ? scale * s[n][e] : -INFINITY;
          }
        }
      }
      rows.weigh(s);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (!wanted(n)) continue;
        std::uint32_t weights[4];
        as_left(weights, s[2 * n], s[2 * n + 1]);
        rows.read(weights, tile_at(shared, window_tile(i, 2)), n * 16);
      }
    }
  }

  __device__ __forceinline__ void write() const {
    const float inverse[2] = {1.0F / row_sum(rows.total[0]), 1.0F / row_sum(rows.total[1])};
    const int first_row = a.segment->first + c.index * kChunk;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int column = n * 8 + quad();
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const int t = row_at(e);
        if (t >= c.rows) continue;
        const std::size_t to = (std::size_t(first_row + t) * m.heads + query) * kTile + column;
        const float one = rows.out[n][e] * inverse[e >> 1],
                    two = rows.out[n][e + 1] * inverse[e >> 1];
        put_output(a, to, one, two);
      }
    }
  }
};

__global__ void __launch_bounds__(kThreads, 1)
    whole_read_kernel(const __grid_constant__ ChunkArgs a) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const Chunk c(a, int(blockIdx.x), int(blockIdx.y));
  fetch_all(a, c, dynamic);
  copy_wait<0>();
  __syncthreads();
  // 16 tokens of a head each; blocks of the same chunk and kv head take turns.
  const int queries = m.heads / m.kv_heads, items = 4 * queries;
  for (int i = int(threadIdx.x) / 32 * int(gridDim.z) + int(blockIdx.z); i < items;
       i += kWarps * int(gridDim.z)) {
    const int row0 = i % 4 * 16;
    if (row0 >= c.rows) continue;
    WholeReader r{.a = a,
                  .m = m,
                  .c = c,
                  .shared = dynamic,
                  .query = c.head * queries + i / 4,
                  .row0 = row0,
                  .scale = m.scale * kLog2E};
    r.take_queries<Turn::none>();
    std::uint32_t of_chunk[4][4];
    r.score_chunk(of_chunk);
#pragma unroll 1
    for (int block = 0; block < c.blocks; ++block) r.read_memory(block, of_chunk);
    if (m.sinks > 0) {
      r.take_queries<Turn::near>();
      r.read_sinks();
    }
    if (m.window > 0) {
      r.take_queries<Turn::full>();
      r.read_window();
    }
    r.write();
  }
}

}  // namespace

cudaError_t prepare_broad_slot_whole() {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&whole_read_kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
}

int broad_slot_whole_bytes() { return kBytes; }

cudaError_t broad_slot_whole(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                             const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, pass, o);
  constexpr int kMostBlocks = 4;  // of a chunk and kv head, where there are few
  const int each = l.multiprocessors / (a.chunks * m.kv_heads);
  const int blocks = each < 1 ? 1 : each > kMostBlocks ? kMostBlocks : each;
  return launch(l, whole_read_kernel,
                dim3(unsigned(a.chunks), unsigned(m.kv_heads), unsigned(blocks)), kThreads, kBytes,
                1, a);
}

}  // namespace runnel::cuda
