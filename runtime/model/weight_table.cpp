// SPDX-License-Identifier: Apache-2.0
// Tensor names are those of the fla-hub checkpoints, so that a converted file can be compared by name.
#include "runtime/model/weight_table.h"

namespace runnel {

using quant::BlockType;

const char* to_string(WeightRole role) {
  switch (role) {
    case WeightRole::embedding:
      return "embedding";
    case WeightRole::matrix:
      return "linear weight";
    case WeightRole::gate:
    case WeightRole::wide_gate:
      return "gate weight";
    case WeightRole::small:
      return "conv or feature-map weight";
    case WeightRole::vector:
      return "norm or bias";
  }
  return "tensor";
}

bool role_allows(WeightRole role, BlockType type) {
  switch (type) {
    case BlockType::f32:
      return true;
    case BlockType::f16:
    case BlockType::bf16:
      return role != WeightRole::vector;
    case BlockType::q4_0:
    case BlockType::q8_0:
    case BlockType::q4_k:
    case BlockType::q6_k:
      return role == WeightRole::embedding || role == WeightRole::matrix ||
             role == WeightRole::wide_gate;
    case BlockType::i8:
    case BlockType::i32:
      return false;
  }
  return false;
}

const char* allowed_types(WeightRole role) {
  switch (role) {
    case WeightRole::embedding:
    case WeightRole::matrix:
    case WeightRole::wide_gate:
      return "f32, f16, bf16, q8_0, q4_0, q4_k or q6_k";
    case WeightRole::gate:
    case WeightRole::small:
      return "f32, f16 or bf16";
    case WeightRole::vector:
      return "f32";
  }
  return "f32";
}

std::vector<LayerTensor> layer_tensors(const ModelConfig& c) {
  const std::int64_t d = c.hidden_size;
  const std::int64_t intermediate = c.intermediate_size;
  const std::int64_t kv_heads = c.num_kv_heads;
  const std::int64_t gates = kv_heads * c.gate_dim();
  const std::int64_t q = std::int64_t{c.num_heads} * c.head_k_dim;
  const std::int64_t k = kv_heads * c.head_k_dim;
  const std::int64_t v = kv_heads * c.head_v_dim;
  const std::int64_t o = std::int64_t{c.num_heads} * c.head_v_dim;
  const std::int64_t taps = c.conv_size;
  const std::int64_t dim = c.head_k_dim;

  using W = LayerWeights;
  using R = WeightRole;
  constexpr Presence kRequired = Presence::required;
  constexpr Presence kOptional = Presence::optional;
  const auto when = [](bool there, Presence p = Presence::required) {
    return there ? p : Presence::absent;
  };
  const bool slots = c.mixer == Mixer::slots;
  const bool recurrence = c.mixer == Mixer::recurrence;
  const bool refined = recurrence && c.decay == Decay::refined;
  const Presence conv = when(c.conv_size > 0);
  const FeatureMap map = c.feature_map;
  const Presence maps = when(recurrence && (map == FeatureMap::t2r || map == FeatureMap::product ||
                                            map == FeatureMap::hedgehog));
  const Presence map_bias =
      when(recurrence && (map == FeatureMap::product || map == FeatureMap::hedgehog));
  const Presence map2 = when(recurrence && map == FeatureMap::product);
  const R gate = recurrence && c.gate_rank == 0 && c.num_memory_slots == 0 ? R::wide_gate : R::gate;
  // The running sum has no bias in any model: absent, so that a file with one is refused.
  const Presence f_bias =
      refined ? kRequired : when(c.has_gate() && c.decay != Decay::running_sum, kOptional);
  std::vector<LayerTensor> table = {
      {"attn_norm.weight", &W::attn_norm, R::vector, kRequired, {d}},
      {"attn.q_proj.weight", &W::q_proj, R::matrix, kRequired, {q, d}},
      {"attn.k_proj.weight", &W::k_proj, R::matrix, when(!c.complement_keys), {k, d}},
      {"attn.v_proj.weight", &W::v_proj, R::matrix, kRequired, {v, d}},
      {"attn.f_down.weight", &W::f_down, R::gate, when(c.gate_rank > 0), {c.gate_rank, d}},
      {"attn.f_proj.weight",
       &W::f_proj,
       gate,
       when(c.has_gate()),
       {gates, c.gate_rank > 0 ? c.gate_rank : d}},
      {"attn.f_proj.bias", &W::f_bias, R::vector, f_bias, {gates}},
      {"attn.r_proj.weight", &W::r_proj, gate, when(refined), {gates, d}},
      {"attn.r_proj.bias", &W::r_bias, R::vector, when(refined), {gates}},
      {"attn.lower_bound", &W::lower_bound, R::vector, when(c.lower_bound), {gates}},
      {"attn.g_proj.weight", &W::out_gate, R::matrix, when(c.output_gate), {o, d}},
      {"attn.q_conv1d.weight", &W::q_conv, R::small, conv, {q, taps}},
      {"attn.k_conv1d.weight", &W::k_conv, R::small, conv, {k, taps}},
      {"attn.v_conv1d.weight", &W::v_conv, R::small, conv, {v, taps}},
      {"attn.feature_map.layer.weight",
       &W::feature_map,
       R::small,
       when(slots && map == FeatureMap::t2r),
       {dim, dim}},
      {"attn.q_map.weight", &W::q_map, R::gate, maps, {dim, dim}},
      {"attn.q_map.bias", &W::q_map_bias, R::vector, map_bias, {dim}},
      {"attn.q_map2.weight", &W::q_map2, R::gate, map2, {dim, dim}},
      {"attn.q_map2.bias", &W::q_map2_bias, R::vector, map2, {dim}},
      {"attn.k_map.weight", &W::k_map, R::gate, maps, {dim, dim}},
      {"attn.k_map.bias", &W::k_map_bias, R::vector, map_bias, {dim}},
      {"attn.k_map2.weight", &W::k_map2, R::gate, map2, {dim, dim}},
      {"attn.k_map2.bias", &W::k_map2_bias, R::vector, map2, {dim}},
      {"attn.read_bias",
       &W::read_bias,
       R::vector,
       when(slots, kOptional),
       {kv_heads, c.num_memory_slots}},
      {"attn.head_read_bias", &W::head_read_bias, R::vector, when(slots, kOptional), {c.num_heads}},
      {"attn.g_norm.weight",
       &W::g_norm,
       R::vector,
       when(c.output_norm, kOptional),
       {c.output_norm_heads ? c.head_v_dim : o}},
      {"attn.o_proj.weight", &W::o_proj, R::matrix, kRequired, {d, o}},
      {"mlp_norm.weight", &W::mlp_norm, R::vector, kRequired, {d}},
      {"mlp.gate_proj.weight", &W::gate_proj, R::matrix, kRequired, {intermediate, d}},
      {"mlp.up_proj.weight", &W::up_proj, R::matrix, kRequired, {intermediate, d}},
      {"mlp.down_proj.weight", &W::down_proj, R::matrix, kRequired, {d, intermediate}},
  };
  std::erase_if(table, [](const LayerTensor& t) { return t.presence == Presence::absent; });
  return table;
}

std::string layer_prefix(std::int32_t layer) {
  return "model.layers." + std::to_string(layer) + ".";
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace runnel
