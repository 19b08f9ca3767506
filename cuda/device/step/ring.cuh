// SPDX-License-Identifier: Apache-2.0
// The ring of the decode kernel: what a block multiplies, brought to shared memory piece by piece.
//
// A piece is some whole tiles of a matrix: their data, scales and upper bits. It lies in one piece
// in the ring too; what would not fit before the ring's end begins at its beginning. So every block
// knows the place of the next piece.
#pragma once

#include "cuda/device/step/exchange.cuh"

namespace runnel::cuda {

/// The ring as a warp walks it.
struct Ring {
  int slot = 0, at = 0;
  unsigned parity = 0;

  /// Where the next piece lies.
  __device__ __forceinline__ int place(int bytes, int ring_bytes) {
    const int here = at + bytes <= ring_bytes ? at : 0;
    at = here + bytes;
    return here;
  }
  __device__ __forceinline__ void advance() {
    if (++slot == kDecodePieces) slot = 0, parity ^= 1U;
  }
};
/// Rounded, so that every piece begins at a multiple of 128.
__device__ __forceinline__ int piece_bytes(int tiles, int tile_bytes, int more_bytes) {
  return (tiles * (tile_bytes + more_bytes) + 127) & ~127;
}
/// This block's share of the slots: `splits` blocks a kv head or, of some programs, a query head, spread.
__device__ __forceinline__ void take_slots(const Decode& p, int cta, DecodeToken& t) {
  t.head = -1, t.query = 0, t.split = 0, t.first = 0, t.count = 0;
  if (cta >= p.blocks) return;
  const int of_head = p.split_queries * p.splits, shares = p.kv_heads * of_head;
  // Share j is at block j * blocks / shares.
  const int j = (cta * shares + p.blocks - 1) / p.blocks;
  if (j >= shares || j * p.blocks / shares != cta) return;
  t.head = j / of_head, t.query = j % of_head / p.splits, t.split = j % p.splits;
  t.first = t.split * p.slots_per_split;
  t.count = max(0, min(p.slots_per_split, p.sinks + p.window + p.memory - t.first));
}

__device__ __forceinline__ void prefetch_vector(const float* v, int floats) {
  if (v != nullptr && floats >= 4) bulk_prefetch(v, unsigned(floats / 4 * 16));
}

/// What the slots of a layer will need, and its vectors, to L2.
__device__ __forceinline__ void ask_for_layer(const Decode& p, int cta, int l) {
  const auto& token = *shared_at<const DecodeToken>(p.shared.token);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[l];
  if (token.head >= 0 && token.query == 0 && token.count > 0) {
    const float* keys = token.segment.state_in + std::size_t(l) * p.layer_floats +
                        std::size_t(token.head) * p.head_floats;
    const float* values = keys + std::size_t(p.sinks + p.window + p.memory) * unsigned(p.k_dim);
    bulk_prefetch(keys + token.first * p.k_dim, unsigned(token.count * p.k_dim) * 4);
    bulk_prefetch(values + token.first * p.v_dim, unsigned(token.count * p.v_dim) * 4);
  }
  if (l % p.blocks != cta) return;
#pragma unroll 1
  for (int i = 0; i < 3; ++i) prefetch_vector(w.norms[i], p.widths[i]);
  if (p.biased != 0)
    prefetch_vector(w.norms[kQkvBias], (p.heads + p.kv_heads) * p.k_dim + p.kv_heads * p.v_dim);
  prefetch_vector(w.f_bias, p.kv_heads * p.memory);
  prefetch_vector(w.read_bias, p.kv_heads * p.memory);
  prefetch_vector(w.head_read_bias, p.heads);
}

/// The pieces in the ring, for the thread that fills it.
struct RingFiller {
  const Decode& p;
  std::uint64_t* const full;
  std::uint64_t* const empty;
  std::uint32_t* const starts;
  unsigned first = 0, next = 0;  // of all pieces: the oldest in the ring, the next one
  unsigned end = 0;              // of the newest, in bytes since the beginning, gaps included
  int at = 0;                    // the same in the ring

  /// Makes room for the next piece and says where. -1: given up.
  __device__ __forceinline__ int make_room(int bytes) {
    const int here = at + bytes <= p.ring_bytes ? at : 0;
    const unsigned begin = end + unsigned(here == at ? 0 : p.ring_bytes - at);
#pragma unroll 1
    while (next - first == kDecodePieces ||
           (next != first &&
            begin + unsigned(bytes) - starts[first % kDecodePieces] > unsigned(p.ring_bytes))) {
      if (!wait_barrier(p, empty + first % kDecodePieces, (first / kDecodePieces) & 1U)) return -1;
      ++first;
    }
    starts[next % kDecodePieces] = begin;
    at = here + bytes, end = begin + unsigned(bytes);
    return here;
  }
};

/// One thread of the block.
__device__ __forceinline__ void fill_ring(int cta) {
  const Decode& p = program<0>(0);
  const auto* layers = shared_at<const DecodeLayer>(p.shared.layers);
  const auto* ranges = shared_at<const int2>(p.shared.ranges);
  const std::uint64_t policy = p.keep != 0 ? policy_normal() : policy_leave_first();
  auto* const barriers = shared_at<std::uint64_t>(p.shared.barriers);
  RingFiller filler{p, barriers, barriers + kDecodePieces,
                    shared_at<std::uint32_t>(p.shared.starts)};
  int layers_asked = cta < p.blocks ? 0 : p.num_layers;
#pragma unroll 1
  for (int l = layers_asked; l <= p.num_layers; ++l) {
#pragma unroll 1
    for (; layers_asked < min(l + 2, p.num_layers); ++layers_asked)
      ask_for_layer(p, cta, layers_asked);
#pragma unroll 1
    for (int i = 0; i < kDecodeInputs + 4; ++i) {
      const DecodeMatrix& m = layers[l].matrices[i];
      if (m.shape < 0) continue;
      const DecodeShape& s = p.shapes[m.shape];
      const int2 range = ranges[m.shape];
      const int tile_scales = s.steps * s.scale_bytes, tile_high = s.steps * s.high_bytes;
#pragma unroll 1
      for (int tile = range.x; tile < range.y; tile += s.piece_tiles) {
        const int n = min(s.piece_tiles, range.y - tile);
        const int here = filler.make_room(piece_bytes(n, s.tile_bytes, tile_scales + tile_high));
        if (here < 0) return;  // the ring is not emptied any more
        const unsigned data = unsigned(n * s.tile_bytes), scales = unsigned(n * tile_scales),
                       high = unsigned(n * tile_high);
        unsigned char* const to = shared_at<unsigned char>(p.shared.ring) + here;
        std::uint64_t* const full = filler.full + filler.next % kDecodePieces;
        const std::size_t before = std::size_t(unsigned(tile));
        barrier_expect(full, data + scales + high);
        bulk_copy(to, static_cast<const char*>(m.data) + before * unsigned(s.tile_bytes), data,
                  full, policy);
        if (scales != 0)
          bulk_copy(to + data, static_cast<const char*>(m.scales) + before * unsigned(tile_scales),
                    scales, full, policy);
        if (high != 0)
          bulk_copy(to + data + scales,
                    static_cast<const char*>(m.high) + before * unsigned(tile_high), high, full,
                    policy);
        ++filler.next;
      }
    }
  }
}

}  // namespace runnel::cuda
