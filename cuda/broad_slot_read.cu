// SPDX-License-Identifier: Apache-2.0
// What the tokens of a chunk read of a broad state: up to 128 memory slots, a window of up to 256, sinks. A block takes
// the 64 tokens of a chunk for kHeads query heads of a kv head, a warp 16 tokens of one head. Tiles of 64 keys pass by,
// under one online softmax:
//   memory   scores = scale ((q h~^T 2^R + tril(q k'^T) W) rise + q b) + biases    in 64 slots at a time
//            reads  = (p rise 2^R) hv + tril((p rise) W^T) v                       W = s 2^(R - G)
//   sinks, window   ordinary attention over rotated keys
// where k' = k - b and h~ = h - b for keys that share b: h~ advances with k' as h does with k. Products with h~ (near
// -b while a slot is young) and with rotated keys take both operands as sums of two bf16 (multiply_split), since keys
// of some hundreds lose whole logits in one; products with k' and all that follows the softmax take one.
//
// Queries are read as f32 and rotated here. Two stages of three tiles, one barrier a stage. Bound: products, 29 of
// 64 x 64 x 64 a chunk and head with a window of 252 and 128 memory slots; tiles of 300 KB from L2 a block.
#include "cuda/device/launch.cuh"
#include "cuda/device/ops/broad_slots.cuh"

namespace runnel::cuda {
namespace {

constexpr int kStage = 3 * kTileBytes;

template <int kHeads>
struct BroadShared {
  static constexpr int kThreads = 128 * kHeads;
  // Bytes of one head: what is rounded, and what that loses.
  static constexpr int kQuery = 2 * kTileBytes;
  static constexpr int kBytes = 2 * kStage + kHeads * kQuery;
  static constexpr int kBlocks = kHeads == 1 ? 3 : 2;  // a multiprocessor
};

/// Keeps what depends on v from being computed ahead and held in registers.
__device__ __forceinline__ void hold_back(int& v) { asm volatile("" : "+r"(v)); }

/// What a block works on: a chunk of one kv head.
struct Chunk {
  int index, head;
  int rows;             // tokens
  std::uint64_t first;  // position of row 0
  int blocks;           // tiles of 64 memory slots
  int first_tile;       // of the window, 0 … kBefore; its last one is the chunk itself
  int steps;            // tiles of keys, of memory slots and of their values that pass by
  bool sinks, window;

  __device__ Chunk(const ChunkArgs& a, int chunk, int kv_head)
      : index(chunk),
        head(kv_head),
        rows(min(kChunk, a.tokens - chunk * kChunk)),
        first(a.segment->position + std::uint64_t(chunk) * kChunk),
        blocks(a.slot_blocks()),
        sinks(a.m.sinks > 0),
        window(a.m.window > 0) {
    // Tile i has positions first - 64 (kBefore - i) …; those before the first token, or too far back, are left out.
    first_tile = kBefore;
    while (window && first_tile > 0) {
      const int back = kTile * (kBefore - first_tile + 1);  // of the tile before
      if (back - (kTile - 1) >= a.m.window || first + kTile <= std::uint64_t(back)) break;
      --first_tile;
    }
    steps = 1 + 2 * blocks + (sinks ? 1 : 0) + (window ? kBefore + 1 - first_tile : 0);
  }
};

/// Brings the tiles of step 0 … steps-1: the chunk's keys; for each 64 memory slots W and their keys, then W,
/// their values and the chunk's; sinks; tiles of the window.
template <int kThreads>
__device__ __forceinline__ void fetch_step(const ChunkArgs& a, const Chunk& c, int step,
                                           std::uint16_t* stage) {
  const SlotMixer& m = a.m;
  const int k_columns = m.kv_heads * m.k_dim, v_columns = m.kv_heads * m.v_dim;
  int thread = int(threadIdx.x);
  hold_back(thread);
  const auto load = [&](int i, const std::uint16_t* from, std::size_t stride, int rows,
                        int columns) {
#pragma unroll
    for (int piece = thread; piece < kTile * kTile / 8; piece += kThreads) {
      const int r = piece / (kTile / 8), column = piece % (kTile / 8) * 8;
      const bool valid = r < rows && column < columns;
      copy16(shared_address(stage) + unsigned(i * kTileBytes + (r * kPad + column) * 2),
             valid ? from + std::size_t(r) * stride + column : from, valid);
    }
  };
  const std::size_t token = std::size_t(c.index) * kChunk;
  const std::uint16_t* const own_values =
      a.o.v + (token + (a.positional() > 0 ? kBroadWindow : 0)) * v_columns + c.head * m.v_dim;
  if (step == 0) {
    load(0, a.o.k + token * k_columns + c.head * m.k_dim, k_columns, c.rows, m.k_dim);
    return;
  }
  if (step <= 2 * c.blocks) {
    const int block = (step - 1) / 2, slots = min(kTile, m.memory - block * kTile);
    const std::size_t at =
        (std::size_t(c.index) * m.kv_heads + c.head) * c.blocks + std::size_t(block);
    load(2, a.o.write + at * kTile * kTile, kTile, kTile, kTile);  // W [token][slot]
    if (step % 2 == 1) {
      load(0, a.o.keys + at * kTile * m.k_dim, m.k_dim, slots, m.k_dim);
      load(1, a.o.keys_low + at * kTile * m.k_dim, m.k_dim, slots, m.k_dim);
    } else {
      load(0, a.o.values + at * kTile * m.v_dim, m.v_dim, slots, m.v_dim);
      load(1, own_values, v_columns, c.rows, m.v_dim);
    }
    return;
  }
  int left_over = step - 1 - 2 * c.blocks;
  if (c.sinks) {
    if (left_over == 0) {
      load(0, a.o.k_sink + c.head * m.k_dim, k_columns, m.sinks, m.k_dim);
      load(1, a.o.k_sink_low + c.head * m.k_dim, k_columns, m.sinks, m.k_dim);
      load(2, a.o.v_sink + c.head * m.v_dim, v_columns, m.sinks, m.v_dim);
      return;
    }
    --left_over;
  }
  const int i = c.first_tile + left_over, rows = i == kBefore ? c.rows : kTile;
  const std::size_t row = token + std::size_t(i) * kTile;  // row kBroadWindow is the first token
  load(0, a.o.k_turned + row * k_columns + c.head * m.k_dim, k_columns, rows, m.k_dim);
  load(1, a.o.k_turned_low + row * k_columns + c.head * m.k_dim, k_columns, rows, m.k_dim);
  load(2, a.o.v + row * v_columns + c.head * m.v_dim, v_columns, rows, m.v_dim);
}

/// What the inputs of a query still lack in channels `lane` and K/2 + `lane`.
__device__ __forceinline__ float2 query_bias(const SlotMixer& m, int query, int lane) {
  const int half = m.k_dim / 2;
  if (m.qkv_bias == nullptr || lane >= half) return make_float2(0.0F, 0.0F);
  const float* bias = m.qkv_bias + query * m.k_dim + lane;
  return make_float2(bias[0], bias[half]);
}

/// Queries of 16 tokens, turned, to the two tiles of a head, by their warp alone.
template <Turn kTurn>
__device__ __forceinline__ void put_queries(const ChunkArgs& a, const Chunk& c, int query, int row0,
                                            std::uint16_t* high, std::uint16_t* low) {
  constexpr int kAhead = 4;  // rows in flight
  const SlotMixer& m = a.m;
  int lane = int(threadIdx.x) & 31;
  hold_back(lane);
  const int half = m.k_dim / 2;
  const float2 lacking = query_bias(m, query, lane);
  __syncwarp();  // the queries before are read
#pragma unroll 1
  for (int r0 = row0; r0 < row0 + 16; r0 += kAhead) {
    float x[kAhead], y[kAhead];
    float2 turn[kAhead];
#pragma unroll
    for (int r = 0; r < kAhead; ++r) {
      const int t = r0 + r, token = c.index * kChunk + t;
      const bool valid = lane < half && t < c.rows;
      const float* q = valid ? row_of(a, token) + query * m.k_dim : nullptr;
      x[r] = valid ? mapped(m, m.qk_act, q[lane] + lacking.x) : 0.0F;
      y[r] = valid ? mapped(m, m.qk_act, q[lane + half] + lacking.y) : 0.0F;
      turn[r] = make_float2(1.0F, 0.0F);
      if (kTurn != Turn::none && valid) {
        const bool far =
            kTurn == Turn::near && c.first + std::uint64_t(t) > std::uint64_t(m.sink_distance);
        turn[r] = a.o.rotation[std::size_t(far ? a.tokens : token) * half + lane];
      }
    }
#pragma unroll
    for (int r = 0; r < kAhead; ++r) {
      if (lane >= half) continue;
      const int at = (r0 + r) * kPad + lane;
      const float one = x[r] * turn[r].x - y[r] * turn[r].y,
                  two = y[r] * turn[r].x + x[r] * turn[r].y;
      high[at] = to_bf16(one), high[at + half] = to_bf16(two);
      low[at] = to_bf16(one - of_bf16(high[at]));
      low[at + half] = to_bf16(two - of_bf16(high[at + half]));
    }
  }
  __syncwarp();
}

/// q b of the two rows of a lane.
__device__ __forceinline__ void common_scores(const ChunkArgs& a, const Chunk& c, int query,
                                              int row0, float (&score)[2]) {
  const SlotMixer& m = a.m;
  const int lane = int(threadIdx.x) & 31, half = m.k_dim / 2;
  score[0] = score[1] = 0.0F;
  if (m.k_bias == nullptr) return;
  const float* bias = m.k_bias + c.head * m.k_dim;
  const float k0 = lane < half ? bias[lane] : 0.0F, k1 = lane < half ? bias[lane + half] : 0.0F;
  const float2 lacking = query_bias(m, query, lane);
#pragma unroll 8
  for (int r = 0; r < 16; ++r) {
    const int t = row0 + r;
    float v = 0.0F;
    if (lane < half && t < c.rows) {
      const float* q = row_of(a, c.index * kChunk + t) + query * m.k_dim;
      v = mapped(m, m.qk_act, q[lane] + lacking.x) * k0 +
          mapped(m, m.qk_act, q[lane + half] + lacking.y) * k1;
    }
    v = warp_sum(v);
    if (r == (lane >> 2)) score[0] = v;
    if (r == (lane >> 2) + 8) score[1] = v;
  }
}

/// Two adjacent blocks of scores or weights as left operands.
__device__ __forceinline__ void as_lefts(std::uint32_t (&to)[4][4], const float (&from)[8][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) as_left(to[i], from[2 * i], from[2 * i + 1]);
}

/// A warp that reads for 16 tokens [row0, row0 + 16) of a query head; the tiles of its block pass by in steps.
template <int kThreads>
struct Reader {
  const ChunkArgs& a;
  const SlotMixer& m;
  const Chunk& c;
  unsigned char* stages;  // two, of three tiles
  std::uint16_t* q_high;  // tiles of the head's queries
  std::uint16_t* q_low;
  int query, row0, step = 0;
  float scale;      // of scores in bits
  float common[2];  // q b
  OnlineRows rows;

  __device__ __forceinline__ int lane() const { return int(threadIdx.x) & 31; }
  __device__ __forceinline__ int group() const { return row0 / 16; }
  __device__ __forceinline__ int quad() const { return (int(threadIdx.x) & 3) * 2; }
  /// The row of element e of sums.
  __device__ __forceinline__ int row_at(int e) const { return row0 + (e >> 1) * 8 + (lane() >> 2); }
  static __device__ __forceinline__ std::uint16_t* tile(std::uint16_t* stage, int i) {
    return stage + i * (kTileBytes / 2);
  }
  __device__ __forceinline__ std::uint16_t* stage_of(int at) const {
    return reinterpret_cast<std::uint16_t*>(stages + (at & 1) * kStage);
  }
  __device__ __forceinline__ void start() {
    fetch_step<kThreads>(a, c, 0, stage_of(0));
    copy_commit();
  }
  /// Waits for the tiles of the next step and sends for those of the one after it, into the stage that all have left.
  __device__ __forceinline__ std::uint16_t* next() {
    copy_wait<0>();
    __syncthreads();
    if (step + 1 < c.steps) fetch_step<kThreads>(a, c, step + 1, stage_of(step + 1));
    copy_commit();
    return stage_of(step++);
  }

  /// tril(q k'^T) of the chunk, as the left operand of what it writes.
  __device__ __forceinline__ void score_chunk(std::uint32_t (&of_chunk)[4][4]) {
    const std::uint16_t* keys = tile(next(), 0);
    float sum[8][4] = {};
#pragma unroll
    for (int k = 0; k < kTile; k += 16) {
      std::uint32_t fl[4], fr[4];
      left<kPad>(fl, q_high, row0, k);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (n > group()) continue;  // later tokens are not read
        right<kPad>(fr, keys, n * 16, k);
        mma_bf16(sum[2 * n], fl, fr[0], fr[1]);
        mma_bf16(sum[2 * n + 1], fl, fr[2], fr[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (n * 8 + quad() + (e & 1) > row_at(e)) sum[n][e] = 0.0F;
      }
    }
    as_lefts(of_chunk, sum);
  }

  /// Powers of the gates of 64 memory slots, of this lane's columns; loaded again where they are needed, since 48
  /// registers would hold them.
  struct Powers {
    const float* rise;
    const float* centre;
  };
  __device__ __forceinline__ Powers powers(int block) const {
    const std::size_t at = (std::size_t(c.index) * m.kv_heads + c.head) * c.blocks + block;
    int pair = quad();
    hold_back(pair);
    return {a.o.rise + at * kTile * kTile + pair, a.o.centre + at * kTile + pair};
  }

  /// Scores of 64 memory slots, in bits.
  __device__ __forceinline__ void score_memory(int block, const std::uint32_t (&of_chunk)[4][4],
                                               float (&s)[8][4]) {
    std::uint16_t* stage = next();
    const auto [rise, centre] = powers(block);
    const float head_bias = (m.head_read_bias != nullptr ? m.head_read_bias[query] : 0.0F) * kLog2E;
    const int slots = min(kTile, m.memory - block * kTile);
    const float* read_bias =
        m.read_bias != nullptr ? m.read_bias + c.head * m.memory + block * kTile : nullptr;
    multiply_split(s, q_high, q_low, tile(stage, 0), tile(stage, 1), row0,
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
        right_transposed<kPad>(fr, tile(stage, 2), n * 16, i * 16);
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
        const float2 up = *reinterpret_cast<const float2*>(rise + row_at(e) * kTile + n * 8);
        const float shared = common[e >> 1];
        s[n][e] = slot < slots ? fmaf(fmaf(s[n][e], up.x, shared), scale, bias.x) : -INFINITY;
        s[n][e + 1] =
            slot + 1 < slots ? fmaf(fmaf(s[n][e + 1], up.y, shared), scale, bias.y) : -INFINITY;
      }
    }
  }

  /// Reads 64 memory slots, and what the chunk's tokens have written to them, by weights p.
  __device__ __forceinline__ void read_memory(int block, float (&s)[8][4]) {
    std::uint16_t* stage = next();
    const auto [rise, centre] = powers(block);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float2 up = *reinterpret_cast<const float2*>(rise + row_at(e) * kTile + n * 8);
        s[n][e] *= up.x, s[n][e + 1] *= up.y;  // p rise
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float whole[2][4];
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        const float2 up = *reinterpret_cast<const float2*>(centre + (2 * i + b) * 8);
#pragma unroll
        for (int e = 0; e < 4; e += 2)
          whole[b][e] = s[2 * i + b][e] * up.x, whole[b][e + 1] = s[2 * i + b][e + 1] * up.y;
      }
      std::uint32_t of_memory[4];
      as_left(of_memory, whole[0], whole[1]);
      rows.read(of_memory, tile(stage, 0), i * 16);
    }
    std::uint32_t lifted[4][4];
    as_lefts(lifted, s);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i > group()) continue;
      float low[4] = {}, high[4] = {};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        std::uint32_t fr[4];
        right<kPad>(fr, tile(stage, 2), i * 16, k * 16);
        mma_bf16(low, lifted[k], fr[0], fr[1]);
        mma_bf16(high, lifted[k], fr[2], fr[3]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = i * 16 + quad() + (e & 1);
        if (j > row_at(e)) low[e] = 0.0F;
        if (j + 8 > row_at(e)) high[e] = 0.0F;
      }
      std::uint32_t of_own[4];
      as_left(of_own, low, high);
      rows.read(of_own, tile(stage, 1), i * 16);
    }
  }

  __device__ __forceinline__ void read_sinks() {
    put_queries<Turn::near>(a, c, query, row0, q_high, q_low);
    std::uint16_t* stage = next();
    float s[2][4] = {};
    multiply_split(s, q_high, q_low, tile(stage, 0), tile(stage, 1), row0,
                   [](int) { return true; });
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
    rows.read(weights, tile(stage, 2), 0);
  }

  __device__ __forceinline__ void read_window() {
    put_queries<Turn::full>(a, c, query, row0, q_high, q_low);
    // Positions before the first token, and sinks, are no keys of the window.
    const int sinks_end = m.sinks - int(c.first < (1U << 20) ? c.first : std::uint64_t(1U << 20));
#pragma unroll 1
    for (int i = c.first_tile; i <= kBefore; ++i) {
      std::uint16_t* stage = next();
      const int ahead = (i - kBefore) * kTile;  // of the tile's first key over row 0
      // Whether some of the keys n*16 … n*16+15 are neither later than all of the warp's rows nor too far back.
      const auto wanted = [&](int n) {
        const int key = ahead + n * 16;
        return key <= row0 + 15 && row0 - (key + 15) < m.window;
      };
      float s[8][4] = {};
      multiply_split(s, q_high, q_low, tile(stage, 0), tile(stage, 1), row0, wanted);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int key = ahead + n * 8 + quad() + (e & 1), distance = row_at(e) - key;
          const bool valid = distance >= 0 && distance < m.window && key >= sinks_end;
          s[n][e] = valid ? scale * s[n][e] : -INFINITY;
        }
      }
      rows.weigh(s);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (!wanted(n)) continue;
        std::uint32_t weights[4];
        as_left(weights, s[2 * n], s[2 * n + 1]);
        rows.read(weights, tile(stage, 2), n * 16);
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
        if (t >= c.rows || column >= m.v_dim) continue;
        const std::size_t to = (std::size_t(first_row + t) * m.heads + query) * m.v_dim + column;
        const float one = rows.out[n][e] * inverse[e >> 1],
                    two = rows.out[n][e + 1] * inverse[e >> 1];
        put_output(a, to, one, two);
      }
    }
  }
};

template <int kHeads>
__global__ void __launch_bounds__(BroadShared<kHeads>::kThreads, BroadShared<kHeads>::kBlocks)
    broad_read_kernel(const __grid_constant__ ChunkArgs a) {
  using S = BroadShared<kHeads>;
  extern __shared__ __align__(16) unsigned char dynamic[];
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int warp = int(threadIdx.x) >> 5, lane = int(threadIdx.x) & 31, own = warp / 4;
  const Chunk c(a, int(blockIdx.x), int(blockIdx.z));
  // A head past the last one of the kv head is computed as that one, and not written.
  const int queries = m.heads / m.kv_heads, of_group = int(blockIdx.y) * kHeads + own;
  auto* const q_high = reinterpret_cast<std::uint16_t*>(dynamic + 2 * kStage + own * S::kQuery);
  Reader<S::kThreads> r{.a = a,
                        .m = m,
                        .c = c,
                        .stages = dynamic,
                        .q_high = q_high,
                        .q_low = q_high + kTileBytes / 2,
                        .query = c.head * queries + min(of_group, queries - 1),
                        .row0 = warp % 4 * 16,
                        .scale = m.scale * kLog2E};
  r.start();
  if (m.k_dim < kTile) {
    for (int i = lane; i < 16 * kTile; i += 32) {
      const int at = (r.row0 + i / kTile) * kPad + i % kTile;
      if (i % kTile >= m.k_dim) r.q_high[at] = r.q_low[at] = 0;
    }
  }
  common_scores(a, c, r.query, r.row0, r.common);
  put_queries<Turn::none>(a, c, r.query, r.row0, r.q_high, r.q_low);
  std::uint32_t of_chunk[4][4];
  r.score_chunk(of_chunk);
#pragma unroll 1
  for (int block = 0; block < c.blocks; ++block) {
    float s[8][4] = {};
    r.score_memory(block, of_chunk, s);
    r.rows.weigh(s);
    r.read_memory(block, s);
  }
  if (c.sinks) r.read_sinks();
  if (c.window) r.read_window();
  if (of_group < queries) r.write();
}

constexpr int kHeadsPerBlock = 1;

/// Queries are read in pairs there.
bool takes_whole(const SlotMixer& m, const ChunkPass& pass) {
  return pass.broad.read == BroadRead::whole && m.input_stride % 2 == 0 && m.k_dim == kTile &&
         m.v_dim == kTile && (m.prepared || m.qk_act == Act::identity) && has_broad_slot_whole();
}

}  // namespace

cudaError_t prepare_broad_slot_read() {
  // Without its shared memory it is not taken.
  if (prepare_broad_slot_whole() != cudaSuccess) static_cast<void>(cudaGetLastError());
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&broad_read_kernel<kHeadsPerBlock>),
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              BroadShared<kHeadsPerBlock>::kBytes);
}

cudaError_t broad_slot_read(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                            const ChunkOperands& o) {
  if (takes_whole(m, pass)) return broad_slot_whole(l, m, pass, o);
  using S = BroadShared<kHeadsPerBlock>;
  const ChunkArgs a = chunk_args(m, pass, o);
  const int pairs = (m.heads / m.kv_heads + kHeadsPerBlock - 1) / kHeadsPerBlock;
  return launch(l, broad_read_kernel<kHeadsPerBlock>,
                dim3(unsigned(a.chunks), unsigned(pairs), unsigned(m.kv_heads)), S::kThreads,
                S::kBytes, 1, a);
}

}  // namespace runnel::cuda
