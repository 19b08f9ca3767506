// SPDX-License-Identifier: Apache-2.0
// What the steps of one pass share: the tokens of all items one after the other, and the buffers between the steps.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/backend/cpu/cpu_model.h"

namespace runnel::cpu {

/// Into how many items each thread's share of a product of `bytes` of weights is cut, so that threads finish together. With one
/// token an item takes as long as its bytes: each costs 100 ns to claim, and half of the last one is spent waiting for others.
inline int items_per_thread(std::size_t bytes, int threads, int tokens) {
  constexpr std::size_t kBytesOfTwoClaims = 8192;  // what a thread reads meanwhile, at 41 GB/s
  constexpr int kFewest = 8, kMost = 32;
  if (tokens > 1) return kFewest;
  const std::size_t own = bytes / static_cast<std::size_t>(threads);
  return std::clamp(static_cast<int>(std::sqrt(own / kBytesOfTwoClaims)), kFewest, kMost);
}

/// Slices [begin, end) of n of some bytes, in whole lines.
inline std::span<const std::uint8_t> slices(const std::uint8_t* data, std::size_t bytes, int begin,
                                            int end, int n) {
  const std::size_t lines = bytes / 64, count = static_cast<std::size_t>(n);
  const std::size_t first = lines * static_cast<std::size_t>(begin) / count;
  return {data + 64 * first, 64 * (lines * static_cast<std::size_t>(end) / count - first)};
}

/// Prefetches what comes next, so that it is in the second cache when its turn comes.
inline void prefetch(std::span<const std::uint8_t> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += 64) __builtin_prefetch(bytes.data() + at, 0, 2);
}

/// Has a kernel of several packs prefetch them as it runs; for one of a single pack, prefetches them now.
inline void prefetch_by(MatmulArgs& product, std::span<const std::uint8_t> bytes) {
  if (product.packs > 1) {
    product.next = bytes.data();
    product.next_bytes = bytes.size();
  } else {
    prefetch(bytes);
  }
}

/// Tokens [first, first + width) that share an activation pack; `index` into Kernels::widths.
struct TokenTile {
  int first;
  int width;
  int index;
};

/// How T tokens fall into packs: as many of the widest as fit, then of the next, then single ones.
/// What a token computes does not depend on the pack it is in.
class TokenTiles {
 public:
  TokenTiles(const Kernels& kernels, int first, int tokens) : kernels_(kernels), first_(first) {
    int left = tokens;
    for (int i = kWidths - 1; i >= 0; --i) {
      counts_[i] = left / kernels.widths[i];
      left -= counts_[i] * kernels.widths[i];
      size_ += counts_[i];
    }
  }
  int size() const { return size_; }
  /// How many packs a product of m takes at once, from pack i on.
  int together(const PackedMatrix& m, int i) const {
    const int packs = std::min(kernels_.most_packs, counts_[kWidths - 1] - i);
    return kernels_.packs_matmul[m.format] != nullptr && packs >= kernels_.fewest_packs ? packs : 1;
  }
  TokenTile operator[](int tile) const {
    int at = first_;
    for (int i = kWidths - 1; i > 0; --i) {
      const int width = kernels_.widths[i];
      if (tile < counts_[i]) return {at + tile * width, width, i};
      tile -= counts_[i];
      at += counts_[i] * width;
    }
    return {at + tile, 1, 0};
  }

 private:
  const Kernels& kernels_;
  int first_;
  int counts_[kWidths] = {};
  int size_ = 0;
};

/// The kernel for `packs` packs such as `first`: one, or what TokenTiles::together() says.
inline MatmulKernel kernel_of(const Kernels& kernels, const PackedMatrix& m, const TokenTile& first,
                              int packs) {
  return packs == 1 ? kernels.matmul[m.format][first.index] : kernels.packs_matmul[m.format];
}

/// The input of a matrix product, packed for the kernels: int8 groups, floats, or both.
struct PackedInput {
  std::uint8_t* groups = nullptr;  // [T, cols / 32] of kGroupBytes
  float* floats = nullptr;         // [T, cols]

  /// What is packed for some matrices: the other pointer is null.
  PackedInput only(bool of_groups, bool of_floats) const {
    return {of_groups ? groups : nullptr, of_floats ? floats : nullptr};
  }
  PackedInput only_for(const PackedMatrix& m) const { return only(m.quantised(), !m.quantised()); }

  const std::uint8_t* at(const PackedMatrix& m, int token) const {
    const auto t = static_cast<std::size_t>(token), cols = static_cast<std::size_t>(m.cols);
    return m.quantised() ? groups + t * (cols / 32) * kGroupBytes
                         : reinterpret_cast<const std::uint8_t*>(floats + t * cols);
  }
};

/// One state of the pass: tokens [first, first + count) of it.
struct PassItem {
  CpuState* state;
  int first;
  int count;
};

constexpr int kMostShifts = 6;  // inputs of shifted projections

/// Shapes as in ModelConfig, T = tokens of the pass; lanes and channels as in NativeLayout.
struct Pass {
  const CpuModel* model = nullptr;
  const DeviceLayer* layer = nullptr;  // whose op runs
  int tokens = 0;                      // T
  bool single = true;                  // every item has one token
  std::vector<PassItem> items;
  std::vector<TokenId> ids;             // [T]
  std::vector<std::uint64_t> position;  // [T]
  std::vector<int> item_of;             // [T]
  std::vector<int> wanted;              // tokens whose logits are wanted
  std::vector<float*> wanted_out;       // [vocab] each

  float* x = nullptr;  // [T, D] the residual stream
  float* scratch =
      nullptr;  // [threads, max(D, HQ*V, K, two of a head's gates, kRemovalTokens * removal_floats())]
  std::size_t scratch_floats = 0;  // of one thread
  PackedInput input;               // of D or HQ*V channels
  PackedInput hidden;              // of the SwiGLU, I channels
  float* q = nullptr;              // [T, HQ, K]
  float* k = nullptr;              // [T, H, K]
  float* v = nullptr;              // [T, H, V]
  float* f = nullptr;              // [T, H, M]
  float* turned_q = nullptr;       // [T, HQ, K] rotated by the position
  float* sink_q = nullptr;         // [T, HQ, K] rotated by at most the sink distance
  float* turned_k = nullptr;       // [T, H, K]
  float* padded_v = nullptr;       // [T, H, channels]
  float* alpha = nullptr;          // [T, H, memory lanes]; padding lanes stay 1
  float* write = nullptr;          // [T, H, memory lanes]; padding lanes stay 0
  float* turn = nullptr;           // [T, K/2] cosines, then sines
  float* sink_turn = nullptr;      // [T, K/2] cosines, then sines
  float* p = nullptr;              // [T, HQ, slot lanes]
  float* o = nullptr;              // [T, HQ, channels]
  // A recurrence, whose features are in p and write but with a removal. A = lanes of a decay.
  float* low = nullptr;      // [T, rank], for each rank
  float* r = nullptr;        // [T, H, F]
  float* gate = nullptr;     // [T, HQ, V] output gate
  float* mapped = nullptr;   // [T, HQ, K] W x of a feature map
  float* mapped2 = nullptr;  // [T, HQ, K]
  // For a removal and for shifted projections.
  float* bonus = nullptr;                        // [T, H]
  float* first_v = nullptr;                      // [T, H, V] values of the layer that keeps its own
  float* v_mix = nullptr;                        // [T, H, V]
  float* normed = nullptr;                       // [T, D] norm(x) of a shifted op
  std::array<PackedInput, kMostShifts> shifted;  // of D channels or a rank

  const LayerSpec& spec() const { return layer->spec; }
  const NativeLayer& layout() const { return layer->layout; }
  const Kernels& kernels() const { return model->kernels(); }
  ThreadPool& pool() const { return model->pool(); }
};

// The ops, each in its own file. Those of a layer find it in pass.layer.
void embed(Pass& pass);
void embedding_norm(Pass& pass);
void slot_projections(Pass& pass);
void slot_attention(Pass& pass);
void recurrence_projections(Pass& pass);
void shifted_projections(Pass& pass);
void gated_recurrence(Pass& pass);
void output_projection(Pass& pass);
void channel_mix(Pass& pass);
void logits(Pass& pass);

/// The layer's biases on q, k and v, as far as it has them.
void add_biases(Pass& pass);

/// The convolutions on q, on `keys` (k or f) and on v.
void short_convolutions(Pass& pass, float* keys);

/// x [n] by the activation, in place.
void activate(const Kernels& kernels, Activation activation, float* x, int n);

/// The norm of one row.
void norm_row(const Kernels& kernels, const NormSpec& spec, const DeviceNorm& norm, const float* x,
              int n, float* out);

/// term(0) + … + term(n - 1) in 16 chains, which a compiler keeps in registers; one order, whatever the instruction set.
template <class Term>
float sum_in_lanes(int n, const Term& term) {
  constexpr int kLanes = 16;
  float lanes[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
  }
  for (int j = 0; i < n; ++i, ++j) lanes[j] += term(i);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

/// x [n] by a feature map without weights that takes each number by itself, into out.
void map_elements(const Kernels& kernels, FeatureMap map, const float* x, int n, float* out);

/// gated_recurrence() of a layer with a removal.
void removal_recurrence(Pass& pass);

/// Tokens whose numbers lie in a thread's scratch together, and the floats of each: q, k, a, c, b and v of a head.
constexpr int kRemovalTokens = 16;
inline int removal_floats(const NativeLayer& n) { return 5 * n.memory_lanes + n.channels; }

/// norm(x) of every token into pass.normed.
void norm_tokens(Pass& pass, const NormSpec& spec, const DeviceNorm& norm);

/// The row of pass.normed before token t's: of its item, or what its state has at `offset`.
const float* normed_before(const Pass& pass, int t, std::size_t offset);

/// Each item's last row of pass.normed into its state at `offset`.
void keep_normed(Pass& pass, std::size_t offset);

/// Pairs (i, i + half) of x, turned by the angles of `turn` ([half] cosines, [half] sines).
void rotate(const float* x, int half, const float* turn, float* out);

/// Cosines and sines of every token's rotations, before the first layer.
void prepare_rotations(Pass& pass);

// ---- products, products.cpp ----

/// out[t][r] (+)= sum_c m[r][c] in[t][c]
struct Product {
  const PackedMatrix* matrix;
  float* out;  // token t's row begins at out + t * stride …
  std::ptrdiff_t stride;
  bool accumulate;
  float* const* rows = nullptr;        // … or at rows[t]
  const PackedInput* input = nullptr;  // null: what all products of a loop have in common
};

/// Runs products of one input in one parallel loop.
void run_products(Pass& pass, std::span<const Product> products, const PackedInput& input,
                  int tokens);

/// norm(x) of every token, packed into `input`: as groups, as floats, or both.
void pack_normed(Pass& pass, const NormSpec& spec, const DeviceNorm& norm,
                 const PackedInput& input);

/// out = W norm(x), rows of W apart: a layer's projections, of which some may be missing.
struct Projection {
  const PackedMatrix* matrix;
  float* out;
};
template <std::size_t kN>
void multiply_normed(Pass& pass, const Projection (&projections)[kN]);

/// Tiles [begin, end) of one product for tokens [first, first + count).
void run_tiles(const Kernels& kernels, const Product& product, const PackedInput& input, int begin,
               int end, int first, int count);

/// Packs `tokens` rows of `cols` floats that row(token, scratch) returns (in `scratch` or elsewhere).
template <class Row>
void pack_rows(Pass& pass, int tokens, int cols, const PackedInput& input, const Row& row);

/// Writes one row into the packs it belongs to.
void pack_row(const Kernels& kernels, const float* row, int cols, const TokenTile& tile, int token,
              const PackedInput& input);

template <class Row>
void pack_rows(Pass& pass, int tokens, int cols, const PackedInput& input, const Row& row) {
  const TokenTiles tiles(pass.kernels(), 0, tokens);
  pass.pool().for_each(tiles.size(), [&](int i, int thread) {
    const TokenTile tile = tiles[i];
    float* scratch = pass.scratch + static_cast<std::size_t>(thread) * pass.scratch_floats;
    for (int t = tile.first; t < tile.first + tile.width; ++t) {
      pack_row(pass.kernels(), row(t, scratch), cols, tile, t, input);
    }
  });
}

template <std::size_t kN>
void multiply_normed(Pass& pass, const Projection (&projections)[kN]) {
  Product products[kN];
  std::size_t n = 0;
  bool groups = false, floats = false;
  for (const Projection& p : projections) {
    if (!p.matrix->present()) continue;
    products[n++] = {
        .matrix = p.matrix, .out = p.out, .stride = p.matrix->rows, .accumulate = false};
    (p.matrix->quantised() ? groups : floats) = true;
  }
  pack_normed(pass, pass.spec().norm, pass.layer->norm, pass.input.only(groups, floats));
  run_products(pass, {products, n}, pass.input, pass.tokens);
}

}  // namespace runnel::cpu
