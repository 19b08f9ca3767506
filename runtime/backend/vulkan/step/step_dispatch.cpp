// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/step/step_dispatch.h"

#include <algorithm>
#include <array>

#include "runtime/backend/vulkan/step/dispatch_parts.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

using TableEntry = std::array<std::uint32_t, kStepLayerWords>;

TableEntry layer_entry(const DeviceLayer& w) {
  TableEntry words{};
  words[kStepAttnNorm] = w.norm.weight;
  words[kStepGNorm] = w.g_norm;
  words[kStepMlpNorm] = w.channel_norm.weight;
  words[kStepFBias] = w.f_bias;
  words[kStepReadBias] = w.read_bias;
  words[kStepHeadReadBias] = w.head_read_bias;
  words[kStepGates] = kNone;
  if (w.projections.size() == 2) {
    const DeviceMatrix& gates = w.projections.back().matrix;
    words[kStepGates] = matrix_entry(gates)[0];
    words[kStepGateType] = plain_type_constant(gates.type);
  }
  std::size_t at = kStepMatrices;
  for (const DeviceMatrix* m :
       {&w.projections.front().matrix, &w.o_proj, &w.gate_up.front(), &w.down_proj}) {
    for (const std::uint32_t word : matrix_entry(*m)) words[at++] = word;
  }
  if (w.qkv_bias != kNone) words[kStepBiases] = w.qkv_bias;
  return words;
}

TableEntry head_entry(const DeviceWeights& w) {
  TableEntry words{};
  words[kStepFinalNorm] = w.final_norm.weight;
  std::ranges::copy(matrix_entry(w.head), &words[kStepHead]);
  std::ranges::copy(matrix_entry(w.embeddings), &words[kStepTable]);
  return words;
}

/// Whether the weights lie as refuse_weights() expects.
bool in_one_block(const DeviceWeights& w) {
  const Range block = w.block_of(w.layers.front().o_proj);
  const auto there = [&](const DeviceMatrix& m) {
    return m.parts.size() == 1 && m.parts.front().range.buffer == block.buffer;
  };
  return std::ranges::all_of(w.layers, [&](const DeviceLayer& l) {
    return l.projections.size() <= 2 && l.gate_up.size() == 1 && there(l.o_proj) &&
           there(l.gate_up.front()) && there(l.down_proj) &&
           std::ranges::all_of(l.projections,
                               [&](const DeviceProjection& p) { return there(p.matrix); });
  });
}

/// What the programs of slots have.
Result<StepDispatch> common_of(Device& device, const StepModel& m, const DeviceWeights& w,
                               std::uint64_t exchanged_words) {
  if (!in_one_block(w)) {
    return fail(ErrorCode::internal, device.id(),
                ": the weights of a step program lie in several buffers, expected one");
  }
  const StepDevice d = StepDevice::of(device.facts(), device.tuning());
  const LayerSpec& l = m.layer;
  StepDispatch step;
  step.weights = w.block_of(w.layers.front().o_proj);
  step.head = step_head(m, d, w);
  const auto [low, high] =
      d.addresses ? device.address_of(step.weights) : std::array<std::uint32_t, 2>{};
  step.args = {.pass = {},
               .phases = static_cast<std::uint32_t>(4 * m.layers.size()),
               .layer_stride = 0,
               .layer_floats = static_cast<std::uint32_t>(m.state().floats()),
               .timed_out_at = static_cast<std::uint32_t>(exchanged_words),
               .poll_limit = poll_limit_of(d),
               .scale = l.slots().scale,
               .gate_normalizer = l.slots().gate_normalizer,
               .gate_log_min = l.slots().gate_log_min,
               .eps = l.norm.eps,
               .g_norm_eps = l.output_norm_eps,
               .weights_low = low,
               .weights_high = high};
  std::vector<TableEntry> table;
  for (const DeviceLayer& layer : w.layers) table.push_back(layer_entry(layer));
  if (step.head && step.head->draws) table.push_back(head_entry(w));
  RUNNEL_TRY(step.table, device.create_buffer(table.size() * sizeof(TableEntry), MemoryKind::device,
                                              "table of layers"));
  RUNNEL_CHECK_OK(device.copy_in(step.table, std::as_bytes(std::span(table))));
  return step;
}

/// The dispatch of a shape of any of the three.
template <class Shape>
Result<StepDispatch> build(Device& device, const StepModel& m, const DeviceWeights& w,
                           const Shape& s) {
  RUNNEL_TRY(StepDispatch step, common_of(device, m, w, s.exchanged_words));
  step.shader = s.shader;
  step.constants = s.constants;
  step.groups = s.groups;
  step.threads = s.threads;
  step.act_words = s.exchanged_words + 4;
  return step;
}

}  // namespace

Result<StepDispatch> build_step(Device& device, const StepModel& m, const DeviceWeights& w) {
  return build(device, m, w, StepShape::of(m, StepDevice::of(device.facts(), device.tuning())));
}

Result<StepDispatch> build_even(Device& device, const StepModel& m, const DeviceWeights& w) {
  return build(device, m, w, StepShape::even(m, StepDevice::of(device.facts(), device.tuning())));
}

Result<StepDispatch> build_narrow(Device& device, const StepModel& m, const DeviceWeights& w) {
  const NarrowShape s = NarrowShape::of(m, StepDevice::of(device.facts(), device.tuning()));
  RUNNEL_TRY(StepDispatch step, build(device, m, w, s));
  step.head_inside = s.head_team > 0;
  step.act_words = std::uint64_t{step.drawn_at()} + kDrawnWords;
  return step;
}

}  // namespace runnel::vulkan
