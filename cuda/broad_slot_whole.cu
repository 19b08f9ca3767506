// SPDX-License-Identifier: Apache-2.0
// The sums of broad_slot_read.cu with every tile of a chunk and kv head in shared memory at once, 198 KB: fetched once
// for all query heads. Then every group of four warps takes one head after the other, 16 tokens a warp, with its queries
// as register operands of wgmma, and waits for no other group. Heads of 64 channels that need no map; sm_90a alone.
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/broad_slots.cuh"
#include "cuda/device/ops/wgmma.cuh"

namespace runnel::cuda {
namespace {

constexpr int kGroups = 3;  // more have no registers left
constexpr int kThreads = 128 * kGroups;
constexpr int kBlocks = kBroadMemory / kTile;
constexpr int kSteps = kTile / 16;
constexpr int kTiles = 1 + 4 * kBlocks + 3 * (kBefore + 1);
constexpr int kRowBytes = kTile * 2;  // 16-byte pieces swizzled by the row's last three bits
constexpr int kWholeBytes = kTile * kRowBytes;
constexpr int kSinkBytes = kMostSinks * kRowBytes;
constexpr int kAlign = 1024;  // of swizzled tiles
constexpr int kBytes = kTiles * kWholeBytes + 3 * kSinkBytes + kAlign;
static_assert(kSinkBytes % kAlign == 0);

/// A tile in shared memory: the chunk's keys; of 64 memory slots keys, what those lose, W, values; of 64 keys of the
/// window, which ends with the chunk, keys, what those lose, values.
__device__ __forceinline__ std::uint32_t tile_at(std::uint32_t shared, int i) {
  return shared + std::uint32_t(i * kWholeBytes);
}
__device__ __forceinline__ int memory_tile(int block, int i) { return 1 + 4 * block + i; }
__device__ __forceinline__ int window_tile(int tile, int i) {
  return 1 + 4 * kBlocks + 3 * tile + i;
}
__device__ __forceinline__ std::uint32_t sink_tile(std::uint32_t shared, int i) {
  return shared + std::uint32_t(kTiles * kWholeBytes + i * kSinkBytes);
}
/// A tile in memory: rows of 64 values; those from `rows` on are zero.
struct Source {
  const std::uint16_t* from;
  int stride, rows;
};
template <int kRows>
__device__ __forceinline__ void fetch_tile(std::uint32_t tile, const Source& s) {
  constexpr int kPieces = kRowBytes / 16, kRound = kThreads / kPieces;  // rows at a time
  const int piece = int(threadIdx.x) % kPieces;
#pragma unroll
  for (int first = 0; first < kRows; first += kRound) {
    const int r = first + int(threadIdx.x) / kPieces;
    if (r >= kRows) break;
    const bool valid = r < s.rows;
    copy16(tile + std::uint32_t(r * kRowBytes + (piece ^ (r & 7)) * 16),
           valid ? s.from + std::size_t(r) * std::size_t(s.stride) + piece * 8 : s.from, valid);
  }
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

/// Tile 1 + i of the memory.
__device__ __forceinline__ Source memory_source(const ChunkArgs& a, const Chunk& c, int i) {
  const int block = i / 4;
  const std::size_t at =
      ((std::size_t(c.index) * a.m.kv_heads + c.head) * c.blocks + std::size_t(block)) *
      std::size_t(kTile * kTile);
  const std::uint16_t* const of[4] = {a.o.keys, a.o.keys_low, a.o.write, a.o.values};
  const int slots = min(kTile, a.m.memory - block * kTile);
  return {.from = of[i % 4] + at, .stride = kTile, .rows = i % 4 == 2 ? kTile : slots};
}
/// 64 rows of k', the turned keys, what those lose, or v, from a tile of the window on.
__device__ __forceinline__ Source token_source(const ChunkArgs& a, const Chunk& c,
                                               const std::uint16_t* of, int tile) {
  const int columns = a.m.kv_heads * kTile;
  const std::size_t row = std::size_t(c.index) * kChunk + std::size_t(tile) * kTile;
  return {.from = of + row * std::size_t(columns) + c.head * kTile,
          .stride = columns,
          .rows = tile == kBefore ? c.rows : kTile};
}

/// The memory's tiles and the chunk's own, then, in a second group of copies, those of sinks and window.
__device__ __forceinline__ void fetch_all(const ChunkArgs& a, const Chunk& c,
                                          std::uint32_t shared) {
  const SlotMixer& m = a.m;
  const int columns = m.kv_heads * kTile;
  const bool positional = a.positional() > 0;
  Source k = token_source(a, c, a.o.k, 0);
  k.rows = c.rows;
  fetch_tile<kTile>(tile_at(shared, 0), k);
  Source v = token_source(a, c, a.o.v, positional ? kBefore : 0);
  v.rows = c.rows;
  fetch_tile<kTile>(tile_at(shared, window_tile(kBefore, 2)), v);
#pragma unroll 1
  for (int i = 0; i < 4 * c.blocks; ++i)
    fetch_tile<kTile>(tile_at(shared, 1 + i), memory_source(a, c, i));
  copy_commit();
  const std::uint16_t* const of_sinks[3] = {a.o.k_sink, a.o.k_sink_low, a.o.v_sink};
#pragma unroll 1
  for (int i = 0; m.sinks > 0 && i < 3; ++i) {
    fetch_tile<kMostSinks>(
        sink_tile(shared, i),
        {.from = of_sinks[i] + c.head * kTile, .stride = columns, .rows = m.sinks});
  }
  const std::uint16_t* const of_window[3] = {a.o.k_turned, a.o.k_turned_low, a.o.v};
  const int end = 3 * (kBefore + 1) - 1;  // the chunk's own values are there
#pragma unroll 1
  for (int i = 3 * c.first_tile; m.window > 0 && i < end; ++i) {
    fetch_tile<kTile>(tile_at(shared, window_tile(0, i)),
                      token_source(a, c, of_window[i % 3], i / 3));
  }
  copy_commit();
}

/// From one inner step of 16 of a tile to the next: of rows that are columns of the product 2, else this.
constexpr std::uint64_t kStepDown = 16 * kRowBytes >> 4;

/// 16 tokens of a query head, from row0 of the chunk on, in a warp; the chunk in its group.
struct WholeReader {
  const ChunkArgs& a;
  const SlotMixer& m;
  const Chunk& c;
  std::uint32_t shared;
  int query, row0;
  std::uint32_t zero;
  float scale;                                              // of scores in bits
  std::uint32_t high[kSteps][4] = {}, low[kSteps][4] = {};  // queries as left operands
  float common[2] = {};                                     // q b
  OnlineRows rows = {};

  __device__ __forceinline__ int lane() const { return int(threadIdx.x) & 31; }
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

  /// sum = q B^T, both sums of two bf16, as multiply_split of broad_slots.cuh.
  template <int kWide>
  __device__ __forceinline__ void multiply(float (&sum)[kWide][4], std::uint32_t b_high,
                                           std::uint32_t b_low) {
    using Product = WgmmaOfRegisters<8 * kWide>;
    const std::uint64_t of_high = tile_descriptor(b_high), of_low = tile_descriptor(b_low);
    hold(sum);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
      Product::template run<false>(sum, high[k], of_low + 2 * k, k > 0);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) Product::template run<false>(sum, low[k], of_high + 2 * k, 1);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) Product::template run<false>(sum, high[k], of_high + 2 * k, 1);
    wgmma_commit();
    wgmma_wait<0>();
    hold(sum);
  }
  /// sum += A B, A in registers, B's rows a tile's.
  __device__ __forceinline__ void add_rows(float (&sum)[8][4], const std::uint32_t (&left)[4][4],
                                           std::uint32_t b) {
    const std::uint64_t of_b = tile_descriptor(b);
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
      WgmmaOfRegisters<64>::run<true>(sum, left[k], of_b + k * kStepDown, 1);
  }
  static __device__ __forceinline__ void to_left(std::uint32_t (&left)[4][4],
                                                 const float (&of)[8][4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) as_left(left[k], of[2 * k], of[2 * k + 1]);
  }
  /// Zero where a later token is a column.
  __device__ __forceinline__ void drop_later(float (&s)[8][4]) const {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (n * 8 + quad() + (e & 1) > row_at(e)) s[n][e] = 0.0F;
      }
    }
  }

  /// tril(q k'^T) of the chunk, as the left operand of what it writes.
  __device__ __forceinline__ void score_chunk(std::uint32_t (&of_chunk)[4][4]) {
    float s[8][4];
    const std::uint64_t keys = tile_descriptor(tile_at(shared, 0));
    hold(s);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
      WgmmaOfRegisters<64>::run<false>(s, high[k], keys + 2 * k, k > 0);
    wgmma_commit();
    wgmma_wait<0>();
    hold(s);
    drop_later(s);
    to_left(of_chunk, s);
  }

  /// Reads 64 memory slots and what the chunk's tokens have written to them.
  __device__ __forceinline__ void read_memory(int block, std::uint32_t (&of_chunk)[4][4]) {
    const std::size_t at = (std::size_t(c.index) * m.kv_heads + c.head) * c.blocks + block;
    const float* const rise = a.o.rise + at * kTile * kTile + quad();
    const float* const centre = a.o.centre + at * kTile + quad();
    const std::uint32_t writes = tile_at(shared, memory_tile(block, 2));
    const int slots = min(kTile, m.memory - block * kTile);
    const float* const read_bias =
        m.read_bias != nullptr ? m.read_bias + c.head * m.memory + block * kTile : nullptr;
    const float head_bias = (m.head_read_bias != nullptr ? m.head_read_bias[query] : 0.0F) * kLog2E;
    const auto risen = [&](int n, int e) {
      return *reinterpret_cast<const float2*>(rise + row_at(e) * kTile + n * 8);
    };
    float s[8][4];
    multiply(s, tile_at(shared, memory_tile(block, 0)), tile_at(shared, memory_tile(block, 1)));
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 up = *reinterpret_cast<const float2*>(centre + n * 8);
#pragma unroll
      for (int e = 0; e < 4; e += 2) s[n][e] *= up.x, s[n][e + 1] *= up.y;
    }
    hold(s);
    wgmma_begin();
    add_rows(s, of_chunk, writes);
    wgmma_commit();
    wgmma_wait<0>();
    hold(s);
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
    std::uint32_t lifted[4][4], of_memory[4][4];  // p rise; that with the memory's centre
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float2 own = risen(n, e);
        s[n][e] *= own.x, s[n][e + 1] *= own.y;
      }
    }
    to_left(lifted, s);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 up = *reinterpret_cast<const float2*>(centre + n * 8);
#pragma unroll
      for (int e = 0; e < 4; e += 2) s[n][e] *= up.x, s[n][e + 1] *= up.y;
    }
    to_left(of_memory, s);
    const std::uint64_t by_token = tile_descriptor(writes);
    hold(s), hold(rows.out), hold(lifted), hold(of_memory);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
      WgmmaOfRegisters<64>::run<false>(s, lifted[k], by_token + 2 * k, k > 0);
    add_rows(rows.out, of_memory, tile_at(shared, memory_tile(block, 3)));
    wgmma_commit();
    wgmma_wait<0>();
    hold(s);
    hold(rows.out);
    drop_later(s);
    read(s, tile_at(shared, window_tile(kBefore, 2)));
    keep(high, zero), keep(low, zero), keep(of_chunk, zero);
  }
  /// out += weights values.
  __device__ __forceinline__ void read(const float (&weights)[8][4], std::uint32_t values) {
    std::uint32_t left[4][4];
    to_left(left, weights);
    hold(rows.out), hold(left);
    wgmma_begin();
    add_rows(rows.out, left, values);
    wgmma_commit();
    wgmma_wait<0>();
    hold(rows.out);
  }

  __device__ __forceinline__ void read_sinks() {
    float s[2][4];
    multiply(s, sink_tile(shared, 0), sink_tile(shared, 1));
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
    std::uint32_t weights[1][4];
    as_left(weights[0], s[0], s[1]);
    hold(rows.out), hold(weights);
    wgmma_begin();
    WgmmaOfRegisters<64>::run<true>(rows.out, weights[0], tile_descriptor(sink_tile(shared, 2)), 1);
    wgmma_commit();
    wgmma_wait<0>();
    hold(rows.out);
  }

  __device__ __forceinline__ void read_window() {
    // Positions before the first token, and sinks, are no keys of the window.
    const int sinks_end = m.sinks - int(c.first < (1U << 20) ? c.first : std::uint64_t(1U << 20));
#pragma unroll 1
    for (int i = c.first_tile; i <= kBefore; ++i) {
      const int ahead = (i - kBefore) * kTile;  // of the tile's first key over row 0
      float s[8][4];
      multiply(s, tile_at(shared, window_tile(i, 0)), tile_at(shared, window_tile(i, 1)));
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
      read(s, tile_at(shared, window_tile(i, 2)));
      keep(high, zero), keep(low, zero);
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

/// This thread's copies but for the last kPending groups, and those of the others, are there for wgmma.
template <int kPending>
__device__ __forceinline__ void await_tiles() {
  copy_wait<kPending>();
  fence_for_copies();
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads, 1)
    whole_read_kernel(const __grid_constant__ ChunkArgs a) {
#if RUNNEL_WGMMA
  extern __shared__ __align__(16) unsigned char dynamic[];
  const std::uint32_t shared = (shared_address(dynamic) + kAlign - 1) / kAlign * kAlign;
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const Chunk c(a, int(blockIdx.x), int(blockIdx.y));
  fetch_all(a, c, shared);
  await_tiles<1>();
  // A head each; blocks of the same chunk and kv head take turns.
  const int queries = m.heads / m.kv_heads, groups = kGroups * int(gridDim.z);
  const int group = int(threadIdx.x) / 128 * int(gridDim.z) + int(blockIdx.z);
#pragma unroll 1
  for (int first = 0; first < queries; first += groups) {
    const bool own = first + group < queries;
    WholeReader r{.a = a,
                  .m = m,
                  .c = c,
                  .shared = shared,
                  .query = c.head * queries + first + group,
                  .row0 = int(threadIdx.x) / 32 % 4 * 16,
                  .zero = std::uint32_t(a.tokens) >> 31,
                  .scale = m.scale * kLog2E};
    if (own) {
      r.take_queries<Turn::none>();
      std::uint32_t of_chunk[4][4];
      r.score_chunk(of_chunk);
#pragma unroll 1
      for (int block = 0; block < c.blocks; ++block) r.read_memory(block, of_chunk);
    }
    if (first == 0) await_tiles<0>();
    if (!own) continue;
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
#endif
}

}  // namespace

cudaError_t prepare_broad_slot_whole() {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&whole_read_kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
}

bool has_broad_slot_whole() {
  const auto has = [](cudaDeviceAttr what, int& value) {
    int device = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&value, what, device) == cudaSuccess;
  };
  int major = 0, minor = 0, bytes = 0;
  return has(cudaDevAttrComputeCapabilityMajor, major) && major == 9 &&
         has(cudaDevAttrComputeCapabilityMinor, minor) && minor == 0 &&
         has(cudaDevAttrMaxSharedMemoryPerBlockOptin, bytes) && bytes >= kBytes;
}

cudaError_t broad_slot_whole(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                             const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, pass, o);
  constexpr int kMostBlocks = 3;  // of a chunk and kv head, where there are few
  const int each = l.multiprocessors / (a.chunks * m.kv_heads);
  const int blocks = each < 1 ? 1 : each > kMostBlocks ? kMostBlocks : each;
  return launch(l, whole_read_kernel,
                dim3(unsigned(a.chunks), unsigned(m.kv_heads), unsigned(blocks)), kThreads, kBytes,
                1, a);
}

}  // namespace runnel::cuda
