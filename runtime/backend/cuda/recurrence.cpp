// SPDX-License-Identifier: Apache-2.0
// The ops of a gated recurrence on the buffers of a plan.
#include <algorithm>

#include "runtime/backend/cuda/activations.h"
#include "runtime/backend/cuda/recorder.h"
#include "runtime/base/integers.h"
#include "runtime/base/try.h"

namespace runnel::cuda {

RecurrenceColumns recurrence_columns(const LayerSpec& l) {
  RecurrenceColumns at;
  const auto take = [&at](bool there, std::int32_t n) {
    if (!there) return -1;
    const std::int32_t here = at.stride;
    at.stride += n;
    return here;
  };
  const RecurrenceSpec& r = l.recurrence();
  // The order of projection_groups; q, k, v, f next to each other are what a slot mixer takes.
  at.gate = take(l.output_gate, l.o_channels());
  at.q = take(true, l.q_channels());
  at.k = take(!r.complement_keys, l.k_channels());
  at.v = take(true, l.v_channels());
  at.low = take(r.gate_rank > 0, r.gate_rank);
  const bool shifted = l.mixer_shift > 0;
  at.low_r = take(r.rate_rank > 0, r.rate_rank);
  at.low_gate = take(r.output_gate_rank > 0, r.output_gate_rank);
  at.low_v = take(r.value_rank > 0, r.value_rank);
  at.f = take((r.gate_rank == 0 || shifted) && r.has_gate(), l.gate_channels());
  at.r = take(l.rate_dim() > 0, l.rate_channels());
  at.v_mix = take(r.value_rank > 0, l.v_channels());
  at.stride = round_up(at.stride, 4);
  return at;
}

Recurrence Recorder::recurrence(const LayerSpec& l) const {
  const RecurrenceSpec& r = l.recurrence();
  const LayerState& s = layout_.layer(l.index);
  const DeviceLayer& w = weights_of(l);
  const bool slots = r.num_memory_slots > 0;
  const std::int32_t decays = r.decay == Decay::none ? 0
                              : slots                ? r.num_memory_slots
                              : r.decay_on_values    ? l.head_v_dim
                                                     : l.feature_dim();
  return {.heads = l.num_heads,
          .kv_heads = l.num_kv_heads,
          .k_dim = l.head_k_dim,
          .features = l.feature_dim(),
          .v_dim = l.head_v_dim,
          .columns = l.value_columns(),
          .slots = r.num_memory_slots,
          .gates = l.gate_dim(),
          .decays = decays,
          .decay = r.decay,
          .map = r.feature_map,
          .decay_on_values = r.decay_on_values,
          .complement_keys = r.complement_keys,
          .rotary = r.rotary,
          .norm_q = r.feature_norm_q,
          .norm_k = r.feature_norm_k,
          .normalizer = r.normalizer,
          .conv_silu = l.conv_silu,
          .rank = r.gate_rank,
          .scale = r.scale,
          .tau = r.gate_normalizer,
          .floor = r.gate_log_min,
          .clamp_min = r.gate_logit_min,
          .clamp_max = r.gate_logit_max,
          .f_up = w.f_up,
          .f_bias = w.f_bias,
          .r_bias = w.r_bias,
          .lower_bound = w.lower_bound,
          .q_map = w.q_map,
          .k_map = w.k_map,
          .turns = l.rotates() ? m_->weights.turns : nullptr,
          .conv = l.conv_size,
          .q_conv = w.q_conv,
          .k_conv = w.k_conv,
          .v_conv = w.v_conv,
          .layer_offset = s.keys_offset(0),
          .head_floats = s.head_floats(),
          .values_offset = s.keys_floats(),
          .extra_offset = s.keys_floats() + s.values_floats(),
          .conv_offset = s.q_conv_offset(),
          .inputs = b_.inputs.get(),
          .at = recurrence_columns(l),
          .mixed = l.conv_size > 0 ? b_.raw.get() : b_.inputs.get(),
          .q = b_.features_q.get(),
          .k = b_.features_k.get(),
          .k_slots = b_.slot_keys.get(),
          .a = b_.decays.get(),
          .p = b_.slot_logits.get(),
          .o = b_.o.get(),
          .maxima = b_.maxima.get(),
          .before = b_.before.get(),
          .arrived = b_.arrived.get() == nullptr
                         ? nullptr
                         : b_.arrived.get() + static_cast<std::size_t>(l.index) * arrived_a_layer_};
}

Status Recorder::recurrence_projections(const LayerSpec& layer, const RecurrenceWeights&) {
  const RecurrenceColumns at = recurrence_columns(layer);
  steps_.emplace_back([this, layer, at](const Pass& p) -> Status {
    const DeviceLayer& w = weights_of(layer);
    RUNNEL_TRY(const Linear in, normed(p, b_.x.get(), layer.norm, w.norm));
    constexpr std::size_t kMost = std::size(Matvec{}.segments);
    const std::span<const DeviceProjection> all(w.projections);
    for (std::size_t first = 0; first < all.size(); first += kMost) {
      RUNNEL_CHECK_OK(linear(p, in, all.subspan(first, std::min(kMost, all.size() - first)),
                             b_.inputs.get(), at.stride, false));
    }
    return add_biases(p, layer, at.q);
  });
  return {};
}

Status Recorder::map_products(const Pass& pass, const Recurrence& a) const {
  for (const bool key : {false, true}) {
    const int heads = key ? a.kv_heads : a.heads, k = a.k_dim;
    const int rows = (key ? a.k_map : a.q_map).second != nullptr ? 2 * k : k;
    RUNNEL_CHECK_OK(
        check(split_map(pass.launch, a, key, pass.tokens, b_.map_rows.get(), b_.map_weights.get()),
              "map operands"));
    const Matmul product{.a = b_.map_rows.get(),
                         .lda = 3 * k,
                         .b = b_.map_weights.get(),
                         .ldb = 3 * k,
                         .tokens = pass.tokens * heads,
                         .rows = rows,
                         .inner = 3 * k,
                         .c = b_.map_products.get(),
                         .ldc = rows};
    RUNNEL_CHECK_OK(multiply_bf16(pass, product, false));
    RUNNEL_CHECK_OK(check(combine_map(pass.launch, a, key, pass.tokens, b_.map_products.get()),
                          "feature maps"));
  }
  return {};
}

Status Recorder::gated_recurrence(const LayerSpec& layer, const RecurrenceWeights&) {
  if (layer.recurrence().removal != Removal::none) return removal(layer);
  const Recurrence a = recurrence(layer);
  // Slots with a running sum are a slot mixer with other gates.
  const SlotMixer slots{.heads = a.heads,
                        .kv_heads = a.kv_heads,
                        .k_dim = a.k_dim,
                        .v_dim = a.v_dim,
                        .sinks = 0,
                        .window = 0,
                        .memory = a.slots,
                        .sink_distance = 0,
                        .scale = a.scale,
                        .gate_normalizer = 1.0F,
                        .gate_log_min = 0.0F,
                        .qk_act = Act::identity,
                        .v_act = Act::identity,
                        .prepared = true,
                        .f_bias = nullptr,
                        .read_bias = nullptr,
                        .head_read_bias = nullptr,
                        .turns = nullptr,
                        .layer_offset = a.layer_offset,
                        .head_floats = a.head_floats,
                        .inputs = a.mixed + a.at.q,
                        .input_stride = a.at.stride,
                        .out = a.o};
  const bool is_slots = recurrence_is_slots(a) && slot_recurrent_fits(m_->launch(), slots);
  const bool chunks = is_slots && chunkwise(layer, slots) && a.at.q % 4 == 0;
  // Where q and k need no more than an activation and a rotation, the slots' kernel makes its inputs itself.
  const bool elementwise =
      a.map == FeatureMap::identity || a.map == FeatureMap::swish || a.map == FeatureMap::relu;
  SlotMixer own = slots;
  own.prepared = false;
  own.qk_act = act_of(a.map);
  own.f_bias = a.f_bias;
  own.turns = a.turns;
  own.running = true;
  own.rotary = a.rotary;
  own.clamp_min = a.clamp_min, own.clamp_max = a.clamp_max;
  own.sums = a.extra_offset;
  const bool direct =
      is_slots && elementwise && !a.norm_q && !a.norm_k && slot_running_fits(m_->launch(), own);
  const bool maps = recurrence_maps_apart(a), step = recurrence_step_fits(a);
  steps_.emplace_back([=, this](const Pass& p) -> Status {
    const Segment* segments = b_.segments.get();
    RUNNEL_CHECK_OK(check(recurrence_convolutions(p.launch, a, segments, p.num_segments, p.tokens),
                          "convolutions"));
    if (direct && !(p.many && chunks))
      return check(slot_running(p.launch, own, segments, p.num_segments), "slots");
    if (is_slots) {
      RUNNEL_CHECK_OK(check(recurrence_slot_inputs(p.launch, a, segments, p.num_segments, p.tokens),
                            "slot inputs"));
      if (p.many && chunks)
        return check(slot_chunks(p.launch, slots, {segments, p.tokens}, chunk_operands(layer)),
                     "slots, chunkwise");
      return check(slot_recurrent(p.launch, slots, segments, p.num_segments), "slots");
    }
    if (!p.many && step)
      return check(recurrence_step(p.launch, a, segments, p.num_segments), "gated recurrence");
    if (maps && p.many && !m_->precise) {
      RUNNEL_CHECK_OK(map_products(p, a));
    } else if (maps) {
      RUNNEL_CHECK_OK(check(map_vectors(p.apart(), a, p.tokens), "feature maps"));
    } else {
      RUNNEL_CHECK_OK(check(recurrence_features(p.apart(), a, segments, p.num_segments, p.tokens),
                            "recurrence inputs"));
    }
    return check(cuda::gated_recurrence(p.apart(), a, segments, p.num_segments, p.tokens),
                 "gated recurrence");
  });
  return {};
}

Status Recorder::gated_output_projection(const LayerSpec& layer) {
  if (layer.output_activation != Activation::identity) {
    return fail(
        ErrorCode::unsupported, "cuda: layer ", layer.index,
        " has an activation before an output norm of heads or behind a recurrence, expected "
        "none");
  }
  if (layer.kind() == Mixer::recurrence &&
      (layer.recurrence().bonus || layer.output_norm == OutputNorm::groups))
    return bonus_output_projection(layer);
  const DeviceLayer& w = weights_of(layer);
  const bool recurrent = layer.kind() == Mixer::recurrence;
  const RecurrenceColumns at = recurrent ? recurrence_columns(layer) : RecurrenceColumns{};
  RecurrenceOutput out{.o = b_.o.get(),
                       .heads = layer.num_heads,
                       .v_dim = layer.head_v_dim,
                       .columns = layer.value_columns(),
                       .normalizer = recurrent && layer.recurrence().normalizer,
                       .normalise = layer.output_norm != OutputNorm::none,
                       .per_head = layer.output_norm == OutputNorm::heads,
                       .eps = layer.output_norm_eps,
                       .weight = w.g_norm,
                       .gate = at.gate >= 0 ? b_.inputs.get() + at.gate : nullptr,
                       .gate_stride = at.stride,
                       .y = b_.y.get()};
  const int n = out.heads * out.v_dim;
  const bool heads = out.normalise && out.per_head;
  // Few tokens: norm and gate are part of the product's input.
  const bool fused = !out.normalizer && n <= kMostNormed &&
                     (heads ? out.v_dim % 128 == 0 : out.normalise || out.weight == nullptr);
  const Linear together{
      .x = out.o,
      .n = n,
      .norm_weight = out.normalise ? out.weight : nullptr,
      .normalise = out.normalise,
      .eps = out.eps,
      .heads = {
          .head_dim = heads ? out.v_dim : 0, .gate = out.gate, .gate_stride = out.gate_stride}};
  const bool bf16 = w.o_proj.type != BlockType::f32 && n % 32 == 0;
  steps_.emplace_back([this, &w, out, n, fused, together, bf16](const Pass& p) -> Status {
    const DeviceProjection to{w.o_proj, 0};
    const int d = m_->config.hidden_size;
    if (!p.many && fused) return linear(p, together, std::span(&to, 1), b_.x.get(), d, true);
    RecurrenceOutput o = out;
    if (p.many && bf16) o.y_bf16 = b_.operand.get(), o.y_stride = n;
    RUNNEL_CHECK_OK(check(recurrence_output(p.apart(), o, p.tokens), "norm and gate"));
    if (p.many && bf16)
      return multiply(p, w.o_proj, b_.operand.get(), n, b_.x.get(), d, WideOutput::add_f32);
    const Linear in{.x = b_.y.get(), .n = n};
    return linear(p, in, std::span(&to, 1), b_.x.get(), d, true);
  });
  return {};
}

}  // namespace runnel::cuda
