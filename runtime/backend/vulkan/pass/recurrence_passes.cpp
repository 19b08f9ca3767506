// SPDX-License-Identifier: Apache-2.0
// Mixers that are gated recurrences, token by token.
#include "runtime/backend/vulkan/pass/pass_builder.h"

namespace runnel::vulkan {

Status PassBuilder::gated_recurrence(const PassLayer& l) {
  if (l.spec.recurrence().removal != Removal::none) return removal(l);
  const LayerSpec& c = l.spec;
  const RecurrenceSpec& r = c.recurrence();
  const DeviceLayer& w = l.weights;
  const RecurrenceColumns at = RecurrenceColumns::of(c);
  const auto u = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  RUNNEL_CHECK_OK(short_convolutions(l));
  RecurrenceArgs args{.stride = b_.projected_stride,
                      .at_q = at.q,
                      .at_k = at.k,
                      .at_v = at.v,
                      .at_f = at.f,
                      .at_low = at.low,
                      .at_r = at.r,
                      .feature_stride = b_.features_stride,
                      .queries = at.queries,
                      .keys = at.keys,
                      .slot_keys = at.slot_keys,
                      .decays = at.decays,
                      .slot_logits = at.slot_logits,
                      .rotations = b_.layout.rotations,
                      .items_at = b_.layout.items,
                      .layer_floats = u(l.state.floats()),
                      .head_floats = u(l.state.head_floats()),
                      .values = u(l.state.values_offset(0)),
                      .extra = u(l.state.extra_offset(0)),
                      .bank = 0,
                      .f_up = w.f_up,
                      .f_bias = w.f_bias,
                      .r_bias = w.r_bias,
                      .lower_bound = w.lower_bound,
                      .maps = w.maps,
                      .scale = r.scale,
                      .tau = r.gate_normalizer,
                      .floor_ = r.gate_log_min,
                      .clamp_min = r.gate_logit_min,
                      .clamp_max = r.gate_logit_max};
  const auto heads = static_cast<std::uint32_t>(c.num_heads),
             kv_heads = static_cast<std::uint32_t>(c.num_kv_heads),
             slots = static_cast<std::uint32_t>(r.num_memory_slots);
  const Range vectors = m_.weights->vectors(), pass = b_.whole_pass();
  const std::uint32_t decays = r.decay == Decay::none ? 0 : kv_heads;
  RUNNEL_CHECK_OK(dispatch("gated_recurrence.inputs", recurrence_constants(c, 1, 0),
                           {b_.projected, b_.features, vectors, pass}, args,
                           {heads + kv_heads + decays, shape_.tokens, 1}));
  const auto banks = [&](const char* shader, const std::vector<std::uint32_t>& constants,
                         std::array<std::uint32_t, 3> groups) {
    return for_banks(l.index(), [&](std::uint32_t bank, const Range& state, bool after_all) {
      args.bank = bank;
      return dispatch(shader, constants, {b_.projected, b_.features, b_.slots, pass, state}, args,
                      groups, after_all);
    });
  };
  if (r.decay == Decay::running_sum || r.feature_map == FeatureMap::exponential) {
    RUNNEL_CHECK_OK(banks("gated_recurrence.scan", recurrence_constants(c, 1, 0),
                          {kv_heads, shape_.all_items, 1}));
  }
  constexpr std::uint32_t kColumns = 16, kGroups = kThreads / kColumns;
  if (slots > 0) {
    const std::uint32_t share = ceil_div(static_cast<std::uint32_t>(c.head_k_dim), kGroups);
    RUNNEL_CHECK_OK(banks("gated_recurrence.core", recurrence_constants(c, share, 1),
                          {ceil_div(slots, kColumns), kv_heads, shape_.all_items}));
    RUNNEL_CHECK_OK(dispatch("gated_recurrence.softmax", recurrence_constants(c, 1, 0),
                             {b_.projected, b_.features, vectors, pass}, args,
                             {heads, shape_.tokens, 1}));
  }
  const std::uint32_t rows = slots > 0 ? slots : static_cast<std::uint32_t>(c.feature_dim());
  const auto columns = static_cast<std::uint32_t>(c.value_columns());
  return banks("gated_recurrence.core", recurrence_constants(c, ceil_div(rows, kGroups), 0),
               {ceil_div(columns, kColumns), kv_heads, shape_.all_items});
}

namespace {

std::uint32_t norm_flags(OutputNorm norm) {
  switch (norm) {
    case OutputNorm::none:
      return 0;
    case OutputNorm::channels:
      return kFlagNorm;
    case OutputNorm::heads:
      return kFlagNorm | kFlagNormHeads;
    case OutputNorm::groups:
      return kFlagNormGroups;
  }
  return 0;
}

}  // namespace

/// @param share  rows of a thread;  keys  1: the pass over the slots' keys
std::vector<std::uint32_t> PassBuilder::recurrence_constants(const LayerSpec& l,
                                                             std::uint32_t share,
                                                             std::uint32_t keys) {
  const RecurrenceSpec& r = l.recurrence();
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  const auto flag = [](bool set, std::uint32_t bit) { return set ? bit : 0U; };
  const std::uint32_t flags =
      flag(r.decay_on_values, kFlagOnValues) | flag(r.complement_keys, kFlagComplement) |
      flag(r.rotary, kFlagRotary) | flag(r.feature_norm_q, kFlagNormQ) |
      flag(r.feature_norm_k, kFlagNormK) | flag(r.normalizer, kFlagNormalizer) |
      norm_flags(l.output_norm) | flag(l.output_gate, kFlagGate) | flag(r.bonus, kFlagBonus) |
      flag(l.gate_activation == Activation::identity, kFlagPlainGate);
  return {u(l.head_k_dim),
          u(l.feature_dim()),
          u(l.head_v_dim),
          u(l.value_columns()),
          u(r.num_memory_slots),
          u(l.num_heads),
          u(l.num_kv_heads),
          u(l.gate_dim()),
          RecurrenceColumns::of(l).decay_lanes,
          decay_constant(r.decay),
          map_constant(r.feature_map),
          flags,
          u(r.gate_rank),
          share,
          keys};
}

Status PassBuilder::recurrence_output(const PassLayer& l) {
  const LayerSpec& c = l.spec;
  const DeviceLayer& w = l.weights;
  const RecurrenceOutputArgs args{.stride = b_.projected_stride,
                                  .at_gate = RecurrenceColumns::of(c).gate,
                                  .weight = w.g_norm,
                                  .eps = c.output_norm_eps,
                                  .out_stride = b_.inputs_stride,
                                  .bias = w.g_norm_bias,
                                  .at_bonus = RecurrenceColumns::of(c).bonus,
                                  .at_v = RecurrenceColumns::of(c).v};
  const bool whole = c.output_norm == OutputNorm::channels;  // else a norm a head, or none
  RUNNEL_CHECK_OK(
      dispatch("gated_recurrence.output", recurrence_constants(c, 1, 0),
               {b_.projected, b_.inputs, m_.weights->vectors(), b_.whole_pass(), b_.slots}, args,
               {shape_.tokens, whole ? 1U : static_cast<std::uint32_t>(c.num_heads), 1}));
  const ProductInput in =
      plain(b_.inputs, b_.inputs_stride, static_cast<std::uint32_t>(c.o_channels()));
  const ProductOutput out{.kind = kOutputAdd, .rows = b_.x, .stride = b_.x_stride};
  if (on_tiles(w.o_proj)) {
    const DeviceMatrix* const matrices[] = {&w.o_proj};
    RUNNEL_CHECK_OK(prepare_tiles(in));
    RUNNEL_CHECK_OK(unpack(matrices, 1));
    return product_on_tiles(matrices, 1, b_.tiles.inputs, out);
  }
  return product(w.o_proj, in, out);
}

}  // namespace runnel::vulkan
