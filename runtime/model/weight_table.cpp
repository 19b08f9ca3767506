// SPDX-License-Identifier: Apache-2.0
// Tensor names are those of the fla-hub checkpoints, so that a converted file can be compared by name.
#include "runtime/model/weight_table.h"

#include <iterator>

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
    case WeightRole::low_rank:
      return "gate weight";
    case WeightRole::small:
      return "conv or feature-map weight";
    case WeightRole::vector:
      return "norm or bias";
  }
  return "tensor";
}

bool role_allows(WeightRole role, BlockType type) {
  switch (role) {
    case WeightRole::embedding:
    case WeightRole::matrix:
    case WeightRole::wide_gate:
    case WeightRole::low_rank:
      return quant::is_block_type(type) || quant::is_float_type(type);
    case WeightRole::gate:
    case WeightRole::small:
      return quant::is_float_type(type);
    case WeightRole::vector:
      return type == BlockType::f32;
  }
  return false;
}

std::string allowed_types(WeightRole role) {
  switch (role) {
    case WeightRole::embedding:
    case WeightRole::matrix:
    case WeightRole::wide_gate:
    case WeightRole::low_rank:
      return quant::format_names(quant::is_weight);
    case WeightRole::gate:
    case WeightRole::small:
      return "f32, f16 or bf16";
    case WeightRole::vector:
      return "f32";
  }
  return "f32";
}

LayerWeights empty_weights(const LayerSpec& layer) {
  LayerWeights w;
  switch (layer.kind()) {
    case Mixer::slots:
      w.mixer.emplace<SlotWeights>();
      break;
    case Mixer::recurrence:
      w.mixer.emplace<RecurrenceWeights>();
      break;
  }
  return w;
}

namespace {

using W = LayerWeights;
using R = WeightRole;
constexpr Presence kRequired = Presence::required;
constexpr Presence kOptional = Presence::optional;

Presence when(bool there, Presence p = Presence::required) { return there ? p : Presence::absent; }

// Where a tensor lies.
using View = WeightView& (*)(LayerWeights&);
template <auto kMember>
WeightView& projection(W& w) {
  return w.projections().*kMember;
}
template <auto kMember>
WeightView& of_slots(W& w) {
  return w.slots().*kMember;
}
template <auto kMember>
WeightView& of_recurrence(W& w) {
  return w.recurrence().*kMember;
}
template <auto kMember>
WeightView& of_output(W& w) {
  return w.output.*kMember;
}
template <auto kMember>
WeightView& of_mix(W& w) {
  return w.channel_mix.*kMember;
}

/// What is asked of a layer's gate.
struct Gate {
  WeightRole role;
  Presence bias;
  std::int64_t inputs;
};

Gate gate_of(const LayerSpec& c, std::int64_t d) {
  switch (c.kind()) {
    case Mixer::slots:
      return {R::gate, kOptional, d};
    case Mixer::recurrence:
      break;
  }
  const RecurrenceSpec& r = c.recurrence();
  const bool every_channel = r.gate_rank == 0 && c.gate_dim() > 1 && r.num_memory_slots == 0;
  Gate gate{every_channel ? R::wide_gate : R::gate, kOptional, r.gate_rank > 0 ? r.gate_rank : d};
  switch (r.decay) {
    case Decay::none:
    case Decay::fixed:
    // A running sum has no bias in any model: absent, so that a file with one is refused.
    case Decay::running_sum:
      gate.bias = Presence::absent;
      break;
    case Decay::log_sigmoid:
      break;
    case Decay::bounded:
      gate.role = R::low_rank;
      gate.bias = kRequired;
      break;
    case Decay::softplus:
    case Decay::refined:
      gate.bias = kRequired;
      break;
  }
  return gate;
}

/// What a recurrence projects besides q, k, v and f.
void add_recurrence_gates(const LayerSpec& c, std::int64_t d, WeightRole gate,
                          std::vector<LayerTensor>& table) {
  using P = RecurrenceWeights;
  const RecurrenceSpec& r = c.recurrence();
  const std::int64_t gates = c.gate_channels(), rates = c.rate_channels();
  const bool delta = r.removal == Removal::delta, own_key = r.removal == Removal::own_key;
  const R role = own_key ? R::low_rank : delta ? R::gate : gate;
  table.push_back({"attn.r_proj.weight",
                   of_recurrence<&P::r_proj>,
                   role,
                   when(rates > 0),
                   {rates, r.rate_rank > 0 ? r.rate_rank : d}});
  table.push_back({"attn.r_proj.bias",
                   of_recurrence<&P::r_bias>,
                   R::vector,
                   when(rates > 0 && !delta),
                   {rates}});
  table.push_back({"attn.log_rate",
                   of_recurrence<&P::log_rate>,
                   R::vector,
                   when(r.decay == Decay::softplus),
                   {c.num_kv_heads}});
  table.push_back({"attn.lower_bound",
                   of_recurrence<&P::lower_bound>,
                   R::vector,
                   when(c.recurrence().lower_bound),
                   {gates}});
  const std::int64_t rank = r.output_gate_rank;
  table.push_back({"attn.g_proj.weight",
                   of_recurrence<&P::out_gate>,
                   rank > 0 ? R::low_rank : R::matrix,
                   when(c.output_gate),
                   {c.o_channels(), rank > 0 ? rank : d}});
}

/// What a removal of its own key, a bonus and shifted projections have.
void add_shifted(const LayerSpec& c, std::int64_t d, std::vector<LayerTensor>& table) {
  using P = RecurrenceWeights;
  const RecurrenceSpec& r = c.recurrence();
  const Presence own_key = when(r.removal == Removal::own_key), mixed = when(r.value_rank > 0);
  const Presence gated = when(r.output_gate_rank > 0);
  const std::int64_t keys = std::int64_t{c.num_kv_heads} * c.head_k_dim;
  const LayerTensor more[] = {
      {"attn.removal_key", of_recurrence<&P::removal_key>, R::vector, own_key, {keys}},
      {"attn.key_rate", of_recurrence<&P::key_rate>, R::vector, own_key, {keys}},
      {"attn.bonus", of_recurrence<&P::bonus>, R::vector, when(r.bonus), {c.q_channels()}},
      {"attn.lerp",
       of_recurrence<&P::lerp>,
       R::vector,
       when(c.mixer_shift > 0),
       {c.shifted_inputs(), d}},
      {"attn.r_down.weight",
       of_recurrence<&P::r_down>,
       R::low_rank,
       when(r.rate_rank > 0),
       {r.rate_rank, d}},
      {"attn.g_down.weight",
       of_recurrence<&P::out_gate_down>,
       R::low_rank,
       gated,
       {r.output_gate_rank, d}},
      {"attn.v_down.weight", of_recurrence<&P::v_down>, R::low_rank, mixed, {r.value_rank, d}},
      {"attn.v_mix.weight",
       of_recurrence<&P::v_mix>,
       R::low_rank,
       mixed,
       {c.v_channels(), r.value_rank}},
      {"attn.v_mix.bias", of_recurrence<&P::v_mix_bias>, R::vector, mixed, {c.v_channels()}},
  };
  table.insert(table.end(), std::begin(more), std::end(more));
}

void add_recurrence_maps(const LayerSpec& c, std::vector<LayerTensor>& table) {
  using P = RecurrenceWeights;
  const std::int64_t dim = c.head_k_dim;
  const FeatureMap map = c.recurrence().feature_map;
  const Presence map2 = when(map == FeatureMap::product);
  const Presence bias = when(map == FeatureMap::product || map == FeatureMap::hedgehog);
  const Presence maps = when(bias == kRequired || map == FeatureMap::t2r);
  const LayerTensor more[] = {
      {"attn.q_map.weight", of_recurrence<&P::q_map>, R::gate, maps, {dim, dim}},
      {"attn.q_map.bias", of_recurrence<&P::q_map_bias>, R::vector, bias, {dim}},
      {"attn.q_map2.weight", of_recurrence<&P::q_map2>, R::gate, map2, {dim, dim}},
      {"attn.q_map2.bias", of_recurrence<&P::q_map2_bias>, R::vector, map2, {dim}},
      {"attn.k_map.weight", of_recurrence<&P::k_map>, R::gate, maps, {dim, dim}},
      {"attn.k_map.bias", of_recurrence<&P::k_map_bias>, R::vector, bias, {dim}},
      {"attn.k_map2.weight", of_recurrence<&P::k_map2>, R::gate, map2, {dim, dim}},
      {"attn.k_map2.bias", of_recurrence<&P::k_map2_bias>, R::vector, map2, {dim}},
  };
  table.insert(table.end(), std::begin(more), std::end(more));
}

void add_slots(const LayerSpec& c, std::vector<LayerTensor>& table) {
  using P = SlotWeights;
  const std::int64_t dim = c.head_k_dim, kv_heads = c.num_kv_heads;
  const LayerTensor more[] = {
      {"attn.feature_map.layer.weight",
       of_slots<&P::feature_map>,
       R::small,
       when(c.slots().feature_map == FeatureMap::t2r),
       {dim, dim}},
      {"attn.read_bias",
       of_slots<&P::read_bias>,
       R::vector,
       kOptional,
       {kv_heads, c.slots().num_memory_slots}},
      {"attn.head_read_bias", of_slots<&P::head_read_bias>, R::vector, kOptional, {c.num_heads}},
  };
  table.insert(table.end(), std::begin(more), std::end(more));
}

void add_channel_mix(const LayerSpec& c, std::int64_t d, std::vector<LayerTensor>& table) {
  using P = ChannelMixWeights;
  const std::int64_t inner = c.intermediate_size;
  const bool there = c.channel_mix != ChannelMix::none;
  const LayerTensor more[] = {
      {"mlp_norm.weight",
       [](W& w) -> WeightView& { return w.channel_mix.norm.weight; },
       R::vector,
       when(there),
       {d}},
      {"mlp_norm.bias",
       [](W& w) -> WeightView& { return w.channel_mix.norm.bias; },
       R::vector,
       when(there && c.channel_norm.kind == Norm::layer),
       {d}},
      {"mlp.lerp", of_mix<&P::lerp>, R::vector, when(c.channel_shift > 0), {d}},
      {"mlp.gate_proj.weight",
       of_mix<&P::gate_proj>,
       R::matrix,
       when(c.channel_mix == ChannelMix::swiglu),
       {inner, d}},
      {"mlp.up_proj.weight", of_mix<&P::up_proj>, R::matrix, when(there), {inner, d}},
      {"mlp.down_proj.weight", of_mix<&P::down_proj>, R::matrix, when(there), {d, inner}},
  };
  table.insert(table.end(), std::begin(more), std::end(more));
}

}  // namespace

std::vector<LayerTensor> layer_tensors(const LayerSpec& c, std::int32_t hidden_size) {
  using P = ProjectionWeights;
  const std::int64_t d = hidden_size, taps = c.conv_size, gates = c.gate_channels();
  const std::int64_t q = c.q_channels(), k = c.k_channels(), v = c.v_channels();
  const bool recurrence = c.kind() == Mixer::recurrence;
  const bool keys = !recurrence || !c.recurrence().complement_keys;
  const Presence conv = when(c.conv_size > 0), bias = when(c.qkv_bias);
  const Gate gate = gate_of(c, d);
  std::vector<LayerTensor> table = {
      {"attn_norm.weight",
       [](W& w) -> WeightView& { return w.projections().norm.weight; },
       R::vector,
       kRequired,
       {d}},
      {"attn_norm.bias",
       [](W& w) -> WeightView& { return w.projections().norm.bias; },
       R::vector,
       when(c.norm.kind == Norm::layer),
       {d}},
      {"attn.q_proj.weight", projection<&P::q_proj>, R::matrix, kRequired, {q, d}},
      {"attn.q_proj.bias", projection<&P::q_bias>, R::vector, bias, {q}},
      {"attn.k_proj.weight", projection<&P::k_proj>, R::matrix, when(keys), {k, d}},
      {"attn.k_proj.bias", projection<&P::k_bias>, R::vector, when(keys, bias), {k}},
      {"attn.v_proj.weight", projection<&P::v_proj>, R::matrix, kRequired, {v, d}},
      {"attn.v_proj.bias", projection<&P::v_bias>, R::vector, bias, {v}},
  };
  if (recurrence && c.recurrence().gate_rank > 0) {
    table.push_back({"attn.f_down.weight",
                     of_recurrence<&RecurrenceWeights::f_down>,
                     gate.role == R::low_rank ? gate.role : R::gate,
                     kRequired,
                     {gate.inputs, d}});
  }
  table.push_back({"attn.f_proj.weight",
                   projection<&P::f_proj>,
                   gate.role,
                   when(gates > 0),
                   {gates, gate.inputs}});
  table.push_back(
      {"attn.f_proj.bias", projection<&P::f_bias>, R::vector, when(gates > 0, gate.bias), {gates}});
  if (recurrence) {
    add_recurrence_gates(c, d, gate.role, table);
    add_shifted(c, d, table);
  }
  table.push_back({"attn.q_conv1d.weight", projection<&P::q_conv>, R::small, conv, {q, taps}});
  table.push_back({"attn.k_conv1d.weight", projection<&P::k_conv>, R::small, conv, {k, taps}});
  table.push_back({"attn.v_conv1d.weight", projection<&P::v_conv>, R::small, conv, {v, taps}});
  switch (c.kind()) {
    case Mixer::slots:
      add_slots(c, table);
      break;
    case Mixer::recurrence:
      add_recurrence_maps(c, table);
      break;
  }
  table.push_back({"attn.g_norm.weight",
                   of_output<&OutputWeights::g_norm>,
                   R::vector,
                   c.output_norm == OutputNorm::groups
                       ? kRequired
                       : when(c.output_norm != OutputNorm::none, kOptional),
                   {c.output_norm == OutputNorm::heads ? c.head_v_dim : c.o_channels()}});
  table.push_back({"attn.g_norm.bias",
                   of_output<&OutputWeights::g_norm_bias>,
                   R::vector,
                   when(c.output_norm == OutputNorm::groups),
                   {c.o_channels()}});
  table.push_back({"attn.o_proj.weight",
                   of_output<&OutputWeights::o_proj>,
                   R::matrix,
                   kRequired,
                   {d, c.o_channels()}});
  add_channel_mix(c, d, table);
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
