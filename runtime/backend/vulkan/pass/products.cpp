// SPDX-License-Identifier: Apache-2.0
// Matrix products of a pass: their inputs, and the three kernels that make them.
#include <algorithm>
#include <bit>
#include <iterator>

#include "runtime/backend/vulkan/driver/shared_memory.h"
#include "runtime/backend/vulkan/memory/packed_matrix.h"
#include "runtime/backend/vulkan/pass/pass_builder.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

std::string typed(const char* shader, BlockType type) {
  return std::string(shader) + "." + std::string(quant::format_of(type).name);
}

/// Formats of which lanes can load 32 columns at once.
bool in_blocks(BlockType type) { return quant::is_block_type(type); }

/// Lanes of a row: enough that a step of all of them is at most one row, at most a subgroup of 32.
std::uint32_t team_for(std::uint32_t units) { return std::clamp(std::bit_floor(units), 4U, 32U); }

/// Work splits of matmul_tiles: a workgroup's tile, units of 8 columns per step, halves of shared
/// memory, steps under way, a subgroup's tile, tiles of rows a band.
struct TileSplit {
  std::uint32_t tokens, rows, step, halves, depth, sub_tokens, sub_rows, band;

  std::uint32_t threads() const { return tokens * rows / (sub_tokens * sub_rows) * 32; }
};

/// @param columns  in units of 8;  @param tuned  the number of a split and 1, or 0
TileSplit choose_tiles(std::uint64_t rows, std::uint64_t columns, std::uint64_t tokens,
                       std::uint32_t most_threads, std::uint32_t tuned) {
  constexpr TileSplit kSplits[] = {{128, 128, 4, 2, 1, 64, 64, 0},  // of every width and device
                                   {128, 128, 8, 1, 1, 32, 64, 0},
                                   {128, 128, 8, 1, 1, 64, 64, 16},
                                   {128, 256, 4, 1, 2, 64, 64, 0}};
  const auto fits = [&](const TileSplit& split) {
    return columns % split.step == 0 && split.threads() <= most_threads;
  };
  // Measured on an H200, see shaders/README.md: more subgroups where there are few tiles, more
  // products per load where there are many.
  const bool large = rows * tokens >= 2048 * 2048 && columns >= 2048 / kUnit;
  std::uint32_t chosen = large ? 3 : 2;
  if (tuned > 0 && tuned <= std::size(kSplits)) chosen = tuned;
  return fits(kSplits[chosen - 1]) ? kSplits[chosen - 1] : kSplits[0];
}

}  // namespace

Result<ProductInput> PassBuilder::normed(const NormSpec& norm, const DeviceNorm& weights) {
  const auto columns = static_cast<std::uint32_t>(m_.config.hidden_size);
  const InputArgs args{.stride = b_.x_stride,
                       .norm_weight = weights.weight,
                       .eps = norm.eps,
                       .rows_at = shape_.logit_rows > 0 ? b_.layout.rows : kNone};
  switch (norm.kind) {
    case Norm::rms:
      return ProductInput{
          .kind = kInputNorm, .rows = b_.x, .args = args, .columns = columns, .normalise = true};
    case Norm::layer:
      break;
  }
  const LayerNormArgs layer_norm{.in_ = args,
                                 .bias = weights.bias,
                                 .columns = columns,
                                 .out_stride = b_.inputs_stride,
                                 .count_at = count_at()};
  RUNNEL_CHECK_OK(dispatch("layer_norm", {},
                           {b_.x, m_.weights->vectors(), b_.inputs, b_.whole_pass()}, layer_norm,
                           {rows(), 1, 1}));
  return plain(b_.inputs, b_.inputs_stride, columns);
}

ProductInput PassBuilder::plain(const Range& rows, std::uint32_t stride,
                                std::uint32_t columns) const {
  return {.kind = kInputPlain,
          .rows = rows,
          .args = {.stride = stride, .norm_weight = kNone, .eps = 0.0F, .rows_at = kNone},
          .columns = columns};
}

/// Whether a product of one token prepares its input itself.
bool PassBuilder::fuses(const ProductInput& in) const {
  if (in.kind == kInputPlain || rows() != 1 || (!few_tokens_ && shape_.logit_rows == 0))
    return false;
  // Of every type: the input is prepared alike.
  std::vector<std::uint32_t> constants{units_of(in.columns)};
  const std::vector<std::uint32_t> input = input_constants(in);
  constants.insert(constants.end(), input.begin(), input.end());
  const DeviceFacts& facts = m_.device->facts();
  return declared_shared_bytes("matvec.f16", facts.subgroup, constants) <= facts.shared_bytes;
}

std::vector<std::uint32_t> PassBuilder::input_constants(const ProductInput& in) const {
  const bool slots = in.kind == kInputSlots;
  return {in.kind,
          in.columns,
          in.activation,
          in.normalise ? 1U : 0U,
          slots ? in.value_dim : 1U,
          slots ? in.splits : 1U};
}

Result<ProductInput> PassBuilder::prepare(const ProductInput& in, bool after_all) {
  if (in.kind == kInputPlain || fuses(in)) return in;
  const RowsArgs args{.in_ = in.args, .out_stride = b_.inputs_stride, .count_at = count_at()};
  std::vector<std::uint32_t> constants{1};  // id 1 belongs to weights
  const std::vector<std::uint32_t> input = input_constants(in);
  constants.insert(constants.end(), input.begin(), input.end());
  RUNNEL_CHECK_OK(dispatch("rows", constants,
                           {in.rows, m_.weights->vectors(), b_.inputs, b_.whole_pass()}, args,
                           {rows(), 1, 1}, after_all));
  return plain(b_.inputs, b_.inputs_stride, in.columns);
}

Status PassBuilder::product(const DeviceMatrix& w, const ProductInput& input,
                            const ProductOutput& out, bool overlaps) {
  bool after_all = !overlaps;
  // A plain row of one token goes through shared memory like any other: a wait less per load.
  ProductInput in = input;
  if (in.kind == kInputPlain && in.columns > 0) {
    in.kind = kInputNorm;
    if (!fuses(in)) in.kind = kInputPlain;
  }
  for (const DeviceMatrix::Part& part : w.parts) {
    const MatvecArgs args{.w = part.rows,
                          .in_ = in.args,
                          .out_stride = out.stride,
                          .out_column = out.column,
                          .count_at = count_at()};
    const std::array<Range, kBindings> bindings{part.range, in.rows, m_.weights->vectors(),
                                                out.rows, b_.whole_pass()};
    const std::uint32_t units = units_of(w.cols);
    std::vector<std::uint32_t> constants{units};
    const std::vector<std::uint32_t> prepared = input_constants(in);
    constants.insert(constants.end(), prepared.begin(), prepared.end());
    if (few_tokens_ || shape_.logit_rows > 0) {
      const std::uint32_t tokens = std::min(std::bit_ceil(rows()), 8U);
      // Long rows: 32 columns per load, and more rows per workgroup, since each prepares the input
      // anew. Measured on an H200, see shaders/README.md.
      const bool wide = units >= 128;
      const Tuning& tuned = m_.device->tuning();
      const bool blocks = wide && in_blocks(w.type) && tuned.block != 1;
      const std::uint32_t block = blocks ? 4 : 1;
      const std::uint32_t row_team = team_for(units / block);
      const bool pairs = out.kind == kOutputSwigluPairs;
      std::uint32_t team_rows = part.rows.rows >= (wide ? 2048U : 16384U) ? 4U
                                : part.rows.rows >= 2048 || pairs         ? 2U
                                                                          : 1U;
      if (tuned.team_rows > 0) team_rows = std::max(pairs ? 2U : 1U, tuned.team_rows);
      const std::uint32_t ahead = tuned.ahead > 0 ? tuned.ahead : blocks ? 1 : wide ? 2 : 4;
      constants.insert(constants.end(), {row_team, team_rows, tokens, out.kind, block, ahead});
      RUNNEL_CHECK_OK(dispatch(
          typed("matvec", w.type), constants, bindings, args,
          {ceil_div(part.rows.rows, kThreads / row_team * team_rows), ceil_div(rows(), tokens), 1},
          after_all));
    } else {
      constants.insert(constants.end(), {1, 1, 1, out.kind});
      RUNNEL_CHECK_OK(dispatch(typed("matmul", w.type), constants, bindings, args,
                               {ceil_div(part.rows.rows, 64), ceil_div(rows(), 64), 1}, after_all));
    }
    after_all = false;  // parts write different columns
  }
  return {};
}

Status PassBuilder::prepare_tiles(const ProductInput& in, bool after_all) {
  const std::uint32_t units = tile_units(in.columns);
  const RowsArgs args{.in_ = in.args, .out_stride = 4 * units, .count_at = kPassTokens};
  std::vector<std::uint32_t> constants{1};
  const std::vector<std::uint32_t> input = input_constants(in);
  constants.insert(constants.end(), input.begin(), input.end());
  return dispatch("rows.f16", constants,
                  {in.rows, m_.weights->vectors(), b_.tiles.inputs, b_.whole_pass()}, args,
                  {rows(), 1, 1}, after_all);
}

Status PassBuilder::unpack(std::span<const DeviceMatrix* const> matrices, std::size_t area,
                           bool swiglu, bool after_all) {
  const std::uint32_t stride = tile_units(matrices.front()->cols);
  std::uint32_t row = 0;
  std::uint32_t order = !swiglu ? kOrderPlain : matrices.size() == 1 ? kOrderPairs : kOrderGate;
  for (const DeviceMatrix* w : matrices) {
    for (const DeviceMatrix::Part& part : w->parts) {
      const UnpackArgs args{.w = part.rows, .row0 = row, .stride = stride, .order = order};
      RUNNEL_CHECK_OK(dispatch(typed("unpack", w->type), {units_of(w->cols)},
                               {part.range, b_.tiles.weights[area]}, args,
                               {ceil_div(stride, kThreads), part.rows.rows, 1}, after_all));
      after_all = false;
    }
    if (order == kOrderGate) {
      order = kOrderUp;
    } else {
      row += static_cast<std::uint32_t>(w->rows);
    }
  }
  return {};
}

Status PassBuilder::product_on_tiles(std::span<const DeviceMatrix* const> matrices,
                                     std::size_t area, const Range& input,
                                     const ProductOutput& out) {
  std::uint32_t rows_of_all = 0;
  for (const DeviceMatrix* w : matrices) rows_of_all += static_cast<std::uint32_t>(w->rows);
  const TilesArgs args{.rows = rows_of_all,
                       .stride = tile_units(matrices.front()->cols),
                       .out_stride = out.stride,
                       .out_column = out.column};
  const TileSplit t = choose_tiles(rows_of_all, args.stride, rows(),
                                   m_.device->facts().group_threads, m_.device->tuning().tiles);
  return dispatch("matmul_tiles",
                  {out.kind, t.threads(), t.tokens, t.rows, t.step, t.halves, t.depth, t.sub_tokens,
                   t.sub_rows, t.band},
                  {b_.tiles.weights[area], input, {}, out.rows, b_.whole_pass()}, args,
                  {ceil_div(rows_of_all, t.rows), ceil_div(rows(), t.tokens), 1});
}

}  // namespace runnel::vulkan
