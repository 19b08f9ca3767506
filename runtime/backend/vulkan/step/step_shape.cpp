// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/step/step_shape.h"

#include <algorithm>
#include <bit>

#include "runtime/backend/vulkan/driver/shared_memory.h"
#include "runtime/backend/vulkan/shader_constants.h"
#include "runtime/base/integers.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

constexpr std::uint32_t kMostThreads = 512, kFewestThreads = 128;  // of a workgroup
constexpr std::uint32_t kMostParts = 8, kFewestColumns = 16;  // of a head's slots: of one of them
constexpr std::uint32_t kMostKeyVectors = 16;                 // of 4 of a key, in a lane
constexpr std::uint32_t kMostHeld = 8;                        // items of a lane under way
// The head: workgroups on each multiprocessor, their threads, lanes that share a row, items of
// a row that one of them takes at most while there are more lanes.
constexpr std::uint32_t kHeadGroups = 2, kHeadThreads = 256;
constexpr std::uint32_t kFewestHeadLanes = 4, kMostHeadItems = 9;

/// Lanes that share a row of a stage, and its items in each.
struct Team {
  std::uint32_t lanes = 0, items = 0;
};

/// The team that a multiprocessor is through with first: of all subgroups the instructions, of one its waits.
/// @param pair  2 where rows belong together in pairs: gate and up
Team team_of(const StepDevice& d, BlockType type, std::uint32_t threads, const StageRows& stage) {
  constexpr std::uint32_t kSchedulers = 4, kItem = 40, kItemWait = 60, kPass = 180, kPassWait = 300,
                          kLoadWait = 1500;
  const std::uint32_t lanes = d.subgroup, warps = threads / lanes, rows = stage.rows;
  const std::uint32_t items = stage.columns / item_columns(type);
  Team best;
  std::uint32_t least = UINT32_MAX;
  for (std::uint32_t team = lanes / stage.pair; team >= std::min(4U, lanes / 2); team /= 2) {
    const std::uint32_t passes = divide_up(rows * team, lanes), each = divide_up(items, team);
    const std::uint32_t cost =
        std::max(passes * (each * kItem + kPass) / kSchedulers,
                 divide_up(passes, warps) *
                     (each * kItemWait + kPassWait + (each - 1) / kMostHeld * kLoadWait));
    if (cost < least) least = cost, best = {team, each};
  }
  return best;
}

void choose_teams(const StepModel& m, const StepDevice& d, StepShape& s) {
  const LayerSpec& l = m.layer;
  const auto rows_of = [&s](std::int64_t rows, std::uint32_t pair) {
    return pair * divide_up(u(rows) / pair, s.groups);
  };
  const std::uint32_t width = u(m.hidden_size), inner = u(l.intermediate_size);
  const StageTeams chosen = StageTeams::of(d, s.type, s.threads,
                                           {{{rows_of(projected_rows(m), 1), width},
                                             {rows_of(width, 1), u(l.o_channels())},
                                             {rows_of(2 * inner, 2), width, 2},
                                             {rows_of(width, 1), inner}}});
  s.teams = chosen.teams, s.held = chosen.held;
}

/// Constants 1, 2, … of decode_step.comp and, with the last, of decode_even.comp, in this order.
struct StepConstants {
  std::uint32_t units = 1;
  std::uint32_t threads, width, inner, head_k_dim, head_v_dim, memory, sinks, window, queries,
      kv_heads, parts, other, feature_map, value_activation, output_activation, output_norm, held,
      software, layers, groups, gates, teams, queries_of_part;
};

}  // namespace

std::vector<std::uint32_t> step_constants(const StepModel& m, const StepDevice& d,
                                          const StepShape& s) {
  const LayerSpec& l = m.layer;
  const SlotSpec& slots = l.slots();
  return list_of(StepConstants{.threads = s.threads,
                               .width = u(m.hidden_size),
                               .inner = u(l.intermediate_size),
                               .head_k_dim = u(l.head_k_dim),
                               .head_v_dim = u(l.head_v_dim),
                               .memory = u(slots.num_memory_slots),
                               .sinks = u(slots.num_sink_slots),
                               .window = u(slots.num_window_slots),
                               .queries = u(l.queries_per_kv_head()),
                               .kv_heads = u(l.num_kv_heads),
                               .parts = s.parts,
                               .other = s.other,
                               .feature_map = shader_constant(slots.feature_map),
                               .value_activation = shader_constant(slots.value_activation),
                               .output_activation = shader_constant(l.output_activation),
                               .output_norm = l.output_norm != OutputNorm::none ? 1U : 0U,
                               .held = s.held,
                               .software = d.software ? 1U : 0U,
                               .layers = static_cast<std::uint32_t>(m.layers.size()),
                               .groups = s.groups,
                               .gates = s.gates ? 1U : 0U,
                               .teams = s.teams,
                               .queries_of_part = s.queries});
}

std::string step_shader(const char* stem, BlockType type, bool dot) {
  return stem + std::string(quant::format_of(type).name) + (dot ? ".dot" : "");
}

std::string refuse_shared_memory(const StepDevice& d, const std::string& shader,
                                 std::span<const std::uint32_t> constants) {
  const std::uint64_t bytes = declared_shared_bytes(shader, d.subgroup, constants);
  if (bytes <= d.shared_bytes) return "";
  return std::to_string(bytes) + " bytes of shared memory, expected at most " +
         std::to_string(d.shared_bytes);
}

StageTeams StageTeams::of(const StepDevice& d, BlockType type, std::uint32_t threads,
                          const std::array<StageRows, 4>& stages) {
  StageTeams s;
  std::uint32_t most_items = 1, at = 0;
  for (const StageRows& stage : stages) {
    const Team team = team_of(d, type, threads, stage);
    s.teams |= static_cast<std::uint32_t>(std::countr_zero(team.lanes)) << (8 * at++);
    most_items = std::max(most_items, team.items);
  }
  // 8 would not fit registers
  const bool wide = block_columns(type) > 32;
  const std::uint32_t wanted = d.tuned_items > 0 ? std::max(d.tuned_items, 2U)
                               : d.software      ? 2
                               : wide            ? kMostHeld / 2
                                                 : kMostHeld;
  s.held = std::min({std::bit_ceil(std::max(most_items, 2U)), std::bit_ceil(wanted), kMostHeld});
  return s;
}

std::uint32_t plain_type_constant(BlockType type) {
  if (type == BlockType::f32) return kStepF32;
  return type == BlockType::f16 ? kStepF16 : kStepBf16;
}

std::uint32_t gate_type_constant(const StepModel& model) {
  const WeightView* gates = gates_apart(model.layers.front());
  return gates == nullptr ? kStepF16 : plain_type_constant(kept(*gates));
}

std::uint32_t step_threads(const StepDevice& d) {
  const std::uint32_t most = d.tuned_threads > 0 ? d.tuned_threads : kMostThreads;
  return std::bit_floor(std::min({most, d.group_threads, d.group_subgroups * d.subgroup}));
}

std::string choose_parts(const LayerSpec& l, const StepDevice& d, StepShape& s) {
  s.parts = d.tuned_parts > 0
                ? d.tuned_parts
                : std::clamp(std::bit_floor(u(l.head_v_dim) / kFewestColumns), 1U, kMostParts);
  while (s.parts > 1 && (u(l.head_v_dim) % s.parts != 0 || u(l.num_kv_heads) * s.parts > s.groups))
    s.parts /= 2;
  s.columns = u(l.head_v_dim) / s.parts;
  // A workgroup a query, where there are enough.
  s.queries = u(l.queries_per_kv_head());
  if (s.parts > 1 && s.columns % 4 == 0 && u(l.num_heads) * s.parts <= s.groups)
    s.parts *= s.queries, s.queries = 1;
  if (!std::has_single_bit(s.columns) || s.columns > s.threads)
    return "heads of " + std::to_string(l.head_v_dim) + ", expected a power of two";
  return "";
}

std::string refuse_step(const StepModel& m, const StepDevice& d) {
  if (std::string why = refuse_step_form(m); !why.empty()) return why;
  if (m.layer.norm.eps != m.layer.channel_norm.eps) return "norms of two epsilons in a layer";
  if (d.resident_groups == 0) return "a device that promises no workgroups at the same time";
  if (d.subgroup < 4 || d.subgroup > 32)
    return "subgroups of " + std::to_string(d.subgroup) + ", expected 4 to 32";
  if (step_threads(d) < kFewestThreads)
    return "workgroups of " + std::to_string(step_threads(d)) + " threads, expected " +
           std::to_string(kFewestThreads);
  const LayerSpec& l = m.layer;
  if (l.head_k_dim % 4 != 0 || l.head_v_dim % 4 != 0 || m.state().floats() % 4 != 0)
    return "heads of " + std::to_string(l.head_k_dim) + " and " + std::to_string(l.head_v_dim) +
           ", expected multiples of 4";
  if (u(l.head_k_dim) > 4 * kMostKeyVectors * d.subgroup)
    return "heads of " + std::to_string(l.head_k_dim) + ", expected at most " +
           std::to_string(4 * kMostKeyVectors * d.subgroup);
  return refuse_weights(m, d);
}

StepShape StepShape::of(const StepModel& m, const StepDevice& d) {
  StepShape s;
  if (s.why_not = refuse_step(m, d); !s.why_not.empty()) return s;
  const LayerSpec& l = m.layer;
  s.type = kept(m.layers.front().output->o_proj);
  s.dot = takes_integers(s.type, d);
  s.gates = gates_apart(m.layers.front()) != nullptr;
  s.biases = l.qkv_bias;
  if (s.biases && s.type == BlockType::q6_k) {
    s.why_not = "biases on q, k and v beside weights of q6_k";
    return s;
  }
  s.threads = step_threads(d);
  s.groups = d.resident_groups;
  if (s.why_not = choose_parts(l, d, s); !s.why_not.empty()) return s;
  s.other = u(std::max(l.intermediate_size, l.o_channels()));
  choose_teams(m, d, s);
  s.shader = step_shader("decode_step.", s.type, s.dot) + (s.biases ? ".biases" : "");
  s.constants = step_constants(m, d, s);
  if (s.why_not = refuse_shared_memory(d, s.shader, s.constants); !s.why_not.empty()) return s;
  const std::uint64_t projected =
      u(l.q_channels() + l.k_channels() + l.v_channels() + l.gate_channels());
  s.exchanged_words = m.layers.size() * (round_up(projected, 4U) + u(l.o_channels()) +
                                         2 * u(m.hidden_size) + u(l.intermediate_size));
  if (4 * (s.exchanged_words + 4) > d.storage_range) s.why_not = "activations in several bindings";
  return s;
}

HeadShape HeadShape::of(const StepModel& m, const StepDevice& d) {
  HeadShape h;
  const BlockType type = kept(*m.head);
  const std::uint32_t columns = u(m.hidden_size);
  h.dot = takes_integers(type, d);
  if ((!h.dot && !is_short(type)) || columns % u(block_columns(type)) != 0) return h;
  const std::uint32_t items = columns / item_columns(type);
  h.team = std::min(kFewestHeadLanes, d.subgroup);
  while (h.team < d.subgroup && divide_up(items, h.team) > kMostHeadItems) h.team *= 2;
  h.threads = std::min(step_threads(d), kHeadThreads);
  h.groups = d.resident_groups * kHeadGroups;
  h.centred = m.final_norm.kind == Norm::layer;
  h.draws = kept(*m.embeddings) == type && in_one_part(type, m.head->rows, m.head->cols, d) &&
            in_one_part(type, m.embeddings->rows, m.embeddings->cols, d);
  h.shader = step_shader("head.", type, h.dot);
  h.constants = {1, h.threads, columns, h.team, h.centred ? 1U : 0U};
  h.fits = refuse_shared_memory(d, h.shader + (h.draws ? ".draw" : ""), h.constants).empty();
  return h;
}

}  // namespace runnel::vulkan
