// SPDX-License-Identifier: Apache-2.0
// Tensor names are those of the fla-hub checkpoints, so that a converted file can be compared by
// name.
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
      return role == WeightRole::embedding || role == WeightRole::matrix;
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
  const std::int64_t slots = c.num_memory_slots;
  const std::int64_t q = std::int64_t{c.num_heads} * c.head_k_dim;
  const std::int64_t k = kv_heads * c.head_k_dim;
  const std::int64_t v = kv_heads * c.head_v_dim;
  const std::int64_t o = std::int64_t{c.num_heads} * c.head_v_dim;
  const std::int64_t taps = c.conv_size;

  using W = LayerWeights;
  using R = WeightRole;
  constexpr Presence kRequired = Presence::required;
  constexpr Presence kOptional = Presence::optional;
  const Presence conv = c.conv_size > 0 ? kRequired : Presence::absent;
  const Presence map = c.feature_map == FeatureMap::t2r ? kRequired : Presence::absent;
  const Presence g_norm = c.output_norm ? kOptional : Presence::absent;
  return {
      {"attn_norm.weight", &W::attn_norm, R::vector, kRequired, {d}},
      {"attn.q_proj.weight", &W::q_proj, R::matrix, kRequired, {q, d}},
      {"attn.k_proj.weight", &W::k_proj, R::matrix, kRequired, {k, d}},
      {"attn.v_proj.weight", &W::v_proj, R::matrix, kRequired, {v, d}},
      {"attn.f_proj.weight", &W::f_proj, R::gate, kRequired, {kv_heads * slots, d}},
      {"attn.f_proj.bias", &W::f_bias, R::vector, kOptional, {kv_heads * slots}},
      {"attn.q_conv1d.weight", &W::q_conv, R::small, conv, {q, taps}},
      {"attn.k_conv1d.weight", &W::k_conv, R::small, conv, {k, taps}},
      {"attn.v_conv1d.weight", &W::v_conv, R::small, conv, {v, taps}},
      {"attn.feature_map.layer.weight",
       &W::feature_map,
       R::small,
       map,
       {c.head_k_dim, c.head_k_dim}},
      {"attn.read_bias", &W::read_bias, R::vector, kOptional, {kv_heads, slots}},
      {"attn.head_read_bias", &W::head_read_bias, R::vector, kOptional, {c.num_heads}},
      {"attn.g_norm.weight", &W::g_norm, R::vector, g_norm, {o}},
      {"attn.o_proj.weight", &W::o_proj, R::matrix, kRequired, {d, o}},
      {"mlp_norm.weight", &W::mlp_norm, R::vector, kRequired, {d}},
      {"mlp.gate_proj.weight", &W::gate_proj, R::matrix, kRequired, {intermediate, d}},
      {"mlp.up_proj.weight", &W::up_proj, R::matrix, kRequired, {intermediate, d}},
      {"mlp.down_proj.weight", &W::down_proj, R::matrix, kRequired, {d, intermediate}},
  };
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
