// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's config.json means, and what of it is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/model/hf_checkpoint.h"

namespace runnel {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json gsa_7b() {
  return Json::parse(R"({"model_type": "gsa", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_heads": 32, "num_kv_heads": 8, "num_slots": 64, "intermediate_size": 14336,
    "norm_eps": 1e-5, "vocab_size": 32000, "clamp_min": null, "use_output_gate": true,
    "max_position_embeddings": 32768, "pad_token_id": 2, "attn": null})");
}

Json runnel_gsa() {
  return Json::parse(R"({"model_type": "runnel_gsa", "hidden_size": 576, "num_hidden_layers": 30,
    "num_heads": 9, "num_kv_heads": 3, "head_dim": 64, "intermediate_size": 1536,
    "vocab_size": 49152, "norm_eps": 1e-5, "hidden_act": "swish", "tie_word_embeddings": true,
    "num_sink_slots": 4, "num_window_slots": 60, "num_memory_slots": 64, "sink_distance": 64,
    "rope_theta": 100000.0, "gate_logit_normalizer": 8.0, "gate_log_min": -1.2,
    "feature_map": "identity", "scale": 0.125, "output_activation": "identity",
    "use_output_norm": false})");
}

TEST(HfConfig, ReadsThe7BAndIgnoresWhatItsLayerIgnores) {
  const Result<HfConfig> r = parse_hf_config(gsa_7b().dump());
  ASSERT_TRUE(r) << r.error().message;
  const ModelConfig& m = r->model;
  const LayerSpec& c = m.layers.front();
  EXPECT_EQ(c.head_k_dim, 128);
  EXPECT_EQ(c.head_v_dim, 128);
  EXPECT_EQ(c.num_kv_heads, 8);
  EXPECT_EQ(c.common().num_memory_slots, 64);
  EXPECT_EQ(c.slots().num_positional_slots(), 0);
  EXPECT_EQ(c.common().scale, 1.0F);
  EXPECT_EQ(c.common().gate_normalizer, 8.0F);
  EXPECT_EQ(c.common().gate_log_min, 0.0F);
  EXPECT_EQ(m.final_norm.eps, 1e-5F);
  EXPECT_EQ(c.output_norm_eps, 1e-5F);
  EXPECT_EQ(c.common().feature_map, FeatureMap::swish);
  EXPECT_EQ(c.slots().value_activation, Activation::swish);
  EXPECT_EQ(c.output_activation, Activation::swish);
  EXPECT_EQ(c.output_norm, OutputNorm::channels);
  EXPECT_EQ(c.conv_size, 0);
  EXPECT_TRUE(r->g_norm_weight);
  EXPECT_FALSE(r->tied);
}

TEST(HfConfig, AnEmptyGsaConfigurationHasTheClassDefaults) {
  const Result<HfConfig> r = parse_hf_config(R"({"model_type": "gsa"})");
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->model.hidden_size, 2048);
  EXPECT_EQ(r->model.num_layers(), 24);
  EXPECT_EQ(r->model.layers.front().num_kv_heads, 4);
  EXPECT_EQ(r->model.layers.front().head_k_dim, 512);
  EXPECT_EQ(r->model.layers.front().common().num_memory_slots, 64);
  EXPECT_EQ(r->model.layers.front().intermediate_size, 5632);
  EXPECT_EQ(r->model.final_norm.eps, 1e-6F);
  EXPECT_EQ(r->model.layers.front().output_norm_eps, 1e-5F);
  EXPECT_EQ(r->model.vocab_size, 32000);
}

TEST(HfConfig, DerivedSizesFollowTheTrainingCode) {
  const auto model = [](const char* key, Json value, Json base = gsa_7b()) {
    base[key] = std::move(value);
    const Result<HfConfig> r = parse_hf_config(base.dump());
    EXPECT_TRUE(r) << r.error().message;
    return r ? r->model.layers.front() : LayerSpec{};
  };
  EXPECT_EQ(model("num_slots", nullptr).common().num_memory_slots, 128);  // as many as key channels
  EXPECT_EQ(model("num_kv_heads", nullptr).num_kv_heads, 32);
  EXPECT_EQ(model("expand_k", 0.5).head_k_dim, 64);
  EXPECT_EQ(model("exapnd_k", 0.5).head_k_dim, 64);
  EXPECT_EQ(model("expand_v", 2).head_v_dim, 256);
  EXPECT_EQ(model("intermediate_size", nullptr).intermediate_size, 11008);
  Json d2560 = gsa_7b();
  d2560.update({{"hidden_size", 2560}, {"num_heads", 5}, {"num_kv_heads", 5}});
  EXPECT_EQ(model("intermediate_size", nullptr, d2560).intermediate_size, 6912);
  Json both = gsa_7b();
  both["exapnd_k"] = 0.25;
  EXPECT_EQ(model("expand_k", 0.5, both).head_k_dim, 64);  // the right spelling wins
  Json conv = gsa_7b();
  conv["use_short_conv"] = true;
  EXPECT_EQ(model("conv_size", nullptr, conv).conv_size, 4);
  EXPECT_EQ(model("conv_size", 4).conv_size, 0);  // without use_short_conv
}

TEST(HfConfig, ReadsTheModelWithSinksAndWindow) {
  const Result<HfConfig> r = parse_hf_config(runnel_gsa().dump());
  ASSERT_TRUE(r) << r.error().message;
  const ModelConfig& m = r->model;
  const LayerSpec& c = m.layers.front();
  EXPECT_EQ(c.slots().num_slots(), 128);
  EXPECT_EQ(c.slots().sink_distance, 64);
  EXPECT_EQ(c.common().rope_theta, 100000.0);
  EXPECT_EQ(c.common().gate_log_min, -1.2F);
  EXPECT_EQ(c.common().feature_map, FeatureMap::identity);
  EXPECT_EQ(c.slots().value_activation, Activation::identity);
  EXPECT_EQ(c.output_activation, Activation::identity);
  EXPECT_EQ(c.output_norm, OutputNorm::none);
  EXPECT_EQ(c.common().scale, 0.125F);
  EXPECT_TRUE(r->tied);
  EXPECT_TRUE(r->slot_biases);
}

TEST(HfConfig, RefusesByNameWhatCannotBeRun) {
  struct Case {
    const char* key;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {"model_type", "liger_gsa", "model_type is 'liger_gsa', expected one of gsa, gla"},
      {"model_type", nullptr, "model_type is missing"},
      {"attn", {{"layers", {1, 3}}, {"num_heads", 32}}, "attn is {"},
      {"attnres_block_size", 4, "attnres_block_size is 4"},
      {"hidden_act", "powlu", "hidden_act is 'powlu'"},
      {"conv_bias", true, "conv_bias is true"},
      {"use_rope", true, "use_rope is true"},
      {"quantization_config", {{"bits", 4}}, "quantization_config is"},
      {"feature_map", "elu", "feature_map is 'elu'"},
      {"feature_map", "identity", "feature_map is 'identity'"},
      {"hidden_size", "big", "hidden_size is \"big\", expected a whole number"},
      {"hidden_size", 4096.5, "hidden_size is 4096.5"},
      {"hidden_size", -4096, "expand_k"},
      {"hidden_size", 1e300, "hidden_size is 1e+300"},
      {"num_heads", 0, "num_heads 0"},
      {"num_heads", 31, "num_heads 31"},
      {"num_kv_heads", 5, "gsa.num_heads is 32, expected a multiple of gsa.num_kv_heads 5"},
      {"num_hidden_layers", 0, "gsa.num_layers is 0"},
      {"num_hidden_layers", 1000000, "gsa.num_layers is 1000000"},
      {"expand_k", 0.0, "expand_k is 0"},
      {"expand_k", 1e9, "expand_k is 1e+09"},
      {"hidden_ratio", -1, nullptr},
      {"norm_eps", "1e-5", "norm_eps is \"1e-5\", expected a finite number"},
      {"norm_eps", 0, "gsa.norm_eps is 0"},
      {"gate_logit_normalizer", 0, "gsa.gate_normalizer is 0"},
      {"use_short_conv", 1, "use_short_conv is 1, expected true or false"},
      {"tie_word_embeddings", "no", "tie_word_embeddings is \"no\""},
      {"vocab_size", true, "vocab_size is true"},
  };
  for (const Case& c : cases) {
    Json json = gsa_7b();
    json[c.key] = c.value;
    const Result<HfConfig> r = parse_hf_config(json.dump());
    if (c.message == nullptr) {
      EXPECT_TRUE(r) << c.key;  // not used when intermediate_size is there
      continue;
    }
    ASSERT_FALSE(r) << c.key << " " << c.value;
    EXPECT_THAT(r.error().message, HasSubstr(c.message));
  }
  for (const char* text : {"", "[]", "{", "null", "{\"model_type\": \"gsa\"", "\xff\xfe"}) {
    EXPECT_FALSE(parse_hf_config(text)) << text;
  }
}

ModelConfig defaults_of(const char* type) {
  const Result<HfConfig> r = parse_hf_config(Json{{"model_type", type}}.dump());
  EXPECT_TRUE(r) << r.error().message;
  return r ? r->model : ModelConfig{};
}

TEST(HfConfig, TheFamilyHasTheDefaultsOfItsClasses) {
  const ModelConfig gla = defaults_of("gla");
  EXPECT_EQ(gla.layers.front().kind(), Mixer::recurrence);
  EXPECT_EQ(gla.layers.front().head_k_dim, 256);
  EXPECT_EQ(gla.layers.front().head_v_dim, 512);
  EXPECT_EQ(gla.layers.front().recurrence().gate_rank, 16);
  EXPECT_EQ(gla.layers.front().common().gate_normalizer, 16.0F);
  EXPECT_EQ(gla.layers.front().common().scale, 0.0625F);
  EXPECT_TRUE(gla.layers.front().output_gate);
  const ModelConfig hgrn2 = defaults_of("hgrn2");
  EXPECT_EQ(hgrn2.layers.front().num_heads, 16);
  EXPECT_EQ(hgrn2.layers.front().output_norm_eps, 1e-5F);
  EXPECT_TRUE(hgrn2.layers.front().recurrence().complement_keys);
  EXPECT_TRUE(hgrn2.layers.front().recurrence().lower_bound);
  const ModelConfig retnet = defaults_of("retnet");
  EXPECT_EQ(retnet.layers.front().num_heads, 8);
  EXPECT_EQ(retnet.layers.front().head_v_dim, 512);
  EXPECT_EQ(retnet.layers.front().intermediate_size, 2816);
  EXPECT_TRUE(retnet.layers.front().recurrence().rotary);
  EXPECT_EQ(defaults_of("linear_attn").layers.front().common().feature_map, FeatureMap::product);
  const ModelConfig abc = defaults_of("abc");
  EXPECT_EQ(abc.layers.front().common().num_memory_slots, 64);
  EXPECT_EQ(abc.layers.front().recurrence().gate_logit_min, -32.0F);
  EXPECT_FALSE(defaults_of("regla").layers.front().recurrence().decay_on_values);
}

TEST(HfConfig, RefusesOptionsOfTheFamilyByName) {
  struct Case {
    const char* type;
    const char* key;
    Json value;
    const char* message;
  };
  const Case cases[] = {
      {"gla", "feature_map", "gelu", "feature_map is 'gelu', expected one of identity, swish"},
      {"gla", "clamp_min", 0.5, "gsa.gate_log_min is 0.5"},
      {"gla", "attn", {{"layers", {1}}}, "attn is {"},
      {"gla", "num_kv_heads", 3, "gsa.num_heads is 4"},
      {"hgrn2", "expand_ratio", 100, "expand_ratio is 100, expected a divisor"},
      {"retnet", "num_kv_heads", 3, "num_kv_heads is 3, expected a divisor of num_heads 8"},
      {"retnet", "feature_map", "dpfp", "feature_map is 'dpfp'"},
      {"linear_attn", "feature_map", "taylor", "feature_map is 'taylor'"},
      {"linear_attn", "output_norm", "identity", "output_norm is 'identity'"},
      {"abc", "clamp_min", 40, "gsa.gate_logit_max is 32"},
      {"abc", "num_slots", 0, "memory slots"},
      {"regla", "gate_side", "both", "gate_side is 'both', expected 'key' or 'value'"},
  };
  for (const Case& c : cases) {
    const Result<HfConfig> r =
        parse_hf_config(Json{{"model_type", c.type}, {c.key, c.value}}.dump());
    ASSERT_FALSE(r) << c.type << " " << c.key;
    EXPECT_THAT(r.error().message, HasSubstr(c.message));
  }
}

TEST(HfConfig, TheModelWithSinksNeedsEveryNumber) {
  for (const char* key : {"num_window_slots", "sink_distance", "rope_theta", "scale", "head_dim",
                          "gate_logit_normalizer", "use_output_norm", "feature_map"}) {
    Json json = runnel_gsa();
    json.erase(key);
    const Result<HfConfig> r = parse_hf_config(json.dump());
    ASSERT_FALSE(r) << key;
    EXPECT_THAT(r.error().message, HasSubstr(std::string(key) + " is missing"));
  }
}

}  // namespace
}  // namespace runnel
