// SPDX-License-Identifier: Apache-2.0
// The ops of a gated recurrence on the buffers of a plan.
#include <algorithm>

#include "runtime/backend/cuda/recorder.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

RecurrenceColumns recurrence_columns(const ModelConfig& c) {
  RecurrenceColumns at;
  const auto take = [&at](bool there, std::int32_t n) {
    if (!there) return -1;
    const std::int32_t here = at.stride;
    at.stride += n;
    return here;
  };
  const std::int32_t gates = c.num_kv_heads * c.gate_dim();
  // The order in which DeviceWeights stacks the projections.
  at.q = take(true, c.num_heads * c.head_k_dim);
  at.k = take(!c.complement_keys, c.num_kv_heads * c.head_k_dim);
  at.v = take(true, c.num_kv_heads * c.head_v_dim);
  at.gate = take(c.output_gate, c.num_heads * c.head_v_dim);
  at.low = take(c.gate_rank > 0, c.gate_rank);
  at.f = take(c.gate_rank == 0 && c.has_gate(), gates);
  at.r = take(c.decay == Decay::refined, gates);
  at.stride = (at.stride + 3) / 4 * 4;
  return at;
}

Status Recorder::allocate_recurrence(std::uint64_t& bytes) {
  const ModelConfig& c = m_->config;
  const auto n = static_cast<std::size_t>(max_tokens_);
  const auto make = [&](DeviceArray<float>& array, std::int64_t count, const char* what) -> Status {
    if (count == 0) return {};
    RUNNEL_TRY(array, device_array<float>(n * static_cast<std::size_t>(count), what));
    bytes += array.bytes();
    return {};
  };
  const std::int64_t heads = c.num_heads, kv = c.num_kv_heads;
  const std::int64_t keys = std::max(c.feature_dim(), c.num_memory_slots);
  RUNNEL_CHECK_OK(make(b_.features_q, heads * c.feature_dim(), "query features"));
  RUNNEL_CHECK_OK(make(b_.features_k, kv * keys, "key features"));
  RUNNEL_CHECK_OK(make(b_.slot_keys, c.num_memory_slots > 0 ? kv * c.head_k_dim : 0, "slot keys"));
  RUNNEL_CHECK_OK(make(b_.decays, kv * std::max(keys, std::int64_t{c.head_v_dim}), "decays"));
  RUNNEL_CHECK_OK(make(b_.slot_logits, heads * c.num_memory_slots, "slot logits"));
  RUNNEL_CHECK_OK(make(b_.y, heads * c.head_v_dim, "mixer outputs"));
  const Recurrence shape = recurrence(0);
  if (gated_recurrence_fits(shape)) return {};
  return fail(ErrorCode::unsupported, "cuda: a state of ", std::max(shape.features, shape.slots),
              " rows read by ", c.queries_per_kv_head(),
              " queries does not fit this device's registers and shared memory");
}

Recurrence Recorder::recurrence(int layer) const {
  const ModelConfig& c = m_->config;
  const StateLayout s = StateLayout::of(c);
  const LayerOnDevice& w = m_->weights.layers[static_cast<std::size_t>(layer)];
  const bool slots = c.num_memory_slots > 0;
  const std::int32_t decays = c.decay == Decay::none ? 0
                              : slots                ? c.num_memory_slots
                              : c.decay_on_values    ? c.head_v_dim
                                                     : c.feature_dim();
  return {.heads = c.num_heads,
          .kv_heads = c.num_kv_heads,
          .k_dim = c.head_k_dim,
          .features = c.feature_dim(),
          .v_dim = c.head_v_dim,
          .columns = c.value_columns(),
          .slots = c.num_memory_slots,
          .gates = c.gate_dim(),
          .decays = decays,
          .decay = c.decay,
          .map = c.feature_map,
          .decay_on_values = c.decay_on_values,
          .complement_keys = c.complement_keys,
          .rotary = c.rotary,
          .norm_q = c.feature_norm_q,
          .norm_k = c.feature_norm_k,
          .normalizer = c.normalizer,
          .conv_silu = c.conv_silu,
          .rank = c.gate_rank,
          .scale = c.scale,
          .tau = c.gate_normalizer,
          .floor = c.gate_log_min,
          .clamp_min = c.gate_logit_min,
          .clamp_max = c.gate_logit_max,
          .f_up = w.f_up,
          .f_bias = w.f_bias,
          .r_bias = w.r_bias,
          .lower_bound = w.lower_bound,
          .q_map = w.q_map,
          .k_map = w.k_map,
          .turns = m_->weights.turns,
          .conv = c.conv_size,
          .q_conv = w.q_conv,
          .k_conv = w.k_conv,
          .v_conv = w.v_conv,
          .layer_offset = s.keys_offset(layer, 0),
          .head_floats = s.head_floats(),
          .values_offset = s.keys_floats(),
          .extra_offset = s.keys_floats() + s.values_floats(),
          .conv_offset = s.q_conv_offset(layer),
          .inputs = b_.inputs.get(),
          .at = recurrence_columns(c),
          .mixed = c.conv_size > 0 ? b_.raw.get() : b_.inputs.get(),
          .q = b_.features_q.get(),
          .k = b_.features_k.get(),
          .k_slots = b_.slot_keys.get(),
          .a = b_.decays.get(),
          .p = b_.slot_logits.get(),
          .o = b_.o.get()};
}

Status Recorder::recurrence_projections(int layer, const LayerWeights&) {
  const LayerOnDevice& w = m_->weights.layers[static_cast<std::size_t>(layer)];
  steps_.emplace_back([this, &w](const Pass& p) -> Status {
    const Linear in{.x = b_.x.get(),
                    .n = m_->config.hidden_size,
                    .norm_weight = w.attn_norm,
                    .normalise = true,
                    .eps = m_->config.norm_eps};
    constexpr std::size_t kMost = std::size(Matvec{}.segments);
    const std::span<const Projection> all(w.projections);
    for (std::size_t at = 0; at < all.size(); at += kMost) {
      RUNNEL_CHECK_OK(linear(p, in, all.subspan(at, std::min(kMost, all.size() - at)),
                             b_.inputs.get(), columns_, false));
    }
    return {};
  });
  return {};
}

Status Recorder::gated_recurrence(int layer, const LayerWeights&) {
  const Recurrence a = recurrence(layer);
  steps_.emplace_back([this, a](const Pass& p) -> Status {
    RUNNEL_CHECK_OK(
        check(recurrence_inputs(p.launch, a, b_.segments.get(), p.num_segments, p.tokens),
              "recurrence inputs"));
    return check(cuda::gated_recurrence(p.launch, a, b_.segments.get(), p.num_segments, p.tokens),
                 "gated recurrence");
  });
  return {};
}

Status Recorder::recurrence_output_projection(int layer) {
  const LayerOnDevice& w = m_->weights.layers[static_cast<std::size_t>(layer)];
  const ModelConfig& c = m_->config;
  const RecurrenceColumns at = recurrence_columns(c);
  const RecurrenceOutput out{.o = b_.o.get(),
                             .heads = c.num_heads,
                             .v_dim = c.head_v_dim,
                             .columns = c.value_columns(),
                             .normalizer = c.normalizer,
                             .normalise = c.output_norm,
                             .per_head = c.output_norm_heads,
                             .eps = c.g_norm_eps,
                             .weight = w.g_norm,
                             .gate = c.output_gate ? b_.inputs.get() + at.gate : nullptr,
                             .gate_stride = at.stride,
                             .y = b_.y.get()};
  steps_.emplace_back([this, &w, out](const Pass& p) -> Status {
    RUNNEL_CHECK_OK(check(recurrence_output(p.launch, out, p.tokens), "norm and gate"));
    const Linear in{.x = b_.y.get(), .n = out.heads * out.v_dim};
    const Projection to{w.o_proj, 0};
    return linear(p, in, std::span(&to, 1), b_.x.get(), m_->config.hidden_size, true);
  });
  return {};
}

}  // namespace runnel::cuda
