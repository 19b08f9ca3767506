// SPDX-License-Identifier: Apache-2.0
// narrow_step.comp: some workgroups have a query head each, the others everything else.
#include <algorithm>
#include <bit>

#include "runtime/backend/vulkan/step/step_shape.h"
#include "runtime/base/integers.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {
namespace {

using quant::BlockType;

constexpr std::uint32_t kDim = 64;  // of a head
// What the shader has registers for: parts of the output projection that a thread adds up; items of
// a lane of q and k; of a row elsewhere; units of 8 columns of a gate.
constexpr std::uint32_t kMostHeads = 16, kMostProjected = 8, kMostItems = 4, kMostGateUnits = 8;
constexpr std::uint32_t kMostCopies = 4;      // of what all workgroups poll
constexpr std::uint32_t kMostMixers = 3;      // of a query head
constexpr std::uint32_t kMostHeadItems = 12;  // of a lane of a row of the head
constexpr std::uint32_t kThreads32 = 512;     // of workgroups whose subgroups are of 32 lanes

std::string too_many(const char* what, std::uint64_t n, std::uint64_t most) {
  return std::to_string(n) + what + ", expected at most " + std::to_string(most);
}

std::string refuse_weights(const StepModel& m, const StepShape& base) {
  if (base.type != BlockType::q4_0) return "weights of another type than q4_0";
  if (!base.dot) return "a device without products of four bytes";
  if (!base.gates) return "gates of the same type as the rest, expected f16 or bf16";
  for (const StepLayer& layer : m.layers) {
    if (kept(layer.mixer->f_proj) != kept(m.layers.front().mixer->f_proj))
      return "gates of several types";
  }
  return "";
}

std::string refuse_layer(const LayerSpec& l) {
  const SlotSpec& s = l.slots();
  if (u(l.head_k_dim) != kDim || u(l.head_v_dim) != kDim)
    return "heads of " + std::to_string(l.head_k_dim) + ", expected " + std::to_string(kDim);
  if (s.feature_map != FeatureMap::identity || s.value_activation != Activation::identity ||
      l.output_activation != Activation::identity)
    return "activations of q, k, v or the output";
  if (l.output_norm != OutputNorm::none) return "an output norm";
  if (u(l.num_heads) > kMostHeads) return too_many(" heads", u(l.num_heads), kMostHeads);
  if (s.num_memory_slots < 1) return "no memory slots";
  if (u(s.num_memory_slots) > kDim) return too_many(" memory slots", u(s.num_memory_slots), kDim);
  return "";
}

std::string refuse_widths(const StepModel& m, const StepDevice& d, const StepShape& base) {
  const std::uint32_t width = u(m.hidden_size), items = width / 32, lanes = d.subgroup;
  const std::uint32_t slots = u(m.layer.slots().num_slots());
  if (width % 64 != 0) return "a width of " + std::to_string(width) + ", expected a multiple of 64";
  if (divide_up(width / 8, lanes) > kMostGateUnits || divide_up(items, lanes) > kMostItems ||
      width / 4 > base.threads || width > 2 * base.threads ||
      2 * (items / 8) + divide_up(2 * (items % 8), 8U) > kMostProjected)
    return "a width of " + std::to_string(width) + " on workgroups of " +
           std::to_string(base.threads);
  if (4 * slots > base.threads) return too_many(" slots", slots, base.threads / 4);
  if (lanes == 32 && base.threads != kThreads32)
    return "workgroups of " + std::to_string(base.threads) + ", expected " +
           std::to_string(kThreads32);
  // Half the workgroups at most have a query head.
  if (base.groups != 1 && base.groups < 2 * u(m.layer.num_heads))
    return std::to_string(base.groups) + " workgroups, expected at least " +
           std::to_string(2 * m.layer.num_heads);
  return "";
}

/// Constants 1, 2, … of narrow_step.comp, in this order.
struct NarrowConstants {
  std::uint32_t units = 1;
  std::uint32_t threads, width, inner, memory, sinks, window, queries, kv_heads, other, software,
      layers, groups, gate_team, down_team, gate_type, copies, head_team, mixers;
};

std::vector<std::uint32_t> constants_of(const StepModel& m, const StepDevice& d,
                                        const NarrowShape& s) {
  const SlotSpec& slots = m.layer.slots();
  return list_of(NarrowConstants{.threads = s.threads,
                                 .width = u(m.hidden_size),
                                 .inner = u(m.layer.intermediate_size),
                                 .memory = u(slots.num_memory_slots),
                                 .sinks = u(slots.num_sink_slots),
                                 .window = u(slots.num_window_slots),
                                 .queries = u(m.layer.queries_per_kv_head()),
                                 .kv_heads = u(m.layer.num_kv_heads),
                                 .other = s.other,
                                 .software = d.software ? 1U : 0U,
                                 .layers = static_cast<std::uint32_t>(m.layers.size()),
                                 .groups = s.groups,
                                 .gate_team = s.gate_team,
                                 .down_team = s.down_team,
                                 .gate_type = gate_type_constant(m),
                                 .copies = s.copies,
                                 .head_team = s.head_team,
                                 .mixers = s.mixers});
}

}  // namespace

NarrowShape NarrowShape::of(const StepModel& m, const StepDevice& d) {
  NarrowShape s;
  const StepShape base = StepShape::of(m, d);
  if (s.why_not = base.why_not; !s.why_not.empty()) return s;
  if (base.biases) s.why_not = "biases on q, k and v";
  if (s.why_not.empty() && !d.addresses) s.why_not = "a device without addresses of buffers";
  if (s.why_not.empty()) s.why_not = refuse_weights(m, base);
  if (s.why_not.empty()) s.why_not = refuse_layer(m.layer);
  if (s.why_not.empty()) s.why_not = refuse_widths(m, d, base);
  if (!s.why_not.empty()) return s;
  const LayerSpec& l = m.layer;
  const std::uint32_t width = u(m.hidden_size), inner = u(l.intermediate_size);
  const std::uint32_t heads = u(l.num_heads);
  s.threads = base.threads;
  s.groups = base.groups;
  // Where a query head has more than one, a quarter of the workgroups at most have a head.
  s.mixers = s.groups == 1 ? 1 : kMostMixers;
  while (s.mixers > 1 && (width % s.mixers != 0 || 4 * heads * s.mixers > s.groups ||
                          u(l.queries_per_kv_head()) * s.mixers > d.subgroup))
    --s.mixers;
  s.gate_team = std::bit_ceil(divide_up(width / 32, kMostItems));
  s.down_team = std::bit_ceil(divide_up(inner / 32, kMostItems));
  if (s.gate_team > d.subgroup / 2 || s.down_team > d.subgroup) {
    s.why_not = "widths of " + std::to_string(width) + " and " + std::to_string(inner) +
                " on subgroups of " + std::to_string(d.subgroup);
    return s;
  }
  s.other = std::max({inner, width, kDim});  // v is made of x there
  s.copies = s.groups == 1 ? 1 : std::min({kMostCopies, s.gate_team, s.down_team});
  const std::uint64_t gates = 2 * u(l.gate_channels());
  s.exchanged_words =
      m.layers.size() * (std::uint64_t{heads} * width + std::uint64_t{s.copies} * (inner + width) +
                         u(l.num_kv_heads) * kDim + round_up(gates, 4U));
  if (4 * (s.exchanged_words + 4) > d.storage_range) {
    s.why_not = "activations in several bindings";
    return s;
  }
  const HeadShape head = HeadShape::of(m, d);
  if (head.fits && head.draws && head.dot && kept(*m.head) == BlockType::q8_0 &&
      s.groups <= s.threads && divide_up(width / 16, head.team) <= kMostHeadItems)
    s.head_team = head.team;
  s.shader = step_shader("narrow_step.", BlockType::q4_0, true);
  s.constants = constants_of(m, d, s);
  s.why_not = refuse_shared_memory(d, s.shader, s.constants);
  return s;
}

}  // namespace runnel::vulkan
