// SPDX-License-Identifier: Apache-2.0
// Model files: keys and back, every way in which a file can be wrong, and what the fingerprint sees.
#include "runtime/model/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "runtime/model/weight_table.h"
#include "tests/support/loaded_model.h"
#include "tests/support/model_files.h"
#include "tests/support/random_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using quant::BlockType;
using test::FileParts;
using ::testing::HasSubstr;

Result<ModelFile> load(const FileParts& parts) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "model.gguf";
  if (const Status s = parts.write(path); !s) return s.error();
  return test::open_model(path);  // the mapping outlives the directory
}

std::uint64_t fingerprint(const FileParts& parts) {
  const Result<ModelFile> model = load(parts);
  EXPECT_TRUE(model) << model.error().message;
  return model ? model->fingerprint : 0;
}

TEST(ModelFile, ReadsAModelWithEveryOptionalPart) {
  const Result<ModelFile> model = load(test::full_model_parts());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config.name, "zeros");
  EXPECT_EQ(model->config.layers.front().slots().num_slots(), 12);
  EXPECT_EQ(model->weights.layers.size(), 2U);
  const LayerWeights& layer = model->weights.layers[1];
  EXPECT_EQ(layer.slots().q_proj.name, "model.layers.1.attn.q_proj.weight");
  EXPECT_EQ(layer.slots().q_proj.rows, 32);
  EXPECT_EQ(layer.slots().k_conv.rows, 16);
  EXPECT_EQ(layer.slots().k_conv.cols, 4);
  EXPECT_EQ(layer.slots().read_bias.rows, 2);
  EXPECT_EQ(layer.slots().head_read_bias.rows, 1);
  EXPECT_EQ(layer.slots().head_read_bias.cols, 4);
  EXPECT_TRUE(layer.slots().feature_map.present());
  EXPECT_FALSE(model->weights.tied());
}

TEST(ModelFile, EveryNumberOfTheConfigurationComesBack) {
  ModelConfig c;
  c.name = "all of it";
  c.vocab_size = 49152;
  c.hidden_size = 576;
  c.repeat(LayerSpec(), 30);
  test::set(c, &LayerSpec::num_heads, 9);
  test::set(c, &LayerSpec::num_kv_heads, 3);
  test::set(c, &LayerSpec::head_k_dim, 64);
  test::set(c, &LayerSpec::head_v_dim, 32);
  test::set(c, &LayerSpec::intermediate_size, 1536);
  test::set(c, &MixerSpec::num_memory_slots, 63);
  test::set(c, &SlotSpec::num_sink_slots, 4);
  test::set(c, &SlotSpec::num_window_slots, 60);
  test::set(c, &SlotSpec::sink_distance, 65);
  test::set(c, &MixerSpec::rope_theta, 123456.789);
  test::set(c, &MixerSpec::scale, 0.125F);
  test::set(c, &MixerSpec::gate_normalizer, 7.5F);
  test::set(c, &MixerSpec::gate_log_min, -1.2F);
  test::set_norm_eps(c, 3e-6F);
  test::set(c, &LayerSpec::output_norm_eps, 2e-5F);
  test::set(c, &MixerSpec::feature_map, FeatureMap::relu);
  test::set(c, &SlotSpec::value_activation, Activation::identity);
  test::set(c, &LayerSpec::output_activation, Activation::relu);
  test::set(c, &LayerSpec::output_norm, OutputNorm::none);
  test::set(c, &LayerSpec::conv_size, 3);
  const test::TemporaryDirectory directory;
  GgufWriter writer;
  config_to_gguf(c, writer);
  ASSERT_TRUE(writer.write(directory.path() / "keys.gguf"));
  const auto file = GgufFile::open(directory.path() / "keys.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const Result<ModelConfig> r = config_from_gguf(**file);
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->name, c.name);
  EXPECT_EQ(r->vocab_size, c.vocab_size);
  EXPECT_EQ(r->hidden_size, c.hidden_size);
  EXPECT_EQ(r->final_norm, c.final_norm);
  EXPECT_EQ(r->layers, c.layers);
}

TEST(ModelFile, LayersOfSeveralKindsComeBack) {
  const ModelConfig c = test::mixed_config();
  const test::TemporaryDirectory directory;
  test::write_gguf(test::make_random_model(c, {.gate_bias = true}, 8),
                   directory.path() / "mixed.gguf");
  const auto file = GgufFile::open(directory.path() / "mixed.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const Result<ModelFile> r = ModelFile::from_gguf(*file);
  ASSERT_TRUE(r) << r.error().message;
  EXPECT_EQ(r->config.final_norm, c.final_norm);
  ASSERT_EQ(r->config.layers.size(), c.layers.size());
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    EXPECT_EQ(r->config.layers[i], c.layers[i]) << "layer " << i;
  }
}

TEST(ModelFile, ABiasThatOneLayerLacksIsNamed) {
  ModelConfig c = test::small_config();
  test::set(c, &LayerSpec::qkv_bias, true);
  test::RandomModel model = test::make_random_model(c, {}, 9);
  auto weights = std::make_shared<Weights>(*model.weights);
  weights->layers[1].slots().q_bias = {};
  model.weights = weights;
  const test::TemporaryDirectory directory;
  test::write_gguf(model, directory.path() / "some.gguf");
  const auto file = GgufFile::open(directory.path() / "some.gguf");
  ASSERT_TRUE(file) << file.error().message;
  const Result<ModelFile> r = ModelFile::from_gguf(*file);
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message, HasSubstr("model.layers.1.attn.q_proj.bias is missing"));
}

TEST(ModelFile, AnArrayOfAnotherLengthThanTheLayersIsRefused) {
  FileParts parts = test::full_model_parts();
  parts.keys["gsa.num_heads"] = GgufArray(std::vector<std::uint32_t>{4, 4, 4});
  const Result<ModelFile> model = load(parts);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message,
              HasSubstr("key 'gsa.num_heads' has 3 values, expected one for each of 2 layers"));
}

/// One change to a valid file, and what the message must name.
struct Case {
  const char* name;
  std::function<void(FileParts&)> change;
  const char* message;
};

std::function<void(FileParts&)> key(const char* name, GgufValue value) {
  return [name, value](FileParts& p) { p.keys[name] = value; };
}
std::function<void(FileParts&)> no_key(const char* name) {
  return [name](FileParts& p) { p.keys.erase(name); };
}
std::function<void(FileParts&)> no_tensor(const char* name) {
  return [name](FileParts& p) { p.tensors.erase(name); };
}
std::function<void(FileParts&)> shape(const char* name, std::vector<std::int64_t> s) {
  return [name, s](FileParts& p) { p.tensors[name].shape = s; };
}
std::function<void(FileParts&)> type(const char* name, BlockType t) {
  return [name, t](FileParts& p) { p.tensors[name].type = t; };
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Case> hostile_cases() {
  using S = std::string;
  const auto u32 = [](std::uint32_t v) { return GgufValue(v); };
  return {
      {"no architecture", no_key("general.architecture"), "general.architecture"},
      {"other architecture", key("general.architecture", S("llama")),
       "'llama', expected one of gsa, gla"},
      {"architecture is a number", key("general.architecture", u32(3)), "general.architecture"},
      {"control characters in the architecture", key("general.architecture", S("\x1b[2J")),
       "'\\x1b[2J'"},
      {"key missing", no_key("gsa.hidden_size"), "gsa.hidden_size"},
      {"key is text", key("gsa.hidden_size", S("32")), "gsa.hidden_size"},
      {"zero layers", key("gsa.num_layers", u32(0)), "gsa.num_layers is 0, expected 1 to"},
      {"zero hidden size", key("gsa.hidden_size", u32(0)), "gsa.hidden_size is 0"},
      {"zero heads", key("gsa.num_heads", u32(0)), "gsa.num_heads is 0"},
      {"zero kv heads", key("gsa.num_kv_heads", u32(0)), "gsa.num_kv_heads is 0"},
      {"unknown mixer", key("gsa.mixer", S("mamba")), "gsa.mixer is 'mamba', expected slots or"},
      {"a mixer of another architecture", key("gsa.mixer", S("recurrence")),
       "of architecture 'gsa'"},
      {"key of a recurrence among slots", key("gsa.decay", S("fixed")), "gsa.decay belongs to"},
      {"zero slots", key("gsa.num_memory_slots", u32(0)), "gsa.num_memory_slots is 0"},
      {"zero vocabulary", key("gsa.vocab_size", u32(0)), "gsa.vocab_size is 0"},
      {"negative layers", key("gsa.num_layers", std::int32_t{-1}), "gsa.num_layers is -1"},
      {"negative window", key("gsa.num_window_slots", std::int64_t{-60}), "gsa.num_window_slots"},
      {"huge hidden size", key("gsa.hidden_size", u32(0xffffffffU)),
       "gsa.hidden_size is 4294967295"},
      {"huge number", key("gsa.vocab_size", std::numeric_limits<std::uint64_t>::max()),
       "gsa.vocab_size"},
      {"huge window", key("gsa.num_window_slots", u32(1U << 30)), "gsa.num_window_slots is"},
      {"more layers than the file has", key("gsa.num_layers", u32(4000)), "model.layers.2."},
      {"fewer layers than the file has", key("gsa.num_layers", u32(1)), "model.layers.1."},
      {"heads no multiple of kv heads", key("gsa.num_heads", u32(5)),
       "gsa.num_heads is 5, expected a multiple of gsa.num_kv_heads 2"},
      {"heads times dim too large",
       [](FileParts& p) {
         p.keys["gsa.num_heads"] = std::uint32_t{4096};
         p.keys["gsa.head_k_dim"] = std::uint32_t{16384};
       },
       "gsa.num_heads * gsa.head_k_dim is 67108864"},
      {"slots times heads too large",
       [](FileParts& p) {
         p.keys["gsa.num_heads"] = std::uint32_t{4096};
         p.keys["gsa.num_kv_heads"] = std::uint32_t{4096};
         p.keys["gsa.num_memory_slots"] = std::uint32_t{16384};
       },
       "gsa.num_kv_heads * gsa.num_memory_slots"},
      {"state of terabytes",
       [](FileParts& p) {
         p.keys["gsa.num_layers"] = std::uint32_t{4096};
         p.keys["gsa.num_window_slots"] = std::uint32_t{16384};
         p.keys["gsa.head_v_dim"] = std::uint32_t{16384};
       },
       "is too large"},
      {"odd head with rotary slots", key("gsa.head_k_dim", u32(7)), "gsa.head_k_dim is 7"},
      {"sink farther than its distance", key("gsa.sink_distance", u32(1)),
       "gsa.sink_distance is 1"},
      {"scale not finite", key("gsa.scale", kNan), "gsa.scale is nan"},
      {"scale beyond f32", key("gsa.scale", 1e300), "gsa.scale is inf"},
      {"gate normalizer zero", key("gsa.gate_normalizer", 0.0F), "gsa.gate_normalizer is 0"},
      {"gate normalizer negative", key("gsa.gate_normalizer", -8.0F), "gsa.gate_normalizer is -8"},
      {"gate floor positive", key("gsa.gate_log_min", 0.5F), "gsa.gate_log_min is 0.5"},
      {"gate floor infinite", key("gsa.gate_log_min", -kInfinity), "gsa.gate_log_min is -inf"},
      {"eps zero", key("gsa.norm_eps", 0.0F), "gsa.norm_eps is 0"},
      {"eps negative", key("gsa.g_norm_eps", -1e-5F), "gsa.g_norm_eps"},
      {"rope base zero", key("gsa.rope_theta", 0.0), "gsa.rope_theta is 0"},
      {"rope base missing", no_key("gsa.rope_theta"), "gsa.rope_theta"},
      {"unknown feature map", key("gsa.feature_map", S("exp")), "gsa.feature_map is 'exp'"},
      {"unknown activation", key("gsa.output_activation", S("gelu")),
       "gsa.output_activation is 'gelu'"},
      {"flag is a number", key("gsa.output_norm", u32(1)), "gsa.output_norm"},
      {"key of a later version", key("gsa.num_experts", u32(8)), "gsa.num_experts"},
      {"embeddings missing", no_tensor("model.embeddings.weight"),
       "tensor model.embeddings.weight is missing, expected shape [16, 32]"},
      {"final norm missing", no_tensor("model.norm.weight"), "model.norm.weight is missing"},
      {"head missing though not tied", no_tensor("lm_head.weight"), "lm_head.weight is missing"},
      {"head there though tied", key("gsa.tie_word_embeddings", true), "lm_head.weight"},
      {"projection missing", no_tensor("model.layers.1.mlp.up_proj.weight"),
       "model.layers.1.mlp.up_proj.weight is missing"},
      {"conv missing", no_tensor("model.layers.0.attn.v_conv1d.weight"),
       "v_conv1d.weight is missing"},
      {"t2r map missing", no_tensor("model.layers.0.attn.feature_map.layer.weight"),
       "feature_map.layer.weight is missing"},
      {"bias missing in one layer", no_tensor("model.layers.1.attn.f_proj.bias"),
       "model.layers.1.attn.f_proj.bias is missing, in layer 0 it is there"},
      {"conv that the keys deny", key("gsa.conv_size", u32(0)), "conv1d.weight has no place"},
      {"g_norm that the keys deny", key("gsa.output_norm", false), "g_norm.weight has no place"},
      {"tensor of another model", shape("model.layers.0.attn.g_proj.weight", {32, 32}),
       "model.layers.0.attn.g_proj.weight has no place"},
      {"control characters in a tensor name", shape("evil\x1b[2J", {1}), "evil\\x1b[2J"},
      {"transposed weight", shape("model.layers.0.mlp.down_proj.weight", {64, 32}),
       "down_proj.weight has shape [64, 32], expected [32, 64]"},
      {"norm of wrong length", shape("model.layers.0.attn_norm.weight", {31}),
       "attn_norm.weight has shape [31], expected [32]"},
      {"vector as matrix", shape("model.norm.weight", {1, 32}), "has shape [1, 32], expected [32]"},
      {"three dimensions", shape("model.layers.0.attn.q_conv1d.weight", {32, 1, 4}),
       "has shape [32, 1, 4], expected [32, 4]"},
      {"vocabulary larger than the table", key("gsa.vocab_size", u32(17)),
       "model.embeddings.weight has shape [16, 32], expected [17, 32]"},
      {"norm in 16 bit", type("model.norm.weight", BlockType::f16),
       "model.norm.weight is stored as f16, a norm or bias is expected as f32"},
      {"quantised gate", type("model.layers.0.attn.f_proj.weight", BlockType::q8_0),
       "f_proj.weight is stored as q8_0, a gate weight is expected as f32, f16 or bf16"},
      {"integers as weights", type("model.layers.0.attn.q_proj.weight", BlockType::i8),
       "q_proj.weight is stored as i8"},
  };
}

TEST(ModelFile, EveryHostileFileIsAnErrorThatNamesTheCause) {
  for (const Case& c : hostile_cases()) {
    FileParts parts = test::full_model_parts();
    c.change(parts);
    const Result<ModelFile> model = load(parts);
    ASSERT_FALSE(model) << c.name;
    EXPECT_THAT(model.error().message, HasSubstr(c.message)) << c.name;
    EXPECT_TRUE(model.error().code == ErrorCode::malformed ||
                model.error().code == ErrorCode::unsupported ||
                model.error().code == ErrorCode::not_found)
        << c.name << ": " << to_string(model.error().code);
  }
}

/// The keys of a small model of the family, without its tensors.
FileParts family_keys(const char* name) {
  const test::TemporaryDirectory directory;
  GgufWriter writer;
  config_to_gguf(test::family_config(name), writer);
  EXPECT_TRUE(writer.write(directory.path() / "keys.gguf"));
  const auto file = GgufFile::open(directory.path() / "keys.gguf");
  FileParts parts;
  if (!file) return parts;
  for (const auto& [key, value] : (*file)->metadata()) parts.keys[std::string(key)] = value;
  return parts;
}

TEST(ModelFile, OptionsThatAFamilysMixerDoesNotHaveAreRefusedByName) {
  using S = std::string;
  struct FamilyCase {
    const char* family;
    std::function<void(FileParts&)> change;
    const char* message;
  };
  const FamilyCase cases[] = {
      {"gla", key("gsa.mixer", S("mamba")), "gsa.mixer is 'mamba', expected slots or recurrence"},
      {"gla", key("gsa.mixer", S("slots")), "expected slots for gsa and recurrence for the others"},
      {"gla", key("gsa.decay", S("delta")),
       "gsa.decay is 'delta', expected none, fixed, log_sigmoid, refined, running_sum or softplus"},
      {"gla", key("gsa.feature_map", S("taylor")),
       "gsa.feature_map is 'taylor', expected identity"},
      {"gla", key("gsa.decay_on_values", true), "gsa.decay_on_values is true"},
      {"gla", key("gsa.complement_keys", true), "gsa.complement_keys is true"},
      {"gla", key("gsa.num_memory_slots", std::uint32_t{8}), "a recurrence has memory slots"},
      {"gla", key("gsa.num_window_slots", std::uint32_t{8}),
       "a recurrence has window or sink slots"},
      {"gla", key("gsa.num_experts", std::uint32_t{8}), "gsa.num_experts"},
      {"retnet", key("gsa.lower_bound", true), "gsa.lower_bound is true"},
      {"retnet", key("gsa.gate_rank", std::uint32_t{4}), "gsa.gate_rank is above 0 without a gate"},
      {"regla", key("gsa.feature_map", S("relu")), "gsa.decay is refined"},
      {"regla", key("gsa.normalizer", true), "gsa.normalizer is true beside a refined decay"},
      {"abc", key("gsa.decay", S("log_sigmoid")), "gsa.decay running_sum"},
  };
  for (const FamilyCase& c : cases) {
    FileParts parts = family_keys(c.family);
    c.change(parts);
    const Result<ModelFile> model = load(parts);
    ASSERT_FALSE(model) << c.message;
    EXPECT_THAT(model.error().message, HasSubstr(c.message)) << c.family;
  }
}

TEST(ModelFile, NoFileIsAnError) { EXPECT_FALSE(ModelFile::from_gguf(nullptr)); }

TEST(ModelFile, AHeadMayBeTiedByLeavingItOut) {
  FileParts parts = test::full_model_parts();
  parts.tensors.erase("lm_head.weight");
  parts.keys["gsa.tie_word_embeddings"] = true;
  const Result<ModelFile> tied = load(parts);
  ASSERT_TRUE(tied) << tied.error().message;
  EXPECT_TRUE(tied->weights.tied());
  parts.keys.erase("gsa.tie_word_embeddings");
  EXPECT_TRUE(load(parts));
}

TEST(ModelFile, SinksMayBeWithoutAWindow) {
  FileParts parts = test::full_model_parts();
  parts.keys["gsa.num_window_slots"] = std::uint32_t{0};
  const Result<ModelFile> model = load(parts);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->window.file_slots, 0);
  EXPECT_GT(model->config.layers[0].slots().num_sink_slots, 0);
}

TEST(Fingerprint, SeesWeightsTypesConfigurationAndTokenizer) {
  const FileParts base = test::full_model_parts();
  const std::uint64_t before = fingerprint(base);
  EXPECT_EQ(fingerprint(base), before);

  const auto changed = [&](const std::function<void(FileParts&)>& change) {
    FileParts parts = base;
    change(parts);
    return fingerprint(parts);
  };
  EXPECT_NE(changed(key("gsa.scale", 0.5F)), before);
  EXPECT_NE(changed(key("tokenizer.ggml.tokens", GgufArray(std::vector<std::string>{"a", "b"}))),
            before);
  EXPECT_NE(changed(type("model.layers.1.attn.o_proj.weight", BlockType::f16)), before);
  EXPECT_NE(changed([](FileParts& p) {
              auto& data = p.tensors["model.layers.1.mlp.down_proj.weight"].data;
              data.assign(32 * 64 * 4, std::byte{0});
              data.back() = std::byte{1};
            }),
            before);
}

TEST(Fingerprint, DoesNotSeeTheName) {
  FileParts parts = test::full_model_parts();
  const std::uint64_t before = fingerprint(parts);
  parts.keys["general.name"] = std::string("renamed");
  parts.keys["general.license"] = std::string("apache-2.0");
  EXPECT_EQ(fingerprint(parts), before);
}

}  // namespace
}  // namespace runnel
