// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mixer_cases.h"

#include <utility>

#include "tests/support/shapes.h"

namespace runnel::test {
namespace {

using quant::BlockType;

constexpr const char* kFamily[] = {
    "gla",       "gla_conv",  "hgrn2",          "retnet", "linear",   "elu",
    "dpfp",      "t2r_map",   "hedgehog",       "abc",    "abc_conv", "regla",
    "regla_key", "delta_net", "gated_deltanet", "rwkv7",  "arwkv7"};

/// What a layer may have besides: biases, LayerNorms, another channel mix or none; layers of several kinds.
void add_layer_cases(std::vector<MixerCase>& cases) {
  ModelConfig c = small_positional_config();
  set(c, &LayerSpec::qkv_bias, true);
  cases.push_back({"qkv_bias", c, {.tied = true, .gate_bias = true, .read_biases = true}});
  c = small_config();
  set(c, &LayerSpec::qkv_bias, true);
  set(c, &LayerSpec::conv_size, 4);
  cases.push_back({"qkv_bias_conv", c, {}});
  cases.push_back({"qkv_bias_384_slots", biased_config(), {.tied = true, .gate_bias = true}, true});
  c = family_config("gla");
  set(c, &LayerSpec::qkv_bias, true);
  cases.push_back({"qkv_bias_gla", c, {}});
  c = small_positional_config();
  for (LayerSpec& l : c.layers) l.norm.kind = l.channel_norm.kind = Norm::layer;
  c.final_norm.kind = Norm::layer;
  cases.push_back({"layer_norm", c, {}});
  c = small_config();
  set(c, &LayerSpec::channel_mix, ChannelMix::squared_relu);
  cases.push_back({"squared_relu", c, {}});
  set(c, &LayerSpec::channel_mix, ChannelMix::none);
  set(c, &LayerSpec::intermediate_size, 0);
  cases.push_back({"no_channel_mix", c, {}});
  c = small_positional_config();
  set_layers(c, 3);
  c.layers[1] = family_config("gla").layers[1];
  c.layers[2].num_heads = c.layers[2].num_kv_heads = 2;
  c.layers[2].intermediate_size = 160;
  c.layers[2].slots().num_window_slots = 3;
  cases.push_back({"layers_of_several_kinds", c, {}, true});
  cases.push_back({"mixed", mixed_config(), {}});
  c = small_config();  // states that begin at no multiple of 16 bytes
  set_layers(c, 3);
  c.layers[0] = family_config("regla_key").layers[0];
  c.layers[0].num_heads = c.layers[0].num_kv_heads = 2;
  cases.push_back({"slots_behind_770_floats", c, {}, true});
  c.layers[0].num_heads = c.layers[0].num_kv_heads = 1;
  cases.push_back({"slots_behind_385_floats", c, {}});
}

}  // namespace

ModelConfig biased_config() {
  ModelConfig c = small_positional_config();
  set(c, &LayerSpec::qkv_bias, true);
  set_heads(c, 14, 2, 64);
  set_positional(c, 4, 252, 256);
  set_memory(c, 128);
  set_widths(c, 896, 192);
  return c;
}

std::vector<MixerCase> mixer_cases() {
  std::vector<MixerCase> cases;
  const RandomParts biased{.tied = true, .gate_bias = true, .read_biases = true};
  ModelConfig c = small_config();
  cases.push_back({"plain", c, {}});
  cases.push_back({"positional", small_positional_config(), biased});
  set(c, &LayerSpec::conv_size, 4);
  cases.push_back({"conv", c, {}});
  set(c, &MixerSpec::feature_map, FeatureMap::t2r);
  cases.push_back({"conv_t2r", c, {}});
  c = small_config();
  set_heads(c, 4, 2, 24, 16);
  set(c, &MixerSpec::feature_map, FeatureMap::relu);
  cases.push_back({"wide_keys", c, {.g_norm_weight = false}});
  set_heads(c, 4, 2, 16, 40);
  cases.push_back({"wide_values", c, {}});
  set_heads(c, 4, 2, 30, 15);  // no vector loads, no tensor cores
  cases.push_back({"odd_dims", c, {}});
  c = small_positional_config();
  set_positional(c, 0, 5, 0);
  cases.push_back({"window_only", c, biased});
  c = small_positional_config();
  set_memory(c, 0);
  cases.push_back({"no_memory", c, {}});
  c = small_positional_config();  // more sinks than a register has lanes
  set_positional(c, 20, 70, 8);
  cases.push_back({"many_sinks", c, biased});
  set_positional(c, 3, 0, 8);
  cases.push_back({"sinks_and_memory", c, {}});
  c = small_config();  // more queries than one pass over the state serves
  set(c, &LayerSpec::num_heads, 10);
  cases.push_back({"five_queries", c, {}, true});
  c = small_config();  // the shapes of the models people run, narrow elsewhere
  set_heads(c, 2, 2, 512);
  set_memory(c, 64);
  cases.push_back({"heads_of_512", c, {}, true});
  set_heads(c, 8, 2, 128);
  cases.push_back({"heads_of_128", c, {}, true});
  c = small_positional_config();
  set_default_mixer(c);
  cases.push_back({"default_model", c, biased});
  set_memory(c, 100);  // more than a chunkwise tile
  cases.push_back({"many_slots", c, biased, true});
  add_layer_cases(cases);
  for (const char* name : kFamily) cases.push_back({name, family_config(name), {}});
  c = family_config("gla");  // the heads of 1.3B
  set_heads(c, 2, 2, 256, 512);
  cases.push_back({"gla_wide_heads", c, {}, true});
  for (const auto& [family, name] : {std::pair{"retnet", "retnet_wide"},
                                     {"hgrn2", "hgrn2_wide"},
                                     {"linear", "linear_wide"},
                                     {"regla", "regla_wide"},
                                     {"regla_key", "regla_key_wide"},
                                     {"abc", "abc_wide"}}) {
    c = family_config(family);  // norms and gates of whole heads, as the heads of 1.3B have them
    const RecurrenceSpec r = c.layers[0].recurrence();
    set_heads(c, 4, r.complement_keys || r.rotary ? 4 : 2, 64, 128);
    set(c, &LayerSpec::conv_size, 0);
    if (r.num_memory_slots > 0) set_memory(c, 64);
    cases.push_back({name, c, {}, true});
  }
  return cases;
}

}  // namespace runnel::test
