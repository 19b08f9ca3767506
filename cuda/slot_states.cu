// SPDX-License-Identifier: Apache-2.0
// The memory slots at the start of every chunk: h' = 2^G_last h + sum_j (s_j 2^(G_last - G_j))
// x_j^T, and after the last one, in the state.
//
// A block keeps 64 slots x 32 channels of one head's keys or values in f32 registers and walks the
// chunks, 16 x 16 per warp; its operands are four chunks ahead in shared memory, so a chunk costs a
// warp 8 products of 16 x 8 x 16 and one barrier. Nothing but the memory at chunk starts is stored,
// in bf16, as the reading products take it. Blocks past those write the state's positional slots.
// The memory of broad states is walked 64 slots at a time, keys without what they share (SlotMixer::k_bias), stored as
// sums of two bf16.
#include <algorithm>

#include "cuda/device/launch.cuh"
#include "cuda/device/ops/slot_tiles.cuh"

namespace runnel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumns = 32;
constexpr int kColumnPad = 40;  // 80 bytes per row: no bank conflicts for ldmatrix
constexpr int kStages = 5;
constexpr int kStageBytes = kTileBytes + kTile * kColumnPad * 2 + kTile * 4;
constexpr int kShared = kStages * kStageBytes;

/// The newest token of the pass that belongs to a positional slot overwrites it.
__device__ void write_positional(const ChunkArgs& a, int slot, float2* rotation) {
  const SlotMixer& m = a.m;
  const Segment segment = *a.segment;
  const std::uint64_t start = segment.position, end = start + std::uint64_t(a.tokens);
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
  const float* const k_bias = m.qkv_bias != nullptr ? m.qkv_bias + m.heads * m.k_dim : nullptr;
  const float* const v_bias = k_bias != nullptr ? k_bias + m.kv_heads * m.k_dim : nullptr;
  for (int i = int(threadIdx.x); i < m.kv_heads * m.k_dim; i += kThreads) {
    const int head = i / m.k_dim, c = i % m.k_dim;
    segment.state_out[m.layer_offset + std::size_t(head) * m.head_floats +
                      std::size_t(slot) * m.k_dim + c] =
        rotated(m, k + i - c, k_bias != nullptr ? k_bias + i - c : nullptr, c, rotation);
  }
  for (int i = int(threadIdx.x); i < m.kv_heads * m.v_dim; i += kThreads) {
    const int head = i / m.v_dim, c = i % m.v_dim;
    segment.state_out[m.layer_offset + std::size_t(head) * m.head_floats +
                      std::size_t(a.slots()) * m.k_dim + std::size_t(slot) * m.v_dim + c] =
        mapped(m, m.v_act, v_bias != nullptr ? v[i] + v_bias[i] : v[i]);
  }
}

/// Chunks [first, end) that a block walks: span `span` of `spans` about equal ones.
struct Span {
  int first, end;
  __device__ Span(int chunks, int spans, int span)
      : first(int(std::int64_t(chunks) * span / spans)),
        end(int(std::int64_t(chunks) * (span + 1) / spans)) {}
};

/// A warp's 16 x 16 of 64 slots of a head, part `part` of `parts`, and 32 channels of their keys or values.
struct Own {
  bool keys;
  int head, dim, column0, part, parts;
  int slots, columns;            // how many there are
  int row0, first_column, lane;  // of the warp
  int slot, column;              // of the lane, which has slot + 8 and column + 8 as well
};

/// What a block leaves, to the state; `common` is what it was without.
__device__ __forceinline__ void store_memory(const Own& t, float* to, const float (&h)[2][4],
                                             const float2 (&common)[2]) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const int s = t.slot + e * 4, c = t.column + n * 8;
      if (s < t.slots && c < t.columns) {
        *reinterpret_cast<float2*>(to + std::size_t(s) * t.dim + c) =
            make_float2(h[n][e] + common[n].x, h[n][e + 1] + common[n].y);
      }
    }
  }
}

/// The memory between spans, [span][block][16 x 16 of a warp][lane]: the start of every span but the first, and, last,
/// that of the first, which the last one may overwrite. Decays: [span][part][64].
struct SpanEnds {
  float *ends, *decays;
  int memory_blocks, block, tid, parts, part, slot;

  __device__ __forceinline__ float* at(int s) const {
    return ends + ((std::size_t(s) * memory_blocks + block) * kThreads + tid) * 8;
  }
  __device__ __forceinline__ float* decay(int s) const {
    return decays + (s * parts + part) * kTile + slot;
  }
  __device__ __forceinline__ void put(int s, const float (&h)[2][4]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n)
      reinterpret_cast<float4*>(at(s))[n] = make_float4(h[n][0], h[n][1], h[n][2], h[n][3]);
  }
  __device__ __forceinline__ void get(int s, float (&h)[2][4]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float4 w = reinterpret_cast<const float4*>(at(s))[n];
      h[n][0] = w.x, h[n][1] = w.y, h[n][2] = w.z, h[n][3] = w.w;
    }
  }
  /// The start of a span, of what those before it have left.
  __device__ __forceinline__ void join(int span, int spans, float (&h)[2][4]) const {
    get(span > 0 ? 0 : spans - 1, h);
    for (int s = 1; s < span; ++s) {
      float v[2][4];
      get(s, v);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) h[n][e] = fmaf(h[n][e], decay(s)[e / 2 * 8], v[n][e]);
      }
    }
  }
};

/// Walks chunks: stores the memory at the start of each, unless kEnds, and adds up what they keep. `fetch` asks for the next.
template <bool kBroad, bool kEnds, class Next>
__device__ __forceinline__ void walk_chunks(const ChunkArgs& a, const Own& t, const Span& walk,
                                            const Next& fetch, const unsigned char* dynamic,
                                            float (&h)[2][4], float (&decayed)[2]) {
  // Lanes trade halves of two blocks so that each stores eight bytes.
  const bool odd = (t.lane & 1) != 0;
  const int out_column = odd ? t.column + 6 : t.column;
  std::uint16_t* out = (t.keys ? a.o.keys : a.o.values) +
                       (std::size_t(walk.first) * t.parts + t.part) * kTile * t.dim + t.column0 +
                       std::size_t(t.slot) * t.dim + out_column;
  const std::ptrdiff_t to_low = kBroad && t.keys ? a.o.keys_low - a.o.keys : 0;
  const std::size_t out_step = std::size_t(t.parts) * kTile * t.dim;
  const bool out_inside = out_column < t.columns;
  int at = 0;
  for (int chunk = walk.first; chunk < walk.end; ++chunk) {
    copy_wait<kStages - 2>();
    __syncthreads();
    fetch();  // into the stage that the chunk before this one has left
    const auto* carry = reinterpret_cast<const std::uint16_t*>(dynamic + at);
    const auto* x = reinterpret_cast<const std::uint16_t*>(dynamic + at + kTileBytes);
    const auto* decay =
        reinterpret_cast<const float*>(dynamic + at + kTileBytes + kTile * kColumnPad * 2);
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const bool inside = t.slot + e * 4 < t.slots && out_inside;
      const auto store = [&](std::uint16_t* to, std::uint32_t one, std::uint32_t two) {
        const std::uint32_t got = __shfl_xor_sync(~0U, odd ? one : two, 1);
        if (inside && !kEnds) {
          *reinterpret_cast<uint2*>(to + std::size_t(e * 4) * t.dim) =
              odd ? make_uint2(got, two) : make_uint2(one, got);
        }
      };
      const std::uint32_t one = pack_bf16(h[0][e], h[0][e + 1]),
                          two = pack_bf16(h[1][e], h[1][e + 1]);
      if (!kEnds) store(out, one, two);
      if (kBroad && !kEnds && t.keys) {
        store(out + to_low, pack_bf16(h[0][e] - bf16_low(one), h[0][e + 1] - bf16_high(one)),
              pack_bf16(h[1][e] - bf16_low(two), h[1][e + 1] - bf16_high(two)));
      }
      const float d = decay[t.slot + e * 4];
      if (kEnds) decayed[e / 2] *= d;
#pragma unroll
      for (int n = 0; n < 2; ++n) h[n][e] *= d, h[n][e + 1] *= d;
    }
#pragma unroll
    for (int k = 0; k < kTile; k += 16) {
      std::uint32_t fl[4], fr[4];
      left_transposed<kPad>(fl, carry, t.row0, k);
      right_transposed<kColumnPad>(fr, x, t.first_column, k);
      mma_bf16(h[0], fl, fr[0], fr[1]);
      mma_bf16(h[1], fl, fr[2], fr[3]);
    }
    out += out_step;
    at = at == (kStages - 1) * kStageBytes ? 0 : at + kStageBytes;
  }
}

/// Grid: memory_blocks of every span, then a block a positional slot. In a walk by spans kEnds runs first and leaves
/// the memory at the end of every span, walked from zero (the first: from the state), and its decay.
template <bool kBroad, bool kEnds>
__global__ void __launch_bounds__(kThreads)
    states_kernel(const __grid_constant__ ChunkArgs a, int memory_blocks, int key_tiles,
                  int spans) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  chain_trigger();
  chain_wait();
  const SlotMixer& m = a.m;
  const int walks = memory_blocks * (kEnds ? spans - 1 : spans);
  if (int(blockIdx.x) >= walks) {
    write_positional(a, int(blockIdx.x) - walks, reinterpret_cast<float2*>(dynamic));
    return;
  }
  const int block = kBroad ? int(blockIdx.x) % memory_blocks : int(blockIdx.x),
            span = kBroad ? int(blockIdx.x) / memory_blocks : 0;
  const Span walk(a.chunks, spans, span);
  // 64 slots of a head, "part", and 32 channels.
  const int blocks = kBroad ? a.slot_blocks() : 1, parts = m.kv_heads * blocks;
  const int part = block % parts, tile = block / parts;
  const int head = part / blocks, slot0 = kBroad ? part % blocks * kTile : 0;
  const int slots = kBroad ? min(kTile, m.memory - slot0) : m.memory;
  const bool keys = tile < key_tiles;
  constexpr int kBefore = kBroad ? kBroadWindow : kChunk;  // rows of values before the pass's own
  const int column0 = (keys ? tile : tile - key_tiles) * kColumns;
  const int dim = keys ? m.k_dim : m.v_dim, columns = min(kColumns, dim - column0);
  const int stride = keys ? a.o.k_stride : a.o.v_stride;
  const std::size_t x_stride = stride > 0 ? std::size_t(stride) : std::size_t(m.kv_heads) * dim;
  const int tid = int(threadIdx.x), warp = tid >> 5, lane = tid & 31;
  const int row0 = warp % 4 * 16, first_column = warp / 4 * 16;
  const int slot = row0 + (lane >> 2), column = first_column + (lane & 3) * 2;
  const std::uint32_t shared = shared_address(dynamic);
  const Own own{keys,    head, dim,          column0, part, parts, slots,
                columns, row0, first_column, lane,    slot, column};

  // What this thread fetches: two pieces of 16 bytes of the weights, one of the channels, a decay.
  const int carry_row = tid / 8, x_row = tid / 4, x_column = tid % 4 * 8;
  const std::uint16_t* carry_from = a.o.carry +
                                    (std::size_t(walk.first) * parts + part) * kTile * kTile +
                                    carry_row * kTile + tid % 8 * 8;
  const std::uint16_t* x_from =
      (keys ? a.o.k : a.o.v + std::size_t(a.positional() > 0 ? kBefore : 0) * x_stride) +
      std::size_t(head) * dim + column0 + std::size_t(walk.first * kChunk + x_row) * x_stride +
      x_column;
  const float* decay_from = a.o.decay + (std::size_t(walk.first) * parts + part) * kTile + tid * 4;
  const std::uint32_t carry_to = shared + (carry_row * kPad + tid % 8 * 8) * 2,
                      x_to = shared + kTileBytes + (x_row * kColumnPad + x_column) * 2,
                      decay_to = shared + kTileBytes + kTile * kColumnPad * 2 + tid * 16;
  const std::size_t carry_step = std::size_t(parts) * kTile * kTile, x_step = kChunk * x_stride,
                    decay_step = std::size_t(parts) * kTile;
  const bool x_inside = x_column < columns;
  int fetched = walk.first;
  std::uint32_t fetch_at = 0;
  const auto fetch = [&]() {
    if (fetched < walk.end) {
      copy16(carry_to + fetch_at, carry_from, true);
      copy16(carry_to + fetch_at + 32 * kPad * 2, carry_from + 32 * kTile, true);
      const bool valid = x_inside && x_row < a.tokens - fetched * kChunk;
      copy16(x_to + fetch_at, valid ? x_from : a.o.carry, valid);
      if (tid < kTile / 4) copy16(decay_to + fetch_at, decay_from, true);
      carry_from += carry_step, x_from += x_step, decay_from += decay_step;
      ++fetched;
      fetch_at = fetch_at == (kStages - 1) * kStageBytes ? 0 : fetch_at + kStageBytes;
    }
    copy_commit();
  };
#pragma unroll
  for (int c = 0; c < kStages - 1; ++c) fetch();

  const std::size_t memory_at =
      m.layer_offset + std::size_t(head) * m.head_floats +
      (keys ? std::size_t(a.positional()) * m.k_dim
            : std::size_t(a.slots()) * m.k_dim + std::size_t(a.positional()) * m.v_dim) +
      std::size_t(slot0) * dim + std::size_t(column0);
  const float* state_in = a.segment->state_in;
  float* state_out = a.segment->state_out;
  float h[2][4] = {};
  float2 common[2] = {};
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    if (kBroad && keys && m.k_bias != nullptr && column + n * 8 < columns) {
      const float* b = m.k_bias + head * dim + column0 + column + n * 8;
      common[n] = make_float2(b[0], b[1]);
    }
    if (span > 0) continue;
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const int s = slot + e * 4, c = column + n * 8;
      if (s < slots && c < columns) {
        const float2 v =
            *reinterpret_cast<const float2*>(state_in + memory_at + std::size_t(s) * dim + c);
        h[n][e] = v.x - common[n].x, h[n][e + 1] = v.y - common[n].y;
      }
    }
  }

  const SpanEnds ends{a.o.ends, a.o.span_decay, memory_blocks, block, tid, parts, part, slot};
  float decayed[2] = {1.0F, 1.0F};  // of slots `slot` and `slot` + 8
  if constexpr (kEnds) {
    if (span == 0) ends.put(spans - 1, h);
  } else if (kBroad && spans > 1) {
    ends.join(span, spans, h);
  }

  walk_chunks<kBroad, kEnds>(a, own, walk, fetch, dynamic, h, decayed);
  if constexpr (kEnds) {
    ends.put(span, h);
    if (keys && tile == 0 && first_column == 0 && (lane & 3) == 0)
      ends.decay(span)[0] = decayed[0], ends.decay(span)[8] = decayed[1];
    return;
  }
  if (span + 1 < spans) return;
  store_memory(own, state_out + memory_at, h, common);
}

}  // namespace

cudaError_t prepare_slot_states() {
  for (const void* kernel : {reinterpret_cast<const void*>(&states_kernel<false, false>),
                             reinterpret_cast<const void*>(&states_kernel<true, false>),
                             reinterpret_cast<const void*>(&states_kernel<true, true>)}) {
    const cudaError_t e =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
    if (e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

cudaError_t slot_states(const Launch& l, const SlotMixer& m, const ChunkPass& pass,
                        const ChunkOperands& o) {
  const ChunkArgs a = chunk_args(m, pass, o);
  const int key_tiles = (m.k_dim + kColumns - 1) / kColumns,
            value_tiles = (m.v_dim + kColumns - 1) / kColumns;
  const bool broad = chunk_kernels_of(m) == ChunkKernels::broad;
  const int memory_blocks = (key_tiles + value_tiles) * m.kv_heads * (broad ? a.slot_blocks() : 1);
  // A walk is some 0.6 us a chunk on few blocks: in spans it is done twice, but side by side.
  constexpr int kFewestChunks = 4;  // of a span
  const int spans = broad ? std::clamp(a.chunks / kFewestChunks, 1, pass.broad.spans) : 1;
  if (spans > 1) {
    const dim3 grid(unsigned(memory_blocks * (spans - 1)));
    if (cudaError_t e = launch(l, states_kernel<true, true>, grid, kThreads, kShared, 1, a,
                               memory_blocks, key_tiles, spans);
        e != cudaSuccess) {
      return e;
    }
  }
  return launch(l, broad ? states_kernel<true, false> : states_kernel<false, false>,
                dim3(unsigned(memory_blocks * spans + m.sinks + m.window)), kThreads, kShared, 1, a,
                memory_blocks, key_tiles, spans);
}

}  // namespace runnel::cuda
