// SPDX-License-Identifier: Apache-2.0
// runnel_kernels: the matrix and slot kernels alone on one core, data in the caches, as shares of the int8 peak.
#include "runtime/backend/cpu/kernels.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "quant/formats.h"
#include "runtime/backend/cpu/isa.h"
#include "runtime/backend/cpu/packed_matrix.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace runnel::cpu;
using runnel::quant::BlockType;
namespace quant = runnel::quant;

template <class Work>
double best_seconds(const Work& work) {
  double best = 1e9;
  for (int i = 0; i < 60; ++i) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

constexpr BlockType kTypes[] = {BlockType::f32,  BlockType::f16,  BlockType::bf16, BlockType::q8_0,
                                BlockType::q4_0, BlockType::q4_1, BlockType::q5_0, BlockType::q4_k,
                                BlockType::q5_k, BlockType::q6_k, BlockType::wide};

/// The layout of a matrix without its weights.
PackedMatrix layout_of(BlockType type, int rows, int cols) {
  static std::vector<std::byte> none;
  none.resize(static_cast<std::size_t>(rows) * quant::row_bytes(type, cols));
  return *plan_packing({.name = "", .type = type, .rows = rows, .cols = cols, .data = none});
}

}  // namespace

int main() {
  for (const Isa isa : supported_isas()) {
    const Kernels k = *find_kernels(isa);
    std::int32_t sink = 0;
    double operations = 0;
    const double peak_seconds = best_seconds([&] { operations = k.int8_peak(20000, &sink); });
    const double peak = operations / peak_seconds;
    std::printf("%s: int8 peak %.0f GOP/s a core\n", isa_name(isa).data(), peak * 1e-9);
    constexpr int kCols = 768;
    for (const BlockType type : kTypes) {
      constexpr int kTiles = 16;
      const PackedMatrix m = layout_of(type, kTiles * kTileRows, kCols);
      const std::size_t tile = m.tile_bytes;
      std::vector<std::uint8_t> tiles(tile * kTiles, 0x3C),
          acts(kTokensTogether * kCols * 4, 0x3C);  // 0x3C: no denormals
      std::vector<float> out(kTokensTogether * 16 * kTiles);
      const auto measure = [&](MatmulKernel kernel, int tokens) {
        MatmulArgs a{};
        a.tiles = tiles.data();
        a.tile_bytes = tile;
        a.n_tiles = kTiles;
        a.cols = kCols;
        a.acts = acts.data();
        a.out = out.data();
        a.out_stride = 16 * kTiles;
        a.packs = k.most_packs;
        const double s = best_seconds([&] { kernel(a); });
        std::printf("  %-5s %2d tokens: %6.1f GB/s of weights, %7.1f GOP/s, %4.1f %% of peak\n",
                    std::string(quant::format_of(type).name).c_str(), tokens,
                    static_cast<double>(tile) * kTiles / s * 1e-9,
                    2.0 * 16 * kTiles * kCols * tokens / s * 1e-9,
                    200.0 * 16 * kTiles * kCols * tokens / s / peak);
      };
      for (int w = 0; w < kWidths; ++w) measure(k.matmul[m.format][w], k.widths[w]);
      if (k.packs_matmul[m.format] != nullptr)
        measure(k.packs_matmul[m.format], k.most_packs * k.widths[kWidths - 1]);
    }
    for (int dim : {64, 512}) {
      for (int heads : {1, 3}) {
        const auto d = static_cast<std::size_t>(dim);
        std::vector<float> keys(64 * d), x(64 * d), gate(64, 0.5F), out(64 * 4);
        SlotKeysArgs a{};
        a.keys = keys.data();
        a.lane_end = a.out_lanes = 64;
        a.dim = dim;
        a.tokens = 1;
        a.k = a.q = x.data();
        a.alpha = a.write = gate.data();
        a.q_head = dim;
        a.heads = heads;
        a.out = out.data();
        a.out_head = 64;
        const double ks = best_seconds([&] {
                            for (int i = 0; i < 50; ++i) k.slot_keys(a);
                          }) /
                          50;
        SlotValuesArgs v{};
        v.positional = v.memory = keys.data();
        v.dim = dim;
        v.end = dim;
        v.tokens = 1;
        v.v = x.data();
        v.alpha = v.write = gate.data();
        v.memory_slots = 64;
        v.p = out.data();
        v.p_head = 64;
        v.heads = heads;
        v.out = x.data();
        v.out_head = dim;
        const double vs = best_seconds([&] {
                            for (int i = 0; i < 50; ++i) k.slot_values(v);
                          }) /
                          50;
        std::printf("  slots 64 x %d, %d queries: keys %.2f us, values %.2f us\n", dim, heads,
                    ks * 1e6, vs * 1e6);
        // The same as two passes of the gated recurrence: keys [dim, 64] faded along the columns,
        // values [64, dim] along the rows. What the slots take in is 1 - a there too.
        const auto pass = [&](int rows, int columns, bool on_columns) {
          std::vector<float> key(d > 64 ? d : 64, 0.5F), read(key.size() * 4),
              written(key.size() * 4);
          RecurrenceArgs r{};
          r.state = keys.data();
          r.rows = rows;
          r.dim = r.end = columns;
          r.tokens = 1;
          r.k = key.data();
          r.v = x.data();
          r.decay = gate.data();
          r.on_columns = on_columns ? 1 : 0;
          r.q = read.data();
          r.q_head = rows;
          r.heads = heads;
          r.out = written.data();
          r.out_head = columns;
          return best_seconds([&] {
                   for (int i = 0; i < 50; ++i) k.recurrence(r);
                 }) /
                 50;
        };
        const double kr = pass(dim, 64, true), vr = pass(64, dim, false);
        std::printf("  as two passes of the recurrence: keys %.2f us, values %.2f us\n", kr * 1e6,
                    vr * 1e6);
      }
    }
  }
}
