// SPDX-License-Identifier: Apache-2.0
#include "tests/backend/ops_alone_cases.h"

#include <algorithm>

#include "quant/formats.h"
#include "runtime/base/try.h"
#include "tests/support/random_blocks.h"
#include "tests/support/shapes.h"

namespace runnel::test {
namespace {

using quant::BlockType;

/// On both sides of the kernels' limits: single tokens, few, more than 16, more than a chunk.
const std::vector<std::size_t> kAnyTokens = {1, 2, 3, 17, 65};
const std::vector<std::size_t> kFewerTokens = {1, 3, 17};

ModelConfig one_layer(ModelConfig c) {
  c.repeat(LayerSpec(c.layers.front()), 1);
  c.vocab_size = 61;
  return c;
}

ModelConfig without_channel_mix(ModelConfig c) {
  set(c, &LayerSpec::channel_mix, ChannelMix::none);
  set(c, &LayerSpec::intermediate_size, 0);
  return c;
}

/// Rows of the least blocks that the type has, and of an odd number of values without blocks.
ModelConfig odd_shape(ModelConfig c, BlockType type) {
  c = one_layer(std::move(c));
  const std::int64_t block = quant::format_of(type).block_values;
  const bool mixed = c.layers.front().channel_mix != ChannelMix::none;
  if (block == 1) {
    set_widths(c, 51, 77);
    set_heads(c, 3, 1, 10, 23);
  } else if (block == quant::kSuperBlock) {
    set_widths(c, 256, 256);
    set_heads(c, 8, 8, 10, 32);
  } else {
    set_widths(c, 96, 160);
    set_heads(c, 3, 1, 10, 32);
  }
  set_memory(c, 13);
  return mixed ? c : without_channel_mix(std::move(c));
}

/// Rows that lanes load in whole blocks, the last step not all of them.
ModelConfig wide_shape(ModelConfig c) {
  c = one_layer(std::move(c));
  const bool mixed = c.layers.front().channel_mix != ChannelMix::none;
  set_widths(c, 1280, 256);
  set_heads(c, 4, 2, mixed ? 2 : 32, 64);
  set_memory(c, 16);
  return mixed ? c : without_channel_mix(std::move(c));
}

RandomParts parts_of(BlockType type) {
  const bool blocks = quant::is_block_type(type);
  return {.linear = type, .small = blocks ? BlockType::f16 : type};
}

void set_layer_norms(ModelConfig& c) {
  for (LayerSpec& l : c.layers) l.norm.kind = l.channel_norm.kind = Norm::layer;
  c.final_norm.kind = Norm::layer;
}

/// What a recurrence's projections and outputs need, without what makes units of two ops.
ModelConfig recurrence_config() {
  ModelConfig c = without_channel_mix(family_config("regla"));  // has f and r
  set(c, &LayerSpec::output_gate, true);
  return c;
}

struct Variant {
  const char* name;
  void (*apply)(OpCase&);
};

const Variant kAsItIs{"", [](OpCase&) {}};
const Variant kLayerNorm{" layer norm", [](OpCase& c) { set_layer_norms(c.config); }};
const Variant kBiases{" biases", [](OpCase& c) { set(c.config, &LayerSpec::qkv_bias, true); }};

/// All types on odd rows, and on wide ones; with every one of `variants` on the former.
std::vector<OpCase> of_all_types(const ModelConfig& base, const std::vector<Variant>& variants) {
  std::vector<OpCase> cases;
  for (const BlockType type : quant::weight_formats()) {
    const std::string name(quant::format_of(type).name);
    if (!quant::format_of(type).has_kernels) {  // what it is repacked to has all cases
      cases.push_back({name + " odd", odd_shape(base, type), parts_of(type), type, kFewerTokens});
      continue;
    }
    for (const Variant& vary : variants) {
      OpCase c{name + " odd" + vary.name, odd_shape(base, type), parts_of(type), type, kAnyTokens};
      vary.apply(c);
      cases.push_back(std::move(c));
    }
    cases.push_back({name + " wide", wide_shape(base), parts_of(type), type, kFewerTokens});
  }
  return cases;
}

void use_type_for_table(std::vector<OpCase>& cases) {
  for (OpCase& c : cases) c.parts.table = c.type;
}

/// Slots of every kind; one, three and seven queries of a kv head.
std::vector<OpCase> slot_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](const char* name, const ModelConfig& c, RandomParts parts = {},
                       bool dear = false) {
    cases.push_back(
        {name, one_layer(without_channel_mix(c)), parts, BlockType::f32, kAnyTokens, dear});
  };
  const RandomParts biased{.gate_bias = true, .read_biases = true};
  ModelConfig c = small_config();
  set_heads(c, 2, 2, 16);
  add("memory, 1 query", c, {}, true);
  c = odd_shape(small_config(), BlockType::f32);
  add("memory, 3 queries, odd dims", c, biased);
  c = small_config();
  set_heads(c, 14, 2, 16);
  set(c, &MixerSpec::feature_map, FeatureMap::relu);
  set(c, &SlotSpec::value_activation, Activation::relu);
  add("memory, 7 queries, relu", c, {}, true);
  set(c, &MixerSpec::feature_map, FeatureMap::t2r);
  add("memory, t2r", c, {.small = BlockType::bf16});
  c = small_positional_config();
  add("window and sinks", c, biased, true);
  set_heads(c, 7, 1, 24, 13);
  set_positional(c, 3, 9, 5);
  add("sinks as far as 5", c, biased);
  set_positional(c, 0, 5, 0);
  add("window alone", c, {}, true);
  set_positional(c, 4, 0, 6);
  set(c, &LayerSpec::qkv_bias, true);
  add("sinks and memory", c);
  c = small_positional_config();
  set_memory(c, 0);
  add("no memory", c);
  c = small_positional_config();
  set_default_mixer(c);
  add("135M", c, biased, true);
  set_heads(c, 14, 2, 64);
  set_positional(c, 4, 252, 256);
  set_memory(c, 128);
  add("0.5B", c, biased);
  c = small_config();
  set(c, &MixerSpec::gate_normalizer, 0.05F);  // log alpha of -100 and beyond
  add("strong gates", c, {}, true);
  return cases;
}

std::vector<OpCase> family_cases(std::initializer_list<const char*> names) {
  std::vector<OpCase> cases;
  for (const char* name : names) {
    cases.push_back({name, one_layer(family_config(name)), {}, BlockType::f32, kAnyTokens});
  }
  return cases;
}

/// Removals with square states, as kernels that take many tokens at a time want them.
void add_whole_heads(std::vector<OpCase>& cases, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    for (const int width : {64, 128}) {
      ModelConfig c = one_layer(family_config(name));
      set(c, &LayerSpec::conv_size, 0);
      set_heads(c, 2, 2, width, width);
      cases.push_back({std::string(name) + ", heads of " + std::to_string(width),
                       c,
                       {},
                       BlockType::f32,
                       kAnyTokens});
    }
  }
}

std::vector<OpCase> recurrence_cases() {
  std::vector<OpCase> cases = family_cases(
      {"retnet", "linear", "dpfp", "t2r_map", "abc", "regla", "regla_key", "delta_net"});
  ModelConfig shared = one_layer(family_config("gated_deltanet"));
  set(shared, &LayerSpec::conv_size, 0);
  cases.push_back({"shared keys", shared, {}, BlockType::f32, kAnyTokens});
  set_heads(shared, 6, 6, 20, 70);
  set(shared, &RecurrenceSpec::values_per_key, 3);
  cases.push_back({"shared keys, odd dims", shared, {}, BlockType::f32, kAnyTokens});
  add_whole_heads(cases, {"delta_net", "gated_deltanet"});
  for (const auto& [queries, name] : {std::pair{1, "linear, 1 query"}, {7, "linear, 7 queries"}}) {
    ModelConfig c = family_config("linear");
    set_heads(c, 2 * queries, 2, 20, 36);
    cases.push_back({name, one_layer(c), {}, BlockType::f32, kAnyTokens});
  }
  // Gates without r, a floor and a bound, in the form of its own ops.
  ModelConfig c = family_config("regla_key");
  RecurrenceSpec& r = c.layers.front().recurrence();
  r.decay = Decay::log_sigmoid;
  r.feature_map = FeatureMap::swish;
  r.gate_normalizer = 4.0F;
  r.gate_log_min = -0.5F;
  r.lower_bound = true;
  cases.push_back({"log sigmoid, swish, 2 queries", one_layer(c), {}, BlockType::f32, kAnyTokens});
  return cases;
}

/// The same layers beside matrices of 16 bits.
void add_sixteen_bits(std::vector<OpCase>& cases) {
  const std::size_t n = cases.size();
  for (std::size_t i = 0; i < n; ++i) {
    OpCase c = cases[i];
    c.name += ", bf16";
    c.parts.linear = c.type = BlockType::bf16;
    cases.push_back(std::move(c));
  }
}

std::vector<OpCase> conv_cases() {
  ModelConfig c = one_layer(small_config());
  set(c, &LayerSpec::conv_size, 4);
  std::vector<OpCase> cases{{"conv", c, {}, BlockType::f32, kAnyTokens}};
  set(c, &MixerSpec::feature_map, FeatureMap::t2r);
  set(c, &LayerSpec::qkv_bias, true);
  cases.push_back(
      {"conv, t2r, biases", c, {.small = BlockType::f16}, BlockType::f16, kAnyTokens, true});
  return cases;
}

std::vector<OpCase> output_cases() {
  const std::vector<Variant> of_slots = {
      kAsItIs, {" no norm", [](OpCase& c) {
                  set(c.config, &LayerSpec::output_norm, OutputNorm::none);
                  set(c.config, &LayerSpec::output_activation, Activation::relu);
                }}};
  std::vector<OpCase> cases = of_all_types(without_channel_mix(small_config()), of_slots);
  const std::vector<OpCase> gated = of_all_types(recurrence_config(), {kAsItIs});
  for (OpCase c : gated) {
    c.name += " gated heads";
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace

std::vector<Unit> all_units() {
  return {Unit::embed,
          Unit::embedding_norm,
          Unit::slot_projections,
          Unit::slot_attention,
          Unit::slot_projections_and_attention,
          Unit::recurrence_projections,
          Unit::shifted_projections,
          Unit::gated_recurrence,
          Unit::recurrence_projections_and_recurrence,
          Unit::gated_recurrence_and_output,
          Unit::output_projection,
          Unit::gated_mlp,
          Unit::squared_relu_mlp,
          Unit::shifted_squared_relu_mlp,
          Unit::logits};
}

std::string name_of(Unit unit) {
  switch (unit) {
    case Unit::embed:
      return "embed";
    case Unit::embedding_norm:
      return "embedding_norm";
    case Unit::slot_projections:
      return "slot_projections";
    case Unit::slot_attention:
      return "slot_attention";
    case Unit::slot_projections_and_attention:
      return "slot_projections_and_slot_attention";
    case Unit::recurrence_projections:
      return "recurrence_projections";
    case Unit::shifted_projections:
      return "shifted_projections";
    case Unit::gated_recurrence:
      return "gated_recurrence";
    case Unit::recurrence_projections_and_recurrence:
      return "recurrence_projections_and_gated_recurrence";
    case Unit::gated_recurrence_and_output:
      return "gated_recurrence_and_output_projection";
    case Unit::output_projection:
      return "output_projection";
    case Unit::gated_mlp:
      return "gated_mlp";
    case Unit::squared_relu_mlp:
      return "squared_relu_mlp";
    case Unit::shifted_squared_relu_mlp:
      return "shifted_squared_relu_mlp";
    case Unit::logits:
      return "logits";
  }
  return "";
}

std::vector<PassBuffer> inputs_of(Unit unit, const ModelConfig& config) {
  using B = PassBuffer;
  std::vector<B> all;
  switch (unit) {
    case Unit::slot_attention:
      all = {B::q, B::k, B::v, B::f};
      break;
    case Unit::gated_recurrence:
      all = {B::q, B::k, B::v, B::f, B::r};
      break;
    case Unit::gated_recurrence_and_output:
      all = {B::q, B::k, B::v, B::f, B::r, B::gate};
      break;
    case Unit::output_projection:
      all = {B::o, B::gate};
      break;
    case Unit::shifted_projections:
      if (config.layers.front().recurrence().value_rank > 0) all = {B::first_v};
      break;
    case Unit::embed:
    case Unit::embedding_norm:
    case Unit::slot_projections:
    case Unit::slot_projections_and_attention:
    case Unit::recurrence_projections:
    case Unit::recurrence_projections_and_recurrence:
    case Unit::gated_mlp:
    case Unit::squared_relu_mlp:
    case Unit::shifted_squared_relu_mlp:
    case Unit::logits:
      break;
  }
  std::erase_if(all,
                [&](B b) { return columns_of(b, config.layers.front(), config.hidden_size) == 0; });
  return all;
}

std::vector<PassBuffer> outputs_of(Unit unit, const ModelConfig& config) {
  using B = PassBuffer;
  std::vector<B> all;
  switch (unit) {
    case Unit::embed:
    case Unit::embedding_norm:
      all = {B::x};
      break;
    case Unit::slot_projections:
      all = {B::q, B::k, B::v, B::f};
      break;
    case Unit::recurrence_projections:
      all = {B::q, B::k, B::v, B::f, B::r, B::gate};
      break;
    case Unit::shifted_projections:
      all = {B::q, B::k, B::v, B::f, B::r, B::gate};
      if (config.layers.front().recurrence().first_values) all.push_back(B::first_v);
      break;
    case Unit::recurrence_projections_and_recurrence:
      all = {B::o, B::gate};
      break;
    case Unit::slot_attention:
    case Unit::slot_projections_and_attention:
    case Unit::gated_recurrence:
      all = {B::o};
      break;
    case Unit::gated_recurrence_and_output:
    case Unit::output_projection:
    case Unit::gated_mlp:
    case Unit::squared_relu_mlp:
    case Unit::shifted_squared_relu_mlp:
    case Unit::logits:
      break;
  }
  std::erase_if(all,
                [&](B b) { return columns_of(b, config.layers.front(), config.hidden_size) == 0; });
  return all;
}

bool advances_state(Unit unit) {
  switch (unit) {
    case Unit::slot_attention:
    case Unit::slot_projections_and_attention:
    case Unit::gated_recurrence:
    case Unit::recurrence_projections_and_recurrence:
    case Unit::gated_recurrence_and_output:
    case Unit::shifted_projections:
    case Unit::shifted_squared_relu_mlp:
      return true;
    case Unit::embed:
    case Unit::embedding_norm:
    case Unit::slot_projections:
    case Unit::recurrence_projections:
    case Unit::output_projection:
    case Unit::gated_mlp:
    case Unit::squared_relu_mlp:
    case Unit::logits:
      return false;
  }
  return false;
}

bool adds_to_x(Unit unit) {
  switch (unit) {
    case Unit::gated_recurrence_and_output:
    case Unit::output_projection:
    case Unit::gated_mlp:
    case Unit::squared_relu_mlp:
    case Unit::shifted_squared_relu_mlp:
      return true;
    case Unit::embed:
    case Unit::embedding_norm:
    case Unit::shifted_projections:
    case Unit::slot_projections:
    case Unit::slot_attention:
    case Unit::slot_projections_and_attention:
    case Unit::recurrence_projections:
    case Unit::gated_recurrence:
    case Unit::recurrence_projections_and_recurrence:
    case Unit::logits:
      return false;
  }
  return false;
}

Status record_unit(Unit unit, Ops& ops, const ModelConfig& config, const Weights& weights) {
  const LayerSpec& layer = config.layers.front();
  const LayerWeights& w = weights.layers.front();
  RUNNEL_CHECK_OK(ops.embed(weights.embeddings));
  switch (unit) {
    case Unit::embed:
      return {};
    case Unit::embedding_norm:
      return ops.embedding_norm(*config.embedding_norm, weights.embedding_norm);
    case Unit::slot_projections:
      return ops.slot_projections(layer, w.slots());
    case Unit::slot_attention:
      return ops.slot_attention(layer, w.slots());
    case Unit::slot_projections_and_attention:
      RUNNEL_CHECK_OK(ops.slot_projections(layer, w.slots()));
      return ops.slot_attention(layer, w.slots());
    case Unit::recurrence_projections:
      return ops.recurrence_projections(layer, w.recurrence());
    case Unit::shifted_projections:
      return ops.shifted_projections(layer, w.recurrence());
    case Unit::gated_recurrence:
      return ops.gated_recurrence(layer, w.recurrence());
    case Unit::recurrence_projections_and_recurrence:
      RUNNEL_CHECK_OK(ops.recurrence_projections(layer, w.recurrence()));
      return ops.gated_recurrence(layer, w.recurrence());
    case Unit::gated_recurrence_and_output:
      RUNNEL_CHECK_OK(ops.gated_recurrence(layer, w.recurrence()));
      return ops.output_projection(layer, w.output);
    case Unit::output_projection:
      return ops.output_projection(layer, w.output);
    case Unit::gated_mlp:
      return ops.gated_mlp(layer, w.channel_mix);
    case Unit::squared_relu_mlp:
    case Unit::shifted_squared_relu_mlp:
      return ops.squared_relu_mlp(layer, w.channel_mix);
    case Unit::logits:
      return ops.logits(config.final_norm, weights.final_norm, weights.head);
  }
  return {};
}

namespace {

/// The first layer, which keeps its values, and the second, which mixes its own with them; of every type.
std::vector<OpCase> shifted_cases() {
  std::vector<OpCase> cases;
  for (const char* name : {"rwkv7", "arwkv7"}) {
    const ModelConfig base = family_config(name);
    for (const BlockType type : quant::weight_formats()) {
      const quant::BlockTraits& format = quant::format_of(type);
      if (format.block_values > base.hidden_size) continue;
      ModelConfig c = one_layer(base);
      cases.push_back({std::string(name) + " first, " + std::string(format.name), c, parts_of(type),
                       type, kFewerTokens});
      c.layers = {base.layers[1]};
      c.layers.front().index = 0;
      cases.push_back({std::string(name) + " later, " + std::string(format.name), c, parts_of(type),
                       type, kFewerTokens});
    }
  }
  return cases;
}

std::vector<OpCase> all_cases(Unit unit) {
  const ModelConfig slots = without_channel_mix(small_config());
  switch (unit) {
    case Unit::embed: {
      std::vector<OpCase> cases = of_all_types(slots, {kAsItIs});
      use_type_for_table(cases);
      return cases;
    }
    case Unit::logits: {
      std::vector<OpCase> cases = of_all_types(slots, {kAsItIs, kLayerNorm});
      use_type_for_table(cases);
      return cases;
    }
    case Unit::slot_projections:
      return of_all_types(slots, {kBiases, kLayerNorm});
    case Unit::recurrence_projections:
      return of_all_types(recurrence_config(), {kBiases, kLayerNorm});
    case Unit::output_projection:
      return output_cases();
    case Unit::gated_mlp:
      return of_all_types(small_config(), {kAsItIs, kLayerNorm});
    case Unit::squared_relu_mlp: {
      ModelConfig c = small_config();
      set(c, &LayerSpec::channel_mix, ChannelMix::squared_relu);
      return of_all_types(c, {kAsItIs, kLayerNorm});
    }
    case Unit::embedding_norm: {
      ModelConfig c = one_layer(without_channel_mix(small_config()));
      c.embedding_norm = {.kind = Norm::layer, .eps = 1e-5F};
      std::vector<OpCase> cases{{"layer norm", c, {}, BlockType::f32, kFewerTokens}};
      c.embedding_norm->kind = Norm::rms;
      cases.push_back({"rms", c, {}, BlockType::f32, kFewerTokens});
      return cases;
    }
    case Unit::shifted_projections:
      return shifted_cases();
    case Unit::shifted_squared_relu_mlp: {
      ModelConfig c = small_config();
      set(c, &LayerSpec::channel_mix, ChannelMix::squared_relu);
      std::vector<OpCase> cases = of_all_types(c, {kAsItIs, kLayerNorm});
      for (OpCase& each : cases)
        set(each.config, &LayerSpec::channel_shift, each.config.hidden_size);
      return cases;
    }
    case Unit::slot_attention:
      return slot_cases();
    case Unit::gated_recurrence:
      return recurrence_cases();
    case Unit::gated_recurrence_and_output: {
      std::vector<OpCase> cases = family_cases({"elu", "hedgehog", "rwkv7", "arwkv7"});
      add_whole_heads(cases, {"rwkv7"});
      return cases;
    }
    case Unit::recurrence_projections_and_recurrence:
      return family_cases({"gla", "gla_conv", "hgrn2", "abc_conv", "gated_deltanet"});
    case Unit::slot_projections_and_attention:
      return conv_cases();
  }
  return {};
}

}  // namespace

std::vector<OpCase> cases_of(Unit unit, Extent extent) {
  std::vector<OpCase> cases = all_cases(unit);
  switch (extent) {
    case Extent::all:
      break;
    case Extent::matrix_units:
      if (advances_state(unit)) add_sixteen_bits(cases);
      break;
    case Extent::few_shapes:
      std::erase_if(cases, [](const OpCase& c) { return c.dear; });
      break;
  }
  return cases;
}

}  // namespace runnel::test
