// SPDX-License-Identifier: Apache-2.0
// The slot recurrence of many tokens, chunk by chunk on tensor cores: no state but the one at each
// chunk's start is ever stored. With G the running sum of log alpha inside a chunk and h, hv the
// memory at its start:
//   logits_t = scale ((h q_t) e^{G_t} + sum_{j<=t} (q_t . k_j) s_j e^{G_t - G_j}) + biases
//   o_t      = (p_t e^{G_t}) hv + sum_{j<=t} (sum_m p_t s_j e^{G_t - G_j}) v_j
//   h'       = h e^{G_last} + sum_j (s_j e^{G_last - G_j}) k_j^T,  hv' likewise with v
// Sinks and the window are ordinary attention over at most 16 + 64 + 64 rotated keys, under the
// same softmax.
//
// Every exponent is a difference to a later row, hence <= 0: nothing overflows however strong the
// gates. Inside a chunk sub-chunks of 16 tokens meet through their first row n: e^{G_t - G_n}
// e^{G_n - G_j} (tensor cores); the diagonal blocks are summed exactly in f32.
//
// Four kernels: prepare (bf16 copies, rotations), update (what each chunk adds; all chunks at
// once), scan (states at chunk starts; elementwise), read (scores, softmax, outputs; all chunks and
// query heads at once). Bound: 2 (4 K M + 2 K C + 2 V C + ...) operations a token and head; at M =
// C = 64 the states' bytes weigh as much.
#include "cuda/device/launch.cuh"
#include "cuda/device/math.cuh"
#include "cuda/device/mma.cuh"

namespace runnel::cuda {
namespace {

constexpr int C = kChunk;
constexpr int kThreads = 256;
constexpr int kPad =
    72;  // bf16 values of a row of a 64-wide tile: 144 bytes, no bank conflicts for ldmatrix
constexpr int kGate = 65;  // floats of a row of gates

struct Args {
  SlotMixer m;
  Segment segment;
  ChunkScratch s;
  int chunks;
  __device__ int positional() const { return m.sinks + m.window; }
  __device__ int slots() const { return m.sinks + m.window + m.memory; }
};

__device__ __forceinline__ const float* row_of(const Args& a, int t) {
  return a.m.inputs + std::size_t(a.segment.first + t) * a.m.input_stride;
}

__device__ __forceinline__ std::uint16_t to_bf16(float v) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(v));
}

/// cos, sin of `position` turns for every pair, in shared memory.
__device__ void fill_rotation(const SlotMixer& m, std::uint64_t position, float2* table) {
  for (int i = int(threadIdx.x); i < m.k_dim / 2; i += int(blockDim.x)) {
    const double a = double(position) * m.turns[i];
    sincospif(2.0F * float(a - floor(a)), &table[i].y, &table[i].x);
  }
}

/// Channel c of one head's vector, rotated.
__device__ __forceinline__ float rotated(const float* x, int c, int k_dim, const float2* table) {
  const int half = k_dim / 2;
  const float2 r = table[c < half ? c : c - half];
  return c < half ? x[c] * r.x - x[c + half] * r.y : x[c] * r.x + x[c - half] * r.y;
}

/// Blocks 0 … T-1: a token each; then 64 of the window before the pass, then the sinks.
__global__ void __launch_bounds__(kThreads) prepare_kernel(const __grid_constant__ Args a) {
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
      a.s.q[to] = to_bf16(q[i]);
      if (turned) {
        const int c = i % m.k_dim;
        a.s.q_turned[to] = to_bf16(rotated(q + i - c, c, m.k_dim, rotation));
        a.s.q_near[to] = to_bf16(rotated(q + i - c, c, m.k_dim, rotation + half));
      }
    }
    for (int i = tid; i < k_columns; i += kThreads) {
      a.s.k[std::size_t(t) * k_columns + i] = to_bf16(k[i]);
      if (turned) {
        const int c = i % m.k_dim;
        a.s.k_turned[std::size_t(C + t) * k_columns + i] =
            to_bf16(rotated(k + i - c, c, m.k_dim, rotation));
      }
    }
    for (int i = tid; i < v_columns; i += kThreads)
      a.s.v[std::size_t(C + t) * v_columns + i] = to_bf16(v[i]);
    return;
  }
  block -= tokens;
  if (a.positional() == 0) return;
  // A row of the window before the pass, or a sink: from the state, or, a sink written by this
  // pass, from its token.
  const bool sink = block >= C;
  const int row = sink ? block - C : block;
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
  } else if (start + std::uint64_t(row) >= std::uint64_t(C) + std::uint64_t(m.sinks) &&
             m.window > 0) {
    const std::uint64_t position = start + std::uint64_t(row) - C;
    if (start - position <= std::uint64_t(m.window))
      slot = m.sinks + int((position - m.sinks) % std::uint64_t(m.window));
  }
  if (token >= 0) {
    fill_rotation(m, start + std::uint64_t(token), rotation);
    __syncthreads();
  }
  std::uint16_t* k_to = (sink ? a.s.k_sink : a.s.k_turned) + std::size_t(row) * k_columns;
  std::uint16_t* v_to = (sink ? a.s.v_sink : a.s.v) + std::size_t(row) * v_columns;
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

/// Gates of one chunk and head into shared memory: G (running sums of log alpha) and s,
/// [64][kGate]. Tokens past the end and slots past M neither decay nor write.
__device__ void load_gates(const Args& a, int chunk, int head, float* g, float* s) {
  const SlotMixer& m = a.m;
  const int column = m.heads * m.k_dim + m.kv_heads * (m.k_dim + m.v_dim) + head * m.memory;
  for (int i = int(threadIdx.x); i < C * C; i += kThreads) {
    const int t = i / C, slot = i % C;
    float v = 0.0F;
    if (chunk * C + t < a.segment.count && slot < m.memory)
      v = row_of(a, chunk * C + t)[column + slot];
    g[t * kGate + slot] = v;
    s[t * kGate + slot] = -expm1f(v);
  }
  __syncthreads();
  // Four runs of 16 tokens a slot, then their offsets.
  const int slot = int(threadIdx.x) % C, run = int(threadIdx.x) / C;
  float sum = 0.0F;
  for (int t = run * 16; t < run * 16 + 16; ++t) g[t * kGate + slot] = sum += g[t * kGate + slot];
  __syncthreads();
  float offset = 0.0F;
  for (int r = 0; r < run; ++r) offset += g[(r * 16 + 15) * kGate + slot];
  __syncthreads();
  for (int t = run * 16; t < run * 16 + 16; ++t) g[t * kGate + slot] += offset;
  __syncthreads();
}

/// 64 rows of 64 bf16 values into a padded tile; rows and columns outside are zero.
__device__ __forceinline__ void load_tile(std::uint16_t* tile, const std::uint16_t* from,
                                          std::size_t stride, int rows, int columns,
                                          int tile_rows = C) {
  for (int i = int(threadIdx.x); i < tile_rows * 8; i += kThreads) {
    const int r = i / 8, c = i % 8 * 8;
    const bool valid = r < rows && c < columns;
    copy16(shared_address(tile + r * kPad + c), valid ? from + std::size_t(r) * stride + c : from,
           valid);
  }
}

/// The same from f32.
__device__ __forceinline__ void load_tile_f32(std::uint16_t* tile, const float* from,
                                              std::size_t stride, int rows, int columns) {
  for (int i = int(threadIdx.x); i < C * 16; i += kThreads) {
    const int r = i / 16, c = i % 16 * 4;
    uint2 w = make_uint2(0, 0);
    if (r < rows && c < columns) {
      const float4 v = *reinterpret_cast<const float4*>(from + std::size_t(r) * stride + c);
      w = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
    }
    *reinterpret_cast<uint2*>(tile + r * kPad + c) = w;
  }
}

/// Rows row0 … row0+15, columns k0 … k0+15 of a tile as the left operand.
__device__ __forceinline__ void left(std::uint32_t (&r)[4], const std::uint16_t* tile, int row0,
                                     int k0) {
  const int lane = int(threadIdx.x) & 31;
  load_tiles(r, shared_address(tile + (row0 + (lane & 15)) * kPad + k0 + (lane >> 4) * 8));
}
/// The left operand from a tile stored transposed, [k][row].
__device__ __forceinline__ void left_transposed(std::uint32_t (&r)[4], const std::uint16_t* tile,
                                                int row0, int k0) {
  const int lane = int(threadIdx.x) & 31;
  load_tiles_transposed(r, shared_address(tile + (k0 + (lane & 7) + (lane >> 4) * 8) * kPad + row0 +
                                          ((lane >> 3) & 1) * 8));
}
/// The right operand for columns n0 … n0+15 from a tile stored [n][k]: r[0], r[1] for the first
/// eight, r[2], r[3] after.
__device__ __forceinline__ void right(std::uint32_t (&r)[4], const std::uint16_t* tile, int n0,
                                      int k0) {
  const int lane = int(threadIdx.x) & 31;
  load_tiles(r, shared_address(tile + (n0 + ((lane >> 4) << 3) + (lane & 7)) * kPad + k0 +
                               ((lane >> 3) & 1) * 8));
}
/// The same from a tile stored [k][n].
__device__ __forceinline__ void right_transposed(std::uint32_t (&r)[4], const std::uint16_t* tile,
                                                 int n0, int k0) {
  const int lane = int(threadIdx.x) & 31;
  load_tiles_transposed(r, shared_address(tile + (k0 + (lane & 15)) * kPad + n0 + (lane >> 4) * 8));
}

/// acc [16, 32] of warp (i, h) += left tile rows 16 i … times right tile columns 32 h …, 64 inner
/// values.
template <bool kRightTransposed>
__device__ __forceinline__ void multiply(float (&acc)[4][4], const std::uint16_t* l,
                                         const std::uint16_t* r, int row0, int n0, int inner = C) {
  for (int k = 0; k < inner; k += 16) {
    std::uint32_t fl[4], fr[4];
    left(fl, l, row0, k);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if constexpr (kRightTransposed) {
        right_transposed(fr, r, n0 + n * 16, k);
      } else {
        right(fr, r, n0 + n * 16, k);
      }
      mma_bf16(acc[2 * n], fl, fr[0], fr[1]);
      mma_bf16(acc[2 * n + 1], fl, fr[2], fr[3]);
    }
  }
}

/// What chunk c adds to the memory: sum_j (s_j e^{G_last - G_j}) x_j^T for 64 columns of keys or
/// values.
__global__ void __launch_bounds__(kThreads) update_kernel(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto* g = reinterpret_cast<float*>(dynamic);
  float* s = g + C * kGate;
  auto* weights = reinterpret_cast<std::uint16_t*>(s + C * kGate);  // [token][slot]
  std::uint16_t* x = weights + C * kPad;                            // [token][column]
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int chunk = int(blockIdx.y), head = int(blockIdx.z);
  const int key_tiles = (m.k_dim + C - 1) / C;
  const bool keys = int(blockIdx.x) < key_tiles;
  const int tile = keys ? int(blockIdx.x) : int(blockIdx.x) - key_tiles;
  const int dim = keys ? m.k_dim : m.v_dim, columns = min(C, dim - tile * C),
            stride = m.kv_heads * dim;
  const int rows = min(C, a.segment.count - chunk * C);
  const std::uint16_t* from = (keys ? a.s.k + std::size_t(chunk * C) * stride
                                    : a.s.v + std::size_t(C + chunk * C) * stride) +
                              std::size_t(head) * dim + tile * C;
  load_tile(x, from, std::size_t(stride), rows, columns);
  copy_commit();
  load_gates(a, chunk, head, g, s);
  const float* last = g + (C - 1) * kGate;
  for (int i = int(threadIdx.x); i < C * C; i += kThreads) {
    const int t = i / C, slot = i % C;
    weights[t * kPad + slot] =
        to_bf16(s[t * kGate + slot] * __expf(last[slot] - g[t * kGate + slot]));
  }
  if (blockIdx.x == 0 && threadIdx.x < C) {
    a.s.decay[(std::size_t(chunk) * m.kv_heads + head) * C + threadIdx.x] = last[threadIdx.x];
  }
  copy_wait<0>();
  __syncthreads();

  const int warp = int(threadIdx.x) >> 5, lane = int(threadIdx.x) & 31;
  const int row0 = warp % 4 * 16, n0 = warp / 4 * 32;
  float acc[4][4] = {};
  for (int k = 0; k < C; k += 16) {
    std::uint32_t fl[4], fr[4];
    left_transposed(fl, weights, row0, k);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      right_transposed(fr, x, n0 + n * 16, k);
      mma_bf16(acc[2 * n], fl, fr[0], fr[1]);
      mma_bf16(acc[2 * n + 1], fl, fr[2], fr[3]);
    }
  }
  float* to = (keys ? a.s.keys : a.s.values) + (std::size_t(chunk) * m.kv_heads + head) * C * dim +
              tile * C;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const int column = n0 + n * 8 + (lane & 3) * 2;
    if (column >= columns) continue;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int slot = row0 + h * 8 + (lane >> 2);
      if (slot < m.memory) {
        *reinterpret_cast<float2*>(to + std::size_t(slot) * dim + column) =
            make_float2(acc[n][2 * h], acc[n][2 * h + 1]);
      }
    }
  }
}

/// In place: what each chunk adds becomes the memory at its start; the memory after the last chunk
/// goes to the state. Blocks past `memory_blocks` write the positional slots of the state instead.
__global__ void __launch_bounds__(kThreads)
    scan_kernel(const __grid_constant__ Args a, int memory_blocks) {
  extern __shared__ float2 rotation[];
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int positional = a.positional();
  if (int(blockIdx.x) < memory_blocks) {
    // Four columns of one slot, head by head: keys of all slots, then values.
    const int per_head = m.memory * (m.k_dim + m.v_dim) / 4;
    const int i = int(blockIdx.x) * kThreads + int(threadIdx.x);
    if (i >= per_head * m.kv_heads) return;
    const int head = i / per_head, within = i % per_head * 4;
    const bool keys = within < m.memory * m.k_dim;
    const int dim = keys ? m.k_dim : m.v_dim, at = keys ? within : within - m.memory * m.k_dim;
    const int slot = at / dim;
    const std::size_t state_at =
        m.layer_offset + std::size_t(head) * m.head_floats +
        (keys ? std::size_t(positional) * m.k_dim
              : std::size_t(a.slots()) * m.k_dim + std::size_t(positional) * m.v_dim) +
        std::size_t(at);
    float4 h = *reinterpret_cast<const float4*>(a.segment.state_in + state_at);
    float* scratch = (keys ? a.s.keys : a.s.values) + std::size_t(head) * C * dim + at;
    const std::size_t step = std::size_t(m.kv_heads) * C * dim;
    const float* decay = a.s.decay + std::size_t(head) * C + slot;
    constexpr int kAhead = 4;  // loads in flight
    float4 ahead[kAhead];
    float g[kAhead];
#pragma unroll
    for (int c = 0; c < kAhead; ++c) {
      if (c < a.chunks) {
        ahead[c] = *reinterpret_cast<const float4*>(scratch + std::size_t(c) * step);
        g[c] = decay[std::size_t(c) * m.kv_heads * C];
      }
    }
    for (int c0 = 0; c0 < a.chunks; c0 += kAhead) {
#pragma unroll
      for (int c = 0; c < kAhead; ++c) {
        if (c0 + c < a.chunks) {
          const float4 u = ahead[c];
          const float f = __expf(g[c]);
          if (c0 + c + kAhead < a.chunks) {
            ahead[c] =
                *reinterpret_cast<const float4*>(scratch + std::size_t(c0 + c + kAhead) * step);
            g[c] = decay[std::size_t(c0 + c + kAhead) * m.kv_heads * C];
          }
          *reinterpret_cast<float4*>(scratch + std::size_t(c0 + c) * step) = h;
          h = make_float4(fmaf(h.x, f, u.x), fmaf(h.y, f, u.y), fmaf(h.z, f, u.z),
                          fmaf(h.w, f, u.w));
        }
      }
    }
    *reinterpret_cast<float4*>(a.segment.state_out + state_at) = h;
    return;
  }
  // The newest token of the pass that belongs to a positional slot overwrites it.
  const int slot = int(blockIdx.x) - memory_blocks;
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

/// Shared memory of read_kernel.
struct ReadShared {
  float g[C * kGate];
  float s[C * kGate];
  float a[C * kGate];                // q k^T of the chunk, then probabilities of the memory slots
  float own[C * kGate];              // positional scores and probabilities: tokens of the chunk,
  float prior[C * kGate];            //   of the 64 before it,
  float sink[C * (kMostSinks + 1)];  //   sinks
  std::uint16_t tiles[6][C * kPad];
};

__global__ void __launch_bounds__(kThreads) read_kernel(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  ReadShared& sh = *reinterpret_cast<ReadShared*>(dynamic);
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int chunk = int(blockIdx.x), query = int(blockIdx.y), head = query / (m.heads / m.kv_heads);
  const int tid = int(threadIdx.x), warp = tid >> 5, lane = tid & 31;
  const int sub = warp % 4, row0 = sub * 16, half = warp / 4, n0 = half * 32;
  const int rows = min(C, a.segment.count - chunk * C);
  const bool positional = a.positional() > 0;
  const std::size_t q_stride = std::size_t(m.heads) * m.k_dim,
                    k_stride = std::size_t(m.kv_heads) * m.k_dim;
  const std::size_t v_stride = std::size_t(m.kv_heads) * m.v_dim;
  const std::size_t q_at = std::size_t(chunk * C) * q_stride + std::size_t(query) * m.k_dim;

  // 1. Scores against the memory at the chunk's start, the chunk's own keys, and the positional
  // keys.
  float memory[4][4] = {}, own[4][4] = {};
  float near[4][4] = {}, before[4][4] = {}, sinks[2][4] = {};
  const float* start = a.s.keys + (std::size_t(chunk) * m.kv_heads + head) * C * m.k_dim;
  for (int c0 = 0; c0 < m.k_dim; c0 += C) {
    const int columns = min(C, m.k_dim - c0);
    __syncthreads();
    load_tile(sh.tiles[0], a.s.q + q_at + c0, q_stride, rows, columns);
    load_tile(sh.tiles[1], a.s.k + std::size_t(chunk * C) * k_stride + head * m.k_dim + c0,
              k_stride, rows, columns);
    if (positional) {
      load_tile(sh.tiles[3], a.s.q_turned + q_at + c0, q_stride, rows, columns);
      load_tile(sh.tiles[4], a.s.k_turned + std::size_t(chunk * C) * k_stride + head * m.k_dim + c0,
                k_stride, C, columns);
      load_tile(sh.tiles[5],
                a.s.k_turned + std::size_t(chunk * C + C) * k_stride + head * m.k_dim + c0,
                k_stride, rows, columns);
    }
    copy_commit();
    load_tile_f32(sh.tiles[2], start + c0, std::size_t(m.k_dim), m.memory, columns);
    copy_wait<0>();
    __syncthreads();
    multiply<false>(memory, sh.tiles[0], sh.tiles[2], row0, n0);
    multiply<false>(own, sh.tiles[0], sh.tiles[1], row0, n0);
    if (positional) {
      multiply<false>(before, sh.tiles[3], sh.tiles[4], row0, n0);
      multiply<false>(near, sh.tiles[3], sh.tiles[5], row0, n0);
      if (m.sinks > 0) {
        __syncthreads();
        load_tile(sh.tiles[0], a.s.q_near + q_at + c0, q_stride, rows, columns);
        load_tile(sh.tiles[1], a.s.k_sink + head * m.k_dim + c0, k_stride, m.sinks, columns,
                  kMostSinks);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        if (half == 0) {
          for (int k = 0; k < C; k += 16) {
            std::uint32_t fl[4], fr[4];
            left(fl, sh.tiles[0], row0, k);
            right(fr, sh.tiles[1], 0, k);
            mma_bf16(sinks[0], fl, fr[0], fr[1]);
            mma_bf16(sinks[1], fl, fr[2], fr[3]);
          }
        }
      }
    }
  }
  load_gates(a, chunk, head, sh.g, sh.s);

  // Element (n, e) of a fragment: row row0 + e/2*8 + lane/4, column n0 + n*8 + lane%4*2 + e%2.
  const auto row_at = [&](int e) { return row0 + (e >> 1) * 8 + (lane >> 2); };
  const auto column_at = [&](int n, int e) { return n0 + n * 8 + (lane & 3) * 2 + (e & 1); };
  const std::uint64_t first = a.segment.position + std::uint64_t(chunk * C);  // position of row 0
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int t = row_at(e), j = column_at(n, e);
      sh.a[t * kGate + j] = own[n][e];
      if (!positional) continue;
      // Key j of the chunk has position first + j, of the rows before first + j - 64.
      const bool in_own = j <= t && t - j < m.window && first + j >= std::uint64_t(m.sinks);
      const bool in_prior = t - j + C < m.window && first + j >= std::uint64_t(C + m.sinks);
      sh.own[t * kGate + j] = in_own ? m.scale * near[n][e] : -INFINITY;
      sh.prior[t * kGate + j] = in_prior ? m.scale * before[n][e] : -INFINITY;
    }
  }
  if (positional && half == 0) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int t = row_at(e), j = n * 8 + (lane & 3) * 2 + (e & 1);
        const bool valid = j < m.sinks && std::uint64_t(j) <= first + t;
        sh.sink[t * (kMostSinks + 1) + j] = valid ? m.scale * sinks[n][e] : -INFINITY;
      }
    }
  }
  __syncthreads();

  // 2. What tokens of the chunk add to the memory scores.
  {
    float acc[4][4] = {};
    const float* gn = sh.g + row0 * kGate;  // the sub-chunk's first row
    for (int j0 = 0; j0 < row0; j0 += 16) {
      std::uint32_t fl[4];
      const int r = row0 + (lane >> 2), k = j0 + (lane & 3) * 2;
      fl[0] = pack_bf16(sh.a[r * kGate + k], sh.a[r * kGate + k + 1]);
      fl[1] = pack_bf16(sh.a[(r + 8) * kGate + k], sh.a[(r + 8) * kGate + k + 1]);
      fl[2] = pack_bf16(sh.a[r * kGate + k + 8], sh.a[r * kGate + k + 9]);
      fl[3] = pack_bf16(sh.a[(r + 8) * kGate + k + 8], sh.a[(r + 8) * kGate + k + 9]);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int slot = n0 + n * 8 + (lane >> 2);
        const auto weight = [&](int j) {
          return sh.s[j * kGate + slot] * __expf(gn[slot] - sh.g[j * kGate + slot]);
        };
        mma_bf16(acc[n], fl, pack_bf16(weight(k), weight(k + 1)),
                 pack_bf16(weight(k + 8), weight(k + 9)));
      }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int t = row_at(e), slot = column_at(n, e);
        const float gt = sh.g[t * kGate + slot];
        float sum = memory[n][e] * __expf(gt) + acc[n][e] * __expf(gt - gn[slot]);
        for (int j = row0; j <= t; ++j) {
          sum = fmaf(sh.a[t * kGate + j] * sh.s[j * kGate + slot],
                     __expf(gt - sh.g[j * kGate + slot]), sum);
        }
        memory[n][e] = sum;
      }
    }
  }
  __syncthreads();
  const float head_bias = m.head_read_bias != nullptr ? m.head_read_bias[query] : 0.0F;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int t = row_at(e), slot = column_at(n, e);
      float v = -INFINITY;
      if (slot < m.memory) {
        v = m.scale * memory[n][e] + head_bias;
        if (m.read_bias != nullptr) v += m.read_bias[head * m.memory + slot];
      }
      sh.a[t * kGate + slot] = v;
    }
  }
  __syncthreads();

  // 3. One softmax a row over memory, own, prior and sink scores; a warp takes eight rows.
  for (int t = warp * 8; t < warp * 8 + 8; ++t) {
    float v[7];
    v[0] = sh.a[t * kGate + lane], v[1] = sh.a[t * kGate + lane + 32];
    if (positional) {
      v[2] = sh.own[t * kGate + lane], v[3] = sh.own[t * kGate + lane + 32];
      v[4] = sh.prior[t * kGate + lane], v[5] = sh.prior[t * kGate + lane + 32];
      v[6] = lane < kMostSinks ? sh.sink[t * (kMostSinks + 1) + lane] : -INFINITY;
    }
    float peak = fmaxf(v[0], v[1]);
    if (positional) peak = fmaxf(fmaxf(fmaxf(peak, v[2]), fmaxf(v[3], v[4])), fmaxf(v[5], v[6]));
    peak = warp_max(peak);
    float sum = 0.0F;
    for (int i = 0; i < (positional ? 7 : 2); ++i) sum += v[i] = __expf(v[i] - peak);
    const float inverse = 1.0F / warp_sum(sum);
    sh.a[t * kGate + lane] = v[0] * inverse, sh.a[t * kGate + lane + 32] = v[1] * inverse;
    if (positional) {
      sh.own[t * kGate + lane] = v[2] * inverse, sh.own[t * kGate + lane + 32] = v[3] * inverse;
      sh.prior[t * kGate + lane] = v[4] * inverse, sh.prior[t * kGate + lane + 32] = v[5] * inverse;
      if (lane < kMostSinks) sh.sink[t * (kMostSinks + 1) + lane] = v[6] * inverse;
    }
  }
  __syncthreads();

  // 4. Weights of the chunk's values: P[t, j] = sum_m p_t s_j e^{G_t - G_j} (+ the window's), as
  // bf16 tiles: 0: p e^{G} on the memory, 1: P, 2: prior, 3: sinks.
  {
    float acc[4][4] = {};
    if (n0 < row0) {
      const float* gn = sh.g + row0 * kGate;
      for (int k0 = 0; k0 < C; k0 += 16) {
        std::uint32_t fl[4];
        const int r = row0 + (lane >> 2), k = k0 + (lane & 3) * 2;
        const auto p = [&](int t, int slot) {
          return sh.a[t * kGate + slot] * __expf(sh.g[t * kGate + slot] - gn[slot]);
        };
        fl[0] = pack_bf16(p(r, k), p(r, k + 1));
        fl[1] = pack_bf16(p(r + 8, k), p(r + 8, k + 1));
        fl[2] = pack_bf16(p(r, k + 8), p(r, k + 9));
        fl[3] = pack_bf16(p(r + 8, k + 8), p(r + 8, k + 9));
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          if (n0 + n * 8 >= row0) continue;  // only earlier sub-chunks
          const int j = n0 + n * 8 + (lane >> 2);
          const auto weight = [&](int slot) {
            return sh.s[j * kGate + slot] * __expf(gn[slot] - sh.g[j * kGate + slot]);
          };
          mma_bf16(acc[n], fl, pack_bf16(weight(k), weight(k + 1)),
                   pack_bf16(weight(k + 8), weight(k + 9)));
        }
      }
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int t = row_at(e), j = column_at(n, e);
        if (j / 16 != sub) {
          float v = j < row0 ? acc[n][e] : 0.0F;
          if (positional) v += sh.own[t * kGate + j];
          sh.tiles[1][t * kPad + j] = to_bf16(v);
        }
        sh.tiles[0][t * kPad + j] = to_bf16(sh.a[t * kGate + j] * __expf(sh.g[t * kGate + j]));
        if (positional) sh.tiles[2][t * kPad + j] = to_bf16(sh.prior[t * kGate + j]);
      }
    }
    for (int i = tid; i < C * 16; i += kThreads) {  // diagonal blocks, exactly
      const int t = i / 16, j = t / 16 * 16 + i % 16;
      float v = 0.0F;
      if (j <= t) {
        for (int slot = 0; slot < m.memory; ++slot) {
          v = fmaf(sh.a[t * kGate + slot] * sh.s[j * kGate + slot],
                   __expf(sh.g[t * kGate + slot] - sh.g[j * kGate + slot]), v);
        }
      }
      if (positional) {
        v += sh.own[t * kGate + j];
        sh.tiles[3][t * kPad + i % 16] = to_bf16(sh.sink[t * (kMostSinks + 1) + i % 16]);
      }
      sh.tiles[1][t * kPad + j] = to_bf16(v);
    }
  }

  // 5. Outputs, 64 columns at a time.
  const float* values = a.s.values + (std::size_t(chunk) * m.kv_heads + head) * C * m.v_dim;
  for (int c0 = 0; c0 < m.v_dim; c0 += C) {
    const int columns = min(C, m.v_dim - c0);
    float acc[4][4] = {};
    __syncthreads();
    load_tile(sh.tiles[4], a.s.v + std::size_t(C + chunk * C) * v_stride + head * m.v_dim + c0,
              v_stride, rows, columns);
    copy_commit();
    load_tile_f32(sh.tiles[5], values + c0, std::size_t(m.v_dim), m.memory, columns);
    copy_wait<0>();
    __syncthreads();
    multiply<true>(acc, sh.tiles[0], sh.tiles[5], row0, n0);
    multiply<true>(acc, sh.tiles[1], sh.tiles[4], row0, n0);
    if (positional) {
      __syncthreads();
      load_tile(sh.tiles[4], a.s.v + std::size_t(chunk * C) * v_stride + head * m.v_dim + c0,
                v_stride, C, columns);
      load_tile(sh.tiles[5], a.s.v_sink + head * m.v_dim + c0, v_stride, m.sinks, columns,
                kMostSinks);
      copy_commit();
      copy_wait<0>();
      __syncthreads();
      multiply<true>(acc, sh.tiles[2], sh.tiles[4], row0, n0);
      if (m.sinks > 0) multiply<true>(acc, sh.tiles[3], sh.tiles[5], row0, n0, kMostSinks);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int column = n0 + n * 8 + (lane & 3) * 2;
      if (column >= columns) continue;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int t = row0 + h * 8 + (lane >> 2);
        if (t < rows) {
          float* to = m.out + std::size_t(a.segment.first + chunk * C + t) * (m.heads * m.v_dim) +
                      std::size_t(query) * m.v_dim + c0 + column;
          *reinterpret_cast<float2*>(to) = make_float2(acc[n][2 * h], acc[n][2 * h + 1]);
        }
      }
    }
  }
}

constexpr std::size_t kUpdateShared =
    2 * C * kGate * sizeof(float) + 2 * C * kPad * sizeof(std::uint16_t);

}  // namespace

bool slot_chunkwise_fits(const SlotMixer& m) {
  return m.memory >= 1 && m.memory <= C && m.window <= C && m.sinks <= kMostSinks &&
         m.k_dim % 8 == 0 && m.v_dim % 8 == 0 && m.k_dim <= 4096;
}

cudaError_t prepare_slot_chunkwise() {
  if (cudaError_t e =
          cudaFuncSetAttribute(reinterpret_cast<const void*>(&update_kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, int(kUpdateShared));
      e != cudaSuccess) {
    return e;
  }
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(&read_kernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(ReadShared)));
}

cudaError_t slot_chunkwise(const Launch& l, const SlotMixer& m, const Segment& segment,
                           const ChunkScratch& scratch) {
  const int chunks = (segment.count + C - 1) / C;
  const Args a{.m = m, .segment = segment, .s = scratch, .chunks = chunks};
  const int positional = m.sinks + m.window;
  const std::size_t table = std::size_t(m.k_dim) * sizeof(float2);
  const unsigned prepare = unsigned(segment.count + (positional > 0 ? C + kMostSinks : 0));
  if (cudaError_t e = launch(l, prepare_kernel, dim3(prepare), kThreads, table, 1, a);
      e != cudaSuccess)
    return e;
  const unsigned tiles = unsigned((m.k_dim + C - 1) / C + (m.v_dim + C - 1) / C);
  if (cudaError_t e = launch(l, update_kernel, dim3(tiles, unsigned(chunks), unsigned(m.kv_heads)),
                             kThreads, kUpdateShared, 1, a);
      e != cudaSuccess) {
    return e;
  }
  const int vectors = m.kv_heads * m.memory * (m.k_dim + m.v_dim) / 4;
  const int memory_blocks = (vectors + kThreads - 1) / kThreads;
  if (cudaError_t e = launch(l, scan_kernel, dim3(unsigned(memory_blocks + positional)), kThreads,
                             table, 1, a, memory_blocks);
      e != cudaSuccess) {
    return e;
  }
  return launch(l, read_kernel, dim3(unsigned(chunks), unsigned(m.heads)), kThreads,
                sizeof(ReadShared), 1, a);
}

}  // namespace runnel::cuda
