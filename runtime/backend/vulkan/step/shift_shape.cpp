// SPDX-License-Identifier: Apache-2.0
// shift_step.comp: which workgroups have which rows, and what it does not compute.
#include <algorithm>

#include "runtime/backend/vulkan/step/step_shape.h"
#include "runtime/base/integers.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

constexpr std::uint32_t kFewestThreads = 256;  // four lanes of each column of a state
constexpr std::uint32_t kMostRounds = 2;       // vectors of the residual stream of a thread
// Matrices behind the output that are brought into the cache: up, down.
constexpr std::uint32_t kMostAhead = 2, kAhead = 1;

std::string refuse_model(const StepModel& m) {
  if (std::string why = refuse_shift_model(m); !why.empty()) return why;
  for (const StepShiftLayer& each : m.shifted.layers) {
    const RecurrenceSpec& r = each.spec.recurrence();
    for (const std::int32_t rank : {r.gate_rank, r.rate_rank, r.output_gate_rank, r.value_rank}) {
      if (u(rank) % kUnit != 0)
        return "a rank of " + std::to_string(rank) + ", expected multiples of " +
               std::to_string(kUnit);
    }
  }
  return "";
}

std::string refuse_device(const StepModel& m, const StepDevice& d) {
  if (d.resident_groups == 0) return "a device that promises no workgroups at the same time";
  if (d.subgroup < kRoundingLanes || d.subgroup > 32)
    return "subgroups of " + std::to_string(d.subgroup) + ", expected 8 to 32";
  const std::uint32_t threads = step_threads(d), width = u(m.hidden_size);
  if (threads < kFewestThreads)
    return "workgroups of " + std::to_string(threads) + " threads, expected " +
           std::to_string(kFewestThreads);
  if (threads > kShiftHead * d.subgroup)
    return "workgroups of " + std::to_string(threads) + " threads, expected at most " +
           std::to_string(kShiftHead * d.subgroup);
  if (!d.addresses) return "a device without addresses of buffers";
  const std::uint32_t most = kMostRounds * 4 * threads;
  if (width < kUnit * d.subgroup || width > most)
    return std::to_string(width) + " channels, expected " + std::to_string(kUnit * d.subgroup) +
           " to " + std::to_string(most);
  if (u(m.shifted.layers.front().spec.intermediate_size) < d.resident_groups)
    return "fewer rows of the channel mix than workgroups";
  return "";
}

/// A matrix of the first stage.
struct Wanted {
  std::uint32_t rows = 0;
  std::uint32_t row_bytes = 0;
  std::uint32_t step = 1;  // rows that a workgroup multiplies in the time of one

  std::uint64_t bytes_of(std::uint32_t groups) const {
    return std::uint64_t{round_up(divide_up(rows, groups), step)} * row_bytes;
  }
};

/// A workgroup has rows of one matrix of the first stage, of as many bytes as the others; with few workgroups each has
/// some of all.
void share_first_stage(const StepModel& m, ShiftShape& s, std::uint32_t warps) {
  const std::uint32_t width = u(m.hidden_size);
  const auto bytes_of = [&](BlockType type) {
    return u(width / quant::format_of(type).block_values * quant::format_of(type).block_bytes);
  };
  std::array<Wanted, kShiftOutput> all;
  for (std::uint32_t i = 0; i < kShiftOutput; ++i) {
    all[i] = i < kShiftDown ? Wanted{width, bytes_of(s.type)}
                            : Wanted{s.ranks[i - kShiftDown], bytes_of(s.low_type), warps};
  }
  const auto there =
      u(std::ranges::count_if(all, [](const Wanted& each) { return each.rows > 0; }));
  for (std::uint32_t i = 0; i < kShiftOutput; ++i) {
    const std::uint32_t groups = all[i].rows == 0 ? 0 : s.groups < there ? s.groups : 1;
    s.shares[i] = {.first = 0, .groups = groups, .rows = all[i].rows};
  }
  if (s.groups < there) return;
  for (std::uint32_t left = s.groups - there; left > 0; --left) {
    std::uint32_t slowest = 0;
    for (std::uint32_t i = 1; i < kShiftOutput; ++i) {
      if (all[i].rows > 0 &&
          all[i].bytes_of(s.shares[i].groups) > all[slowest].bytes_of(s.shares[slowest].groups))
        slowest = i;
    }
    if (s.shares[slowest].groups == all[slowest].rows) break;
    ++s.shares[slowest].groups;
  }
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < kShiftOutput; ++i) {
    s.shares[i].first = first;
    first += s.shares[i].groups;
  }
}

void share_rows(const StepModel& m, const StepDevice& d, ShiftShape& s) {
  const LayerSpec& l = m.shifted.layers.front().spec;
  const std::uint32_t width = u(m.hidden_size), inner = u(l.intermediate_size),
                      heads = u(l.num_heads);
  share_first_stage(m, s, s.threads / d.subgroup);
  // Those with a head have no rows of the output, where there are enough others.
  const std::uint32_t busy = s.groups >= 2 * heads ? heads : 0;
  if (busy > 0) s.ahead = d.tuned_parts > 0 ? std::min(d.tuned_parts - 1, kMostAhead) : kAhead;
  s.shares[kShiftOutput] = {.first = busy, .groups = s.groups - busy, .rows = width};
  s.shares[kShiftUp] = {.first = 0, .groups = s.groups, .rows = inner};
  s.shares[kShiftLast] = {.first = 0, .groups = s.groups, .rows = width};
  const auto rows_of = [&s](std::uint32_t i) {
    return divide_up(s.shares[i].rows, s.shares[i].groups);
  };
  s.own_rows = std::max(rows_of(kShiftOutput), rows_of(kShiftLast));
  const StageTeams chosen =
      StageTeams::of(d, s.type, s.threads,
                     {{{std::max({rows_of(0), rows_of(1), rows_of(2)}), width},
                       {rows_of(kShiftOutput), width},
                       {rows_of(kShiftUp), width},
                       {rows_of(kShiftLast), inner}}});
  s.teams = chosen.teams, s.held = chosen.held;
}

/// Constants 1, 2, … of shift_step.comp, in this order.
struct ShiftConstants {
  std::uint32_t units = 1;
  std::uint32_t threads, width, inner, heads, other, rank_f, rank_r, rank_gate, rank_mix, low_type,
      centred, embedding_norm, group_norm, bonus, held, teams, own_rows, software, layers, groups,
      ahead;
};

std::vector<std::uint32_t> constants_of(const StepModel& m, const StepDevice& d,
                                        const ShiftShape& s) {
  const LayerSpec& l = m.shifted.layers.front().spec;
  return list_of(
      ShiftConstants{.threads = s.threads,
                     .width = u(m.hidden_size),
                     .inner = u(l.intermediate_size),
                     .heads = u(l.num_heads),
                     .other = s.other,
                     .rank_f = s.ranks[0],
                     .rank_r = s.ranks[1],
                     .rank_gate = s.ranks[2],
                     .rank_mix = s.ranks[3],
                     .low_type = plain_type_constant(s.low_type),
                     .centred = l.norm.kind == Norm::layer ? 1U : 0U,
                     .embedding_norm = m.shifted.embedding_norm_weights != nullptr ? 1U : 0U,
                     .group_norm = l.output_norm == OutputNorm::groups ? 1U : 0U,
                     .bonus = l.recurrence().bonus ? 1U : 0U,
                     .held = s.held,
                     .teams = s.teams,
                     .own_rows = s.own_rows,
                     .software = d.software ? 1U : 0U,
                     .layers = static_cast<std::uint32_t>(m.shifted.layers.size()),
                     .groups = s.groups,
                     .ahead = s.ahead});
}

}  // namespace

ShiftShape ShiftShape::of(const StepModel& m, const StepDevice& d) {
  ShiftShape s;
  if (s.why_not = refuse_model(m); !s.why_not.empty()) return s;
  if (s.why_not = refuse_device(m, d); !s.why_not.empty()) return s;
  if (s.why_not = refuse_shift_weights(m, d); !s.why_not.empty()) return s;
  const std::vector<StepShiftLayer>& layers = m.shifted.layers;
  const RecurrenceSpec& r = layers.front().spec.recurrence();
  const std::uint32_t width = u(m.hidden_size), inner = u(layers.front().spec.intermediate_size);
  s.type = kept(layers.front().output->o_proj);
  s.low_type = kept(layers.front().mixer->f_down);
  s.dot = takes_integers(s.type, d);
  s.threads = step_threads(d);
  s.groups = d.resident_groups;
  s.other = std::max(width, inner);
  s.ranks = {u(r.gate_rank), u(r.rate_rank), u(r.output_gate_rank),
             u(layers.back().spec.recurrence().value_rank)};
  share_rows(m, d, s);
  s.shader = step_shader("shift_step.", s.type, s.dot);
  s.constants = constants_of(m, d, s);
  if (s.why_not = refuse_shared_memory(d, s.shader, s.constants); !s.why_not.empty()) return s;
  std::uint64_t places = 6 * std::uint64_t{width} + inner;
  for (const std::uint32_t rank : s.ranks) places += rank;
  s.exchanged_words = layers.size() * places;
  if (4 * (s.exchanged_words + 4) > d.storage_range) s.why_not = "activations in several bindings";
  return s;
}

}  // namespace runnel::vulkan
