// SPDX-License-Identifier: Apache-2.0
// decode_even.comp: a subgroup has some columns of all rows of its workgroup.
#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/backend/vulkan/step/step_shape.h"
#include "runtime/base/integers.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

// Inputs are whole multiples of this wide; all but one of so many workgroups have rows; and items of
// a lane of a stage, each with code of its own.
constexpr std::uint32_t kEvenColumns = 64, kEvenOf = 16, kMostEvenItems = 80;
// Vectors of 4 columns that a lane has of gates of their own type.
constexpr std::uint32_t kMostGateVectors = 8;

// Workgroups of a query head, at most, and its value columns that one of them takes, at least: of a slot, 32 bytes.
constexpr std::uint32_t kMostEvenParts = 8, kFewestEvenColumns = 8;

/// How a stage's columns are shared, as include/even_columns.glsl has it.
struct Stage {
  std::uint32_t slices = 0;   // 0: not at all; the last may lack columns
  std::uint32_t ways = 0;     // subgroups with the same slice
  std::uint32_t vectors = 0;  // of 4 columns in a lane
};

/// @param first       of the layer's stages: all subgroups with columns are of use
/// @param with_gates  beside it a lane's vectors are multiplied one by one, not in items
Stage stage_of(const StepDevice& d, BlockType type, std::uint32_t columns, std::uint32_t rows,
               bool first = false, bool with_gates = false) {
  const std::uint32_t threads = step_threads(d), lanes = d.subgroup, warps = threads / lanes;
  const std::uint32_t vectors = columns <= 4 * threads ? 1 : columns <= 8 * threads ? 2 : 4;
  const std::uint32_t slice = 4 * vectors * lanes, slices = divide_up(columns, slice);
  if (columns % kEvenColumns != 0 || slices > warps) return {};
  const std::uint32_t across = slice / item_columns(type), team = std::min(lanes, across);
  // If a lane has several items or vectors of a row, all are there.
  if (columns % slice != 0 && (across > team || (with_gates && vectors > 1))) return {};
  const std::uint32_t side = lanes / team, useful = first ? warps : divide_up(rows, side);
  const std::uint32_t ways = std::min(warps / slices, useful);
  if (divide_up(rows, side * ways) * (across / team) > kMostEvenItems) return {};
  return {slices, ways, vectors};
}

std::array<Stage, 4> stages_of(const StepModel& m, const StepDevice& d, BlockType type,
                               std::uint32_t groups) {
  const LayerSpec& l = m.layer;
  const std::uint32_t width = u(m.hidden_size), inner = u(l.intermediate_size);
  const bool apart = gates_apart(m.layers.front()) != nullptr;
  Stage projected = stage_of(d, type, width, u(projected_rows(m)) / groups, true, apart);
  if (apart && projected.slices > 0) {
    const std::uint32_t turns = divide_up(u(l.gate_channels()) / groups, projected.ways);
    if (turns * projected.vectors > kMostGateVectors) projected.slices = 0;
  }
  return {projected, stage_of(d, type, u(l.o_channels()), width / groups),
          stage_of(d, type, width, 2 * inner / groups), stage_of(d, type, inner, width / groups)};
}

/// Workgroups over which all rows divide evenly, of `groups` at most.
std::uint32_t even_groups(const StepModel& m, std::uint32_t groups) {
  std::int64_t all = std::gcd(std::gcd(projected_rows(m), std::int64_t{m.hidden_size}),
                              std::int64_t{m.layer.intermediate_size});
  if (gates_apart(m.layers.front()) != nullptr)
    all = std::gcd(all, std::int64_t{m.layer.gate_channels()});
  while (all % groups != 0) --groups;
  return groups;
}

/// Gives each query head workgroups of its own, as many as there are. Each reads all keys of its head, but the fewer value
/// columns it has, the fewer rounds of loads and the shorter the sums behind the softmax: on an H200 the 0.5B, of 384 slots,
/// makes 2,633 tokens/s with 16 columns and 2,893 with 8. Kv heads of one query keep the parts that they have in `step`.
std::string choose_even_parts(const LayerSpec& l, const StepDevice& d, StepShape& s) {
  if (std::string why = choose_parts(l, d, s); !why.empty()) return why;
  const std::uint32_t columns = u(l.head_v_dim), queries = u(l.queries_per_kv_head());
  if (d.tuned_parts > 0 || queries == 1) return "";
  std::uint32_t parts = std::min(kMostEvenParts, columns / kFewestEvenColumns);
  while (parts > 1 && u(l.num_heads) * parts > s.groups) parts /= 2;
  if (parts > 1) s.parts = parts * queries, s.queries = 1, s.columns = columns / parts;
  return "";
}

/// @param resident  workgroups that there could be
std::string refuse(const StepModel& m, const StepDevice& d, const StepShape& s,
                   std::uint32_t resident) {
  if (!d.addresses) return "a device without addresses of buffers";
  if (d.subgroup < kRoundingLanes)
    return "subgroups of " + std::to_string(d.subgroup) + ", expected at least " +
           std::to_string(kRoundingLanes);
  if (s.type == BlockType::q6_k) return "weights of q6_k";
  if (!s.dot && !is_short(s.type)) return "a device without products of four bytes";
  for (const StepLayer& layer : m.layers) {
    const WeightView* gates = gates_apart(layer);
    if (gates != nullptr && kept(*gates) != kept(m.layers.front().mixer->f_proj))
      return "gates of several types";
  }
  const std::uint32_t even = s.groups;
  if (even * kEvenOf < resident * (kEvenOf - 1))
    return "rows that divide evenly over " + std::to_string(even) + " of " +
           std::to_string(resident) + " workgroups";
  if (u(m.hidden_size) > even * s.threads)
    return "a width of " + std::to_string(m.hidden_size) + ", expected at most " +
           std::to_string(even * s.threads);
  const std::array<std::int32_t, 4> columns{m.hidden_size, m.layer.o_channels(), m.hidden_size,
                                            m.layer.intermediate_size};
  const auto stages = stages_of(m, d, s.type, even);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].slices == 0)
      return std::to_string(columns[i]) + " columns, which " +
             std::to_string(s.threads / d.subgroup) + " subgroups cannot share evenly";
  }
  return "";
}

}  // namespace

StepShape StepShape::even(const StepModel& m, const StepDevice& d) {
  StepShape s = of(m, d);
  if (!s.why_not.empty()) return s;
  const std::uint32_t resident = s.groups;
  s.groups = even_groups(m, resident);
  if (s.why_not = choose_even_parts(m.layer, d, s); !s.why_not.empty()) return s;
  if (s.why_not = refuse(m, d, s, resident); !s.why_not.empty()) return s;
  // Items of a lane of a stage under way, with two stages' in its registers.
  s.held = s.type == BlockType::q8_0 || s.type == BlockType::q5_k ? 12 : 16;
  s.shader = step_shader("decode_even.", s.type, s.dot);
  s.constants = step_constants(m, d, s);
  s.constants.push_back(gate_type_constant(m));
  s.constants.push_back(s.biases ? 1U : 0U);
  s.why_not = refuse_shared_memory(d, s.shader, s.constants);
  return s;
}

}  // namespace runnel::vulkan
