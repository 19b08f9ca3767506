// SPDX-License-Identifier: Apache-2.0
// What a configuration may be: the range of every number, and which options exclude each other.
#include <cmath>
#include <cstdint>

#include "runtime/base/try.h"
#include "runtime/model/config_keys.h"
#include "runtime/model/state_layout.h"
#include "runtime/model/weight_table.h"

namespace runnel {
namespace {

/// 4 GiB of floats: what one session may hold. The largest released model holds 16 MiB.
constexpr std::int64_t kMaxStateFloats = std::int64_t{1} << 30;

Status check_product(const char* what, std::int64_t a, std::int64_t b, std::int64_t high) {
  if (a * b > high) {
    return fail(ErrorCode::malformed, what, " is ", a * b, ", expected at most ", high);
  }
  return {};
}

Status check_float(const char* key, double value, bool ok, const char* expected) {
  if (std::isfinite(value) && ok) return {};
  return fail(ErrorCode::malformed, key, " is ", value, ", expected ", expected);
}

Status check_eps(const char* key, float value) {
  return check_float(key, value, value > 0 && value <= 1, "a number above 0 and at most 1");
}

/// Numbers of one layer's state. Every factor is at most 2^17, so the product of three stays below 2^51.
std::int64_t layer_state(const LayerSpec& c) {
  const LayerState s = LayerState::of(c);
  const std::int64_t head =
      std::int64_t{s.slots} * (s.head_k_dim + s.head_v_dim) + std::int64_t{s.head_extra};
  const std::int64_t channels =
      std::int64_t{s.q_channels} + std::int64_t{s.k_channels} + std::int64_t{s.v_channels};
  return head * s.kv_heads + s.conv_size * channels + s.mixer_shift + s.channel_shift;
}

Status check_state_size(const ModelConfig& c) {
  std::int64_t all = 0;
  for (const LayerSpec& layer : c.layers) {
    all += layer_state(layer);
    if (all <= kMaxStateFloats) continue;
    return fail(ErrorCode::malformed, "the state of ", c.num_layers(), " layers, in layer ",
                layer.index, " of ", layer.num_kv_heads, " kv heads with ",
                LayerState::of(layer).slots, " rows, is too large, expected at most ",
                kMaxStateFloats, " numbers in all");
  }
  return {};
}

/// What slots exclude.
Status check_slots(const LayerSpec& layer) {
  const SlotSpec& c = layer.slots();
  if (c.num_memory_slots < 1) {
    return fail(ErrorCode::malformed, "gsa.num_memory_slots is ", c.num_memory_slots,
                ", expected 1 to ", 1 << 14);
  }
  if (c.feature_map > FeatureMap::t2r) {
    return fail(ErrorCode::unsupported, "gsa.feature_map of slots is a map of another mixer",
                ", expected identity, swish, relu or t2r");
  }
  if (layer.output_norm == OutputNorm::heads || layer.output_norm == OutputNorm::groups ||
      layer.output_gate) {
    return fail(ErrorCode::unsupported, "slots have an output norm of each head or an output gate",
                ", expected neither");
  }
  if (layer.mixer_shift != 0) {
    return fail(ErrorCode::unsupported, "slots have shifted projections, expected none");
  }
  if (c.num_positional_slots() > 0 && layer.head_k_dim % 2 != 0) {
    return fail(ErrorCode::malformed, "gsa.head_k_dim is ", layer.head_k_dim,
                ", expected an even number because sink and window slots are rotated in pairs");
  }
  if (c.num_sink_slots > 0 && c.sink_distance < c.num_sink_slots) {
    return fail(ErrorCode::malformed, "gsa.sink_distance is ", c.sink_distance,
                ", expected at least gsa.num_sink_slots ", c.num_sink_slots);
  }
  return {};
}

/// What a removal excludes, and what only a removal has.
Status check_removal(const LayerSpec& layer) {
  const RecurrenceSpec& c = layer.recurrence();
  const auto refuse = [](const char* what, const char* expected) {
    return fail(ErrorCode::unsupported, what, ", expected ", expected);
  };
  RUNNEL_CHECK_OK(check_float("gsa.removal_scale", c.removal_scale, true, "a finite number"));
  if (c.removal == Removal::none) {
    if (c.decay == Decay::softplus || c.decay == Decay::bounded || c.values_per_key != 1 ||
        c.key_norm != KeyNorm::none || c.bonus || layer.mixer_shift != 0) {
      return refuse(
          "a recurrence has a decay, a norm of keys, a bonus, shared keys or shifted inputs "
          "that belong to a gsa.removal",
          "a removal");
    }
    return {};
  }
  if (c.decay != Decay::none && c.decay != Decay::softplus && c.decay != Decay::bounded) {
    return refuse("a recurrence with a gsa.removal has this gsa.decay",
                  "none, softplus or bounded");
  }
  if (layer.num_heads != layer.num_kv_heads) {
    return refuse("a recurrence with a gsa.removal has several queries of a kv head", "one");
  }
  if (c.normalizer || c.rotary || c.num_memory_slots > 0 || c.feature_norm_q || c.feature_norm_k) {
    return refuse(
        "a recurrence with a gsa.removal has a normalizer, rotary keys, slots or feature "
        "norms",
        "none of them");
  }
  switch (c.feature_map) {
    case FeatureMap::identity:
    case FeatureMap::swish:
    case FeatureMap::relu:
    case FeatureMap::elu:
      break;
    case FeatureMap::t2r:
    case FeatureMap::product:
    case FeatureMap::hedgehog:
    case FeatureMap::dpfp:
    case FeatureMap::exponential:
      return refuse("a recurrence with a gsa.removal has this gsa.feature_map",
                    "identity, swish, relu or elu");
  }
  if (c.values_per_key < 1 || layer.num_kv_heads % c.values_per_key != 0) {
    return fail(ErrorCode::malformed, "gsa.values_per_key is ", c.values_per_key,
                ", expected a divisor of gsa.num_kv_heads ", layer.num_kv_heads);
  }
  const bool own_key = c.removal == Removal::own_key;
  if (own_key != (layer.mixer_shift != 0) || own_key != (c.decay == Decay::bounded)) {
    return refuse("shifted inputs, a bounded decay and a removal by own keys do not come together",
                  "all or none");
  }
  if (!own_key) return {};
  if (c.values_per_key != 1 || layer.head_k_dim != layer.head_v_dim || layer.conv_size > 0 ||
      layer.qkv_bias || c.gate_rank < 1 || c.rate_rank < 1 ||
      layer.output_gate != (c.output_gate_rank > 0)) {
    return refuse("shifted inputs beside convolutions, biases, shared keys or full ranks",
                  "neither");
  }
  return {};
}

/// What a recurrence's options exclude.
Status check_recurrence(const LayerSpec& layer) {
  const RecurrenceSpec& c = layer.recurrence();
  const auto refuse = [](const char* what, const char* expected) {
    return fail(ErrorCode::unsupported, what, ", expected ", expected);
  };
  const bool slots = c.num_memory_slots > 0;
  if (slots != (c.decay == Decay::running_sum)) {
    return refuse("a recurrence has memory slots without gsa.decay running_sum or the reverse",
                  "both or none");
  }
  if (c.decay_on_values && c.decay != Decay::refined) {
    return refuse("gsa.decay_on_values is true", "it only with gsa.decay refined");
  }
  if (c.lower_bound && c.decay != Decay::log_sigmoid) {
    return refuse("gsa.lower_bound is true", "it only with gsa.decay log_sigmoid");
  }
  if (c.complement_keys && (c.decay != Decay::log_sigmoid || c.gate_rank > 0)) {
    return refuse("gsa.complement_keys is true", "it only with gsa.decay log_sigmoid of full rank");
  }
  if (c.complement_keys &&
      (c.rotary || c.feature_norm_k || layer.feature_dim() != layer.head_k_dim)) {
    return refuse("gsa.complement_keys is true beside a map or rotation of the keys", "neither");
  }
  if (slots && (c.normalizer || layer.feature_dim() != layer.head_k_dim ||
                c.feature_map == FeatureMap::exponential)) {
    return refuse("a recurrence with slots has a normalizer or a widening map", "neither");
  }
  if (c.feature_map == FeatureMap::exponential && c.decay != Decay::refined) {
    return refuse("gsa.feature_map is exponential", "it only with gsa.decay refined");
  }
  if (c.decay == Decay::refined && c.feature_map != FeatureMap::exponential) {
    return refuse("gsa.decay is refined", "it only with gsa.feature_map exponential");
  }
  if (c.normalizer && (c.decay_on_values || c.decay == Decay::refined)) {
    return refuse("gsa.normalizer is true beside a refined decay", "another decay");
  }
  if (c.rotary && (layer.head_k_dim % 2 != 0 || layer.feature_dim() != layer.head_k_dim)) {
    return refuse("gsa.rotary is true with an odd gsa.head_k_dim or a widening map",
                  "pairs of channels");
  }
  if (c.gate_rank > 0 && !c.has_gate()) {
    return refuse("gsa.gate_rank is above 0 without a gate", "0");
  }
  RUNNEL_CHECK_OK(check_removal(layer));
  if (layer.output_gate && layer.output_norm == OutputNorm::none && c.removal == Removal::none) {
    return refuse("gsa.output_gate is true without gsa.output_norm", "both");
  }
  const bool clamp = c.gate_logit_min != 0 || c.gate_logit_max != 0;
  RUNNEL_CHECK_OK(check_float("gsa.gate_logit_min", c.gate_logit_min, true, "a finite number"));
  return check_float("gsa.gate_logit_max", c.gate_logit_max,
                     !clamp || c.gate_logit_min < c.gate_logit_max,
                     "a finite number above gsa.gate_logit_min");
}

Status check_channel_mix(const LayerSpec& c) {
  const bool there = c.channel_mix != ChannelMix::none;
  if (c.channel_shift != 0 && c.channel_mix != ChannelMix::squared_relu) {
    return fail(ErrorCode::unsupported,
                "the channel mix has shifted inputs, expected them with a squared ReLU only");
  }
  if (there == (c.intermediate_size > 0)) return {};
  return fail(ErrorCode::malformed, "gsa.intermediate_size is ", c.intermediate_size,
              there ? ", expected 1 to 1048576" : ", expected 0 without a channel mix");
}

Status check_layer(const LayerSpec& c) {
  RUNNEL_CHECK_OK(check_key_ranges(c));
  switch (c.kind()) {
    case Mixer::slots:
      RUNNEL_CHECK_OK(check_slots(c));
      break;
    case Mixer::recurrence:
      RUNNEL_CHECK_OK(check_recurrence(c));
      break;
  }
  RUNNEL_CHECK_OK(check_channel_mix(c));
  if (c.num_heads % c.num_kv_heads != 0) {
    return fail(ErrorCode::malformed, "gsa.num_heads is ", c.num_heads,
                ", expected a multiple of gsa.num_kv_heads ", c.num_kv_heads);
  }
  constexpr std::int64_t kMaxChannels = 1 << 20;
  const MixerSpec& m = c.common();
  RUNNEL_CHECK_OK(
      check_product("gsa.num_heads * gsa.head_k_dim", c.num_heads, c.head_k_dim, kMaxChannels));
  RUNNEL_CHECK_OK(
      check_product("gsa.num_heads * gsa.head_v_dim", c.num_heads, c.head_v_dim, kMaxChannels));
  RUNNEL_CHECK_OK(
      check_product("gsa.num_heads * features", c.num_heads, c.feature_dim(), kMaxChannels));
  RUNNEL_CHECK_OK(check_product("gsa.num_kv_heads * gsa.num_memory_slots", c.num_kv_heads,
                                m.num_memory_slots, kMaxChannels));
  RUNNEL_CHECK_OK(check_float("gsa.scale", m.scale, true, "a finite number"));
  RUNNEL_CHECK_OK(check_float("gsa.gate_normalizer", m.gate_normalizer, m.gate_normalizer > 0,
                              "a finite number above 0"));
  RUNNEL_CHECK_OK(check_float("gsa.gate_log_min", m.gate_log_min, m.gate_log_min <= 0,
                              "a finite number, negative or 0 for none"));
  RUNNEL_CHECK_OK(check_eps("gsa.norm_eps", c.norm.eps));
  RUNNEL_CHECK_OK(check_eps("gsa.norm_eps", c.channel_norm.eps));
  RUNNEL_CHECK_OK(check_eps("gsa.g_norm_eps", c.output_norm_eps));
  return check_float("gsa.rope_theta", m.rope_theta, m.rope_theta > 1, "a finite number above 1");
}

/// Layers mix their values with those of one earlier layer of the same width.
Status check_first_values(const ModelConfig& config) {
  const LayerSpec* first = nullptr;
  for (const LayerSpec& layer : config.layers) {
    if (layer.kind() != Mixer::recurrence) continue;
    const RecurrenceSpec& r = layer.recurrence();
    if (r.first_values && (first != nullptr || r.value_rank > 0)) {
      return fail(ErrorCode::unsupported, "layer ", layer.index,
                  " keeps its values for later layers, expected one layer that does");
    }
    if (r.first_values) first = &layer;
    if (r.value_rank == 0) continue;
    if (first == nullptr || first->v_channels() != layer.v_channels()) {
      return fail(ErrorCode::unsupported, "layer ", layer.index, " mixes ", layer.v_channels(),
                  " values with those of an earlier layer, expected one with as many");
    }
  }
  return {};
}

/// A pass computes the angles of a token once, for all layers that turn by them.
Status check_rotations(const ModelConfig& config) {
  const LayerSpec* first = nullptr;
  const LayerSpec* first_sinks = nullptr;
  for (const LayerSpec& layer : config.layers) {
    if (!layer.rotates()) continue;
    if (first == nullptr) first = &layer;
    if (layer.head_k_dim != first->head_k_dim ||
        layer.common().rope_theta != first->common().rope_theta) {
      return fail(ErrorCode::unsupported, "layer ", layer.index, " rotates heads of ",
                  layer.head_k_dim, " by base ", layer.common().rope_theta, ", layer ",
                  first->index, " heads of ", first->head_k_dim, " by base ",
                  first->common().rope_theta, ", expected the same in all layers that rotate");
    }
    if (layer.kind() != Mixer::slots || layer.slots().num_sink_slots == 0) continue;
    if (first_sinks == nullptr) first_sinks = &layer;
    if (layer.slots().sink_distance != first_sinks->slots().sink_distance) {
      return fail(ErrorCode::unsupported, "layer ", layer.index, " has gsa.sink_distance ",
                  layer.slots().sink_distance, ", layer ", first_sinks->index, " ",
                  first_sinks->slots().sink_distance, ", expected the same in all layers");
    }
  }
  return {};
}

}  // namespace

Status check_config(const ModelConfig& c) {
  RUNNEL_CHECK_OK(check_model_ranges(c));
  RUNNEL_CHECK_OK(check_eps("gsa.norm_eps", c.final_norm.eps));
  if (c.embedding_norm) {
    RUNNEL_CHECK_OK(check_eps("the epsilon behind the embedding", c.embedding_norm->eps));
  }
  for (const LayerSpec& layer : c.layers) {
    RUNNEL_CHECK_OK(check_layer(layer));
    for (const std::int32_t shift : {layer.mixer_shift, layer.channel_shift}) {
      if (shift == 0 || shift == c.hidden_size) continue;
      return fail(ErrorCode::malformed, "the shifted inputs of layer ", layer.index, " have ",
                  shift, " channels, expected ", c.hidden_size);
    }
  }
  RUNNEL_CHECK_OK(check_first_values(c));
  RUNNEL_CHECK_OK(check_rotations(c));
  return check_state_size(c);
}

}  // namespace runnel
