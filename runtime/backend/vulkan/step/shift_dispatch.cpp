// SPDX-License-Identifier: Apache-2.0
// shift_step.comp: its table and what it is given.
#include <algorithm>

#include "runtime/backend/vulkan/step/dispatch_parts.h"
#include "runtime/base/try.h"

namespace runnel::vulkan {
namespace {

using TableEntry = std::array<std::uint32_t, kShiftLayerWords>;

/// In the order of the entry's; those of low rank may be missing.
std::array<const DeviceMatrix*, kShiftMatrixCount> matrices_of(const DeviceLayer& w) {
  return {&w.q,       &w.k,       &w.v,      &w.down[0],    &w.down[1],
          &w.down[2], &w.down[3], &w.o_proj, &w.gate_up[0], &w.down_proj};
}

TableEntry layer_entry(const DeviceLayer& w) {
  TableEntry words{};
  words[kShiftNorm] = w.norm.weight, words[kShiftNorm + 1] = w.norm.bias;
  words[kShiftLerp] = w.lerp;
  words[kShiftFBias] = w.f_bias;
  words[kShiftRBias] = w.r_bias;
  words[kShiftMixBias] = w.v_mix_bias;
  words[kShiftRemovalKey] = w.removal_key;
  words[kShiftKeyRate] = w.key_rate;
  words[kShiftBonus] = w.bonus;
  words[kShiftGroupNorm] = w.g_norm, words[kShiftGroupNorm + 1] = w.g_norm_bias;
  words[kShiftChannelNorm] = w.channel_norm.weight;
  words[kShiftChannelNorm + 1] = w.channel_norm.bias;
  words[kShiftChannelLerp] = w.channel_lerp;
  words[kShiftMixes] = w.up[3].parts.empty() ? 0 : 1;
  std::size_t at = kShiftMatrices;
  for (const DeviceMatrix* m : matrices_of(w)) {
    if (!m->parts.empty()) {
      std::ranges::copy(matrix_entry(*m), &words[at]);
      words[at + 1] = static_cast<std::uint32_t>(m->parts.front().range.bytes / 16);
    }
    at += kStepMatrixWords;
  }
  for (std::size_t i = 0; i < w.up.size(); ++i) {
    if (!w.up[i].parts.empty()) words[kShiftRaise + i] = matrix_entry(w.up[i])[0];
  }
  return words;
}

/// What lies behind the layers.
TableEntry last_entry(const ShiftShape& s, const DeviceNorm& embedding) {
  TableEntry words{};
  std::size_t at = 0;
  for (const ShiftShape::Share& share : s.shares) {
    for (const std::uint32_t word : {share.first, share.groups, share.rows}) words[at++] = word;
  }
  words[kShiftEmbeddingNorm] = embedding.weight;
  words[kShiftEmbeddingNorm + 1] = embedding.bias;
  return words;
}
static_assert(kShiftShareWords * kShiftMatrixCount <= kShiftEmbeddingNorm);

/// Whether the weights lie as refuse_shift_weights() expects, and a state as the shader does.
bool as_expected(const StepModel& m, const DeviceWeights& w, const Range& block) {
  const auto there = [&](const DeviceMatrix& matrix) {
    return matrix.parts.empty() ||
           (matrix.parts.size() == 1 && matrix.parts.front().range.buffer == block.buffer);
  };
  const LayerState state = LayerState::of(m.shifted.layers.front().spec);
  return state.head_floats() == std::size_t{kShiftHead} * kShiftHead &&
         state.mixer_shift_offset() ==
             static_cast<std::size_t>(state.kv_heads) * state.head_floats() &&
         std::ranges::all_of(w.layers, [&](const DeviceLayer& l) {
           return l.lerp % 4 == 0 && l.channel_lerp % 4 == 0 && l.gate_up.size() == 1 &&
                  std::ranges::all_of(l.up, there) &&
                  std::ranges::all_of(matrices_of(l),
                                      [&](const DeviceMatrix* each) { return there(*each); });
         });
}

}  // namespace

Result<StepDispatch> build_shift(Device& device, const StepModel& m, const DeviceWeights& w) {
  const StepDevice d = StepDevice::of(device.facts(), device.tuning());
  const ShiftShape s = ShiftShape::of(m, d);
  const LayerSpec& l = m.shifted.layers.front().spec;
  StepDispatch step;
  step.weights = w.block_of(w.layers.front().o_proj);
  if (!as_expected(m, w, step.weights)) {
    return fail(ErrorCode::internal, device.id(),
                ": weights or state of a step program lie in another way than expected");
  }
  const auto [low, high] = device.address_of(step.weights);
  step.shader = s.shader;
  step.constants = s.constants;
  step.groups = s.groups;
  step.threads = s.threads;
  step.act_words = s.exchanged_words + 4;
  step.head = step_head(m, d, w);
  step.args.phases = static_cast<std::uint32_t>(4 * m.shifted.layers.size());
  step.args.layer_floats = static_cast<std::uint32_t>(LayerState::of(l).floats());
  step.args.timed_out_at = static_cast<std::uint32_t>(s.exchanged_words);
  step.args.poll_limit = poll_limit_of(d);
  step.args.scale = l.recurrence().scale;
  step.args.eps = l.norm.eps;
  step.args.g_norm_eps = l.output_norm_eps;
  step.args.embedding_eps = m.shifted.embedding_norm.eps;
  step.args.weights_low = low, step.args.weights_high = high;
  std::vector<TableEntry> table;
  for (const DeviceLayer& layer : w.layers) table.push_back(layer_entry(layer));
  table.push_back(last_entry(s, w.embedding_norm));
  RUNNEL_TRY(step.table, device.create_buffer(table.size() * sizeof(TableEntry), MemoryKind::device,
                                              "table of layers"));
  RUNNEL_CHECK_OK(device.copy_in(step.table, std::as_bytes(std::span(table))));
  return step;
}

}  // namespace runnel::vulkan
