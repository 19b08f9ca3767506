// SPDX-License-Identifier: Apache-2.0
// Mixers that are gated recurrences, token by token.
#include "runtime/backend/vulkan/pass_builder.h"

namespace runnel::vulkan {

Status PassBuilder::gated_recurrence(const DeviceLayer& w, int layer) {
  const ModelConfig& c = m_.config;
  const RecurrenceColumns at = RecurrenceColumns::of(c);
  const auto u = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  RUNNEL_CHECK_OK(short_convolutions(w, layer));
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
                      .layer_floats = u(m_.layout.layer_floats()),
                      .head_floats = u(m_.layout.head_floats()),
                      .values = u(m_.layout.keys_floats()),
                      .extra = u(m_.layout.keys_floats() + m_.layout.values_floats()),
                      .bank = 0,
                      .f_up = w.f_up,
                      .f_bias = w.f_bias,
                      .r_bias = w.r_bias,
                      .lower_bound = w.lower_bound,
                      .maps = w.maps,
                      .scale = c.scale,
                      .tau = c.gate_normalizer,
                      .floor_ = c.gate_log_min,
                      .clamp_min = c.gate_logit_min,
                      .clamp_max = c.gate_logit_max};
  const auto heads = static_cast<std::uint32_t>(c.num_heads),
             kv_heads = static_cast<std::uint32_t>(c.num_kv_heads),
             slots = static_cast<std::uint32_t>(c.num_memory_slots);
  const Range vectors = m_.weights->vectors(), pass = b_.whole_pass();
  const std::uint32_t decays = c.decay == Decay::none ? 0 : kv_heads;
  RUNNEL_CHECK_OK(dispatch("gated_recurrence.inputs", recurrence_constants(1, 0),
                           {b_.projected, b_.features, vectors, pass}, args,
                           {heads + kv_heads + decays, shape_.tokens, 1}));
  const auto banks = [&](const char* shader, const std::vector<std::uint32_t>& constants,
                         std::array<std::uint32_t, 3> groups) {
    return for_banks(layer, [&](std::uint32_t bank, const Range& state, bool after_all) {
      args.bank = bank;
      return dispatch(shader, constants, {b_.projected, b_.features, b_.slots, pass, state}, args,
                      groups, after_all);
    });
  };
  if (c.decay == Decay::running_sum || c.feature_map == FeatureMap::exponential) {
    RUNNEL_CHECK_OK(banks("gated_recurrence.scan", recurrence_constants(1, 0),
                          {kv_heads, shape_.all_items, 1}));
  }
  constexpr std::uint32_t kColumns = 16, kGroups = kThreads / kColumns;
  if (slots > 0) {
    const std::uint32_t share = ceil_div(static_cast<std::uint32_t>(c.head_k_dim), kGroups);
    RUNNEL_CHECK_OK(banks("gated_recurrence.core", recurrence_constants(share, 1),
                          {ceil_div(slots, kColumns), kv_heads, shape_.all_items}));
    RUNNEL_CHECK_OK(dispatch("gated_recurrence.softmax", recurrence_constants(1, 0),
                             {b_.projected, b_.features, vectors, pass}, args,
                             {heads, shape_.tokens, 1}));
  }
  const std::uint32_t rows = slots > 0 ? slots : static_cast<std::uint32_t>(c.feature_dim());
  const auto columns = static_cast<std::uint32_t>(c.value_columns());
  return banks("gated_recurrence.core", recurrence_constants(ceil_div(rows, kGroups), 0),
               {ceil_div(columns, kColumns), kv_heads, shape_.all_items});
}

/// @param share  rows of a thread;  keys  1: the pass over the slots' keys
std::vector<std::uint32_t> PassBuilder::recurrence_constants(std::uint32_t share,
                                                             std::uint32_t keys) const {
  const ModelConfig& c = m_.config;
  const auto u = [](std::int32_t n) { return static_cast<std::uint32_t>(n); };
  const auto flag = [](bool set, std::uint32_t bit) { return set ? bit : 0U; };
  const std::uint32_t flags =
      flag(c.decay_on_values, kFlagOnValues) | flag(c.complement_keys, kFlagComplement) |
      flag(c.rotary, kFlagRotary) | flag(c.feature_norm_q, kFlagNormQ) |
      flag(c.feature_norm_k, kFlagNormK) | flag(c.normalizer, kFlagNormalizer) |
      flag(c.output_norm, kFlagNorm) | flag(c.output_norm_heads, kFlagNormHeads) |
      flag(c.output_gate, kFlagGate);
  return {u(c.head_k_dim),
          u(c.feature_dim()),
          u(c.head_v_dim),
          u(c.value_columns()),
          u(c.num_memory_slots),
          u(c.num_heads),
          u(c.num_kv_heads),
          u(c.gate_dim()),
          RecurrenceColumns::of(c).decay_lanes,
          static_cast<std::uint32_t>(c.decay),
          static_cast<std::uint32_t>(c.feature_map),
          flags,
          u(c.gate_rank),
          share,
          keys};
}

Status PassBuilder::recurrence_output(const DeviceLayer& w) {
  const ModelConfig& c = m_.config;
  const RecurrenceOutputArgs args{.stride = b_.projected_stride,
                                  .at_gate = RecurrenceColumns::of(c).gate,
                                  .weight = w.g_norm,
                                  .eps = c.g_norm_eps,
                                  .out_stride = b_.inputs_stride};
  RUNNEL_CHECK_OK(
      dispatch("gated_recurrence.output", recurrence_constants(1, 0),
               {b_.projected, b_.inputs, m_.weights->vectors(), b_.whole_pass(), b_.slots}, args,
               {shape_.tokens, 1, 1}));
  const ProductInput in = plain(b_.inputs, b_.inputs_stride, m_.o_columns());
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
