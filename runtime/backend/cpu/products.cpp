// SPDX-License-Identifier: Apache-2.0
// Matrix products out[t] = W in[t] over tiles of 16 rows: how they are cut into items of a parallel loop.
//
// Bound, few tokens: the bytes of W, each tile streamed once by one core. Many tokens: arithmetic;
// a token block is so small that its packs stay in the second cache (a small one: the third) while the tiles of an item pass
// by, and a tile stays in the first.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/backend/cpu/pass.h"
#include "runtime/base/integers.h"

namespace runnel::cpu {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{768}
                                    << 10;  // packs of a token block, of 2 MiB second cache
// weights of an item; claiming one costs about 100 ns
constexpr std::size_t kLeastItemBytes = std::size_t{12} << 10;
// Tiles that a kernel of many tokens takes at once; two of blocks fit the first cache.
constexpr int kTilesTogether = 2, kFloatTilesTogether = 4;
static_assert(kFloatTilesTogether * 16 <= kTilesTogether * kTokensTogether);  // one pack of floats

/// Tiles whose rows are not all there, or whose outputs lie anywhere: through a buffer.
void run_tiles_buffered(MatmulKernel kernel, const Product& p, const MatmulArgs& args, int tile,
                        int first, int count) {
  float buffer[kTokensTogether * kTilesTogether * kTileRows];
  MatmulArgs a = args;
  a.out = buffer;
  a.out_stride = a.n_tiles * kTileRows;
  a.accumulate = 0;
  kernel(a);
  const int rows = std::min(a.n_tiles * kTileRows, p.matrix->rows - tile * kTileRows);
  for (int t = 0; t < count; ++t) {
    const int token = first + t;
    float* out = (p.rows != nullptr ? p.rows[token] : p.out + token * p.stride) + tile * kTileRows;
    const float* from = buffer + t * a.out_stride;
    for (int r = 0; r < rows; ++r) out[r] = p.accumulate ? out[r] + from[r] : from[r];
  }
}

}  // namespace

void run_tiles(const Kernels& kernels, const Product& p, const PackedInput& input, int begin,
               int end, int first, int count) {
  const PackedMatrix& m = *p.matrix;
  const TokenTiles token_tiles(kernels, first, count);
  MatmulArgs args{};
  args.tile_bytes = m.tile_bytes;
  args.cols = m.cols;
  args.accumulate = p.accumulate ? 1 : 0;
  args.out_stride = p.stride;
  const int whole = p.rows != nullptr && count > 1 ? begin : std::min(end, m.rows / kTileRows);
  const bool one_pack = token_tiles.size() == 1;
  const int together = m.quantised() ? kTilesTogether : kFloatTilesTogether;
  for (int tile = begin; tile < end;) {
    args.tiles = m.data + static_cast<std::size_t>(tile) * m.tile_bytes;
    args.n_tiles = tile >= whole ? std::min(together, end - tile)
                   : one_pack    ? whole - tile
                                 : std::min(together, whole - tile);
    const std::size_t tiles_bytes = static_cast<std::size_t>(args.n_tiles) * m.tile_bytes;
    for (int i = 0, packs = 1; i < token_tiles.size(); i += packs) {
      const TokenTile tokens = token_tiles[i];
      packs = token_tiles.together(m, i);
      const MatmulKernel kernel = kernel_of(kernels, m, tokens, packs);
      args.acts = input.at(m, tokens.first);
      args.packs = packs;
      if (!one_pack) {
        prefetch_by(
            args, slices(args.tiles + tiles_bytes, tiles_bytes, i, i + packs, token_tiles.size()));
      }
      if (tile < whole) {
        float* row = p.rows != nullptr ? p.rows[tokens.first] : p.out + tokens.first * p.stride;
        args.out = row + tile * kTileRows;
        kernel(args);
      } else {
        run_tiles_buffered(kernel, p, args, tile, tokens.first, packs * tokens.width);
      }
    }
    tile += args.n_tiles;
  }
}

void run_products(Pass& pass, std::span<const Product> products, const PackedInput& input,
                  int tokens) {
  std::size_t bytes = 0;
  int tiles = 0, widest = 1;
  for (const Product& p : products) {
    bytes += p.matrix->bytes();
    tiles += p.matrix->tiles;
    widest = std::max(widest, p.matrix->cols);
  }
  const Kernels& kernels = pass.kernels();
  const int packs = std::ranges::any_of(products,
                                        [&](const Product& p) {
                                          return kernels.packs_matmul[p.matrix->format] != nullptr;
                                        })
                        ? kernels.most_packs
                        : 1;
  const int wide = kernels.widths[kWidths - 1] * packs;
  const std::size_t token_bytes = static_cast<std::size_t>(widest) * 3 / 2;
  const int fitting = static_cast<int>(kBlockBytes / token_bytes) / wide * wide;
  const int block = std::min(tokens, std::max(wide, fitting));
  const int blocks = divide_up(tokens, block);
  const auto least =
      static_cast<int>(kLeastItemBytes * static_cast<std::size_t>(tiles) / bytes) + 1;
  const int threads = pass.pool().threads();
  const int even = divide_up(tiles, threads * items_per_thread(bytes, threads, tokens));
  const int most = ThreadPool::kMaxItems / blocks;
  // A multiple of 4 tiles suits the float kernels.
  const int step = round_up(std::max({least, even, divide_up(tiles, most)}), 4);
  const int steps = divide_up(tiles, step);
  pass.pool().for_each(blocks * steps, [&](int item, int) {
    const int first = item / steps * block;
    const int count = std::min(block, tokens - first);
    int begin = item % steps * step, left = step;
    for (const Product& p : products) {
      if (begin >= p.matrix->tiles) {
        begin -= p.matrix->tiles;
        continue;
      }
      const int end = std::min(p.matrix->tiles, begin + left);
      run_tiles(kernels, p, p.input != nullptr ? *p.input : input, begin, end, first, count);
      left -= end - begin;
      begin = 0;
      if (left == 0) return;
    }
  });
}

void norm_row(const Kernels& kernels, const NormSpec& spec, const DeviceNorm& norm, const float* x,
              int n, float* out) {
  switch (spec.kind) {
    case Norm::rms:
      kernels.rms_norm(x, n, spec.eps, norm.weight.data(), out);
      return;
    case Norm::layer:
      break;
  }
  kernels.layer_norm(x, n, spec.eps, norm.weight.data(), norm.bias.data(), out);
}

void activate(const Kernels& kernels, Activation activation, float* x, int n) {
  switch (activation) {
    case Activation::identity:
      return;
    case Activation::swish:
      kernels.silu(x, n);
      return;
    case Activation::relu:
      for (int i = 0; i < n; ++i) x[i] = std::max(x[i], 0.0F);
      return;
  }
}

void pack_normed(Pass& pass, const NormSpec& spec, const DeviceNorm& norm,
                 const PackedInput& input) {
  const int d = pass.model->config().hidden_size;
  pack_rows(pass, pass.tokens, d, input, [&](int t, float* scratch) {
    norm_row(pass.kernels(), spec, norm, pass.x + std::ptrdiff_t{t} * d, d, scratch);
    return scratch;
  });
}

void pack_row(const Kernels& kernels, const float* row, int cols, const TokenTile& tile, int token,
              const PackedInput& input) {
  const auto n = static_cast<std::size_t>(cols);
  if (input.groups != nullptr) {
    std::uint8_t* pack =
        input.groups + static_cast<std::size_t>(tile.first) * (n / 32) * kGroupBytes;
    kernels.quantise(row, cols, pack, tile.width, token - tile.first);
  }
  if (input.floats != nullptr) {
    float* const own = input.floats + static_cast<std::size_t>(token) * n;
    if (own != row) std::memcpy(own, row, n * sizeof(float));
  }
}

}  // namespace runnel::cpu
