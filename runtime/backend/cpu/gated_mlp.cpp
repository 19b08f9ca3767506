// SPDX-License-Identifier: Apache-2.0
// The channel mixes:  x += W_down(silu(W_gate x~) * W_up x~)  or  x += W_down(relu(W_up x~)^2),  x~ = norm(x), shifted or not
//
// An item computes 32 rows of gate and up for its tokens, joins them and rounds them: one whole
// group of down's input, so that the hidden vector never exists as floats and needs no loop of its own.
#include <algorithm>

#include "runtime/backend/cpu/pass.h"
#include "runtime/base/integers.h"

namespace runnel::cpu {
namespace {

constexpr int kGroup = 32;       // rows of an item's unit, inputs of a group
constexpr int kTileBlock = 256;  // tokens of an item
static_assert(kTileBlock % kTokensTogether == 0);

/// Rows [32 unit, …) of down's input, silu(gate) * up or relu(up)^2, for the tokens of `packs` packs from `tile` on, into the
/// packs of `hidden`. Prefetches slices [slice, slice + packs) of slice_count of the next unit's weights; of 0: nothing.
void hidden_unit(Pass& pass, const DeviceLayer& w, int unit, const TokenTile& tile, int packs,
                 int slice, int slice_count) {
  const Kernels& kernels = pass.kernels();
  const int rows = std::min(kGroup, w.up.rows - unit * kGroup);
  alignas(64) float gate[kTokensTogether * kGroup];
  alignas(64) float up[kTokensTogether * kGroup];
  const auto multiply = [&](const PackedMatrix& m, float* out) {
    MatmulArgs args{};
    args.tiles = m.data + static_cast<std::size_t>(unit) * 2 * m.tile_bytes;
    args.tile_bytes = m.tile_bytes;
    args.n_tiles = rows > kTileRows ? 2 : 1;
    args.cols = m.cols;
    args.acts = pass.input.at(m, tile.first);
    args.out = out;
    args.out_stride = kGroup;
    args.packs = packs;
    if (slice_count > 0) {
      const std::size_t bytes = 2 * m.tile_bytes;
      prefetch_by(args, slices(args.tiles + bytes, bytes, slice, slice + packs, slice_count));
    }
    kernel_of(kernels, m, tile, packs)(args);
  };
  const bool gated = w.gate.present();
  multiply(gated ? w.gate : w.up, gate);
  if (gated) multiply(w.up, up);
  for (int t = 0; t < packs * tile.width; ++t) {
    float* row = gate + t * kGroup;
    if (gated) {
      kernels.swiglu(row, up + t * kGroup, rows);
    } else {
      kernels.squared_relu(row, rows);
    }
  }
  const auto n = static_cast<std::size_t>(w.down.cols),
             width = static_cast<std::size_t>(tile.width);
  for (int p = 0; p < packs; ++p) {
    const float* const rows_of = gate + p * tile.width * kGroup;
    const std::size_t first =
        static_cast<std::size_t>(tile.first) + static_cast<std::size_t>(p) * width;
    if (w.down.quantised()) {
      std::uint8_t* const pack =
          pass.hidden.groups +
          (first * (n / 32) + static_cast<std::size_t>(unit) * width) * kGroupBytes;
      for (int t = 0; t < tile.width; ++t)
        kernels.quantise(rows_of + t * kGroup, kGroup, pack, tile.width, t);
      continue;
    }
    for (std::size_t t = 0; t < width; ++t) {
      std::copy_n(rows_of + t * kGroup, rows,
                  pass.hidden.floats + (first + t) * n + static_cast<std::size_t>(unit) * kGroup);
    }
  }
}

/// Packs what lies between norm(x) of a token and of the one before.
void pack_shifted(Pass& pass, const PackedInput& input) {
  const DeviceLayer& w = *pass.layer;
  const int d = pass.spec().channel_shift;
  const std::size_t offset = pass.layout().channel_shift_offset();
  norm_tokens(pass, pass.spec().channel_norm, w.channel_norm);
  pack_rows(pass, pass.tokens, d, input, [&](int t, float* scratch) {
    pass.kernels().lerp(pass.normed + std::ptrdiff_t{t} * d, normed_before(pass, t, offset),
                        w.channel_lerp.data(), d, scratch);
    return scratch;
  });
  keep_normed(pass, offset);
}

}  // namespace

void channel_mix(Pass& pass) {
  const DeviceLayer& w = *pass.layer;
  const bool gated = w.gate.present();
  const bool groups = w.up.quantised() || (gated && w.gate.quantised());
  const bool floats = !w.up.quantised() || (gated && !w.gate.quantised());
  if (pass.spec().channel_shift > 0) {
    pack_shifted(pass, pass.input.only(groups, floats));
  } else {
    pack_normed(pass, pass.spec().channel_norm, w.channel_norm, pass.input.only(groups, floats));
  }

  const int units = (w.up.rows + kGroup - 1) / kGroup;
  const int threads = pass.pool().threads();
  const int items = items_per_thread(w.gate.bytes() + w.up.bytes(), threads, pass.tokens);
  const int step = std::max(1, units / (threads * items));
  const int steps = divide_up(units, step);
  const int block = std::min(pass.tokens, kTileBlock);
  const int blocks = divide_up(pass.tokens, block);
  pass.pool().for_each(blocks * steps, [&](int item, int) {
    const int first = item / steps * block;
    const TokenTiles tiles(pass.kernels(), first, std::min(block, pass.tokens - first));
    const int begin = item % steps * step, end = std::min(units, begin + step);
    for (int unit = begin; unit < end; ++unit) {
      for (int i = 0, packs = 1; i < tiles.size(); i += packs) {
        packs = tiles.together(w.up, i);
        if (gated) packs = std::min(packs, tiles.together(w.gate, i));
        hidden_unit(pass, w, unit, tiles[i], packs, i, tiles.size() > 1 ? tiles.size() : 0);
      }
    }
  });
  const Product down{.matrix = &w.down, .out = pass.x, .stride = w.down.rows, .accumulate = true};
  run_products(pass, {&down, 1}, pass.hidden, pass.tokens);
}

}  // namespace runnel::cpu
