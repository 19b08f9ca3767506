// SPDX-License-Identifier: Apache-2.0
// The rings of the decode kernel: what each warp multiplies, brought to shared memory in pieces.
#pragma once

#include "cuda/device/decode_exchange.cuh"

namespace runnel::cuda {

/// A warp's ring as it walks it.
struct Ring {
  int slot = 0;
  unsigned parity = 0, done = 0;  // slots so far
};
__device__ __forceinline__ void wait_barrier(const Decode& p, std::uint64_t* barrier,
                                             unsigned parity) {
  unsigned asked = 0;
#pragma unroll 1
  while (!barrier_passed(barrier, parity)) {
    if ((++asked & 4095U) != 0) continue;
    if (load_flag(p.trouble) != 0) return;
    if (asked >= p.patience) store_flag(p.trouble, 0xC0000000U);
  }
}

/// This block's share of the slots: `splits` blocks a kv head, spread.
__device__ __forceinline__ void take_slots(const Decode& p, int cta, DecodeToken& t) {
  t.head = -1, t.split = 0, t.first = 0, t.count = 0;
  if (cta >= p.blocks) return;
  const int shares = p.kv_heads * p.splits;
  // Share j is at block j * blocks / shares.
  const int j = (cta * shares + p.blocks - 1) / p.blocks;
  if (j >= shares || j * p.blocks / shares != cta) return;
  t.head = j / p.splits, t.split = j % p.splits;
  t.first = t.split * p.slots_per_split;
  t.count = max(0, min(p.slots_per_split, p.sinks + p.window + p.memory - t.first));
}

__device__ __forceinline__ void prefetch_vector(const float* v, int floats) {
  if (v != nullptr && floats >= 4) bulk_prefetch(v, unsigned(floats / 4 * 16));
}

/// What one warp multiplies, in order, cut into pieces that fit a slot of its ring.
struct Pieces {
  int layer, matrix = -1, left = 0, first = 0;
  unsigned count = 0;  // pieces so far
  bool done = false;

  /// Moves to a matrix of which the warp has something.
  __device__ __forceinline__ void settle(const Decode& p, const DecodeLayer* layers, int warp) {
#pragma unroll 1
    while (left == 0 && !done) {
      if (++matrix == kDecodeInputs + 4) {
        matrix = -1;
        done = ++layer > p.num_layers;
        continue;
      }
      const int shape = layers[layer].matrices[matrix].shape;
      if (shape < 0) continue;
      const DecodeRun& run = shared_at<const DecodeRun>(p.shared.runs)[shape * kDecodeWarps + warp];
      left = run.count, first = run.first;
    }
  }
  /// The piece; its data are `bytes` from `from`.
  __device__ __forceinline__ int piece(const DecodeShape& s, std::size_t& from,
                                       unsigned& bytes) const {
    const int n = min(left, s.piece_steps), tile = first / s.steps, end = (first + n) / s.steps;
    from = std::size_t(tile) * unsigned(s.tile_bytes) +
           unsigned((first - tile * s.steps) * s.step_bytes);
    bytes = unsigned(std::size_t(end) * unsigned(s.tile_bytes) +
                     unsigned((first + n - end * s.steps) * s.step_bytes) - from);
    return n;
  }
  __device__ __forceinline__ void advance(int n) { left -= n, first += n, ++count; }
};

/// What the slots of a layer will need, and its vectors, to L2.
__device__ __forceinline__ void ask_for_layer(const Decode& p, int cta, int l) {
  const auto& token = *shared_at<const DecodeToken>(p.shared.token);
  const DecodeLayer& w = shared_at<const DecodeLayer>(p.shared.layers)[l];
  if (token.head >= 0 && token.count > 0) {
    const float* keys = token.segment.state_in + std::size_t(l) * p.layer_floats +
                        std::size_t(token.head) * p.head_floats;
    const float* values = keys + std::size_t(p.sinks + p.window + p.memory) * unsigned(p.k_dim);
    bulk_prefetch(keys + token.first * p.k_dim, unsigned(token.count * p.k_dim) * 4);
    bulk_prefetch(values + token.first * p.v_dim, unsigned(token.count * p.v_dim) * 4);
  }
  if (l % p.blocks != cta) return;
#pragma unroll 1
  for (int i = 0; i < 3; ++i) prefetch_vector(w.norms[i], p.widths[i]);
  prefetch_vector(w.f_bias, p.kv_heads * p.memory);
  prefetch_vector(w.read_bias, p.kv_heads * p.memory);
  prefetch_vector(w.head_read_bias, p.heads);
}

/// One lane a warp that multiplies.
__device__ __forceinline__ void fill_rings(int cta, int warp) {
  const Decode& p = program<0>(0);
  const auto* layers = shared_at<const DecodeLayer>(p.shared.layers);
  const std::uint64_t policy = p.keep != 0 ? policy_normal() : policy_leave_first();
  const std::uint32_t* const emptied = shared_at<const std::uint32_t>(p.shared.emptied) + warp;
  std::uint64_t* const barriers = shared_at<std::uint64_t>(p.shared.barriers) + warp * p.ring_slots;
  unsigned char* const ring = shared_at<unsigned char>(p.shared.ring) + warp * p.ring_bytes;
  const int from_layer = cta < p.blocks ? 0 : p.num_layers;
  Pieces next{.layer = from_layer};
  next.settle(p, layers, warp);
  int slot = 0, layers_asked = warp == 0 ? from_layer : p.num_layers;
  unsigned asked = 0;
#pragma unroll 1
  while (!next.done) {
#pragma unroll 1
    for (; layers_asked < min(next.layer + 2, p.num_layers); ++layers_asked)
      ask_for_layer(p, cta, layers_asked);
    if (int(next.count - watch_word(emptied)) < p.ring_slots) {
      const DecodeMatrix& m = layers[next.layer].matrices[next.matrix];
      const DecodeShape& s = p.shapes[m.shape];
      std::size_t from;
      unsigned bytes;
      const int n = next.piece(s, from, bytes);
      const unsigned scales = unsigned(n * s.scale_bytes), high = unsigned(n * s.high_bytes);
      unsigned char* const to = ring + slot * p.slot_bytes;
      std::uint64_t* const full = barriers + slot;
      barrier_expect(full, bytes + scales + high);
      bulk_copy(to, static_cast<const char*>(m.data) + from, bytes, full, policy);
      if (scales != 0)
        bulk_copy(to + s.scale_at,
                  static_cast<const char*>(m.scales) +
                      std::size_t(unsigned(next.first)) * unsigned(s.scale_bytes),
                  scales, full, policy);
      if (high != 0)
        bulk_copy(to + s.high_at,
                  static_cast<const char*>(m.high) +
                      std::size_t(unsigned(next.first)) * unsigned(s.high_bytes),
                  high, full, policy);
      if (++slot == p.ring_slots) slot = 0;
      next.advance(n);
      next.settle(p, layers, warp);
      asked = 0;
    } else if ((++asked & 4095U) == 0 && load_flag(p.trouble) != 0) {
      return;  // nobody empties the ring any more
    }
  }
}

}  // namespace runnel::cuda
