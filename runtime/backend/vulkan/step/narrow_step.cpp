// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/step/narrow_step.h"

#include <algorithm>
#include <bit>

#include "runtime/backend/vulkan/device_weights.h"
#include "runtime/backend/vulkan/pass_builder.h"

namespace runnel::vulkan {
namespace {

constexpr std::uint32_t kDim = 64;  // of a head
// What decode_mixers.comp has registers for: parts of the output projection that a thread adds up;
// items of a lane of q and k; of a row elsewhere; units of 8 columns of a gate.
constexpr std::uint32_t kMostHeads = 16, kMostProjected = 8, kMostItems = 4, kMostGateUnits = 8;
constexpr std::uint32_t kMostCopies = 4;      // of what all workgroups ask for
constexpr std::uint32_t kMostShares = 3;      // mixers of a query head
constexpr std::uint32_t kMostHeadItems = 12;  // of a lane of a row of the head
constexpr std::uint32_t kThreads32 = 512;     // of workgroups whose subgroups are of 32 lanes

}  // namespace

void use_mixers(DecodeStep& step, const Device& device, const StepModel& model,
                const DeviceWeights& weights) {
  const LayerSpec& l = model.layer;
  const SlotSpec& m = l.slots();
  const Capabilities& limits = device.capabilities();
  const auto u = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  const std::uint32_t threads = step.constants[1], lanes = limits.subgroup;
  const std::uint32_t d = u(model.hidden_size), inner = u(l.intermediate_size);
  const std::uint32_t heads = u(l.num_heads), items = d / 32;
  const std::uint32_t slots = u(m.num_slots()),
                      layers = static_cast<std::uint32_t>(model.layers.size());
  if (!device.tuning().step_mixers || !limits.addresses || step.shader != "decode_step.q4_0.dot" ||
      weights.layers.front().projections.size() != 2)
    return;
  if (l.head_k_dim != kDim || l.head_v_dim != kDim || d % 64 != 0 ||
      ceil_div(d / 8, lanes) > kMostGateUnits || ceil_div(items, lanes) > kMostItems ||
      d / 4 > threads || heads > kMostHeads || d > 2 * threads || m.num_memory_slots < 1 ||
      u(m.num_memory_slots) > kDim || 4 * slots > threads)
    return;
  if (2 * (items / 8) + ceil_div(2 * (items % 8), 8) > kMostProjected) return;
  if (shader_constant(m.feature_map) != kIdentity ||
      shader_constant(m.value_activation) != kIdentity ||
      shader_constant(l.output_activation) != kIdentity || l.output_norm != OutputNorm::none)
    return;
  const auto type_of = [](const DeviceLayer& w) { return w.projections.back().matrix.type; };
  const quant::BlockType gate_type = type_of(weights.layers.front());
  for (const DeviceLayer& w : weights.layers) {
    if (type_of(w) != gate_type) return;
  }
  const std::uint32_t f_type = gate_type == quant::BlockType::f16 ? kStepF16 : kStepBf16;
  if (lanes == 32 && threads != kThreads32) return;
  // Half the workgroups at most are mixers; where a query head has more than one, a quarter.
  if (step.groups != 1 && step.groups < 2 * heads) return;
  std::uint32_t shares = step.groups == 1 ? 1 : kMostShares;
  while (shares > 1 && (d % shares != 0 || 4 * heads * shares > step.groups ||
                        u(l.queries_per_kv_head()) * shares > lanes))
    --shares;
  const std::uint32_t gate_team = std::bit_ceil(ceil_div(items, kMostItems));
  const std::uint32_t down_team = std::bit_ceil(ceil_div(inner / 32, kMostItems));
  if (gate_team > lanes / 2 || down_team > lanes) return;
  const std::uint32_t other = std::max(inner, kDim), warps = threads / lanes;
  const std::uint32_t others = step.groups == 1 ? 1 : step.groups - heads * shares;
  const std::uint32_t shared = (d + other) + (d + other) / 32 * 8 + 4 * kStepLayerWords * layers +
                               4 * (4 * warps + kDim * (2 + 3 + 2 + 1 + 4) + d + threads / 2 +
                                    3 * warps + 2 * warps * kDim + ceil_div(d, others)) +
                               4 * (kStepLayerWords + 3 * warps + 3) +  // of the head
                               128;                                     // alignment
  if (shared > limits.shared_bytes) return;
  const std::uint32_t copies = step.groups == 1 ? 1 : std::min({kMostCopies, gate_team, down_team});
  const std::uint64_t gates = 2 * u(l.num_kv_heads * m.num_memory_slots);
  const std::uint64_t places = std::uint64_t{heads} * d + std::uint64_t{copies} * (inner + d) +
                               u(l.num_kv_heads) * kDim + (gates + 3) / 4 * 4;
  const std::uint64_t words = places * layers;
  if (4 * (words + 4) > limits.storage_range) return;
  const std::uint32_t head_team = step.draws ? step.head_constants.back() : 0;
  step.head_inside = step.head_shader == "head.q8_0.dot" && head_team > 0 &&
                     ceil_div(d / 16, head_team) <= kMostHeadItems && step.groups <= threads;
  step.shader = "decode_mixers.q4_0.dot";
  step.constants = {1,
                    threads,
                    d,
                    inner,
                    u(m.num_memory_slots),
                    u(m.num_sink_slots),
                    u(m.num_window_slots),
                    u(l.queries_per_kv_head()),
                    u(l.num_kv_heads),
                    other,
                    limits.software ? 1U : 0U,
                    layers,
                    step.groups,
                    gate_team,
                    down_team,
                    f_type,
                    copies,
                    step.head_inside ? head_team : 0,
                    shares};
  step.args.stuck_at = static_cast<std::uint32_t>(words);
  step.act_words = std::uint64_t{step.drawn_at()} + kDrawnWords;
}

}  // namespace runnel::vulkan
