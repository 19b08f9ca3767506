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
  // The order in which DeviceWeights stacks the projections; q, k, v, f next to each other are what
  // a slot mixer takes.
  at.gate = take(c.output_gate, c.num_heads * c.head_v_dim);
  at.q = take(true, c.num_heads * c.head_k_dim);
  at.k = take(!c.complement_keys, c.num_kv_heads * c.head_k_dim);
  at.v = take(true, c.num_kv_heads * c.head_v_dim);
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
  if (c.feature_map == FeatureMap::exponential) {
    RUNNEL_CHECK_OK(make(b_.maxima, kv, "key maxima"));
    RUNNEL_CHECK_OK(make(b_.before, kv, "key maxima"));
    RUNNEL_TRY(b_.arrived, device_array<int>(static_cast<std::size_t>(c.num_layers) * n *
                                                 static_cast<std::size_t>(kv),
                                             "counters"));
    bytes += b_.arrived.bytes();
    RUNNEL_CHECK_OK(
        check(cudaMemset(b_.arrived.get(), 0, b_.arrived.bytes()), "clear the counters"));
  }
  const Recurrence shape = recurrence(0);
  if (recurrence_is_slots(shape) && !m_->precise) RUNNEL_CHECK_OK(allocate_many(bytes));
  if (recurrence_maps_apart(shape) && !m_->precise) {
    const auto k = static_cast<std::size_t>(c.head_k_dim);
    const std::size_t rows = n * static_cast<std::size_t>(heads);
    const std::size_t matrices = shape.q_map.second != nullptr ? 2 : 1;
    RUNNEL_TRY(b_.map_rows, device_array<std::uint16_t>(rows * 3 * k, "map operands"));
    RUNNEL_TRY(b_.map_weights, device_array<std::uint16_t>(matrices * k * 3 * k, "map operands"));
    RUNNEL_TRY(b_.map_products, device_array<float>(rows * matrices * k, "map products"));
    bytes += b_.map_rows.bytes() + b_.map_weights.bytes() + b_.map_products.bytes();
  }
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
  const std::ptrdiff_t kv = c.num_kv_heads;
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
          .o = b_.o.get(),
          .maxima = b_.maxima.get(),
          .before = b_.before.get(),
          .arrived = b_.arrived.get() == nullptr
                         ? nullptr
                         : b_.arrived.get() + std::ptrdiff_t{layer} * max_tokens_ * kv};
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

Status Recorder::gated_recurrence(int layer, const LayerWeights&) {
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
  const bool chunkwise =
      is_slots && m_->slot_chunks && !m_->precise && slot_chunks_fit(slots) && a.at.q % 4 == 0;
  // Where q and k need no more than an activation and a rotation, the slots' kernel makes its inputs itself.
  const bool elementwise =
      a.map == FeatureMap::identity || a.map == FeatureMap::swish || a.map == FeatureMap::relu;
  SlotMixer own = slots;
  own.prepared = false;
  own.qk_act = a.map == FeatureMap::swish  ? Act::swish
               : a.map == FeatureMap::relu ? Act::relu
                                           : Act::identity;
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
    if (direct && !(p.many && chunkwise))
      return check(slot_running(p.launch, own, segments, p.num_segments), "slots");
    if (is_slots) {
      RUNNEL_CHECK_OK(check(recurrence_slot_inputs(p.launch, a, segments, p.num_segments, p.tokens),
                            "slot inputs"));
      if (p.many && chunkwise)
        return check(slot_chunks(p.launch, slots, {segments, p.tokens}, chunk_operands()),
                     "slots, chunkwise");
      return check(slot_recurrent(p.launch, slots, segments, p.num_segments), "slots");
    }
    if (!p.many && step)
      return check(recurrence_step(p.launch, a, segments, p.num_segments), "gated recurrence");
    if (maps && p.many && !m_->precise) {
      RUNNEL_CHECK_OK(map_products(p, a));
    } else if (maps) {
      RUNNEL_CHECK_OK(check(map_vectors(p.launch, a, p.tokens), "feature maps"));
    } else {
      RUNNEL_CHECK_OK(check(recurrence_features(p.launch, a, segments, p.num_segments, p.tokens),
                            "recurrence inputs"));
    }
    return check(cuda::gated_recurrence(p.launch, a, segments, p.num_segments, p.tokens),
                 "gated recurrence");
  });
  return {};
}

Status Recorder::recurrence_output_projection(int layer) {
  const LayerOnDevice& w = m_->weights.layers[static_cast<std::size_t>(layer)];
  const ModelConfig& c = m_->config;
  const RecurrenceColumns at = recurrence_columns(c);
  RecurrenceOutput out{.o = b_.o.get(),
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
    const Projection to{w.o_proj, 0};
    const int d = m_->config.hidden_size;
    if (!p.many && fused) return linear(p, together, std::span(&to, 1), b_.x.get(), d, true);
    RecurrenceOutput o = out;
    if (p.many && bf16) o.y_bf16 = b_.operand.get(), o.y_stride = n;
    RUNNEL_CHECK_OK(check(recurrence_output(p.launch, o, p.tokens), "norm and gate"));
    if (p.many && bf16)
      return multiply(p, w.o_proj, b_.operand.get(), n, b_.x.get(), d, true, false);
    const Linear in{.x = b_.y.get(), .n = n};
    return linear(p, in, std::span(&to, 1), b_.x.get(), d, true);
  });
  return {};
}

}  // namespace runnel::cuda
